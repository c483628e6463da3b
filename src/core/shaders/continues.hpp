// Continue targets of loops apart from their bodies (SPIR-V 1.0, 2.11), before a driver sees a module.
// glslc -O merges a body's last block with the continue target. Mesa 22 puts what a continue target
// has behind a flag that each round tests, and unrolls that twice: flash/lanes.comp of 8 dims took lavapipe of
// Mesa 22 4.6 s to compile, and takes 1.1 s.
#pragma once

#include <cstddef>
#include <cstdint>

namespace vkattn {

// Returns the words that the result takes at most.
[[nodiscard]] size_t mostWordsOfSplit(const uint32_t *words, size_t wordCount);
// Returns the bytes of scratch memory for a module, aligned to 4.
[[nodiscard]] size_t splitScratchBytes(const uint32_t *words);

// Writes the module with an empty continue target for each loop whose continue target is one block that
// one branch leads to. Returns the number of words written. The module is one of ours: valid, with
// selectors of 32 bits.
[[nodiscard]] size_t splitContinues(const uint32_t *words, size_t wordCount, void *scratch, uint32_t *out);

} // namespace vkattn
