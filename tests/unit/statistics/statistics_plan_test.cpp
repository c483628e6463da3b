// Plans of statistics of attention without a device: every dispatch within the limits and within what is
// bound, every pipeline announced, and every pair once a step, in the order in which sums go on.
#include "core/kernels/flash.hpp"
#include "core/plan/chunks.hpp"
#include "core/statistics/statistics_plan.hpp"
#include "support/plan_checks.hpp"
#include "vkattn/vkattn.hpp"

#include <algorithm>
#include <cstring>
#include <gtest/gtest.h>
#include <map>
#include <set>

using namespace vkattn;

namespace {

struct Asked {
    std::string name;
    vkattn_problem attention{};
    vkattn_attention_statistics statistics{};
};

Asked ask(std::string name, uint32_t batch, uint32_t heads, uint32_t kvHeads, uint32_t queries, uint32_t keys, uint32_t headDim) {
    Asked a{std::move(name)};
    const vkattn_layout q = packed(VKATTN_F32, batch, heads, queries, headDim), k = packed(VKATTN_F32, batch, kvHeads, keys, headDim);
    a.attention = problem(q, k, {}, {});
    a.statistics.structSize = sizeof a.statistics;
    a.statistics.statistics = packed(VKATTN_F32, batch, heads, queries, VKATTN_STATISTIC_COUNT);
    a.statistics.received = packed(VKATTN_F32, batch, heads, keys, 1);
    a.statistics.topWeights = packed(VKATTN_F32, batch, heads, queries, 3);
    a.statistics.topKeys = packed(VKATTN_BITS32, batch, heads, queries, 3);
    a.statistics.densityThreshold = 0.1f;
    return a;
}

std::vector<Asked> statisticsOfEveryKind() {
    std::vector<Asked> list;
    list.push_back(ask("plain", 2, 6, 2, 70, 190, 64));
    list.push_back(ask("one query", 3, 4, 4, 1, 500, 16));
    list.push_back(ask("large heads", 1, 2, 1, 70, 90, 300));
    list.push_back(ask("no queries", 2, 4, 2, 0, 30, 8));
    list.push_back(ask("no keys", 2, 4, 2, 30, 0, 8));
    list.push_back(ask("columns alone", 2, 6, 2, 70, 190, 65));
    list.back().statistics.received = list.back().statistics.topWeights = list.back().statistics.topKeys = {};
    list.back().statistics.densityThreshold = 0;
    list.push_back(ask("received alone", 2, 6, 2, 70, 190, 65));
    list.back().statistics.statistics = list.back().statistics.topWeights = list.back().statistics.topKeys = {};
    list.push_back(ask("largest weights alone", 2, 6, 2, 70, 190, 65));
    list.back().statistics.statistics = list.back().statistics.received = {};
    list.push_back(ask("everything", 2, 6, 2, 70, 190, 65));
    list.back().attention.softcap = 3;
    list.back().attention.presentRoles = VKATTN_PRESENT(VKATTN_SINKS) | VKATTN_PRESENT(VKATTN_ALIBI_SLOPES) |
                                         VKATTN_PRESENT(VKATTN_KEY_LENGTHS) | VKATTN_PRESENT(VKATTN_DOC_IDS_Q) |
                                         VKATTN_PRESENT(VKATTN_DOC_IDS_K);
    list.back().attention.bias = packed(VKATTN_F16, 2, 6, 70, 190);
    list.back().attention.bitMask = packed(VKATTN_BITS32, 1, 6, 70, 6);
    list.push_back(ask("ragged", 1, 6, 2, 70, 190, 65));
    list.back().attention.sequences = 3;
    list.back().attention.presentRoles = VKATTN_PRESENT(VKATTN_CU_SEQ_Q) | VKATTN_PRESENT(VKATTN_CU_SEQ_K);
    list.push_back(ask("many keys", 1, 2, 1, 40, 70000, 8));
    return list;
}

PlanLimits limitsOf(uint32_t range, uint64_t workspace, uint32_t subgroupSize, bool cpu = false) {
    PlanLimits limits{minimumCaps(), workspace, {}};
    limits.caps.maxStorageBufferRange = range;
    limits.caps.maxStorageBuffersPerStage = 16;
    limits.caps.deviceType = cpu ? VK_PHYSICAL_DEVICE_TYPE_CPU : VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
    limits.caps.subgroupSize = subgroupSize;
    limits.caps.subgroupShuffle = limits.caps.subgroupClustered = subgroupSize != 0;
    limits.tuning = flashTuning(limits.caps);
    return limits;
}

vkattn_result makePlan(Asked &a, const PlanLimits &limits, StatisticsPlan &plan, vkattn_diagnostic &why) {
    a.statistics.attention = &a.attention;
    Statistics statistics;
    if (const auto r = makeStatistics(&a.statistics, statistics, &why)) return r;
    return planStatistics(statistics, limits, plan, &why);
}

StatisticsPlan planOf(Asked &a, const PlanLimits &limits) {
    StatisticsPlan plan{};
    vkattn_diagnostic why{};
    EXPECT_EQ(makePlan(a, limits, plan, why), VKATTN_OK) << a.name << ": " << why.message;
    return plan;
}

template <class Visit> void eachPlan(const Visit &visit) {
    for (Asked &a : statisticsOfEveryKind())
        for (const auto &[range, workspace] :
             {std::pair{1u << 27, uint64_t{64} << 20}, {1u << 27, uint64_t{1} << 11}, {192u << 10, uint64_t{1} << 27}}) {
            const std::pair<PlanLimits, const char *> devices[] = {{limitsOf(range, workspace, 0), ", no subgroups"},
                                                                   {limitsOf(range, workspace, 32), ", GPU"},
                                                                   {limitsOf(range, workspace, 8, true), ", CPU"}};
            for (const auto &[limits, device] : devices)
                for (const uint32_t slices : {0u, 3u, 64u}) {
                    a.attention.sliceCount = slices;
                    visit(planOf(a, limits), limits,
                          a.name + ", range " + std::to_string(range) + ", workspace " + std::to_string(workspace) + device + ", " +
                              std::to_string(slices) + " slices");
                }
        }
}

// Which step a dispatch is of; -1: it goes over no pairs.
int stepOf(const StatisticsPlan &plan, const Dispatch &d) {
    const bool rows = d.key.module == Module::statisticsRows || d.key.module == Module::statisticsRowsPlain;
    const bool keys = d.key.module == Module::statisticsKeys || d.key.module == Module::statisticsKeysPlain;
    if (!rows && !keys) return -1;
    const uint32_t form = d.key.constants[constantForm];
    const auto of = keys ? StatisticsStep::keys : form & formDensity ? StatisticsStep::density : StatisticsStep::rows;
    return static_cast<int>(std::find(plan.steps, plan.steps + plan.stepCount, of) - plan.steps);
}

} // namespace

