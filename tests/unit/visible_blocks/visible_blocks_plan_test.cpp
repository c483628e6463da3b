// Plans of lists of visible blocks without a device: every dispatch within the limits and within what is bound,
// every block once, and the columns of a row in order.
#include "core/visible_blocks/visible_blocks_plan.hpp"
#include "support/plan_checks.hpp"
#include "vkattn/operations.hpp"
#include "vkattn/vkattn.hpp"

#include <cstring>
#include <gtest/gtest.h>
#include <map>

using namespace vkattn;

namespace {

vkattn_problem tokens(uint32_t batch, uint32_t heads, uint32_t queries, uint32_t keys) {
    vkattn_problem p{};
    p.structSize = sizeof p;
    p.q = packed(VKATTN_F32, batch, heads, queries, 8);
    p.k = packed(VKATTN_F32, batch, heads, keys, 8);
    return p;
}

PlanLimits limitsOf(uint32_t range, uint32_t buffers = 16) {
    PlanLimits limits{minimumCaps(), uint64_t{1} << 26, {}};
    limits.caps.maxStorageBufferRange = range;
    limits.caps.maxStorageBuffersPerStage = buffers;
    limits.tuning = flashTuning(limits.caps);
    return limits;
}

vkattn_result makePlan(const vkattn_problem &p, uint32_t queries, uint32_t keys, const PlanLimits &limits, VisibleBlocksPlan &plan,
                       vkattn_diagnostic &why) {
    const vkattn_visible_blocks v = visibleBlocks(p, queries, keys);
    VisibleBlocks form;
    if (const auto r = makeVisibleBlocks(&v, form, &why)) return r;
    return planVisibleBlocks(form, limits, plan, &why);
}

} // namespace

TEST(VisibleBlocksPlan, goesOverEveryBlockOnceAndInOrder) {
    struct Asked {
        const char *name;
        vkattn_problem p;
    };
    std::vector<Asked> all = {{"plain", tokens(2, 3, 70, 190)},        {"many keys", tokens(1, 2, 300, 70000)},
                              {"many heads", tokens(3, 40, 500, 500)}, {"no keys", tokens(2, 2, 30, 0)},
                              {"no queries", tokens(2, 2, 0, 30)},     {"masked", tokens(2, 3, 300, 700)},
                              {"ragged", tokens(1, 2, 300, 300)}};
    all[5].p.mask = packed(VKATTN_BOOL8, 2, 3, 300, 700);
    all[6].p.sequences = 5, all[6].p.presentRoles = VKATTN_PRESENT(VKATTN_CU_SEQ_Q) | VKATTN_PRESENT(VKATTN_CU_SEQ_K);
    uint32_t cut = 0;
    for (const Asked &asked : all)
        for (const uint32_t range : {1u << 27, 1u << 16})
            for (const auto &[queries, keys] : {std::pair{1u, 1u}, {16u, 16u}, {64u, 128u}, {1000u, 33u}}) {
                const std::string name = std::string(asked.name) + ", range " + std::to_string(range) + ", blocks of " +
                                         std::to_string(queries) + " x " + std::to_string(keys);
                VisibleBlocksPlan plan{};
                vkattn_diagnostic why{};
                const PlanLimits limits = limitsOf(range);
                const vkattn_result r = makePlan(asked.p, queries, keys, limits, plan, why);
                if (r == VKATTN_ERROR_UNSUPPORTED && range < 1u << 27) continue; // a row of indices alone may be larger
                ASSERT_EQ(r, VKATTN_OK) << name << ": " << why.message;
                ASSERT_NO_FATAL_FAILURE(expectWithinLimitsAndBindings(plan, limits, name));
                const Problem &p = plan.problem();
                if (p.queryTokens == 0) {
                    EXPECT_EQ(plan.dispatchCount, 0u);
                    continue;
                }
                double pairs = 0;
                std::map<std::pair<uint64_t, uint32_t>, uint32_t> next; // of the rows of a chunk: its next key
                for (uint32_t n = plan.forward.setUpDispatches; n < plan.dispatchCount; ++n) {
                    const Dispatch d = plan.type->dispatch(plan, n);
                    VisibleBlocksPush push;
                    std::memcpy(&push, d.pushWords, sizeof push);
                    EXPECT_EQ(push.queryFirst % push.blockQueries, 0u) << name;
                    EXPECT_EQ(push.keyFirst % push.blockKeys, 0u) << name;
                    EXPECT_EQ(d.groups[0], divideUp(push.queries, push.blockQueries)) << name;
                    EXPECT_TRUE(d.barrierBefore) << name;
                    // A lane goes over the queries of each block, and some keys of each; software drivers end a shader
                    // after 65,535 rounds.
                    EXPECT_LE(uint64_t{divideUp(push.keys, push.blockKeys)} * push.blockQueries *
                                  (1 + divideUp(push.blockKeys, plan.lanes)),
                              65535u)
                        << name;
                    uint32_t &at = next[{d.operands[slotBlockCounts].firstByte, push.queryFirst}];
                    EXPECT_EQ(push.keyFirst, at) << name;
                    EXPECT_EQ((push.order & orderFirst) != 0, at == 0) << name;
                    at += push.keys;
                    cut += push.keyFirst > 0;
                    pairs += static_cast<double>(push.queries) * push.keys * d.groups[2];
                }
                EXPECT_EQ(pairs, static_cast<double>(p.batch) * p.heads * p.queryTokens * p.keyTokens) << name;
            }
    EXPECT_GT(cut, 0u);
}

