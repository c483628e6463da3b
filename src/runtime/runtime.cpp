#include "vkattn/runtime.hpp"

#include "runtime/device.hpp"
#include "runtime/median.hpp"
#include "runtime/verdicts.hpp"
#include "runtime/warm_up.hpp"

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <new>

namespace vkattn {
namespace {

std::string lower(std::string text) {
    std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return text;
}

std::string deviceList(const std::vector<Instance::Found> &devices) {
    std::string list;
    for (const auto &found : devices)
        list += "\n  " + std::to_string(found.info.index) + "  " + found.info.name + "  (" + deviceTypeName(found.info.type) + ")";
    return list + "\n  cpu  (no Vulkan: the processor)";
}

// Returns the devices that `wanted` names, in the order to try them. The list is empty, with a
// message, where `wanted` names no device or several different ones.
std::vector<const Instance::Found *> choose(const std::vector<Instance::Found> &devices, const std::string &wanted, std::string &message) {
    std::vector<const Instance::Found *> matches;
    if (wanted.empty()) {
        for (const auto &found : devices) matches.push_back(&found);
        return matches;
    }
    if (wanted.find_first_not_of("0123456789") == std::string::npos) {
        if (wanted.size() <= 9 && std::stoul(wanted) < devices.size()) return {&devices[std::stoul(wanted)]};
        message = "there is no device " + wanted + "; the devices are:" + deviceList(devices);
        return {};
    }
    const std::string name = lower(wanted);
    for (const auto &found : devices) {
        if (lower(found.info.name) == name) return {&found};
        if (lower(found.info.name).find(name) != std::string::npos) matches.push_back(&found);
    }
    if (matches.empty()) {
        message = "there is no device '" + wanted + "'; the devices are:" + deviceList(devices);
        return {};
    }
    for (const Instance::Found *match : matches)
        if (match->info.name != matches.front()->info.name) {
            message = "'" + wanted + "' fits several devices; name one by its index:" + deviceList(devices);
            return {};
        }
    return {matches.front()};
}

} // namespace

struct Runtime::Impl {
    RuntimeOptions options;
    std::unique_ptr<Instance> instance;
    std::unique_ptr<Device> device;
    const DeviceInfo *info = nullptr;
    std::string fallbackReason;
    std::string lost; // why the device is gone for good; empty: it is usable
    // The CPU's threads and memory stay for the next run.
    std::unique_ptr<vkattn_cpu_pool_t, void (*)(vkattn_cpu_pool)> cpuPool{nullptr, vkattnCpuDestroyPool};
    uint32_t cpuThreads = 0;
    std::unique_ptr<unsigned char[]> cpuWorkspace;
    uint64_t cpuWorkspaceBytes = 0;

    std::optional<Verdicts> verdicts;
    // Bits 1 << vkattn_kernel of the kernels that the device has and whose self-test comes before
    // their first use.
    uint32_t untested = 0;

    // Takes over the verdicts of an earlier time, which still hold.
    void recallVerdicts() {
        verdicts.emplace(options, *info);
        for (const vkattn_kernel kernel : KernelList()) {
            const KernelSupport *support = info->support(kernel);
            if (kernel == VKATTN_KERNEL_STAGED || !support || !support->available || !(options.selfTest >> kernel & 1u)) continue;
            const std::optional<vkattn_verdict> verdict = verdicts->find(kernel);
            if (!verdict)
                untested |= 1u << kernel;
            else if (*verdict != VKATTN_VERDICT_TRUSTED)
                (void)vkattnSetVerdict(device->context(), kernel, *verdict, nullptr);
        }
    }

    void say(const std::string &message) const {
        if (options.log) options.log(message.c_str());
    }

