// The cost of compiling plans' pipelines, without a device: no built-in tile is over the device's
// limit, and tiles below the limit are those that come first in the table.
#include "core/plan/tuning/compile_cost.hpp"

#include "core/kernels/explain.hpp"
#include "core/plan/kernel.hpp"
#include "problem/problem.hpp"

#include <vkattn/vkattn.hpp>

#include <cstring>
#include <gtest/gtest.h>

using namespace vkattn;

namespace {

constexpr uint32_t allDims[] = {1,   16,  31,  32,  33,  64,  65,  80,  96,  127, 128, 129,  192, 255,
                                256, 257, 320, 336, 384, 415, 511, 512, 513, 576, 577, 1024, 2048};

PlanLimits limitsOf(uint32_t type, uint32_t subgroup, bool clustered, const std::string &rows = "") {
    PlanLimits limits{minimumCaps(), 64 << 20, {}};
    Caps &caps = limits.caps;
    caps.deviceType = type;
    caps.maxStorageBuffersPerStage = 16;
    caps.maxSharedMemoryBytes = 32768;
    caps.subgroupSize = subgroup;
    caps.subgroupShuffle = subgroup != 0;
    caps.subgroupClustered = clustered;
    limits.tuning = flashTuning(caps);
    const std::string file = "vkattn-tuning 1\n" + rows;
    EXPECT_EQ(readTuning(file.data(), file.size(), limits.tuning, nullptr), VKATTN_OK) << rows;
    return limits;
}

Problem problemOf(vkattn_kernel kernel, uint32_t dim, uint32_t valueDim) {
    constexpr uint32_t tokens = 300; // no row of a tile is without a query
    const vkattn_layout q = packed(VKATTN_F32, 1, 2, tokens, dim), v = packed(VKATTN_F32, 1, 2, tokens, valueDim);
    vkattn_problem given = vkattn::problem(q, q, v, v);
    given.kernel = kernel;
    Problem p;
    EXPECT_EQ(makeProblem(&given, p, nullptr), VKATTN_OK);
    return p;
}

template <class Visit> void forDevices(const Visit &visit) {
    for (const uint32_t type : {VK_PHYSICAL_DEVICE_TYPE_CPU, VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU})
        for (const uint32_t subgroup : {0u, 4u, 8u, 16u, 32u, 64u})
            for (const bool clustered : {false, true})
                if (subgroup != 0 || !clustered) visit(limitsOf(type, subgroup, clustered));
}

const FlashTile *firstTile(const PlanLimits &limits, vkattn_kernel kernel, uint32_t dim) {
    for (const FlashTile &tile : kernel == VKATTN_KERNEL_DECODE ? limits.tuning.decode : limits.tuning.flash)
        if (tile.minDim <= dim && dim <= tile.maxDim) return &tile;
    return nullptr;
}

} // namespace

TEST(CompileCost, staysUnderTheLimitOfTheDevice) {
    uint32_t plans = 0, passedOver = 0;
    forDevices([&](const PlanLimits &limits) {
        for (const uint32_t dim : allDims)
            for (const uint32_t valueDim : {dim, 24u})
                for (const vkattn_kernel kernel : {VKATTN_KERNEL_AUTO, VKATTN_KERNEL_FLASH, VKATTN_KERNEL_DECODE, VKATTN_KERNEL_STAGED}) {
                    vkattn_explanation out{};
                    vkattn_diagnostic why{};
                    const vkattn_result result = explainPlan(problemOf(kernel, dim, valueDim), limits, out, &why);
                    if (result != VKATTN_OK) {
                        EXPECT_TRUE(kernel == VKATTN_KERNEL_FLASH || kernel == VKATTN_KERNEL_DECODE) << why.message;
                        continue;
                    }
                    ++plans;
                    passedOver += out.passedOverOperations != 0;
                    EXPECT_EQ(out.compileLimit, compileLimit(limits.caps));
                    EXPECT_GT(out.compileOperations, 0u);
                    EXPECT_LE(out.compileOperations, out.compileLimit)
                        << out.kernelName << ", dims " << dim << " and " << valueDim << ", subgroups of " << limits.caps.subgroupSize;
                }
    });
    EXPECT_GT(plans, 1000u);
    EXPECT_GT(passedOver, 20u);
}

