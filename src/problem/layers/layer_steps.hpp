// The steps of a layer as they are planned: operations, the memory of their operands, and what lies
// between them in one workspace.
#pragma once

#include "problem/tensor.hpp"
#include "util/struct_size.hpp"
#include "vkattn/layer_gradient.h"

namespace vkattn {

// What every layer requires of its flags, `known` ones, and heads, of the type between its steps, of rows [batch, 1, tokens, dims], of a
// matrix [1, 1, out, in] (which may be absent), and of the largest tensor between steps.
[[nodiscard]] vkattn_result checkFlagsAndHeads(uint32_t flags, uint32_t known, uint32_t heads, vkattn_diagnostic *why);
[[nodiscard]] vkattn_result checkStored(vkattn_dtype stored, vkattn_diagnostic *why);
[[nodiscard]] vkattn_result checkRows(const char *name, const vkattn_layout &layout, vkattn_diagnostic *why);
[[nodiscard]] vkattn_result checkMatrix(const char *name, const vkattn_layout &layout, vkattn_diagnostic *why);
// Of an operand that is seen through views: extent * stride and offset leave room for 64-bit sums.
[[nodiscard]] vkattn_result checkReach(const char *name, const vkattn_layout &layout, vkattn_diagnostic *why);
[[nodiscard]] vkattn_result checkBetween(uint32_t batch, double tokens, double dims, vkattn_diagnostic *why);

// A tensor and the role of the layer whose memory it lies in.
struct Place {
    vkattn_layout layout{};
    vkattn_role from = VKATTN_WORKSPACE;
};

// Returns dims [first, first + count) of each row.
[[nodiscard]] Place columns(const Place &rows, uint32_t first, uint32_t count);
// Returns columns [first, first + count * dim) of rows [batch, 1, tokens, columns] as heads [batch,
// count, tokens, dim].
[[nodiscard]] Place headsOf(const Place &rows, uint32_t first, uint32_t count, uint32_t dim);

// The weights of each head between the steps, and the mean that the layer writes.
struct AveragedWeights {
    Place heads, mean;
};

// Of a norm's gradient; what is absent is not there.
struct NormGradientPlaces {
    Place x, gamma, dY, dX, dGamma, dBeta, residual;
};
// Of attention's gradient, beside what the forward pass has.
struct AttentionGradientPlaces {
    Place dOut, dQ, dK, dV;
};

// Fills the plan, which must not move. Each add... returns the step's own error, with its name.
class LayerSteps {
  public:
    // `options` of the attention may be NULL; their own operands are the layer's.
    LayerSteps(vkattn_layer_plan &plan, vkattn_dtype stored, const vkattn_problem *options, vkattn_diagnostic *why)
        : plan_(plan), stored_(stored), options_(options), why_(why) {}

    // Room for [batch, groups, tokens, dims] in the workspace: the rows of a token lie together.
    [[nodiscard]] Place between(uint32_t batch, uint32_t groups, uint32_t tokens, uint32_t dims) {
        return between(stored_, batch, groups, tokens, dims);
    }
    [[nodiscard]] Place between(vkattn_dtype dtype, uint32_t batch, uint32_t groups, uint32_t tokens, uint32_t dims);
    // Room in the memory that outlives the layer.
    [[nodiscard]] Place kept(vkattn_dtype dtype, uint32_t batch, uint32_t groups, uint32_t tokens, uint32_t dims);
    // Room that is given after reuse(mark()) is that given between the two calls.
    [[nodiscard]] uint64_t mark() const { return bytes_; }
    void reuse(uint64_t mark) { bytes_ = mark; }

