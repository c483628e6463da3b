// Rules of visibility on the CPU: the same problem with a full boolean mask, which is built apart, has the
// same visible pairs and the same results; pair counts that were computed elsewhere; bits.
#include "conform/cases/base_case.hpp"
#include "conform/cases/case_text.hpp"
#include "support/rule_mask.hpp"
#include "vkattn/cpu.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <numeric>

using namespace vkattn;
using namespace vkattn::test;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

std::string verified(const vkattn_problem &problem, const std::vector<vkattn_operand_memory> &operands) {
    vkattn_verify_options options{};
    options.structSize = sizeof options;
    options.allRows = 1;
    vkattn_verify_report report{};
    vkattn_diagnostic why{};
    if (vkattnCpuVerify(&problem, operands.data(), static_cast<uint32_t>(operands.size()), &options, &report, &why)) return why.message;
    if (report.passed) return {};
    return "[" + std::to_string(report.worstIndex[0]) + ", " + std::to_string(report.worstIndex[1]) + ", " +
           std::to_string(report.worstIndex[2]) + ", " + std::to_string(report.worstIndex[3]) + "]: " + std::to_string(report.worstGot) +
           ", expected " + std::to_string(report.worstExpected);
}

// What is not said by rules may hide pairs as well: lengths, documents and the bias.
void expectSamePairs(const CaseData &data, const MaskedProblem &masked, const std::string &name) {
    const uint32_t heads = data.problem.q.extent[1], keys = masked.problem.mask.extent[3];
    for (uint32_t b = 0; b < data.spans.size(); ++b)
        for (uint32_t h = 0; h < heads; ++h)
            for (uint32_t i = 0; i < data.spans[b].queries; ++i) {
                std::vector<unsigned char> byRules(keys), byMask(keys);
                vkattn_diagnostic why{};
                const auto ask = [&](const vkattn_problem &p, const std::vector<vkattn_operand_memory> &operands, auto &out) {
                    ASSERT_EQ(
                        vkattnCpuVisible(&p, operands.data(), static_cast<uint32_t>(operands.size()), b, h, i, out.data(), keys, &why),
                        VKATTN_OK)
                        << name << ": " << why.message;
                };
                ask(data.problem, data.operands, byRules);
                ask(masked.problem, masked.operands, byMask);
                ASSERT_EQ(byRules, byMask) << name << ", sequence " << b << ", head " << h << ", query " << i;
            }
}

// The CPU's results are those of the same problem with a full mask.
void expectThatOfAFullMask(CaseData &data) {
    const MaskedProblem masked(data);
    const Outputs before = data.outputs();
    vkattn_diagnostic why{};
    ASSERT_EQ(vkattnCpuRun(&data.problem, data.operands.data(), static_cast<uint32_t>(data.operands.size()), 2, &why), VKATTN_OK)
        << caseText(data.c) << ": " << why.message;
    ASSERT_EQ(verified(masked.problem, masked.operands), "") << caseText(data.c);
    ASSERT_EQ(data.damage(before), "") << caseText(data.c);
}

TEST(Rules, areTheSameProblemWithAFullMask) {
    Random random = randomFor("rules");
    for (uint32_t number = 0; number < 400; ++number) {
        const Case c = drawRules(random, number);
        ASSERT_EQ(whyImpossible(c), "") << caseText(c);
        const std::unique_ptr<CaseData> data = makeCaseData(c, random);
        vkattn_diagnostic why{};
        ASSERT_EQ(vkattnValidateProblem(&data->problem, &why), VKATTN_OK) << caseText(c) << ": " << why.message;
        expectSamePairs(*data, MaskedProblem(*data), caseText(c));
        ASSERT_NO_FATAL_FAILURE(expectThatOfAFullMask(*data));
        ASSERT_EQ(verified(data->problem, data->operands), "") << caseText(c);
    }
}