    void test(vkattn_kernel kernel) {
        untested &= ~(1u << kernel);
        vkattn_verdict verdict = VKATTN_VERDICT_TRUSTED;
        std::string difference;
        bool slower = false;
        Device::Failure failure = device->selfTest(kernel, verdict, difference);
        // The kernel takes some problems here, and none of the self-test's.
        if (failure.result == VKATTN_ERROR_UNSUPPORTED) return;
        // Only the driver knows whether matrix units are fast. For the other kernels the planner
        // knows when they suit.
        const bool timed = (vkattnKernelTraits(kernel) & VKATTN_KERNEL_TRAIT_MATRIX_UNITS) != 0;
        if (!failure && verdict == VKATTN_VERDICT_TRUSTED && timed) failure = device->isSlower(kernel, options.selfTest, slower);
        if (failure.result == VKATTN_ERROR_DEVICE_LOST) lost = "the device was lost: " + failure.why;
        if (failure) { // not remembered: there may be memory the next time
            (void)vkattnSetVerdict(device->context(), kernel, VKATTN_VERDICT_WRONG, nullptr);
            return say(std::string(vkattnKernelName(kernel)) + " is not used: its self-test could not run: " + failure.why);
        }
        if (verdict == VKATTN_VERDICT_WRONG)
            say(std::string(vkattnKernelName(kernel)) + " computes wrongly on " + info->name + " (" + info->driver +
                ") and is not used: " + difference);
        else if (slower)
            (void)vkattnSetVerdict(device->context(), kernel, verdict = VKATTN_VERDICT_SLOW, nullptr);
        verdicts->remember(kernel, verdict, options.log);
    }

    // Tests kernels until the problem's plan takes one that has been tested or needs no test.
    void testWhatTakes(const vkattn_problem &problem) {
        while (untested != 0 && lost.empty()) {
            vkattn_requirements requirements{};
            requirements.structSize = sizeof requirements;
            if (vkattnQuery(device->context(), &problem, &requirements, nullptr) != VKATTN_OK) return;
            if (!(untested >> requirements.kernel & 1u)) return;
            test(requirements.kernel);
        }
    }

    // Makes threads and workspace; fills the plan of attention.
    // A projection is on matrix units where the self-test of flash_coopmat trusts them. AUTO takes them
    // on GPUs only.
    void testMatrixUnits(const vkattn_projection &projection) {
        const bool suits = info->type != DeviceType::cpu && projection.kernel == VKATTN_PROJECTION_AUTO &&
                           projection.x.dtype == projection.w.dtype && projection.x.dtype != VKATTN_F32;
        if (suits && untested >> VKATTN_KERNEL_FLASH_COOPMAT & 1u) test(VKATTN_KERNEL_FLASH_COOPMAT);
    }

    vkattn_result prepareCpu(const vkattn_operation &operation, uint32_t threads, RunResult &result, vkattn_diagnostic &why) {
        if (!cpuPool || cpuThreads != threads) {
            vkattn_cpu_pool pool = nullptr;
            if (const auto r = vkattnCpuCreatePool(threads, &pool, &why)) return r;
            cpuPool.reset(pool);
            cpuThreads = threads;
        }
        if (operation.kind == VKATTN_ATTENTION) {
            result.cpuPlan.structSize = sizeof result.cpuPlan;
            if (const auto r = vkattnCpuExplain(operation.of.attention, cpuPool.get(), &result.cpuPlan, &why)) return r;
        }
        if (const auto r = vkattnCpuOperationWorkspace(&operation, cpuPool.get(), &result.workspaceBytes, &why)) return r;
        if (result.workspaceBytes > cpuWorkspaceBytes) {
            cpuWorkspaceBytes = 0;
            cpuWorkspace.reset(new (std::nothrow) unsigned char[result.workspaceBytes]);
            if (!cpuWorkspace) {
                std::snprintf(why.message, sizeof why.message, "out of host memory for a workspace of %llu bytes",
                              static_cast<unsigned long long>(result.workspaceBytes));
                return VKATTN_ERROR_OUT_OF_HOST_MEMORY;
            }
            cpuWorkspaceBytes = result.workspaceBytes;
        }
        return VKATTN_OK;
    }

