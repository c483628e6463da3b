// vkattnPlanLayer: a layer as operations, with what lies between them in one workspace.
#include "vkattn/layer.h"

#include "problem/layers/layer_parts.hpp"
#include "problem/layers/layer_steps.hpp"

#include <algorithm>

namespace vkattn {
namespace {

class LayerPlanner {
  public:
    LayerPlanner(const vkattn_layer &layer, vkattn_layer_plan &plan, vkattn_diagnostic *why, const TokenCut &cut)
        : layer_(layer), steps_(plan, layer.stored, layer.options, why), why_(why), cut_(cut) {}

    [[nodiscard]] vkattn_result plan() {
        if (const auto r = check()) return r;
        Place q, k, v;
        if (const auto r = cut_.tokens ? addRowsOfCut(q, k, v) : addRows(q, k, v)) return r;
        const uint32_t rows = q.layout.extent[2];
        const Place a = room(rows, layer_.heads * valueDim_);
        AveragedWeights weights;
        const bool averages = layer_.flags & VKATTN_LAYER_AVERAGED_WEIGHTS;
        if (const auto r = steps_.addAttention(0, q, k, v, headsOf(a, 0, layer_.heads, valueDim_), averages ? &weights : nullptr, keeps_))
            return r;
        if (averages)
            if (const auto r = steps_.addMean("weights", weights.heads, weights.mean)) return r;
        const bool post = layer_.place == VKATTN_NORM_POST, drops = layer_.outputDropout > 0;
        const uint32_t out = layer_.wo.extent[2];
        const Place z = rowsOfCut({layer_.y, VKATTN_Y}),
                    y = post    ? room(rows, out)
                        : drops ? steps_.between(batch_, 1, rows, out)
                                : z,
                    x = layer_.flags & VKATTN_LAYER_RESIDUAL ? rowsOfCut({layer_.x, VKATTN_X}) : Place{}, none;
        // X is added by the last step: the sum is then not rounded, unless it is kept.
        if (const auto r = steps_.addProjection("out", a, {layer_.wo, VKATTN_WO}, {layer_.bo, VKATTN_BO}, post || drops ? none : x, y))
            return r;
        if (drops)
            if (const auto r = addDrop(y, post ? none : x, post ? y : z)) return r;
        if (post)
            if (const auto r = addNorm(y, x, z, has(x.layout) && keeps_ ? y : none)) return r;
        steps_.finish();
        return VKATTN_OK;
    }

  private:
    [[nodiscard]] bool has(const vkattn_layout &layout) const { return !absent(layout); }

