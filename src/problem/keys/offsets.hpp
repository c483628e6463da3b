// Where queries and keys stand in a longer sequence (vkattn_offset): the canonical rule of i' - i.
#pragma once

#include "vkattn/problem.h"

#include <algorithm>
#include <cstdint>

namespace vkattn {

struct Problem;

// Sums of positions, windows and offsets stay within 32 bits, as shaders compute them.
constexpr int32_t maxOffset = VKATTN_MAX_OFFSET;

[[nodiscard]] constexpr bool isOffsetArray(vkattn_role role) {
    return role == VKATTN_QUERY_OFFSETS || role == VKATTN_KEY_OFFSETS;
}

// i' - i of a batch entry, whose numbers in the two arrays are given; 0 where there is no array.
[[nodiscard]] constexpr int64_t shiftOf(const vkattn_offset &query, const vkattn_offset &key, int32_t queryOfEntry, int32_t keyOfEntry) {
    const auto clamped = [](int64_t tokens) { return std::clamp<int64_t>(tokens, -maxOffset, maxOffset); };
    const auto offset = [&](const vkattn_offset &given, int32_t ofEntry) { return clamped(given.tokens + clamped(ofEntry)); };
    return clamped(offset(query, queryOfEntry) - offset(key, keyOfEntry));
}

// Checks the offsets of a problem whose extents are known, and sets out.queryOffset and out.keyOffset.
[[nodiscard]] vkattn_result makeOffsets(const vkattn_problem &description, Problem &out, vkattn_diagnostic *why);

} // namespace vkattn
