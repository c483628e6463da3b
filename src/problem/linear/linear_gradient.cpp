#include "problem/linear/linear_gradient.hpp"

#include "problem/operand_table.hpp"
#include "util/diagnostic.hpp"
#include "util/struct_size.hpp"

#include <cmath>
#include <iterator>

namespace vkattn {
namespace {

using Description = vkattn_linear_gradient;

constexpr uint32_t f32Only = 1u << VKATTN_F32;

constexpr LinearGradientOperand gradientTable[] = {
    {VKATTN_D_OUT, "dOut", false, floatTypes, &Description::dOut, VKATTN_OUT},
    {VKATTN_D_STATE_OUT, "dStateOut", false, f32Only, &Description::dStateOut, VKATTN_STATE_OUT},
    {VKATTN_D_Q, "dQ", true, floatTypes, &Description::dQ, VKATTN_Q},
    {VKATTN_D_K, "dK", true, floatTypes, &Description::dK, VKATTN_K},
    {VKATTN_D_V, "dV", true, floatTypes, &Description::dV, VKATTN_V},
    {VKATTN_D_DECAY, "dDecay", true, floatTypes, &Description::dDecay, VKATTN_DECAY},
    {VKATTN_D_WRITE_STRENGTH, "dWriteStrength", true, floatTypes, &Description::dWriteStrength, VKATTN_WRITE_STRENGTH},
    {VKATTN_D_STATE_IN, "dStateIn", true, f32Only, &Description::dStateIn, VKATTN_STATE_IN},
    {VKATTN_NONFINITE, "the word of values that are not finite", true, 0, nullptr, VKATTN_ROLE_LIMIT},
};
static_assert(std::size(gradientTable) == LinearGradient::tensorCount + 1);

vkattn_result takeOptions(const Description &g, LinearGradient &out, vkattn_diagnostic *why) {
    if (g.flags) return fail(why, invalid, "linear gradient.flags is 0x%x, expected 0", g.flags);
    if (g.reserved[0] || g.reserved[1])
        return fail(why, invalid, "linear gradient.reserved is {%u, %u}, expected 0", g.reserved[0], g.reserved[1]);
    if (!std::isfinite(g.lossScale) || g.lossScale < 0)
        return fail(why, invalid, "linear gradient.lossScale is %g, expected a finite number above 0, or 0 for 1",
                    static_cast<double>(g.lossScale));
    if (g.presentRoles & ~VKATTN_PRESENT(VKATTN_NONFINITE))
        return fail(why, invalid, "linear gradient.presentRoles has bits 0x%x, expected VKATTN_PRESENT(VKATTN_NONFINITE)",
                    g.presentRoles & ~VKATTN_PRESENT(VKATTN_NONFINITE));
    if (!g.forward) return fail(why, invalid, "linear gradient.forward is NULL");
    out.presentRoles = g.presentRoles;
    if (g.lossScale > 0) out.lossScale = g.lossScale;
    return VKATTN_OK;
}

vkattn_result checkPresence(const Description &g, const LinearGradient &out, vkattn_diagnostic *why) {
    const bool hasOut = out.forward.uses(VKATTN_OUT);
    if (absent(g.dOut) == hasOut)
        return fail(why, invalid, "dOut has %s layout, and linear gradient.forward has %s; give both or neither", hasOut ? "no" : "a",
                    hasOut ? "an out" : "no out");
    if (!hasOut && absent(g.dStateOut))
        return fail(why, invalid, "dOut and dStateOut have no layout: give the gradient of what the loss depends on");
    for (const LinearGradientOperand &each : gradientTable)
        if (each.output && each.layout && !absent(g.*each.layout)) return VKATTN_OK;
    return fail(why, invalid, "no gradient is asked for: give dQ, dK, dV, dDecay, dWriteStrength or dStateIn a layout");
}

vkattn_result takeTensors(const Description &g, LinearGradient &out, vkattn_diagnostic *why) {
    const LinearAttention &a = out.forward;
    for (uint32_t n = 0; n < LinearGradient::tensorCount; ++n) {
        const LinearGradientOperand &each = gradientTable[n];
        const vkattn_layout &layout = g.*each.layout;
        if (absent(layout)) continue;
        const Tensor &like = a.tensor(each.like);
        const bool ofState = each.role == VKATTN_D_STATE_OUT;
        if (!ofState && !like.present())
            return fail(why, invalid, "%s has a layout, and linear gradient.forward has no %s", each.name,
                        findLinearOperand(each.like)->name);
        uint32_t expected[4] = {a.batch, a.stateHeads, a.stateRows, a.stateColumns};
        for (int d = 0; d < 4 && !ofState; ++d) expected[d] = like.extent[d];
        if (const auto r = makeTensor(layout, {each.name, each.output, each.dtypes}, out.tensors[n], why)) return r;
        if (const auto r = expectExtents(out.tensors[n], each.name, expected, 0, why)) return r;
    }
    return VKATTN_OK;
}

} // namespace

std::span<const LinearGradientOperand> linearGradientOperands() {
    return gradientTable;
}

const LinearGradientOperand *findLinearGradientOperand(vkattn_role role) {
    for (const LinearGradientOperand &each : gradientTable)
        if (each.role == role) return &each;
    return nullptr;
}

const Tensor &LinearGradient::tensor(vkattn_role role) const {
    const LinearGradientOperand *const own = findLinearGradientOperand(role);
    return own && own->layout ? tensors[own - gradientTable] : forward.tensor(role);
}

bool LinearGradient::uses(vkattn_role role) const {
    if (const LinearGradientOperand *const own = findLinearGradientOperand(role)) return own->layout ? tensor(role).present() : has(role);
    const LinearOperand *const of = findLinearOperand(role);
    return of && !of->output && forward.uses(role);
}

ByteRange LinearGradient::bytesUsed(vkattn_role role) const {
    if (!uses(role)) return {};
    const LinearGradientOperand *const own = findLinearGradientOperand(role);
    if (!own) return forward.bytesUsed(role);
    return own->layout ? tensor(role).span() : ByteRange{0, 4};
}

bool LinearGradient::hasWork() const {
    for (const LinearGradientOperand &each : gradientTable)
        if (each.output && each.layout && tensor(each.role).present() && tensor(each.role).extent[2]) return true;
    return false;
}

vkattn_result makeLinearGradient(const vkattn_linear_gradient *description, LinearGradient &out, vkattn_diagnostic *why) {
    if (!description) return fail(why, invalid, "operation.of.linearGradient is NULL");
    if (const auto r = checkStructSize(*description, "linear gradient", "vkattn_linear_gradient", why)) return r;
    vkattn_linear_gradient room;
    const vkattn_linear_gradient &g = completed(*description, room);
    out = LinearGradient{};
    if (const auto r = takeOptions(g, out, why)) return r;
    if (const auto r = makeLinear(g.forward, out.forward, why)) return r;
    if (const auto r = checkPresence(g, out, why)) return r;
    return takeTensors(g, out, why);
}

} // namespace vkattn
