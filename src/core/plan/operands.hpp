// What dispatches bind, of a chunk of the problem: ranges of each role, and where indices count
// from. Shared by all kernels.
#pragma once

#include "core/plan/plan.hpp"
#include "lib/interop.h"
#include "problem/dropout.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace vkattn {

using namespace interop;

// The chunk that a dispatch works on, in the problem's coordinates.
struct Chunk {
    uint32_t batchFirst, batches, headFirst, heads, queryFirst, queries, keyFirst, keys;
};

[[nodiscard]] constexpr uint32_t divideUp(uint32_t a, uint32_t b) {
    return a / b + (a % b != 0);
}

[[nodiscard]] constexpr uint32_t roundUp(uint32_t n, uint32_t multiple) {
    return divideUp(n, multiple) * multiple;
}

// Whether the rows of a tensor of 8 or 16 bits begin at 32-bit words: bindings begin at multiples of 4
// bytes, so that offset and strides tell.
[[nodiscard]] constexpr bool rowsBeginAtWords(const Tensor &t) {
    const uint32_t perWord = 4 / elementBytes(t.dtype);
    bool whole = t.offset % perWord == 0;
    for (uint32_t axis = 0; axis < 3; ++axis) whole = whole && t.stride[axis] % static_cast<int64_t>(perWord) == 0;
    return whole;
}

// Whether the dims of a tensor of 8 or 16 bits are neighbours that fill words.
[[nodiscard]] constexpr bool fillsWords(const Tensor &t) {
    return t.unitDims() && t.extent[3] % std::max(2u, 4 / elementBytes(t.dtype)) == 0 && rowsBeginAtWords(t);
}

// How dims of what a lane loads lie in memory, for runs of `run` neighbours.
[[nodiscard]] constexpr uint32_t dimOrderOf(const Tensor &t, uint32_t run) {
    if (!t.unitDims()) return dimsApart;
    if (t.dtype == VKATTN_F32) return dimsInWords;
    if (isBlockType(t.dtype)) return dimsAdjacent;
    return run % (4 / elementBytes(t.dtype)) == 0 && rowsBeginAtWords(t) ? dimsInWords : dimsAdjacent;
}

// The box of a tensor, seen from its element (batch, head, token, dim) = first.
[[nodiscard]] inline Operand tensorOperand(const Tensor &t, vkattn_role memory, bool writes, const Box &box, const uint32_t (&first)[4],
                                           size_t basePushByte) {
    const ByteRange range = t.span(box);
    uint64_t at[4];
    for (int d = 0; d < 4; ++d) at[d] = t.extent[d] == 1 ? 0 : first[d]; // broadcast
    return {memory,
            range.begin,
            range.end,
            bytesBefore(t.dtype, t.index(at[0], at[1], at[2], at[3])),
            static_cast<uint32_t>(basePushByte / 4),
            elementBytes(t.dtype),
            writes};
}
[[nodiscard]] inline Operand tensorOperand(const Problem &p, vkattn_role role, const Box &box, const uint32_t (&first)[4],
                                           size_t basePushByte) {
    return tensorOperand(p.tensor(role), p.memoryOf(role), isOutput(role), box, first, basePushByte);
}

