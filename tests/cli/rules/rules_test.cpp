// `vkattn run` with rules of visibility: dilated windows, global tokens, prefixes, grids and blocks.
// The reference is given a mask of every pair in place of a rule, and so is the program.
#include "cli/run/run_fixture.hpp"
#include "support/extent.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>

namespace {

// What the options of a run say about pairs.
struct PairRules {
    bool causal = false, topLeft = false, window = false;
    long left = -1, right = -1, dilation = 1; // of the window, in steps
    Array global;                             // [batch, key]
    std::vector<long> prefixes;               // of each batch entry
    std::vector<long> shifts;                 // i' - i of each batch entry; empty: the alignment says
    std::string grid;                         // clamp, cut, windows; empty: none
    std::vector<long> extent, size;           // of the grid: planes where there are any, rows and columns
    long shift = 0;
    Array blocks; // [head, query block, key block]
    long blockQueries = 1, blockKeys = 1;
};

std::string joined(const std::vector<long> &numbers, char separator) {
    std::string text;
    for (const long number : numbers) text += (text.empty() ? "" : std::string(1, separator)) + std::to_string(number);
    return text;
}

// Both coordinates lie on one axis of a grid.
bool isInReach(const PairRules &rules, size_t axis, long from, long to) {
    const long size = rules.size[axis];
    if (rules.grid == "cut") return std::abs(to - from) <= size / 2;
    if (rules.grid == "clamp") {
        const long begin = std::clamp(from - size / 2, 0L, rules.extent[axis] - size);
        return begin <= to && to < begin + size;
    }
    // The first window is as long as the shift. An axis whose windows have one token is not shifted.
    const long first = rules.shift == 0 || size == 1 ? size : rules.shift;
    const auto windowOf = [&](long c) { return c < first ? 0 : 1 + (c - first) / size; };
    return windowOf(from) == windowOf(to);
}

class RulesRun : public RunTest {
  protected:
    PairRules rules;
    size_t batch = 2, heads = 4, queries = 0, keys = 0; // ragged: sequences, and tokens of the longest ones
    std::vector<long> queriesOf, keysOf;                // of each batch entry or sequence
    Arguments options;                                  // of the rules
    Arguments others;                                   // of what a mask does not say

    // Two batch entries of four heads, two of which share keys. Forgets all options.
    void givenTokens(size_t queryTokens, size_t keyTokens);
    void givenSequences(const std::vector<long> &cuQ, const std::vector<long> &cuK);

    // Each function adds an option, with a file where it has one.
    void addCausal(bool topLeft);
    void addTopLeft();
    void addWindow(long left, long right, long dilation);
    void addGlobalTokens(const std::vector<size_t> &shape, const NpyOptions &npy = {.descr = "|b1"});
    void addPrefixes(const std::string &descr = "<i4");
    enum class Offset { none, number, array };
    void addOffsets(Offset query, Offset key);
    void addNeighbourhood(const std::vector<long> &extent, const std::vector<long> &size, const std::string &border);
    void addWindows(const std::vector<long> &extent, const std::vector<long> &size, long shift);
    void addBigBird(long block, size_t randomBlocks, uint64_t seed);
    void addBlockMask(size_t dimensions, size_t planes, long blockQueries, long blockKeys, const std::string &descr = "|b1");
    void addKeyLengths();

    // Runs with the rules and with their mask, and compares both with the reference and with each other.
    void checkRules();
    void checkCombinations(int count, size_t largest);

