// Slices without a device: every dispatch is in one slice, slices are nearly even, what a slice
// needs of an earlier one lies in the persistent part of the workspace, and a budget in
// microseconds is kept by the planner's own estimate.
#include "core/kernels/flash.hpp"
#include "core/plan/slices.hpp"
#include "core/plan/work.hpp"
#include "support/case.hpp"
#include "unit/problem_of.hpp"

#include <gtest/gtest.h>

using namespace vkattn;
using namespace vkattn::test;

namespace {

PlanLimits limitsOf(uint32_t deviceType, uint32_t buffers = 16) {
    PlanLimits limits{minimumCaps(), 64 << 20, {}};
    limits.caps.deviceType = deviceType;
    limits.caps.maxStorageBuffersPerStage = buffers;
    limits.caps.maxStorageBufferRange = 1u << 30;
    limits.caps.subgroupSize = 8;
    limits.caps.subgroupShuffle = 1;
    limits.tuning = flashTuning(limits.caps);
    return limits;
}

// Large enough to cut, described without memory.
Problem large(uint32_t batch, uint32_t heads, uint32_t kvHeads, uint32_t queries, uint32_t keys, uint32_t dim,
              vkattn_dtype dtype = VKATTN_F32) {
    vkattn_problem d = vkattn::problem(packed(dtype, batch, heads, queries, dim), packed(dtype, batch, kvHeads, keys, dim),
                                       packed(dtype, batch, kvHeads, keys, dim), packed(dtype, batch, heads, queries, dim));
    Problem p;
    EXPECT_EQ(makeProblem(&d, p, nullptr), VKATTN_OK);
    return p;
}

struct Named {
    std::string name;
    Problem p;
};

std::vector<Named> problems() {
    std::vector<Named> list;
    const auto add = [&](std::string name, Problem p) {
        for (const bool deterministic : {false, true}) {
            p.deterministic = deterministic;
            list.push_back({name + (deterministic ? ", deterministic" : ""), p});
        }
    };
    add("prefill", large(1, 8, 8, 4096, 4096, 64));
    add("grouped prefill, f16", large(2, 28, 4, 1000, 3000, 128, VKATTN_F16));
    add("decode", large(1, 32, 8, 1, 131072, 128, VKATTN_F16));
    add("decode of a batch", large(7, 12, 4, 2, 5000, 64));
    add("one head", large(1, 1, 1, 70000, 70000, 64));
    Problem causal = large(3, 4, 4, 5000, 5000, 64);
    causal.right = 0;
    add("causal", causal);
    Problem window = large(1, 8, 8, 16384, 16384, 64);
    window.left = 255, window.right = 0;
    add("window", window);
    for (const vkattn_kernel kernel : {VKATTN_KERNEL_STAGED, VKATTN_KERNEL_FLASH}) {
        Problem p = causal;
        p.kernel = kernel, p.queryTokens = p.tensors[VKATTN_Q].extent[2];
        add(kernel == VKATTN_KERNEL_STAGED ? "staged" : "flash", p);
    }
    Case options;
    options.queryTokens = 300, options.keyTokens = 3000, options.lse = options.alibi = options.sinks = options.lengths = true;
    options.maskBroadcast = 0, options.biasBroadcast = 3;
    add("options", problemOf(options));
    options.kernel = VKATTN_KERNEL_STAGED;
    add("staged options", problemOf(options));
    Case ragged;
    ragged.ragged = ragged.causal = true, ragged.batch = 5, ragged.queryTokens = 200, ragged.keyTokens = 900;
    add("ragged", problemOf(ragged));
    return list;
}

bool overlaps(const Operand &a, const Operand &b) {
    return a.role == b.role && a.beginBytes < b.endBytes && b.beginBytes < a.endBytes;
}

constexpr uint32_t counts[] = {2, 3, 7, 16, 60, 1000, 123457, UINT32_MAX};

} // namespace