// Some heads and tokens of a chunk.
struct TokenRange {
    uint32_t headFirst, heads, first, count;
};
// `anywhere`: of a ragged batch, and of pages, all tokens are bound, from the first on: where a sequence begins or
// a page lies only the device knows. The base is the chunk's first token as if the sequence began at 0; shaders add
// its start.
[[nodiscard]] inline Operand tokensOperand(const Tensor &t, vkattn_role memory, bool writes, bool anywhere, const Chunk &c,
                                           const TokenRange &tokens, size_t basePushByte) {
    if (anywhere)
        return tensorOperand(t, memory, writes, {{0, tokens.headFirst, 0, 0}, {t.extent[0], tokens.heads, t.extent[2], t.extent[3]}},
                             {0, tokens.headFirst, tokens.first, 0}, basePushByte);
    return tensorOperand(t, memory, writes,
                         {{c.batchFirst, tokens.headFirst, tokens.first, 0}, {c.batches, tokens.heads, tokens.count, t.extent[3]}},
                         {c.batchFirst, tokens.headFirst, tokens.first, 0}, basePushByte);
}
[[nodiscard]] constexpr TokenRange rowTokens(const Chunk &c) {
    return {c.headFirst, c.heads, c.queryFirst, c.queries};
}
[[nodiscard]] inline TokenRange keyTokens(const Problem &p, const Chunk &c) {
    const uint32_t first = c.headFirst / p.groupSize(), last = (c.headFirst + c.heads - 1) / p.groupSize();
    return {first, last - first + 1, c.keyFirst, c.keys};
}
[[nodiscard]] inline Operand rowsOperand(const Problem &p, vkattn_role role, const Chunk &c, size_t basePushByte) {
    return tokensOperand(p.tensor(role), p.memoryOf(role), isOutput(role), p.ragged(), c, rowTokens(c), basePushByte);
}
// `role`: VKATTN_K or VKATTN_V, of whose segments the one that holds the chunk's keys is bound.
[[nodiscard]] inline Operand keysOperand(const Problem &p, vkattn_role role, const Chunk &c, size_t basePushByte) {
    TokenRange tokens = keyTokens(p, c);
    if (p.paged()) tokens.first = 0; // of a page
    if (p.segmented()) tokens.first -= p.segments.first[p.segments.of(c.keyFirst)];
    const vkattn_role own = p.roleAt(role, c.keyFirst);
    return tokensOperand(p.tensor(own), p.memoryOf(own), isOutput(own), p.keysLieAnywhere(), c, tokens, basePushByte);
}
// Bias, masks and weights: `first` and `count` of the innermost dimension, keys or words.
[[nodiscard]] inline Operand pairsOperand(const Problem &p, vkattn_role role, const Chunk &c, uint32_t first, uint32_t count,
                                          size_t basePushByte) {
    return tensorOperand(p, role, {{c.batchFirst, c.headFirst, c.queryFirst, first}, {c.batches, c.heads, c.queries, count}},
                         {c.batchFirst, c.headFirst, c.queryFirst, first}, basePushByte);
}

// Elements [first, first + count) of a role without a layout, seen from element `base`.
[[nodiscard]] inline Operand arrayOperand(vkattn_role role, uint64_t first, uint64_t count, uint64_t base, size_t basePushByte) {
    return {role, 4 * first, 4 * (first + count), 4 * base, static_cast<uint32_t>(basePushByte / 4), 4, false};
}
[[nodiscard]] inline Operand headsOperand(vkattn_role role, const Chunk &c, size_t basePushByte) {
    return arrayOperand(role, c.headFirst, c.heads, c.headFirst, basePushByte);
}
// Document ids lie as tokens do.
[[nodiscard]] inline Operand documentsOperand(const Problem &p, vkattn_role role, const Chunk &c, uint32_t extent, uint32_t tokenFirst,
                                              uint32_t tokens, size_t basePushByte) {
    if (p.ragged()) return arrayOperand(role, 0, arrayLength(p, role), tokenFirst, basePushByte);
    const uint64_t first = uint64_t{c.batchFirst} * extent + tokenFirst;
    return arrayOperand(role, first, (c.batches - 1ull) * extent + tokens, first, basePushByte);
}

// What a descriptor shows, from the start of the buffer that holds the role's memory: it begins at
// a multiple of the device's alignment and covers whole words.
struct DescriptorRange {
    uint64_t offset, size;
};
// The role's memory begins `roleBegin` bytes into its buffer. What aligning moves goes into the
// push constant. `alignment`: a power of two and at least 4.
[[nodiscard]] inline DescriptorRange placeOperand(const Operand &operand, uint64_t roleBegin, uint64_t alignment, uint32_t *pushWords) {
    const uint64_t begin = (roleBegin + operand.beginBytes) & ~(alignment - 1), end = (roleBegin + operand.endBytes + 3) & ~3ull;
    if (operand.basePushWord != noPushWord)
        pushWords[operand.basePushWord] = static_cast<uint32_t>((roleBegin + operand.firstByte - begin) / operand.elementSize);
    return {begin, end > begin + 4 ? end - begin : 4};
}
[[nodiscard]] inline uint64_t descriptorAlignment(const Caps &caps) {
    return caps.minStorageBufferOffsetAlignment > 4 ? caps.minStorageBufferOffsetAlignment : 4;
}

[[nodiscard]] inline Operand scoresOperand(const Plan &plan, bool writes) {
    return {VKATTN_WORKSPACE, plan.setUpBytes, plan.workspaceBytes, plan.setUpBytes, noPushWord, 4, writes};
}

// Every binding of every pipeline must be valid; an unused one shows something else of the same
// dispatch and is not accessed.
[[nodiscard]] inline Operand standIn(const Operand &other) {
    Operand operand = other;
    operand.basePushWord = noPushWord;
    operand.writes = false;
    return operand;
}
[[nodiscard]] inline Operand unused(const Plan &plan) {
    return scoresOperand(plan, false);
}

