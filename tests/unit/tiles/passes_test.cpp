// What operations over tiles share: what both refuse, in words of their own, and chunks without queries.
#include "core/gradient/gradient_plan.hpp"
#include "core/plan/chunks.hpp"
#include "core/statistics/statistics_plan.hpp"
#include "support/plan_checks.hpp"
#include "vkattn/vkattn.hpp"

#include <functional>
#include <gtest/gtest.h>

using namespace vkattn;

namespace {

PlanLimits limitsOfGpu() {
    PlanLimits limits{minimumCaps(), 1u << 26, {}};
    limits.caps.maxStorageBuffersPerStage = 16;
    limits.caps.deviceType = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
    limits.caps.subgroupSize = 32;
    limits.caps.subgroupShuffle = limits.caps.subgroupClustered = 1;
    limits.tuning = flashTuning(limits.caps);
    return limits;
}

// A problem and both operations over tiles on it.
struct Operations {
    vkattn_problem attention{};
    vkattn_attention_statistics statistics{};
    vkattn_attention_gradient gradient{};

    Operations(uint32_t heads, uint32_t kvHeads, uint32_t queries, uint32_t keys, uint32_t headDim) {
        const vkattn_layout q = packed(VKATTN_F32, 1, heads, queries, headDim), k = packed(VKATTN_F32, 1, kvHeads, keys, headDim);
        attention = problem(q, k, k, q);
        attention.flags = VKATTN_ROW_STATISTICS;
        attention.lse = packed(VKATTN_F32, 1, heads, queries, 2);
        statistics.structSize = sizeof statistics;
        statistics.statistics = packed(VKATTN_F32, 1, heads, queries, VKATTN_STATISTIC_COUNT);
        statistics.received = packed(VKATTN_F32, 1, heads, keys, 1);
        gradient = attentionGradient(attention, q);
        gradient.dQ = q, gradient.dK = gradient.dV = k;
        gradient.kernel = VKATTN_GRADIENT_TILES;
    }
    vkattn_result plan(const PlanLimits &limits, StatisticsPlan &out, std::string &message) {
        statistics.attention = &attention;
        vkattn_diagnostic why{};
        Statistics made;
        EXPECT_EQ(makeStatistics(&statistics, made, &why), VKATTN_OK) << why.message;
        const vkattn_result r = planStatistics(made, limits, out, &why);
        message = why.message;
        return r;
    }
    vkattn_result plan(const PlanLimits &limits, GradientPlan &out, std::string &message) {
        gradient.forward = &attention;
        vkattn_diagnostic why{};
        Gradient made;
        EXPECT_EQ(makeGradient(&gradient, made, &why), VKATTN_OK) << why.message;
        const vkattn_result r = planGradient(made, limits, out, &why);
        message = why.message;
        return r;
    }
};

} // namespace

// Each refusal names the operation, what it lacks, and what to take.
TEST(TiledPasses, refuseInWordsOfTheirOperation) {
    struct Refused {
        const char *what; // behind "need", "take" or "gather", with an s or without
        Operations operations;
        std::function<void(Caps &)> weaken;
    };
    Operations manyHeads(2, 2, 9, 9, 16);
    manyHeads.attention.presentRoles = VKATTN_PRESENT(VKATTN_ALIBI_SLOPES);
    const Refused refusals[] = {
        {" 14 storage buffers a stage; the device has 13; ", {2, 2, 9, 9, 16}, [](Caps &caps) { caps.maxStorageBuffersPerStage = 13; }},
        {" at most 65535 query heads a key head; ", {65536, 1, 1, 9, 1}, [](Caps &) {}},
        {" the arrays over heads in the workspace; 2 heads are too many for this device; ", manyHeads,
         [](Caps &caps) { caps.maxStorageBufferRange = 400; }},
    };
    for (Refused each : refusals) {
        PlanLimits limits = limitsOfGpu();
        each.weaken(limits.caps);
        std::string ofStatistics, ofGradients;
        StatisticsPlan statistics;
        GradientPlan gradient;
        EXPECT_EQ(each.operations.plan(limits, statistics, ofStatistics), VKATTN_ERROR_UNSUPPORTED) << each.what;
        EXPECT_EQ(each.operations.plan(limits, gradient, ofGradients), VKATTN_ERROR_UNSUPPORTED) << each.what;
        EXPECT_EQ(ofStatistics.rfind("statistics of attention ", 0), 0u) << ofStatistics;
        EXPECT_EQ(ofGradients.rfind("the tiled kernel of gradients ", 0), 0u) << ofGradients;
        EXPECT_NE(ofStatistics.find(each.what + std::string("take the weights of the staged kernel, or the CPU")), std::string::npos)
            << ofStatistics;
        EXPECT_NE(ofGradients.find('s' + std::string(each.what) + "take VKATTN_GRADIENT_AUTO or VKATTN_GRADIENT_STAGED"), std::string::npos)
            << ofGradients;
    }
}

