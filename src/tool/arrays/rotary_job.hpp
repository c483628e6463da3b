// One rotary embedding: the arrays that the arguments name, and the operation that they make. Made
// from headers and positions alone, so that what disagrees is reported before anything large is
// read, computed or written.
#pragma once

#include "tool/arrays/job_arrays.hpp"
#include "tool/arrays/shapes.hpp"
#include "tool/options/rotary_arguments.hpp"

#include <vector>

namespace vkattn::tool {

struct RotaryJob : JobArrays {
    vkattn_rotary rotary{};
    // The rows of each token, by batch entry and token; empty where they follow each other.
    std::vector<uint32_t> positions;
    // Where no tables are given: the position that each row of the built ones is for. Only
    // positions that occur have a row: both tables together are at most as large as x in float32.
    std::vector<uint32_t> tablePositions;
};

// Throws Failure where files are not as they must be, disagree, or need more memory than this
// machine has.
[[nodiscard]] RotaryJob describeJob(const RotaryArguments &arguments);

// Throws Failure where a token after the start has a position past the 32 bits of one.
void checkLastPosition(const RotaryChoice &choice, const Operand &x);

// The tables of `positions`, [position][dims / 2] each, computed in double precision. Throws
// Failure where an angle is too large for a double.
void buildTables(const std::vector<uint32_t> &positions, uint32_t dims, const RotaryChoice &choice, std::span<float> cos,
                 std::span<float> sin);

} // namespace vkattn::tool
