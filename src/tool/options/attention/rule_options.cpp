// The options of rules of visibility: windows with dilation and global tokens, prefixes, grids, blocks.
#include "program/options/option_values.hpp"
#include "tool/options/attention/attention_options.hpp"
#include "tool/options/attention/given_options.hpp"
#include "tool/options/names.hpp"

#include <CLI/CLI.hpp>
#include <cstdlib>

#include <algorithm>
#include <functional>

namespace vkattn::tool {
using namespace program;
namespace {

constexpr const char *axisNames[] = {"planes", "rows", "columns"};

// "ROWSxCOLUMNS" or "PLANESxROWSxCOLUMNS", or one number where `one`.
bool parseExtents(std::string_view text, std::vector<uint32_t> &out) {
    out.clear();
    while (true) {
        const size_t x = text.find('x');
        uint32_t extent = 0;
        if (!parseInteger(text.substr(0, x), extent) || extent == 0 || out.size() == 3) return false;
        out.push_back(extent);
        if (x == std::string_view::npos) return true;
        text.remove_prefix(x + 1);
    }
}

// A grid and the size of what a query sees of it: one number for all axes, or one for each.
bool parseGrid(const std::string &text, vkattn_grid &grid, std::string_view &rest) {
    const size_t colon = text.find(':');
    if (colon == std::string::npos) return false;
    std::string_view sizes = std::string_view(text).substr(colon + 1);
    const size_t second = sizes.find(':');
    rest = second == std::string_view::npos ? std::string_view() : sizes.substr(second + 1);
    if (second != std::string_view::npos && rest.empty()) return false;
    sizes = sizes.substr(0, second);
    std::vector<uint32_t> extents, size;
    if (!parseExtents(std::string_view(text).substr(0, colon), extents) || extents.size() < 2 || !parseExtents(sizes, size) ||
        (size.size() != 1 && size.size() != extents.size()))
        return false;
    for (size_t axis = 0; axis < extents.size(); ++axis) {
        const size_t at = 3 - extents.size() + axis;
        grid.extent[at] = extents[axis];
        grid.size[at] = size[size.size() == 1 ? 0 : axis];
    }
    return true;
}

void readNeighbourhood(const std::string &text, vkattn_grid &grid) {
    std::string_view rest;
    if (!parseGrid(text, grid, rest) || !rest.empty())
        badValue("--neighbourhood", "ROWSxCOLUMNS:SIZE or ROWSxCOLUMNS:SIZExSIZE, or PLANESx... before both, like 64x64:7", text);
    for (const uint32_t size : grid.size)
        if (size != 0 && size % 2 == 0)
            throw Failure("--neighbourhood " + text + ": a size of " + std::to_string(size) +
                          ", expected an odd number: as many tokens before a query as after it");
    if (grid.rule == VKATTN_GRID_NONE) grid.rule = VKATTN_GRID_CLAMPED;
}

void readWindows(const std::string &text, vkattn_grid &grid) {
    std::string_view rest;
    uint32_t shift = 0;
    if (!parseGrid(text, grid, rest) || (!rest.empty() && !parseInteger(rest, shift)))
        badValue("--windows", "ROWSxCOLUMNS:SIZE or ROWSxCOLUMNS:SIZE:SHIFT, like 56x56:7:3", text);
    uint32_t smallest = 0; // of the axes that can be shifted
    for (size_t axis = 0; axis < 3; ++axis) {
        if (grid.size[axis] <= 1) continue;
        grid.shift[axis] = shift;
        smallest = smallest == 0 ? grid.size[axis] : std::min(smallest, grid.size[axis]);
    }
    if (shift > 0 && shift >= smallest)
        throw Failure("--windows " + text + ": a shift of " + std::to_string(shift) + ", expected less than the size of a window, " +
                      std::to_string(std::max(smallest, 1u)));
    grid.rule = VKATTN_GRID_WINDOWS;
}

void readBigBird(const std::string &text, vkattn_blocks &blocks) {
    const size_t first = text.find(','), second = first == std::string::npos ? first : text.find(',', first + 1);
    const std::string_view all = text;
    if (second == std::string::npos || !parseInteger(all.substr(0, first), blocks.queries) || blocks.queries == 0 ||
        !parseInteger(all.substr(first + 1, second - first - 1), blocks.random) || blocks.random > 64 ||
        !parseInteger(all.substr(second + 1), blocks.seed))
        badValue("--bigbird", "BLOCK,RANDOM,SEED: tokens of a block, random blocks of a row (0 to 64) and a seed, like 64,3,0", text);
    blocks.kind = VKATTN_BLOCKS_BIGBIRD;
}

void readBlockSize(const char *option, const std::string &text, vkattn_blocks &blocks) {
    const size_t comma = text.find(',');
    const std::string_view all = text;
    if (comma == std::string::npos || !parseInteger(all.substr(0, comma), blocks.queries) ||
        !parseInteger(all.substr(comma + 1), blocks.keys) || blocks.queries == 0 || blocks.keys == 0)
        badValue(option, "QUERIES,KEYS of a block, each at least 1, like 128,128", text);
}

} // namespace

void addRuleOptions(CLI::App &app, RunArguments &run) {
    RuleArguments &rules = run.rules;
    const auto value = [&](const char *name, const char *type, const std::string &text, std::function<void(const std::string &)> read) {
        return addValue(app, name, type, text, std::move(read));
    };
    constexpr uint32_t mostDilation = 1u << 20;
    value("--dilation", "N", "Keys of the window lie N apart: --window counts them; default 1",
          [&](const std::string &text) { rules.dilation = parseWhole("--dilation", text, mostDilation); });
    addFile(app, run, VKATTN_GLOBAL_TOKENS,
            "bool or uint8 [token] or [batch, token]: tokens that all queries see, and that see all keys, whatever the window is");
    addFile(app, run, VKATTN_PREFIX_LENGTHS, "int32 or int64 [batch]: every query sees so many first keys, whatever --causal hides");
    value("--neighbourhood", "HxW:K",
          "Tokens are a grid of H rows and W columns, and a query sees the K x K tokens around it; also HxW:KYxKX, "
          "DxHxW:K and DxHxW:KZxKYxKX",
          [&](const std::string &text) { readNeighbourhood(text, rules.grid); });
    value("--border", "clamp|cut", "Neighbourhoods at the grid's border: moved inwards (default), or cut", [&](const std::string &text) {
        if (text != "clamp" && text != "cut") badValue("--border", "clamp or cut", text);
        rules.grid.rule = text == "cut" ? VKATTN_GRID_CUT : VKATTN_GRID_CLAMPED;
    });
    value("--windows", "HxW:K[:S]",
          "Tokens are such a grid, cut into windows of K x K, the first of them S long: a query sees its own window",
          [&](const std::string &text) { readWindows(text, rules.grid); });
    value("--bigbird", "BLOCK,RANDOM,SEED",
          "Blocks of tokens: the first and the last one, neighbours, and random ones of each head (BigBird)",
          [&](const std::string &text) { readBigBird(text, rules.blocks); });
    addFile(app, run, VKATTN_BLOCK_MASK, "bool or uint8 [query block, key block] or [head, query block, key block]; 0 hides a block");
    value("--block-size", "Q,K", "Queries and keys of a block of --block-mask",
          [&](const std::string &text) { readBlockSize("--block-size", text, rules.blocks); });
}

void addVisibleBlocks(CLI::App &app, RunArguments &run) {
    addValue(
        app, "--visible-blocks", "Q,K",
        "First find the blocks of Q queries and K keys that have anything to see, whatever hides the rest, and have the kernel skip the "
        "others: for --program and --mask",
        [&](const std::string &text) {
            readBlockSize("--visible-blocks", text, run.rules.lists);
            run.rules.lists.kind = VKATTN_BLOCKS_INDICES;
        });
}

void addGlobalProjections(CLI::App &app, RunArguments &run) {
    constexpr const char *names[] = {"--q-global", "--k-global", "--v-global"}, *of[] = {"queries", "keys", "values"};
    for (int n = 0; n < 3; ++n)
        app.add_option(names[n], run.rules.globalProjections[n],
                       std::string("Second projection of the ") + of[n] +
                           ", for the rows of global tokens (Longformer), in the shape of the first")
            ->type_name("FILE");
}

namespace {
// The rows of global tokens are an attention of their own, with these options and no others.
void checkGlobalProjections(const CLI::App &app) {
    const auto given = [&](const char *name) { return app.get_option_no_throw(name) != nullptr && app.count(name) > 0; };
    constexpr const char *names[] = {"--q-global", "--k-global", "--v-global"};
    if (!given(names[0]) && !given(names[1]) && !given(names[2])) return;
    for (const char *name : names)
        if (!given(name))
            throw Failure(std::string(name) +
                          " is not given beside the other second projections, expected all three: --q-global, --k-global and "
                          "--v-global");
    if (!given("--global-tokens"))
        throw Failure(
            "--q-global is given without --global-tokens, whose rows it is for: add --global-tokens and --window, or leave it out");
    for (const char *other : {"--weights", "--scores", "--dropout", "--cu-seqlens-q", "--values-in-keys", "--program", "--query-offset",
                              "--key-offset", "--page-table", "--page-indptr"})
        if (given(other))
            throw Failure(std::string("--q-global and ") + other +
                          " are both given: the rows of global tokens are computed apart, without " + other + ". Leave one of them out");
}
} // namespace

void checkRules(const CLI::App &app, const RunArguments &run) {
    checkGlobalProjections(app);
    const GivenOptions given(app);
    given.needs("--dilation", "--window", "the dilation says how far the keys of a window lie apart, so add --window, or leave it out");
    given.needs("--global-tokens", "--window", "without a window every token sees all keys, so add --window, or leave it out");
    given.needs("--prefix-lengths", "--causal", "a prefix shows keys that --causal hides, so add --causal, or leave it out");
    given.needs("--border", "--neighbourhood", "the border is that of a grid, so add --neighbourhood, or leave it out");
    given.needs("--block-mask", "--block-size", "a mask of blocks does not say how large they are, so add --block-size");
    given.needs("--block-size", "--block-mask", "the size is that of its blocks, so add --block-mask, or leave it out");
    given.apart("--neighbourhood", "--windows", "both say what a query sees of a grid");
    given.apart("--bigbird", "--block-mask", "both say which blocks are visible");
    given.apart("--visible-blocks", "--bigbird", "the lists of blocks that are made take the place of other blocks");
    given.apart("--visible-blocks", "--block-mask", "the lists of blocks that are made take the place of other blocks");
    given.apart("--visible-blocks", "--q-global", "the rows of global tokens are computed apart, without lists of blocks");
    const vkattn_grid &grid = run.rules.grid;
    for (size_t axis = 0; axis < 3; ++axis)
        if (grid.rule == VKATTN_GRID_CLAMPED && grid.size[axis] > grid.extent[axis])
            throw Failure("--neighbourhood: a size of " + std::to_string(grid.size[axis]) + " in " + std::to_string(grid.extent[axis]) +
                          " " + axisNames[axis] + ", expected at most as many: neighbourhoods lie inside, but for --border cut");
}

} // namespace vkattn::tool
