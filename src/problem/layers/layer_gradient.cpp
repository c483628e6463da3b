// vkattnPlanLayerGradient: the backward pass of a layer as operations, on what the layer kept.
#include "vkattn/layer_gradient.h"

#include "problem/layers/layer_steps.hpp"

#include <algorithm>
#include <utility>

namespace vkattn {
namespace {

constexpr uint64_t maxSummedTokens = 1u << 19; // the inner dims of a projection

// Rows for columns.
Place transposed(Place matrix) {
    std::swap(matrix.layout.extent[2], matrix.layout.extent[3]);
    std::swap(matrix.layout.strideElems[2], matrix.layout.strideElems[3]);
    return matrix;
}

// A weight, with its gradient and that of its bias.
struct Learned {
    Place w, dW, dB;
};

class GradientPlanner {
  public:
    GradientPlanner(const vkattn_layer_gradient &gradient, vkattn_layer_plan &plan, vkattn_diagnostic *why)
        : g_(gradient), plan_(plan), why_(why) {}

    [[nodiscard]] vkattn_result plan() {
        if (const auto r = check()) return r;
        LayerSteps steps(plan_, g_.stored, layer_.options, why_);
        steps_ = &steps;
        Place dY = {g_.dY, VKATTN_D_Y};
        if (layer_.place == VKATTN_NORM_POST)
            if (const auto r = throughPostNorm(dY)) return r;
        // The gradient that comes past attention, and past the dropout of its output.
        const Place past = layer_.flags & VKATTN_LAYER_RESIDUAL ? dY : Place{};
        if (const auto r = throughDrop(dY)) return r;
        Place dA;
        if (const auto r = throughOut(dY, dA)) return r;
        if (const auto r = throughAttention(dA)) return r;
        if (const auto r = throughProjections(past)) return r;
        steps.finish();
        return VKATTN_OK;
    }

  private:
    [[nodiscard]] static bool has(const vkattn_layout &layout) { return !absent(layout); }
    [[nodiscard]] static bool has(const Place &place) { return has(place.layout); }
    [[nodiscard]] bool pre() const { return layer_.place == VKATTN_NORM_PRE; }
    [[nodiscard]] bool crosses() const { return has(layer_.context); }
    [[nodiscard]] bool packed() const { return !has(layer_.wk); }

    [[nodiscard]] vkattn_result check() {
        if (g_.flags) return fail(why_, invalid, "gradient.flags is 0x%x, expected 0", g_.flags);
        if (g_.reserved) return fail(why_, invalid, "gradient.reserved is %u, expected 0", g_.reserved);
        if (!g_.forward) return fail(why_, invalid, "gradient.forward is NULL");
        forward_.structSize = sizeof forward_;
        if (const auto r = vkattnPlanLayer(g_.forward, &forward_, why_)) return r;
        layer_ = completed(*g_.forward, layer_);
        if (!(layer_.flags & VKATTN_LAYER_KEEPS_STEPS))
            return fail(why_, invalid,
                        "gradient.forward has no VKATTN_LAYER_KEEPS_STEPS; the backward pass reads what the layer kept: set the flag, and "
                        "run the layer with it");
        if (forward_.attention.sequences)
            return fail(why_, invalid,
                        "gradient.forward has a ragged batch, whose tokens outside of every sequence have no gradient: separate the "
                        "sequences by documents (VKATTN_DOC_IDS_Q and VKATTN_DOC_IDS_K)");
        if (g_.stored != VKATTN_F32 && g_.stored != VKATTN_F16 && g_.stored != VKATTN_BF16)
            return fail(why_, invalid, "gradient.stored is %d, expected VKATTN_F32, VKATTN_F16 or VKATTN_BF16",
                        static_cast<int>(g_.stored));
        constexpr uint32_t arrays = VKATTN_PRESENT(VKATTN_D_SINKS) | VKATTN_PRESENT(VKATTN_D_SLOPES) | VKATTN_PRESENT(VKATTN_D_SCALE) |
                                    VKATTN_PRESENT(VKATTN_D_SOFTCAP);
        if (g_.presentRoles & ~arrays)
            return fail(
                why_, invalid,
                "gradient.presentRoles has bits 0x%x, expected VKATTN_PRESENT of VKATTN_D_SINKS, VKATTN_D_SLOPES, VKATTN_D_SCALE and "
                "VKATTN_D_SOFTCAP",
                g_.presentRoles & ~arrays);
        return checkExtents();
    }

