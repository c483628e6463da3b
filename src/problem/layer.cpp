// vkattnPlanLayer: a layer as operations, with what lies between them in one workspace.
#include "vkattn/layer.h"

#include "problem/layer_steps.hpp"

#include <algorithm>

namespace vkattn {
namespace {

class LayerPlanner {
  public:
    LayerPlanner(const vkattn_layer &layer, vkattn_layer_plan &plan, vkattn_diagnostic *why)
        : layer_(layer), steps_(plan, layer.stored, layer.options, why), why_(why) {}

    [[nodiscard]] vkattn_result plan() {
        if (const auto r = check()) return r;
        Place in = {layer_.x, VKATTN_X};
        if (layer_.place == VKATTN_NORM_PRE) {
            const Place normed = steps_.between(batch_, 1, tokens_, layer_.x.extent[3]);
            if (const auto r = addNorm(in, {}, normed)) return r;
            in = normed;
        }
        Place q, k, v;
        if (const auto r = packed_ ? addPacked(in, q, k, v) : addProjections(in, q, k, v)) return r;
        if (const auto r = rotate(q, k)) return r;
        const Place a = steps_.between(batch_, 1, tokens_, layer_.heads * valueDim_);
        if (const auto r = steps_.addAttention(0, q, k, v, headsOf(a, 0, layer_.heads, valueDim_))) return r;
        const bool post = layer_.place == VKATTN_NORM_POST, residual = layer_.flags & VKATTN_LAYER_RESIDUAL;
        const Place z = {layer_.y, VKATTN_Y}, y = post ? steps_.between(batch_, 1, tokens_, layer_.wo.extent[2]) : z,
                    x = {layer_.x, VKATTN_X};
        // X is added by the norm where there is one: the sum is then not rounded.
        if (const auto r =
                steps_.addProjection("out", a, {layer_.wo, VKATTN_WO}, {layer_.bo, VKATTN_BO}, residual && !post ? x : Place{}, y))
            return r;
        if (post)
            if (const auto r = addNorm(y, residual ? x : Place{}, z)) return r;
        steps_.finish();
        return VKATTN_OK;
    }

  private:
    [[nodiscard]] bool has(const vkattn_layout &layout) const { return !absent(layout); }

    [[nodiscard]] vkattn_result check() {
        const vkattn_layer &l = layer_;
        if (const auto r = checkFlagsAndHeads(l.flags, l.heads, why_)) return r;
        kvHeads_ = l.kvHeads ? l.kvHeads : l.heads;
        if (l.heads % kvHeads_) return fail(why_, invalid, "layer.kvHeads is %u, expected a divisor of heads, %u", kvHeads_, l.heads);
        if (l.place != VKATTN_NORM_NONE && l.place != VKATTN_NORM_POST && l.place != VKATTN_NORM_PRE)
            return fail(why_, invalid, "layer.place is %d, which is no vkattn_norm_place", static_cast<int>(l.place));
        if (l.place == VKATTN_NORM_NONE && (has(l.gamma) || has(l.beta)))
            return fail(why_, invalid, "layer has gamma or beta and no norm: set place, or leave them absent");
        if (const auto r = checkStored(l.stored, why_)) return r;
        packed_ = !has(l.wk) && !has(l.wv);
        if (!packed_ && (!has(l.wk) || !has(l.wv)))
            return fail(why_, invalid, "layer has %s and not %s: give both, or one packed matrix as wq", has(l.wk) ? "wk" : "wv",
                        has(l.wk) ? "wv" : "wk");
        if (packed_ && has(l.context)) return fail(why_, invalid, "layer has a context and one packed matrix: give wq, wk and wv");
        if (packed_ && (has(l.bk) || has(l.bv)))
            return fail(why_, invalid, "layer has one packed matrix and bk or bv: the biases of all three are bq");
        if (const auto r = checkRotary()) return r;
        if (const auto r = checkRows("x", l.x, why_)) return r;
        if (has(l.context) && (l.context.extent[1] != 1 || l.context.extent[0] != l.x.extent[0]))
            return fail(why_, invalid, "layer.context is [%u, %u, ...], expected [%u, 1, key tokens, model]: the batch of x",
                        l.context.extent[0], l.context.extent[1], l.x.extent[0]);
        const vkattn_layout *matrices[] = {&l.wq, &l.wk, &l.wv, &l.wo};
        const char *const names[] = {"wq", "wk", "wv", "wo"};
        for (int m = 0; m < 4; ++m)
            if (const auto r = checkMatrix(names[m], *matrices[m], why_)) return r;
        return findDims();
    }

