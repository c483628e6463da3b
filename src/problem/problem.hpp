// The validated, canonical form of vkattn_problem. Planner, shaders and CPU work from this form.
#pragma once

#include "problem/operand_table.hpp"
#include "vkattn/problem.h"

#include <cstdint>

namespace vkattn {

// The limit lets every key position of a window fit 32-bit signed arithmetic.
constexpr uint32_t maxTokens = 1u << 30;
constexpr uint32_t maxDim = 2048;
// Each kernel has a bit in half a word. core/kernels/table.cpp lists the kernels.
constexpr uint32_t mostKernels = 16;
// A window side this wide hides nothing, whatever the token counts.
constexpr int32_t openWindow = 1 << 30;

[[nodiscard]] constexpr uint32_t elementBytes(vkattn_dtype dtype) {
    return dtype == VKATTN_F32 || dtype == VKATTN_BITS32 ? 4 : dtype == VKATTN_BOOL8 ? 1 : 2;
}

// A half-open range of bytes, relative to the start of the memory that is bound to a role.
struct ByteRange {
    uint64_t begin = 0, end = 0;
    [[nodiscard]] constexpr uint64_t size() const { return end - begin; }
};

// A box of elements of a tensor: [first, first + count) in each dimension.
struct Box {
    uint32_t first[4], count[4];
};

struct Tensor {
    vkattn_dtype dtype = VKATTN_F32;
    uint32_t extent[4] = {};
    int64_t stride[4] = {}; // elements; 0 where the extent is 1
    uint64_t offset = 0;    // elements

    [[nodiscard]] constexpr bool present() const { return extent[0] != 0; }
    [[nodiscard]] constexpr bool unitDims() const { return extent[3] <= 1 || stride[3] == 1; }
    [[nodiscard]] constexpr bool empty() const { return !extent[0] || !extent[1] || !extent[2] || !extent[3]; }
    [[nodiscard]] constexpr uint64_t index(uint64_t b, uint64_t h, uint64_t t, uint64_t d) const {
        // Unsigned arithmetic wraps and comes out right for negative strides: validation keeps
        // every element inside.
        return offset + b * static_cast<uint64_t>(stride[0]) + h * static_cast<uint64_t>(stride[1]) + t * static_cast<uint64_t>(stride[2]) +
               d * static_cast<uint64_t>(stride[3]);
    }
    // Returns the bytes that the elements of the box occupy. A box that reaches over an extent of 1
    // (broadcast) stays at the only element.
    [[nodiscard]] ByteRange span(const Box &box) const;
    [[nodiscard]] ByteRange span() const; // the bytes of all elements
};

struct Problem {
    // In ragged batches `batch` is the number of sequences, queryTokens and keyTokens are the most
    // that one sequence may have, and the tensors hold the totals.
    uint32_t batch = 0, heads = 0, kvHeads = 0, queryTokens = 0, keyTokens = 0, headDim = 0, valueDim = 0;
    float scale = 0, softcap = 0;
    // Causal and window in one rule: key j is within reach of query i when i' - left <= j <= i' +
    // right.
    int32_t left = openWindow, right = openWindow;
    bool topLeft = false;
    bool deterministic = false;
    uint32_t flags = 0;        // vkattn_flag_bits as the caller gave them
    uint32_t presentRoles = 0; // VKATTN_PRESENT(role) of the arrays
    vkattn_kernel kernel = VKATTN_KERNEL_AUTO;
    uint32_t slices = 1;         // at least 1
    Tensor tensors[tensorRoles]; // by role

    [[nodiscard]] constexpr const Tensor &tensor(vkattn_role role) const { return tensors[role]; }
    // Returns whether an array is present.
    [[nodiscard]] constexpr bool has(vkattn_role role) const { return presentRoles & VKATTN_PRESENT(role); }
    [[nodiscard]] constexpr bool ragged() const { return has(VKATTN_CU_SEQ_Q); }
    // Query heads per key/value head.
    [[nodiscard]] constexpr uint32_t groupSize() const { return heads / kvHeads; }
    // Returns whether the problem uses a role other than WORKSPACE.
    [[nodiscard]] bool uses(vkattn_role role) const;
    // Returns the bytes from the first to the last element, in the binding.
    [[nodiscard]] ByteRange bytesUsed(vkattn_role role) const;
    // Returns the bytes from the start of the binding to the end of the last element.
    [[nodiscard]] uint64_t bytesNeeded(vkattn_role role) const;
    [[nodiscard]] double flops() const; // 2 per multiply-add of both products, with hidden pairs
};

// Returns the elements of a role without a layout: 32-bit words, tightly packed.
[[nodiscard]] uint64_t arrayLength(const Problem &p, vkattn_role role);

// Returns NULL for the workspace and for a value that is no role.
[[nodiscard]] const OperandRule *findRule(vkattn_role role);
[[nodiscard]] const char *roleName(vkattn_role role);
[[nodiscard]] constexpr bool isOutput(vkattn_role role) {
    return role == VKATTN_OUT || role == VKATTN_LSE || role == VKATTN_WEIGHTS;
}

[[nodiscard]] vkattn_result makeProblem(const vkattn_problem *description, Problem &out, vkattn_diagnostic *why);

} // namespace vkattn
