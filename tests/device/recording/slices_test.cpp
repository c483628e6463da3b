// Slices on a host's own device: each in a command buffer and submit of its own, and between two of
// them the host writes NaN over the workspace that need not persist.
#include "device/environment.hpp"
#include "device/host.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

using namespace vkattn;
using namespace vkattn::test;

namespace {

constexpr VkDeviceSize operandAt = 0, operandRoom = 640 << 10, workspaceAt = operandRoom, workspaceRoom = (1 << 20) - operandRoom;

struct Sliced {
    vkattn_requirements requirements{};
    std::vector<unsigned char> out;
};

// The bindings of a problem over the host's one buffer, operands one after the other.
std::vector<vkattn_binding> bindingsOf(const vkattn_problem &p, VkBuffer buffer) {
    std::vector<vkattn_binding> bindings;
    VkDeviceSize at = operandAt;
    for (uint32_t role = 0; role < VKATTN_WORKSPACE; ++role)
        if (const uint64_t bytes = vkattnOperandBytes(&p, static_cast<vkattn_role>(role)); bytes) {
            bindings.push_back({static_cast<vkattn_role>(role), buffer, at, bytes});
            at += (bytes + 255) & ~VkDeviceSize{255};
        }
    EXPECT_LE(at, operandRoom);
    bindings.push_back({VKATTN_WORKSPACE, buffer, workspaceAt, workspaceRoom});
    return bindings;
}

void computeInSlices(Host &host, Context &context, vkattn_problem p, uint32_t slices, Sliced &result) {
    p.sliceCount = slices;
    vkattn_diagnostic why{};
    ASSERT_EQ(context.query(p, result.requirements, &why), VKATTN_OK) << why.message;
    const vkattn_requirements &needs = result.requirements;
    ASSERT_LE(needs.workspaceBytes, workspaceRoom);
    ASSERT_LE(needs.persistentWorkspaceBytes, needs.workspaceBytes);
    ASSERT_EQ(context.prewarm({&p, 1}, &why), VKATTN_OK) << why.message;
    const std::vector<vkattn_binding> bindings = bindingsOf(p, host.buffer);
    vkattn_record record{};
    record.structSize = sizeof record;
    record.commandBuffer = host.commands;
    record.bindings = bindings.data();
    record.bindingCount = static_cast<uint32_t>(bindings.size());
    record.descriptorPool = host.descriptors;
    std::memset(host.mapped + workspaceAt, 0xff, workspaceRoom); // NaN
    for (record.sliceIndex = 0; record.sliceIndex < std::max(slices, 1u); ++record.sliceIndex) {
        ASSERT_EQ(vkattnRecord(context.handle(), &p, &record, &why), VKATTN_OK) << why.message;
        ASSERT_TRUE(host.submitAndWait());
        std::memset(host.mapped + workspaceAt + needs.persistentWorkspaceBytes, 0xff, workspaceRoom - needs.persistentWorkspaceBytes);
        vkResetDescriptorPool(host.device, host.descriptors, 0);
        VkCommandBufferBeginInfo begin{};
        begin.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
        ASSERT_EQ(vkResetCommandBuffer(host.commands, 0), VK_SUCCESS);
        ASSERT_EQ(vkBeginCommandBuffer(host.commands, &begin), VK_SUCCESS);
    }
    for (const vkattn_binding &binding : bindings)
        if (binding.role == VKATTN_OUT) result.out.assign(host.mapped + binding.offset, host.mapped + binding.offset + binding.size);
}

} // namespace