    [[nodiscard]] vkattn_result checkExtents() {
        const vkattn_problem &attention = forward_.attention;
        const struct {
            const char *name, *of;
            const vkattn_layout &gradient, &like;
        } all[] = {
            {"dY", "y", g_.dY, layer_.y},
            {"dX", "x", g_.dX, layer_.x},
            {"dContext", "context", g_.dContext, layer_.context},
            {"dWq", "wq", g_.dWq, layer_.wq},
            {"dWk", "wk", g_.dWk, layer_.wk},
            {"dWv", "wv", g_.dWv, layer_.wv},
            {"dWo", "wo", g_.dWo, layer_.wo},
            {"dBq", "bq", g_.dBq, layer_.bq},
            {"dBk", "bk", g_.dBk, layer_.bk},
            {"dBv", "bv", g_.dBv, layer_.bv},
            {"dBo", "bo", g_.dBo, layer_.bo},
            {"dGamma", "gamma", g_.dGamma, layer_.gamma},
            {"dBeta", "beta", g_.dBeta, layer_.beta},
            {"dBias", "bias among its options", g_.dBias, attention.bias},
        };
        bool any = g_.presentRoles != 0;
        for (const auto &each : all) {
            const uint32_t *const got = each.gradient.extent, *const expected = each.like.extent;
            const bool isDY = &each.gradient == &g_.dY;
            if (!has(each.gradient)) {
                if (isDY) return fail(why_, invalid, "gradient.dY has no layout; it is required");
                continue;
            }
            if (!has(each.like)) return fail(why_, invalid, "gradient.%s has a layout, and the layer has no %s", each.name, each.of);
            if (!std::equal(got, got + 4, expected))
                return fail(why_, invalid, "gradient.%s is [%u, %u, %u, %u], expected the extents of the layer's %s, [%u, %u, %u, %u]",
                            each.name, got[0], got[1], got[2], got[3], each.of, expected[0], expected[1], expected[2], expected[3]);
            any = any || !isDY;
        }
        if (!any)
            return fail(why_, invalid, "no gradient is asked for: give dX, dWq or another one a layout, or set a bit of presentRoles");
        batch_ = layer_.x.extent[0], tokens_ = layer_.x.extent[2];
        keyTokens_ = crosses() ? layer_.context.extent[2] : tokens_;
        for (const uint32_t tokens : {tokens_, keyTokens_}) {
            const uint64_t summed = uint64_t{batch_} * tokens;
            if (summed == 0)
                return fail(why_, invalid, "the layer has no tokens, which have no gradient: leave the call out, and take zeros");
            const bool sums = has(g_.dWq) || has(g_.dWk) || has(g_.dWv) || has(g_.dWo);
            if (sums && summed > maxSummedTokens)
                return fail(
                    why_, invalid,
                    "the layer has %llu tokens in its batch, and the gradient of a matrix sums up at most %llu: take the gradients of "
                    "some entries at a time, and add them up",
                    static_cast<unsigned long long>(summed), static_cast<unsigned long long>(maxSummedTokens));
        }
        return findNeeds();
    }

    // What has to be computed for the gradients that are asked for.
    [[nodiscard]] vkattn_result findNeeds() {
        needsIn_ = has(g_.dX) || (pre() && (has(g_.dGamma) || has(g_.dBeta)));
        needsQ_ = needsIn_ || has(g_.dWq) || has(g_.dBq);
        const bool keysIn = crosses() ? has(g_.dContext) : needsIn_;
        needsK_ = packed() ? needsQ_ : keysIn || has(g_.dWk) || has(g_.dBk);
        needsV_ = packed() ? needsQ_ : keysIn || has(g_.dWv) || has(g_.dBv);
        needsAttention_ = needsQ_ || needsK_ || needsV_ || has(g_.dBias) || g_.presentRoles;
        return VKATTN_OK;
    }

