// The table of operands, one row for each role. A new operand is a row here, an enumerator in
// problem.h, and a binding of the kernels that take the operand.
#pragma once

#include "problem/keys/offsets.hpp"
#include "problem/keys/pages.hpp"
#include "vkattn/problem.h"

namespace vkattn {

// The extents of the problem that an operand lies along. They say which part of the operand a chunk
// of the problem needs.
enum class Span : uint32_t {
    rows,          // tensor [batch, heads, queries, dim]
    keys,          // tensor [batch, kvHeads, keys, dim]
    pairs,         // tensor [batch, heads, queries, keys]
    pairBits,      // the same with 32 keys in a word
    wholePairs,    // as pairs, but a chunk needs all keys
    batchArray,    // an element for each batch entry
    headArray,     // an element for each query head
    queryArray,    // an element for each query of each batch entry
    keyArray,      // an element for each key of each batch entry
    sequenceArray, // an element for each sequence and one more, read before the first chunk
    ruleArray,     // of a rule of visibility (problem/rules.hpp), read before the first chunk
};
[[nodiscard]] constexpr bool isArray(Span span) {
    return span >= Span::batchArray;
}
// Over pairs an extent of 1 broadcasts, and the innermost extent may be 0.
[[nodiscard]] constexpr bool overPairs(Span span) {
    return span == Span::pairs || span == Span::pairBits || span == Span::wholePairs;
}
// Returns whether fewer keys make a smaller part of the operand.
[[nodiscard]] constexpr bool followsKeys(Span span) {
    return span == Span::keys || span == Span::pairs || span == Span::pairBits || span == Span::keyArray;
}

struct OperandRule {
    vkattn_role role;
    const char *name; // the name in messages
    Span span;
    bool output;
    uint32_t dtypes;                       // bits 1 << vkattn_dtype; arrays: 0
    vkattn_layout vkattn_problem::*layout; // NULL: the operand is an array
    bool required;
};

constexpr uint32_t floatTypes = 1u << VKATTN_F32 | 1u << VKATTN_F16 | 1u << VKATTN_BF16;
constexpr uint32_t cacheTypes =
    floatTypes | 1u << VKATTN_FP8_E4M3 | 1u << VKATTN_FP8_E5M2 | 1u << VKATTN_Q8_0 | 1u << VKATTN_Q4_0 | 1u << VKATTN_INT8;
inline constexpr OperandRule operandTable[] = {
    {VKATTN_Q, "q", Span::rows, false, floatTypes, &vkattn_problem::q, true},
    {VKATTN_K, "k", Span::keys, false, cacheTypes, &vkattn_problem::k, true},
    {VKATTN_V, "v", Span::keys, false, cacheTypes, &vkattn_problem::v, true},
    {VKATTN_K_1, "k1", Span::keys, false, cacheTypes, &vkattn_problem::k1, false},
    {VKATTN_V_1, "v1", Span::keys, false, cacheTypes, &vkattn_problem::v1, false},
    {VKATTN_K_2, "k2", Span::keys, false, cacheTypes, &vkattn_problem::k2, false},
    {VKATTN_V_2, "v2", Span::keys, false, cacheTypes, &vkattn_problem::v2, false},
    {VKATTN_K_3, "k3", Span::keys, false, cacheTypes, &vkattn_problem::k3, false},
    {VKATTN_V_3, "v3", Span::keys, false, cacheTypes, &vkattn_problem::v3, false},
    {VKATTN_OUT, "out", Span::rows, true, floatTypes, &vkattn_problem::out, true},
    {VKATTN_LSE, "lse", Span::rows, true, 1u << VKATTN_F32, &vkattn_problem::lse, false},
    {VKATTN_PRIOR_OUT, "priorOut", Span::rows, false, floatTypes, &vkattn_problem::priorOut, false},
    {VKATTN_PRIOR_LSE, "priorLse", Span::rows, false, 1u << VKATTN_F32, &vkattn_problem::priorLse, false},
    {VKATTN_WEIGHTS, "weights", Span::wholePairs, true, floatTypes, &vkattn_problem::weights, false},
    {VKATTN_BIAS, "bias", Span::pairs, false, floatTypes, &vkattn_problem::bias, false},
    {VKATTN_MASK, "mask", Span::pairs, false, 1u << VKATTN_BOOL8, &vkattn_problem::mask, false},
    {VKATTN_BIT_MASK, "bit mask", Span::pairBits, false, 1u << VKATTN_BITS32, &vkattn_problem::bitMask, false},
    {VKATTN_SCORES, "scores", Span::pairs, true, floatTypes, &vkattn_problem::scores, false},
    {VKATTN_KEY_LENGTHS, "key lengths", Span::batchArray, false, 0, nullptr, false},
    {VKATTN_CU_SEQ_Q, "cu_seqlens of queries", Span::sequenceArray, false, 0, nullptr, false},
    {VKATTN_CU_SEQ_K, "cu_seqlens of keys", Span::sequenceArray, false, 0, nullptr, false},
    {VKATTN_DOC_IDS_Q, "document ids of queries", Span::queryArray, false, 0, nullptr, false},
    {VKATTN_DOC_IDS_K, "document ids of keys", Span::keyArray, false, 0, nullptr, false},
    {VKATTN_SINKS, "sinks", Span::headArray, false, 0, nullptr, false},
    {VKATTN_ALIBI_SLOPES, "ALiBi slopes", Span::headArray, false, 0, nullptr, false},
    {VKATTN_GLOBAL_TOKENS, "global tokens", Span::ruleArray, false, 0, nullptr, false},
    {VKATTN_PREFIX_LENGTHS, "prefix lengths", Span::ruleArray, false, 0, nullptr, false},
    {VKATTN_DILATIONS, "dilations", Span::ruleArray, false, 0, nullptr, false},
    {VKATTN_PAGE_TABLE, "page table", Span::ruleArray, false, 0, nullptr, false},
    {VKATTN_PAGE_INDPTR, "page indptr", Span::ruleArray, false, 0, nullptr, false},
    {VKATTN_PAGE_INDICES, "page indices", Span::ruleArray, false, 0, nullptr, false},
    {VKATTN_LAST_PAGE_LENGTHS, "last page lengths", Span::ruleArray, false, 0, nullptr, false},
    {VKATTN_QUERY_OFFSETS, "query offsets", Span::ruleArray, false, 0, nullptr, false},
    {VKATTN_KEY_OFFSETS, "key offsets", Span::ruleArray, false, 0, nullptr, false},
    {VKATTN_BLOCK_MASK, "block mask", Span::ruleArray, false, 0, nullptr, false},
    {VKATTN_BLOCK_ROWS, "block rows", Span::ruleArray, false, 0, nullptr, false},
    {VKATTN_BLOCK_COLUMNS, "block columns", Span::ruleArray, false, 0, nullptr, false},
    {VKATTN_BLOCK_COUNTS, "block counts", Span::ruleArray, false, 0, nullptr, false},
    {VKATTN_BLOCK_INDICES, "block indices", Span::ruleArray, false, 0, nullptr, false},
    {VKATTN_FULL_BLOCK_COUNTS, "full block counts", Span::ruleArray, false, 0, nullptr, false},
    {VKATTN_FULL_BLOCK_INDICES, "full block indices", Span::ruleArray, false, 0, nullptr, false},
    {VKATTN_PROGRAM_BUFFER_0, "program buffer 0", Span::ruleArray, false, 0, nullptr, false},
    {VKATTN_PROGRAM_BUFFER_1, "program buffer 1", Span::ruleArray, false, 0, nullptr, false},
    {VKATTN_PROGRAM_BUFFER_2, "program buffer 2", Span::ruleArray, false, 0, nullptr, false},
    {VKATTN_PROGRAM_BUFFER_3, "program buffer 3", Span::ruleArray, false, 0, nullptr, false},
};

// Arrays that make a score depend on how far its query and its key lie apart.
inline constexpr uint32_t arraysOfDistances = VKATTN_PRESENT(VKATTN_ALIBI_SLOPES);

// Tensors have the roles below tensorRoles, of which other operations have some, and those of segments and of what a
// problem goes on from; small arrays have the roles from firstArray to the
// workspace, and arrays of blocks, of programs, of offsets and of pages in CSR those from VKATTN_BLOCK_MASK on, of which presentRoles knows
// nothing.
constexpr uint32_t tensorRoles = 14, firstArray = 32, laterTensors = VKATTN_PRIOR_LSE - VKATTN_K_1 + 1;
[[nodiscard]] constexpr bool isBlockArray(vkattn_role role) {
    return role >= VKATTN_BLOCK_MASK && role <= VKATTN_FULL_BLOCK_INDICES;
}
[[nodiscard]] constexpr bool isProgramBuffer(vkattn_role role) {
    return role >= VKATTN_PROGRAM_BUFFER_0 && role <= VKATTN_PROGRAM_BUFFER_3;
}
[[nodiscard]] constexpr bool isArray(vkattn_role role) {
    return (role >= firstArray && role < VKATTN_WORKSPACE) || isBlockArray(role) || isProgramBuffer(role) || isOffsetArray(role) ||
           isPageArray(role);
}
[[nodiscard]] constexpr bool isLaterTensor(vkattn_role role) {
    return role >= VKATTN_K_1 && role <= VKATTN_PRIOR_LSE;
}
[[nodiscard]] constexpr bool isTensor(vkattn_role role) {
    return static_cast<uint32_t>(role) < tensorRoles || isLaterTensor(role);
}
// Returns where Problem::tensors has the tensor of a role.
[[nodiscard]] constexpr uint32_t placeOfTensor(vkattn_role role) {
    return isLaterTensor(role) ? tensorRoles + (role - VKATTN_K_1) : static_cast<uint32_t>(role);
}

// Every tensor of the table has a place in Problem::tensors, every array a bit of
// vkattn_problem::presentRoles.
[[nodiscard]] constexpr bool rolesAreInPlace() {
    for (const OperandRule &rule : operandTable)
        if (isArray(rule.span) ? !isArray(rule.role) || rule.layout || rule.dtypes : !isTensor(rule.role) || !rule.layout || !rule.dtypes)
            return false;
    return true;
}
static_assert(rolesAreInPlace());

// Returns the bits of vkattn_problem::presentRoles that stand for an array.
[[nodiscard]] constexpr uint32_t arrayBits() {
    uint32_t bits = 0;
    for (const OperandRule &rule : operandTable)
        if (isArray(rule.span) && rule.role < VKATTN_WORKSPACE) bits |= VKATTN_PRESENT(rule.role);
    return bits;
}

} // namespace vkattn
