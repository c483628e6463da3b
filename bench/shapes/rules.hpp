// Rules of visibility of shapes: how the library is told of them, their arrays, and the pairs that
// they show.
#pragma once

#include <vkattn/problem.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace vkattn::bench {

enum class RuleKind {
    none,
    window,        // keys on both sides of the query, and perhaps global tokens (Longformer)
    neighbourhood, // rows and columns around a token of a grid, clamped at borders
    blockMask,     // a mask of blocks, some of them drawn, and those of the diagonal
    bigBird,
};

// One rule, of as many queries as keys. The same for all batch entries and heads, but that BigBird
// draws other blocks for each head.
struct Rule {
    RuleKind kind = RuleKind::none;
    // window: keys to each side, the query's own left out. neighbourhood: rows, and columns. Of
    // blocks: tokens of a block.
    uint32_t size = 0;
    // window: global tokens, the first ones. blockMask: blocks of a hundred that are drawn. bigBird:
    // random blocks of a row.
    uint32_t count = 0;
};

void describeRule(const Rule &rule, uint32_t tokens, vkattn_problem &problem);
// Returns the pairs that one head of one batch entry sees.
[[nodiscard]] double rulePairs(const Rule &rule, uint32_t tokens);
// Returns a text in the words of the options of `vkattn run`, such as "window=256,256 global=32".
[[nodiscard]] std::string ruleText(const Rule &rule, uint32_t tokens);

// The arrays that a rule may read.
constexpr vkattn_role ruleRoles[] = {VKATTN_GLOBAL_TOKENS, VKATTN_BLOCK_MASK};
// Fills an array of vkattnOperandBytes bytes, which are 0.
void fillRule(const Rule &rule, uint32_t tokens, vkattn_role role, std::byte *data, size_t bytes);

} // namespace vkattn::bench
