// vkattn::Runtime with the fault that VKATTN_TEST_FAULT names, for what a working machine never
// shows the tool.
#include "faulty_runtime.hpp"

#include <vkattn/operations.hpp>

#include <chrono>
#include <cstdlib>
#include <new>
#include <thread>

namespace vkattn {

std::string fault() {
    const char *name = std::getenv("VKATTN_TEST_FAULT");
    return name != nullptr ? name : "";
}

RunResult failedRun(vkattn_result status) {
    RunResult result;
    result.status = status;
    result.message = "faulty: " + fault();
    return result;
}

RunResult startRun() {
    if (fault() == "invalid") return failedRun(VKATTN_ERROR_INVALID_ARGUMENT);
    if (fault() == "unsupported") return failedRun(VKATTN_ERROR_UNSUPPORTED);
    if (fault() == "lost") return failedRun(VKATTN_ERROR_DEVICE_LOST);
    if (fault() == "device-memory" || fault() == "cpu-memory") return failedRun(VKATTN_ERROR_OUT_OF_HOST_MEMORY);
    if (fault() == "bad-alloc") throw std::bad_alloc();
    if (fault() == "slow") std::this_thread::sleep_for(std::chrono::seconds(60));
    RunResult result;
    result.device = "faulty";
    result.driver = "faulty";
    return result;
}

std::vector<KernelVerdict> rememberedVerdicts(const std::string &, const DeviceInfo &) {
    return fault() == "strange-device" ? std::vector<KernelVerdict>{{"future", VKATTN_VERDICT_WRONG}} : std::vector<KernelVerdict>{};
}

Runtime::Runtime() : impl_(std::make_unique<Impl>()) {}
Runtime::~Runtime() = default;

const char *deviceTypeName(DeviceType) {
    return "faulty";
}

std::vector<DeviceInfo> Runtime::devices(std::string *, PFN_vkGetInstanceProcAddr) {
    if (fault() != "strange-device") return {}; // and no reason given
    DeviceInfo device;
    device.name = "GPU \xff\xfe of \"quotes\"\n";
    device.driver = "driver \xc3";
    device.kernels = {{"staged", false, "maxStorageBuffersPerStage is 3, 4 are needed"}, {"future", true, ""}};
    return {device};
}

std::unique_ptr<Runtime> Runtime::open(const RuntimeOptions &options, OpenStatus *status, std::string *message) {
    *status = fault() == "unusable" ? OpenStatus::deviceUnusable : OpenStatus::ok;
    *message = "faulty: " + fault();
    if (*status != OpenStatus::ok) return nullptr;
    std::unique_ptr<Runtime> runtime(new Runtime());
    runtime->impl_->device.name = "faulty";
    runtime->impl_->onCpu = options.device == "cpu";
    return runtime;
}

const DeviceInfo *Runtime::device() const {
    return fault() == "cpu-memory" || impl_->onCpu ? nullptr : &impl_->device;
}
const std::string &Runtime::fallbackReason() const {
    return impl_->fallbackReason;
}
Runtime::CompileStatistics Runtime::compileStatistics() const {
    return {};
}

RunResult Runtime::run(const vkattn_problem &problem, span<const vkattn_operand_memory> operands, const RunOptions &options) {
    return run(operation(problem), operands, options);
}

RunResult Runtime::run(const vkattn_operation &operation, span<const vkattn_operand_memory> operands, const RunOptions &) {
    vkattn_diagnostic why{};
    RunResult result = startRun();
    if (result.status != VKATTN_OK) return result;
    result.status = vkattnCpuOracleOperation(&operation, operands.data(), static_cast<uint32_t>(operands.size()), &why);
    result.message = why.message;
    result.kernel = "staged";
    for (const vkattn_operand_memory &operand : operands) {
        if ((operand.role == VKATTN_OUT || operand.role == VKATTN_Y) && fault() == "wrong") static_cast<float *>(operand.data)[5] += 1;
        if (operand.role == VKATTN_LSE && fault() == "nan") static_cast<float *>(operand.data)[1] = std::strtof("nan", nullptr);
    }
    return result;
}

} // namespace vkattn
