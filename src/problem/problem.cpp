#include "problem/problem.hpp"

#include "problem/dropout.hpp"
#include "problem/keys/prior.hpp"
#include "problem/operations/operation.hpp"
#include "util/diagnostic.hpp"
#include "util/struct_size.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace vkattn {
namespace {

constexpr uint32_t everyDimension = 15;
constexpr uint64_t maxPairs = 1ull << 50; // leaves room for bytes of scores and sums

vkattn_result checkNumbers(const vkattn_problem &p, vkattn_diagnostic *why) {
    if (!std::isfinite(p.scale)) return fail(why, invalid, "scale is %g, expected a finite number", static_cast<double>(p.scale));
    if (!(p.flags & VKATTN_SCALE) && p.scale != 0)
        return fail(why, invalid, "scale is %g without VKATTN_SCALE; set the flag to use it, or leave it 0 for 1/sqrt(headDim)",
                    static_cast<double>(p.scale));
    // The division by a denormal softcap may flush the softcap to 0 on a device, and 0 / 0 is NaN.
    if (!std::isfinite(p.softcap) || p.softcap < 0 || (p.softcap > 0 && p.softcap < std::numeric_limits<float>::min()))
        return fail(why, invalid, "softcap is %g, expected 0 for none, or a finite number from 2^-126 up", static_cast<double>(p.softcap));
    if (!(p.flags & VKATTN_WINDOW) && (p.windowLeft != 0 || p.windowRight != 0))
        return fail(why, invalid, "windowLeft %d and windowRight %d are set without VKATTN_WINDOW; set the flag to use them", p.windowLeft,
                    p.windowRight);
    if (p.windowLeft < -1 || p.windowRight < -1)
        return fail(why, invalid, "negative window (left %d, right %d), expected 0 or more, or -1 for an open side", p.windowLeft,
                    p.windowRight);
    return VKATTN_OK;
}

vkattn_result checkScores(const vkattn_problem &p, vkattn_diagnostic *why) {
    if (static_cast<uint32_t>(p.scoresStage) > VKATTN_SCORES_FINAL)
        return fail(why, invalid, "scoresStage is %d, expected a vkattn_score_stage, 0 to %d", static_cast<int>(p.scoresStage),
                    static_cast<int>(VKATTN_SCORES_FINAL));
    if (p.scoresStage && absent(p.scores))
        return fail(why, invalid, "scoresStage is %d without scores; give scores a layout, or leave the stage 0",
                    static_cast<int>(p.scoresStage));
    return VKATTN_OK;
}

vkattn_result checkDropout(const vkattn_problem &p, vkattn_diagnostic *why) {
    if (!(p.dropout >= 0 && p.dropout <= 1)) return fail(why, invalid, "dropout is %g, expected a probability from 0 to 1", p.dropout);
    if (p.dropout == 0 && (p.dropoutSeed || p.dropoutOffset))
        return fail(why, invalid, "dropoutSeed %llu and dropoutOffset %u are set with a dropout of 0; set the probability to use them",
                    static_cast<unsigned long long>(p.dropoutSeed), p.dropoutOffset);
    if (p.flags & VKATTN_WEIGHTS_DROPPED && absent(p.weights))
        return fail(why, invalid, "VKATTN_WEIGHTS_DROPPED is set without weights; give weights a layout, or clear the flag");
    if (p.flags & VKATTN_ROW_STATISTICS && absent(p.lse))
        return fail(why, invalid,
                    "VKATTN_ROW_STATISTICS is set without lse, which receives the statistics; give lse a layout, or clear "
                    "the flag");
    return VKATTN_OK;
}

// Checks flags, the roles without a layout, and ragged batches, as far as they do not depend on
// tensors.
vkattn_result checkOptions(const vkattn_problem &p, vkattn_diagnostic *why) {
    constexpr uint32_t knownFlags = VKATTN_CAUSAL | VKATTN_ALIGN_TOP_LEFT | VKATTN_WINDOW | VKATTN_SCALE | VKATTN_DETERMINISTIC |
                                    VKATTN_VALUES_IN_KEYS | VKATTN_ROW_STATISTICS | VKATTN_WEIGHTS_DROPPED;
    if (p.flags & ~knownFlags) return fail(why, invalid, "problem.flags has unknown bits 0x%x", p.flags & ~knownFlags);
    if (static_cast<uint32_t>(p.kernel) >= mostKernels)
        return fail(why, invalid, "problem.kernel is %u, expected a vkattn_kernel, less than %u", static_cast<uint32_t>(p.kernel),
                    mostKernels);
    if (p.presentRoles & ~arrayBits())
        return fail(why, invalid, "problem.presentRoles has bits 0x%x, expected only VKATTN_PRESENT(role) of small arrays",
                    p.presentRoles & ~arrayBits());
    const auto present = [&](vkattn_role role) { return (p.presentRoles & VKATTN_PRESENT(role)) != 0; };
    if (present(VKATTN_DOC_IDS_Q) != present(VKATTN_DOC_IDS_K))
        return fail(why, invalid, "document ids of %s are in presentRoles without those of the other side; give both",
                    present(VKATTN_DOC_IDS_Q) ? "queries" : "keys");
    const bool ragged = present(VKATTN_CU_SEQ_Q);
    if (ragged != present(VKATTN_CU_SEQ_K))
        return fail(why, invalid, "cu_seqlens of %s are in presentRoles without those of the other side; give both",
                    ragged ? "queries" : "keys");
    if (ragged && present(VKATTN_KEY_LENGTHS))
        return fail(why, invalid, "key lengths and cu_seqlens are both in presentRoles; ragged batches have their lengths in cu_seqlens");
    if (!ragged && (p.sequences || p.maxSeqQ || p.maxSeqK))
        return fail(why, invalid,
                    "sequences %u, maxSeqQ %u and maxSeqK %u are set without VKATTN_CU_SEQ_Q and VKATTN_CU_SEQ_K in presentRoles",
                    p.sequences, p.maxSeqQ, p.maxSeqK);
    if (ragged && (p.sequences == 0 || p.sequences > maxTokens))
        return fail(why, invalid, "a ragged batch has %u sequences, expected 1 to %u", p.sequences, maxTokens);
    if (p.flags & VKATTN_VALUES_IN_KEYS && !absent(p.v))
        return fail(why, invalid,
                    "v has a layout with VKATTN_VALUES_IN_KEYS, expected all of it zero: V is the first out.extent[3] elements of each "
                    "row of k; clear v, or the flag to have V in memory of its own");
    if (!absent(p.mask) && !absent(p.bitMask)) return fail(why, invalid, "mask and bit mask are both given; combine them into one");
    return VKATTN_OK;
}

uint64_t ruleArrayLength(const Problem &p, vkattn_role role) {
    if (isProgramBuffer(role)) return p.program.bufferWords[role - VKATTN_PROGRAM_BUFFER_0];
    switch (role) {
    case VKATTN_GLOBAL_TOKENS:
        return uint64_t{p.batch} * bitWords(p.keyTokens);
    case VKATTN_PREFIX_LENGTHS:
    case VKATTN_QUERY_OFFSETS:
    case VKATTN_KEY_OFFSETS:
        return p.batch;
    case VKATTN_DILATIONS:
        return p.heads;
    case VKATTN_PAGE_TABLE:
        return uint64_t{p.batch} * p.tablePages;
    case VKATTN_PAGE_INDPTR:
        return p.batch + 1ull;
    case VKATTN_PAGE_INDICES:
        return p.pageIndices;
    case VKATTN_LAST_PAGE_LENGTHS:
        return p.batch;
    default:
        return blockArrayLength(p.rules, role);
    }
}

// Masks and biases of fewer keys than there are: the keys behind them are hidden, as if k ended there, and stand where
// they would. Sets out.unmaskedKeys.
vkattn_result hideUnmasked(const vkattn_problem &p, Problem &out, vkattn_diagnostic *why) {
    uint32_t masked = out.keyTokens;
    for (const vkattn_role role : {VKATTN_BIAS, VKATTN_MASK})
        if (const Tensor &t = out.tensor(role); t.present() && t.extent[3] > 1) masked = std::min(masked, t.extent[3]);
    if (masked == out.keyTokens) return VKATTN_OK;
    const auto present = [&](vkattn_role role) { return (p.presentRoles & VKATTN_PRESENT(role)) != 0; };
    const char *const other = present(VKATTN_CU_SEQ_K)              ? "cu_seqlens"
                              : out.paged()                         ? "pages"
                              : !absent(p.weights)                  ? "weights"
                              : !absent(p.scores)                   ? "scores"
                              : !absent(p.bitMask)                  ? "bit mask"
                              : p.grid.rule != VKATTN_GRID_NONE     ? "a grid"
                              : p.blocks.kind != VKATTN_BLOCKS_NONE ? "blocks"
                              : present(VKATTN_DOC_IDS_K)           ? "document ids"
                              : present(VKATTN_GLOBAL_TOKENS)       ? "global tokens"
                                                                    : nullptr;
    if (other)
        return fail(why, invalid,
                    "mask or bias has %u keys, fewer than the %u of k, beside %s, which have all of them; give a mask of every key", masked,
                    out.keyTokens, other);
    out.unmaskedKeys = out.keyTokens - masked;
    out.keyTokens = masked;
    Segments &segments = out.segments;
    while (segments.count > 1 && segments.first[segments.count - 1] >= masked) --segments.count;
    segments.first[segments.count] = masked;
    return VKATTN_OK;
}

// An alignment counts the keys that hideUnmasked has hidden.
vkattn_result alignUnmasked(Problem &out, vkattn_diagnostic *why) {
    const uint32_t hidden = out.unmaskedKeys;
    const bool byPosition = out.flags & (VKATTN_CAUSAL | VKATTN_WINDOW) || out.has(VKATTN_ALIBI_SLOPES) || out.program.hooks;
    if (hidden == 0 || out.topLeft || out.hasOffsets() || !byPosition) return VKATTN_OK;
    if (out.has(VKATTN_KEY_LENGTHS))
        return fail(why, invalid,
                    "mask or bias has %u keys of %u, and key lengths say where queries stand; give queryOffset, VKATTN_ALIGN_TOP_LEFT, or "
                    "a mask of every key",
                    out.keyTokens, out.keyTokens + hidden);
    const int64_t shift = int64_t{out.keyTokens} + hidden - out.queryTokens;
    if (std::abs(shift) > maxOffset)
        return fail(why, invalid, "%u queries and %u keys with a mask of fewer, expected at most %d of each", out.queryTokens,
                    out.keyTokens + hidden, maxOffset);
    out.queryOffset = {VKATTN_OFFSET_NUMBER, static_cast<int32_t>(shift)};
    return VKATTN_OK;
}

// Makes V the first dims of K.
vkattn_result placeValuesInKeys(Problem &p, vkattn_diagnostic *why) {
    const Tensor &k = p.tensor(VKATTN_K);
    const uint32_t valueDim = p.tensor(VKATTN_OUT).extent[3];
    if (valueDim > k.extent[3])
        return fail(why, invalid,
                    "out has %u value dims with VKATTN_VALUES_IN_KEYS, expected at most the %u dims of k, whose first ones they are",
                    valueDim, k.extent[3]);
    Tensor &v = p.tensors[placeOfTensor(VKATTN_V)] = k;
    v.extent[3] = valueDim;
    if (valueDim == 1) v.stride[3] = 0;
    return VKATTN_OK;
}

} // namespace