TEST(StatisticsPlan, dispatchesStayWithinLimitsAndBindings) {
    eachPlan([](const StatisticsPlan &plan, const PlanLimits &limits, const std::string &name) {
        ASSERT_NO_FATAL_FAILURE(expectWithinLimitsAndBindings(plan, limits, name));
    });
}

// Each step of a chunk of heads goes over every pair once. A row goes over its keys from the first chunk to
// the last, and a key over its rows, so that sums go on in the order that they have in one chunk.
TEST(StatisticsPlan, stepsTakeEveryPairOnceAndInOrder) {
    uint32_t cut = 0, counts = 0;
    eachPlan([&](const StatisticsPlan &plan, const PlanLimits &, const std::string &name) {
        if (plan.dispatchCount == 0) return;
        const Problem &p = plan.problem();
        std::vector<double> pairs(plan.stepCount);
        std::map<uint32_t, uint32_t> next; // of an owner in this step: where the next chunk begins
        int step = -1;
        bool counted = false;
        for (uint32_t n = plan.forward.setUpDispatches; n < plan.dispatchCount; ++n) {
            const Dispatch d = plan.type->dispatch(plan, n);
            EXPECT_TRUE(d.barrierBefore) << name << ", dispatch " << n << " reads what the one before writes";
            const int of = stepOf(plan, d);
            if (of < 0) { // the rows that see a key are counted when all rows are done, before the keys
                EXPECT_EQ(d.key.module, Module::seeingRows) << name;
                EXPECT_EQ(step, static_cast<int>(plan.stepCount) - 2) << name;
                counted = true, ++counts;
                continue;
            }
            ASSERT_LT(of, static_cast<int>(plan.stepCount)) << name;
            if (of != step) {
                EXPECT_EQ(of, (step + 1) % static_cast<int>(plan.stepCount)) << name << ", dispatch " << n;
                step = of;
                next.clear();
            }
            const bool keys = plan.steps[of] == StatisticsStep::keys;
            EXPECT_TRUE(!keys || counted) << name;
            if (!keys) counted = false;
            StatisticsPush push;
            std::memcpy(&push, d.pushWords, sizeof push);
            pairs[static_cast<size_t>(of)] += static_cast<double>(push.queries) * push.keys * d.groups[2];
            const uint32_t owner = keys ? push.keyFirst : push.queryFirst, first = keys ? push.queryFirst : push.keyFirst;
            const uint32_t count = keys ? push.queries : push.keys, all = keys ? p.queryTokens : p.keyTokens;
            // Another chunk of heads begins anew.
            if (first == 0) next[owner] = 0;
            EXPECT_EQ(first, next[owner]) << name << ", dispatch " << n;
            next[owner] = first + count;
            EXPECT_EQ((push.order & orderFirst) != 0, first == 0) << name << ", dispatch " << n;
            EXPECT_EQ((push.order & orderLast) != 0, first + count == all) << name << ", dispatch " << n;
            EXPECT_GE(d.groups[0] * (keys ? plan.keys : plan.rows).tile.owned(), keys ? push.keys : push.queries) << name;
            cut += first > 0;
        }
        for (const double each : pairs) EXPECT_EQ(each, static_cast<double>(p.batch) * p.heads * p.queryTokens * p.keyTokens) << name;
    });
    EXPECT_GT(cut, 100u);
    EXPECT_GT(counts, 100u);
}

