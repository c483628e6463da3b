// The validated, canonical form of vkattn_problem. Planner, shaders and CPU work from this form.
#pragma once

#include "problem/keys/pages.hpp"
#include "problem/keys/segments.hpp"
#include "problem/operand_table.hpp"
#include "problem/program.hpp"
#include "problem/rules.hpp"
#include "problem/tensor.hpp"
#include "vkattn/problem.h"

#include <cstdint>

namespace vkattn {

constexpr uint32_t maxDim = 2048;
// Each kernel has a bit in half a word. core/kernels/table.cpp lists the kernels.
constexpr uint32_t mostKernels = 16;

struct Problem {
    // In ragged batches `batch` is the number of sequences, queryTokens and keyTokens are the most
    // that one sequence may have, and the tensors hold the totals.
    uint32_t batch = 0, heads = 0, kvHeads = 0, queryTokens = 0, keyTokens = 0, headDim = 0, valueDim = 0;
    float scale = 0, softcap = 0;
    // Causal and window in one rule: key j is within reach of query i when i' - left <= j <= i' +
    // right. With prefix lengths `right` is that of the window alone.
    int32_t left = openWindow, right = openWindow;
    Rules rules;
    ProgramUse program;
    bool topLeft = false; // counts where there are no offsets
    vkattn_offset queryOffset{}, keyOffset{};
    // K and V are pools of pages, [pages, kvHeads, pageTokens, dim]; 0: batch entries lie one after the other.
    uint32_t pageTokens = 0, tablePages = 0;
    uint32_t pageIndices = 0; // in CSR
    // Whether keys of a page may be hidden because it is absent: with pages, until someone has looked.
    bool pagesMayBeAbsent = false;
    Segments segments;
    // Behind the last key of a mask or a bias that has fewer than k: hidden, and not among keyTokens.
    uint32_t unmaskedKeys = 0;
    bool deterministic = false;
    // V is the first dims of K: tensor(VKATTN_V) says where they lie in K's memory.
    bool valuesInKeys = false;
    bool rowStatistics = false;  // lse holds maximum and sum
    bool weightsDropped = false; // the weights are those after dropout
    vkattn_score_stage scoresStage = VKATTN_SCORES_RAW;
    uint64_t dropoutThreshold = 0; // problem/dropout.hpp; 0: no dropout, and the two below are 0
    uint64_t dropoutSeed = 0;
    uint32_t dropoutOffset = 0;
    uint32_t flags = 0;        // vkattn_flag_bits as the caller gave them
    uint32_t presentRoles = 0; // VKATTN_PRESENT(role) of the arrays
    vkattn_kernel kernel = VKATTN_KERNEL_AUTO;
    uint32_t slices = 1;                        // at least 1
    Tensor tensors[tensorRoles + laterTensors]; // by placeOfTensor

