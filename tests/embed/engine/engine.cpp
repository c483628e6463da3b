#include "engine.hpp"

#include <vkattn/cpu.h>

#include <cmath>
#include <cstdio>
#include <vector>

namespace {

constexpr uint32_t heads = 3, tokens = 100, dim = 32, elements = heads * tokens * dim;
constexpr VkDeviceSize bytes = elements * sizeof(float), step = 65536, workspaceAt = 4 * step;
static_assert(bytes <= step);

int failed(const char *call, vkattn_result result, const vkattn_diagnostic &why) {
    std::printf("host: %s answers %d: %s\n", call, static_cast<int>(result), why.message);
    return GPU_FAILED;
}

void fillInputs(unsigned char *memory) {
    for (uint32_t operand = 0; operand < 3; ++operand) {
        auto *values = reinterpret_cast<float *>(memory + operand * step);
        for (uint32_t n = 0; n < elements; ++n) values[n] = 2 * std::sin(0.37f * static_cast<float>((n + 31 * operand) % 997));
    }
}

void operandsAt(unsigned char *memory, vkattn_operand_memory (&operands)[4]) {
    const vkattn_role roles[] = {VKATTN_Q, VKATTN_K, VKATTN_V, VKATTN_OUT};
    for (uint32_t n = 0; n < 4; ++n) operands[n] = {roles[n], memory + n * step, bytes};
}

} // namespace

int Engine::judge(const char *where, unsigned char *memory) const {
    vkattn_operand_memory operands[4];
    operandsAt(memory, operands);
    vkattn_verify_report report{};
    vkattn_diagnostic why{};
    const vkattn_result result = vkattnCpuVerify(&problem_, operands, 4, nullptr, &report, &why);
    if (result != VKATTN_OK) return failed("vkattnCpuVerify", result, why);
    std::printf("%s: worst error %g, allowed %g there\n", where, report.worstError, report.worstBound);
    return report.passed ? GPU_OK : GPU_FAILED;
}

int Engine::attendOnDevice() {
    vkattn_diagnostic why{};
    vkattn_result result = attention_.create(hostOf(gpu_), &why);
    if (result != VKATTN_OK) return failed("create", result, why);

    const vkattn_layout layout = vkattn::packed(VKATTN_F32, 1, heads, tokens, dim);
    problem_ = vkattn::problem(layout, layout, layout, layout);
    problem_.flags = VKATTN_CAUSAL;
    fillInputs(gpu_.mapped);
    vkattn_requirements needs{};
    result = attention_.query(problem_, needs, &why);
    if (result != VKATTN_OK) return failed("query", result, why);
    std::vector<vkattn_binding> bindings;
    for (const vkattn_role role : {VKATTN_Q, VKATTN_K, VKATTN_V, VKATTN_OUT})
        bindings.push_back({role, gpu_.buffer, bindings.size() * step, bytes});
    if (needs.workspaceBytes) bindings.push_back({VKATTN_WORKSPACE, gpu_.buffer, workspaceAt, needs.workspaceBytes});
    result = attention_.prewarm({&problem_, 1}, &why);
    if (result != VKATTN_OK) return failed("prewarm", result, why);
    if (gpuBegin(&gpu_)) return GPU_FAILED;
    result = attention_.record(problem_, gpu_.commands, bindings, gpu_.descriptorPool, &why);
    if (result != VKATTN_OK) return failed("record", result, why);
    if (gpuEnd(&gpu_) || gpuSubmitAndWait(&gpu_)) return GPU_FAILED;
    return judge(gpu_.name, gpu_.mapped);
}

int Engine::attendOnCpu() {
    std::vector<unsigned char> memory(4 * step);
    fillInputs(memory.data());
    vkattn_operand_memory operands[4];
    operandsAt(memory.data(), operands);
    vkattn_diagnostic why{};
    const vkattn_result result = vkattnCpuRun(&problem_, operands, 4, 0, &why);
    if (result != VKATTN_OK) return failed("vkattnCpuRun", result, why);
    return judge("vkattn::cpu", memory.data());
}
