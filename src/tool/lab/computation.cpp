#include "tool/lab/computation.hpp"

#include "program/failure.hpp"
#include "program/note.hpp"

#include <vkattn/gradient.h>
#include <vkattn/operations.hpp>

namespace vkattn::tool::lab {
namespace {

using program::ExitStatus;
using program::Failure;

// A problem with the memory of its operands.
class Bound {
  public:
    explicit Bound(const Attention &given) : given_(given), values_(given.v) {
        values_.resize(size_t{given.batch} * given.keys * given.valueDim);
        out.resize(size_t{given.batch} * given.queries * given.valueDim);
        const auto layout = [&](uint32_t rows, uint32_t columns) { return packed(VKATTN_F32, given.batch, 1, rows, columns); };
        problem = given.options;
        problem.structSize = sizeof problem;
        problem.q = layout(given.queries, given.dim), problem.k = layout(given.keys, given.dim);
        problem.v = layout(given.keys, given.valueDim), problem.out = layout(given.queries, given.valueDim);
        problem.flags |= VKATTN_SCALE;
        problem.scale = given.scale;
        bind(VKATTN_Q, given.q), bind(VKATTN_K, given.k), bind(VKATTN_V, values_), bind(VKATTN_OUT, out);
        if (!given.bias.empty()) bind(VKATTN_BIAS, given.bias), problem.bias = layout(given.queries, given.keys);
        if (!given.mask.empty())
            bind(VKATTN_BIT_MASK, given.mask), problem.bitMask = packed(VKATTN_BITS32, 1, 1, given.queries, (given.keys + 31) / 32);
    }
    // Memory of inputs is never written.
    template <class Number> void bind(vkattn_role role, const std::vector<Number> &numbers) {
        operands.push_back({role, const_cast<Number *>(numbers.data()), numbers.size() * sizeof(Number)});
    }
    [[nodiscard]] vkattn_layout pairs() const { return packed(VKATTN_F32, given_.batch, 1, given_.queries, given_.keys); }

    vkattn_problem problem{};
    std::vector<vkattn_operand_memory> operands;
    Numbers out;

  private:
    const Attention &given_;
    Numbers values_;
};

// A device that was lost, or has no room, leaves the work to the CPU.
void check(const Runtime &runtime, const RunResult &result) {
    if (result.status == VKATTN_OK && runtime.device() && !result.fallbackReason.empty())
        program::printNote("computed on the CPU: " + result.fallbackReason);
    if (result.status != VKATTN_OK)
        throw Failure(result.message, result.status == VKATTN_ERROR_INVALID_ARGUMENT || result.status == VKATTN_ERROR_OUT_OF_HOST_MEMORY
                                          ? ExitStatus::badInput
                                          : ExitStatus::deviceUnusable);
}

} // namespace

Numbers weightsOf(Runtime &runtime, const Attention &attention) {
    Bound bound(attention);
    Numbers weights(attention.pairs());
    bound.problem.weights = bound.pairs();
    bound.bind(VKATTN_WEIGHTS, weights);
    check(runtime, runtime.run(bound.problem, bound.operands));
    return weights;
}

Numbers scoresOf(Runtime &runtime, const Attention &attention, vkattn_score_stage stage) {
    Bound bound(attention);
    Numbers scores(attention.pairs());
    bound.problem.scores = bound.pairs();
    bound.problem.scoresStage = stage;
    bound.bind(VKATTN_SCORES, scores);
    check(runtime, runtime.run(bound.problem, bound.operands));
    return scores;
}

Gradients gradientsOf(Runtime &runtime, const Attention &attention, const Numbers &dOut) {
    // dBias is dS, where there is a bias for each pair.
    Attention biased = attention;
    if (biased.bias.empty()) biased.bias.resize(attention.pairs());
    Bound forward(biased);
    Gradients made{.weights = Numbers(attention.pairs()),
                   .dQ = Numbers(attention.q.size()),
                   .dK = Numbers(attention.k.size()),
                   .dV = Numbers(size_t{attention.batch} * attention.keys * attention.valueDim),
                   .dScores = Numbers(attention.pairs())};
    Numbers statistics(size_t{attention.batch} * attention.queries * 2);
    forward.problem.flags |= VKATTN_ROW_STATISTICS;
    forward.problem.lse = packed(VKATTN_F32, attention.batch, 1, attention.queries, 2);
    forward.bind(VKATTN_LSE, statistics);
    const vkattn_problem differentiated = forward.problem;
    std::vector<vkattn_operand_memory> operands = forward.operands; // those of the backward pass have no weights
    forward.problem.weights = forward.pairs();
    forward.bind(VKATTN_WEIGHTS, made.weights);
    check(runtime, runtime.run(forward.problem, forward.operands));

    vkattn_attention_gradient gradient{};
    gradient.structSize = sizeof gradient;
    gradient.forward = &differentiated;
    gradient.dOut = differentiated.out, gradient.dBias = differentiated.bias;
    gradient.dQ = differentiated.q, gradient.dK = differentiated.k, gradient.dV = differentiated.v;
    const auto add = [&](vkattn_role role, const Numbers &numbers) {
        operands.push_back({role, const_cast<float *>(numbers.data()), numbers.size() * sizeof(float)});
    };
    add(VKATTN_D_OUT, dOut), add(VKATTN_D_Q, made.dQ), add(VKATTN_D_K, made.dK), add(VKATTN_D_V, made.dV);
    add(VKATTN_D_BIAS, made.dScores);
    check(runtime, runtime.run(operation(gradient), operands));
    made.out = std::move(forward.out);
    return made;
}

std::vector<unsigned char> visiblePairs(const Attention &attention) {
    const Bound bound(attention);
    std::vector<unsigned char> visible(size_t{attention.queries} * attention.keys);
    vkattn_diagnostic why{};
    for (uint32_t row = 0; row < attention.queries; ++row)
        if (vkattnCpuVisible(&bound.problem, bound.operands.data(), static_cast<uint32_t>(bound.operands.size()), 0, 0, row,
                             visible.data() + size_t{row} * attention.keys, attention.keys, &why) != VKATTN_OK)
            throw Failure(why.message);
    return visible;
}

} // namespace vkattn::tool::lab
