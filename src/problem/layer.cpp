// vkattnPlanLayer: a layer as operations, with what lies between them in one workspace.
#include "vkattn/layer.h"

#include "problem/tensor.hpp"
#include "util/struct_size.hpp"

#include <algorithm>
#include <cstring>

namespace vkattn {
namespace {

constexpr vkattn_result invalid = VKATTN_ERROR_INVALID_ARGUMENT;
// Of what lies between steps: vectors and matrix units load from whole lines.
constexpr uint64_t betweenAlignment = 256;
constexpr uint32_t maxHeads = 1u << 20;
constexpr double maxBetween = 1.0 * (1ull << 50); // elements of one tensor

// A tensor and the role of the layer whose memory it lies in.
struct Place {
    vkattn_layout layout{};
    vkattn_role from = VKATTN_WORKSPACE;
};

class LayerPlanner {
  public:
    LayerPlanner(const vkattn_layer &layer, vkattn_layer_plan &plan, vkattn_diagnostic *why) : layer_(layer), plan_(plan), why_(why) {}

    [[nodiscard]] vkattn_result plan() {
        if (const auto r = check()) return r;
        Place in = {layer_.x, VKATTN_X};
        if (layer_.place == VKATTN_NORM_PRE) {
            const Place normed = between(1, layer_.x.extent[2], layer_.x.extent[3]);
            if (const auto r = addNorm(in, {}, normed)) return r;
            in = normed;
        }
        Place q, k, v;
        if (const auto r = packed_ ? addPacked(in, q, k, v) : addProjections(in, q, k, v)) return r;
        const Place a = between(1, tokens_, layer_.heads * valueDim_);
        if (const auto r = addAttention(q, k, v, heads(a, 0, layer_.heads, valueDim_))) return r;
        const bool post = layer_.place == VKATTN_NORM_POST, residual = layer_.flags & VKATTN_LAYER_RESIDUAL;
        const Place z = {layer_.y, VKATTN_Y}, y = post ? between(1, tokens_, layer_.wo.extent[2]) : z, x = {layer_.x, VKATTN_X};
        // X is added by the norm where there is one: the sum is then not rounded.
        if (const auto r = addProjection("out", a, {layer_.wo, VKATTN_WO}, {layer_.bo, VKATTN_BO}, residual && !post ? x : Place{}, y))
            return r;
        if (post)
            if (const auto r = addNorm(y, residual ? x : Place{}, z)) return r;
        plan_.betweenBytes = bytes_;
        return VKATTN_OK;
    }

  private:
    [[nodiscard]] bool has(const vkattn_layout &layout) const { return !absent(layout); }

    [[nodiscard]] vkattn_result check() {
        const vkattn_layer &l = layer_;
        if (l.flags & ~uint32_t{VKATTN_LAYER_RESIDUAL})
            return fail(why_, invalid, "layer.flags is 0x%x, expected vkattn_layer_flag_bits", l.flags);
        if (l.heads == 0 || l.heads > maxHeads) return fail(why_, invalid, "layer.heads is %u, expected 1 to %u", l.heads, maxHeads);
        kvHeads_ = l.kvHeads ? l.kvHeads : l.heads;
        if (l.heads % kvHeads_) return fail(why_, invalid, "layer.kvHeads is %u, expected a divisor of heads, %u", kvHeads_, l.heads);
        if (l.place != VKATTN_NORM_NONE && l.place != VKATTN_NORM_POST && l.place != VKATTN_NORM_PRE)
            return fail(why_, invalid, "layer.place is %d, which is no vkattn_norm_place", static_cast<int>(l.place));
        if (l.place == VKATTN_NORM_NONE && (has(l.gamma) || has(l.beta)))
            return fail(why_, invalid, "layer has gamma or beta and no norm: set place, or leave them absent");
        if (l.stored != VKATTN_F32 && l.stored != VKATTN_F16 && l.stored != VKATTN_BF16)
            return fail(why_, invalid, "layer.stored is %d, expected VKATTN_F32, VKATTN_F16 or VKATTN_BF16", static_cast<int>(l.stored));
        packed_ = !has(l.wk) && !has(l.wv);
        if (!packed_ && (!has(l.wk) || !has(l.wv)))
            return fail(why_, invalid, "layer has %s and not %s: give both, or one packed matrix as wq", has(l.wk) ? "wk" : "wv",
                        has(l.wk) ? "wv" : "wk");
        if (packed_ && has(l.context)) return fail(why_, invalid, "layer has a context and one packed matrix: give wq, wk and wv");
        if (packed_ && (has(l.bk) || has(l.bv)))
            return fail(why_, invalid, "layer has one packed matrix and bk or bv: the biases of all three are bq");
        if (has(l.x) && l.x.extent[1] != 1)
            return fail(why_, invalid, "layer.x has extent %u in dimension 1, expected [batch, 1, tokens, model]", l.x.extent[1]);
        if (has(l.context) && (l.context.extent[1] != 1 || l.context.extent[0] != l.x.extent[0]))
            return fail(why_, invalid, "layer.context is [%u, %u, ...], expected [%u, 1, key tokens, model]: the batch of x",
                        l.context.extent[0], l.context.extent[1], l.x.extent[0]);
        const vkattn_layout *matrices[] = {&l.wq, &l.wk, &l.wv, &l.wo};
        const char *const names[] = {"wq", "wk", "wv", "wo"};
        for (int m = 0; m < 4; ++m)
            if (has(*matrices[m]) && (matrices[m]->extent[0] != 1 || matrices[m]->extent[1] != 1))
                return fail(why_, invalid, "layer.%s is [%u, %u, ...], expected [1, 1, out, in]", names[m], matrices[m]->extent[0],
                            matrices[m]->extent[1]);
        return findDims();
    }

