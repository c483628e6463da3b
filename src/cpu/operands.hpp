// Role -> pointer bindings of one problem, checked once.
#pragma once

#include "problem/problem.hpp"
#include "util/half.hpp"
#include "vkattn/cpu.h"

#include <cstring>

namespace vkattn {

struct Operands {
    unsigned char *data[VKATTN_ROLE_COUNT] = {};

    [[nodiscard]] uint32_t keyLength(const Problem &p, uint32_t b) const {
        if (!p.has(VKATTN_KEY_LENGTHS)) return p.keyTokens;
        uint32_t length;
        std::memcpy(&length, data[VKATTN_KEY_LENGTHS] + 4ull * b, 4);
        return length < p.keyTokens ? length : p.keyTokens;
    }
};

// Every role the problem uses must be there once, large enough and aligned, and nothing else.
[[nodiscard]] vkattn_result bindOperands(const Problem &problem, const vkattn_operand_memory *operands, uint32_t count, Operands &out,
                                         vkattn_diagnostic *why);

[[nodiscard]] inline float loadElement(const unsigned char *data, vkattn_dtype dtype, uint64_t index) {
    if (dtype == VKATTN_F16) {
        uint16_t half;
        std::memcpy(&half, data + 2 * index, 2);
        return halfToFloat(half);
    }
    float value;
    std::memcpy(&value, data + 4 * index, 4);
    return value;
}

inline void storeElement(unsigned char *data, vkattn_dtype dtype, uint64_t index, float value) {
    if (dtype == VKATTN_F16) {
        const uint16_t half = floatToHalf(value);
        std::memcpy(data + 2 * index, &half, 2);
    } else {
        std::memcpy(data + 4 * index, &value, 4);
    }
}

} // namespace vkattn
