#include "problem/layers/layer_steps.hpp"

#include <algorithm>
#include <cmath>
#include <initializer_list>

namespace vkattn {
namespace {

// Of what lies between steps: vectors and matrix units load from whole lines.
constexpr uint64_t betweenAlignment = 256;
constexpr uint32_t maxHeads = 1u << 20;

void give(vkattn_layer_step &step, vkattn_role role, vkattn_role from) {
    step.operands[step.operandCount++] = {role, from};
}
// Nothing where the place is absent.
void give(vkattn_layer_step &step, vkattn_role role, const Place &place, vkattn_layout &layout) {
    if (absent(place.layout)) return;
    layout = place.layout;
    give(step, role, place.from);
}

struct Uses {
    vkattn_operand_use list[VKATTN_LAYER_OPERANDS];
    uint32_t count = 0;

    // The roles are then those of the layer, whose memory they lie in.
    void set(const vkattn_layer_step &step) {
        count = vkattnOperandUses(&step.operation, list, VKATTN_LAYER_OPERANDS);
        for (uint32_t n = 0; n < count; ++n)
            for (uint32_t o = 0; o < step.operandCount; ++o)
                if (step.operands[o].role == list[n].role) {
                    list[n].role = step.operands[o].from;
                    break;
                }
    }
    [[nodiscard]] bool conflicts(const Uses &other) const {
        for (uint32_t a = 0; a < count; ++a)
            for (uint32_t b = 0; b < other.count; ++b) {
                const vkattn_operand_use &x = list[a], &y = other.list[b];
                if (x.role == y.role && (x.writes || y.writes) && x.beginBytes < y.endBytes && y.beginBytes < x.endBytes) return true;
            }
        return false;
    }
};

// Room behind `bytes`, which are then those of both.
Place placeBehind(uint64_t &bytes, vkattn_role memory, vkattn_dtype dtype, const uint32_t (&extent)[4]) {
    const uint64_t size = elementBytes(dtype);
    const int64_t group = extent[3], token = group * extent[1], entry = token * extent[2];
    Place place{{dtype, {extent[0], extent[1], extent[2], extent[3]}, {entry, group, token, 1}, bytes / size}, memory};
    const uint64_t own = static_cast<uint64_t>(entry) * extent[0] * size;
    bytes += (own + betweenAlignment - 1) / betweenAlignment * betweenAlignment;
    return place;
}

} // namespace

vkattn_result checkFlagsAndHeads(uint32_t flags, uint32_t known, uint32_t heads, vkattn_diagnostic *why) {
    if (flags & ~known) return fail(why, invalid, "layer.flags is 0x%x, expected vkattn_layer_flag_bits within 0x%x", flags, known);
    if (heads == 0 || heads > maxHeads) return fail(why, invalid, "layer.heads is %u, expected 1 to %u", heads, maxHeads);
    return VKATTN_OK;
}
vkattn_result checkStored(vkattn_dtype stored, vkattn_diagnostic *why) {
    if (stored == VKATTN_F32 || stored == VKATTN_F16 || stored == VKATTN_BF16) return VKATTN_OK;
    return fail(why, invalid, "layer.stored is %d, expected VKATTN_F32, VKATTN_F16 or VKATTN_BF16", static_cast<int>(stored));
}
vkattn_result checkRows(const char *name, const vkattn_layout &layout, vkattn_diagnostic *why) {
    if (absent(layout) || layout.extent[1] == 1) return VKATTN_OK;
    return fail(why, invalid, "layer.%s has extent %u in dimension 1, expected [batch, 1, tokens, model]", name, layout.extent[1]);
}
vkattn_result checkMatrix(const char *name, const vkattn_layout &layout, vkattn_diagnostic *why) {
    if (absent(layout) || (layout.extent[0] == 1 && layout.extent[1] == 1)) return VKATTN_OK;
    return fail(why, invalid, "layer.%s is [%u, %u, ...], expected [1, 1, out, in]", name, layout.extent[0], layout.extent[1]);
}
vkattn_result checkReach(const char *name, const vkattn_layout &layout, vkattn_diagnostic *why) {
    constexpr double most = 1.0 * (1ull << 60);
    bool within = static_cast<double>(layout.offsetElems) <= most;
    for (int d = 0; d < 4; ++d) within = within && std::abs(static_cast<double>(layout.strideElems[d])) * layout.extent[d] <= most;
    if (within) return VKATTN_OK;
    return fail(why, invalid,
                "layer.%s has strides or an offset that no memory has, expected each extent times its stride, and the "
                "offset, to be at most 2^60 elements",
                name);
}
vkattn_result checkBetween(uint32_t batch, double tokens, double dims, vkattn_diagnostic *why) {
    constexpr double most = 1.0 * (1ull << 50); // elements of one tensor
    if (batch * tokens * dims <= most) return VKATTN_OK;
    return fail(why, invalid,
                "the layer has %u entries of %.0f tokens and up to %.0f dims, expected at most 2^50 numbers between its steps", batch,
                tokens, dims);
}

Place columns(const Place &rows, uint32_t first, uint32_t count) {
    Place place = rows;
    place.layout.offsetElems += static_cast<uint64_t>(first * place.layout.strideElems[3]);
    place.layout.extent[3] = count;
    return place;
}

Place tokensOf(const Place &rows, uint32_t first, uint32_t count) {
    Place place = rows;
    place.layout.offsetElems += static_cast<uint64_t>(first * place.layout.strideElems[2]);
    place.layout.extent[2] = count;
    return place;
}

Place headsOf(const Place &rows, uint32_t first, uint32_t count, uint32_t dim) {
    Place place = columns(rows, first, dim);
    place.layout.extent[1] = count;
    place.layout.strideElems[1] = dim * place.layout.strideElems[3];
    return place;
}

Place LayerSteps::between(vkattn_dtype dtype, uint32_t batch, uint32_t groups, uint32_t tokens, uint32_t dims) {
    const Place place = placeBehind(bytes_, VKATTN_WORKSPACE, dtype, {batch, groups, tokens, dims});
    most_ = std::max(most_, bytes_);
    return place;
}

Place LayerSteps::kept(vkattn_dtype dtype, uint32_t batch, uint32_t groups, uint32_t tokens, uint32_t dims) {
    return placeBehind(plan_.keptBytes, VKATTN_KEPT, dtype, {batch, groups, tokens, dims});
}

vkattn_layer_step &LayerSteps::begin(const char *name, vkattn_operation_kind kind) {
    vkattn_layer_step &step = plan_.steps[plan_.stepCount++];
    step.name = name;
    step.operation.kind = kind;
    return step;
}

// Names the step in what its own rules say.
vkattn_result LayerSteps::end(const vkattn_layer_step &step) {
    vkattn_diagnostic reason{};
    const vkattn_result result = vkattnValidateOperation(&step.operation, &reason);
    if (result != VKATTN_OK) return fail(why_, result, "the layer's step '%s': %.400s", step.name, reason.message);
    return VKATTN_OK;
}

// A step waits where a byte of its own was used since the last barrier, and either of the two writes.
void LayerSteps::finish() {
    Uses uses[VKATTN_LAYER_STEPS];
    uint32_t unseparated = 0; // the first step since the last barrier
    for (uint32_t n = 0; n < plan_.stepCount; ++n) {
        vkattn_layer_step &step = plan_.steps[n];
        uses[n].set(step);
        for (uint32_t before = unseparated; before < n; ++before) step.barrierBefore |= uses[n].conflicts(uses[before]);
        if (step.barrierBefore) unseparated = n;
    }
    plan_.betweenBytes = most_;
}

vkattn_result LayerSteps::addNorm(const char *name, vkattn_norm norm, const Place &x, const Place &residual, const Place &gamma,
                                  const Place &beta, const Place &y, const Place &sum) {
    vkattn_layer_step &step = begin(name, VKATTN_NORM);
    norm.structSize = sizeof norm;
    give(step, VKATTN_X, x, norm.x);
    give(step, VKATTN_RESIDUAL, residual, norm.residual);
    give(step, VKATTN_GAMMA, gamma, norm.gamma);
    give(step, VKATTN_BETA, beta, norm.beta);
    give(step, VKATTN_SUM, sum, norm.sum);
    give(step, VKATTN_Y, y, norm.y);
    step.operation.of.norm = &(plan_.norms[norms_++] = norm);
    return end(step);
}

vkattn_result LayerSteps::addNormGradient(const char *name, vkattn_norm_gradient gradient, const NormGradientPlaces &at) {
    vkattn_layer_step &step = begin(name, VKATTN_NORM_GRADIENT);
    gradient.structSize = sizeof gradient;
    give(step, VKATTN_X, at.x, gradient.x);
    give(step, VKATTN_GAMMA, at.gamma, gradient.gamma);
    give(step, VKATTN_D_Y, at.dY, gradient.dY);
    give(step, VKATTN_RESIDUAL, at.residual, gradient.residual);
    give(step, VKATTN_D_X, at.dX, gradient.dX);
    give(step, VKATTN_D_GAMMA, at.dGamma, gradient.dGamma);
    give(step, VKATTN_D_BETA, at.dBeta, gradient.dBeta);
    step.operation.of.normGradient = &(plan_.normGradients[normGradients_++] = gradient);
    return end(step);
}

vkattn_result LayerSteps::addProjection(const char *name, const Place &x, const Place &w, const Place &bias, const Place &residual,
                                        const Place &y) {
    vkattn_layer_step &step = begin(name, VKATTN_PROJECTION);
    vkattn_projection &projection = plan_.projections[projections_++];
    projection.structSize = sizeof projection;
    projection.flags = options_ ? options_->flags & VKATTN_DETERMINISTIC : 0;
    give(step, VKATTN_X, x, projection.x);
    give(step, VKATTN_W, w, projection.w);
    give(step, VKATTN_BIAS, bias, projection.bias);
    give(step, VKATTN_RESIDUAL, residual, projection.residual);
    give(step, VKATTN_Y, y, projection.y);
    step.operation.of.projection = &projection;
    return end(step);
}

vkattn_result LayerSteps::addRotary(const char *name, vkattn_rotary rotary, const Place &x, const Place &cos, const Place &sin,
                                    const Place &y) {
    vkattn_layer_step &step = begin(name, VKATTN_ROTARY);
    rotary.structSize = sizeof rotary;
    give(step, VKATTN_X, x, rotary.x);
    give(step, VKATTN_COS, cos, rotary.cos);
    give(step, VKATTN_SIN, sin, rotary.sin);
    give(step, VKATTN_Y, y, rotary.y);
    for (const vkattn_role role : {VKATTN_POSITIONS, VKATTN_STARTS})
        if (rotary.presentRoles & VKATTN_PRESENT(role)) give(step, role, role);
    step.operation.of.rotary = &(plan_.rotaries[rotaries_++] = rotary);
    return end(step);
}

vkattn_result LayerSteps::addAppend(const char *name, vkattn_append append, const Place &x, const Place &y) {
    vkattn_layer_step &step = begin(name, VKATTN_APPEND);
    append.structSize = sizeof append;
    give(step, VKATTN_X, x, append.x);
    give(step, VKATTN_Y, y, append.y);
    if (append.presentRoles & VKATTN_PRESENT(VKATTN_STARTS)) give(step, VKATTN_STARTS, VKATTN_STARTS);
    step.operation.of.append = &(plan_.appends[appends_++] = append);
    return end(step);
}

vkattn_result LayerSteps::addMean(const char *name, const Place &x, const Place &y) {
    vkattn_layer_step &step = begin(name, VKATTN_MEAN);
    vkattn_mean &mean = plan_.mean;
    mean.structSize = sizeof mean;
    give(step, VKATTN_X, x, mean.x);
    give(step, VKATTN_Y, y, mean.y);
    step.operation.of.mean = &mean;
    return end(step);
}

vkattn_result LayerSteps::addDrop(const char *name, vkattn_drop drop, const Place &x, const Place &residual, const Place &y) {
    vkattn_layer_step &step = begin(name, VKATTN_DROP);
    drop.structSize = sizeof drop;
    give(step, VKATTN_X, x, drop.x);
    give(step, VKATTN_RESIDUAL, residual, drop.residual);
    give(step, VKATTN_Y, y, drop.y);
    step.operation.of.drop = &(plan_.drop = drop);
    return end(step);
}

// Between the steps a head's weights of a token are neighbours, as the mean takes them.
vkattn_result LayerSteps::takeWeights(vkattn_problem &problem, AveragedWeights &averaged) {
    if (absent(problem.weights))
        return fail(why_, invalid,
                    "layer.flags has VKATTN_LAYER_AVERAGED_WEIGHTS and the options have no weights: give options->weights as [batch, 1, "
                    "tokens, key tokens], or clear the flag");
    if (problem.sequences)
        return fail(why_, invalid,
                    "layer.flags has VKATTN_LAYER_AVERAGED_WEIGHTS in a ragged batch, whose pairs outside a sequence have no weights: take "
                    "the weights of each head");
    const uint32_t *const q = problem.q.extent, keys = problem.k.extent[2];
    if (const auto r = checkBetween(q[0], q[2], static_cast<double>(q[1]) * keys, why_)) return r;
    averaged.mean = {problem.weights, VKATTN_WEIGHTS};
    averaged.heads = between(VKATTN_F32, q[0], q[1], q[2], keys);
    problem.weights = averaged.heads.layout;
    return VKATTN_OK;
}

vkattn_result LayerSteps::addAttention(float scale, const Place &q, const Place &k, const Place &v, const Place &out,
                                       AveragedWeights *averaged, bool keeps) {
    vkattn_layer_step &step = begin("attention", VKATTN_ATTENTION);
    vkattn_problem &problem = plan_.attention;
    if (options_) {
        if (const auto r = checkStructSize(*options_, "layer.options", "vkattn_problem", why_)) return r;
        vkattn_problem room;
        problem = completed(*options_, room);
        if (problem.flags & VKATTN_VALUES_IN_KEYS)
            return fail(why_, invalid,
                        "layer.options.flags has VKATTN_VALUES_IN_KEYS, expected it clear: the layer says where its values are");
        // Only slice 0 would be recorded.
        if (problem.sliceCount > 1)
            return fail(why_, invalid, "layer.options.sliceCount is %u, expected 0 or 1: a layer is recorded whole", problem.sliceCount);
    }
    problem.structSize = sizeof problem;
    if (scale != 0 && !(problem.flags & VKATTN_SCALE)) problem.flags |= VKATTN_SCALE, problem.scale = scale;
    give(step, VKATTN_Q, q, problem.q);
    give(step, VKATTN_K, k, problem.k);
    if (absent(v.layout)) problem.flags |= VKATTN_VALUES_IN_KEYS;
    give(step, VKATTN_V, v, problem.v);
    give(step, VKATTN_OUT, out, problem.out);
    if (averaged) {
        if (const auto r = takeWeights(problem, *averaged)) return r;
        give(step, VKATTN_WEIGHTS, VKATTN_WORKSPACE);
    }
    if (keeps) {
        if (!absent(problem.lse))
            return fail(
                why_, invalid,
                "layer.options has lse, and VKATTN_LAYER_KEEPS_STEPS keeps the statistics of the rows in its place: leave lse absent");
        const uint32_t *const rows = problem.q.extent;
        problem.flags |= VKATTN_ROW_STATISTICS;
        give(step, VKATTN_LSE, kept(VKATTN_F32, rows[0], rows[1], rows[2], 2), problem.lse);
    }
    step.operation.of.attention = &problem;
    if (const auto r = end(step)) return r;
    giveRest(step);
    return VKATTN_OK;
}

vkattn_result LayerSteps::addAttentionGradient(const vkattn_problem &forward, const vkattn_attention_gradient &given,
                                               const AttentionGradientPlaces &at) {
    vkattn_layer_step &step = begin("attention gradient", VKATTN_ATTENTION_GRADIENT);
    plan_.attention = forward;
    plan_.attention.weights = plan_.attention.scores = {};
    plan_.attention.scoresStage = VKATTN_SCORES_RAW;
    plan_.attention.flags &= ~uint32_t{VKATTN_WEIGHTS_DROPPED}; // says what the weights are
    vkattn_attention_gradient &gradient = plan_.attentionGradient = given;
    gradient.structSize = sizeof gradient;
    gradient.forward = &plan_.attention;
    for (const vkattn_role role : {VKATTN_Q, VKATTN_K, VKATTN_V, VKATTN_OUT, VKATTN_LSE}) give(step, role, VKATTN_KEPT);
    give(step, VKATTN_D_OUT, at.dOut, gradient.dOut);
    give(step, VKATTN_D_Q, at.dQ, gradient.dQ);
    give(step, VKATTN_D_K, at.dK, gradient.dK);
    give(step, VKATTN_D_V, at.dV, gradient.dV);
    step.operation.of.attentionGradient = &gradient;
    if (const auto r = end(step)) return r;
    giveRest(step);
    return VKATTN_OK;
}

void LayerSteps::giveRest(vkattn_layer_step &step) {
    vkattn_operand_use uses[VKATTN_ROLE_LIMIT];
    const uint32_t count = vkattnOperandUses(&step.operation, uses, VKATTN_ROLE_LIMIT);
    for (uint32_t n = 0; n < count; ++n)
        if (const vkattn_role role = uses[n].role;
            std::none_of(step.operands, step.operands + step.operandCount, [&](const auto &each) { return each.role == role; }))
            give(step, role, role);
}

} // namespace vkattn