    [[nodiscard]] Place gradientOr(const vkattn_layout &layout, vkattn_role role) const {
        return has(layout) ? Place{layout, role} : Place{};
    }

    [[nodiscard]] vkattn_result addNormGradient(NormGradientPlaces at) {
        vkattn_norm_gradient norm{};
        norm.kind = layer_.norm;
        norm.epsilon = layer_.epsilon;
        at.gamma = {layer_.gamma, VKATTN_GAMMA};
        at.dGamma = gradientOr(g_.dGamma, VKATTN_D_GAMMA);
        at.dBeta = gradientOr(g_.dBeta, VKATTN_D_BETA);
        return steps_->addNormGradient("norm gradient", norm, at);
    }

    // From dZ to dS.
    [[nodiscard]] vkattn_result throughPostNorm(Place &dY) {
        const vkattn_norm &norm = forward_.norms[0];
        NormGradientPlaces at;
        at.x = {has(norm.sum) ? norm.sum : norm.x, VKATTN_KEPT};
        at.dY = dY;
        const bool goesOn = needsAttention_ || has(g_.dX) || has(g_.dWo) || has(g_.dBo);
        if (!goesOn && !has(g_.dGamma) && !has(g_.dBeta)) return VKATTN_OK;
        if (goesOn) dY = at.dX = steps_->between(batch_, 1, tokens_, layer_.wo.extent[2]);
        return addNormGradient(at);
    }

    // Dropout is its own backward pass.
    [[nodiscard]] vkattn_result throughDrop(Place &dY) {
        if (!(layer_.outputDropout > 0) || !(needsAttention_ || has(g_.dWo) || has(g_.dBo))) return VKATTN_OK;
        vkattn_drop drop{};
        drop.probability = layer_.outputDropout;
        drop.seed = layer_.outputDropoutSeed;
        drop.offset = layer_.outputDropoutOffset;
        const Place kept = steps_->between(batch_, 1, tokens_, layer_.wo.extent[2]);
        if (const auto r = steps_->addDrop("drop", drop, dY, {}, kept)) return r;
        dY = kept;
        return VKATTN_OK;
    }

    // From dY to dA, and the output's own gradients.
    [[nodiscard]] vkattn_result throughOut(const Place &dY, Place &dA) {
        const Place a = rowsOf(forward_.attention.out, layer_.wo.extent[3]);
        if (const auto r =
                addLearned("dwo", "dbo", dY, "dy", a, "a", {{}, gradientOr(g_.dWo, VKATTN_D_WO), gradientOr(g_.dBo, VKATTN_D_BO)}))
            return r;
        if (!needsAttention_) return VKATTN_OK;
        dA = steps_->between(batch_, 1, tokens_, layer_.wo.extent[3]);
        return steps_->addProjection("da", dY, transposed({layer_.wo, VKATTN_WO}), {}, {}, dA);
    }

