#include "problem/gradient.hpp"

#include "util/diagnostic.hpp"
#include "util/struct_size.hpp"

#include <cmath>

namespace vkattn {
namespace {

using Description = vkattn_attention_gradient;

constexpr uint32_t f32Only = 1u << VKATTN_F32;
constexpr vkattn_role nothing = VKATTN_ROLE_LIMIT;

constexpr GradientOperand gradientTable[] = {
    {VKATTN_D_OUT, "dOut", false, true, floatTypes, &Description::dOut, VKATTN_OUT},
    {VKATTN_D_LSE, "dLse", false, false, f32Only, &Description::dLse, VKATTN_LSE},
    {VKATTN_D_WEIGHTS, "dWeights", false, false, floatTypes, &Description::dWeights, VKATTN_WEIGHTS},
    {VKATTN_D_Q, "dQ", true, false, floatTypes, &Description::dQ, VKATTN_Q},
    {VKATTN_D_K, "dK", true, false, floatTypes, &Description::dK, VKATTN_K},
    {VKATTN_D_V, "dV", true, false, floatTypes, &Description::dV, VKATTN_V},
    {VKATTN_D_BIAS, "dBias", true, false, floatTypes, &Description::dBias, VKATTN_BIAS},
    {VKATTN_D_SINKS, "dSinks", true, false, 0, nullptr, VKATTN_SINKS},
    {VKATTN_D_SLOPES, "dSlopes", true, false, 0, nullptr, VKATTN_ALIBI_SLOPES},
    {VKATTN_D_SCALE, "dScale", true, false, 0, nullptr, nothing},
    {VKATTN_D_SOFTCAP, "dSoftcap", true, false, 0, nullptr, nothing},
    {VKATTN_NONFINITE, "the word of values that are not finite", true, false, 0, nullptr, nothing},
};

constexpr uint32_t gradientArrays() {
    uint32_t bits = 0;
    for (const GradientOperand &each : gradientTable)
        if (!each.layout) bits |= VKATTN_PRESENT(each.role);
    return bits;
}

vkattn_result checkForward(const Problem &p, vkattn_diagnostic *why) {
    if (!p.rowStatistics)
        return fail(why, invalid,
                    "gradient.forward has no VKATTN_ROW_STATISTICS; the backward pass reads the statistics of the rows: set "
                    "the flag, give lse a layout, and run the forward pass with both");
    if (p.valuesInKeys)
        return fail(why, invalid,
                    "gradient.forward has VKATTN_VALUES_IN_KEYS; give v a layout of its own, bind K's memory to both, and "
                    "add dV to the first dims of dK");
    return VKATTN_OK;
}

vkattn_result expectedExtents(const Gradient &g, const GradientOperand &each, uint32_t (&out)[4], vkattn_diagnostic *why) {
    const Problem &p = g.forward;
    if (each.role == VKATTN_D_WEIGHTS || each.role == VKATTN_D_LSE) {
        const bool pairs = each.role == VKATTN_D_WEIGHTS;
        const Tensor &q = p.tensor(VKATTN_Q);
        out[0] = pairs ? p.batch : q.extent[0], out[1] = p.heads, out[2] = pairs ? p.queryTokens : q.extent[2];
        out[3] = pairs ? p.keyTokens : 1;
        return VKATTN_OK;
    }
    const Tensor &like = p.tensor(each.like);
    if (!like.present()) return fail(why, invalid, "%s has a layout, and gradient.forward has no %s", each.name, roleName(each.like));
    for (int d = 0; d < 4; ++d) out[d] = like.extent[d];
    return VKATTN_OK;
}

vkattn_result takeTensors(const Description &given, Gradient &out, vkattn_diagnostic *why) {
    bool any = false;
    for (const GradientOperand &each : gradientTable) {
        if (!each.layout) {
            any = any || (each.role != VKATTN_NONFINITE && out.has(each.role));
            continue;
        }
        const vkattn_layout &layout = given.*each.layout;
        if (absent(layout)) {
            if (!each.required) continue;
            return fail(why, invalid, "%s has no layout; it is required", each.name);
        }
        uint32_t expected[4];
        if (const auto r = expectedExtents(out, each, expected, why)) return r;
        Tensor &tensor = out.tensors[each.role - VKATTN_D_OUT];
        if (const auto r = makeTensor(layout, {each.name, each.output, each.dtypes}, tensor, why)) return r;
        if (const auto r = expectExtents(tensor, each.name, expected, 0, why)) return r;
        any = any || each.output;
    }
    if (!any) return fail(why, invalid, "no gradient is asked for: give dQ, dK, dV or dBias a layout, or set a bit of presentRoles");
    return VKATTN_OK;
}

} // namespace

std::span<const GradientOperand> gradientOperands() {
    return gradientTable;
}

const GradientOperand *findGradientOperand(vkattn_role role) {
    for (const GradientOperand &each : gradientTable)
        if (each.role == role) return &each;
    return nullptr;
}

bool Gradient::uses(vkattn_role role) const {
    if (const GradientOperand *const own = findGradientOperand(role)) return own->layout ? tensor(role).present() : has(role);
    return role != VKATTN_WEIGHTS && role != VKATTN_SCORES && forward.uses(role);
}

bool Gradient::writes(vkattn_role role) const {
    const GradientOperand *const own = findGradientOperand(role);
    return own && own->output;
}

uint64_t Gradient::arrayLength(vkattn_role role) const {
    return role == VKATTN_D_SINKS || role == VKATTN_D_SLOPES ? forward.heads : 1;
}

ByteRange Gradient::bytesUsed(vkattn_role role) const {
    if (!uses(role)) return {};
    const GradientOperand *const own = findGradientOperand(role);
    if (!own) return forward.bytesUsed(role);
    return own->layout ? tensor(role).span() : ByteRange{0, 4 * arrayLength(role)};
}

vkattn_result makeGradient(const vkattn_attention_gradient *description, Gradient &out, vkattn_diagnostic *why) {
    if (!description) return fail(why, invalid, "operation.of.attentionGradient is NULL");
    if (const auto r = checkStructSize(*description, "gradient", "vkattn_attention_gradient", why)) return r;
    vkattn_attention_gradient room;
    const vkattn_attention_gradient &g = completed(*description, room);
    if (g.flags) return fail(why, invalid, "gradient.flags is 0x%x, expected 0", g.flags);
    if (g.reserved) return fail(why, invalid, "gradient.reserved is %u, expected 0", g.reserved);
    if (static_cast<uint32_t>(g.kernel) > VKATTN_GRADIENT_COOPMAT)
        return fail(why, invalid, "gradient.kernel is %d, expected a vkattn_gradient_kernel", static_cast<int>(g.kernel));
    if (!std::isfinite(g.lossScale) || g.lossScale < 0)
        return fail(why, invalid, "gradient.lossScale is %g, expected a finite number above 0, or 0 for 1",
                    static_cast<double>(g.lossScale));
    if (g.presentRoles & ~gradientArrays())
        return fail(why, invalid,
                    "gradient.presentRoles has bits 0x%x, expected VKATTN_PRESENT of VKATTN_D_SINKS, VKATTN_D_SLOPES, "
                    "VKATTN_D_SCALE, VKATTN_D_SOFTCAP and VKATTN_NONFINITE",
                    g.presentRoles & ~gradientArrays());
    if (!g.forward) return fail(why, invalid, "gradient.forward is NULL");
    out = Gradient{};
    if (const auto r = makeProblem(g.forward, out.forward, why)) return r;
    if (out.forward.segmented()) return fail(why, invalid, "forward has k1; gradients take keys and values in one segment");
    if (out.forward.unmaskedKeys)
        return fail(why, invalid, "forward has a mask or a bias of fewer keys than k; gradients take those of every key");
    if (out.forward.goesOn())
        return fail(why, invalid,
                    "forward has priorOut; gradients take a forward pass over all of its keys, or out and lse of the whole without it");
    if (out.forward.paged())
        return fail(why, invalid, "forward has a page table; gradients take keys and values that lie one after the other");
    for (const vkattn_role role : {VKATTN_K, VKATTN_V})
        if (const Tensor &t = out.forward.tensor(role); isSmallType(t.dtype))
            return fail(why, invalid, "%s of forward is %s; gradients take VKATTN_F32, VKATTN_F16 or VKATTN_BF16", roleName(role),
                        nameOfSmallType(t.dtype));
    if (const auto r = checkForward(out.forward, why)) return r;
    if (const ProgramUse &use = out.forward.program; use.sumless())
        return fail(why, invalid,
                    "the program %s of gradient.forward has vkattnRow, and a backward pass is that of a softmax; take a program without",
                    nameOf(*use.program));
    if (const ProgramUse &use = out.forward.program; use.scores() && !(use.hooks & VKATTN_HOOK_SCORE_SLOPE))
        return fail(
            why, invalid,
            "the program %s of gradient.forward has vkattnScore without vkattnScoreSlope: add its derivative with respect to the score",
            nameOf(*use.program));
    out.presentRoles = g.presentRoles;
    out.kernel = g.kernel;
    if (g.lossScale > 0) out.lossScale = g.lossScale;
    for (const GradientOperand &each : gradientTable)
        if (!each.layout && each.like != nothing && out.has(each.role) && !out.forward.has(each.like))
            return fail(why, invalid, "%s are in gradient.presentRoles, and gradient.forward has no %s", each.name, roleName(each.like));
    if (out.has(VKATTN_D_SOFTCAP) && out.forward.softcap == 0)
        return fail(why, invalid, "dSoftcap is in gradient.presentRoles, and gradient.forward has no softcap");
    return takeTensors(g, out, why);
}

} // namespace vkattn
