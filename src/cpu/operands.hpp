// Role -> pointer bindings of one problem or operation, checked once.
#pragma once

#include "problem/gradient.hpp"
#include "problem/operations/operation.hpp"
#include "problem/problem.hpp"
#include "problem/statistics.hpp"
#include "problem/visible_blocks.hpp"
#include "util/half.hpp"
#include "vkattn/cpu.h"

#include <bit>
#include <cstring>

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

inline void storeElement(unsigned char *data, vkattn_dtype dtype, uint64_t index, float value) {
    if (dtype == VKATTN_F16) {
        const uint16_t half = floatToHalf(value);
        std::memcpy(data + 2 * index, &half, 2);
    } else if (dtype == VKATTN_BF16) {
        const uint16_t bits16 = floatToBfloat16(value);
        std::memcpy(data + 2 * index, &bits16, 2);
    } else {
        std::memcpy(data + 4 * index, &value, 4);
    }
}

} // namespace vkattn