TEST(StatisticsPlan, stepsAreThoseOfTheOutputs) {
    const PlanLimits limits = limitsOf(1u << 27, 1u << 26, 32);
    const auto steps = [&](bool columns, bool received, bool top, float threshold) {
        Asked a = ask("outputs", 1, 2, 2, 9, 9, 16);
        if (!columns) a.statistics.statistics = {};
        if (!received) a.statistics.received = {};
        if (!top) a.statistics.topWeights = a.statistics.topKeys = {};
        a.statistics.densityThreshold = threshold;
        const StatisticsPlan plan = planOf(a, limits);
        std::string all;
        for (uint32_t n = 0; n < plan.stepCount; ++n) all += "rdk"[static_cast<uint32_t>(plan.steps[n])];
        return all;
    };
    EXPECT_EQ(steps(true, true, true, 0.05f), "rdk"); // of up to 20 keys
    EXPECT_EQ(steps(true, true, true, 0.1f), "rk");
    EXPECT_EQ(steps(true, true, true, 0), "rk");
    EXPECT_EQ(steps(true, false, true, 0.05f), "rd");
    EXPECT_EQ(steps(false, true, false, 0.1f), "rk"); // the density is a column
    EXPECT_EQ(steps(false, false, true, 0.1f), "r");
}

// The sum of a row's weights is 1: fewer than 1 / threshold + 1 of them are above the threshold.
TEST(StatisticsPlan, theDensityTakesTheListOfTheLargestWhereThatHasThemAll) {
    const auto plan = [&](float threshold, uint32_t keys, uint32_t top) {
        Asked a = ask("density", 1, 1, 1, 64, keys, 16);
        a.statistics.densityThreshold = threshold;
        a.statistics.topWeights = top ? packed(VKATTN_F32, 1, 1, 64, top) : vkattn_layout{};
        a.statistics.topKeys = top ? packed(VKATTN_BITS32, 1, 1, 64, top) : vkattn_layout{};
        return planOf(a, limitsOf(1u << 27, 1u << 26, 32));
    };
    for (const uint32_t top : {0u, 3u, 16u}) {
        const auto listed = [&](float threshold, uint32_t keys) {
            const StatisticsPlan p = plan(threshold, keys, top);
            EXPECT_EQ(p.densityOfTop, std::find(p.steps, p.steps + p.stepCount, StatisticsStep::density) == p.steps + p.stepCount);
            if (!p.densityOfTop) {
                EXPECT_EQ(p.topListed, top);
            }
            return p.densityOfTop ? p.topListed : 0;
        };
        EXPECT_EQ(listed(0.1f, 500), std::max(top, 10u));
        EXPECT_EQ(listed(0.5f, 500), std::max(top, 3u));
        EXPECT_EQ(listed(0.9f, 500), std::max(top, 2u));
        EXPECT_EQ(listed(0.0626f, 500), 16u);
        EXPECT_EQ(listed(0.0625f, 500), 0u);
        EXPECT_EQ(listed(1e-30f, 500), 0u);
        EXPECT_EQ(listed(0.1f, 700000), 0u); // keys in chunks, between which a list would have to be kept
    }
}