// The pairs that the oracle shows to all queries of a square problem.
uint64_t pairsOf(vkattn_problem p, uint32_t n, std::vector<vkattn_operand_memory> operands) {
    p.structSize = sizeof p;
    const vkattn_layout layout = {VKATTN_F32, {1, 1, n, 1}, {n, n, 1, 1}, 0};
    p.q = p.k = p.v = p.out = layout;
    std::vector<float> values(n);
    for (const vkattn_role role : {VKATTN_Q, VKATTN_K, VKATTN_V, VKATTN_OUT}) operands.push_back({role, values.data(), values.size() * 4});
    uint64_t pairs = 0;
    for (uint32_t i = 0; i < n; ++i) {
        std::vector<unsigned char> seen(n);
        vkattn_diagnostic why{};
        EXPECT_EQ(vkattnCpuVisible(&p, operands.data(), static_cast<uint32_t>(operands.size()), 0, 0, i, seen.data(), n, &why), VKATTN_OK)
            << why.message;
        pairs += static_cast<uint64_t>(std::count(seen.begin(), seen.end(), 1));
    }
    return pairs;
}

// Longformer, 64 tokens, 4 to each side: counts computed in Python from the paper's formula.
TEST(Rules, longformerHasAsManyPairsAsThePaperSays) {
    struct Count {
        uint32_t dilation;
        std::vector<uint32_t> global;
        uint64_t pairs;
    };
    for (const Count &each : {Count{1, {}, 556}, {1, {0}, 674}, {1, {0, 31}, 782}, {2, {}, 536}, {2, {0}, 654}, {2, {0, 31}, 762}}) {
        vkattn_problem p{};
        p.flags = VKATTN_WINDOW;
        p.windowLeft = p.windowRight = 4;
        p.dilation = each.dilation;
        p.presentRoles = VKATTN_PRESENT(VKATTN_GLOBAL_TOKENS);
        uint32_t bits[2] = {};
        for (const uint32_t token : each.global) bits[token / 32] |= 1u << token % 32;
        EXPECT_EQ(pairsOf(p, 64, {{VKATTN_GLOBAL_TOKENS, bits, sizeof bits}}), each.pairs)
            << each.dilation << ", " << each.global.size() << " global tokens";
    }
}

TEST(Rules, bigBirdHasAsManyBlocksAsThePaperSays) {
    vkattn_problem p{};
    p.blocks.kind = VKATTN_BLOCKS_BIGBIRD;
    p.blocks.queries = 1; // a token is a block: pairs are blocks
    p.blocks.random = 3;
    for (const uint64_t seed : {0ull, 1ull, 0x123456789abcdefull}) {
        p.blocks.seed = seed;
        EXPECT_EQ(pairsOf(p, 64, {}), 622u) << seed; // 2 * 64 + 2 * 7 + 60 * 8
    }
    p.blocks.random = 0;
    EXPECT_EQ(pairsOf(p, 1, {}), 1u);
    EXPECT_EQ(pairsOf(p, 2, {}), 4u);
    EXPECT_EQ(pairsOf(p, 3, {}), 9u);
}

// A clamped neighbourhood has the same size everywhere; one that is cut has less at borders.
TEST(Rules, neighbourhoodsHaveTheirSizes) {
    vkattn_problem p{};
    p.grid.extent[1] = 7, p.grid.extent[2] = 9;
    p.grid.size[1] = 5, p.grid.size[2] = 3;
    p.grid.rule = VKATTN_GRID_CLAMPED;
    EXPECT_EQ(pairsOf(p, 63, {}), 63u * 15);
    p.grid.rule = VKATTN_GRID_CUT;
    // Rows of 7: 3 + 4 + 5 + 5 + 5 + 4 + 3; columns of 9: 2 + 7 * 3 + 2.
    EXPECT_EQ(pairsOf(p, 63, {}), 29u * 25);
    p.grid.rule = VKATTN_GRID_WINDOWS;
    p.grid.shift[1] = 2, p.grid.shift[2] = 1;
    // Windows of 2 and 5 rows, of 1, 3, 3 and 2 columns.
    EXPECT_EQ(pairsOf(p, 63, {}), (4u + 25) * (1u + 9 + 9 + 4));
}