    [[nodiscard]] vkattn_result check() {
        const vkattn_layer &l = layer_;
        if (const auto r = checkFlagsAndHeads(l.flags, VKATTN_LAYER_RESIDUAL | VKATTN_LAYER_AVERAGED_WEIGHTS | VKATTN_LAYER_KEEPS_STEPS,
                                              l.heads, why_))
            return r;
        keeps_ = l.flags & VKATTN_LAYER_KEEPS_STEPS;
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
        if (const auto r = checkDropout()) return r;
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

    [[nodiscard]] vkattn_result checkDropout() {
        const vkattn_layer &l = layer_;
        if (!(l.outputDropout >= 0 && l.outputDropout <= 1))
            return fail(why_, invalid, "layer.outputDropout is %g, expected a probability from 0 to 1", l.outputDropout);
        if (l.outputDropout == 0 && (l.outputDropoutSeed || l.outputDropoutOffset))
            return fail(why_, invalid, "layer has outputDropoutSeed %llu and outputDropoutOffset %u without outputDropout, expected 0",
                        static_cast<unsigned long long>(l.outputDropoutSeed), l.outputDropoutOffset);
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

    // Rows between the steps, of all batch entries.
    [[nodiscard]] Place room(uint32_t tokens, uint32_t dims) {
        return keeps_ ? steps_.kept(layer_.stored, batch_, 1, tokens, dims) : steps_.between(batch_, 1, tokens, dims);
    }

    [[nodiscard]] vkattn_result addNorm(const Place &x, const Place &residual, const Place &y, const Place &sum = {}) {
        vkattn_norm norm{};
        norm.kind = layer_.norm;
        norm.epsilon = layer_.epsilon;
        return steps_.addNorm("norm", norm, x, residual, {layer_.gamma, VKATTN_GAMMA}, {layer_.beta, VKATTN_BETA}, y, sum);
    }

    [[nodiscard]] vkattn_result addDrop(const Place &x, const Place &residual, const Place &y) {
        const vkattn_layer &l = layer_;
        // Weights of head h and features of entry h would share their random numbers.
        if (const vkattn_problem &a = steps_.attention();
            a.dropout > 0 && a.dropoutSeed == l.outputDropoutSeed && a.dropoutOffset == l.outputDropoutOffset)
            return fail(why_, invalid,
                        "layer.outputDropoutSeed %llu and outputDropoutOffset %u are those of the options' dropout: each call site has an "
                        "offset of its own",
                        static_cast<unsigned long long>(l.outputDropoutSeed), l.outputDropoutOffset);
        vkattn_drop drop{};
        drop.probability = l.outputDropout;
        drop.seed = l.outputDropoutSeed;
        drop.offset = l.outputDropoutOffset;
        drop.firstRow = cut_.firstToken;
        drop.firstPlane = cut_.firstEntry;
        return steps_.addDrop("drop", drop, x, residual, y);
    }

    // Q, K and V of all tokens, turned.
    [[nodiscard]] vkattn_result addRows(Place &q, Place &k, Place &v) {
        Place in;
        if (const auto r = addInput({layer_.x, VKATTN_X}, in)) return r;
        if (!packed_) {
            if (const auto r = addQueries(in, q)) return r;
            placeKeys(k, v);
            if (const auto r = addKeys(has(layer_.context) ? Place{layer_.context, VKATTN_CONTEXT} : in)) return r;
            if (const auto r = turn("q rotary", q, 0)) return r;
            return turn("k rotary", k, 0);
        }
        const uint32_t queries = layer_.heads * dim_, keys = kvHeads_ * dim_;
        const Place all = room(tokens_, layer_.wq.extent[2]);
        q = headsOf(all, 0, layer_.heads, dim_);
        k = headsOf(all, queries, kvHeads_, dim_);
        v = headsOf(all, queries + keys, kvHeads_, dim_);
        if (const auto r = steps_.addProjection("qkv", in, {layer_.wq, VKATTN_WQ}, {layer_.bq, VKATTN_BQ}, {}, all)) return r;
        // The heads of K follow those of Q: one step turns both.
        Place both = q;
        both.layout.extent[1] += k.layout.extent[1];
        return turn("qk rotary", both, 0);
    }

    // Q of the cut's tokens, and K and V of all that these see: the first cut makes K and V, and
    // leaves them in the workspace for the others.
    [[nodiscard]] vkattn_result addRowsOfCut(Place &q, Place &k, Place &v) {
        placeKeys(k, v);
        Place in;
        if (cut_.firstToken == 0) {
            const uint64_t mark = steps_.mark();
            if (has(layer_.context))
                in = {layer_.context, VKATTN_CONTEXT};
            else if (const auto r = addInput({layer_.x, VKATTN_X}, in))
                return r;
            if (const auto r = addKeys(in)) return r;
            if (const auto r = turn("k rotary", k, 0)) return r;
            steps_.reuse(mark);
        }
        if (const auto r = addInput(rowsOfCut({layer_.x, VKATTN_X}), in)) return r;
        if (const auto r = addQueries(in, q)) return r;
        k = tokensOf(k, 0, cut_.keys);
        v = tokensOf(v, 0, cut_.keys);
        return turn("q rotary", q, cut_.firstToken);
    }

    [[nodiscard]] vkattn_result addQueries(const Place &in, Place &q) {
        const uint32_t count = layer_.heads * dim_;
        const Place rows = room(in.layout.extent[2], count);
        q = headsOf(rows, 0, layer_.heads, dim_);
        return steps_.addProjection("q", in, rowsOfWq(0, count), biasOfWq(0, count), {}, rows);
    }
    void placeKeys(Place &k, Place &v) {
        const uint32_t keys = kvHeads_ * dim_, values = kvHeads_ * valueDim_;
        keyRows_ = room(keyTokens_, packed_ ? keys + values : keys);
        valueRows_ = packed_ ? columns(keyRows_, keys, values) : room(keyTokens_, values);
        k = headsOf(keyRows_, 0, kvHeads_, dim_);
        v = headsOf(valueRows_, 0, kvHeads_, valueDim_);
    }
    [[nodiscard]] vkattn_result addKeys(const Place &in) {
        if (packed_) {
            const uint32_t queries = layer_.heads * dim_, count = keyRows_.layout.extent[3];
            return steps_.addProjection("kv", in, rowsOfWq(queries, count), biasOfWq(queries, count), {}, keyRows_);
        }
        if (const auto r = steps_.addProjection("k", in, {layer_.wk, VKATTN_WK}, {layer_.bk, VKATTN_BK}, {}, keyRows_)) return r;
        return steps_.addProjection("v", in, {layer_.wv, VKATTN_WV}, {layer_.bv, VKATTN_BV}, {}, valueRows_);
    }
    [[nodiscard]] Place rowsOfCut(const Place &rows) const { return cut_.tokens ? tokensOf(rows, cut_.firstToken, cut_.tokens) : rows; }
    [[nodiscard]] Place rowsOfWq(uint32_t first, uint32_t count) const { return tokensOf({layer_.wq, VKATTN_WQ}, first, count); }
    [[nodiscard]] Place biasOfWq(uint32_t first, uint32_t count) const {
        return has(layer_.bq) ? columns({layer_.bq, VKATTN_BQ}, first, count) : Place{};
    }

    // What the projections take: the tokens, normed where the norm comes before.
    [[nodiscard]] vkattn_result addInput(const Place &x, Place &in) {
        in = x;
        if (layer_.place != VKATTN_NORM_PRE) return VKATTN_OK;
        in = room(x.layout.extent[2], x.layout.extent[3]);
        return addNorm(x, {}, in);
    }

    // In place.
    [[nodiscard]] vkattn_result turn(const char *name, const Place &x, uint32_t firstToken) {
        if (!has(layer_.cos)) return VKATTN_OK;
        vkattn_rotary rotary{};
        rotary.pairs = layer_.pairs;
        // An array of positions is that of the cut's tokens.
        const uint32_t first = layer_.presentRoles & VKATTN_PRESENT(VKATTN_POSITIONS) ? 0 : firstToken;
        rotary.start = static_cast<uint32_t>(std::min<uint64_t>(uint64_t{layer_.start} + first, UINT32_MAX));
        rotary.presentRoles = layer_.presentRoles;
        return steps_.addRotary(name, rotary, x, {layer_.cos, VKATTN_COS}, {layer_.sin, VKATTN_SIN}, x);
    }

    const vkattn_layer &layer_;
    LayerSteps steps_;
    vkattn_diagnostic *why_;
    const TokenCut &cut_;
    Place keyRows_, valueRows_;
    bool packed_ = false, keeps_ = false;
    uint32_t kvHeads_ = 0, dim_ = 0, valueDim_ = 0, batch_ = 0, tokens_ = 0, keyTokens_ = 0;
};

} // namespace

vkattn_result planTokens(const vkattn_layer &layer, const TokenCut &cut, vkattn_layer_plan &plan, vkattn_diagnostic *why) {
    return planInPlace<LayerPlanner>(&layer, "vkattn_layer", &plan, why, cut);
}

} // namespace vkattn

extern "C" vkattn_result vkattnPlanLayer(const vkattn_layer *layer, vkattn_layer_plan *plan, vkattn_diagnostic *why) {
    return vkattn::planInPlace<vkattn::LayerPlanner>(layer, "vkattn_layer", plan, why, vkattn::TokenCut{});
}
