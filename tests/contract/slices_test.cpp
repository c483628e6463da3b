// A host that records slices in later frames, where nothing may be compiled, learns with the first
// one what is missing.
#include "support/vulkan/fake_vulkan.hpp"
#include "vkattn/vkattn.hpp"

#include <gtest/gtest.h>
#include <set>

using namespace vkattn;
using namespace vkattn::test;

namespace {

// Long rows of keys: the kernel works through them slice by slice, and merges them in the last.
vkattn_problem longRows(vkattn_kernel kernel) {
    const vkattn_layout q = packed(VKATTN_F32, 1, 1, 8, 16), k = packed(VKATTN_F32, 1, 1, 60000, 16);
    vkattn_problem p = problem(q, k, k, q);
    p.kernel = kernel;
    p.sliceCount = 4;
    return p;
}

struct Sliced {
    vkattn_requirements needs{};
    std::vector<vkattn_binding> bindings;
    FakeCommands commands;
    vkattn_record record{};

    Sliced(const Context &context, const vkattn_problem &p) {
        vkattn_diagnostic why{};
        EXPECT_EQ(context.query(p, needs, &why), VKATTN_OK) << why.message;
        for (uint32_t n = 0; n < VKATTN_ROLE_LIMIT; ++n) {
            const auto role = static_cast<vkattn_role>(n);
            const uint64_t bytes = role == VKATTN_WORKSPACE ? needs.workspaceBytes : vkattnOperandBytes(&p, role);
            if (bytes) bindings.push_back({role, reinterpret_cast<VkBuffer>(uintptr_t{0x1000} + n), 0, bytes});
        }
        record.structSize = sizeof record;
        record.commandBuffer = commands.handle();
        record.bindings = bindings.data();
        record.bindingCount = static_cast<uint32_t>(bindings.size());
    }
};

std::set<const FakePipeline *> pipelinesOf(const FakeCommands &commands) {
    std::set<const FakePipeline *> pipelines;
    for (const FakeDispatch &dispatch : commands.dispatches) pipelines.insert(dispatch.pipeline);
    return pipelines;
}

} // namespace

TEST(LaterSlices, areMissedWithTheFirst) {
    uint32_t missed = 0;
    for (const vkattn_kernel kernel : {VKATTN_KERNEL_STAGED, VKATTN_KERNEL_FLASH}) {
        const vkattn_problem p = longRows(kernel);
        uint32_t all = 0;
        size_t first = 0;
        {
            FakeVulkan fake;
            Context context;
            ASSERT_EQ(context.create(fake.host()), VKATTN_OK);
            Sliced sliced(context, p);
            ASSERT_EQ(context.prewarm({&p, 1}), VKATTN_OK);
            all = fake.pipelinesCreated;
            ASSERT_EQ(vkattnRecord(context.handle(), &p, &sliced.record, nullptr), VKATTN_OK);
            first = pipelinesOf(sliced.commands).size();
        }
        ASSERT_GT(all, 1u);
        for (uint32_t compiled = 0; compiled <= all; ++compiled) {
            FakeVulkan fake;
            Context context;
            ASSERT_EQ(context.create(fake.host()), VKATTN_OK);
            Sliced sliced(context, p);
            fake.mostPipelines = compiled;
            EXPECT_EQ(context.prewarm({&p, 1}), compiled < all ? VKATTN_ERROR_OUT_OF_DEVICE_MEMORY : VKATTN_OK);
            // The first slice alone could be recorded.
            missed += compiled >= first && compiled < all;
            EXPECT_EQ(vkattnRecord(context.handle(), &p, &sliced.record, nullptr), compiled < all ? VKATTN_NOT_READY : VKATTN_OK)
                << compiled << " of " << all << " pipelines";
            EXPECT_EQ(sliced.commands.dispatches.empty(), compiled < all);
            EXPECT_EQ(sliced.commands.error, nullptr) << sliced.commands.error;
        }
    }
    EXPECT_GT(missed, 0u) << "the first slice uses every pipeline: this test proves nothing";
}