    RunResult runOnCpu(const vkattn_operation &operation, std::span<const vkattn_operand_memory> operands, const RunOptions &run,
                       std::string reason) {
        RunResult result;
        result.device = "cpu";
        result.driver = "vkattn cpu fallback";
        result.kernel = "cpu";
        result.fallbackReason = std::move(reason);
        vkattn_diagnostic why{};
        if ((result.status = prepareCpu(operation, run.cpuThreads, result, why)) != VKATTN_OK) {
            result.message = why.message;
            return result;
        }
        std::vector<double> times;
        const uint64_t runs = uint64_t{std::max(run.repeat, 1u)} + (run.warmUp ? 1 : 0);
        for (uint64_t n = 0; n < runs; ++n) {
            const auto start = std::chrono::steady_clock::now();
            result.status = vkattnCpuRunOperation(cpuPool.get(), &operation, operands.data(), static_cast<uint32_t>(operands.size()),
                                                  cpuWorkspace.get(), cpuWorkspaceBytes, &why);
            if (result.status != VKATTN_OK) {
                result.message = why.message;
                return result;
            }
            if (n > 0 || !run.warmUp)
                times.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
        }
        result.milliseconds = median(times);
        result.samplesMilliseconds = std::move(times);
        return result;
    }
};

Runtime::Runtime() : impl_(std::make_unique<Impl>()) {}
Runtime::~Runtime() = default;

std::vector<DeviceInfo> Runtime::devices(std::string *whyEmpty, PFN_vkGetInstanceProcAddr getInstanceProcAddr) {
    RuntimeOptions options;
    options.getInstanceProcAddr = getInstanceProcAddr;
    std::string why;
    std::vector<DeviceInfo> list;
    if (const auto instance = Instance::create(options, why)) {
        for (const auto &found : instance->devices()) list.push_back(found.info);
    }
    if (whyEmpty) *whyEmpty = list.empty() ? why : std::string();
    return list;
}

std::unique_ptr<Runtime> Runtime::open(const RuntimeOptions &options, OpenStatus *status, std::string *message) {
    std::unique_ptr<Runtime> runtime(new Runtime);
    Impl &impl = *runtime->impl_;
    impl.options = options;
    OpenStatus ignoredStatus;
    std::string ignoredMessage;
    OpenStatus &result = status ? *status : ignoredStatus;
    std::string &text = message ? *message : ignoredMessage;
    result = OpenStatus::ok;
    text.clear();
    if (lower(options.device) == "cpu") return runtime;

    std::string why;
    impl.instance = Instance::create(options, why);
    if (impl.instance) {
        const std::vector<const Instance::Found *> candidates = choose(impl.instance->devices(), options.device, text);
        if (candidates.empty()) {
            result = OpenStatus::unknownDevice;
            return nullptr;
        }
        why.clear();
        for (const Instance::Found *found : candidates) {
            std::string reason;
            impl.device = Device::create(*impl.instance, *found, options, reason);
            impl.info = &found->info;
            if (impl.device) {
                impl.recallVerdicts();
                return runtime;
            }
            why += (why.empty() ? "" : "; ") + found->info.name + ": " + reason;
        }
    }
    impl.info = nullptr;
    impl.instance.reset();
    impl.fallbackReason = why;
    if (options.allowFallback) return runtime;
    result = OpenStatus::deviceUnusable;
    text = why;
    return nullptr;
}

const DeviceInfo *Runtime::device() const {
    return impl_->info;
}
const std::string &Runtime::fallbackReason() const {
    return impl_->fallbackReason;
}

vkattn_result Runtime::prewarm(span<const vkattn_problem> problems, std::string *why) {
    if (!impl_->device) return VKATTN_OK;
    std::string ignored;
    std::string &reason = why ? *why : ignored;
    for (const vkattn_problem &problem : problems) impl_->testWhatTakes(problem);
    if (!impl_->lost.empty()) return reason = impl_->lost, VKATTN_ERROR_DEVICE_LOST;
    const vkattn_context context = impl_->device->context();
    vkattn_diagnostic diagnostic{};
    if (const auto r = vkattnPrewarm(context, problems.data(), static_cast<uint32_t>(problems.size()), &diagnostic))
        return reason = diagnostic.message, r;
    if (impl_->info->type != DeviceType::cpu) return VKATTN_OK;
    vkattn_caps caps{};
    caps.structSize = sizeof caps;
    if (const auto r = vkattnContextCaps(context, &caps)) return r;
    for (const vkattn_problem &problem : problems) {
        const Device::Failure failure =
            impl_->device->warmUp(smallProblemLike(problem, caps, impl_->options.maxWorkspaceBytes, impl_->options.tuning));
        if (!failure) continue;
        reason = failure.why;
        if (failure.result == VKATTN_ERROR_DEVICE_LOST) reason = impl_->lost = "the device was lost: " + reason;
        return failure.result;
    }
    return VKATTN_OK;
}

Runtime::CompileStatistics Runtime::compileStatistics() const {
    uint32_t pipelines = 0;
    uint64_t nanoseconds = 0;
    if (impl_->device) vkattnCompileStatistics(impl_->device->context(), &pipelines, &nanoseconds);
    return {pipelines, static_cast<double>(nanoseconds) * 1e-9};
}

RunResult Runtime::run(const vkattn_problem &problem, span<const vkattn_operand_memory> operands, const RunOptions &options) {
    return run(vkattn::operation(problem), operands, options);
}

RunResult Runtime::run(const vkattn_operation &operation, span<const vkattn_operand_memory> operands, const RunOptions &options) {
    RunResult result;
    vkattn_diagnostic why{};
    result.status = vkattnCpuCheckOperation(&operation, operands.data(), static_cast<uint32_t>(operands.size()), &why);
    if (result.status != VKATTN_OK) {
        result.message = why.message;
        return result;
    }
    if (!impl_->device) return impl_->runOnCpu(operation, operands, options, impl_->fallbackReason);

    vkattn_requirements requirements{};
    requirements.structSize = sizeof requirements;
    vkattn_operation planned = operation;
    vkattn_problem sliced;
    uint32_t slices = operation.kind == VKATTN_ATTENTION ? std::max(operation.of.attention->sliceCount, 1u) : 1;
    const auto query = [&] {
        const vkattn_result r = vkattnQueryOperation(impl_->device->context(), &planned, &requirements, &why);
        if (r != VKATTN_OK || slices <= requirements.maxSlices) return r;
        // Each slice that has work gets a submit; slices without work get none.
        sliced = *operation.of.attention;
        sliced.sliceCount = slices = requirements.maxSlices;
        planned = vkattn::operation(sliced);
        return vkattnQueryOperation(impl_->device->context(), &planned, &requirements, &why);
    };
    std::string reason;
    if (operation.kind == VKATTN_ATTENTION) impl_->testWhatTakes(*operation.of.attention);
    if (operation.kind == VKATTN_PROJECTION) impl_->testMatrixUnits(*operation.of.projection);
    if (!impl_->lost.empty()) {
        result.status = VKATTN_ERROR_DEVICE_LOST;
        reason = impl_->lost;
    } else if ((result.status = query()) != VKATTN_OK) {
        reason = why.message;
    } else {
        Device::Timing timing;
        const Device::Failure failure = impl_->device->run(planned, slices, requirements, operands, options, timing);
        if (!failure) {
            result.device = impl_->info->name;
            result.driver = impl_->info->driver;
            result.kernel = requirements.kernelName;
            result.milliseconds = median(timing.samplesMilliseconds);
            result.samplesMilliseconds = std::move(timing.samplesMilliseconds);
            result.deviceTimestamps = timing.deviceTimestamps;
            result.longestSliceMilliseconds = timing.longestSliceMilliseconds;
            result.workspaceBytes = requirements.workspaceBytes;
            result.dispatchCount = requirements.dispatchCount;
            result.probabilityUnit = requirements.probabilityUnit;
            result.probabilityFloor = requirements.probabilityFloor;
            return result;
        }
        result.status = failure.result;
        reason = failure.why;
        if (failure.result == VKATTN_ERROR_DEVICE_LOST) reason = impl_->lost = "the device was lost: " + reason;
    }
    reason = impl_->info->name + ": " + reason;
    if (!impl_->options.allowFallback) {
        result.message = reason;
        return result;
    }
    return impl_->runOnCpu(operation, operands, options, reason);
}

} // namespace vkattn