bool Problem::uses(vkattn_role role) const {
    return isArray(role) ? has(role) : isTensor(role) && tensor(role).present() && memoryOf(role) == role;
}

uint64_t arrayLength(const Problem &p, vkattn_role role) {
    const OperandRule *rule = findRule(role);
    switch (rule ? rule->span : Span::rows) {
    case Span::batchArray:
        return p.batch;
    case Span::sequenceArray:
        return p.batch + 1ull;
    case Span::queryArray:
        return uint64_t{p.tensor(VKATTN_Q).extent[0]} * p.tensor(VKATTN_Q).extent[2];
    case Span::keyArray:
        return uint64_t{p.ragged() ? 1 : p.batch} * p.keyExtent();
    case Span::headArray:
        return p.heads;
    case Span::ruleArray:
        return p.has(role) ? ruleArrayLength(p, role) : 0;
    default:
        return 0;
    }
}

ByteRange Problem::bytesUsed(vkattn_role role) const {
    if (!uses(role)) return {};
    return isArray(role) ? ByteRange{0, arrayElementBytes(role) * arrayLength(*this, role)} : tensor(role).span();
}

uint64_t Problem::bytesNeeded(vkattn_role role) const {
    return bytesUsed(role).end;
}

double Problem::flops() const {
    return 2.0 * batch * heads * queryTokens * keyTokens * (static_cast<double>(headDim) + valueDim);
}