TEST(VisibleBlocksPlan, saysWhatADeviceCannotDo) {
    VisibleBlocksPlan plan{};
    vkattn_diagnostic why{};
    EXPECT_EQ(makePlan(tokens(1, 1, 9, 9), 4, 4, limitsOf(1u << 27, 4), plan, why), VKATTN_ERROR_UNSUPPORTED);
    EXPECT_STREQ(why.message, "lists of visible blocks need 11 storage buffers a stage; the device has 4; compute them on the CPU");
    EXPECT_EQ(makePlan(tokens(1, 1, 60000, 60000), 60000, 60000, limitsOf(1u << 27), plan, why), VKATTN_ERROR_UNSUPPORTED);
    EXPECT_STREQ(why.message, "blocks of 60000 x 60000 pairs take more rounds of a loop than one dispatch may have; make blocks smaller");
    vkattn_problem masked = tokens(1, 1, 4000, 4000);
    masked.mask = packed(VKATTN_BOOL8, 1, 1, 4000, 4000);
    EXPECT_EQ(makePlan(masked, 500, 16, limitsOf(1u << 16), plan, why), VKATTN_ERROR_UNSUPPORTED) << why.message;
    EXPECT_NE(std::string(why.message).find("make blocks smaller"), std::string::npos) << why.message;
}

TEST(VisibleBlocksPlan, isExplained) {
    const vkattn_problem p = tokens(2, 3, 640, 1000);
    const vkattn_visible_blocks v = visibleBlocks(p, 64, 32);
    const PlanLimits limits = limitsOf(1u << 27);
    vkattn_explanation e{};
    vkattn_diagnostic why{};
    ASSERT_EQ(explain(limits.caps, operation(v), e, planOptions(0), &why), VKATTN_OK) << why.message;
    EXPECT_STREQ(e.kernelName, "visible blocks");
    EXPECT_EQ(e.rowsPerWorkgroup, 64u);
    EXPECT_EQ(e.keysPerStep, 32u);
    EXPECT_EQ(e.chunkCount, 1u);
    // Counts, and indices of 32 columns, twice.
    EXPECT_EQ(e.bytesWritten, 2.0 * 4 * 2 * 3 * 10 * (1 + 32));
}
