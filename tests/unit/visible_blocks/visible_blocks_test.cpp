// Lists of visible blocks on the CPU: drawn cases against the oracle, lists that are known, and what is refused
// of a description.
#include "cpu/targets.hpp"

#include "conform/visible_blocks/visible_blocks_case.hpp"
#include "cpu/visible_blocks/work.hpp"
#include "support/extent.hpp"
#include "unit/cpu/cpu_runs.hpp"

#include <functional>
#include <gtest/gtest.h>
#include <hwy/targets.h>

using namespace vkattn;
using namespace vkattn::test;

namespace {

struct Listed {
    std::vector<uint32_t> counts, indices, fullCounts, fullIndices;
};

// Of one head and batch entry, by the kernels and by the oracle, which agree.
Listed listsOf(const vkattn_problem &p, uint32_t queries, uint32_t keys, std::vector<vkattn_operand_memory> inputs = {}) {
    vkattn_visible_blocks v = visibleBlocks(p, queries, keys);
    const vkattn_operation o = operation(v);
    Listed both[2];
    for (int oracle = 0; oracle < 2; ++oracle) {
        Listed &l = both[oracle];
        std::vector<vkattn_operand_memory> memory = inputs;
        const auto add = [&](vkattn_role role, std::vector<uint32_t> &words) {
            words.assign(vkattnOperationBytes(&o, role) / 4, 0xffffffffu);
            memory.push_back({role, words.data(), 4 * words.size()});
        };
        add(VKATTN_BLOCK_COUNTS, l.counts), add(VKATTN_BLOCK_INDICES, l.indices);
        add(VKATTN_FULL_BLOCK_COUNTS, l.fullCounts), add(VKATTN_FULL_BLOCK_INDICES, l.fullIndices);
        if (oracle)
            runOracleOf(o, memory, "");
        else
            runOnCpu(o, memory, 2, "");
    }
    EXPECT_EQ(both[0].counts, both[1].counts);
    EXPECT_EQ(both[0].indices, both[1].indices);
    EXPECT_EQ(both[0].fullCounts, both[1].fullCounts);
    EXPECT_EQ(both[0].fullIndices, both[1].fullIndices);
    return both[0];
}

vkattn_problem tokens(uint32_t queries, uint32_t keys) {
    vkattn_problem p{};
    p.structSize = sizeof p;
    p.q = packed(VKATTN_F32, 1, 1, queries, 8);
    p.k = packed(VKATTN_F32, 1, 1, keys, 8);
    return p;
}

constexpr uint32_t kept = 0xffffffffu; // behind the end of a list

} // namespace

class VisibleBlocksOf : public ::testing::TestWithParam<int64_t> {
    void SetUp() override {
        hwy::SetSupportedTargetsForTest(GetParam());
        hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    }
    void TearDown() override {
        hwy::SetSupportedTargetsForTest(0);
        hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    }
};