    [[nodiscard]] vkattn_result findDims() {
        const vkattn_layer &l = layer_;
        const uint32_t parts = packed_ ? l.heads + 2 * kvHeads_ : l.heads;
        if (parts < l.heads || l.wq.extent[2] % parts)
            return fail(why_, invalid, "layer.wq has %u rows, expected a multiple of %u: %s", l.wq.extent[2], parts,
                        packed_ ? "heads + 2 * kvHeads of them for Q, K and V" : "its heads");
        dim_ = valueDim_ = l.wq.extent[2] / parts;
        if (!packed_) {
            if (l.wk.extent[2] != uint64_t{kvHeads_} * dim_)
                return fail(why_, invalid, "layer.wk has %u rows, expected kvHeads * head dim = %u * %u", l.wk.extent[2], kvHeads_, dim_);
            if (l.wv.extent[2] % kvHeads_)
                return fail(why_, invalid, "layer.wv has %u rows, expected a multiple of kvHeads, %u", l.wv.extent[2], kvHeads_);
            valueDim_ = l.wv.extent[2] / kvHeads_;
        }
        if (l.wo.extent[3] != uint64_t{l.heads} * valueDim_)
            return fail(why_, invalid, "layer.wo has %u columns, expected heads * value dim = %u * %u", l.wo.extent[3], l.heads, valueDim_);
        if (l.flags & VKATTN_LAYER_RESIDUAL && l.wo.extent[2] != l.x.extent[3])
            return fail(why_, invalid, "layer.wo has %u rows and x %u dims: the residual adds x to the output, so that both are the same",
                        l.wo.extent[2], l.x.extent[3]);
        batch_ = l.x.extent[0];
        tokens_ = l.x.extent[2];
        keyTokens_ = has(l.context) ? l.context.extent[2] : tokens_;
        const uint32_t widest = std::max({l.wq.extent[2], l.wv.extent[2], l.wo.extent[2], l.wo.extent[3], l.x.extent[3]});
        if (static_cast<double>(batch_) * std::max(tokens_, keyTokens_) * widest > maxBetween)
            return fail(why_, invalid,
                        "the layer has %u entries of %u tokens and up to %u dims, expected at most 2^50 numbers between its steps", batch_,
                        std::max(tokens_, keyTokens_), widest);
        return VKATTN_OK;
    }