// Of one device both have the same lanes: shuffles where subgroups are of a size that tiles take.
TEST(TiledPasses, shuffleWhereSubgroupsSuit) {
    for (const bool cpu : {false, true})
        for (const uint32_t size : {2u, 4u, 8u, 16u, 32u, 64u, 128u}) {
            PlanLimits limits = limitsOfGpu();
            limits.caps.deviceType = cpu ? VK_PHYSICAL_DEVICE_TYPE_CPU : VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
            limits.caps.subgroupSize = size;
            const bool suits = cpu ? size >= 4 && size <= 16 : size >= 16;
            Operations operations(2, 2, 9, 9, 16);
            std::string message;
            StatisticsPlan statistics;
            GradientPlan gradient;
            ASSERT_EQ(operations.plan(limits, statistics, message), VKATTN_OK) << message;
            EXPECT_EQ(statistics.plain, !suits) << size;
            EXPECT_EQ(operations.plan(limits, gradient, message) == VKATTN_OK, suits) << size << ": " << message;
        }
}

// On CPU devices a row alone has its dims in lanes, and several rows are in lanes. With the deterministic flag bits
// do not depend on the number of rows.
TEST(TiledPasses, aRowAloneHasItsDimsInLanes) {
    PlanLimits limits = limitsOfGpu();
    limits.caps.deviceType = VK_PHYSICAL_DEVICE_TYPE_CPU;
    for (const uint32_t lanes : {4u, 8u, 16u})
        for (const uint32_t rows : {1u, 2u, 9u})
            for (const bool deterministic : {false, true}) {
                limits.caps.subgroupSize = lanes;
                Operations operations(2, 2, rows, 90, 64);
                if (deterministic) operations.attention.flags |= VKATTN_DETERMINISTIC;
                StatisticsPlan plan;
                std::string message;
                ASSERT_EQ(operations.plan(limits, plan, message), VKATTN_OK) << message;
                ASSERT_FALSE(plan.plain);
                const PassTile &tile = plan.rows.tile;
                const bool alone = rows == 1 && !deterministic;
                EXPECT_EQ(tile.dimLanes, alone ? lanes : 1) << rows << " rows";
                EXPECT_EQ(tile.owned() == 1, alone) << rows << " rows";
                EXPECT_GE(tile.dimLanes * plan.rows.dimsPerLane, 64u);
                EXPECT_EQ(plan.keys.tile.dimLanes, 1u) << "keys are many, whatever the rows are";
                vkattn_explanation said;
                explainStatistics(plan, limits, said);
                EXPECT_EQ(std::string(said.form).rfind(alone ? "dims of a row in lanes" : "rows in lanes", 0), 0u) << said.form;
            }
}

// Without queries keys receive 0. The heads of one dispatch are as many as bindings and 16-bit numbers of heads
// allow; each key of each head is written once.
TEST(TiledPasses, statisticsWithoutQueriesAreCutByHeads) {
    for (const auto &[heads, keys, range] :
         {std::tuple{70000u, 1u, 1u << 27}, {10000u, 1u, 1u << 16}, {30u, 5000u, 1u << 16}, {1u, 50000u, 1u << 16}}) {
        const std::string name = std::to_string(heads) + " heads of " + std::to_string(keys) + " keys";
        Operations operations(heads, heads, 0, keys, 1);
        PlanLimits limits = limitsOfGpu();
        limits.caps.maxStorageBufferRange = range;
        limits.caps.maxWorkgroupCount[2] = 1u << 20;
        StatisticsPlan plan;
        std::string message;
        ASSERT_EQ(operations.plan(limits, plan, message), VKATTN_OK) << name << ": " << message;
        ASSERT_NO_FATAL_FAILURE(expectWithinLimitsAndBindings(plan, limits, name));
        EXPECT_GT(plan.forward.chunkCount(), 1u) << name;
        uint64_t written = 0;
        for (uint32_t n = plan.forward.setUpDispatches; n < plan.dispatchCount; ++n) {
            const Dispatch d = plan.type->dispatch(plan, n);
            StatisticsPush push;
            std::memcpy(&push, d.pushWords, sizeof push);
            if (d.key.module == Module::statisticsKeys) written += uint64_t{push.keys} * d.groups[2];
        }
        EXPECT_EQ(written, uint64_t{heads} * keys) << name;
    }
}