TEST_P(VisibleBlocksOf, areThoseOfTheOracleForAnyNumberOfThreads) {
    Random random = randomFor("visible blocks");
    for (int n = 0; n < (fullExtent() ? 400 : 80) && !HasFailure(); ++n) {
        const VisibleBlocksCase drawn = drawVisibleBlocks(random, randomCase(random, between(random, 0, 8)));
        for (uint32_t threads = 0; threads <= 3; ++threads) {
            VisibleBlocksCase one = drawn;
            run(one, threads);
            EXPECT_EQ(one.wrong(drawn), "") << n << ", " << threads << " threads: " << one.text();
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Targets, VisibleBlocksOf, ::testing::ValuesIn(hwy::SupportedAndGeneratedTargets()),
                         [](const auto &target) { return std::string(hwy::TargetName(target.param)); });

TEST(VisibleBlocks, ofCausalAttention) {
    vkattn_problem p = tokens(8, 8);
    p.flags = VKATTN_CAUSAL;
    const Listed l = listsOf(p, 2, 4);
    EXPECT_EQ(l.counts, (std::vector<uint32_t>{1, 1, 1, 1}));
    EXPECT_EQ(l.indices, (std::vector<uint32_t>{0, kept, 0, kept, 1, kept, 1, kept})); // row 1 sees keys 0 to 3, but query 2 not key 3
    EXPECT_EQ(l.fullCounts, (std::vector<uint32_t>{0, 0, 1, 1}));
    EXPECT_EQ(l.fullIndices, (std::vector<uint32_t>{kept, kept, kept, kept, 0, kept, 0, kept}));
}

// What ends inside a block makes no full block of a short one, but tokens that there are not do not count.
TEST(VisibleBlocks, ofShortBlocksAndKeyLengths) {
    vkattn_problem p = tokens(3, 5);
    const Listed all = listsOf(p, 2, 4);
    EXPECT_EQ(all.counts, (std::vector<uint32_t>{0, 0}));
    EXPECT_EQ(all.fullCounts, (std::vector<uint32_t>{2, 2}));
    EXPECT_EQ(all.fullIndices, (std::vector<uint32_t>{0, 1, 0, 1}));
    p.presentRoles = VKATTN_PRESENT(VKATTN_KEY_LENGTHS);
    uint32_t length = 3;
    const Listed fewer = listsOf(p, 2, 4, {{VKATTN_KEY_LENGTHS, &length, 4}});
    EXPECT_EQ(fewer.counts, (std::vector<uint32_t>{1, 1}));
    EXPECT_EQ(fewer.indices, (std::vector<uint32_t>{0, kept, 0, kept}));
    EXPECT_EQ(fewer.fullCounts, (std::vector<uint32_t>{0, 0}));
    length = 0;
    EXPECT_EQ(listsOf(p, 2, 4, {{VKATTN_KEY_LENGTHS, &length, 4}}).counts, (std::vector<uint32_t>{0, 0}));
}

// Queries past the last token of the grid see nothing, and what the ones before them see stays.
TEST(VisibleBlocks, ofQueriesPastAGrid) {
    vkattn_problem p = tokens(16, 5);
    p.flags = VKATTN_ALIGN_TOP_LEFT;
    p.grid = {VKATTN_GRID_CUT, {1, 1, 5}, {1, 1, 3}, {}};
    const Listed l = listsOf(p, 16, 2);
    EXPECT_EQ(l.counts, (std::vector<uint32_t>{3}));
    EXPECT_EQ(l.indices, (std::vector<uint32_t>{0, 1, 2}));
    EXPECT_EQ(listsOf(p, 8, 2).counts, (std::vector<uint32_t>{3, 0}));
}

TEST(VisibleBlocks, withoutTokensHaveEmptyLists) {
    EXPECT_EQ(listsOf(tokens(5, 0), 2, 4).counts, (std::vector<uint32_t>{0, 0, 0}));
    EXPECT_TRUE(listsOf(tokens(0, 5), 2, 4).counts.empty());
    // Blocks that are larger than everything, and as large as numbers get.
    const Listed l = listsOf(tokens(3, 5), 0xffffffffu, 0xffffffffu);
    EXPECT_EQ(l.fullCounts, (std::vector<uint32_t>{1}));
}

namespace {

struct BlocksDescription {
    vkattn_problem p = problem(packed(VKATTN_F32, 2, 4, 9, 8), packed(VKATTN_F32, 2, 2, 7, 8), packed(VKATTN_F32, 2, 2, 7, 8),
                               packed(VKATTN_F32, 2, 4, 9, 8));
    vkattn_visible_blocks v = visibleBlocks(p, 4, 2);
    bool noAttention = false;

    vkattn_result validate(std::string &message) {
        v.attention = noAttention ? nullptr : &p;
        const vkattn_operation o = operation(v);
        vkattn_diagnostic why{};
        const vkattn_result r = vkattnValidateOperation(&o, &why);
        message = why.message;
        uint64_t bytes = 0;
        EXPECT_EQ(vkattnCpuOperationWorkspace(&o, nullptr, &bytes, nullptr), r) << message;
        return r;
    }
};

} // namespace

TEST(VisibleBlocks, sayWhatIsWrong) {
    using Description = BlocksDescription;
    std::string message;
    EXPECT_EQ(Description().validate(message), VKATTN_OK) << message;
    const struct {
        const char *message; // a part of it
        std::function<void(Description &)> change;
    } all[] = {
        {"visibleBlocks: structSize is 0", [](Description &d) { d.v.structSize = 0; }},
        {"visibleBlocks.attention is NULL", [](Description &d) { d.noAttention = true; }},
        {"visibleBlocks.attention: structSize is 3", [](Description &d) { d.p.structSize = 3; }},
        {"visibleBlocks.flags is 0x2, expected 0", [](Description &d) { d.v.flags = 2; }},
        {"blocks.kind is 1, expected VKATTN_BLOCKS_INDICES", [](Description &d) { d.v.blocks.kind = VKATTN_BLOCKS_MASK; }},
        {"blocks.kind is 0, expected VKATTN_BLOCKS_INDICES", [](Description &d) { d.v.blocks = {}; }},
        {"a block has 0 queries and 2 keys", [](Description &d) { d.v.blocks.queries = 0; }},
        {"blocks.entries is 3, expected 0 or the 4 columns", [](Description &d) { d.v.blocks.entries = 3; }},
        {"blocks.entries is 5, expected at most the 4 columns", [](Description &d) { d.v.blocks.entries = 5; }},
        {"blocks are those of 3 batch entries and 4 heads", [](Description &d) { d.v.blocks.batches = 3; }},
        {"attention.blocks.kind is 1, expected VKATTN_BLOCKS_NONE",
         [](Description &d) { d.p.blocks.kind = VKATTN_BLOCKS_MASK, d.p.blocks.queries = d.p.blocks.keys = 4; }},
        {"blocks.batches is 1, and key lengths may differ between the 2 batch entries of the attention; set blocks.batches to 2",
         [](Description &d) { d.v.blocks.batches = 1, d.p.presentRoles = VKATTN_PRESENT(VKATTN_KEY_LENGTHS); }},
        {"blocks.batches is 1, and mask may differ",
         [](Description &d) { d.v.blocks.batches = 0, d.p.mask = packed(VKATTN_BOOL8, 2, 1, 9, 7); }},
        {"blocks.heads is 1, and mask may differ between the 4 heads",
         [](Description &d) { d.v.blocks.heads = 1, d.p.mask = packed(VKATTN_BOOL8, 1, 4, 9, 7); }},
        {"q has no layout", [](Description &d) { d.p.q = {}; }},
        {"mask", [](Description &d) { d.p.mask = packed(VKATTN_BOOL8, 2, 1, 9, 6); }},
    };
    for (const auto &wrong : all) {
        Description d;
        wrong.change(d);
        EXPECT_EQ(d.validate(message), VKATTN_ERROR_INVALID_ARGUMENT) << wrong.message;
        EXPECT_NE(message.find(wrong.message), std::string::npos) << "expected \"" << wrong.message << "\", got \"" << message << "\"";
    }
    vkattn_operation o{};
    o.kind = VKATTN_VISIBLE_BLOCKS;
    vkattn_diagnostic why{};
    EXPECT_EQ(vkattnValidateOperation(&o, &why), VKATTN_ERROR_INVALID_ARGUMENT);
    EXPECT_STREQ(why.message, "operation.of.visibleBlocks is NULL");
}

// Nothing that changes scores or values is bound, and the lists are.
TEST(VisibleBlocks, bindWhatDecidesWhatIsVisible) {
    BlocksDescription d;
    d.p.mask = packed(VKATTN_BOOL8, 1, 1, 9, 7);
    d.p.presentRoles = VKATTN_PRESENT(VKATTN_SINKS) | VKATTN_PRESENT(VKATTN_ALIBI_SLOPES) | VKATTN_PRESENT(VKATTN_KEY_LENGTHS);
    d.p.softcap = 3, d.p.dropout = 0.5;
    const vkattn_operation o = operation(d.v);
    vkattn_operand_use uses[16];
    const uint32_t count = vkattnOperandUses(&o, uses, 16);
    std::vector<vkattn_role> read, written;
    for (uint32_t n = 0; n < count; ++n) (uses[n].writes ? written : read).push_back(uses[n].role);
    EXPECT_EQ(read, (std::vector<vkattn_role>{VKATTN_MASK, VKATTN_KEY_LENGTHS}));
    EXPECT_EQ(written,
              (std::vector<vkattn_role>{VKATTN_BLOCK_COUNTS, VKATTN_BLOCK_INDICES, VKATTN_FULL_BLOCK_COUNTS, VKATTN_FULL_BLOCK_INDICES}));
    EXPECT_EQ(vkattnOperationBytes(&o, VKATTN_BLOCK_COUNTS), 4u * 2 * 4 * 3);
    EXPECT_EQ(vkattnOperationBytes(&o, VKATTN_BLOCK_INDICES), 4u * 2 * 4 * 3 * 4);
    EXPECT_EQ(vkattnOperationBytes(&o, VKATTN_Q), 0u);
}
