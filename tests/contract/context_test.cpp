// vkattn::Context as a member of an engine: the moment when the context is destroyed, and that a
// device may go after the context.
#include "support/vulkan/fake_vulkan.hpp"
#include "vkattn/vkattn.hpp"

#include <gtest/gtest.h>
#include <memory>

using namespace vkattn;
using namespace vkattn::test;

TEST(ContextFace, resetDestroysAndCreateWorksAgain) {
    FakeVulkan fake;
    Context context;
    context.reset(); // of none
    ASSERT_EQ(context.create(fake.host()), VKATTN_OK);
    EXPECT_FALSE(fake.nothingLives());
    context.reset();
    EXPECT_TRUE(fake.nothingLives());
    EXPECT_FALSE(context);
    context.reset();
    ASSERT_EQ(context.create(fake.host()), VKATTN_OK);
    EXPECT_TRUE(context);
}

TEST(ContextFace, moveAssignmentDestroysWhatWasThere) {
    FakeVulkan first, second;
    Context a, b;
    ASSERT_EQ(a.create(first.host()), VKATTN_OK);
    ASSERT_EQ(b.create(second.host()), VKATTN_OK);
    const vkattn_context handle = b.handle();
    a = std::move(b);
    EXPECT_TRUE(first.nothingLives()) << "the old context goes with the assignment, not with its source";
    EXPECT_EQ(a.handle(), handle);
    EXPECT_FALSE(b);
    Context &self = a;
    a = std::move(self);
    EXPECT_EQ(a.handle(), handle);
    a = Context();
    EXPECT_TRUE(second.nothingLives());
}

TEST(ContextFace, isAMemberOfAnEngineThatOwnsTheDevice) {
    struct Engine {
        std::unique_ptr<FakeVulkan> device = std::make_unique<FakeVulkan>();
        Context attention; // destroyed after the destructor's body
        ~Engine() {
            attention.reset();
            EXPECT_TRUE(device->nothingLives());
            device.reset();
        }
    };
    Engine engine;
    ASSERT_EQ(engine.attention.create(engine.device->host()), VKATTN_OK);
}
