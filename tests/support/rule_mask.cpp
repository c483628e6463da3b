#include "support/rule_mask.hpp"

#include "conform/cases/base_case.hpp"
#include "conform/cases/features.hpp"

#include <algorithm>
#include <cstdlib>
#include <set>

namespace vkattn::test {
namespace {

// Philox4x32-10, word 0, from the paper's description.
uint32_t philoxWord(uint32_t c0, uint32_t c1, uint32_t c2, uint64_t seed) {
    uint64_t c[4] = {c0, c1, c2, 0};
    uint64_t low = seed & 0xffffffffu, high = seed >> 32;
    for (int round = 0; round < 10; ++round) {
        const uint64_t a = c[0] * 0xD2511F53u, b = c[2] * 0xCD9E8D57u;
        const uint64_t next[4] = {(b >> 32) ^ c[1] ^ low, b & 0xffffffffu, (a >> 32) ^ c[3] ^ high, a & 0xffffffffu};
        std::copy_n(next, 4, c);
        low = (low + 0x9E3779B9u) & 0xffffffffu;
        high = (high + 0xBB67AE85u) & 0xffffffffu;
    }
    return static_cast<uint32_t>(c[0]);
}

// The columns of BigBird's row a.
std::set<uint32_t> bigBirdRow(uint32_t n, uint32_t a, uint32_t h, uint32_t random, uint64_t seed) {
    std::set<uint32_t> row;
    for (uint32_t c = 0; c < n; ++c)
        if (a == 0 || a == n - 1 || c == 0 || c == n - 1 || c + 1 == a || c == a || c == a + 1) row.insert(c);
    std::vector<uint32_t> candidates;
    for (uint32_t c = 1; c + 1 < n; ++c)
        if (c + 1 != a && c != a && c != a + 1 && !row.contains(c)) candidates.push_back(c);
    if (candidates.size() <= random) {
        row.insert(candidates.begin(), candidates.end());
        return row;
    }
    for (uint32_t t = 0; t < random; ++t) {
        const uint64_t u = philoxWord(t, a, h, seed);
        std::swap(candidates[t], candidates[t + static_cast<uint32_t>(u * (candidates.size() - t) / (uint64_t{1} << 32))]);
        row.insert(candidates[t]);
    }
    return row;
}

// The columns that an array of blocks lists for a row of a plane.
std::set<uint32_t> listedRow(const conform::CaseData &data, uint64_t plane, uint32_t rows, uint32_t columns, uint32_t row) {
    const conform::Case &c = data.c;
    std::set<uint32_t> shown;
    const uint64_t item = plane * rows + row;
    const auto take = [&](const std::vector<uint32_t> &from, uint64_t at) {
        if (at < from.size() && from[at] < columns) shown.insert(from[at]);
    };
    switch (c.blocks) {
    case conform::Blocks::mask:
        for (uint32_t column = 0; column < columns; ++column)
            if (data.blockMask[item * columns + column]) shown.insert(column);
        break;
    case conform::Blocks::lists: {
        const uint64_t at = plane * (rows + 1) + row;
        for (uint64_t n = data.blockRows[at]; n < data.blockRows[at + 1] && n < data.blockColumns.size(); ++n) take(data.blockColumns, n);
        break;
    }
    default:
        for (uint32_t n = 0; n < columns; ++n) {
            if (n < data.blockCounts[item]) take(data.blockIndices, item * columns + n);
            if (c.fullBlocks && n < data.fullCounts[item]) take(data.fullIndices, item * columns + n);
        }
    }
    return shown;
}

bool axisShows(conform::Grid rule, int64_t extent, int64_t size, int64_t shift, int64_t c, int64_t other) {
    const int64_t half = size / 2;
    switch (rule) {
    case conform::Grid::cut:
        return other >= c - half && other <= c + half;
    case conform::Grid::clamped: { // of as many tokens as the size, the nearest inside of the borders
        const int64_t first = c < half ? 0 : c + half >= extent ? extent - size : c - half;
        return other >= first && other < first + size;
    }
    default: { // walks over the windows
        int64_t begin = 0;
        for (int64_t end = shift ? shift : size;; end += size) {
            if (c < end) return other >= begin && other < end;
            begin = end;
        }
    }
    }
}

} // namespace

std::vector<unsigned char> maskOfRules(const conform::CaseData &data) {
    const conform::Case &c = data.c;
    const vkattn_problem &p = data.problem;
    const uint32_t heads = p.q.extent[1], queries = p.maxSeqQ ? p.maxSeqQ : p.q.extent[2], keys = conform::mostKeys(p);
    const uint32_t batch = static_cast<uint32_t>(data.spans.size());
    std::vector<unsigned char> mask(size_t{batch} * heads * queries * keys);
    const bool hasBlocks = p.blocks.kind != VKATTN_BLOCKS_NONE;
    const uint32_t blockKeys = c.blocks == conform::Blocks::bigBird ? c.blockQueries : c.blockKeys;
    for (uint32_t b = 0; b < batch; ++b)
        for (uint32_t h = 0; h < heads; ++h)
            for (uint32_t i = 0; i < queries; ++i) {
                const conform::Span &s = data.spans[b];
                const int64_t at = data.position(b, i);
                std::set<uint32_t> columns;
                if (hasBlocks) {
                    const uint32_t rows = (queries + c.blockQueries - 1) / c.blockQueries, all = (keys + blockKeys - 1) / blockKeys;
                    const uint64_t plane =
                        uint64_t{p.blocks.batches > 1 ? b : 0} * std::max(p.blocks.heads, 1u) + (p.blocks.heads > 1 ? h : 0);
                    columns = c.blocks == conform::Blocks::bigBird ? bigBirdRow(all, i / c.blockQueries, h, c.randomBlocks, p.blocks.seed)
                                                                   : listedRow(data, plane, rows, all, i / c.blockQueries);
                }
                const auto global = [&](int64_t token) {
                    if (data.globals.empty() || token < 0 || token >= s.keys) return false;
                    const size_t words = (keys + 31) / 32;
                    return (data.globals[b * words + static_cast<size_t>(token) / 32] >> (token % 32) & 1) != 0;
                };
                for (uint32_t j = 0; j < keys; ++j) {
                    const int64_t distance = int64_t{j} - at;
                    bool shown = true;
                    if (c.causal) {
                        const uint32_t prefix = data.prefixes.empty() ? 0 : data.prefixes[b];
                        shown = distance <= 0 || j < prefix;
                    }
                    if (c.window) {
                        int64_t dilation = std::max(c.dilation, 1u);
                        if (!data.dilations.empty()) dilation = std::min<int64_t>(dilation, std::max(data.dilations[h], 1u));
                        const bool near = (c.left < 0 || distance >= -dilation * c.left) &&
                                          (c.right < 0 || distance <= dilation * c.right) && distance % dilation == 0;
                        shown = shown && (near || global(j) || global(at));
                    }
                    if (p.grid.rule != VKATTN_GRID_NONE) {
                        const int64_t rows = p.grid.extent[1], width = p.grid.extent[2], tokens = rows * width * p.grid.extent[0];
                        shown = shown && at >= 0 && at < tokens;
                        const int64_t from[] = {at / (rows * width), at / width % rows, at % width};
                        const int64_t to[] = {j / (rows * width), j / width % rows, j % width};
                        for (int axis = 0; axis < 3 && shown; ++axis)
                            shown = axisShows(c.grid, p.grid.extent[axis], p.grid.size[axis], p.grid.shift[axis], from[axis], to[axis]);
                    }
                    if (hasBlocks) shown = shown && columns.contains(j / blockKeys);
                    if (c.maskBroadcast) {
                        const uint32_t *e = p.mask.extent;
                        shown = shown && (e[3] == 1 || j < e[3]) && // a mask of fewer keys hides the others
                                data.mask.get(e[0] > 1 ? b : 0, e[1] > 1 ? h : 0, e[2] > 1 ? i : 0, e[3] > 1 ? j : 0) != 0;
                    }
                    if (c.bitMaskBroadcast) {
                        const uint32_t *e = p.bitMask.extent;
                        shown = shown &&
                                (data.bitMask.getWord(e[0] > 1 ? b : 0, e[1] > 1 ? h : 0, e[2] > 1 ? i : 0, j / 32) >> (j % 32) & 1) != 0;
                    }
                    mask[((size_t{b} * heads + h) * queries + i) * keys + j] = shown ? 1 : 0;
                }
            }
    return mask;
}

MaskedProblem::MaskedProblem(const conform::CaseData &data) : mask(maskOfRules(data)), problem(data.problem) {
    const uint32_t heads = problem.q.extent[1], queries = problem.maxSeqQ ? problem.maxSeqQ : problem.q.extent[2],
                   keys = conform::mostKeys(problem);
    problem.flags &= ~uint32_t{VKATTN_CAUSAL | VKATTN_WINDOW};
    problem.windowLeft = problem.windowRight = 0;
    problem.dilation = 0;
    problem.grid = {};
    problem.blocks = {}; // offsets stay: they are ALiBi's too
    problem.bitMask = {};
    const uint32_t rules[] = {VKATTN_GLOBAL_TOKENS, VKATTN_PREFIX_LENGTHS, VKATTN_DILATIONS};
    for (const uint32_t role : rules) problem.presentRoles &= ~VKATTN_PRESENT(role);
    const int64_t row = keys, head = row * queries, entry = head * heads;
    problem.mask = {VKATTN_BOOL8, {static_cast<uint32_t>(data.spans.size()), heads, queries, keys}, {entry, head, row, 1}, 0};
    for (const vkattn_operand_memory &each : data.operands) {
        const bool ofRule = each.role == VKATTN_MASK || each.role == VKATTN_BIT_MASK ||
                            (each.role >= VKATTN_BLOCK_MASK && each.role <= VKATTN_PROGRAM_BUFFER_3) ||
                            std::find(std::begin(rules), std::end(rules), static_cast<uint32_t>(each.role)) != std::end(rules);
        if (!ofRule) operands.push_back(each);
    }
    operands.push_back({VKATTN_MASK, mask.data(), mask.size()});
}

conform::Case drawRules(conform::Random &random, uint32_t number) {
    constexpr const char *names[] = {"dilation", "globalTokens", "prefixes",      "grid",        "volume",
                                     "blocks",   "causalOffset", "windowOffsets", "offsetArrays"};
    conform::Case c = conform::baseCase(random, "rules" + std::to_string(number));
    const auto draw = [&](std::string_view name) {
        for (const conform::Feature &feature : conform::features())
            for (const conform::Variant &variant : feature.variants)
                if (variant.name == name) variant.draw(c, random);
    };
    const auto likes = [&](uint32_t one) { return random() % one == 0; };
    draw(names[number % std::size(names)]);
    if (likes(3)) draw(names[random() % std::size(names)]);
    for (const std::string_view name : {"causal", "grouped", "lengths", "mask", "bias", "alibi", "sinks", "dropout"})
        if (likes(6)) draw(name);
    if (likes(6)) draw("ragged");
    c.lse = true;
    conform::makeAgree(c);
    return c;
}

conform::Case longRules(conform::Random &random, uint32_t number) {
    conform::Case c;
    c.name = "longRules" + std::to_string(number);
    c.batch = 1, c.heads = 2, c.kvHeads = 1, c.headDim = c.valueDim = 16;
    c.queryTokens = c.keyTokens = 240 + conform::between(random, 0, 30);
    switch (number) {
    case 0:
    case 1:
        c.window = c.globalTokens = true, c.left = c.right = static_cast<int32_t>(conform::between(random, 0, 9));
        if (number == 1) c.dilation = 3, c.headDilations = true;
        break;
    case 2:
        c.blocks = conform::Blocks::bigBird, c.blockQueries = c.blockKeys = 16, c.randomBlocks = 2;
        c.blockSeed = static_cast<uint32_t>(random());
        break;
    case 3:
    case 4:
        c.blocks = number == 3 ? conform::Blocks::lists : conform::Blocks::mask;
        c.blockQueries = conform::between(random, 5, 60), c.blockKeys = conform::between(random, 5, 60);
        c.blocksOfHeads = true;
        break;
    case 7: // patches of a grid, some of which are cut by its ends
        c.grid = conform::Grid::clamped, c.gridPlanes = 2, c.gridRows = 13;
        c.sizePlanes = 1, c.sizeRows = 5, c.sizeColumns = 5;
        c.queryTokens = c.keyTokens = 2 * 13 * 19;
        c.alibi = true;
        break;
    case 8: // more global tokens than a tile looks for one by one, if none of its own is one
        c.batch = 3, c.queryTokens = 2, c.keyTokens = 16384;
        c.window = c.globalTokens = true, c.left = c.right = 5;
        break;
    case 9: // patches are for queries that stand where they are counted
        c.grid = conform::Grid::clamped, c.gridRows = 24;
        c.sizePlanes = 1, c.sizeRows = c.sizeColumns = 5;
        c.queryTokens = c.keyTokens = 24 * 32;
        c.offsets = true, c.queryOffset.tokens = static_cast<int32_t>(conform::between(random, 5, 27));
        break;
    default:
        c.grid = number == 5 ? conform::Grid::clamped : conform::Grid::windows;
        c.gridPlanes = number == 5 ? 1 : 3, c.gridRows = number == 5 ? 3 : 4;
        c.sizePlanes = 1, c.sizeRows = 3, c.sizeColumns = 7, c.gridShift = number == 5 ? 0 : 2;
        c.queryTokens = c.keyTokens = c.gridPlanes * c.gridRows * 25;
    }
    c.lse = c.rowStatistics = true;
    conform::makeAgree(c);
    return c;
}

} // namespace vkattn::test
