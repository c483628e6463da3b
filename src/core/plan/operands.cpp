#include "core/plan/operands.hpp"

#include <algorithm>

namespace vkattn {

PipelineKey pipelineKey(Module module, uint32_t invocations, const ConceptConstants &concepts, std::initializer_list<uint32_t> own) {
    PipelineKey key;
    key.module = module;
    key.constants[0] = invocations;
    key.constants[constantKvFormat] = concepts.kvFormat;
    key.constants[constantPairTerms] = concepts.pairTerms;
    key.constants[constantElementTypes] = concepts.elementTypes;
    key.constants[constantForm] = concepts.form;
    key.constantCount = firstOwnConstant;
    for (const uint32_t value : own) key.constants[key.constantCount++] = value;
    return key;
}

uint32_t kvFormat(const Problem &p, uint32_t dimOrder) {
    return elementType(p, VKATTN_K) | elementType(p, VKATTN_V) << formatVType | dimOrder << formatDimOrder;
}

uint32_t pairTermsOf(const Problem &p) {
    uint32_t terms = p.softcap > 0 ? termSoftcap : 0;
    if (p.drops()) terms |= termDropout;
    const Rules &rules = p.rules;
    if (rules.local()) terms |= termLocal | (rules.dilation > 1 ? termDilated : 0);
    if (rules.grid.rule != VKATTN_GRID_NONE) terms |= termGrid | (rules.grid.extent[0] > 1 ? termPlanes : 0);
    if (rules.blocks.kind != VKATTN_BLOCKS_NONE) terms |= termBlocks;
    if (p.has(VKATTN_PREFIX_LENGTHS)) terms |= termPrefix;
    if (p.paged()) terms |= termPages;
    if (p.program.scores()) terms |= termScoreHook;
    if (p.program.hides()) terms |= termVisibleHook;
    if (p.program.weighs()) terms |= termProbabilityHook;
    if (p.program.sumless()) terms |= termRowHook;
    for (const PairTermOperand &each : pairTermOperands)
        if (p.uses(each.role)) terms |= each.term;
    return terms;
}

Operand chunkOperand(const Problem &p, vkattn_role role, const Chunk &c, size_t basePushByte) {
    switch (findRule(role)->span) {
    case Span::rows:
        return rowsOperand(p, role, c, basePushByte);
    case Span::keys:
        return keysOperand(p, role, c, basePushByte);
    case Span::pairs:
        return pairsOperand(p, role, c, c.keyFirst, c.keys, basePushByte);
    case Span::pairBits: { // the words that the chunk's keys lie in
        const uint32_t first = c.keyFirst / 32;
        return pairsOperand(p, role, c, first, divideUp(c.keyFirst + c.keys, 32) - first, basePushByte);
    }
    case Span::wholePairs:
        return pairsOperand(p, role, c, 0, p.keyTokens, basePushByte);
    case Span::batchArray:
        return arrayOperand(role, c.batchFirst, c.batches, c.batchFirst, basePushByte);
    case Span::headArray:
        return headsOperand(role, c, basePushByte);
    case Span::queryArray:
        return documentsOperand(p, role, c, p.queryTokens, c.queryFirst, c.queries, basePushByte);
    case Span::keyArray:
        return documentsOperand(p, role, c, p.keyTokens, c.keyFirst, c.keys, basePushByte);
    case Span::sequenceArray:
    case Span::ruleArray:
        break;
    }
    return arrayOperand(role, 0, arrayLength(p, role), 0, basePushByte);
}

PairStrides pairStrides(const Problem &p, vkattn_role role) {
    switch (findRule(role)->span) {
    case Span::headArray:
        return {};
    case Span::queryArray:
        return {p.ragged() ? 0 : p.queryTokens, 0, 0, 0};
    case Span::keyArray:
        return {p.ragged() ? 0 : p.keyTokens, 0, 0, 0};
    default:
        break;
    }
    const Tensor &t = p.tensor(role);
    return {stride(t, 0), stride(t, 1), stride(t, 2), stride(t, 3)};
}

Chunk rowsOfChunk(const Plan &plan, uint32_t rowChunk) {
    const Problem &p = plan.problem;
    Chunk c{};
    c.queryFirst = rowChunk % plan.queryChunks * plan.chunkQueries;
    c.headFirst = rowChunk / plan.queryChunks % plan.headChunks * plan.chunkHeads;
    c.batchFirst = rowChunk / plan.queryChunks / plan.headChunks * plan.chunkBatches;
    c.queries = std::min(plan.chunkQueries, p.queryTokens - c.queryFirst);
    c.heads = std::min(plan.chunkHeads, p.heads - c.headFirst);
    c.batches = std::min(plan.chunkBatches, p.batch - c.batchFirst);
    return c;
}

uint32_t chunksOfKeys(const Problem &p, uint32_t keys) {
    if (!p.segmented()) return divideUp(std::max(p.keyTokens, 1u), keys);
    uint32_t count = 0;
    for (uint32_t n = 0; n < p.segments.count; ++n) count += divideUp(p.segments.keys(n), keys);
    return count;
}

void selectKeys(const Plan &plan, uint32_t keyChunk, Chunk &c) {
    const Problem &p = plan.problem;
    uint32_t first = 0, end = p.keyTokens, n = keyChunk;
    for (uint32_t segment = 0; p.segmented(); ++segment) {
        const uint32_t chunks = divideUp(p.segments.keys(segment), plan.chunkKeys);
        first = p.segments.first[segment], end = p.segments.first[segment + 1];
        if (n < chunks) break;
        n -= chunks;
    }
    c.keyFirst = first + n * plan.chunkKeys;
    c.keys = std::min(plan.chunkKeys, end - c.keyFirst);
}

} // namespace vkattn
