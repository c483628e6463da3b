// The validated, canonical form of the operations of vkattn/operations.h other than attention.
// Planner, shaders and CPU work from this form.
#pragma once

#include "problem/tensor.hpp"
#include "vkattn/operations.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace vkattn {

inline constexpr uint32_t mostHadamardBlock = 1024; // dims

// One operand of one kind of operation. A new operand is a row of operationTable, an enumerator in
// problem.h, and a binding of the shader that reads the operand.
struct OperationOperand {
    vkattn_operation_kind kind;
    vkattn_role role;
    const char *name; // the name in messages
    bool output, required;
    uint32_t dtypes;     // bits 1 << vkattn_dtype; arrays: 0
    size_t layoutOffset; // of the vkattn_layout in the description; arrays: 0
};

[[nodiscard]] std::span<const OperationOperand> operandsOf(vkattn_operation_kind kind);
// Returns NULL where the kind has no such operand.
[[nodiscard]] const OperationOperand *findOperand(vkattn_operation_kind kind, vkattn_role role);

// Returns NULL for a role that no operation but attention has.
[[nodiscard]] const char *nameOfOperationRole(vkattn_role role);

struct Operation {
    vkattn_operation_kind kind{};
    uint32_t flags = 0, presentRoles = 0, start = 0;
    vkattn_norm_kind norm{};
    vkattn_rotary_pairs pairs{};
    vkattn_projection_kernel projection{}; // the one that was asked for
    float epsilon = 0;
    uint32_t by = 0, limit = 0; // advance
    // Extents of X, and of Y where a merge has several parts in X: batch entries, groups (or heads), rows (or tokens) and inner dims (in,
    // or dims). The groups of a mean are those of Y, one. Words are rows of one element, so that they are cut and shared out as rows are.
    uint32_t batch = 0, groups = 0, rows = 0, inner = 0;
    // Projection: out. Otherwise: inner.
    uint32_t out = 0;
    uint32_t cacheRows = 0; // the tokens that a batch entry has room for, where tokens are appended; otherwise rows
    // Append into pages: those of the pool, the tokens of one, and those of a batch entry in the table; otherwise 0.
    uint32_t poolPages = 0, pageTokens = 0, tablePages = 0;
    uint32_t rotated = 0;  // rotary: the dims that are rotated
    uint32_t averaged = 0; // mean: the groups of X
    uint32_t parts = 1;    // merge: entries of X for each batch entry
    uint32_t block = 0;    // hadamard
    // Keep, whose rows are words of Y, and drop. See problem/dropout.hpp.
    uint64_t dropoutThreshold = 0, seed = 0;
    uint32_t dropoutOffset = 0, columns = 0;
    uint32_t firstRow = 0, firstPlane = 0; // drop: where X lies in the tensor that it is a part of

    // From VKATTN_X on, by role; behind them the bias, the gradients from VKATTN_D_X on, and what a merge has.
    static constexpr uint32_t ofForward = 10, ofMerge = ofForward + 4, tensorCount = ofMerge + 2;
    Tensor tensors[tensorCount];

    // Returns tensorCount where a role has no tensor in any operation.
    [[nodiscard]] static constexpr uint32_t indexOf(vkattn_role role) {
        return role == VKATTN_BIAS                        ? ofForward - 1
               : role >= VKATTN_X && role < VKATTN_X + 9  ? static_cast<uint32_t>(role) - VKATTN_X
               : role >= VKATTN_D_X && role <= VKATTN_D_Y ? ofForward + static_cast<uint32_t>(role) - VKATTN_D_X
               : role == VKATTN_X_LSE                     ? ofMerge
               : role == VKATTN_LSE                       ? ofMerge + 1
                                                          : tensorCount;
    }
    [[nodiscard]] const Tensor &tensor(vkattn_role role) const { return tensors[indexOf(role)]; }
    // Returns whether an array is present.
    [[nodiscard]] bool has(vkattn_role role) const { return presentRoles & VKATTN_PRESENT(role); }
    [[nodiscard]] bool appends() const { return kind == VKATTN_APPEND || (kind == VKATTN_ROTARY && flags & VKATTN_ROTARY_APPEND); }
    [[nodiscard]] bool ring() const { return kind == VKATTN_APPEND && flags & VKATTN_APPEND_RING; }
    // Returns the plane of random numbers of a batch entry and group.
    [[nodiscard]] uint32_t plane(uint32_t b, uint32_t g) const { return firstPlane + b * groups + g; }
    [[nodiscard]] bool uses(vkattn_role role) const;
    // Returns whether a gradient sums up all rows of X.
    [[nodiscard]] bool sumsOverRows() const { return tensor(VKATTN_D_GAMMA).present() || tensor(VKATTN_D_BETA).present(); }
    // Returns the 32-bit words of an array, tightly packed.
    [[nodiscard]] uint64_t arrayLength(vkattn_role role) const;
    // Returns the bytes from the first to the last element, in the binding.
    [[nodiscard]] ByteRange bytesUsed(vkattn_role role) const;
    // Returns whether an output may be the very memory of an input, with the same layout.
    [[nodiscard]] bool inPlace(vkattn_role output, vkattn_role input) const;
    [[nodiscard]] double flops() const;
};

// The description must not be attention.
[[nodiscard]] vkattn_result makeOperation(const vkattn_operation *description, Operation &out, vkattn_diagnostic *why);

} // namespace vkattn