TEST(StatisticsPlan, slicesCoverThePlanOnceAndInOrder) {
    uint32_t busy = 0;
    eachPlan([&](const StatisticsPlan &plan, const PlanLimits &limits, const std::string &name) {
        uint32_t withWork = 0;
        ASSERT_NO_FATAL_FAILURE(expectSlicesCoverOnceAndInOrder(plan, name, withWork));
        EXPECT_LE(withWork, std::max(mostSlices(plan, limits), 1u)) << name;
        EXPECT_EQ(persistentWorkspaceBytes(plan), plan.slices > 1 ? plan.workspaceBytes : 0) << name;
        // The count of rows is in the slice of the first keys: a slice may begin with it, and none ends with it.
        for (uint32_t index = 0; index + 1 < plan.slices; ++index) {
            const DispatchRange range = plan.dispatchesOfSlice(index);
            const bool any = range.first < range.last;
            EXPECT_FALSE(any && plan.type->dispatch(plan, range.last - 1).key.module == Module::seeingRows) << name << ", slice " << index;
        }
        busy += plan.slices > 1 && withWork == plan.slices ? 1 : 0;
    });
    EXPECT_GT(busy, 20u);
}

TEST(StatisticsPlan, slicesAreNearlyEven) {
    for (const bool causal : {false, true})
        for (const uint32_t heads : {1u, 8u})
            for (const uint32_t slices : {2u, 5u, 16u}) {
                Asked a = ask(std::to_string(heads) + " heads", 1, heads, heads, 2048, 2048, 64);
                if (causal) a.attention.flags |= VKATTN_CAUSAL;
                a.attention.sliceCount = slices;
                const PlanLimits limits = limitsOf(1u << 30, 1u << 28, 32);
                const StatisticsPlan plan = planOf(a, limits);
                EXPECT_GE(mostSlices(plan, limits), 2 * slices) << a.name;
                vkattn_explanation explanation;
                explainStatistics(plan, limits, explanation);
                EXPECT_EQ(explanation.sliceCount, slices);
                EXPECT_DOUBLE_EQ(explanation.largestSlice, largestShare(sliceUnits(plan)));
                EXPECT_LE(explanation.largestSlice * slices, causal ? 2.2 : 1.6) << a.name << ", " << slices << " slices";
            }
    // As many as anyone asks for: no overflow, no hang.
    Asked many = ask("many", 2, 6, 2, 70, 90, 64);
    many.attention.sliceCount = UINT32_MAX;
    const PlanLimits limits = limitsOf(1u << 27, 1u << 26, 32);
    const StatisticsPlan plan = planOf(many, limits);
    EXPECT_GT(mostSlices(plan, limits), 4u);
    EXPECT_EQ(plan.dispatchesOfSlice(UINT32_MAX - 1).last, plan.dispatchCount);
}

// Some drivers leave a loop after 65,535 rounds. A lane of rows has a round for each step of keys, in the form
// without subgroups one for each 16 dims of a step, and one for each pair that may be among the largest.
TEST(StatisticsPlan, loopsHaveFewRounds) {
    for (const uint32_t subgroupSize : {0u, 32u})
        for (const uint32_t top : {0u, 1u, 16u})
            for (const uint32_t headDim : {8u, 200u}) {
                Asked a = ask("long rows", 1, 1, 1, 130000, 700000, headDim);
                a.statistics.topWeights.extent[3] = a.statistics.topKeys.extent[3] = top;
                if (top)
                    a.statistics.topWeights = packed(VKATTN_F32, 1, 1, 130000, top),
                    a.statistics.topKeys = packed(VKATTN_BITS32, 1, 1, 130000, top);
                else
                    a.statistics.topWeights = a.statistics.topKeys = {};
                const StatisticsPlan plan = planOf(a, limitsOf(1u << 30, 1u << 28, subgroupSize));
                EXPECT_EQ(plan.plain, subgroupSize == 0);
                for (uint32_t n = plan.forward.setUpDispatches; n < plan.dispatchCount; ++n) {
                    const Dispatch d = plan.type->dispatch(plan, n);
                    const int step = stepOf(plan, d);
                    if (step < 0) continue;
                    StatisticsPush push;
                    std::memcpy(&push, d.pushWords, sizeof push);
                    const bool keys = plan.steps[step] == StatisticsStep::keys;
                    const PassTile &tile = (keys ? plan.keys : plan.rows).tile;
                    const uint64_t steps = ceilDiv(keys ? push.queries : push.keys, tile.stepItems);
                    const uint64_t inserted = !keys && top ? tile.stepItems : 0; // one of each row a round
                    EXPECT_LE(steps * (1 + inserted + (plan.plain ? ceilDiv(headDim, plainDims) : 0)), maxKeysPerLane)
                        << "k of " << top << ", head dim " << headDim << ", subgroups of " << subgroupSize;
                }
            }
}

