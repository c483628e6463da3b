// A tensor in the canonical form that planner, shaders and CPU work from, and the rules that every
// layout obeys, whatever the operation.
#pragma once

#include "vkattn/problem.h"
#include "vkattn/traits.hpp"

#include <cstdint>

namespace vkattn {

// The limit lets every key position of a window fit 32-bit signed arithmetic.
constexpr uint32_t maxTokens = 1u << 30;

// Returns the bytes of a row before its first element.
[[nodiscard]] constexpr uint32_t bytesBeforeRow(vkattn_dtype dtype) {
    return dtype == VKATTN_INT8 ? 4 : 0;
}
// Returns the bytes of an element; of a type of blocks those of the unit in which shaders count, which divides a block.
[[nodiscard]] constexpr uint32_t elementBytes(vkattn_dtype dtype) {
    if (dtype == VKATTN_F32 || dtype == VKATTN_BITS32) return 4;
    return dtype == VKATTN_F16 || dtype == VKATTN_BF16 || isBlockType(dtype) ? 2 : 1;
}
// Returns the bytes before element `index`, which begins a block.
[[nodiscard]] constexpr uint64_t bytesBefore(vkattn_dtype dtype, uint64_t index) {
    return index / elementsOfBlock(dtype) * bytesOfBlock(dtype);
}

[[nodiscard]] constexpr const char *nameOfSmallType(vkattn_dtype dtype) {
    return dtype == VKATTN_FP8_E4M3   ? "VKATTN_FP8_E4M3"
           : dtype == VKATTN_FP8_E5M2 ? "VKATTN_FP8_E5M2"
           : dtype == VKATTN_Q8_0     ? "VKATTN_Q8_0"
           : dtype == VKATTN_Q4_0     ? "VKATTN_Q4_0"
                                      : "VKATTN_INT8";
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

// Says which operand a layout belongs to, in checks and messages.
struct TensorRule {
    const char *name;
    bool output;
    uint32_t dtypes; // bits 1 << vkattn_dtype
};

// Returns whether all fields of a layout are zero. This question is asked eleven times of every
// problem: no calls, one branch.
[[nodiscard]] inline bool absent(const vkattn_layout &layout) {
    const uint32_t *e = layout.extent;
    const int64_t *s = layout.strideElems;
    const auto words = static_cast<uint64_t>(s[0] | s[1] | s[2] | s[3]) | layout.offsetElems;
    return (static_cast<uint32_t>(layout.dtype) | e[0] | e[1] | e[2] | e[3] | words) == 0;
}

// Copies a layout and checks the rules that do not depend on other tensors: dtype, address range, no
// overlap of an output with itself.
[[nodiscard]] vkattn_result makeTensor(const vkattn_layout &layout, const TensorRule &rule, Tensor &out, vkattn_diagnostic *why);
// `broadcast`: bit d allows an extent of 1 in dimension d.
[[nodiscard]] vkattn_result expectExtents(const Tensor &tensor, const char *name, const uint32_t (&expected)[4], uint32_t broadcast,
                                          vkattn_diagnostic *why);
// Computes a * b of sizes. Returns false past what leaves 64-bit arithmetic room for bytes.
[[nodiscard]] bool multiplySizes(uint64_t a, uint64_t b, uint64_t &product);

} // namespace vkattn
