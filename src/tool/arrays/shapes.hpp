// Rules that the shapes of arrays have in common, whatever is computed on them.
#pragma once

#include <vkattn/problem.h>

#include <cstdint>
#include <string>
#include <vector>

namespace vkattn::tool {

// Of a tensor [batch, head, token, dim].
enum Dimension { batch, head, token, dim };

using Extents = uint32_t[4];

// A tensor: of a file, or as `explain` assumes it.
struct Operand {
    std::string text; // for messages
    vkattn_layout layout;
};

// Densely packed, C order. `text` names it in messages. Throws Failure where its bytes overflow.
[[nodiscard]] vkattn_layout dense(const std::string &text, vkattn_dtype dtype, const Extents &extent);

// A tensor of such a shape, whose leading dimensions of 1 may be left out, in place of the file of an option: "--q".
[[nodiscard]] Operand assumedOperand(const char *option, std::vector<uint32_t> shape, vkattn_dtype dtype);
// "[1, 8, 4096, 64]"; a single head is left out.
[[nodiscard]] std::string shapeText(const vkattn_layout &layout);

[[noreturn]] void disagree(const Operand &a, const Operand &b, const std::string &rule);
void requireEqual(const Operand &a, const Operand &b, Dimension dimension, const std::string &what);

// Returns the layout of a pool of pages as [page, head, token, dim], of one as it lies: [page, token, head, dim] where
// heads are not first. `text` names it in messages. Throws Failure where it has not 4 dimensions, or no page.
[[nodiscard]] vkattn_layout poolOfPages(const std::string &text, size_t dimensions, vkattn_layout pool, bool headsFirst);

// Returns the keys that a batch entry may have: of a problem with pages those of its row of the table, with past keys
// those of both segments.
[[nodiscard]] uint32_t keysOf(const vkattn_problem &problem);

// Throws Failure where an extent other than the tokens is 0, or where there are more dims than
// `maxDim`.
void requireSomething(const Operand &operand, uint32_t maxDim);

} // namespace vkattn::tool