// What grows with the tokens are two numbers a row.
TEST(StatisticsPlan, manyTokensTakeLittleWorkspace) {
    for (const bool cpu : {false, true})
        for (const uint32_t heads : {1u, 4u}) {
            constexpr uint32_t tokens = 65536;
            Asked a = ask("many tokens", 1, heads, heads, tokens, tokens, 64);
            a.statistics.topWeights = packed(VKATTN_F32, 1, heads, tokens, VKATTN_MAX_TOP_KEYS);
            a.statistics.topKeys = packed(VKATTN_BITS32, 1, heads, tokens, VKATTN_MAX_TOP_KEYS);
            const uint64_t keysAndValues = uint64_t{2} * heads * tokens * 64 * 4, numbersOfRows = uint64_t{2} * heads * tokens * 4;
            EXPECT_LE(planOf(a, limitsOf(1u << 30, uint64_t{64} << 20, cpu ? 8 : 32, cpu)).workspaceBytes,
                      numbersOfRows + keysAndValues / 100)
                << heads << " heads" << (cpu ? ", CPU" : "");
        }
}

TEST(StatisticsPlan, formsAreThoseThatTheDeviceTakes) {
    const auto form = [](uint32_t headDim, const PlanLimits &limits) {
        Asked a = ask("forms", 1, 2, 2, 9, 9, headDim);
        const StatisticsPlan plan = planOf(a, limits);
        return plan.plain ? "plain" : plan.rows.tile.source == sourceShuffled ? "items in lanes" : "dims in lanes";
    };
    const uint32_t range = 1u << 27, workspace = 1u << 26;
    EXPECT_STREQ(form(64, limitsOf(range, workspace, 32)), "dims in lanes");
    EXPECT_STREQ(form(256, limitsOf(range, workspace, 32)), "dims in lanes");
    EXPECT_STREQ(form(257, limitsOf(range, workspace, 32)), "plain");
    EXPECT_STREQ(form(64, limitsOf(range, workspace, 0)), "plain");
    EXPECT_STREQ(form(64, limitsOf(range, workspace, 8)), "plain"); // of a GPU
    EXPECT_STREQ(form(64, limitsOf(range, workspace, 8, true)), "items in lanes");
    EXPECT_STREQ(form(64, limitsOf(range, workspace, 4, true)), "items in lanes");
    EXPECT_STREQ(form(64, limitsOf(range, workspace, 32, true)), "plain");
}

TEST(StatisticsPlan, saysWhyADeviceCannot) {
    const auto refused = [](Asked a, const PlanLimits &limits) {
        StatisticsPlan plan{};
        vkattn_diagnostic why{};
        EXPECT_EQ(makePlan(a, limits, plan, why), VKATTN_ERROR_UNSUPPORTED) << a.name;
        return std::string(why.message);
    };
    const auto contains = [](const std::string &text, const char *part) { return text.find(part) != std::string::npos; };
    const Asked small = ask("small", 1, 2, 2, 9, 9, 16);
    PlanLimits four = limitsOf(1u << 27, 1u << 26, 32);
    four.caps.maxStorageBuffersPerStage = 13;
    const std::string buffers = refused(small, four);
    EXPECT_TRUE(contains(buffers, "need 14 storage buffers a stage; the device has 13")) << buffers;
    PlanLimits little = limitsOf(64u << 10, 1u << 26, 32);
    const std::string rows = refused(ask("many rows", 1, 1, 1, 20000, 9, 1), little);
    EXPECT_TRUE(contains(rows, "bytes of workspace, over the device's maxStorageBufferRange of 65536")) << rows;
    const std::string groups = refused(ask("large group", 1, 70000, 1, 1, 9, 1), limitsOf(1u << 27, 1u << 26, 32));
    EXPECT_TRUE(contains(groups, "at most 65535 query heads a key head")) << groups;
}