    [[nodiscard]] vkattn_result checkRotary() {
        const vkattn_layer &l = layer_;
        if (l.reserved) return fail(why_, invalid, "layer.reserved is %u, expected 0", l.reserved);
        if (has(l.cos) != has(l.sin))
            return fail(why_, invalid, "layer has %s and not %s: give both tables, or none", has(l.cos) ? "cos" : "sin",
                        has(l.cos) ? "sin" : "cos");
        if (!has(l.cos) && (l.start || l.presentRoles))
            return fail(why_, invalid, "layer has positions (start %u, presentRoles 0x%x) and no cos and sin: give the tables, or neither",
                        l.start, l.presentRoles);
        if (has(l.cos) && has(l.context))
            return fail(why_, invalid,
                        "layer has a context and cos: the context's tokens have positions of their own; leave the tables out, or list the "
                        "layer's operations with two rotations");
        return VKATTN_OK;
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
        return checkBetween(batch_, std::max(tokens_, keyTokens_), widest, why_);
    }

    [[nodiscard]] vkattn_result addNorm(const Place &x, const Place &residual, const Place &y) {
        vkattn_norm norm{};
        norm.kind = layer_.norm;
        norm.epsilon = layer_.epsilon;
        return steps_.addNorm("norm", norm, x, residual, {layer_.gamma, VKATTN_GAMMA}, {layer_.beta, VKATTN_BETA}, y);
    }

    // In place. In a packed product the heads of K follow those of Q: one step turns both.
    [[nodiscard]] vkattn_result rotate(const Place &q, const Place &k) {
        if (!has(layer_.cos)) return VKATTN_OK;
        vkattn_rotary rotary{};
        rotary.pairs = layer_.pairs;
        rotary.start = layer_.start;
        rotary.presentRoles = layer_.presentRoles;
        const auto turn = [&](const char *name, const Place &x) {
            return steps_.addRotary(name, rotary, x, {layer_.cos, VKATTN_COS}, {layer_.sin, VKATTN_SIN}, x);
        };
        if (packed_) {
            Place both = q;
            both.layout.extent[1] += k.layout.extent[1];
            return turn("qk rotary", both);
        }
        if (const auto r = turn("q rotary", q)) return r;
        return turn("k rotary", k);
    }

    [[nodiscard]] vkattn_result addPacked(const Place &in, Place &q, Place &k, Place &v) {
        const uint32_t queries = layer_.heads * dim_, keys = kvHeads_ * dim_;
        const Place all = steps_.between(batch_, 1, tokens_, layer_.wq.extent[2]);
        q = headsOf(all, 0, layer_.heads, dim_);
        k = headsOf(all, queries, kvHeads_, dim_);
        v = headsOf(all, queries + keys, kvHeads_, dim_);
        return steps_.addProjection("qkv", in, {layer_.wq, VKATTN_WQ}, {layer_.bq, VKATTN_BQ}, {}, all);
    }

    [[nodiscard]] vkattn_result addProjections(const Place &in, Place &q, Place &k, Place &v) {
        const Place from = has(layer_.context) ? Place{layer_.context, VKATTN_CONTEXT} : in;
        const Place qRows = steps_.between(batch_, 1, tokens_, layer_.heads * dim_),
                    kRows = steps_.between(batch_, 1, keyTokens_, kvHeads_ * dim_),
                    vRows = steps_.between(batch_, 1, keyTokens_, kvHeads_ * valueDim_);
        q = headsOf(qRows, 0, layer_.heads, dim_);
        k = headsOf(kRows, 0, kvHeads_, dim_);
        v = headsOf(vRows, 0, kvHeads_, valueDim_);
        if (const auto r = steps_.addProjection("q", in, {layer_.wq, VKATTN_WQ}, {layer_.bq, VKATTN_BQ}, {}, qRows)) return r;
        if (const auto r = steps_.addProjection("k", from, {layer_.wk, VKATTN_WK}, {layer_.bk, VKATTN_BK}, {}, kRows)) return r;
        return steps_.addProjection("v", from, {layer_.wv, VKATTN_WV}, {layer_.bv, VKATTN_BV}, {}, vRows);
    }

    const vkattn_layer &layer_;
    LayerSteps steps_;
    vkattn_diagnostic *why_;
    bool packed_ = false;
    uint32_t kvHeads_ = 0, dim_ = 0, valueDim_ = 0, batch_ = 0, tokens_ = 0, keyTokens_ = 0;
};

} // namespace
} // namespace vkattn

extern "C" vkattn_result vkattnPlanLayer(const vkattn_layer *layer, vkattn_layer_plan *plan, vkattn_diagnostic *why) {
    return vkattn::planInPlace<vkattn::LayerPlanner>(layer, "vkattn_layer", plan, why);
}