TEST(Slices, coverThePlanOnceAndInOrder) {
    for (const Named &each : problems())
        for (const uint32_t type : {VK_PHYSICAL_DEVICE_TYPE_CPU, VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU})
            for (const uint32_t slices : counts) {
                Problem p = each.p;
                p.slices = slices;
                Plan plan;
                vkattn_diagnostic why{};
                ASSERT_EQ(makePlan(p, limitsOf(type), plan, &why), VKATTN_OK) << each.name << ": " << why.message;
                uint32_t next = 0, busy = 0;
                for (uint32_t index = 0; index < std::min(slices, 2000u); ++index) {
                    const DispatchRange range = dispatchesOfSlice(plan, index);
                    ASSERT_EQ(range.first, next) << each.name << ", slice " << index << " of " << slices;
                    ASSERT_LE(range.first, range.last);
                    next = range.last;
                    if (range.first < range.last) {
                        if (++busy % 16 != 1) continue;
                        ASSERT_EQ(sliceOfDispatch(plan, range.first), index) << each.name;
                        ASSERT_EQ(sliceOfDispatch(plan, range.last - 1), index) << each.name;
                    }
                }
                if (slices > 2000) {
                    EXPECT_EQ(dispatchesOfSlice(plan, slices - 1).last, plan.dispatchCount) << each.name;
                    continue;
                }
                EXPECT_EQ(next, plan.dispatchCount) << each.name << ", " << slices << " slices";
                EXPECT_LE(busy, mostSlices(plan, limitsOf(type))) << each.name;
            }
}

// No slice has more than twice its share, and a problem of equal rows comes out within a tenth
// where tiles of rows are many.
TEST(Slices, areNearlyEven) {
    for (const Named &each : problems())
        for (const uint32_t type : {VK_PHYSICAL_DEVICE_TYPE_CPU, VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU})
            for (const uint32_t slices : {2u, 3u, 7u, 16u, 60u}) {
                Problem p = each.p;
                Plan plan, whole;
                ASSERT_EQ(makePlan(p, limitsOf(type), whole, nullptr), VKATTN_OK);
                p.slices = slices;
                ASSERT_EQ(makePlan(p, limitsOf(type), plan, nullptr), VKATTN_OK);
                EXPECT_EQ(plan.kernel, whole.kernel) << each.name;
                const uint32_t most = mostSlices(plan, limitsOf(type));
                if (most < 2 * slices) continue;
                EXPECT_LE(largestShare(plan) * slices, 2.05) << each.name << ", " << slices << " slices of at most " << most;
                EXPECT_GE(sliceUnits(plan).count, slices) << each.name;
            }
    Problem p = large(1, 8, 8, 4096, 4096, 64);
    for (const uint32_t slices : {2u, 4u, 8u, 16u}) {
        p.slices = slices;
        Plan plan;
        ASSERT_EQ(makePlan(p, limitsOf(VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU), plan, nullptr), VKATTN_OK);
        EXPECT_LE(largestShare(plan) * slices, 1.1) << slices;
        EXPECT_EQ(sliceUnits(plan).count, slices);
        EXPECT_EQ(persistentWorkspaceBytes(plan), 0u);
    }
}

// Everything that a dispatch reads of the workspace was written in the same slice, or lies in the
// persistent part.
TEST(Slices, keepWhatLaterOnesRead) {
    uint32_t persistent = 0, free = 0;
    for (const Named &each : problems())
        for (const uint32_t slices : {3u, 16u, 200u}) {
            Problem p = each.p;
            p.slices = slices;
            Plan plan;
            ASSERT_EQ(makePlan(p, limitsOf(VK_PHYSICAL_DEVICE_TYPE_CPU), plan, nullptr), VKATTN_OK);
            const uint64_t kept = persistentWorkspaceBytes(plan);
            ASSERT_LE(kept, plan.workspaceBytes);
            ++(kept == plan.workspaceBytes ? persistent : free);
            for (uint32_t index = 0; index < slices; ++index) {
                const DispatchRange range = dispatchesOfSlice(plan, index);
                std::vector<Operand> written;
                for (uint32_t n = range.first; n < std::min(range.last, range.first + 400); ++n) {
                    const Dispatch d = plan.dispatch(n);
                    for (const Operand &o : std::span(d.operands, d.operandCount)) {
                        if (o.role != VKATTN_WORKSPACE || o.writes || o.endBytes <= kept) continue;
                        // A binding that is not used.
                        bool stands = o.basePushWord == noPushWord && plan.kernel->id == VKATTN_KERNEL_STAGED;
                        for (const Operand &w : written) stands = stands || overlaps(o, w);
                        for (const Operand &w : std::span(d.operands, d.operandCount)) stands = stands || (w.writes && overlaps(o, w));
                        ASSERT_TRUE(stands) << each.name << ", slice " << index << " of " << slices << ", dispatch " << n << " reads ["
                                            << o.beginBytes << ", " << o.endBytes << "), kept are " << kept;
                    }
                    for (const Operand &o : std::span(d.operands, d.operandCount))
                        if (o.role == VKATTN_WORKSPACE && o.writes) written.push_back(o);
                }
            }
        }
    EXPECT_GT(persistent, 0u);
    EXPECT_GT(free, 0u);
}