const OperandRule *findRule(vkattn_role role) {
    for (const OperandRule &rule : operandTable)
        if (rule.role == role) return &rule;
    return nullptr;
}

const char *roleName(vkattn_role role) {
    const OperandRule *rule = findRule(role);
    if (rule) return rule->name;
    if (role == VKATTN_WORKSPACE) return "workspace";
    const char *const name = nameOfOperationRole(role);
    return name ? name : "unknown role";
}

namespace {

// Rows whose weights are no shares of a sum have no log-sum-exp, and nothing that rests on one.
vkattn_result checkSumless(const Problem &p, vkattn_diagnostic *why) {
    if (!p.program.sumless()) return VKATTN_OK;
    for (const vkattn_role role : {VKATTN_LSE, VKATTN_WEIGHTS, VKATTN_SINKS})
        if (p.uses(role))
            return fail(why, invalid,
                        "%s is given beside the program %s, whose vkattnRow makes weights that have no sum; leave one of the two out",
                        roleName(role), nameOf(*p.program.program));
    return VKATTN_OK;
}

} // namespace

vkattn_result makeProblem(const vkattn_problem *description, Problem &out, vkattn_diagnostic *why) {
    if (!description) return fail(why, invalid, "problem is NULL");
    if (const auto r = checkStructSize(*description, "problem", "vkattn_problem", why)) return r;
    vkattn_problem room;
    const vkattn_problem &p = completed(*description, room);
    if (const auto r = checkOptions(p, why)) return r;
    if (const auto r = checkNumbers(p, why)) return r;
    if (const auto r = checkDropout(p, why)) return r;
    if (const auto r = checkScores(p, why)) return r;

    out = Problem{};
    for (const OperandRule &rule : operandTable) {
        if (!rule.layout) continue;
        const vkattn_layout &layout = p.*rule.layout;
        if (absent(layout)) {
            if (!rule.required || (rule.role == VKATTN_V && p.flags & VKATTN_VALUES_IN_KEYS)) continue;
            return fail(why, invalid, "%s has no layout; it is required", rule.name);
        }
        const uint32_t *e = layout.extent;
        if (e[0] == 0 || e[1] == 0 || (e[3] == 0 && !overPairs(rule.span)))
            return fail(why, invalid, "%s is [%u, %u, %u, %u]; batch, heads and dim must be at least 1", rule.name, e[0], e[1], e[2], e[3]);
        if (const auto r = makeTensor(layout, {rule.name, rule.output, rule.dtypes}, out.tensors[placeOfTensor(rule.role)], why)) return r;
    }

    out.valuesInKeys = p.flags & VKATTN_VALUES_IN_KEYS;
    if (out.valuesInKeys)
        if (const auto r = placeValuesInKeys(out, why)) return r;
    const Tensor &q = out.tensor(VKATTN_Q), &k = out.tensor(VKATTN_K), &v = out.tensor(VKATTN_V);
    out.batch = q.extent[0];
    out.heads = q.extent[1];
    out.queryTokens = q.extent[2];
    out.headDim = q.extent[3];
    out.kvHeads = k.extent[1];
    out.keyTokens = k.extent[2];
    if (const auto r = makePages(p, out, why)) return r;
    if (const auto r = makeSegments(p, out, why)) return r;
    out.valueDim = v.extent[3];
    if (out.headDim > maxDim || out.valueDim > maxDim)
        return fail(why, invalid, "head dim %u, value dim %u: expected at most %u", out.headDim, out.valueDim, maxDim);
    if ((k.extent[0] != out.batch && !out.paged()) || k.extent[3] != out.headDim)
        return fail(why, invalid, "k is [%u, %u, %u, %u] but q is [%u, %u, %u, %u]: batch and head dim must agree", k.extent[0],
                    k.extent[1], k.extent[2], k.extent[3], q.extent[0], q.extent[1], q.extent[2], q.extent[3]);
    if (out.heads % out.kvHeads != 0) return fail(why, invalid, "%u key heads do not divide %u query heads", out.kvHeads, out.heads);
    const uint32_t expectedV[4] = {k.extent[0], out.kvHeads, k.extent[2], out.valueDim};
    const uint32_t expectedOut[4] = {out.batch, out.heads, out.queryTokens, out.valueDim};
    const uint32_t expectedLse[4] = {out.batch, out.heads, out.queryTokens, p.flags & VKATTN_ROW_STATISTICS ? 2u : 1u};
    if (const auto r = expectExtents(v, "v", expectedV, 0, why)) return r;
    if (const auto r = expectExtents(out.tensor(VKATTN_OUT), roleName(VKATTN_OUT), expectedOut, 0, why)) return r;
    if (out.tensor(VKATTN_LSE).present())
        if (const auto r = expectExtents(out.tensor(VKATTN_LSE), roleName(VKATTN_LSE), expectedLse, 0, why)) return r;
    if (p.sequences) {
        if (out.batch != 1)
            return fail(why, invalid, "q is [%u, %u, %u, %u]; a ragged batch has its sequences one after the other in a batch extent of 1",
                        q.extent[0], q.extent[1], q.extent[2], q.extent[3]);
        if (p.maxSeqQ > out.queryTokens || p.maxSeqK > out.keyTokens)
            return fail(why, invalid, "maxSeqQ %u and maxSeqK %u, expected at most the %u queries and %u keys that there are", p.maxSeqQ,
                        p.maxSeqK, out.queryTokens, out.keyTokens);
        out.batch = p.sequences;
        if (p.maxSeqQ) out.queryTokens = p.maxSeqQ;
        if (p.maxSeqK) out.keyTokens = p.maxSeqK;
        out.segments = {1, {0, out.keyTokens}};
    }
    if (const auto r = hideUnmasked(p, out, why)) return r;
    const uint32_t expectedScores[4] = {out.batch, out.heads, out.queryTokens, out.keyTokens};
    const uint32_t expectedBits[4] = {out.batch, out.heads, out.queryTokens, out.keyTokens / 32 + (out.keyTokens % 32 != 0)};
    for (const vkattn_role role : {VKATTN_WEIGHTS, VKATTN_SCORES})
        if (out.tensor(role).present())
            if (const auto r = expectExtents(out.tensor(role), roleName(role), expectedScores, 0, why)) return r;
    for (const vkattn_role role : {VKATTN_BIAS, VKATTN_MASK})
        if (out.tensor(role).present())
            if (const auto r = expectExtents(out.tensor(role), roleName(role), expectedScores, everyDimension, why)) return r;
    if (const Tensor &bits = out.tensor(VKATTN_BIT_MASK); bits.present()) {
        if (bits.extent[3] != expectedBits[3])
            return fail(why, invalid, "bit mask has %u words a row, expected %u: one bit for each of %u keys", bits.extent[3],
                        expectedBits[3], out.keyTokens);
        if (const auto r = expectExtents(bits, roleName(VKATTN_BIT_MASK), expectedBits, everyDimension, why)) return r;
    }
    if (p.dropout > 0 && uint64_t{out.batch} * out.heads >= dropoutRange)
        return fail(why, invalid, "batch %u x heads %u with dropout, expected less than 2^32: each has random numbers of its own",
                    out.batch, out.heads);
    uint64_t pairs = out.batch;
    for (const uint64_t factor : {uint64_t{out.heads}, uint64_t{out.queryTokens}, uint64_t{std::max(out.keyTokens, 1u)}})
        if (!multiplySizes(pairs, std::max<uint64_t>(factor, 1), pairs) || pairs > maxPairs)
            return fail(why, invalid,
                        "batch %u x heads %u x queries %u x keys %u is over the 2^50 pairs that 64-bit arithmetic has room for", out.batch,
                        out.heads, out.queryTokens, out.keyTokens);

    out.presentRoles = p.presentRoles;
    if (const auto r = makeRules(p, out, why)) return r;
    if (const auto r = makeOffsets(p, out, why)) return r;
    if (const auto r = makeProgramUse(p, out.program, why)) return r;
    if (const auto r = checkSumless(out, why)) return r;

    out.scale = p.flags & VKATTN_SCALE ? p.scale : 1.0f / std::sqrt(static_cast<float>(out.headDim));
    out.softcap = p.softcap;
    out.topLeft = p.flags & VKATTN_ALIGN_TOP_LEFT;
    out.deterministic = p.flags & VKATTN_DETERMINISTIC;
    out.rowStatistics = p.flags & VKATTN_ROW_STATISTICS;
    out.weightsDropped = p.flags & VKATTN_WEIGHTS_DROPPED;
    out.scoresStage = p.scoresStage;
    if (p.dropout > 0) out.dropoutThreshold = dropoutThreshold(p.dropout);
    if (out.dropoutThreshold) {
        out.dropoutSeed = p.dropoutSeed;
        out.dropoutOffset = p.dropoutOffset;
    }
    out.flags = p.flags;
    if (const auto r = alignUnmasked(out, why)) return r;
    if (const auto r = checkPrior(out, why)) return r;
    out.kernel = p.kernel;
    out.slices = std::max(p.sliceCount, 1u);
    return VKATTN_OK;
}

} // namespace vkattn

extern "C" vkattn_result vkattnValidateProblem(const vkattn_problem *problem, vkattn_diagnostic *why) {
    vkattn::Problem ignored;
    return vkattn::makeProblem(problem, ignored, why);
}

extern "C" uint64_t vkattnOperandBytes(const vkattn_problem *problem, vkattn_role role) {
    vkattn::Problem canonical;
    return vkattn::makeProblem(problem, canonical, nullptr) == VKATTN_OK ? canonical.bytesNeeded(role) : 0;
}

extern "C" uint32_t vkattnDropoutKeeps(double probability, uint64_t seed, uint32_t offset, uint32_t plane, uint32_t i, uint32_t j) {
    if (!(probability >= 0 && probability <= 1)) return 0;
    return vkattn::DropoutPlane{seed, offset, plane}.keeps(vkattn::dropoutThreshold(probability), i, j);
}
