#include "runtime/runtime_impl.hpp"

#include "runtime/median.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <new>

namespace vkattn {
namespace {

void signAsCpu(RunResult &result) {
    result.device = "cpu";
    result.driver = "vkattn cpu fallback";
    result.kernel = "cpu";
}

} // namespace

void Runtime::Impl::sign(RunResult &result) const {
    if (!device) return signAsCpu(result);
    result.device = info->name;
    result.driver = info->driver;
}

const std::string &Runtime::Impl::reasonOf(Device::Failure &failure) {
    if (failure.result == VKATTN_ERROR_DEVICE_LOST) failure.why = lost = "the device was lost: " + failure.why;
    return failure.why;
}

void Runtime::Impl::recallVerdicts() {
    verdicts.emplace(options, *info);
    for (const vkattn_kernel kernel : KernelList()) {
        const KernelSupport *support = info->support(kernel);
        if (kernel == VKATTN_KERNEL_STAGED || !support || !support->available || !(options.selfTest >> kernel & 1u)) continue;
        const std::optional<vkattn_verdict> verdict = verdicts->find(vkattnKernelName(kernel));
        if (!verdict)
            untested |= 1u << kernel;
        else if (*verdict != VKATTN_VERDICT_TRUSTED)
            (void)vkattnSetVerdict(device->context(), kernel, *verdict, nullptr);
    }
    if (!options.testHalves || options.capsLimit) return;
    const std::optional<vkattn_verdict> halves = verdicts->find(Verdicts::halves);
    untestedHalves = !halves;
    (void)vkattnSetExactHalves(device->context(), halves == VKATTN_VERDICT_TRUSTED, nullptr);
}

void Runtime::Impl::test(vkattn_kernel kernel) {
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
    if (failure) { // not remembered: there may be memory the next time
        (void)vkattnSetVerdict(device->context(), kernel, VKATTN_VERDICT_WRONG, nullptr);
        return say(std::string(vkattnKernelName(kernel)) + " is not used: its self-test could not run: " + reasonOf(failure));
    }
    if (verdict == VKATTN_VERDICT_WRONG)
        say(std::string(vkattnKernelName(kernel)) + " computes wrongly on " + info->name + " (" + info->driver +
            ") and is not used: " + difference);
    else if (slower)
        (void)vkattnSetVerdict(device->context(), kernel, verdict = VKATTN_VERDICT_SLOW, nullptr);
    verdicts->remember(vkattnKernelName(kernel), verdict, options.log);
}

void Runtime::Impl::testHalves() {
    untestedHalves = false;
    bool exact = false;
    Device::Failure failure = device->tryHalves(exact);
    (void)vkattnSetExactHalves(device->context(), !failure && exact, nullptr);
    // The device has no kernel for it, and then none for others that unpack.
    if (failure.result == VKATTN_ERROR_UNSUPPORTED) return;
    // Not remembered: there may be memory the next time.
    if (failure) return say("halves are unpacked in integer arithmetic: the test of unpackHalf2x16 could not run: " + reasonOf(failure));
    verdicts->remember(Verdicts::halves, exact ? VKATTN_VERDICT_TRUSTED : VKATTN_VERDICT_WRONG, options.log);
}

void Runtime::Impl::testWhatTakes(const vkattn_operation &operation) {
    if (operation.kind == VKATTN_PROJECTION) {
        // A projection is on matrix units where the self-test of flash_coopmat trusts them. AUTO
        // takes them on GPUs only.
        const vkattn_projection &projection = *operation.of.projection;
        const bool suits = info->type != DeviceType::cpu && projection.kernel == VKATTN_PROJECTION_AUTO &&
                           projection.x.dtype == projection.w.dtype && projection.x.dtype != VKATTN_F32;
        if (suits && lost.empty() && untested >> VKATTN_KERNEL_FLASH_COOPMAT & 1u) test(VKATTN_KERNEL_FLASH_COOPMAT);
    }
    while (operation.kind == VKATTN_ATTENTION && untested != 0 && lost.empty()) {
        vkattn_requirements requirements{};
        requirements.structSize = sizeof requirements;
        if (vkattnQueryOperation(device->context(), &operation, &requirements, nullptr) != VKATTN_OK) return;
        if (!(untested >> requirements.kernel & 1u)) break;
        test(requirements.kernel);
    }
    if (operation.kind != VKATTN_ATTENTION || !untestedHalves || !lost.empty()) return;
    const vkattn_problem &problem = *operation.of.attention;
    if (problem.k.dtype != VKATTN_F16 && problem.v.dtype != VKATTN_F16) return;
    vkattn_requirements requirements{};
    requirements.structSize = sizeof requirements;
    if (vkattnQueryOperation(device->context(), &operation, &requirements, nullptr) != VKATTN_OK) return;
    if (requirements.kernel == VKATTN_KERNEL_FLASH || requirements.kernel == VKATTN_KERNEL_DECODE) testHalves();
}

vkattn_result Runtime::Impl::prepareCpu(const vkattn_operation &operation, uint32_t threads, RunResult &result, vkattn_diagnostic &why) {
    if (!cpuPool || cpuThreads != threads) {
        vkattn_cpu_pool pool = nullptr;
        if (const auto r = vkattnCpuCreatePool(threads, &pool, &why)) return r;
        cpuPool.reset(pool);
        cpuThreads = threads;
        ++cpuPoolNumber;
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

RunResult Runtime::Impl::runOnCpu(const vkattn_operation &operation, std::span<const vkattn_operand_memory> operands, const RunOptions &run,
                                  std::string reason) {
    RunResult result;
    signAsCpu(result);
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

} // namespace vkattn
