#include "shader_steps.hpp"

#include <cmath>

namespace train {
namespace {

using vkattn::DeviceTensor;
using vkattn::ShaderAccess;
using vkattn::ShaderMemory;
using vkattn::ShaderStep;
using vkattn::ShaderTensor;

constexpr uint32_t oneHotSpirv[] = {
#include "one_hot.inc"
};
constexpr uint32_t crossEntropySpirv[] = {
#include "cross_entropy.inc"
};
constexpr uint32_t adamSpirv[] = {
#include "adam.inc"
};

constexpr uint32_t lanes = 64; // local_size_x of all shaders

// Push constants, as the shaders declare them.
struct OneHotPush {
    uint32_t symbols, positions;
};
struct CrossEntropyPush {
    uint32_t rows, symbols;
    float weight;
};
struct AdamPush {
    uint32_t count;
    float beta1, beta2, epsilon;
};

// A step with an invocation for each of `count`. The step points at `tensors` and `push`.
template <class Push>
ShaderStep stepOver(uint32_t count, const char *name, vkattn::span<const uint32_t> spirv, vkattn::span<const ShaderTensor> tensors,
                    const Push &push) {
    ShaderStep step;
    step.name = name;
    step.spirv = spirv;
    step.tensors = tensors;
    step.pushConstants = &push, step.pushBytes = sizeof push;
    step.groups[0] = (count + lanes - 1) / lanes;
    return step;
}

template <class Number> Number *numbersOf(const ShaderMemory &memory) {
    return static_cast<Number *>(memory.data);
}

void oneHotOnCpu(vkattn::span<const ShaderMemory> memory, const void *push) {
    const auto &given = *static_cast<const OneHotPush *>(push);
    const auto *tokens = numbersOf<const uint32_t>(memory[0]);
    auto *rows = numbersOf<float>(memory[1]);
    const size_t count = memory[0].bytes / sizeof(uint32_t), columns = size_t{given.symbols} + given.positions;
    for (size_t row = 0; row < count; ++row)
        for (size_t c = 0; c < columns; ++c)
            rows[row * columns + c] = c == tokens[row] || c == given.symbols + row % given.positions ? 1.0f : 0.0f;
}

void crossEntropyOnCpu(vkattn::span<const ShaderMemory> memory, const void *push) {
    const auto &given = *static_cast<const CrossEntropyPush *>(push);
    const auto *targets = numbersOf<const uint32_t>(memory[1]);
    for (size_t row = 0; row < given.rows; ++row) {
        const float *logits = numbersOf<const float>(memory[0]) + row * given.symbols;
        float *gradient = numbersOf<float>(memory[2]) + row * given.symbols, *result = numbersOf<float>(memory[3]) + 2 * row;
        const uint32_t target = targets[row];
        if (target >= given.symbols) {
            for (uint32_t s = 0; s < given.symbols; ++s) gradient[s] = 0;
            result[0] = result[1] = 0;
            continue;
        }
        uint32_t best = 0;
        for (uint32_t s = 1; s < given.symbols; ++s)
            if (logits[s] > logits[best]) best = s;
        float sum = 0;
        for (uint32_t s = 0; s < given.symbols; ++s) sum += std::exp(logits[s] - logits[best]);
        for (uint32_t s = 0; s < given.symbols; ++s) {
            const float probability = std::exp(logits[s] - logits[best]) / sum;
            gradient[s] = given.weight * (s == target ? probability - 1 : probability);
        }
        result[0] = std::log(sum) + logits[best] - logits[target];
        result[1] = best == target ? 1.0f : 0.0f;
    }
}

void adamOnCpu(vkattn::span<const ShaderMemory> memory, const void *push) {
    const auto &given = *static_cast<const AdamPush *>(push);
    const auto *gradients = numbersOf<const float>(memory[0]), *schedule = numbersOf<const float>(memory[1]);
    float *weights = numbersOf<float>(memory[2]), *first = numbersOf<float>(memory[3]), *second = first + given.count;
    for (size_t n = 0; n < given.count; ++n) {
        const float g = gradients[n];
        first[n] = given.beta1 * first[n] + (1 - given.beta1) * g;
        second[n] = given.beta2 * second[n] + (1 - given.beta2) * g * g;
        weights[n] -= schedule[0] * (first[n] * schedule[1]) / (std::sqrt(second[n] * schedule[2]) + given.epsilon);
    }
}

} // namespace

vkattn_result addOneHot(vkattn::OperationList &list, const DeviceTensor &tokens, const DeviceTensor &rows, uint32_t symbols,
                        uint32_t positions, std::string *why) {
    const ShaderTensor tensors[] = {{tokens}, {rows, ShaderAccess::write}};
    const OneHotPush push = {symbols, positions};
    ShaderStep step = stepOver(symbols + positions, "one-hot", oneHotSpirv, tensors, push);
    step.groups[1] = rows.layout().extent[2];
    step.cpu = oneHotOnCpu; // exact
    return list.add(step, why);
}

vkattn_result addCrossEntropy(vkattn::OperationList &list, const DeviceTensor &logits, const DeviceTensor &targets,
                              const DeviceTensor &gradient, const DeviceTensor &results, float weight, std::string *why) {
    const ShaderTensor tensors[] = {{logits}, {targets}, {gradient, ShaderAccess::write}, {results, ShaderAccess::write}};
    const CrossEntropyPush push = {logits.layout().extent[2], logits.layout().extent[3], weight};
    ShaderStep step = stepOver(push.rows, "cross-entropy", crossEntropySpirv, tensors, push);
    step.cpu = crossEntropyOnCpu;
    // Vulkan lets exp(x) be off by (3 + 2 |x|) units in the last place, and log near 1 by 2^-21.
    step.relativeTolerance = 1e-5, step.absoluteTolerance = 2e-6;
    return list.add(step, why);
}

vkattn_result addAdam(vkattn::OperationList &list, const DeviceTensor &gradients, const DeviceTensor &schedule, const DeviceTensor &weights,
                      const DeviceTensor &moments, std::string *why) {
    const ShaderTensor tensors[] = {{gradients}, {schedule}, {weights, ShaderAccess::readWrite}, {moments, ShaderAccess::readWrite}};
    const AdamPush push = {weights.layout().extent[3], adamBeta1, adamBeta2, adamEpsilon};
    ShaderStep step = stepOver(push.count, "adam", adamSpirv, tensors, push);
    step.cpu = adamOnCpu;
    // Products and sums may be fused on one side, and square roots and quotients may be off by 3 units
    // in the last place; the absolute one is of moments that cancel, and far below any step.
    step.relativeTolerance = 1e-6, step.absoluteTolerance = 1e-8;
    return list.add(step, why);
}

} // namespace train