    // Room for [batch, count, tokens, dims] in the workspace.
    [[nodiscard]] Place between(uint32_t count, uint32_t tokens, uint32_t dims) {
        const uint64_t size = layer_.stored == VKATTN_F32 ? 4 : 2;
        Place place;
        const int64_t token = dims, group = token * tokens, entry = group * count;
        place.layout = {layer_.stored, {batch_, count, tokens, dims}, {entry, group, token, 1}, bytes_ / size};
        const uint64_t bytes = static_cast<uint64_t>(entry) * batch_ * size;
        bytes_ += (bytes + betweenAlignment - 1) / betweenAlignment * betweenAlignment;
        return place;
    }
    // Columns [first, first + count * dim) of rows, as heads.
    [[nodiscard]] static Place heads(const Place &rows, uint32_t first, uint32_t count, uint32_t dim) {
        Place place = rows;
        place.layout.extent[1] = count, place.layout.extent[3] = dim;
        place.layout.strideElems[1] = dim;
        place.layout.offsetElems += first;
        return place;
    }

    [[nodiscard]] vkattn_layer_step &begin(const char *name) {
        vkattn_layer_step &step = plan_.steps[plan_.stepCount++];
        step.name = name;
        // K and V need nothing that Q makes, and each other.
        const bool alone = std::strcmp(name, "k") == 0 || std::strcmp(name, "v") == 0;
        step.barrierBefore = plan_.stepCount > 1 && !alone;
        return step;
    }
    static void give(vkattn_layer_step &step, vkattn_role role, vkattn_role from) { step.operands[step.operandCount++] = {role, from}; }
    void give(vkattn_layer_step &step, vkattn_role role, const Place &place, vkattn_layout &layout) const {
        if (absent(place.layout)) return;
        layout = place.layout;
        give(step, role, place.from);
    }
    // Names the step in what its own rules say.
    [[nodiscard]] vkattn_result end(const vkattn_layer_step &step) {
        vkattn_diagnostic reason{};
        const vkattn_result result = vkattnValidateOperation(&step.operation, &reason);
        return result == VKATTN_OK ? result : fail(why_, result, "the layer's step '%s': %.400s", step.name, reason.message);
    }

    [[nodiscard]] vkattn_result addNorm(const Place &x, const Place &residual, const Place &y) {
        vkattn_layer_step &step = begin("norm");
        vkattn_norm &norm = plan_.norm;
        norm.structSize = sizeof norm;
        norm.kind = layer_.norm;
        norm.epsilon = layer_.epsilon;
        give(step, VKATTN_X, x, norm.x);
        give(step, VKATTN_RESIDUAL, residual, norm.residual);
        give(step, VKATTN_GAMMA, {layer_.gamma, VKATTN_GAMMA}, norm.gamma);
        give(step, VKATTN_BETA, {layer_.beta, VKATTN_BETA}, norm.beta);
        give(step, VKATTN_Y, y, norm.y);
        step.operation.kind = VKATTN_NORM;
        step.operation.of.norm = &norm;
        return end(step);
    }

    [[nodiscard]] vkattn_result addProjection(const char *name, const Place &x, const Place &w, const Place &bias, const Place &residual,
                                              const Place &y) {
        vkattn_layer_step &step = begin(name);
        vkattn_projection &projection = plan_.projections[projections_++];
        projection.structSize = sizeof projection;
        if (layer_.options) projection.flags = layer_.options->flags & VKATTN_DETERMINISTIC;
        give(step, VKATTN_X, x, projection.x);
        give(step, VKATTN_W, w, projection.w);
        give(step, VKATTN_BIAS, bias, projection.bias);
        give(step, VKATTN_RESIDUAL, residual, projection.residual);
        give(step, VKATTN_Y, y, projection.y);
        step.operation.kind = VKATTN_PROJECTION;
        step.operation.of.projection = &projection;
        return end(step);
    }

    [[nodiscard]] vkattn_result addPacked(const Place &in, Place &q, Place &k, Place &v) {
        const uint32_t columns = layer_.wq.extent[2], queries = layer_.heads * dim_, keys = kvHeads_ * dim_;
        const Place all = between(1, tokens_, columns);
        q = heads(all, 0, layer_.heads, dim_);
        k = heads(all, queries, kvHeads_, dim_);
        v = heads(all, queries + keys, kvHeads_, dim_);
        return addProjection("qkv", in, {layer_.wq, VKATTN_WQ}, {layer_.bq, VKATTN_BQ}, {}, all);
    }

