// The pipelines that a context compiles. slices_test.cpp has those that must be there before it
// records.
#include "core/vulkan/context.hpp"
#include "support/vulkan/fake_vulkan.hpp"

#include <gtest/gtest.h>

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
