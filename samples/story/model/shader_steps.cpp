#include "shader_steps.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace story {
namespace {

using vkattn::DeviceTensor;
using vkattn::ShaderAccess;
using vkattn::ShaderMemory;
using vkattn::ShaderStep;
using vkattn::ShaderTensor;

constexpr uint32_t embedSpirv[] = {
#include "embed.inc"
};
constexpr uint32_t swigluSpirv[] = {
#include "swiglu.inc"
};

constexpr uint32_t lanes = 64; // local_size_x of both shaders

// Push constants, as the shaders declare them.
struct EmbedPush {
    uint32_t dims, vocabulary;
};
struct SwiGluPush {
    uint32_t dims;
};

// A step with lanes along the dims of `rows`, and a group of them for each row. The step points at
// `tensors` and `push`.
template <class Push>
ShaderStep stepOver(const DeviceTensor &rows, const char *name, vkattn::span<const uint32_t> spirv,
                    vkattn::span<const ShaderTensor> tensors, const Push &push) {
    ShaderStep step;
    step.name = name;
    step.spirv = spirv;
    step.tensors = tensors;
    step.pushConstants = &push, step.pushBytes = sizeof push;
    step.groups[0] = (rows.layout().extent[3] + lanes - 1) / lanes;
    step.groups[1] = rows.layout().extent[2];
    return step;
}

void embedOnCpu(vkattn::span<const ShaderMemory> memory, const void *push) {
    const auto &given = *static_cast<const EmbedPush *>(push);
    const auto *tokens = static_cast<const uint32_t *>(memory[0].data);
    const auto *table = static_cast<const float *>(memory[1].data);
    auto *rows = static_cast<float *>(memory[2].data);
    const size_t count = memory[0].bytes / sizeof(uint32_t), dims = given.dims;
    for (size_t t = 0; t < count; ++t)
        std::memcpy(rows + t * dims, table + std::min(tokens[t], given.vocabulary - 1) * dims, dims * sizeof(float));
}

void swigluOnCpu(vkattn::span<const ShaderMemory> memory, const void *) {
    auto *gate = static_cast<float *>(memory[0].data);
    const auto *up = static_cast<const float *>(memory[1].data);
    const size_t count = memory[0].bytes / sizeof(float);
    for (size_t n = 0; n < count; ++n) gate[n] = gate[n] / (1 + std::exp(-gate[n])) * up[n];
}

} // namespace

vkattn_result addEmbedding(vkattn::OperationList &list, const DeviceTensor &tokens, const DeviceTensor &table, const DeviceTensor &rows,
                           std::string *why) {
    const ShaderTensor tensors[] = {{tokens}, {table}, {rows, ShaderAccess::write}};
    const EmbedPush push = {table.layout().extent[3], table.layout().extent[2]};
    ShaderStep step = stepOver(rows, "embedding", embedSpirv, tensors, push);
    step.cpu = embedOnCpu; // copies: exact
    return list.add(step, why);
}

vkattn_result addSwiGlu(vkattn::OperationList &list, const DeviceTensor &gate, const DeviceTensor &up, std::string *why) {
    const ShaderTensor tensors[] = {{gate, ShaderAccess::readWrite}, {up}};
    const SwiGluPush push = {gate.layout().extent[3]};
    ShaderStep step = stepOver(gate, "swiglu", swigluSpirv, tensors, push);
    step.cpu = swigluOnCpu;
    // Vulkan lets exp(x) be off by (3 + 2 |x|) units in the last place: 40 at x = 20, past which the
    // gate is shut.
    step.relativeTolerance = 1e-5, step.absoluteTolerance = 1e-7;
    return list.add(step, why);
}

} // namespace story