    [[nodiscard]] vkattn_result addProjections(const Place &in, Place &q, Place &k, Place &v) {
        const Place from = has(layer_.context) ? Place{layer_.context, VKATTN_CONTEXT} : in;
        const Place qRows = between(1, tokens_, layer_.heads * dim_), kRows = between(1, keyTokens_, kvHeads_ * dim_),
                    vRows = between(1, keyTokens_, kvHeads_ * valueDim_);
        q = heads(qRows, 0, layer_.heads, dim_);
        k = heads(kRows, 0, kvHeads_, dim_);
        v = heads(vRows, 0, kvHeads_, valueDim_);
        if (const auto r = addProjection("q", in, {layer_.wq, VKATTN_WQ}, {layer_.bq, VKATTN_BQ}, {}, qRows)) return r;
        if (const auto r = addProjection("k", from, {layer_.wk, VKATTN_WK}, {layer_.bk, VKATTN_BK}, {}, kRows)) return r;
        return addProjection("v", from, {layer_.wv, VKATTN_WV}, {layer_.bv, VKATTN_BV}, {}, vRows);
    }

    [[nodiscard]] vkattn_result addAttention(const Place &q, const Place &k, const Place &v, const Place &out) {
        vkattn_layer_step &step = begin("attention");
        vkattn_problem &problem = plan_.attention;
        if (layer_.options) {
            if (const auto r = checkStructSize(layer_.options->structSize, sizeof problem, "layer.options", "vkattn_problem", why_))
                return r;
            vkattn_problem room;
            problem = completed(*layer_.options, room);
            if (problem.flags & VKATTN_VALUES_IN_KEYS)
                return fail(why_, invalid,
                            "layer.options.flags has VKATTN_VALUES_IN_KEYS, expected it clear: a layer projects values of its own");
            // Only slice 0 would be recorded.
            if (problem.sliceCount > 1)
                return fail(why_, invalid, "layer.options.sliceCount is %u, expected 0 or 1: a layer is recorded whole",
                            problem.sliceCount);
        }
        problem.structSize = sizeof problem;
        give(step, VKATTN_Q, q, problem.q);
        give(step, VKATTN_K, k, problem.k);
        give(step, VKATTN_V, v, problem.v);
        give(step, VKATTN_OUT, out, problem.out);
        step.operation.kind = VKATTN_ATTENTION;
        step.operation.of.attention = &problem;
        if (const auto r = end(step)) return r;
        // The options' own operands are the layer's.
        vkattn_operand_use uses[VKATTN_ROLE_LIMIT];
        const uint32_t count = vkattnOperandUses(&step.operation, uses, VKATTN_ROLE_LIMIT);
        for (uint32_t n = 0; n < count; ++n)
            if (const vkattn_role role = uses[n].role; role != VKATTN_Q && role != VKATTN_K && role != VKATTN_V && role != VKATTN_OUT)
                give(step, role, role);
        return VKATTN_OK;
    }

    const vkattn_layer &layer_;
    vkattn_layer_plan &plan_;
    vkattn_diagnostic *why_;
    bool packed_ = false;
    uint32_t kvHeads_ = 0, dim_ = 0, valueDim_ = 0, batch_ = 0, tokens_ = 0, keyTokens_ = 0, projections_ = 0;
    uint64_t bytes_ = 0;
};

} // namespace
} // namespace vkattn

using namespace vkattn;

extern "C" vkattn_result vkattnPlanLayer(const vkattn_layer *layer, vkattn_layer_plan *plan, vkattn_diagnostic *why) {
    if (!layer) return fail(why, invalid, "layer is NULL");
    if (!plan) return fail(why, invalid, "plan is NULL");
    if (const auto r = checkStructSize(layer->structSize, sizeof *layer, "layer", "vkattn_layer", why)) return r;
    // Steps point into the plan: a plan of another size would have them elsewhere.
    if (plan->structSize != sizeof *plan)
        return fail(why, invalid, "plan: structSize is %u, expected sizeof(vkattn_layer_plan) = %zu", plan->structSize, sizeof *plan);
    vkattn_layer room;
    const vkattn_layer &whole = completed(*layer, room);
    vkattn_layer_plan made{};
    if (const auto r = LayerPlanner(whole, made, why).plan()) return r;
    // Planned again in place, where the steps point.
    *plan = {};
    plan->structSize = sizeof *plan;
    return LayerPlanner(whole, *plan, nullptr).plan();
}
