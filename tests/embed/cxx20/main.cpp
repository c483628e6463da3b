// Attention through vkattn.hpp where neither exceptions nor RTTI exist: f16, keys shorter than
// their buffer, log-sum-exp; checked by the verifier.
#include <vkattn/vkattn.hpp>

#include <vkattn/cpu.h>

#include "gpu.hpp"

#include <array>
#include <cstdio>
#include <cstring>

#if defined(__cpp_exceptions) || defined(__cpp_rtti)
#error "this host is about a compiler without exceptions and RTTI"
#endif

namespace {

int run(gpu &own, vkattn::Context &attention) {
    constexpr uint32_t heads = 3, tokens = 40, dim = 16;
    constexpr VkDeviceSize step = 8192, elements = heads * tokens * dim;
    // Q
    vkattn_problem problem =
        vkattn::problem(vkattn::packedTokenMajor(VKATTN_F16, 1, heads, tokens, dim),
                        // K
                        vkattn::packed(VKATTN_F16, 1, heads, tokens, dim),
                        // V
                        vkattn::packed(VKATTN_F16, 1, heads, tokens, dim), vkattn::packedTokenMajor(VKATTN_F16, 1, heads, tokens, dim));
    problem.lse = vkattn::packed(VKATTN_F32, 1, heads, tokens, 1);
    problem.presentRoles = VKATTN_PRESENT(VKATTN_KEY_LENGTHS);

    constexpr std::array roles{VKATTN_Q, VKATTN_K, VKATTN_V, VKATTN_OUT, VKATTN_LSE, VKATTN_KEY_LENGTHS};
    std::array<vkattn_binding, roles.size() + 1> bindings{};
    std::array<vkattn_operand_memory, roles.size()> memory{};
    for (size_t n = 0; n < roles.size(); ++n) {
        const uint64_t bytes = vkattnOperandBytes(&problem, roles[n]);
        bindings[n] = {roles[n], own.buffer, n * step, bytes};
        memory[n] = {roles[n], own.mapped + n * step, static_cast<size_t>(bytes)};
        for (uint32_t e = 0; n < 3 && e < elements; ++e) { // halves between -1 and 1
            const auto half = static_cast<uint16_t>((e * 40503u >> 3 & 0x83ffu) | (8 + (e + n) % 7) << 10);
            std::memcpy(own.mapped + n * step + 2 * e, &half, sizeof half);
        }
    }
    const uint32_t keys = 29;
    std::memcpy(own.mapped + 5 * step, &keys, sizeof keys);

    vkattn_requirements needs{};
    vkattn_diagnostic why{};
    const auto fails = [&](const char *call, vkattn_result result) {
        if (result != VKATTN_OK) std::printf("%s: %d, %s\n", call, static_cast<int>(result), why.message);
        return result != VKATTN_OK;
    };
    if (fails("query", attention.query(problem, needs, &why)) || fails("prewarm", attention.prewarm({&problem, 1}, &why)))
        return GPU_FAILED;
    bindings.back() = {VKATTN_WORKSPACE, own.buffer, roles.size() * step, needs.workspaceBytes};
    const std::span used(bindings.data(), needs.workspaceBytes ? bindings.size() : roles.size());
    if (gpuBegin(&own) || fails("record", attention.record(problem, own.commands, used, own.descriptorPool, &why)) || gpuEnd(&own) ||
        gpuSubmitAndWait(&own))
        return GPU_FAILED;
    vkattn_verify_report report{};
    if (fails("verify", vkattnCpuVerify(&problem, memory.data(), roles.size(), nullptr, &report, &why))) return GPU_FAILED;
    std::printf("%s, %s kernel: largest error %g, %s\n", own.name, needs.kernelName, report.maxError, report.passed ? "right" : "wrong");
    return report.passed ? GPU_OK : GPU_FAILED;
}

} // namespace

int main() {
    gpu_instance instance;
    gpu own;
    int result = gpuOpenInstance(&instance, gpuFindLoader());
    if (result) return result;
    result = gpuOpenHelpful(own, instance);
    if (result) return result;
    {
        vkattn::Context made, attention;
        vkattn_diagnostic why{};
        if (made.create(hostOf(own), &why) != VKATTN_OK) return std::printf("create: %s\n", why.message), GPU_FAILED;
        attention = std::move(made);
        result = run(own, attention);
    }
    gpuClose(&own);
    return gpuCloseInstance(&instance) ? GPU_FAILED : result;
}
