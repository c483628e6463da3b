// Specialization constants turned into plain constants before a driver sees the module (SPIR-V 1.0,
// 2.12). Drivers that inline and optimise first and specialize last work through every branch that
// no pipeline of ours takes: folding the constants that choose between branches made SwiftShader
// compile flash/lanes.comp in 0.3 s where it took 1.8 s. Constants that bound loops are better left
// to the driver: it decides whether a loop is worth unrolling.
#pragma once

#include <cstddef>
#include <cstdint>

namespace vkattn {

// The version is raised whenever foldConstants() or splitContinues() (continues.hpp) makes another module
// of the same input: older pipeline caches are then of no use.
constexpr uint32_t foldingVersion = 2;

struct Specialization {
    const uint32_t *values; // values of the constants with SpecId 0, 1, ..., count - 1
    uint32_t count;         // at most 32
    // Bit n: SpecId n becomes a plain constant; other constants stay as they are.
    uint32_t folded;
};

// Returns the bytes of scratch memory for a module, aligned to 4.
[[nodiscard]] size_t foldScratchBytes(const uint32_t *words);

// Writes the module with the folded constants, and with the constants that follow from them alone,
// as plain constants. `out` has room for `wordCount` words, and may be `words`. Returns the number of words written.
// The module is one of ours: valid, with 32-bit scalar constants. Unknown operations on constants
// stay as they are.
[[nodiscard]] size_t foldConstants(const uint32_t *words, size_t wordCount, const Specialization &specialization, void *scratch,
                                   uint32_t *out);

} // namespace vkattn