TEST(Slices, needNothingButThePersistentWorkspace) {
    Host host;
    ASSERT_TRUE(host.ready);
    const std::string row = " maxDim=64 dimLanes=2 keyLanes=2 rowLanes=2 rowsPerLane=2\n",
                      tiles = "vkattn-tuning 1\nflash maxDim=64 rowLanes=4 keysPerLane=2\ndecode" + row;
    host.host.tuning = tiles.data(), host.host.tuningBytes = tiles.size();
    Context context;
    vkattn_diagnostic why{};
    ASSERT_EQ(context.create(host.host, &why), VKATTN_OK) << why.message;
    uint32_t kept = 0, cut = 0;
    for (const vkattn_kernel kernel : {VKATTN_KERNEL_STAGED, VKATTN_KERNEL_FLASH, VKATTN_KERNEL_DECODE})
        for (const uint32_t queries : {1u, 40u})
            for (const bool causal : {false, true})
                for (const bool options : {false, true}) {
                    const uint32_t keys = queries == 1 ? 4100 : 200;
                    const vkattn_layout q = packed(VKATTN_F32, 1, 2, queries, 8), k = packed(VKATTN_F32, 1, 2, keys, 8);
                    vkattn_problem p = problem(q, k, k, q);
                    p.kernel = kernel;
                    p.flags = causal ? VKATTN_DETERMINISTIC | VKATTN_CAUSAL : VKATTN_DETERMINISTIC;
                    // The environment
                    if (options) p.presentRoles = VKATTN_PRESENT(VKATTN_SINKS) | VKATTN_PRESENT(VKATTN_ALIBI_SLOPES);
                    Random random = randomFor("slices");
                    std::normal_distribution<float> normal;
                    for (VkDeviceSize at = 0; at < operandRoom; at += 4) {
                        const float value = normal(random);
                        std::memcpy(host.mapped + at, &value, 4);
                    }
                    Sliced whole;
                    computeInSlices(host, context, p, 0, whole);
                    ASSERT_FALSE(whole.out.empty());
                    EXPECT_EQ(whole.requirements.persistentWorkspaceBytes, 0u);
                    for (const uint32_t slices : {2u, 3u, 9u}) {
                        Sliced sliced;
                        std::vector<vkattn_binding> bindings = bindingsOf(p, host.buffer);
                        for (const vkattn_binding &b : bindings)
                            if (b.role == VKATTN_OUT) std::memset(host.mapped + b.offset, 0xff, b.size);
                        computeInSlices(host, context, p, slices, sliced);
                        EXPECT_EQ(whole.out, sliced.out)
                            << "kernel " << kernel << ", " << queries << " queries, options " << options << ", " << slices << " slices";
                        kept += sliced.requirements.persistentWorkspaceBytes > 0 ? 1 : 0;
                        cut += sliced.requirements.maxSlices >= slices ? 1 : 0;
                    }
                }
    std::printf("%u of 72 keep workspace between slices, %u have work for each\n", kept, cut);
    EXPECT_GT(kept, 22u);
    EXPECT_LT(kept, 64u);
    EXPECT_GT(cut, 36u);
}

// There are as many submits as slices that have work.
TEST(Slices, areBoundedByTheRuntime) {
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    Case c;
    c.name = "countless slices", c.kernel = VKATTN_KERNEL_STAGED, c.slices = UINT32_MAX;
    Random random = randomFor(c.name);
    const auto instance = makeCaseData(c, random);
    EXPECT_EQ(runAndCheck(*runtime, *instance), "");
}

TEST(Slices, ofAnotherNumberAreRefused) {
    Host host;
    ASSERT_TRUE(host.ready);
    Context context;
    ASSERT_EQ(context.create(host.host), VKATTN_OK);
    const vkattn_layout t = packed(VKATTN_F32, 1, 2, 8, 16);
    vkattn_problem p = problem(t, t, t, t);
    vkattn_record record{};
    record.structSize = sizeof record;
    record.commandBuffer = host.commands;
    for (const uint32_t slices : {0u, 1u, 3u}) {
        p.sliceCount = slices;
        record.sliceIndex = std::max(slices, 1u);
        vkattn_diagnostic why{};
        EXPECT_EQ(vkattnRecord(context.handle(), &p, &record, &why), VKATTN_ERROR_INVALID_ARGUMENT);
        EXPECT_NE(std::string(why.message).find("expected less than the problem's sliceCount"), std::string::npos) << why.message;
    }
    uint32_t count = 0;
    vkattn_diagnostic why{};
    for (const double microseconds : {0.0, -1.0, 1e300, static_cast<double>(NAN)})
        EXPECT_EQ(vkattnSlicesForBudget(context.handle(), &p, microseconds, &count, &why), VKATTN_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(vkattnSlicesForBudget(nullptr, &p, 1, &count, &why), VKATTN_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(vkattnSlicesForBudget(context.handle(), &p, 1, nullptr, &why), VKATTN_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(vkattnSlicesForBudget(context.handle(), &p, 1, &count, &why), VKATTN_ERROR_UNSUPPORTED);
    EXPECT_NE(std::string(why.message).find("vkattn tune"), std::string::npos) << why.message;
}