  private:
    void add(const std::string &option, const std::string &value) { options.insert(options.end(), {option, value}); }
    [[nodiscard]] bool isInBox(long position, long key) const;
    [[nodiscard]] bool isSeen(size_t b, size_t h, long i, long j) const;
    void drawRules(size_t largest);
};

void RulesRun::givenTokens(size_t queryTokens, size_t keyTokens) {
    batch = 2, queries = queryTokens, keys = keyTokens;
    rules = {}, reference = {}, options = {}, others = {};
    queriesOf.assign(batch, static_cast<long>(queries)), keysOf.assign(batch, static_cast<long>(keys));
    given({batch, heads, queries, 8}, {batch, heads / 2, keys, 8}, {batch, heads / 2, keys, 6});
}

void RulesRun::givenSequences(const std::vector<long> &cuQ, const std::vector<long> &cuK) {
    rules = {}, reference = {}, options = {};
    const auto queryTokens = static_cast<size_t>(cuQ.back()), keyTokens = static_cast<size_t>(cuK.back());
    given({1, heads, queryTokens, 8}, {1, heads / 2, keyTokens, 8}, {1, heads / 2, keyTokens, 6});
    givenOffsets(cuQ, cuK);
    others = {"--cu-seqlens-q", "cq.npy", "--cu-seqlens-k", "ck.npy"};
    queriesOf.clear(), keysOf.clear();
    batch = cuQ.size() - 1;
    for (size_t n = 0; n < batch; n++) queriesOf.push_back(cuQ[n + 1] - cuQ[n]), keysOf.push_back(cuK[n + 1] - cuK[n]);
    queries = static_cast<size_t>(*std::max_element(queriesOf.begin(), queriesOf.end()));
    keys = static_cast<size_t>(*std::max_element(keysOf.begin(), keysOf.end()));
}

void RulesRun::addCausal(bool topLeft) {
    rules.causal = true, rules.topLeft = topLeft;
    add("--causal", topLeft ? "top-left" : "bottom-right");
}

void RulesRun::addTopLeft() {
    rules.topLeft = true;
    add("--align", "top-left");
}

void RulesRun::addWindow(long left, long right, long dilation) {
    rules.window = true, rules.left = left, rules.right = right, rules.dilation = dilation;
    add("--window", joined({left, right}, ','));
    if (dilation > 1 || chance(2)) add("--dilation", std::to_string(dilation)); // 1 is the default
}

void RulesRun::addGlobalTokens(const std::vector<size_t> &shape, const NpyOptions &npy) {
    Array flags{shape, std::vector<double>(Array::count(shape))};
    // The first token of every row is global, so that each row differs from one without. The last one is, as there is always a query at its
    // position.
    for (size_t n = 0; n < flags.values.size(); n++)
        flags.values[n] = n % keys == 0 || n % keys == keys - 1 || chance(12) ? (npy.descr == "|b1" ? 1 : 200) : 0;
    writeNpy(file("g.npy"), flags, npy);
    rules.global = {{batch, keys}, {}};
    for (size_t n = 0; n < batch * keys; n++) rules.global.values.push_back(flags.values[n % flags.values.size()]);
    add("--global-tokens", "g.npy");
}

void RulesRun::addPrefixes(const std::string &descr) {
    Array prefixes{{batch}, {}};
    for (size_t b = 0; b < batch; b++) prefixes.values.push_back(static_cast<double>(random() % (keys + 1)));
    rules.prefixes.assign(prefixes.values.begin(), prefixes.values.end());
    writeNpy(file("p.npy"), prefixes, {.descr = descr});
    add("--prefix-lengths", "p.npy");
}

void RulesRun::addOffsets(Offset query, Offset key) {
    rules.shifts.assign(batch, 0);
    const auto give = [&](const char *option, const std::string &name, Offset kind, long sign) {
        if (kind == Offset::none) return;
        const long number = static_cast<long>(random() % 60) - 20;
        Array offsets{{batch}, {}};
        for (size_t b = 0; b < batch; b++) {
            const long offset = kind == Offset::number ? number : static_cast<long>(random() % 80) - 30;
            offsets.values.push_back(static_cast<double>(offset));
            rules.shifts[b] += sign * offset;
        }
        if (kind != Offset::number) writeNpy(file(name), offsets, {.descr = chance(2) ? "<i4" : "<i8"});
        add(option, kind == Offset::number ? std::to_string(number) : name);
    };
    give("--query-offset", "qo.npy", query, 1), give("--key-offset", "ko.npy", key, -1);
}

void RulesRun::addNeighbourhood(const std::vector<long> &extent, const std::vector<long> &size, const std::string &border) {
    rules.grid = border, rules.extent = extent;
    rules.size = size.size() == 1 ? std::vector<long>(extent.size(), size[0]) : size;
    add("--neighbourhood", joined(extent, 'x') + ":" + joined(size, 'x'));
    if (border == "cut" || chance(2)) add("--border", border); // clamp is the default
}

void RulesRun::addWindows(const std::vector<long> &extent, const std::vector<long> &size, long shift) {
    rules.grid = "windows", rules.extent = extent, rules.shift = shift;
    rules.size = size.size() == 1 ? std::vector<long>(extent.size(), size[0]) : size;
    add("--windows", joined(extent, 'x') + ":" + joined(size, 'x') + (shift > 0 || chance(2) ? ":" + std::to_string(shift) : ""));
}

void RulesRun::addBigBird(long block, size_t randomBlocks, uint64_t seed) {
    const long n = (static_cast<long>(keys) + block - 1) / block;
    rules.blockQueries = rules.blockKeys = block;
    rules.blocks = {{heads, static_cast<size_t>(n), static_cast<size_t>(n)}, {}};
    for (size_t h = 0; h < heads; h++)
        for (long a = 0; a < n; a++) {
            std::vector<double> row;
            std::vector<size_t> columns; // that are left to draw from
            for (long c = 0; c < n; c++) {
                row.push_back(a == 0 || a == n - 1 || c == 0 || c == n - 1 || std::abs(c - a) <= 1);
                if (row.back() == 0) columns.push_back(static_cast<size_t>(c));
            }
            for (size_t t = 0; t < columns.size() && t < randomBlocks; t++) {
                // Word 0 of the counter (t, a, h, 0).
                const uint64_t u = randomWord({.seed = seed}, h, static_cast<uint64_t>(a), 4 * t);
                std::swap(columns[t], columns[t + static_cast<size_t>(u * (columns.size() - t) >> 32)]);
                row[columns[t]] = 1;
            }
            rules.blocks.values.insert(rules.blocks.values.end(), row.begin(), row.end());
        }
    add("--bigbird", std::to_string(block) + "," + std::to_string(randomBlocks) + "," + std::to_string(seed));
}

// A plane for each head, or one for all of them.
void RulesRun::addBlockMask(size_t dimensions, size_t planes, long blockQueries, long blockKeys, const std::string &descr) {
    const auto count = [](size_t tokens, long size) { return (tokens + static_cast<size_t>(size) - 1) / static_cast<size_t>(size); };
    std::vector<size_t> shape = {planes, count(queries, blockQueries), count(keys, blockKeys)};
    Array flags{shape, std::vector<double>(Array::count(shape))};
    for (double &flag : flags.values) flag = chance(2) ? 0 : descr == "|b1" ? 1 : 255;
    rules.blockQueries = blockQueries, rules.blockKeys = blockKeys;
    rules.blocks = {{heads, shape[1], shape[2]}, {}};
    for (size_t n = 0; n < heads * shape[1] * shape[2]; n++) rules.blocks.values.push_back(flags.values[n % flags.values.size()]);
    flags.shape.erase(flags.shape.begin(), flags.shape.end() - static_cast<std::ptrdiff_t>(dimensions));
    writeNpy(file("blocks.npy"), flags, {.descr = descr});
    add("--block-mask", "blocks.npy"), add("--block-size", joined({blockQueries, blockKeys}, ','));
}

// One batch entry has all keys, so that a length hides keys from the other alone.
void RulesRun::addKeyLengths() {
    keysOf = {static_cast<long>(keys), static_cast<long>(1 + random() % keys)};
    reference.keyLengths = keysOf;
    writeNpy(file("n.npy"), Array{{batch}, {keysOf.begin(), keysOf.end()}}, {.descr = "<i4"});
    others.insert(others.end(), {"--kv-lengths", "n.npy"});
}

// Token (z * rows + y) * columns + x.
bool RulesRun::isInBox(long position, long key) const {
    if (position < 0) return false;
    for (size_t axis = rules.extent.size(); axis-- > 0;) {
        const long extent = rules.extent[axis];
        if (!isInReach(rules, axis, position % extent, key % extent)) return false;
        position /= extent, key /= extent;
    }
    return position == 0; // otherwise the query stands behind the grid
}

bool RulesRun::isSeen(size_t b, size_t h, long i, long j) const {
    const long position = !rules.shifts.empty() ? i + rules.shifts[b] : rules.topLeft ? i : i + keysOf[b] - queriesOf[b];
    if (j >= keysOf[b]) return false;
    if (rules.causal && j > position && (rules.prefixes.empty() || j >= rules.prefixes[b])) return false;
    if (rules.window) {
        const long distance = j - position;
        const bool local = distance % rules.dilation == 0 && (rules.left < 0 || distance >= -rules.left * rules.dilation) &&
                           (rules.right < 0 || distance <= rules.right * rules.dilation);
        const auto isGlobal = [&](long token) {
            return !rules.global.values.empty() && token >= 0 && token < keysOf[b] &&
                   rules.global.values[b * keys + static_cast<size_t>(token)] != 0;
        };
        if (!local && !isGlobal(j) && !isGlobal(position)) return false;
    }
    if (!rules.grid.empty() && !isInBox(position, j)) return false;
    if (rules.blocks.values.empty()) return true;
    const auto row = static_cast<size_t>(i / rules.blockQueries), column = static_cast<size_t>(j / rules.blockKeys);
    return rules.blocks.values[(h * rules.blocks.shape[1] + row) * rules.blocks.shape[2] + column] != 0;
}

void RulesRun::checkRules() {
    std::string text;
    for (const Arguments *list : {&options, &others})
        for (const std::string &word : *list) text += word + " ";
    SCOPED_TRACE(text + "with " + std::to_string(queries) + " queries and " + std::to_string(keys) + " keys");
    reference.mask = Array{{batch, heads, queries, keys}, {}};
    for (size_t b = 0; b < batch; b++)
        for (size_t h = 0; h < heads; h++)
            for (size_t i = 0; i < queries; i++)
                for (size_t j = 0; j < keys; j++)
                    reference.mask->values.push_back(isSeen(b, h, static_cast<long>(i), static_cast<long>(j)));
    std::vector<const char *> files = {"o.npy", "lse.npy"};
    if (wantsWeights) files.push_back("w.npy");
    const auto results = [&](Arguments said) {
        said.insert(said.end(), others.begin(), others.end());
        check(said);
        std::vector<ReadArray> read;
        for (const char *name : files) read.push_back(readNpy(file(name)));
        return read;
    };
    const std::vector<ReadArray> byRules = results(options);
    if (HasFailure()) return;
    for (size_t n = 0; wantsWeights && n < reference.mask->values.size(); n++) {
        if (reference.mask->values[n] == 0) {
            ASSERT_EQ(byRules[2].values[n], 0) << "the weight of hidden pair " << n;
        }
    }
    writeNpy(file("full.npy"), *reference.mask, {.descr = "|b1"});
    const std::vector<ReadArray> byMask = results({"--mask", "full.npy"});
    for (size_t n = 0; n < files.size(); n++)
        for (size_t at = 0; at < byRules[n].values.size(); at++) {
            const double got = byRules[n].values[at], expected = byMask[n].values[at];
            if (std::isinf(expected))
                ASSERT_EQ(got, expected) << files[n] << ", element " << at << ", by rules and by mask";
            else
                ASSERT_NEAR(got, expected, 5e-6 * (1 + std::abs(expected))) << files[n] << ", element " << at << ", by rules and by mask";
        }
}

TEST_F(RulesRun, windowsCountStepsOfTheDilation) {
    for (const long dilation : {1, 2, 5})
        for (const auto &[left, right] : std::vector<std::pair<long, long>>{{2, 1}, {-1, 0}, {3, -1}, {-1, -1}}) {
            givenTokens(30 + random() % 20, 30 + random() % 20);
            addWindow(left, right, dilation);
            if (chance(2))
                addCausal(chance(2));
            else if (chance(2))
                addTopLeft();
            if (chance(2)) addKeyLengths();
            checkRules();
        }
    givenTokens(31, 33);
    addWindow(1000, 1000, 1048576); // the most: each query sees itself
    checkRules();
}

TEST_F(RulesRun, globalTokensSeeAndAreSeen) {
    for (const bool fortran : {false, true})
        for (const std::string descr : {"|b1", "|u1"}) {
            for (const bool perEntry : {false, true}) {
                givenTokens(35, 67);
                addWindow(2, 1, 1 + static_cast<long>(random() % 3));
                addGlobalTokens({perEntry ? batch : 1, keys}, {.descr = descr, .fortran = fortran});
                if (perEntry) addKeyLengths();
                checkRules();
            }
            // More queries than keys: those that stand beside the keys are not global.
            givenTokens(48, 40);
            addWindow(1, 1, 2);
            addGlobalTokens({keys}, {.descr = descr, .fortran = fortran});
            if (fortran) addTopLeft();
            if (descr == "|u1") addKeyLengths();
            checkRules();
        }
}

TEST_F(RulesRun, prefixesShowWhatCausalHides) {
    for (const std::string descr : {"<i4", "<i8"})
        for (const bool topLeft : {false, true})
            for (const auto &[queryTokens, keyTokens] : std::vector<std::pair<size_t, size_t>>{{40, 40}, {33, 50}, {50, 33}}) {
                givenTokens(queryTokens, keyTokens);
                addCausal(topLeft);
                addPrefixes(descr);
                if (chance(2)) addKeyLengths();
                if (chance(2)) addWindow(6, 6, 1); // hides keys of the prefix too
                checkRules();
            }
}

TEST_F(RulesRun, offsetsStandInPlaceOfAlignments) {
    using enum Offset;
    for (const auto &[query, key] :
         std::vector<std::pair<Offset, Offset>>{{number, none}, {array, none}, {number, number}, {array, array}, {none, array}})
        for (const bool topLeft : {false, true}) {
            givenTokens(chance(2) ? 40 : 1, 50);
            addCausal(topLeft); // either word switches causal on, and no more
            addOffsets(query, key);
            if (chance(2)) addKeyLengths();
            if (chance(2)) addWindow(9, 3, chance(2) ? 2 : 1);
            checkRules();
            givenTokens(48, 48);
            addNeighbourhood({6, 8}, {3, 3}, "clamp");
            addOffsets(query, key);
            checkRules();
        }
}

// The rows of a prompt in two parts are those of the prompt.
TEST_F(RulesRun, offsetsOfAPromptInParts) {
    const size_t tokens = 37, first = 21, dim = 8;
    given({1, 2, tokens, dim}, {1, 2, tokens, dim}, {1, 2, tokens, dim});
    const auto run = [&](const Arguments &said) {
        const Outcome outcome = tool(onCpu(said));
        EXPECT_EQ(outcome.status, 0) << outcome.err;
    };
    run({"--causal", "bottom-right"});
    const ReadArray whole = readNpy(file("o.npy"));
    Array rest{{1, 2, tokens - first, dim}, {}};
    for (size_t h = 0; h < 2; h++)
        for (size_t n = first * dim; n < tokens * dim; n++) rest.values.push_back(q.values[h * tokens * dim + n]);
    writeNpy(file("q.npy"), rest, {});
    run({"--causal", "top-left", "--query-offset", std::to_string(first)});
    const ReadArray part = readNpy(file("o.npy"));
    const size_t own = (tokens - first) * dim;
    ASSERT_EQ(part.values.size(), 2 * own);
    for (size_t n = 0; n < part.values.size(); n++)
        ASSERT_NEAR(part.values[n], whole.values[n / own * tokens * dim + first * dim + n % own], 1e-6) << n;
}

TEST_F(RulesRun, offsetsAreClamped) {
    givenTokens(40, 40);
    addCausal(false);
    addOffsets(Offset::array, Offset::none);
    writeNpy(file("qo.npy"), Array{{2}, {1e18, -1e18}}, {.descr = "<i8"});
    rules.shifts = {1 << 28, -(1 << 28)}; // all keys, and none
    checkRules();
    EXPECT_NE(tool(onCpu(options))
                  .err.find("note: qo.npy: 2 of 2 offsets lie outside [-268435456, 268435456] and were clamped, first "
                            "1000000000000000000 of batch entry 0 to 268435456"),
              std::string::npos);
}

TEST_F(RulesRun, prefixesAreClamped) {
    givenTokens(40, 40);
    addCausal(false);
    addPrefixes();
    for (const auto &[outside, text] : std::vector<std::pair<double, std::string>>{{-3, "-3"}, {-2147483648.0, "-2147483648"}}) {
        writeNpy(file("p.npy"), Array{{2}, {outside, 41}}, {.descr = "<i4"});
        rules.prefixes = {0, 40};
        checkRules();
        Arguments clamped = options;
        clamped.insert(clamped.end(), others.begin(), others.end());
        const std::string err = tool(onCpu(clamped)).err;
        EXPECT_NE(
            err.find("note: p.npy: 2 of 2 prefix lengths lie outside [0, 40] and were clamped, first " + text + " of batch entry 0 to 0\n"),
            std::string::npos)
            << err;
    }
    writeNpy(file("p.npy"), Array{{2}, {7, 1e18}}, {.descr = "<i8"});
    rules.prefixes = {7, 40};
    checkRules();
    EXPECT_NE(tool(onCpu(options)).err.find("1 of 2 prefix lengths lie outside [0, 40]"), std::string::npos);
    writeNpy(file("p.npy"), Array{{2}, {0, 40}}, {.descr = "<i4"});
    EXPECT_EQ(tool(onCpu(options)).err, "");
}

TEST_F(RulesRun, neighbourhoodsOfAGrid) {
    const std::vector<std::pair<std::vector<long>, std::vector<long>>> grids = {
        {{6, 7}, {3}}, {{5, 9}, {5}}, {{8, 8}, {3, 7}}, {{7, 7}, {7}}, {{1, 33}, {1, 5}}, {{3, 4, 5}, {3}}, {{2, 5, 6}, {1, 5, 3}}};
    for (const auto &[extent, size] : grids)
        for (const std::string border : {"clamp", "cut"}) {
            size_t tokens = 1;
            for (const long each : extent) tokens *= static_cast<size_t>(each);
            givenTokens(tokens, tokens);
            addNeighbourhood(extent, size, border);
            if (chance(3)) addCausal(chance(2));
            if (chance(3)) addKeyLengths();
            checkRules();
        }
    for (const size_t queryTokens : {29u, 50u}) { // the queries are the last tokens
        givenTokens(queryTokens, 42);
        addNeighbourhood({6, 7}, {3}, "clamp");
        checkRules();
    }
    givenTokens(35, 35);
    addNeighbourhood({5, 7}, {9}, "cut"); // wider than the grid
    checkRules();
}

TEST_F(RulesRun, windowsOfAGrid) {
    struct Case {
        std::vector<long> extent, size;
        long shift;
    };
    const std::vector<Case> cases = {{{6, 8}, {2}, 0},  {{6, 8}, {2}, 1},          {{7, 9}, {4}, 0},         {{7, 9}, {4}, 2},
                                     {{5, 11}, {3}, 2}, {{8, 8}, {2, 4}, 1},       {{5, 7}, {9}, 3},         {{3, 4, 5}, {2}, 1},
                                     {{5, 7}, {9}, 8},  {{2, 5, 6}, {1, 4, 3}, 2}, {{4, 5, 3}, {2, 2, 3}, 0}};
    for (const Case &each : cases) {
        size_t tokens = 1;
        for (const long extent : each.extent) tokens *= static_cast<size_t>(extent);
        givenTokens(tokens, tokens);
        addWindows(each.extent, each.size, each.shift);
        if (chance(3)) addCausal(chance(2));
        if (chance(3)) addKeyLengths();
        checkRules();
    }
}

TEST_F(RulesRun, bigBirdDrawsForEachHead) {
    for (const long block : {1, 3, 4, 8, 64})
        for (const size_t randomBlocks : {0u, 1u, 3u, 64u}) {
            const size_t tokens = 40 + random() % 31; // most often no multiple of the block
            givenTokens(tokens, tokens);
            addBigBird(block, randomBlocks, chance(2) ? random() : random() % 10);
            if (chance(3)) addCausal(chance(2));
            if (chance(3)) addKeyLengths();
            checkRules();
        }
    givenTokens(60, 60);
    addBigBird(4, 2, 18446744073709551615u);
    checkRules();
}

TEST_F(RulesRun, blockMasks) {
    for (const auto &[blockQueries, blockKeys] : std::vector<std::pair<long, long>>{{1, 1}, {8, 8}, {5, 16}, {32, 7}, {64, 128}})
        for (const auto &[dimensions, planes] : std::vector<std::pair<size_t, size_t>>{{2, 1}, {3, 1}, {3, heads}}) {
            givenTokens(30 + random() % 40, 30 + random() % 40);
            addBlockMask(dimensions, planes, blockQueries, blockKeys, chance(2) ? "|b1" : "|u1");
            if (chance(3)) addCausal(chance(2));
            if (chance(3)) addKeyLengths();
            checkRules();
        }
}

TEST_F(RulesRun, raggedSequences) {
    const std::vector<long> cuQ = {0, 13, 45, 60}, cuK = {0, 35, 50, 66};
    givenSequences(cuQ, cuK);
    addWindow(2, 3, 2);
    addGlobalTokens({batch, keys});
    checkRules();
    givenSequences(cuQ, cuK);
    addCausal(false);
    addPrefixes();
    checkRules();
    givenSequences(cuQ, cuK);
    addNeighbourhood({5, 7}, {3}, "clamp");
    checkRules();
    givenSequences(cuQ, cuK);
    addBlockMask(3, heads, 8, 4);
    checkRules();
    givenSequences(cuK, cuK);
    addBigBird(4, 1, 7);
    checkRules();
}

// A grid has as many tokens as there are keys, and BigBird as many queries.
void RulesRun::drawRules(size_t largest) {
    const bool grid = chance(2), bigBird = chance(3);
    const long rows = static_cast<long>(extent(8)), columns = static_cast<long>(extent(largest / 8));
    const size_t keyTokens = grid ? static_cast<size_t>(rows * columns) : extent(largest);
    givenTokens(bigBird ? keyTokens : extent(largest), keyTokens);
    const bool topLeft = chance(2) && !(grid && queries > keys);
    if (chance(2)) addCausal(topLeft);
    if (rules.causal && chance(2)) addPrefixes();
    if (chance(2)) {
        if (!rules.causal && topLeft) addTopLeft();
        addWindow(static_cast<long>(random() % 6) - 1, static_cast<long>(random() % 6) - 1, static_cast<long>(extent(4)));
        if (chance(2)) addGlobalTokens({batch, keys});
    }
    const long odd = 1 + 2 * static_cast<long>(random() % 3);
    if (grid && chance(2))
        addNeighbourhood({rows, columns}, {odd}, odd <= std::min(rows, columns) && chance(2) ? "clamp" : "cut");
    else if (grid)
        addWindows({rows, columns}, {odd + 1}, static_cast<long>(random() % static_cast<uint64_t>(odd + 1)));
    if (bigBird)
        addBigBird(static_cast<long>(extent(8)), random() % 4, random());
    else if (chance(2))
        addBlockMask(3, heads, static_cast<long>(extent(16)), static_cast<long>(extent(16)));
}

// The first failure ends the test and says which case it is.
void RulesRun::checkCombinations(int count, size_t largest) {
    for (int n = 0; n < count && !HasFailure(); n++) {
        drawRules(largest);
        if (chance(3)) addKeyLengths();
        if (chance(3)) givenSinks(heads), others.insert(others.end(), {"--sinks", "sinks.npy"});
        if (chance(3)) reference.softcap = 2.5, others.insert(others.end(), {"--softcap", "2.5"});
        if (chance(3)) {
            reference.bias = randomArray(random, {queries, keys});
            for (double &value : reference.bias->values) value = chance(6) ? -INFINITY : value;
            writeNpy(file("b.npy"), *reference.bias);
            others.insert(others.end(), {"--bias", "b.npy"});
        }
        if (chance(4)) {
            reference.dropout = 0.25, reference.seed = random();
            others.insert(others.end(), {"--dropout", "0.25", "--seed", std::to_string(reference.seed)});
        }
        wantsWeights = chance(2); // only the staged kernel has them
        SCOPED_TRACE("case " + std::to_string(n));
        checkRules();
    }
}

TEST_F(RulesRun, combinations) {
    checkCombinations(40, 64);
}

// The same on the first Vulkan device, which must not fall back. tests/device/CMakeLists.txt runs
// this test on every driver.
class RulesOnDriver : public RulesRun {};
TEST_F(RulesOnDriver, everyRuleAndCombinations) {
    if (!hasTestedDevice()) return;
    // A software driver compiles small tiles faster.
    std::ofstream(file("small.txt")) << "vkattn-tuning 1\n"
                                        "flash maxDim=512 rowLanes=8 rowsPerLane=1 keysPerLane=1\n"
                                        "decode maxDim=512 dimLanes=4 keyLanes=2 rowsPerLane=1 keysPerLane=1\n";
    where = {"--device", "0", "--no-fallback", "--tuning", file("small.txt").string()};
    // Weights are those of the staged kernel.
    const auto checkNext = [&] {
        checkRules();
        wantsWeights = !wantsWeights;
        if (vkattn::test::fullExtent()) checkRules();
    };
    givenTokens(37, 45);
    addWindow(2, 1, 3);
    addGlobalTokens({batch, keys});
    checkNext();
    givenTokens(40, 40);
    addCausal(false);
    addPrefixes();
    addKeyLengths();
    checkNext();
    for (const std::string border : {"clamp", "cut"}) {
        givenTokens(42, 42);
        addNeighbourhood({6, 7}, {3, 5}, border);
        checkNext();
    }
    givenTokens(63, 63);
    addWindows({7, 9}, {4}, 2);
    checkNext();
    givenTokens(50, 50);
    addBigBird(4, 2, random());
    checkNext();
    givenTokens(33, 47);
    addBlockMask(3, heads, 8, 5);
    checkNext();
    checkCombinations(vkattn::test::fullExtent() ? 40 : 4, 40);
}

// Second projections of global tokens: their rows are those of the reference with these arrays and without a window, all others those with
// the first ones.
class GlobalProjections : public RulesRun {
  protected:
    // The rows of global tokens come from `global`, the others from `ordinary`.
    void compareRows(const ReferenceResult &ordinary, const ReferenceResult &global, const Arguments &more) {
        Arguments all = {"run",     "--q",      "q.npy", "--k",        "k.npy",  "--v",        "v.npy",  "--out",      "o.npy", "--lse",
                         "lse.npy", "--verify", "all",   "--q-global", "qg.npy", "--k-global", "kg.npy", "--v-global", "vg.npy"};
        all.insert(all.end(), where.begin(), where.end());
        all.insert(all.end(), more.begin(), more.end());
        const Outcome outcome = tool(all);
        ASSERT_EQ(outcome.status, 0) << outcome.err << outcome.out;
        const ReadArray out = readNpy(file("o.npy")), lse = readNpy(file("lse.npy"));
        const size_t dims = v.shape.back();
        ASSERT_EQ(out.values.size(), ordinary.out.values.size());
        size_t globals = 0;
        for (size_t row = 0; row < lse.values.size(); ++row) {
            const size_t b = row / (heads * queries), i = row % queries;
            const long position = static_cast<long>(i) + static_cast<long>(keys) - static_cast<long>(queries);
            const bool isGlobal = position >= 0 && rules.global.values[b * keys + static_cast<size_t>(position)] != 0;
            globals += isGlobal ? 1 : 0;
            const ReferenceResult &expected = isGlobal ? global : ordinary;
            ASSERT_NEAR(lse.values[row], expected.lse.values[row], 1e-5) << "row " << row;
            for (size_t d = 0; d < dims; ++d)
                ASSERT_NEAR(out.values[row * dims + d], expected.out.values[row * dims + d], 1e-5) << "row " << row << ", dim " << d;
        }
        ASSERT_GT(globals, 0u);
    }
};
TEST_F(GlobalProjections, serveTheRowsOfGlobalTokens) {
    givenTokens(21, 27);
    const std::vector<size_t> shapes[] = {q.shape, k.shape, v.shape};
    Array own[3];
    const char *const names[] = {"qg.npy", "kg.npy", "vg.npy"};
    for (int n = 0; n < 3; ++n) writeNpy(file(names[n]), own[n] = randomArray(random, shapes[n]), {.descr = "<f8"});
    addWindow(2, 2, 1);
    addGlobalTokens({batch, keys});
    // Beside what else hides keys and changes scores.
    Array mask{{batch, 1, queries, keys}, {}}, bias{{1, heads, 1, keys}, {}};
    for (size_t n = 0; n < batch * queries * keys; ++n) mask.values.push_back(chance(5) ? 0 : 1);
    for (size_t n = 0; n < heads * keys; ++n) bias.values.push_back(static_cast<double>(static_cast<int>(n % 9)) * 0.25 - 1);
    writeNpy(file("mask.npy"), mask, {.descr = "|b1"});
    writeNpy(file("bias.npy"), bias, {.descr = "<f4"});
    const std::vector<double> slopes = {0.5, 0.25, 0.125, 0.0625};
    writeNpy(file("slopes.npy"), Array{{heads}, slopes}, {.descr = "<f4"});
    const auto isGlobal = [&](size_t b, long token) {
        return token >= 0 && token < static_cast<long>(keys) && rules.global.values[b * keys + static_cast<size_t>(token)] != 0;
    };
    ReferenceOptions with;
    with.bias = bias;
    with.alibi = slopes;
    with.softcap = 3;
    ReferenceOptions ordinary = with, global = with;
    ordinary.mask = global.mask = mask;
    for (size_t b = 0; b < batch; ++b)
        for (size_t i = 0; i < queries; ++i)
            for (size_t j = 0; j < keys; ++j) {
                const long position = static_cast<long>(i) + static_cast<long>(keys) - static_cast<long>(queries);
                const bool near = std::abs(static_cast<long>(j) - position) <= 2;
                if (!near && !isGlobal(b, static_cast<long>(j)) && !isGlobal(b, position))
                    ordinary.mask->values[(b * queries + i) * keys + j] = 0;
            }
    const Arguments more = {"--window", "2,2",      "--global-tokens", "g.npy",      "--mask",    "mask.npy",
                            "--bias",   "bias.npy", "--alibi",         "slopes.npy", "--softcap", "3"};
    compareRows(referenceAttention(q, k, v, ordinary), referenceAttention(own[0], own[1], own[2], global), more);
    if (hasTestedDevice()) {
        where = {"--device", "0", "--no-fallback"};
        compareRows(referenceAttention(q, k, v, ordinary), referenceAttention(own[0], own[1], own[2], global), more);
    }
}

} // namespace