    [[nodiscard]] constexpr const Tensor &tensor(vkattn_role role) const { return tensors[placeOfTensor(role)]; }
    // Returns whether something of the size of queries x keys is written.
    [[nodiscard]] constexpr bool writesPairs() const { return tensor(VKATTN_WEIGHTS).present() || tensor(VKATTN_SCORES).present(); }
    // Returns whether an array is present.
    [[nodiscard]] constexpr bool has(vkattn_role role) const {
        if (isProgramBuffer(role)) return program.bufferWords[role - VKATTN_PROGRAM_BUFFER_0] != 0;
        if (isPageArray(role)) return pageIndices != 0;
        if (isOffsetArray(role)) return (role == VKATTN_QUERY_OFFSETS ? queryOffset : keyOffset).kind == VKATTN_OFFSET_ARRAY;
        return isBlockArray(role) ? rules.hasBlockArray(role) : (presentRoles & VKATTN_PRESENT(role)) != 0;
    }
    [[nodiscard]] constexpr bool hasOffsets() const {
        return queryOffset.kind != VKATTN_OFFSET_NONE || keyOffset.kind != VKATTN_OFFSET_NONE;
    }
    // Returns whether only the device, or the CPU when it computes, knows where queries stand.
    [[nodiscard]] constexpr bool hasUnknownOffsets() const { return has(VKATTN_QUERY_OFFSETS) || has(VKATTN_KEY_OFFSETS); }
    [[nodiscard]] constexpr bool ragged() const { return has(VKATTN_CU_SEQ_Q); }
    [[nodiscard]] constexpr bool paged() const { return pageTokens != 0; }
    [[nodiscard]] constexpr bool segmented() const { return segments.count > 1; }
    // Returns the role of the segment of `role`, VKATTN_K or VKATTN_V, that holds a key.
    [[nodiscard]] constexpr vkattn_role roleAt(vkattn_role role, uint32_t key) const {
        return segmented() ? roleOfSegment(role, segments.of(key)) : role;
    }
    // Returns whether a problem goes on from attention over other keys.
    [[nodiscard]] constexpr bool goesOn() const { return tensor(VKATTN_PRIOR_LSE).present(); }
    // Returns whether only the device knows where the keys of a batch entry lie in K and V.
    [[nodiscard]] constexpr bool keysLieAnywhere() const { return ragged() || paged(); }
    // Returns whether the keys of a batch entry do not all follow each other in memory.
    [[nodiscard]] constexpr bool keysLieInPieces() const { return paged() || segmented(); }
    // Returns the pages of the pool.
    [[nodiscard]] constexpr uint32_t poolPages() const { return tensor(VKATTN_K).extent[0]; }
    // Returns the extent of the tokens of arrays over keys.
    [[nodiscard]] constexpr uint32_t keyExtent() const { return ragged() ? tensor(VKATTN_K).extent[2] : keyTokens; }
    // Returns whether every query of a sequence has the same keys within its reach.
    [[nodiscard]] constexpr bool sameReach() const {
        return left == openWindow && right == openWindow && !has(VKATTN_PREFIX_LENGTHS) && rules.grid.rule == VKATTN_GRID_NONE;
    }
    // Returns whether a pair has a rule beside causal, window and what memory holds for each pair, whose data lies in
    // the table at the workspace's start.
    [[nodiscard]] constexpr bool hasRules() const {
        return rules.showRuns() || has(VKATTN_PREFIX_LENGTHS) || hasOffsets() || paged() || program.hooks != 0;
    }
    [[nodiscard]] constexpr bool drops() const { return dropoutThreshold != 0; }
    // Query heads per key/value head.
    [[nodiscard]] constexpr uint32_t groupSize() const { return heads / kvHeads; }
    // Returns the role whose memory holds a tensor.
    [[nodiscard]] constexpr vkattn_role memoryOf(vkattn_role role) const { return valuesInKeys && role == VKATTN_V ? VKATTN_K : role; }
    // Returns whether memory of its own is bound to a role other than WORKSPACE.
    [[nodiscard]] bool uses(vkattn_role role) const;
    // Returns the bytes from the first to the last element, in the binding.
    [[nodiscard]] ByteRange bytesUsed(vkattn_role role) const;
    // Returns the bytes from the start of the binding to the end of the last element.
    [[nodiscard]] uint64_t bytesNeeded(vkattn_role role) const;
    [[nodiscard]] double flops() const; // 2 per multiply-add of both products, with hidden pairs
};

// Returns the elements of a role without a layout: 32-bit words, tightly packed; of a block mask bytes.
[[nodiscard]] uint64_t arrayLength(const Problem &p, vkattn_role role);
[[nodiscard]] constexpr uint32_t arrayElementBytes(vkattn_role role) {
    return role == VKATTN_BLOCK_MASK ? 1 : 4;
}

// Returns NULL for the workspace and for a value that is no role.
[[nodiscard]] const OperandRule *findRule(vkattn_role role);
[[nodiscard]] const char *roleName(vkattn_role role);
[[nodiscard]] constexpr bool isOutput(vkattn_role role) {
    return role == VKATTN_OUT || role == VKATTN_LSE || role == VKATTN_WEIGHTS || role == VKATTN_SCORES;
}

[[nodiscard]] vkattn_result makeProblem(const vkattn_problem *description, Problem &out, vkattn_diagnostic *why);

} // namespace vkattn
