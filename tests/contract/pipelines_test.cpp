// The pipelines that a context compiles, and those that must be there before it records.
#include "core/vulkan/context.hpp"
#include "support/fake_vulkan.hpp"
#include "vkattn/vkattn.hpp"

#include <gtest/gtest.h>
#include <vector>

using namespace vkattn;
using namespace vkattn::test;

// The table of pipelines finds a bucket by a hash of 32 bits. Two keys with the same hash are two
// pipelines all the same.
TEST(Pipelines, keysOfOneHashArePipelinesOfTheirOwn) {
    PipelineKey a = {Module::scores, {64, 8, 8, 4, 4, 0, 0, 0}}, b = a;
    b.constants[6] = 1;
    // FNV-1a, as PipelineKey::hash().
    const auto stateBefore = [](const PipelineKey &key, uint32_t count) {
        uint32_t h = (2166136261u ^ static_cast<uint32_t>(key.module)) * 16777619u;
        for (uint32_t n = 0; n < count; ++n) h = (h ^ key.constants[n]) * 16777619u;
        return h;
    };
    b.constants[7] = a.constants[7] ^ stateBefore(a, 7) ^ stateBefore(b, 7);
    ASSERT_EQ(a.hash(), b.hash());
    ASSERT_FALSE(a == b);

    FakeVulkan fake;
    DeviceContext *context = nullptr;
    vkattn_diagnostic why{};
    ASSERT_EQ(DeviceContext::create(fake.host(), context, &why), VKATTN_OK) << why.message;
    PipelineSet first, second;
    first.add(a);
    second.add(b);
    EXPECT_EQ(context->pipelines().compile(first, &why), VKATTN_OK) << why.message;
    EXPECT_FALSE(context->pipelines().has(second));
    EXPECT_EQ(context->pipelines().compile(second, &why), VKATTN_OK) << why.message;
    EXPECT_EQ(fake.pipelinesCreated, 2u);
    EXPECT_TRUE(context->pipelines().has(first) && context->pipelines().has(second));
    EXPECT_NE(context->pipelines().find(a), context->pipelines().find(b));
    DeviceContext::destroy(context);
    EXPECT_TRUE(fake.nothingLives());
}

// A host that records slice by slice learns with the first slice that a pipeline of a later one is
// missing, and not halfway.
TEST(Pipelines, theFirstSliceWantsThoseOfAllSlices) {
    FakeVulkan fake;
    Context context;
    vkattn_diagnostic why{};
    ASSERT_EQ(context.create(fake.host(), &why), VKATTN_OK) << why.message;
    vkattn_problem p = problem(packed(VKATTN_F32, 1, 1, 4, 16), packed(VKATTN_F32, 1, 1, 4096, 16), packed(VKATTN_F32, 1, 1, 4096, 16),
                               packed(VKATTN_F32, 1, 1, 4, 16));
    p.kernel = VKATTN_KERNEL_STAGED;
    p.sliceCount = 32;
    vkattn_caps caps{};
    ASSERT_EQ(context.caps(caps), VKATTN_OK);
    vkattn_dispatch_list list{};
    ASSERT_EQ(measureDispatches(caps, p, list), VKATTN_OK);
    std::vector<std::byte> scratch(list.scratchBytes);
    ASSERT_EQ(listDispatches(caps, p, scratch, list, planOptions(0), &why), VKATTN_OK) << why.message;
    uint32_t ofFirst = 0;
    for (const vkattn_dispatch &each : vkattn::span(list.dispatches, list.dispatchCount)) {
        if (each.slice > 0) break;
        ASSERT_STREQ(each.name, "scores") << "the first slice has one pipeline, and the others have more";
        ++ofFirst;
    }
    ASSERT_TRUE(ofFirst > 0 && ofFirst <= 4) << "few enough to be made once";

    fake.mostPipelines = 1; // a driver that fails at the second one leaves the first behind
    ASSERT_EQ(context.prewarm({&p, 1}, &why), VKATTN_ERROR_OUT_OF_DEVICE_MEMORY);
    fake.mostPipelines = UINT32_MAX;
    vkattn_requirements needs{};
    ASSERT_EQ(context.query(p, needs, &why), VKATTN_OK) << why.message;
    std::vector<vkattn_binding> bindings;
    for (const vkattn_role role : {VKATTN_Q, VKATTN_K, VKATTN_V, VKATTN_OUT, VKATTN_WORKSPACE})
        bindings.push_back({role, reinterpret_cast<VkBuffer>(uintptr_t{0x1000} + static_cast<uint32_t>(role)), 0,
                            role == VKATTN_WORKSPACE ? needs.workspaceBytes : vkattnOperandBytes(&p, role)});
    FakeCommands commands(needs.dispatchCount);
    vkattn_record record{};
    record.structSize = sizeof record;
    record.commandBuffer = commands.handle();
    record.bindings = bindings.data();
    record.bindingCount = static_cast<uint32_t>(bindings.size());
    EXPECT_EQ(vkattnRecord(context.handle(), &p, &record, &why), VKATTN_NOT_READY);
    EXPECT_TRUE(commands.dispatches.empty());
    ASSERT_EQ(context.prewarm({&p, 1}, &why), VKATTN_OK) << why.message;
    EXPECT_EQ(vkattnRecord(context.handle(), &p, &record, &why), VKATTN_OK) << why.message;
    EXPECT_EQ(commands.dispatches.size(), ofFirst);
    EXPECT_EQ(commands.error, nullptr) << commands.error;
}