// On the CPU too, queries of a grid are computed in patches, with whatever else there is.
TEST(Rules, gridsAreComputedInPatches) {
    Random random = randomFor("patches");
    for (uint32_t number = 0; number < 60; ++number) {
        Case c = drawRules(random, number % 2 ? 3 : 4); // grid or volume
        c.ragged = c.lengths = c.deterministic = c.globalTokens = false, c.blocks = Blocks::none, c.dilation = 0;
        c.gridPlanes = number % 2 ? 1 : conform::between(random, 2, 3);
        c.gridRows = conform::between(random, 1, 14);
        const uint32_t least = 65 / (c.gridPlanes * c.gridRows) + 1;
        c.queryTokens = c.keyTokens = c.gridPlanes * c.gridRows * conform::between(random, least, least + 20);
        const auto odd = [&](uint32_t most) { return 2 * conform::between(random, 0, most / 2) + 1; };
        c.sizePlanes = odd(3), c.sizeRows = odd(9), c.sizeColumns = odd(31);
        c.weights = number % 3 == 0;
        if (number % 3 == 1) c.k = c.v = VKATTN_F16; // rows are copied as floats
        conform::makeAgree(c);
        ASSERT_EQ(whyImpossible(c), "") << caseText(c);
        const std::unique_ptr<CaseData> data = makeCaseData(c, random);
        ASSERT_NE(data->problem.grid.rule, VKATTN_GRID_NONE) << caseText(c);
        // A value that only those who see it may take into account: a patch computes keys that some of its queries do not see.
        if (number % 4 == 1) data->v.set(0, 0, conform::between(random, 0, c.keyTokens - 1), 0, number % 8 == 1 ? infinity : std::nanf(""));
        ASSERT_NO_FATAL_FAILURE(expectThatOfAFullMask(*data));
    }
}

// Rows of one row of blocks see the same keys, with whatever hides some of them: of blocks as long as a unit of rows of the CPU
// and as a tile of keys, shorter, and longer.
TEST(Rules, blocksShowManyRowsTheSameKeys) {
    Random random = randomFor("runs of blocks");
    for (uint32_t number = 0; number < 60; ++number) {
        Case c = drawRules(random, 5); // blocks
        c.ragged = c.deterministic = c.globalTokens = c.window = false, c.grid = Grid::none, c.dilation = 0;
        c.blocks = number % 4 == 0 ? Blocks::bigBird : number % 4 == 1 ? Blocks::lists : Blocks::mask;
        c.blockQueries = conform::between(random, 16, 140), c.blockKeys = conform::between(random, 14, 140);
        if (c.blocks == Blocks::bigBird) c.blockQueries = c.blockKeys = conform::between(random, 16, 50);
        c.queryTokens = conform::between(random, 100, 300), c.keyTokens = conform::between(random, 150, 500);
        c.weights = number % 3 == 0;
        c.causal = number % 2 == 0;
        conform::makeAgree(c);
        ASSERT_EQ(whyImpossible(c), "") << caseText(c);
        const std::unique_ptr<CaseData> data = makeCaseData(c, random);
        ASSERT_NE(data->problem.blocks.kind, VKATTN_BLOCKS_NONE) << caseText(c);
        ASSERT_NO_FATAL_FAILURE(expectThatOfAFullMask(*data));
    }
}

// Without a global token and with neighbours, every bit is that of the window.
TEST(Rules, aRuleThatAddsNothingChangesNoBit) {
    Random random = randomFor("no rule");
    for (uint32_t number = 0; number < 20; ++number) {
        Case c = drawRules(random, 1); // global tokens
        c.blocks = Blocks::none, c.grid = Grid::none, c.dilation = 0, c.lse = true;
        const std::unique_ptr<CaseData> data = makeCaseData(c, random);
        std::fill(data->globals.begin(), data->globals.end(), 0u);
        vkattn_problem plain = data->problem;
        plain.presentRoles &= ~VKATTN_PRESENT(VKATTN_GLOBAL_TOKENS);
        plain.flags |= VKATTN_DETERMINISTIC;
        data->problem.flags |= VKATTN_DETERMINISTIC;
        std::vector<vkattn_operand_memory> operands = data->operands;
        std::erase_if(operands, [](const vkattn_operand_memory &each) { return each.role == VKATTN_GLOBAL_TOKENS; });
        const auto bytes = [&](const vkattn_problem &p, const std::vector<vkattn_operand_memory> &memory) {
            vkattn_diagnostic why{};
            EXPECT_EQ(vkattnCpuRun(&p, memory.data(), static_cast<uint32_t>(memory.size()), 2, &why), VKATTN_OK) << why.message;
            return std::vector<unsigned char>(data->out.data(), data->out.data() + data->out.bytes());
        };
        const std::vector<unsigned char> expected = bytes(plain, operands), got = bytes(data->problem, data->operands);
        EXPECT_EQ(got, expected) << caseText(c);
    }
}

} // namespace
