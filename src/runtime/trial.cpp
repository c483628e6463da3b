// Trials of a kernel before its first use: is the kernel right on this device, and is it fast?
#include "runtime/device.hpp"
#include "runtime/median.hpp"

#include <algorithm>
#include <cmath>

namespace vkattn {
namespace {

constexpr uint32_t heads = 8, dims = 64, smallest = 64, largest = 2048; // tokens
// The next size takes four times as long.
constexpr double enoughMilliseconds = 4;

vkattn_problem middling(vkattn_dtype dtype, uint32_t tokens, vkattn_kernel kernel) {
    const vkattn_layout t = packed(dtype, 1, heads, tokens, dims);
    vkattn_problem p = problem(t, t, t, t);
    p.kernel = kernel;
    return p;
}

Device::Failure refused(vkattn_result result, const vkattn_diagnostic &why) {
    return {static_cast<VkResult>(why.vkResult), result, why.message};
}

} // namespace

Device::Failure Device::selfTest(vkattn_kernel kernel, vkattn_verdict &verdict, std::string &difference) {
    vkattn_diagnostic why{};
    vkattn_self_test needs{};
    needs.structSize = sizeof needs;
    if (const auto r = vkattnSelfTestQuery(context_, kernel, &needs, &why)) return refused(r, why);
    vkattn_requirements pool{};
    pool.descriptorSetCount = needs.descriptorSetCount;
    pool.storageDescriptorCount = needs.storageDescriptorCount;
    if (auto f = prepareDescriptorPool(pool)) return f;
    Buffer buffer;
    auto failure = reserve(buffer, needs.bufferBytes, true);
    const auto compute = [&]() -> Failure {
        if (const auto r = vkattnSelfTestFill(context_, kernel, buffer.mapped, &why)) return refused(r, why);
        if (auto f = begin()) return f;
        if (const auto r = vkattnSelfTestRecord(context_, kernel, commands_, descriptors_, buffer.buffer, 0, &why)) return refused(r, why);
        if (const VkResult r = table_.EndCommandBuffer(commands_)) return failed("vkEndCommandBuffer", r);
        if (auto f = submitAndWait(commands_)) return f;
        if (const auto r = vkattnSelfTestJudge(context_, kernel, buffer.mapped, &verdict, &why)) return refused(r, why);
        if (verdict == VKATTN_VERDICT_WRONG) difference = why.message;
        return {};
    };
    if (!failure) failure = compute();
    release(buffer);
    return failure;
}

Device::Failure Device::bindAnything(const vkattn_problem &problem, std::vector<vkattn_binding> &bindings) {
    vkattn_diagnostic why{};
    vkattn_requirements requirements{};
    requirements.structSize = sizeof requirements;
    if (const vkattn_result r = vkattnQuery(context_, &problem, &requirements, &why)) return {VK_SUCCESS, r, why.message};
    for (uint32_t n = 0; n < VKATTN_ROLE_LIMIT; ++n) {
        const auto role = static_cast<vkattn_role>(n);
        const uint64_t bytes = role == VKATTN_WORKSPACE ? requirements.workspaceBytes : vkattnOperandBytes(&problem, role);
        if (bytes == 0) continue;
        if (auto f = reserve(buffers_[role], bytes, unified_)) return f;
        bindings.push_back({role, buffers_[role].buffer, 0, buffers_[role].size});
    }
    return prepareDescriptorPool(requirements);
}

Device::Failure Device::warmUp(const vkattn_problem &problem) {
    std::vector<vkattn_binding> bindings;
    if (auto f = bindAnything(problem, bindings)) return f;
    if (auto f = recordSlice(operation(problem), bindings, 0)) return f;
    return submitAndWait(commands_);
}

Device::Failure Device::time(const vkattn_problem &problem, double &milliseconds) {
    std::vector<vkattn_binding> bindings;
    if (auto f = bindAnything(problem, bindings)) return f;
    if (auto f = recordSlice(operation(problem), bindings, 0)) return f;
    if (auto f = submitAndWait(commands_)) return f; // drivers compile here, and clocks go up
    std::vector<double> times(3);
    bool deviceTimestamps = true;
    for (double &each : times)
        if (auto f = submitTimed(commands_, each, deviceTimestamps)) return f;
    milliseconds = median(times);
    return {};
}

Device::Failure Device::tryHalves(bool &exact) {
    constexpr uint32_t all = 1u << 16, width = 8; // few dims compile soon
    const vkattn_layout q = packed(VKATTN_F32, all / width, 1, 1, width), v = packed(VKATTN_F16, all / width, 1, 1, width);
    vkattn_problem p = problem(q, q, v, q);
    p.kernel = VKATTN_KERNEL_FLASH;
    std::vector<uint16_t> halves(all);
    for (uint32_t n = 0; n < all; ++n) halves[n] = static_cast<uint16_t>(n);
    std::vector<float> zeros(all), got(all), expected(all);
    vkattn_diagnostic why{};
    if (const auto r = vkattnConvert(VKATTN_F16, halves.data(), VKATTN_F32, expected.data(), all, &why)) return refused(r, why);
    if (const auto r = vkattnSetExactHalves(context_, 1, &why)) return refused(r, why);
    vkattn_requirements requirements{};
    requirements.structSize = sizeof requirements;
    if (const auto r = vkattnQuery(context_, &p, &requirements, &why)) return refused(r, why);
    const vkattn_operand_memory operands[] = {{VKATTN_Q, zeros.data(), sizeof(float) * all},
                                              {VKATTN_K, zeros.data(), sizeof(float) * all},
                                              {VKATTN_V, halves.data(), sizeof(uint16_t) * all},
                                              {VKATTN_OUT, got.data(), sizeof(float) * all}};
    Timing timing;
    if (auto f = run(operation(p), 1, requirements, operands, {}, timing)) return f;
    exact = true;
    for (uint32_t n = 0; n < all; ++n) exact = exact && (std::isnan(expected[n]) ? std::isnan(got[n]) : got[n] == expected[n]);
    return {};
}

Device::Failure Device::isSlower(vkattn_kernel kernel, uint32_t without, bool &slower) {
    vkattn_caps caps{};
    caps.structSize = sizeof caps;
    slower = false;
    if (vkattnContextCaps(context_, &caps)) return {};
    const auto passOver = [&](bool all) {
        for (const vkattn_kernel each : KernelList())
            if (each != VKATTN_KERNEL_STAGED && without >> each & 1u)
                (void)vkattnSetVerdict(context_, each,
                                       caps.wrongKernels >> each & 1u         ? VKATTN_VERDICT_WRONG
                                       : all || caps.slowKernels >> each & 1u ? VKATTN_VERDICT_SLOW
                                                                              : VKATTN_VERDICT_TRUSTED,
                                       nullptr);
    };
    for (const vkattn_dtype dtype : {VKATTN_F16, VKATTN_BF16, VKATTN_F32}) {
        for (uint32_t tokens = smallest; tokens <= largest; tokens *= 2) {
            double own = 0, others = 0;
            const Failure failure = time(middling(dtype, tokens, kernel), own);
            // The device does not take this dtype.
            if (failure.result == VKATTN_ERROR_UNSUPPORTED) break;
            if (failure) return failure;
            passOver(true);
            const Failure other = time(middling(dtype, tokens, VKATTN_KERNEL_AUTO), others);
            passOver(false);
            if (other) return other;
            // A kernel that is hardly slower here may be faster elsewhere.
            slower = 1.1 * others < own;
            if (std::max(own, others) >= enoughMilliseconds || tokens == largest) return {};
        }
    }
    return {};
}

} // namespace vkattn
