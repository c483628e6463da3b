// What `vkattn explain --draw-mask` draws and counts: the pairs that the rules of a problem show in one head.
#pragma once

#include "program/json_text.hpp"
#include "tool/arrays/job.hpp"
#include "tool/options/arguments.hpp"

#include <cstdint>
#include <string>

namespace vkattn::tool {

// One side of the picture, along queries or along keys.
struct PictureSide {
    uint32_t tokens = 0;
    uint32_t box = 1;   // tokens of a cell; the last cell may have fewer
    uint32_t cells = 0; // at most 1024
    uint32_t scale = 1; // pixels of a cell
    [[nodiscard]] uint32_t pixels() const { return cells * scale; }
};

struct MaskFacts {
    PictureSide queries, keys; // of the batch entry, or of the sequence
    uint32_t step = 1;         // one row in so many was looked at
    uint64_t rows = 0;         // that were looked at; the numbers below are theirs
    uint64_t visiblePairs = 0, emptyRows = 0;
    uint64_t blocks = 0, visitedBlocks = 0; // visited: some pair is visible
    [[nodiscard]] double visibleShare() const;
    [[nodiscard]] double visitedShare() const;
};

// Draws the head of `arguments` into their file, which appears whole or not at all. Reads the files of
// masks, lengths, ids and other rules. Throws Failure.
[[nodiscard]] MaskFacts drawMask(const ExplainArguments &arguments, Job &job);

[[nodiscard]] std::string maskText(const ExplainArguments &arguments, const vkattn_problem &problem, const MaskFacts &facts);
[[nodiscard]] program::Json maskJson(const ExplainArguments &arguments, const MaskFacts &facts);

} // namespace vkattn::tool
