// Plans of the flash kernel with rules of visibility, without a device: splits of long sequences, patches
// of a grid.
#include "core/kernels/flash.hpp"
#include "core/plan/tuning/table.hpp"
#include "lib/interop.h"
#include "support/case.hpp"
#include "unit/problem_of.hpp"

#include <functional>
#include <gtest/gtest.h>

using namespace vkattn;
using namespace vkattn::test;

namespace {

// A software device, with clustered subgroup operations or without.
PlanLimits softwareDevice(bool clustered) {
    PlanLimits limits{minimumCaps(), 64 << 20, {}};
    limits.caps.maxStorageBufferRange = 1u << 31;
    limits.caps.maxStorageBuffersPerStage = 16;
    limits.caps.deviceType = VK_PHYSICAL_DEVICE_TYPE_CPU;
    limits.caps.subgroupSize = 8;
    limits.caps.subgroupShuffle = 1;
    limits.caps.subgroupClustered = clustered ? 1 : 0;
    limits.tuning = flashTuning(limits.caps);
    return limits;
}

// One head of so many tokens, without memory behind it.
Plan planOf(uint32_t tokens, bool clustered, const std::function<void(vkattn_problem &)> &edit) {
    const auto layout = [&](uint32_t dims) {
        return vkattn_layout{VKATTN_F32, {1, 1, tokens, dims}, {int64_t{tokens} * dims, int64_t{tokens} * dims, dims, 1}, 0};
    };
    vkattn_problem description{};
    description.structSize = sizeof description;
    description.q = description.k = description.v = description.out = layout(64);
    description.kernel = VKATTN_KERNEL_FLASH;
    edit(description);
    Problem p;
    vkattn_diagnostic why{};
    EXPECT_EQ(makeProblem(&description, p, &why), VKATTN_OK) << why.message;
    Plan plan;
    EXPECT_EQ(makePlan(p, softwareDevice(clustered), plan, &why), VKATTN_OK) << why.message;
    return plan;
}

void longformer(vkattn_problem &p) {
    p.flags |= VKATTN_WINDOW;
    p.windowLeft = p.windowRight = 256;
    p.presentRoles |= VKATTN_PRESENT(VKATTN_GLOBAL_TOKENS);
}

// Rows are split only for the limit of loops, as a tile of global tokens visits all keys, and for how long a sum may be.
TEST(RulesPlan, longSequencesNeedFewSplits) {
    for (const bool clustered : {false, true}) {
        EXPECT_EQ(planOf(16384, clustered, longformer).flash.parts, 0u);
        const Plan plan = planOf(65536, clustered, longformer);
        EXPECT_LE(plan.flash.parts, 3u);
        // Rows of global tokens see all keys: longer sums would miss the bound.
        EXPECT_LE(plan.flash.splitKeys, softwareDevice(clustered).tuning.maxSplitKeys);
        // The splits of a tile that see nothing do not fill the device.
        EXPECT_GE(plan.chunkQueries / plan.flash.tile.rows(), 16u);
    }
}

void grid(vkattn_problem &p, uint32_t planes, uint32_t rows, uint32_t columns, uint32_t size) {
    p.grid.rule = VKATTN_GRID_CLAMPED;
    p.grid.extent[0] = planes, p.grid.extent[1] = rows, p.grid.extent[2] = columns;
    p.grid.size[0] = 1, p.grid.size[1] = p.grid.size[2] = size;
}

TEST(RulesPlan, tilesArePatchesOfAGrid) {
    for (const bool clustered : {false, true}) {
        const Plan square = planOf(128 * 128, clustered, [](vkattn_problem &p) { grid(p, 1, 128, 128, 13); });
        EXPECT_EQ(square.flash.patchRows * square.flash.patchColumns, square.flash.tile.rows());
        EXPECT_LE(square.flash.patchColumns, 2 * square.flash.patchRows);
        const Plan cut = planOf(127 * 129, clustered, [](vkattn_problem &p) { grid(p, 1, 127, 129, 13); });
        EXPECT_GT(cut.flash.patchRows, 1u);
        const Dispatch main = cut.dispatch(cut.setUpDispatches);
        EXPECT_EQ(main.groups[0],
                  (127 + cut.flash.patchRows - 1) / cut.flash.patchRows * ((129 + cut.flash.patchColumns - 1) / cut.flash.patchColumns));
        // However long it is, a tile visits what its boxes have.
        EXPECT_EQ(planOf(1024 * 1024, clustered, [](vkattn_problem &p) { grid(p, 1, 1024, 1024, 13); }).flash.parts, 0u);
        EXPECT_GT(planOf(4 * 64 * 64, clustered, [](vkattn_problem &p) { grid(p, 4, 64, 64, 5); }).flash.patchRows, 1u);
    }
}

// Of a grid with an odd number of columns, a step has one key.
TEST(RulesPlan, stepsLieInARowOfTheGrid) {
    for (const uint32_t columns : {63u, 64u}) {
        const Plan plan = planOf(64 * columns, true, [&](vkattn_problem &p) { grid(p, 1, 64, columns, 5); });
        EXPECT_EQ(columns % plan.flash.tile.step(), 0u);
        EXPECT_NE(plan.dispatch(plan.setUpDispatches).key.constants[interop::constantForm] & interop::formBoxRuns, 0u);
    }
}

TEST(RulesPlan, aRowOfPixelsIsNoPatch) {
    const auto patchRows = [](const std::function<void(vkattn_problem &)> &edit) { return planOf(64 * 64, true, edit).flash.patchRows; };
    EXPECT_GT(patchRows([](vkattn_problem &p) { grid(p, 1, 64, 64, 5); }), 0u);
    EXPECT_EQ(patchRows([](vkattn_problem &p) { grid(p, 1, 1, 4096, 1); }), 0u);
    // The rows of a tile are those of its partial results.
    EXPECT_EQ(patchRows([](vkattn_problem &p) { grid(p, 1, 64, 64, 5), p.flags |= VKATTN_DETERMINISTIC; }), 0u);
    // Where positions are no places of the grid.
    EXPECT_EQ(patchRows([](vkattn_problem &p) { grid(p, 1, 64, 64, 5), p.presentRoles |= VKATTN_PRESENT(VKATTN_KEY_LENGTHS); }), 0u);
    EXPECT_EQ(patchRows([](vkattn_problem &p) { grid(p, 1, 64, 64, 5), p.q.extent[2] = p.out.extent[2] = 100; }), 0u);
}

} // namespace
