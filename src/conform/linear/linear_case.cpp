#include "conform/linear/linear_case.hpp"

#include "conform/cases/operation_case.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <limits>

namespace vkattn::conform {
namespace {

constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float infinity = std::numeric_limits<float>::infinity();

constexpr const char *roleNames[] = {"q", "k", "v", "decay", "writeStrength", "omega", "stateIn", "out", "stateOut", "snapshots"};
const char *roleNameOf(vkattn_role role) {
    for (size_t n = 0; n < std::size(linearRoles); ++n)
        if (linearRoles[n] == role) return roleNames[n];
    return "key lengths";
}
bool isOutputRole(vkattn_role role) {
    return role == VKATTN_OUT || role == VKATTN_STATE_OUT || role == VKATTN_SNAPSHOTS;
}

// Calls visit(b, h, t, d) for every element of a layout.
template <class Visit> void eachElement(const vkattn_layout &l, const Visit &visit) {
    for (uint32_t b = 0; b < l.extent[0]; ++b)
        for (uint32_t h = 0; h < l.extent[1]; ++h)
            for (uint32_t t = 0; t < l.extent[2]; ++t)
                for (uint32_t d = 0; d < l.extent[3]; ++d) visit(b, h, t, d);
}

bool hasUniqueElements(const vkattn_layout &l) {
    for (int d = 0; d < 4; ++d)
        if (l.extent[d] > 1 && l.strideElems[d] == 0) return false;
    return true;
}

uint32_t drawTokens(Random &random) {
    constexpr uint32_t lengths[] = {1, 2, 3, 15, 16, 17, 31, 33, 63, 64, 65, 130, 256};
    return lengths[random() % std::size(lengths)];
}

} // namespace

vkattn_layout &LinearCase::layout(vkattn_role role) {
    switch (role) {
    case VKATTN_Q:
        return linear.q;
    case VKATTN_K:
        return linear.k;
    case VKATTN_V:
        return linear.v;
    case VKATTN_DECAY:
        return linear.decay;
    case VKATTN_WRITE_STRENGTH:
        return linear.writeStrength;
    case VKATTN_OMEGA:
        return linear.omega;
    case VKATTN_STATE_IN:
        return linear.stateIn;
    case VKATTN_OUT:
        return linear.out;
    case VKATTN_STATE_OUT:
        return linear.stateOut;
    default:
        return linear.snapshots;
    }
}

std::vector<vkattn_role> LinearCase::outputs() const {
    std::vector<vkattn_role> all;
    if (linear.out.extent[0]) all.push_back(VKATTN_OUT);
    if (linear.stateOut.extent[0]) all.push_back(VKATTN_STATE_OUT);
    if (linear.snapshots.extent[0]) all.push_back(VKATTN_SNAPSHOTS);
    return all;
}

std::vector<vkattn_operand_memory> LinearCase::operandsAfter(LinearCase &before) {
    std::vector<vkattn_operand_memory> all;
    for (const vkattn_role role : linearRoles) {
        if (layout(role).extent[0] == 0) continue;
        HostTensor &t = isOutputRole(role) ? output(role) : before.tensors.at(role);
        all.push_back({role, t.data(), t.bytes()});
    }
    if (linear.presentRoles) all.push_back({VKATTN_KEY_LENGTHS, lengths.data(), 4 * lengths.size()});
    return all;
}

uint32_t LinearCase::keys(uint32_t b) const {
    const uint32_t all = linear.k.extent[2];
    return linear.presentRoles ? std::min(lengths[b], all) : all;
}

bool LinearCase::sameOutputs(LinearCase &other) {
    const std::vector<vkattn_role> roles = outputs();
    return std::all_of(roles.begin(), roles.end(), [&](vkattn_role role) {
        const HostTensor &a = output(role), &b = other.output(role);
        return std::memcmp(a.data(), b.data(), a.bytes()) == 0;
    });
}

std::string LinearCase::damage(LinearCase &before) {
    const HostTensor::Elements none = [](auto...) { return false; };
    for (auto &[role, t] : tensors) {
        const bool written = isOutputRole(role) || (inPlace && role == VKATTN_STATE_IN);
        const std::string found = written ? t.damage(before.tensors.at(role)) : t.damage(before.tensors.at(role), none);
        if (!found.empty()) return std::string(roleNameOf(role)) + ": " + found;
    }
    return {};
}

std::string LinearCase::text() {
    constexpr const char *rules[] = {"features", "plain", "gated", "delta", "gated delta"};
    char all[512];
    int at = std::snprintf(all, sizeof all, "%s features=%d form=%d mapping=%d flags=0x%x scale=%g;", rules[linear.rule],
                           static_cast<int>(linear.features), static_cast<int>(linear.form), static_cast<int>(linear.headMapping),
                           linear.flags, static_cast<double>(linear.scale));
    for (const vkattn_role role : linearRoles) {
        const vkattn_layout &l = layout(role);
        if (l.extent[0] && at > 0 && static_cast<size_t>(at) < sizeof all)
            at += std::snprintf(all + at, sizeof all - static_cast<size_t>(at), " %s=%u,%u,%u,%u/%d", roleNameOf(role), l.extent[0],
                                l.extent[1], l.extent[2], l.extent[3], static_cast<int>(l.dtype));
    }
    std::string text = all;
    for (const uint32_t length : lengths) text += " length=" + std::to_string(length);
    return text + (linear.snapshotTokens ? " every " + std::to_string(linear.snapshotTokens) : "") + (inPlace ? " in place" : "");
}

std::string LinearCase::wrong(LinearCase &before, vkattn_verify_report *report) {
    const OperationOutcome outcome = verifyOutputs(operation(), operandsAfter(before), roleNameOf);
    if (report) *report = outcome.report;
    return outcome.wrong.empty() ? damage(before) : outcome.wrong;
}

void LinearCase::fill(Random &random) {
    std::normal_distribution<float> normal;
    const vkattn_operation o = operation();
    const bool delta = linear.writeStrength.extent[0] != 0, features = linear.rule == VKATTN_LINEAR_FEATURES;
    for (const vkattn_role role : linearRoles) {
        const vkattn_layout &l = layout(role);
        if (l.extent[0] == 0 || (inPlace && role == VKATTN_STATE_OUT)) continue;
        HostTensor &t = tensors[role];
        t.make(l, vkattnOperationBytes(&o, role), 0);
        t.fillRandomly(random);
        if (isOutputRole(role)) continue;
        eachElement(l, [&](uint32_t b, uint32_t h, uint32_t n, uint32_t d) {
            float x = normal(random);
            // Keys of norm 1 or less: steps of a delta rule then lengthen nothing.
            if (role == VKATTN_K && delta) x *= 0.7f / std::sqrt(static_cast<float>(l.extent[3]));
            if (role == VKATTN_WRITE_STRENGTH) x = 1 / (1 + std::exp(-x));
            if (role == VKATTN_DECAY) x = random() % 40 == 0 ? (random() % 2 ? 0.0f : -30.0f) : -0.2f * x * x;
            if (role == VKATTN_STATE_IN && features) {
                const uint32_t values = linear.v.extent[3];
                if (d == values) x = std::abs(x) + 1; // a sum of features
                if (d == values + 1) x *= 0.5f;
            }
            t.set(b, h, n, d, x);
        });
    }
}

LinearCase drawLinear(Random &random, const LinearOptions &options) {
    LinearCase c;
    vkattn_linear_attention &l = c.linear;
    const auto yes = [&] { return random() % 2 == 0; };
    const auto make = [&](const uint32_t(&extents)[4], vkattn_dtype dtype, bool unique) {
        return options.drawLayouts ? drawLayout(random, dtype, unique, extents)
                                   : packed(VKATTN_F32, extents[0], extents[1], extents[2], extents[3]);
    };
    l.structSize = sizeof l;
    l.rule = options.rule.value_or(static_cast<vkattn_linear_rule>(between(random, 0, VKATTN_LINEAR_GATED_DELTA)));
    const bool features = l.rule == VKATTN_LINEAR_FEATURES;
    if (features) l.features = static_cast<vkattn_feature_map>(between(random, 0, VKATTN_FEATURES_FAVOR2));
    const bool exponentials = features && l.features >= VKATTN_FEATURES_FAVOR;
    l.form = static_cast<vkattn_linear_form>(between(random, 0, VKATTN_LINEAR_FORM_CHUNKED));
    l.headMapping = yes() ? VKATTN_HEADS_DIVIDED : VKATTN_HEADS_MODULO;
    if (!features || yes()) l.flags |= yes() || features ? uint32_t{VKATTN_CAUSAL} : 0;
    if (random() % 4 == 0) l.flags |= VKATTN_ALIGN_TOP_LEFT;
    if (yes()) l.flags |= VKATTN_SCALE, l.scale = exponentials && yes() ? -0.125f : yes() ? 0.25f : 0;
    if (features && l.features == VKATTN_FEATURES_RELU && yes()) l.epsilon = 0.01f;

    const uint32_t batch = between(random, 1, 2), keyHeads = between(random, 1, 2), valueHeads = keyHeads * between(random, 1, 2);
    const bool randomFeatures = exponentials || (features && l.features == VKATTN_FEATURES_RELU && yes());
    const bool ownFeatures = randomFeatures && random() % 3 == 0; // of heads whose keys are shared
    const uint32_t stateHeads = ownFeatures ? 2 * valueHeads : valueHeads;
    const uint32_t queryHeads = yes() ? stateHeads * between(random, 1, 2) : keyHeads;
    const uint32_t heads = std::max(queryHeads, stateHeads);
    const uint32_t keyTokens = options.tokens ? options.tokens : random() % 20 == 0 ? 0 : drawTokens(random);
    const uint32_t queryTokens = yes() ? keyTokens : random() % 10 == 0 ? 0 : drawTokens(random);
    constexpr uint32_t dims[] = {1, 3, 8, 16, 17, 32, 40, 64};
    const uint32_t keyDim = dims[random() % std::size(dims)];
    const uint32_t valueDim = random() % 8 == 0 ? between(random, 65, 140) : dims[random() % std::size(dims)];
    const auto inputType = [&] { return drawType(random); };
    const auto broadcast = [&](uint32_t extent) { return random() % 4 ? extent : 1; };
    const bool spoils = options.spoils && random() % 8 == 0;
    // NaN may lie where nothing looks only where elements are not shared.
    const bool poisons = yes();
    if (random() % 12) {
        l.q = make({batch, queryHeads, queryTokens, keyDim}, inputType(), poisons);
        l.out = make({batch, heads, queryTokens, valueDim}, inputType(), true);
    }
    l.k = make({batch, keyHeads, keyTokens, keyDim}, inputType(), poisons);
    l.v = make({batch, valueHeads, keyTokens, valueDim}, inputType(), poisons);
    if (isGated(l.rule)) l.decay = make({broadcast(batch), broadcast(valueHeads), keyTokens, yes() ? keyDim : 1}, inputType(), poisons);
    if (isDelta(l.rule)) l.writeStrength = make({broadcast(batch), broadcast(valueHeads), keyTokens, 1}, inputType(), poisons);
    uint32_t rows = keyDim;
    if (randomFeatures) {
        const uint32_t m = between(random, 1, 70);
        l.omega = make({1, ownFeatures ? stateHeads : broadcast(stateHeads), m, keyDim}, VKATTN_F32, false);
        rows = l.features == VKATTN_FEATURES_FAVOR2 ? 2 * m : m;
    }
    const uint32_t columns = valueDim + (features ? 1 : 0) + (exponentials ? 1 : 0);
    if (yes()) l.stateIn = make({batch, stateHeads, rows, columns}, VKATTN_F32, true);
    if (yes() || !l.out.extent[0]) l.stateOut = make({batch, stateHeads, rows, columns}, VKATTN_F32, true);
    if (l.stateIn.extent[0] && l.stateOut.extent[0] && yes()) {
        l.stateIn = l.stateOut;
        c.inPlace = true;
    }
    if (random() % 4 == 0) {
        l.snapshotTokens = between(random, 1, std::max(keyTokens, 1u)) + (yes() ? 0 : 5);
        l.snapshotTokens = std::max(l.snapshotTokens, keyTokens / 6 + 1);
        l.snapshots = make({batch, stateHeads, keyTokens / l.snapshotTokens * rows, columns}, VKATTN_F32, true);
    }
    if (random() % 3 == 0) {
        l.presentRoles = VKATTN_PRESENT(VKATTN_KEY_LENGTHS);
        for (uint32_t b = 0; b < batch; ++b) c.lengths.push_back(random() % 4 ? between(random, 0, keyTokens) : 0xffffffffu);
    }
    c.fill(random);

    // What no row looks at.
    const vkattn_role ofKeys[] = {VKATTN_K, VKATTN_V, VKATTN_DECAY, VKATTN_WRITE_STRENGTH};
    for (const vkattn_role role : ofKeys) {
        const vkattn_layout &of = c.layout(role);
        if (!poisons || of.extent[0] != batch || !hasUniqueElements(of)) continue;
        eachElement(of, [&](uint32_t b, uint32_t h, uint32_t t, uint32_t d) {
            if (t >= c.keys(b)) c.tensors.at(role).set(b, h, t, d, nan);
        });
    }
    const bool causal = !features || l.flags & VKATTN_CAUSAL;
    if (poisons && causal && !(l.flags & VKATTN_ALIGN_TOP_LEFT) && hasUniqueElements(l.q))
        eachElement(l.q, [&](uint32_t b, uint32_t h, uint32_t t, uint32_t d) {
            if (int64_t{t} + c.keys(b) - queryTokens < 0) c.tensors.at(VKATTN_Q).set(b, h, t, d, nan);
        });
    if (spoils && keyTokens) {
        const vkattn_role role = ofKeys[random() % 2];
        const uint32_t *e = c.layout(role).extent;
        c.tensors.at(role).set(random() % 2 % e[0], 0, between(random, 0, e[2] - 1), between(random, 0, e[3] - 1), yes() ? nan : infinity);
    }
    return c;
}

} // namespace vkattn::conform
