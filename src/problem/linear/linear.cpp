#include "problem/linear/linear.hpp"

#include "problem/operand_table.hpp"
#include "util/diagnostic.hpp"
#include "util/struct_size.hpp"

#include <algorithm>
#include <cmath>

namespace vkattn {
namespace {

using Description = vkattn_linear_attention;

constexpr uint32_t maxDim = 2048, maxFeatures = 4096, f32Only = 1u << VKATTN_F32;
constexpr uint64_t maxHeads = 1ull << 32; // of all batch entries
constexpr float defaultEpsilon = 1e-3f;   // of RELU, as Choromanski et al. have it

constexpr LinearOperand linearTable[] = {
    {VKATTN_Q, "q", false, floatTypes, &Description::q},
    {VKATTN_K, "k", false, floatTypes, &Description::k},
    {VKATTN_V, "v", false, floatTypes, &Description::v},
    {VKATTN_DECAY, "decay", false, floatTypes, &Description::decay},
    {VKATTN_WRITE_STRENGTH, "writeStrength", false, floatTypes, &Description::writeStrength},
    {VKATTN_OMEGA, "omega", false, f32Only, &Description::omega},
    {VKATTN_STATE_IN, "stateIn", false, f32Only, &Description::stateIn},
    {VKATTN_OUT, "out", true, floatTypes, &Description::out},
    {VKATTN_STATE_OUT, "stateOut", true, f32Only, &Description::stateOut},
    {VKATTN_SNAPSHOTS, "snapshots", true, f32Only, &Description::snapshots},
    {VKATTN_KEY_LENGTHS, "key lengths", false, 0, nullptr},
};
static_assert(std::size(linearTable) == LinearAttention::tensorCount + 1);

constexpr const char *ruleNames[] = {"VKATTN_LINEAR_FEATURES", "VKATTN_LINEAR_PLAIN", "VKATTN_LINEAR_GATED", "VKATTN_LINEAR_DELTA",
                                     "VKATTN_LINEAR_GATED_DELTA"};

uint32_t placeOf(vkattn_role role) {
    uint32_t n = 0;
    while (n < LinearAttention::tensorCount && linearTable[n].role != role) ++n;
    return n;
}

vkattn_result takeOptions(const Description &l, LinearAttention &out, vkattn_diagnostic *why) {
    constexpr uint32_t known = VKATTN_CAUSAL | VKATTN_ALIGN_TOP_LEFT | VKATTN_SCALE;
    if (l.flags & ~known)
        return fail(why, invalid, "linear.flags is 0x%x, expected bits of VKATTN_CAUSAL, VKATTN_ALIGN_TOP_LEFT and VKATTN_SCALE", l.flags);
    if (static_cast<uint32_t>(l.rule) > VKATTN_LINEAR_GATED_DELTA)
        return fail(why, invalid, "linear.rule is %d, expected a vkattn_linear_rule", static_cast<int>(l.rule));
    if (static_cast<uint32_t>(l.features) > VKATTN_FEATURES_FAVOR2)
        return fail(why, invalid, "linear.features is %d, expected a vkattn_feature_map", static_cast<int>(l.features));
    if (static_cast<uint32_t>(l.form) > VKATTN_LINEAR_FORM_CHUNKED)
        return fail(why, invalid, "linear.form is %d, expected a vkattn_linear_form", static_cast<int>(l.form));
    if (static_cast<uint32_t>(l.headMapping) > VKATTN_HEADS_MODULO)
        return fail(why, invalid, "linear.headMapping is %d, expected a vkattn_head_mapping", static_cast<int>(l.headMapping));
    if (l.reserved) return fail(why, invalid, "linear.reserved is %u, expected 0", l.reserved);
    if (l.rule != VKATTN_LINEAR_FEATURES && l.features)
        return fail(why, invalid, "linear.features is %d with the rule %s, which has no feature map; leave it 0",
                    static_cast<int>(l.features), ruleNames[l.rule]);
    if (!std::isfinite(l.scale) || (!(l.flags & VKATTN_SCALE) && l.scale != 0))
        return fail(why, invalid, "linear.scale is %g, expected %s", static_cast<double>(l.scale),
                    std::isfinite(l.scale) ? "0 without VKATTN_SCALE; set the flag" : "a finite number");
    const bool relu = l.rule == VKATTN_LINEAR_FEATURES && l.features == VKATTN_FEATURES_RELU;
    if (!std::isfinite(l.epsilon) || l.epsilon < 0 || (!relu && l.epsilon != 0))
        return fail(why, invalid, "linear.epsilon is %g, expected %s", static_cast<double>(l.epsilon),
                    relu ? "a finite number of at least 0" : "0: only VKATTN_FEATURES_RELU adds it");
    if (l.presentRoles & ~VKATTN_PRESENT(VKATTN_KEY_LENGTHS))
        return fail(why, invalid,
                    "linear.presentRoles has bits 0x%x, expected VKATTN_PRESENT(VKATTN_KEY_LENGTHS): a state holds all of its tokens, so "
                    "that masks, windows, documents, sinks and ALiBi have no place in it; use vkattn_problem for these",
                    l.presentRoles & ~VKATTN_PRESENT(VKATTN_KEY_LENGTHS));
    out.rule = l.rule;
    out.features = l.features;
    out.form = l.form;
    out.mapping = l.headMapping;
    out.causal = l.rule != VKATTN_LINEAR_FEATURES || l.flags & VKATTN_CAUSAL;
    out.topLeft = l.flags & VKATTN_ALIGN_TOP_LEFT;
    out.epsilon = relu ? (l.epsilon > 0 ? l.epsilon : defaultEpsilon) : 0;
    out.presentRoles = l.presentRoles;
    out.snapshotTokens = l.snapshotTokens;
    out.slices = std::max(l.sliceCount, 1u);
    return VKATTN_OK;
}

// Operands that the rule needs, and those that it has no use for.
vkattn_result checkPresence(const Description &l, const LinearAttention &a, vkattn_diagnostic *why) {
    const char *const rule = ruleNames[l.rule];
    for (const auto &[layout, name] : {std::pair{&l.k, "k"}, std::pair{&l.v, "v"}})
        if (absent(*layout)) return fail(why, invalid, "%s of the linear attention has no layout; it is required", name);
    if (absent(l.q) != absent(l.out))
        return fail(why, invalid, "%s has a layout, and %s has none; give both, or neither where the state alone is wanted",
                    absent(l.q) ? "out" : "q", absent(l.q) ? "q" : "out");
    if (absent(l.out) && absent(l.stateOut) && absent(l.snapshots))
        return fail(why, invalid, "no output is asked for: give q and out, stateOut or snapshots a layout");
    if (absent(l.decay) == a.isGated())
        return fail(why, invalid, "decay has %s layout, and the rule %s %s", a.isGated() ? "no" : "a", rule,
                    a.isGated() ? "needs one: the logarithm of what is kept of the state"
                                : "does not decay; take a gated rule, or leave it out");
    if (absent(l.writeStrength) == a.isDelta())
        return fail(why, invalid, "writeStrength has %s layout, and the rule %s %s", a.isDelta() ? "no" : "a", rule,
                    a.isDelta() ? "needs one: beta of each token" : "has none; take a delta rule, or leave it out");
    if (absent(l.omega) && a.hasMaximum())
        return fail(why, invalid, "omega has no layout, and VKATTN_FEATURES_FAVOR and FAVOR2 need one; vkattnRandomFeatures makes it");
    if (!absent(l.omega) && !a.hasMaximum() && !(a.hasFeatures() && a.features == VKATTN_FEATURES_RELU))
        return fail(why, invalid, "omega has a layout, and %s has no random features; leave it out, or take FAVOR, FAVOR2 or RELU",
                    a.hasFeatures() ? "VKATTN_FEATURES_ELU1" : rule);
    if (absent(l.snapshots) != (l.snapshotTokens == 0))
        return fail(why, invalid, "snapshotTokens is %u, and snapshots has %s layout; give both or neither", l.snapshotTokens,
                    absent(l.snapshots) ? "no" : "a");
    return VKATTN_OK;
}

vkattn_result takeTensors(const Description &l, LinearAttention &out, vkattn_diagnostic *why) {
    for (uint32_t n = 0; n < LinearAttention::tensorCount; ++n) {
        const LinearOperand &each = linearTable[n];
        const vkattn_layout &layout = l.*each.layout;
        if (absent(layout)) continue;
        const uint32_t *e = layout.extent;
        // Of no tokens there are no snapshots.
        const bool mayBeEmpty = each.role != VKATTN_OMEGA && each.role != VKATTN_STATE_IN && each.role != VKATTN_STATE_OUT;
        for (int d = 0; d < 4; ++d)
            if (e[d] == 0 && !(d == 2 && mayBeEmpty))
                return fail(why, invalid, "%s is [%u, %u, %u, %u]; %s", each.name, e[0], e[1], e[2], e[3],
                            mayBeEmpty ? "only dimension 2 may be 0" : "no dimension may be 0");
        if (const auto r = makeTensor(layout, {each.name, each.output, each.dtypes}, out.tensors[n], why)) return r;
    }
    return VKATTN_OK;
}

vkattn_result checkHeads(const char *name, uint32_t heads, const char *whole, uint32_t count, vkattn_diagnostic *why) {
    if (count % heads == 0) return VKATTN_OK;
    return fail(why, invalid, "%s has %u heads, and %s has %u: expected a divisor, so that each head is shared by as many", name, heads,
                whole, count);
}

vkattn_result takeExtents(LinearAttention &a, vkattn_diagnostic *why) {
    const Tensor &q = a.tensor(VKATTN_Q), &k = a.tensor(VKATTN_K), &v = a.tensor(VKATTN_V), &omega = a.tensor(VKATTN_OMEGA);
    a.batch = k.extent[0];
    a.keyTokens = k.extent[2];
    a.keyDim = k.extent[3];
    a.valueDim = v.extent[3];
    if (a.keyDim > maxDim || a.valueDim > maxDim)
        return fail(why, invalid, "%s has %u dims, expected at most %u", a.keyDim > maxDim ? "k" : "v", std::max(a.keyDim, a.valueDim),
                    maxDim);
    const uint32_t keyHeads = std::max(k.extent[1], v.extent[1]);
    // Features of its own give each head of shared keys a state of its own.
    a.stateHeads = std::max(keyHeads, omega.extent[1]);
    a.heads = std::max(a.stateHeads, q.extent[1]);
    a.queryTokens = q.extent[2];
    const char *const larger = k.extent[1] > v.extent[1] ? "k" : "v";
    if (const auto r = checkHeads(k.extent[1] > v.extent[1] ? "v" : "k", std::min(k.extent[1], v.extent[1]), larger, keyHeads, why))
        return r;
    if (const auto r = checkHeads(larger, keyHeads, "omega", a.stateHeads, why)) return r;
    if (const auto r = expectExtents(v, "v", {a.batch, v.extent[1], a.keyTokens, a.valueDim}, 0, why)) return r;
    if (q.present()) {
        const bool most = q.extent[1] >= a.stateHeads;
        if (const auto r = most ? checkHeads("the state", a.stateHeads, "q", q.extent[1], why)
                                : checkHeads("q", q.extent[1], "the state", a.stateHeads, why))
            return r;
        if (const auto r = expectExtents(q, "q", {a.batch, q.extent[1], a.queryTokens, a.keyDim}, 0, why)) return r;
        if (const auto r = expectExtents(a.tensor(VKATTN_OUT), "out", {a.batch, a.heads, a.queryTokens, a.valueDim}, 0, why)) return r;
    }
    if (uint64_t{a.batch} * a.heads >= maxHeads)
        return fail(why, invalid, "batch %u x heads %u, expected less than 2^32", a.batch, a.heads);
    if (omega.present()) {
        if (omega.extent[2] > maxFeatures)
            return fail(why, invalid, "omega has %u rows, expected at most %u", omega.extent[2], maxFeatures);
        if (const auto r = expectExtents(omega, "omega", {1, a.stateHeads, omega.extent[2], a.keyDim}, 1u << 1, why)) return r;
    }
    const uint32_t features = omega.present() ? omega.extent[2] : a.keyDim;
    a.stateRows = a.hasFeatures() && a.features == VKATTN_FEATURES_FAVOR2 ? 2 * features : features;
    a.stateColumns = a.valueDim + (a.hasFeatures() ? 1 : 0) + (a.hasMaximum() ? 1 : 0);
    return VKATTN_OK;
}

vkattn_result checkExtents(const LinearAttention &a, vkattn_diagnostic *why) {
    constexpr uint32_t batchAndHeads = 3;
    const Tensor &decay = a.tensor(VKATTN_DECAY), &beta = a.tensor(VKATTN_WRITE_STRENGTH), &snapshots = a.tensor(VKATTN_SNAPSHOTS);
    if (decay.present()) {
        const uint32_t columns = decay.extent[3] == 1 ? 1 : a.keyDim;
        if (const auto r = expectExtents(decay, "decay", {a.batch, a.stateHeads, a.keyTokens, columns}, batchAndHeads, why)) return r;
    }
    if (beta.present())
        if (const auto r = expectExtents(beta, "writeStrength", {a.batch, a.stateHeads, a.keyTokens, 1}, batchAndHeads, why)) return r;
    for (const vkattn_role role : {VKATTN_STATE_IN, VKATTN_STATE_OUT})
        if (const Tensor &state = a.tensor(role); state.present())
            if (const auto r =
                    expectExtents(state, findLinearOperand(role)->name, {a.batch, a.stateHeads, a.stateRows, a.stateColumns}, 0, why))
                return r;
    if (!snapshots.present()) return VKATTN_OK;
    const uint64_t rows = uint64_t{a.snapshotCount()} * a.stateRows;
    if (rows > maxTokens)
        return fail(why, invalid, "snapshots have %u states of %u rows, expected at most %u rows; raise snapshotTokens", a.snapshotCount(),
                    a.stateRows, maxTokens);
    return expectExtents(snapshots, "snapshots", {a.batch, a.stateHeads, static_cast<uint32_t>(rows), a.stateColumns}, 0, why);
}

} // namespace

std::span<const LinearOperand> linearOperands() {
    return linearTable;
}

const LinearOperand *findLinearOperand(vkattn_role role) {
    for (const LinearOperand &each : linearTable)
        if (each.role == role) return &each;
    return nullptr;
}

const Tensor &LinearAttention::tensor(vkattn_role role) const {
    static constexpr Tensor none{};
    const uint32_t place = placeOf(role);
    return place < tensorCount ? tensors[place] : none;
}

bool LinearAttention::uses(vkattn_role role) const {
    return role == VKATTN_KEY_LENGTHS ? has(role) : tensor(role).present();
}

ByteRange LinearAttention::bytesUsed(vkattn_role role) const {
    if (!uses(role)) return {};
    return role == VKATTN_KEY_LENGTHS ? ByteRange{0, 4 * uint64_t{batch}} : tensor(role).span();
}

double LinearAttention::flops() const {
    const double keys = static_cast<double>(batch) * stateHeads * keyTokens, rows = static_cast<double>(batch) * heads * queryTokens;
    const double state = static_cast<double>(stateRows) * (valueDim + (hasFeatures() ? 1.0 : 0.0));
    const double random = 2.0 * randomFeatures() * keyDim;
    return keys * (state * (isDelta() ? 4.0 : 2.0) + (isGated() ? state : 0.0) + random) + rows * (2.0 * state + random);
}

vkattn_result makeLinear(const vkattn_linear_attention *description, LinearAttention &out, vkattn_diagnostic *why) {
    if (!description) return fail(why, invalid, "operation.of.linearAttention is NULL");
    if (const auto r = checkStructSize(*description, "linear", "vkattn_linear_attention", why)) return r;
    vkattn_linear_attention room;
    const vkattn_linear_attention &l = completed(*description, room);
    out = LinearAttention{};
    if (const auto r = takeOptions(l, out, why)) return r;
    if (const auto r = checkPresence(l, out, why)) return r;
    if (const auto r = takeTensors(l, out, why)) return r;
    if (const auto r = takeExtents(out, why)) return r;
    if (const auto r = checkExtents(out, why)) return r;
    const bool literal = l.flags & VKATTN_SCALE && (out.hasFeatures() || l.scale != 0);
    out.scale = literal ? l.scale : 1.0f / std::sqrt(static_cast<float>(out.keyDim));
    return VKATTN_OK;
}

} // namespace vkattn
