// Statistics x Caps -> StatisticsPlan: how the passes that compute statistics of attention are laid out and
// cut to meet limits. Pure data and pure functions; no Vulkan call.
#pragma once

#include "core/plan/operands.hpp"
#include "core/plan/plan.hpp"
#include "core/plan/slices.hpp"
#include "core/tiles/passes.hpp"
#include "problem/statistics.hpp"

namespace vkattn {

// What the dispatches of a chunk of heads do, in order: each goes over all chunks of rows and keys.
enum class StatisticsStep : uint32_t { rows, density, keys };

struct StatisticsPlan : Schedule {
    Statistics statistics;
    // The attention problem, its chunks and the set-up. Its own dispatches are not recorded.
    Plan forward;
    TiledPass rows, keys;
    bool plain; // without subgroups, for any head dim
    uint32_t shuffleLanes, pairTerms;
    uint32_t topListed; // of the largest weights, that a pass over rows keeps: no fewer than it writes
    bool densityOfTop;  // they are enough to count those above the threshold: no step for the density
    StatisticsStep steps[3];
    uint32_t stepCount;

    [[nodiscard]] const Problem &problem() const { return forward.problem; }
    // Dispatches of a step; the keys' has one more before them, which counts rows.
    [[nodiscard]] uint32_t pairChunks() const { return forward.queryChunks * forward.keyChunks; }
    [[nodiscard]] uint32_t headChunks() const { return forward.batchChunks * forward.headChunks; }
    [[nodiscard]] uint32_t perHeadChunk() const;
    [[nodiscard]] bool countsRows() const { return statistics.uses(VKATTN_RECEIVED); }
};
static_assert(sizeof(StatisticsPlan) < 6144, "plans live on the stack");

// UNSUPPORTED with the reason where the device's limits cannot be met.
[[nodiscard]] vkattn_result planStatistics(const Statistics &statistics, const PlanLimits &limits, StatisticsPlan &out,
                                           vkattn_diagnostic *why);
// How slices may cut a plan: between any two dispatches of passes.
[[nodiscard]] SliceUnits sliceUnits(const StatisticsPlan &plan);
[[nodiscard]] uint32_t mostSlices(const StatisticsPlan &plan, const PlanLimits &limits);
// What rows leave goes on in the next slice.
[[nodiscard]] inline uint64_t persistentWorkspaceBytes(const StatisticsPlan &plan) {
    return plan.slices > 1 ? plan.workspaceBytes : 0;
}
// Says what the planner has chosen, and what the choice costs.
void explainStatistics(const StatisticsPlan &plan, const PlanLimits &limits, vkattn_explanation &out);

namespace statistics {
[[nodiscard]] Dispatch dispatch(const StatisticsPlan &plan, uint32_t index);
[[nodiscard]] PipelineSet pipelines(const StatisticsPlan &plan);
// Bytes that the rows of so many heads leave.
[[nodiscard]] uint64_t scaleBytes(const Problem &, uint64_t heads);
// The dispatch with which a unit of sliceUnits() begins.
[[nodiscard]] uint32_t firstDispatch(const StatisticsPlan &plan, uint32_t unit);
// The lanes of a workgroup that counts rows.
constexpr uint32_t countLanes = 64;
} // namespace statistics

} // namespace vkattn