TEST(Slices, keepABudget) {
    PlanLimits limits = limitsOf(VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU);
    const std::string file = "vkattn-tuning 1\nrate flash minDim=33 maxDim=64 mflops=1000000\nrate decode maxDim=128 mflops=50000\n";
    ASSERT_EQ(readTuning(file.data(), file.size(), limits.tuning, nullptr), VKATTN_OK);
    for (const bool causal : {false, true}) {
        Problem p = large(1, 8, 8, 8192, 8192, 64);
        if (causal) p.right = 0;
        Plan plan;
        ASSERT_EQ(makePlan(p, limits, plan, nullptr), VKATTN_OK);
        const double whole = visibleFlops(p) / 1e6; // at 1 TFLOP/s
        uint32_t before = 1;
        for (const double budget : {1e9, whole, whole / 2, 5000.0, 1000.0}) {
            uint32_t slices = 0;
            ASSERT_EQ(slicesForBudget(plan, limits, budget, slices, nullptr), VKATTN_OK) << budget;
            if (budget >= whole) {
                EXPECT_EQ(slices, 1u);
                continue;
            }
            EXPECT_GE(slices, std::max(before, static_cast<uint32_t>(whole / budget)));
            before = slices;
            p.slices = slices;
            Plan cut;
            ASSERT_EQ(makePlan(p, limits, cut, nullptr), VKATTN_OK);
            EXPECT_LE(largestShare(cut) * whole, budget);
            p.slices = 1;
        }
        vkattn_diagnostic why{};
        uint32_t slices = 0;
        EXPECT_EQ(slicesForBudget(plan, limits, 1e-3, slices, &why), VKATTN_ERROR_UNSUPPORTED);
        EXPECT_NE(std::string(why.message).find("the most that there can be"), std::string::npos) << why.message;
    }
    // No rate for these dims, and none at all for the staged kernel.
    for (const vkattn_kernel kernel : {VKATTN_KERNEL_AUTO, VKATTN_KERNEL_STAGED}) {
        Problem p = large(1, 8, 8, 512, 512, kernel == VKATTN_KERNEL_AUTO ? 128 : 64);
        p.kernel = kernel;
        Plan plan;
        ASSERT_EQ(makePlan(p, limits, plan, nullptr), VKATTN_OK);
        vkattn_diagnostic why{};
        uint32_t slices = 0;
        EXPECT_EQ(slicesForBudget(plan, limits, 1000, slices, &why), VKATTN_ERROR_UNSUPPORTED);
        EXPECT_NE(std::string(why.message).find("no tuning data with a rate"), std::string::npos) << why.message;
    }
}

// The largest problems that a description may have: no overflow, no hang.
TEST(Slices, ofTheLargestProblems) {
    uint32_t planned = 0;
    for (const uint32_t queries : {1u, 1u << 20, 1u << 25})
        for (const uint32_t slices : {2u, 1000000u, UINT32_MAX}) {
            Problem p = large(1, 1, 1, queries, 1u << 25, 64);
            p.slices = slices;
            PlanLimits limits = limitsOf(VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU);
            limits.caps.maxStorageBufferRange = UINT32_MAX;
            Plan plan;
            vkattn_diagnostic why{};
            const vkattn_result r = makePlan(p, limits, plan, &why);
            if (r != VKATTN_OK) {
                EXPECT_EQ(r, VKATTN_ERROR_UNSUPPORTED);
                EXPECT_NE(why.message[0], '\0');
                continue;
            }
            ++planned;
            EXPECT_GE(mostSlices(plan, limits), 1u);
            EXPECT_EQ(dispatchesOfSlice(plan, slices - 1).last, plan.dispatchCount);
            EXPECT_EQ(dispatchesOfSlice(plan, 0).first, 0u);
        }
    EXPECT_GE(planned, 3u);
}