    // The layouts are set here, and everything else by the caller.
    [[nodiscard]] vkattn_result addNorm(const char *name, vkattn_norm norm, const Place &x, const Place &residual, const Place &gamma,
                                        const Place &beta, const Place &y, const Place &sum = {});
    [[nodiscard]] vkattn_result addNormGradient(const char *name, vkattn_norm_gradient gradient, const NormGradientPlaces &at);
    [[nodiscard]] vkattn_result addProjection(const char *name, const Place &x, const Place &w, const Place &bias, const Place &residual,
                                              const Place &y);
    [[nodiscard]] vkattn_result addRotary(const char *name, vkattn_rotary rotary, const Place &x, const Place &cos, const Place &sin,
                                          const Place &y);
    [[nodiscard]] vkattn_result addAppend(const char *name, vkattn_append append, const Place &x, const Place &y);
    // An absent v: values are the first dims of k. A scale of 0 is the attention's own. With
    // `averaged`, which is written, the weights of the options are the mean over the heads. With
    // `keeps` the statistics of the rows are kept.
    [[nodiscard]] vkattn_result addAttention(float scale, const Place &q, const Place &k, const Place &v, const Place &out,
                                             AveragedWeights *averaged = nullptr, bool keeps = false);
    // `forward`: the attention of a layer that keeps its steps. dBias and presentRoles are those of
    // `gradient`.
    [[nodiscard]] vkattn_result addAttentionGradient(const vkattn_problem &forward, const vkattn_attention_gradient &gradient,
                                                     const AttentionGradientPlaces &at);
    [[nodiscard]] vkattn_result addMean(const char *name, const Place &x, const Place &y);
    [[nodiscard]] vkattn_result addDrop(const char *name, vkattn_drop drop, const Place &x, const Place &residual, const Place &y);
    // Returns the attention that was added.
    [[nodiscard]] const vkattn_problem &attention() const { return plan_.attention; }
    // Places the barriers, when all steps are there.
    void finish();

  private:
    [[nodiscard]] vkattn_result takeWeights(vkattn_problem &problem, AveragedWeights &averaged);
    // The roles that have no memory yet are those of the layer.
    void giveRest(vkattn_layer_step &step);
    vkattn_layer_step &begin(const char *name, vkattn_operation_kind kind);
    vkattn_result end(const vkattn_layer_step &step);

    vkattn_layer_plan &plan_;
    vkattn_dtype stored_;
    const vkattn_problem *options_;
    vkattn_diagnostic *why_;
    uint32_t projections_ = 0, norms_ = 0, normGradients_ = 0, rotaries_ = 0, appends_ = 0;
    uint64_t bytes_ = 0, most_ = 0;
};

// Rows [first, first + count) of [batch, heads, tokens, dims].
[[nodiscard]] Place tokensOf(const Place &rows, uint32_t first, uint32_t count);

[[nodiscard]] constexpr const char *nameOf(const vkattn_layer_gradient *) {
    return "gradient";
}
[[nodiscard]] constexpr const char *nameOf(const void *) {
    return "layer";
}

// Plans with Planner(layer, plan, why, more...).plan(), where the steps point: *plan is written only
// on VKATTN_OK.
template <class Planner, class Layer, class... More>
[[nodiscard]] vkattn_result planInPlace(const Layer *layer, const char *type, vkattn_layer_plan *plan, vkattn_diagnostic *why,
                                        const More &...more) {
    if (!layer) return fail(why, invalid, "%s is NULL", nameOf(layer));
    if (!plan) return fail(why, invalid, "plan is NULL");
    if (const auto r = checkStructSize(*layer, nameOf(layer), type, why)) return r;
    // Steps point into the plan: a plan of another size would have them elsewhere.
    if (plan->structSize != sizeof *plan)
        return fail(why, invalid, "plan: structSize is %u, expected sizeof(vkattn_layer_plan) = %zu", plan->structSize, sizeof *plan);
    Layer room;
    const Layer &whole = completed(*layer, room);
    const vkattn_layer_plan before = *plan;
    *plan = {};
    plan->structSize = sizeof *plan;
    const vkattn_result result = Planner(whole, *plan, why, more...).plan();
    if (result != VKATTN_OK) *plan = before;
    return result;
}

} // namespace vkattn
