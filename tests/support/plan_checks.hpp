// What holds for every plan of an operation, whatever is planned.
#pragma once

#include "core/plan/operands.hpp"
#include "core/plan/plan.hpp"
#include "core/shaders/shaders.hpp"

#include <algorithm>
#include <gtest/gtest.h>
#include <string>

namespace vkattn {

// Every dispatch is within the limits and within what is bound, and every pipeline is announced.
inline void expectWithinLimitsAndBindings(const Schedule &plan, const PlanLimits &limits, const std::string &name) {
    BoundOperand bound[maxBoundOperands];
    const uint32_t count = plan.type->operands(plan, bound);
    const PipelineSet announced = plan.type->pipelines(plan);
    uint64_t descriptors = 0;
    for (uint32_t n = 0; n < plan.dispatchCount; ++n) {
        Dispatch d = plan.type->dispatch(plan, n);
        ASSERT_TRUE(announced.contains(d.key)) << name << ", dispatch " << n << ": " << infoOf(d.key.module).name;
        descriptors += d.operandCount;
        for (int axis = 0; axis < 3; ++axis) {
            EXPECT_GT(d.groups[axis], 0u) << name << ": " << infoOf(d.key.module).name;
            EXPECT_LE(d.groups[axis], limits.caps.maxWorkgroupCount[axis]) << name;
        }
        EXPECT_LE(d.key.constants[0], limits.caps.maxWorkgroupInvocations);
        ASSERT_EQ(d.operandCount, infoOf(d.key.module).slots);
        EXPECT_LE(d.operandCount, limits.caps.maxStorageBuffersPerStage);
        for (uint32_t o = 0; o < d.operandCount; ++o) {
            const Operand &operand = d.operands[o];
            ByteRange all{0, plan.workspaceBytes};
            bool output = true;
            if (operand.role != VKATTN_WORKSPACE) {
                const auto *const found = std::find_if(bound, bound + count, [&](const BoundOperand &b) { return b.role == operand.role; });
                ASSERT_NE(found, bound + count) << name << ", role " << operand.role << " in " << infoOf(d.key.module).name;
                all = found->bytes, output = found->output;
                EXPECT_GT(all.size(), 0u) << name << ", role " << operand.role << " is empty";
            }
            EXPECT_GE(operand.beginBytes, all.begin) << name << ", role " << operand.role << " in " << infoOf(d.key.module).name;
            EXPECT_LE(operand.endBytes, all.end) << name << ", role " << operand.role << " in " << infoOf(d.key.module).name;
            EXPECT_TRUE(output || !operand.writes) << name << ", role " << operand.role;
            const DescriptorRange range = placeOperand(operand, 0, descriptorAlignment(limits.caps), d.pushWords);
            EXPECT_LE(range.size, limits.caps.maxStorageBufferRange) << name << ", role " << operand.role;
            EXPECT_TRUE(operand.basePushWord == noPushWord || operand.basePushWord * 4 < d.pushBytes) << name;
        }
    }
    EXPECT_EQ(descriptors, plan.type->storageDescriptorCount(plan)) << name;
    EXPECT_LT(announced.size(), PipelineSet::capacity) << name;
}

// Every dispatch is in one slice, in order. `withWork`: slices that are not empty.
inline void expectSlicesCoverOnceAndInOrder(const Schedule &plan, const std::string &name, uint32_t &withWork) {
    uint32_t next = 0;
    for (uint32_t index = 0; index < plan.slices; ++index) {
        const DispatchRange range = plan.dispatchesOfSlice(index);
        ASSERT_EQ(range.first, next) << name << ", slice " << index;
        next = range.last;
        withWork += range.first < range.last ? 1 : 0;
        if (range.first == range.last || plan.slices == 1) continue;
        EXPECT_EQ(plan.type->sliceOf(plan, range.first), index) << name;
        EXPECT_EQ(plan.type->sliceOf(plan, range.last - 1), index) << name;
    }
    EXPECT_EQ(next, plan.dispatchCount) << name;
}

} // namespace vkattn