// Key lengths, or the table, seen from the chunk's first entry: a range of the workspace of its own, so
// that validation sees no read of what other dispatches write.
[[nodiscard]] inline Operand lengthsOperand(const Plan &plan, const Chunk &c, size_t basePushByte, const Operand &other) {
    if (plan.tableBytes) {
        const uint64_t bytes = 4ull * sequenceWords, first = 4ull * ruleHeaderWords + bytes * c.batchFirst;
        const bool whole = plan.problem.hasRules();
        return {VKATTN_WORKSPACE,
                whole ? 0 : first,
                whole ? plan.tableBytes : first + bytes * c.batches,
                first,
                static_cast<uint32_t>(basePushByte / 4),
                4,
                false};
    }
    if (!plan.problem.has(VKATTN_KEY_LENGTHS)) return standIn(other);
    return arrayOperand(VKATTN_KEY_LENGTHS, c.batchFirst, c.batches, c.batchFirst, basePushByte);
}

[[nodiscard]] inline uint32_t stride(const Tensor &t, int d) {
    // Of a type of blocks, in the units of elementBytes.
    const auto elements = static_cast<int64_t>(elementsOfBlock(t.dtype)),
               units = static_cast<int64_t>(bytesOfBlock(t.dtype) / elementBytes(t.dtype));
    return static_cast<uint32_t>(d == 3 ? t.stride[d] : t.stride[d] / elements * units);
} // modulo 2^32, as interop.h says

// Returns whether the problem has a table at the workspace's start (plan/table.hpp).
[[nodiscard]] inline bool hasTable(const Problem &p) {
    return p.ragged() || p.hasRules();
}

// What decides which keys a query may see by position: the part that no chunk changes, and all of
// it.
template <class Words> void setReach(Words &words, const Problem &p) {
    words.flags = (p.topLeft || p.hasOffsets() ? flagTopLeft : 0) | (p.has(VKATTN_KEY_LENGTHS) ? flagKeyLengths : 0) |
                  (p.ragged() ? flagRagged : 0) | (hasTable(p) ? flagTable : 0) | (p.hasOffsets() ? flagOffsets : 0);
    words.queryTokens = p.queryTokens;
    words.keyTokens = p.keyTokens;
    words.left = p.left;
    words.right = p.right;
}
template <class Push> void setPosition(Push &push, const Plan &plan, const Chunk &c) {
    setReach(push, plan.problem);
    push.queryFirst = c.queryFirst;
}

template <class Push> void setChunk(Push &push, const Plan &plan, const Chunk &c) {
    push.heads = c.heads;
    push.queries = c.queries;
    push.keyFirst = c.keyFirst;
    push.keys = c.keys;
    push.rowPitch = plan.rowPitch;
}

// What dropout draws with, and the number of the chunk's first head among those of all batch entries.
template <class Words> void setDropout(Words &words, const Problem &p) {
    if (!p.drops()) return;
    words.dropoutSeedLow = static_cast<uint32_t>(p.dropoutSeed);
    words.dropoutSeedHigh = static_cast<uint32_t>(p.dropoutSeed >> 32);
    words.dropoutOffset = p.dropoutOffset;
    words.dropoutLast = static_cast<uint32_t>(p.dropoutThreshold - 1);
    words.dropoutHeads = p.heads;
    words.dropoutFactor = static_cast<float>(dropoutFactor(p.dropoutThreshold));
}
[[nodiscard]] inline uint32_t planeFirst(const Problem &p, const Chunk &c) {
    return c.batchFirst * p.heads + c.headFirst;
}

template <class Push> void setPush(Dispatch &dispatch, const Push &push) {
    static_assert(sizeof(Push) <= sizeof dispatch.pushWords, "Vulkan 1.0 guarantees 128 bytes");
    std::memcpy(dispatch.pushWords, &push, sizeof push);
    dispatch.pushBytes = sizeof push;
}

static_assert(elementF32 == VKATTN_F32 && elementF16 == VKATTN_F16 && elementBf16 == VKATTN_BF16 && elementFp8E4M3 == VKATTN_FP8_E4M3 &&
              elementFp8E5M2 == VKATTN_FP8_E5M2 && elementQ8 == VKATTN_Q8_0 && elementQ4 == VKATTN_Q4_0 && elementInt8 == VKATTN_INT8);
[[nodiscard]] inline uint32_t elementType(const Problem &p, vkattn_role role) {
    return static_cast<uint32_t>(p.tensor(role).dtype);
}