TEST(CompileCost, changesNoTileThatIsUnderTheLimit) {
    uint32_t kept = 0;
    forDevices([&](const PlanLimits &limits) {
        for (const uint32_t dim : allDims)
            for (const vkattn_kernel kernel : {VKATTN_KERNEL_FLASH, VKATTN_KERNEL_DECODE}) {
                const FlashTile *first = firstTile(limits, kernel, dim);
                Plan plan;
                if (!first || makePlan(problemOf(kernel, dim, dim), limits, plan, nullptr) != VKATTN_OK) continue;
                if (plan.flash.passedOverOperations) {
                    EXPECT_GT(plan.flash.passedOverOperations, compileLimit(limits.caps));
                    continue;
                }
                ++kept;
                EXPECT_EQ(std::memcmp(&plan.flash.tile, first, offsetof(FlashTile, ofFile)), 0)
                    << dim << ", subgroups of " << limits.caps.subgroupSize;
            }
    });
    EXPECT_GT(kept, 200u);
}

// The dims are those of docs/performance.md.
TEST(CompileCost, cutsTilesOfSoftwareDevicesAlone) {
    forDevices([&](const PlanLimits &limits) {
        const bool cpu = limits.caps.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU;
        for (const uint32_t dim : allDims) {
            Plan plan;
            const bool taken = makePlan(problemOf(VKATTN_KERNEL_FLASH, dim, dim), limits, plan, nullptr) == VKATTN_OK;
            const uint32_t lanes = limits.caps.subgroupSize;
            if (cpu && lanes > 16) continue;                          // no such vectors
            const bool quick = !cpu || limits.caps.subgroupClustered; // compilers that take every tile of the table
            const uint32_t largest = quick ? 576 : lanes == 0 ? 85 : lanes == 4 ? 336 : 576, whole = quick ? 576 : lanes == 0 ? 76 : 256;
            EXPECT_EQ(taken, dim <= largest) << dim << ", lanes " << lanes;
            if (taken) {
                // Of 16 lanes each has so few of 576 dims that 4 rows of them are not too much.
                const bool few = cpu && lanes == 16 && dim > 512;
                // Of 4 lanes each has so many of more dims that what the table has is at the limit.
                if (cpu && quick && lanes == 4 && dim > 335) continue;
                EXPECT_EQ(plan.flash.passedOverOperations != 0, dim > whole && !few) << dim << ", lanes " << lanes;
            }
        }
    });
}

TEST(CompileCost, leavesRowsOfATuningFileAlone) {
    const PlanLimits limits =
        limitsOf(VK_PHYSICAL_DEVICE_TYPE_CPU, 8, false, "flash maxDim=512 rowLanes=8 rowsPerLane=2 source=2 subgroups=1");
    vkattn_explanation out{};
    ASSERT_EQ(explainPlan(problemOf(VKATTN_KERNEL_FLASH, 512, 512), limits, out, nullptr), VKATTN_OK);
    EXPECT_EQ(out.rowsPerWorkgroup, 16u);
    EXPECT_GT(out.compileOperations, out.compileLimit);
    EXPECT_EQ(out.passedOverOperations, 0u);
}

TEST(CompileCost, saysWhyNoTileIsTaken) {
    Plan plan;
    vkattn_diagnostic why{};
    EXPECT_EQ(makePlan(problemOf(VKATTN_KERNEL_FLASH, 512, 512), limitsOf(VK_PHYSICAL_DEVICE_TYPE_CPU, 4, false), plan, &why),
              VKATTN_ERROR_UNSUPPORTED);
    EXPECT_TRUE(std::strstr(why.message, "flash kernel's tiles for head dim 512 take drivers of this device's type too long to compile"))
        << why.message;
    EXPECT_TRUE(std::strstr(why.message, "at most 5000")) << why.message;
}
