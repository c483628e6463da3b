// Role -> pointer bindings of one problem or operation, checked once.
#pragma once

#include "problem/gradient.hpp"
#include "problem/operations/operation.hpp"
#include "problem/problem.hpp"
#include "problem/statistics.hpp"
#include "problem/visible_blocks.hpp"
#include "util/half.hpp"
#include "util/small_types.hpp"
#include "vkattn/cpu.h"

#include <bit>
#include <cstring>
#include <limits>

namespace vkattn {

struct LinearAttention;
struct LinearGradient;

struct Operands {
    unsigned char *data[VKATTN_ROLE_LIMIT] = {};

    // Returns entry n of a role without a layout.
    [[nodiscard]] uint32_t word(vkattn_role role, uint64_t n) const {
        uint32_t value;
        std::memcpy(&value, data[role] + 4 * n, 4);
        return value;
    }
    [[nodiscard]] float number(vkattn_role role, uint64_t n) const { return std::bit_cast<float>(word(role, n)); }
    // Returns the score of a head's sink, -infinity without sinks.
    [[nodiscard]] float sink(const Problem &p, uint32_t head) const {
        return p.has(VKATTN_SINKS) ? number(VKATTN_SINKS, head) : -std::numeric_limits<float>::infinity();
    }
};

// An operand that a call takes, and what its memory must be.
struct NeededOperand {
    vkattn_role role;
    const char *name; // the name in messages
    uint64_t bytes;
    uint32_t alignment;
};
struct NeededOperands {
    static constexpr uint32_t most = 48;
    const char *user; // what uses the operands, in messages
    NeededOperand list[most];
    uint32_t count = 0;

    [[nodiscard]] const NeededOperand *begin() const { return list; }
    [[nodiscard]] const NeededOperand *end() const { return list + count; }
};
[[nodiscard]] NeededOperands neededOperands(const Problem &problem);
[[nodiscard]] NeededOperands neededOperands(const Operation &operation);
[[nodiscard]] NeededOperands neededOperands(const Gradient &gradient);
[[nodiscard]] NeededOperands neededOperands(const Statistics &statistics);
[[nodiscard]] NeededOperands neededOperands(const VisibleBlocks &blocks);
[[nodiscard]] NeededOperands neededOperands(const LinearAttention &linear);
[[nodiscard]] NeededOperands neededOperands(const LinearGradient &gradient);

// Checks that every needed operand is there once, large enough and aligned, and that no other role
// is there.
[[nodiscard]] vkattn_result bindOperands(const NeededOperands &needed, const vkattn_operand_memory *operands, uint32_t count, Operands &out,
                                         vkattn_diagnostic *why);
template <class User>
[[nodiscard]] vkattn_result bindOperands(const User &user, const vkattn_operand_memory *operands, uint32_t count, Operands &out,
                                         vkattn_diagnostic *why) {
    return bindOperands(neededOperands(user), operands, count, out, why);
}

[[nodiscard]] inline float loadElement(const unsigned char *data, vkattn_dtype dtype, uint64_t index) {
    if (isSmallType(dtype)) {
        const auto inBlock = static_cast<uint32_t>(index % blockElements);
        if (dtype == VKATTN_Q8_0) return q8Element(data + index / blockElements * q8BlockBytes, inBlock);
        if (dtype == VKATTN_Q4_0) return q4Element(data + index / blockElements * q4BlockBytes, inBlock);
        return dtype == VKATTN_FP8_E4M3 ? e4m3ToFloat(data[index]) : e5m2ToFloat(data[index]);
    }
    if (dtype == VKATTN_F16) {
        uint16_t half;
        std::memcpy(&half, data + 2 * index, 2);
        return halfToFloat(half);
    }
    if (dtype == VKATTN_BF16) {
        uint16_t bits16;
        std::memcpy(&bits16, data + 2 * index, 2);
        return bfloat16ToFloat(bits16);
    }
    float value;
    std::memcpy(&value, data + 4 * index, 4);
    return value;
}

// Of any type that K and V may have.
[[nodiscard]] inline float loadElement(const Tensor &t, const unsigned char *data, uint64_t b, uint64_t h, uint64_t token, uint32_t d) {
    if (t.dtype == VKATTN_INT8) return int8Element(data + t.index(b, h, token, 0), d);
    return loadElement(data, t.dtype, t.index(b, h, token, d));
}

// Stores `count` neighbours of a small type: whole blocks, or a row.
inline void storeSmallRow(vkattn_dtype dtype, const float *from, uint64_t count, unsigned char *to) {
    if (dtype == VKATTN_INT8) return storeInt8Row(from, static_cast<uint32_t>(count), to);
    if (!isBlockType(dtype)) {
        for (uint64_t n = 0; n < count; ++n) to[n] = dtype == VKATTN_FP8_E4M3 ? floatToE4m3(from[n]) : floatToE5m2(from[n]);
        return;
    }
    const auto store = dtype == VKATTN_Q8_0 ? storeQ8Block : storeQ4Block;
    for (uint64_t at = 0; at < count; at += blockElements, to += bytesOfBlock(dtype))
        store(from + at, static_cast<uint32_t>(std::min<uint64_t>(count - at, blockElements)), to);
}

inline void storeElement(unsigned char *data, vkattn_dtype dtype, uint64_t index, float value) {
    if (dtype == VKATTN_F16) {
        const uint16_t half = floatToHalf(value);
        std::memcpy(data + 2 * index, &half, 2);
    } else if (dtype == VKATTN_BF16) {
        const uint16_t bits16 = floatToBfloat16(value);
        std::memcpy(data + 2 * index, &bits16, 2);
    } else if (isSmallType(dtype)) { // 8-bit floats: others have scales
        data[index] = dtype == VKATTN_FP8_E4M3 ? floatToE4m3(value) : floatToE5m2(value);
    } else {
        std::memcpy(data + 4 * index, &value, 4);
    }
}

} // namespace vkattn