// The specialization constants that mean the same in every shader (interop.h).
struct ConceptConstants {
    uint32_t kvFormat = 0, pairTerms = 0, elementTypes = 0, form = 0;
};
[[nodiscard]] PipelineKey pipelineKey(Module module, uint32_t invocations, const ConceptConstants &concepts,
                                      std::initializer_list<uint32_t> own = {});
[[nodiscard]] uint32_t kvFormat(const Problem &p, uint32_t dimOrder);
// Of a dispatch whose pairs have hooks: the module is that of the problem's program.
[[nodiscard]] inline PipelineKey withProgram(const Problem &p, PipelineKey key) {
    if (p.program.hooks == 0 || !infoOf(key.module).hooks || (key.constants[constantPairTerms] & termsOfHooks) == 0) return key;
    key.program = p.program.program;
    key.programHash = p.program.program->hash;
    return key;
}
// What make() returns, made in place, of a plan for the problem.
template <class Make> [[nodiscard]] Dispatch dispatchWithProgram(const Problem &p, const Make &make) {
    Dispatch d = make();
    d.key = withProgram(p, d.key);
    return d;
}

// The operands of the terms of a pair, in the order of the formula: the term's bit, and where flash
// has the operand. A problem without the operand has no such term.
constexpr uint32_t noSlot = ~0u;
struct PairTermOperand {
    uint32_t term;
    vkattn_role role;
    uint32_t slot;               // noSlot: gathered behind the environment
    size_t base;                 // of FlashPush
    size_t strides, strideBytes; // of Environment: as many of PairStrides as the operand has
};
inline constexpr PairTermOperand pairTermOperands[] = {
    {termBias, VKATTN_BIAS, slotBias, offsetof(FlashPush, biasBase), offsetof(Environment, biasStrides), sizeof(PairStrides)},
    {termAlibi, VKATTN_ALIBI_SLOPES, noSlot, 0, 0, 0},
    {termMask, VKATTN_MASK, slotMask, offsetof(FlashPush, maskBase), offsetof(Environment, maskStrides), sizeof(PairStrides)},
    {termBitMask, VKATTN_BIT_MASK, slotMask, offsetof(FlashPush, maskBase), offsetof(Environment, maskStrides), sizeof(PairStrides)},
    {termDocuments, VKATTN_DOC_IDS_Q, slotIdsQ, offsetof(FlashPush, idsQBase), offsetof(Environment, idsQBatch), sizeof(uint)},
    {termDocuments, VKATTN_DOC_IDS_K, slotIdsK, offsetof(FlashPush, idsKBase), offsetof(Environment, idsKBatch), sizeof(uint)},
};

static_assert(offsetof(FlashPush, idsKBase) == offsetof(GradientPush, idsKBase), "the backward pass has bases where the forward pass has");

// The small arrays over heads that setup/environment.comp gathers behind the environment: where the
// shader has each of them.
struct HeadArray {
    vkattn_role role;
    uint32_t slot;
    size_t base; // in EnvironmentPush
};
inline constexpr HeadArray headArrays[] = {
    {VKATTN_SINKS, slotFirst, offsetof(EnvironmentPush, sinksBase)},
    {VKATTN_ALIBI_SLOPES, slotSecond, offsetof(EnvironmentPush, slopesBase)},
};
[[nodiscard]] inline bool hasHeadArrays(const Problem &p) {
    for (const HeadArray &each : headArrays)
        if (p.has(each.role)) return true;
    return false;
}

// The terms of a problem's pairs, as bits of interop.h.
[[nodiscard]] uint32_t pairTermsOf(const Problem &p);
// What a chunk needs of an operand, by how the operand lies (problem/operand_table.hpp).
[[nodiscard]] Operand chunkOperand(const Problem &p, vkattn_role role, const Chunk &c, size_t basePushByte);
// The strides of an operand of a pair term; those that the operand lacks are 0.
[[nodiscard]] PairStrides pairStrides(const Problem &p, vkattn_role role);

// The rows of a chunk; its keys are still to be chosen.
[[nodiscard]] Chunk rowsOfChunk(const Plan &plan, uint32_t rowChunk);
// How many chunks of at most `keys` keys there are: none has keys of two segments.
[[nodiscard]] uint32_t chunksOfKeys(const Problem &p, uint32_t keys);
// Chooses the keys of the keyChunk-th of them.
void selectKeys(const Plan &plan, uint32_t keyChunk, Chunk &c);

} // namespace vkattn