    // From dA to dQ, dK and dV as the projections made Q, K and V.
    [[nodiscard]] vkattn_result throughAttention(const Place &dA) {
        if (!needsAttention_) return VKATTN_OK;
        const vkattn_problem &attention = forward_.attention;
        const uint32_t heads = layer_.heads, kvHeads = attention.k.extent[1], dim = attention.q.extent[3], valueDim = attention.v.extent[3];
        const uint32_t queries = heads * dim, keys = kvHeads * dim, values = kvHeads * valueDim;
        Place all;
        if (packed() && needsQ_) {
            all = qRows_ = steps_->between(batch_, 1, tokens_, queries + keys + values);
            kRows_ = columns(all, queries, keys), vRows_ = columns(all, queries + keys, values);
        } else {
            if (needsQ_) qRows_ = steps_->between(batch_, 1, tokens_, queries);
            if (needsK_) kRows_ = steps_->between(batch_, 1, keyTokens_, keys);
            if (needsV_) vRows_ = steps_->between(batch_, 1, keyTokens_, values);
        }
        AttentionGradientPlaces at;
        at.dOut = headsOf(dA, 0, heads, valueDim);
        if (needsQ_) at.dQ = headsOf(qRows_, 0, heads, dim);
        if (needsK_) at.dK = headsOf(kRows_, 0, kvHeads, dim);
        if (needsV_) at.dV = headsOf(vRows_, 0, kvHeads, valueDim);
        vkattn_attention_gradient gradient{};
        gradient.dBias = g_.dBias;
        gradient.presentRoles = g_.presentRoles;
        gradient.kernel = g_.kernel;
        if (const auto r = steps_->addAttentionGradient(attention, gradient, at)) return r;
        if (!has(all)) {
            if (const auto r = turnBack("q rotary", at.dQ)) return r;
            return turnBack("k rotary", at.dK);
        }
        // The heads of K follow those of Q.
        at.dQ.layout.extent[1] += at.dK.layout.extent[1];
        return turnBack("qk rotary", at.dQ);
    }

    // In place.
    [[nodiscard]] vkattn_result turnBack(const char *name, const Place &x) {
        if (!has(layer_.cos) || !has(x)) return VKATTN_OK;
        vkattn_rotary rotary{};
        rotary.flags = VKATTN_ROTARY_INVERSE;
        rotary.pairs = layer_.pairs;
        rotary.start = layer_.start;
        rotary.presentRoles = layer_.presentRoles;
        return steps_->addRotary(name, rotary, x, {layer_.cos, VKATTN_COS}, {layer_.sin, VKATTN_SIN}, x);
    }

    [[nodiscard]] vkattn_result throughProjections(const Place &past) {
        const Place x = {layer_.x, VKATTN_X}, in = pre() ? Place{forward_.norms[0].y, VKATTN_KEPT} : x;
        const Place source = crosses() ? Place{layer_.context, VKATTN_CONTEXT} : in;
        const char *const inName = "x", *const sourceName = crosses() ? "context" : "x";
        const Learned q = {{layer_.wq, VKATTN_WQ}, gradientOr(g_.dWq, VKATTN_D_WQ), gradientOr(g_.dBq, VKATTN_D_BQ)};
        const Learned k = {{layer_.wk, VKATTN_WK}, gradientOr(g_.dWk, VKATTN_D_WK), gradientOr(g_.dBk, VKATTN_D_BK)};
        const Learned v = {{layer_.wv, VKATTN_WV}, gradientOr(g_.dWv, VKATTN_D_WV), gradientOr(g_.dBv, VKATTN_D_BV)};
        if (const auto r = addLearned("dwq", "dbq", qRows_, "dq", in, inName, q)) return r;
        if (const auto r = addLearned("dwk", "dbk", kRows_, "dk", source, sourceName, k)) return r;
        if (const auto r = addLearned("dwv", "dbv", vRows_, "dv", source, sourceName, v)) return r;
        if (needsIn_)
            if (const auto r = intoX(x, past, q, k, v)) return r;
        if (!has(g_.dContext)) return VKATTN_OK;
        const Place dContext = {g_.dContext, VKATTN_D_CONTEXT};
        if (const auto r = addInputs("k dcontext", kRows_, k.w, {}, dContext)) return r;
        return addInputs("v dcontext", vRows_, v.w, dContext, dContext);
    }

    // dX, of what the three projections give and what came past them.
    [[nodiscard]] vkattn_result intoX(const Place &x, const Place &past, const Learned &q, const Learned &k, const Learned &v) {
        const Place dX = gradientOr(g_.dX, VKATTN_D_X);
        const Place dN = pre() ? steps_->between(batch_, 1, tokens_, layer_.x.extent[3]) : dX;
        if (const auto r = addInputs(packed() ? "qkv dx" : "q dx", qRows_, q.w, pre() ? Place{} : past, dN)) return r;
        if (!packed() && !crosses()) {
            if (const auto r = addInputs("k dx", kRows_, k.w, dN, dN)) return r;
            if (const auto r = addInputs("v dx", vRows_, v.w, dN, dN)) return r;
        }
        if (!pre()) return VKATTN_OK;
        NormGradientPlaces at;
        at.x = x, at.dY = dN, at.dX = dX;
        if (has(dX)) at.residual = past;
        return addNormGradient(at);
    }
    // to = dRows W + past
    [[nodiscard]] vkattn_result addInputs(const char *name, const Place &dRows, const Place &w, const Place &past, const Place &to) {
        return steps_->addProjection(name, dRows, transposed(w), {}, past, to);
    }

