#include "shapes/rules.hpp"

#include "shapes/random.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace vkattn::bench {
namespace {

// Fixed, whatever --seed is: a shape is the same work in every run.
constexpr uint64_t bigBirdSeed = 1, blockMaskSeed = 1;

// Rows of the grid that is nearest to a square: the largest divisor up to the root.
uint32_t gridRows(uint32_t tokens) {
    auto rows = static_cast<uint32_t>(std::sqrt(static_cast<double>(tokens)));
    while (rows > 1 && tokens % rows != 0) --rows;
    return rows;
}

uint32_t blockCount(const Rule &rule, uint32_t tokens) {
    return (tokens + rule.size - 1) / rule.size;
}

// Each block draws by its place: longer sequences have the blocks of shorter ones, and more.
bool blockShows(const Rule &rule, uint32_t row, uint32_t column) {
    if (row == column) return true;
    uint64_t state = blockMaskSeed + randomStep * (uint64_t{row} << 32 | column);
    return ((nextRandom(state) >> 32) * 100 >> 32) < rule.count;
}

uint64_t windowPairs(const Rule &rule, uint32_t tokens) {
    uint64_t pairs = 0;
    for (uint32_t i = 0; i < tokens; ++i) {
        const uint32_t begin = i - std::min(i, rule.size), end = i + std::min(rule.size, tokens - 1 - i) + 1;
        // After the window there is no global token that the window does not show.
        pairs += i < rule.count ? tokens : end - begin + std::min(rule.count, begin);
    }
    return pairs;
}

uint64_t blockMaskPairs(const Rule &rule, uint32_t tokens) {
    const auto tokensOf = [&](uint32_t block) { return uint64_t{std::min(rule.size, tokens - block * rule.size)}; };
    uint64_t pairs = 0;
    for (uint32_t row = 0, n = blockCount(rule, tokens); row < n; ++row)
        for (uint32_t column = 0; column < n; ++column)
            if (blockShows(rule, row, column)) pairs += tokensOf(row) * tokensOf(column);
    return pairs;
}

// Which blocks are drawn has no influence: all are whole but the last one, which no row draws.
uint64_t bigBirdPairs(const Rule &rule, uint32_t tokens) {
    const uint64_t n = blockCount(rule, tokens), last = tokens - (n - 1) * rule.size;
    if (n == 1) return uint64_t{tokens} * tokens;
    uint64_t pairs = (rule.size + last) * tokens; // the first and the last row
    for (uint64_t row = 1; row + 1 < n; ++row) {
        const uint64_t close = 1 + (row > 1) + (row + 2 < n); // without the first and the last column
        const uint64_t drawn = std::min<uint64_t>(rule.count, n - 2 - close);
        pairs += rule.size * (rule.size * (1 + close + drawn) + last);
    }
    return pairs;
}

} // namespace

void describeRule(const Rule &rule, uint32_t tokens, vkattn_problem &problem) {
    switch (rule.kind) {
    case RuleKind::none:
        break;
    case RuleKind::window:
        problem.flags |= VKATTN_WINDOW;
        problem.windowLeft = problem.windowRight = static_cast<int32_t>(rule.size);
        if (rule.count) problem.presentRoles |= VKATTN_PRESENT(VKATTN_GLOBAL_TOKENS);
        break;
    case RuleKind::neighbourhood:
        problem.grid.rule = VKATTN_GRID_CLAMPED;
        problem.grid.extent[1] = gridRows(tokens);
        problem.grid.extent[2] = tokens / gridRows(tokens);
        problem.grid.size[1] = problem.grid.size[2] = rule.size;
        break;
    case RuleKind::blockMask:
        problem.blocks.kind = VKATTN_BLOCKS_MASK;
        problem.blocks.queries = problem.blocks.keys = rule.size;
        break;
    case RuleKind::bigBird:
        problem.blocks.kind = VKATTN_BLOCKS_BIGBIRD;
        problem.blocks.queries = rule.size;
        problem.blocks.random = rule.count;
        problem.blocks.seed = bigBirdSeed;
        break;
    }
}

double rulePairs(const Rule &rule, uint32_t tokens) {
    uint64_t pairs = uint64_t{tokens} * tokens;
    switch (rule.kind) {
    case RuleKind::none:
        break;
    case RuleKind::window:
        pairs = windowPairs(rule, tokens);
        break;
    case RuleKind::neighbourhood: // inside of the grid everywhere
        pairs = uint64_t{tokens} * rule.size * rule.size;
        break;
    case RuleKind::blockMask:
        pairs = blockMaskPairs(rule, tokens);
        break;
    case RuleKind::bigBird:
        pairs = bigBirdPairs(rule, tokens);
        break;
    }
    return static_cast<double>(pairs);
}

std::string ruleText(const Rule &rule, uint32_t tokens) {
    const std::string size = std::to_string(rule.size), count = std::to_string(rule.count);
    switch (rule.kind) {
    case RuleKind::none:
        break;
    case RuleKind::window:
        return "window=" + size + "," + size + (rule.count ? " global=" + count : "");
    case RuleKind::neighbourhood:
        return "neighbourhood=" + std::to_string(gridRows(tokens)) + "x" + std::to_string(tokens / gridRows(tokens)) + ":" + size;
    case RuleKind::blockMask:
        return "block-mask=" + count + "% of " + size + "x" + size;
    case RuleKind::bigBird:
        return "bigbird=" + size + "," + count + "," + std::to_string(bigBirdSeed);
    }
    return {};
}

void fillRule(const Rule &rule, uint32_t tokens, vkattn_role role, std::byte *data, size_t bytes) {
    if (role == VKATTN_BLOCK_MASK) {
        const uint32_t n = blockCount(rule, tokens);
        for (size_t block = 0; block < bytes; ++block)
            data[block] = std::byte{blockShows(rule, static_cast<uint32_t>(block / n), static_cast<uint32_t>(block % n))};
        return;
    }
    const size_t words = (size_t{tokens} + 31) / 32; // of a batch entry
    for (size_t at = 0; at < bytes / 4; ++at) {
        const size_t first = at % words * 32, global = std::min<size_t>(rule.count, tokens);
        const size_t bits = first < global ? std::min<size_t>(global - first, 32) : 0;
        const auto word = static_cast<uint32_t>((uint64_t{1} << bits) - 1);
        std::memcpy(data + at * 4, &word, 4);
    }
}

} // namespace vkattn::bench
