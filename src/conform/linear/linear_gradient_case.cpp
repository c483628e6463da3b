#include "conform/linear/linear_gradient_case.hpp"

#include "conform/cases/operation_case.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <limits>

namespace vkattn::conform {
namespace {

constexpr const char *roleNames[] = {"dOut", "dStateOut", "dQ", "dK", "dV", "dDecay", "dWriteStrength", "dStateIn"};
const char *roleNameOf(vkattn_role role) {
    for (size_t n = 0; n < std::size(linearGradientRoles); ++n)
        if (linearGradientRoles[n] == role) return roleNames[n];
    return "an input";
}
bool isOutputRole(vkattn_role role) {
    return role != VKATTN_D_OUT && role != VKATTN_D_STATE_OUT;
}
// What a gradient is with respect to.
vkattn_role sourceOf(vkattn_role role) {
    switch (role) {
    case VKATTN_D_OUT:
        return VKATTN_OUT;
    case VKATTN_D_Q:
        return VKATTN_Q;
    case VKATTN_D_K:
        return VKATTN_K;
    case VKATTN_D_V:
        return VKATTN_V;
    case VKATTN_D_DECAY:
        return VKATTN_DECAY;
    case VKATTN_D_WRITE_STRENGTH:
        return VKATTN_WRITE_STRENGTH;
    default:
        return VKATTN_STATE_IN;
    }
}

// The extents of the state, whether or not the case has one in memory.
void stateExtents(const vkattn_linear_attention &l, uint32_t (&extents)[4]) {
    const bool features = l.rule == VKATTN_LINEAR_FEATURES, exponentials = features && l.features >= VKATTN_FEATURES_FAVOR;
    const uint32_t random = l.omega.extent[2] ? l.omega.extent[2] : l.k.extent[3];
    extents[0] = l.k.extent[0];
    extents[1] = std::max({l.k.extent[1], l.v.extent[1], l.omega.extent[1]});
    extents[2] = features && l.features == VKATTN_FEATURES_FAVOR2 ? 2 * random : random;
    extents[3] = l.v.extent[3] + (features ? 1 : 0) + (exponentials ? 1 : 0);
}

} // namespace

vkattn_operation LinearGradientCase::operation() {
    gradient.forward = &forward.linear;
    return vkattn::operation(gradient);
}

vkattn_layout &LinearGradientCase::layout(vkattn_role role) {
    switch (role) {
    case VKATTN_D_OUT:
        return gradient.dOut;
    case VKATTN_D_STATE_OUT:
        return gradient.dStateOut;
    case VKATTN_D_Q:
        return gradient.dQ;
    case VKATTN_D_K:
        return gradient.dK;
    case VKATTN_D_V:
        return gradient.dV;
    case VKATTN_D_DECAY:
        return gradient.dDecay;
    case VKATTN_D_WRITE_STRENGTH:
        return gradient.dWriteStrength;
    case VKATTN_D_STATE_IN:
        return gradient.dStateIn;
    default:
        return forward.layout(role);
    }
}

std::vector<vkattn_role> LinearGradientCase::outputs() {
    std::vector<vkattn_role> all;
    for (const vkattn_role role : linearGradientRoles)
        if (isOutputRole(role) && layout(role).extent[0]) all.push_back(role);
    return all;
}

std::vector<vkattn_operand_memory> LinearGradientCase::operandsAfter(LinearGradientCase &before) {
    std::vector<vkattn_operand_memory> all;
    LinearCase &source = before.forward;
    for (const vkattn_role role : linearRoles) {
        if (role == VKATTN_OUT || role == VKATTN_STATE_OUT || role == VKATTN_SNAPSHOTS || source.layout(role).extent[0] == 0) continue;
        HostTensor &t = source.tensors.at(role);
        all.push_back({role, t.data(), t.bytes()});
    }
    if (source.linear.presentRoles) all.push_back({VKATTN_KEY_LENGTHS, source.lengths.data(), 4 * source.lengths.size()});
    for (const vkattn_role role : linearGradientRoles) {
        if (layout(role).extent[0] == 0) continue;
        HostTensor &t = (isOutputRole(role) ? *this : before).tensors.at(role);
        all.push_back({role, t.data(), t.bytes()});
    }
    if (gradient.presentRoles) all.push_back({VKATTN_NONFINITE, &nonfinite, sizeof nonfinite});
    return all;
}

bool LinearGradientCase::sameOutputs(LinearGradientCase &other) {
    const std::vector<vkattn_role> roles = outputs();
    return nonfinite == other.nonfinite && std::all_of(roles.begin(), roles.end(), [&](vkattn_role role) {
               const HostTensor &a = tensors.at(role), &b = other.tensors.at(role);
               return std::memcmp(a.data(), b.data(), a.bytes()) == 0;
           });
}

std::string LinearGradientCase::text() {
    std::string text = "gradients of " + forward.text() + ";";
    for (const vkattn_role role : linearGradientRoles)
        if (const vkattn_layout &l = layout(role); l.extent[0])
            text += std::string(" ") + roleNameOf(role) + "/" + std::to_string(static_cast<int>(l.dtype));
    return text + " lossScale=" + std::to_string(gradient.lossScale);
}

std::string LinearGradientCase::wrong(LinearGradientCase &before, vkattn_verify_report *report) {
    const OperationOutcome outcome = verifyOutputs(operation(), operandsAfter(before), roleNameOf);
    if (report) *report = outcome.report;
    if (!outcome.wrong.empty()) return outcome.wrong;
    const HostTensor::Elements none = [](auto...) { return false; };
    for (auto &[role, t] : tensors) {
        const std::string found = isOutputRole(role) ? t.damage(before.tensors.at(role)) : t.damage(before.tensors.at(role), none);
        if (!found.empty()) return std::string(roleNameOf(role)) + ": " + found;
    }
    return forward.damage(before.forward);
}

LinearGradientCase gradientsOf(LinearCase forward, Random &random, bool all) {
    LinearGradientCase c;
    c.forward = std::move(forward);
    vkattn_linear_gradient &g = c.gradient;
    const vkattn_linear_attention &l = c.forward.linear;
    g.structSize = sizeof g;
    const auto yes = [&] { return all || random() % 4 != 0; };
    const bool hasOut = l.out.extent[0] != 0;
    for (const vkattn_role role : linearGradientRoles) {
        const vkattn_layout &of = c.forward.layout(sourceOf(role));
        uint32_t extents[4];
        std::copy_n(of.extent, 4, extents);
        if (role == VKATTN_D_STATE_OUT) {
            if (hasOut && random() % 2) continue;
            stateExtents(l, extents);
        } else if (of.extent[0] == 0 || (isOutputRole(role) && !yes())) {
            continue;
        }
        const bool state = role == VKATTN_D_STATE_OUT || role == VKATTN_D_STATE_IN;
        c.layout(role) = all ? packed(VKATTN_F32, extents[0], extents[1], extents[2], extents[3])
                             : drawLayout(random, state ? VKATTN_F32 : drawType(random), true, extents);
    }
    if (c.outputs().empty()) g.dV = packed(VKATTN_F32, l.v.extent[0], l.v.extent[1], l.v.extent[2], l.v.extent[3]);
    if (!all && random() % 3 == 0) g.lossScale = random() % 2 ? 128.0f : 0.5f;
    if (!all && random() % 2) g.presentRoles = VKATTN_PRESENT(VKATTN_NONFINITE);
    std::normal_distribution<float> normal;
    const vkattn_operation o = c.operation();
    for (const vkattn_role role : linearGradientRoles) {
        const vkattn_layout &own = c.layout(role);
        if (own.extent[0] == 0) continue;
        HostTensor &t = c.tensors[role];
        t.make(own, vkattnOperationBytes(&o, role), 0);
        t.fillRandomly(random);
        if (isOutputRole(role)) continue;
        const bool causal = l.rule != VKATTN_LINEAR_FEATURES || l.flags & VKATTN_CAUSAL;
        for (uint32_t b = 0; b < own.extent[0]; ++b)
            for (uint32_t h = 0; h < own.extent[1]; ++h)
                for (uint32_t i = 0; i < own.extent[2]; ++i)
                    for (uint32_t d = 0; d < own.extent[3]; ++d) {
                        // What nothing looks at: rows that see nothing, and the column of M.
                        const bool unseen =
                            causal && !(l.flags & VKATTN_ALIGN_TOP_LEFT) && int64_t{i} + c.forward.keys(b) - own.extent[2] < 0;
                        const bool hidden = role == VKATTN_D_OUT ? unseen : l.rule == VKATTN_LINEAR_FEATURES && d == l.v.extent[3] + 1;
                        t.set(b, h, i, d, hidden ? std::numeric_limits<float>::quiet_NaN() : normal(random));
                    }
    }
    return c;
}

LinearGradientCase drawLinearGradient(Random &random, const LinearOptions &options) {
    return gradientsOf(drawLinear(random, options), random, !options.drawLayouts);
}

} // namespace vkattn::conform