    // dW = dRows^T rows, and db = the sum of dRows.
    [[nodiscard]] vkattn_result addLearned(const char *nameOfW, const char *nameOfB, const Place &dRows, const char *nameOfGradient,
                                           const Place &rows, const char *nameOfRows, const Learned &learned) {
        if (has(learned.dW)) {
            Place from, to;
            if (const auto r = asMatrix(nameOfGradient, dRows, from)) return r;
            if (const auto r = asMatrix(nameOfRows, rows, to)) return r;
            if (const auto r = steps_->addProjection(nameOfW, transposed(from), transposed(to), {}, {}, learned.dW)) return r;
        }
        if (!has(learned.dB)) return VKATTN_OK;
        // The sum over rows is the dBeta of a norm, whatever that is taken of.
        NormGradientPlaces at;
        at.x = at.dY = dRows;
        at.dBeta = learned.dB;
        vkattn_norm_gradient sum{};
        sum.kind = VKATTN_RMS_NORM;
        sum.epsilon = 1;
        return steps_->addNormGradient(nameOfB, sum, at);
    }

    // The tokens of all batch entries as rows of one matrix: a copy, where strides do not do it.
    [[nodiscard]] vkattn_result asMatrix(const char *name, const Place &rows, Place &matrix) {
        const vkattn_layout &l = rows.layout;
        const uint32_t batch = l.extent[0], tokens = l.extent[2];
        const int64_t entry = l.strideElems[0], token = l.strideElems[2];
        const bool one = batch == 1 || tokens == 1 || (entry % tokens == 0 && entry / tokens == token);
        if (!one) {
            // Of the same tensor for three products once.
            if (copyOf_ != rows.from) {
                copy_ = steps_->between(l.dtype, batch, 1, tokens, l.extent[3]);
                copyOf_ = rows.from;
                if (const auto r = steps_->addAppend(name, {}, rows, copy_)) return r;
            }
            return asMatrix(name, copy_, matrix);
        }
        matrix = rows;
        matrix.layout.extent[0] = 1;
        matrix.layout.extent[2] = batch * tokens;
        matrix.layout.strideElems[2] = tokens == 1 ? entry : token;
        return VKATTN_OK;
    }

    // Heads [batch, heads, tokens, dim] of kept rows, as rows of `columns`.
    [[nodiscard]] static Place rowsOf(vkattn_layout heads, uint32_t columns) {
        heads.extent[1] = 1;
        heads.extent[3] = columns;
        return {heads, VKATTN_KEPT};
    }

    const vkattn_layer_gradient &g_;
    vkattn_layer_plan &plan_;
    vkattn_diagnostic *why_;
    LayerSteps *steps_ = nullptr;
    vkattn_layer layer_{};
    vkattn_layer_plan forward_{};
    bool needsIn_ = false, needsQ_ = false, needsK_ = false, needsV_ = false, needsAttention_ = false;
    Place qRows_, kRows_, vRows_; // gradients of Q, K and V; packed: qRows_ are all of them
    Place copy_;                  // that was made last
    vkattn_role copyOf_ = VKATTN_WORKSPACE;
    uint32_t batch_ = 0, tokens_ = 0, keyTokens_ = 0;
};

} // namespace
} // namespace vkattn

extern "C" vkattn_result vkattnPlanLayerGradient(const vkattn_layer_gradient *gradient, vkattn_layer_plan *plan, vkattn_diagnostic *why) {
    return vkattn::planInPlace<vkattn::GradientPlanner>(gradient, "vkattn_layer_gradient", plan, why);
}
