// Attention between two other submissions, as a frame has it: a first queue fills Q, K and V, a
// second computes, and the first reads the result. One timeline semaphore orders all three. Where
// the queues are of two families the host transfers ownership around vkattn's own barriers, which
// know nothing of queues or families (docs/embedding.md).
#include "device/environment.hpp"
#include "device/host.hpp"

#include <cstring>

using namespace vkattn;
using namespace vkattn::test;

namespace {

// Offsets in the host's buffer.
constexpr uint64_t step = 16384, inputsAt = 0, computeAt = 4 * step, resultAt = 10 * step;

VkSemaphore createTimeline(VkDevice device) {
    VkSemaphoreTypeCreateInfo type{};
    type.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO;
    type.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE;
    VkSemaphoreCreateInfo info{VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, &type, 0};
    VkSemaphore semaphore = VK_NULL_HANDLE;
    return vkCreateSemaphore(device, &info, nullptr, &semaphore) ? VK_NULL_HANDLE : semaphore;
}

// Waits for `wait` at `stage` (0: for nothing), then signals wait + 1.
bool submit(VkQueue queue, VkCommandBuffer commands, VkSemaphore timeline, uint64_t wait, VkPipelineStageFlags stage) {
    const uint64_t signal = wait + 1;
    VkTimelineSemaphoreSubmitInfo values{};
    values.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO;
    values.waitSemaphoreValueCount = wait ? 1 : 0;
    values.pWaitSemaphoreValues = &wait;
    values.signalSemaphoreValueCount = 1;
    values.pSignalSemaphoreValues = &signal;
    const VkSubmitInfo info{VK_STRUCTURE_TYPE_SUBMIT_INFO, &values, wait ? 1u : 0u, &timeline, &stage, 1, &commands, 1, &timeline};
    return vkQueueSubmit(queue, 1, &info, VK_NULL_HANDLE) == VK_SUCCESS;
}

// One half of handing a range over. With one family there is no ownership to transfer: the
// semaphore alone makes writes visible. The source stage of the acquire is the stage that waits for
// the semaphore: any other could run before the wait ends.
void transfer(const Host &host, VkCommandBuffer commands, uint64_t offset, uint64_t size, bool toSecond, bool release,
              VkPipelineStageFlags stage, VkAccessFlags access) {
    if (host.family == host.secondFamily) return;
    VkBufferMemoryBarrier range{};
    range.sType = VK_STRUCTURE_TYPE_BUFFER_MEMORY_BARRIER;
    // The other half's access is the other queue's to say.
    range.srcAccessMask = release ? access : 0;
    range.dstAccessMask = release ? 0 : access;
    range.srcQueueFamilyIndex = toSecond ? host.family : host.secondFamily;
    range.dstQueueFamilyIndex = toSecond ? host.secondFamily : host.family;
    range.buffer = host.buffer;
    range.offset = offset;
    range.size = size;
    const VkPipelineStageFlags after = release ? VkPipelineStageFlags{VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT} : stage;
    vkCmdPipelineBarrier(commands, stage, after, 0, 0, nullptr, 1, &range, 0, nullptr);
}

void copy(const Host &host, VkCommandBuffer commands, uint64_t from, uint64_t to, uint64_t size) {
    const VkBufferCopy region = {from, to, size};
    vkCmdCopyBuffer(commands, host.buffer, host.buffer, 1, &region);
}

void runOnTwoQueues(bool validation) {
    HostOptions options;
    options.apiVersion = VK_API_VERSION_1_2;
    options.askVkattn = options.timeline = true;
    options.validation = validation;
    Host host(options);
    if (host.why == "no timeline semaphores") GTEST_SKIP() << "the device has " << host.why;
    ASSERT_TRUE(host.ready) << host.why;
    std::printf("%s\n", host.secondFamily != host.family ? "two queues of two families"
                        : host.secondQueue != host.queue ? "two queues of one family"
                                                         : "the device has one queue: all submissions go there, in order of the semaphore");
    Context context;
    vkattn_diagnostic why{};
    ASSERT_EQ(context.create(host.host, &why), VKATTN_OK) << why.message;
    const vkattn_layout t = packed(VKATTN_F32, 1, 4, 32, 32);
    vkattn_problem p = problem(t, t, t, t);
    p.flags = VKATTN_CAUSAL;
    vkattn_requirements requirements{};
    ASSERT_EQ(context.query(p, requirements, &why), VKATTN_OK) << why.message;
    ASSERT_EQ(context.prewarm({&p, 1}, &why), VKATTN_OK) << why.message;
    const uint64_t bytes = vkattnOperandBytes(&p, VKATTN_Q);
    ASSERT_EQ(bytes, step);
    Random random = randomFor("queues");
    for (uint64_t n = 0; n < 3 * step; n += 4) {
        const float value = static_cast<float>(random() % 2001) / 1000.0f - 1.0f;
        std::memcpy(host.mapped + inputsAt + n, &value, 4);
    }
    std::memset(host.mapped + computeAt, 0xff, 7 * step); // NaN

    const VkSemaphore timeline = createTimeline(host.device);
    ASSERT_TRUE(timeline);
    VkCommandPool pool = VK_NULL_HANDLE;
    VkCommandPoolCreateInfo poolInfo{VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO, nullptr, 0, host.secondFamily};
    ASSERT_EQ(vkCreateCommandPool(host.device, &poolInfo, nullptr, &pool), VK_SUCCESS);
    VkCommandBuffer consume = VK_NULL_HANDLE, compute = VK_NULL_HANDLE;
    VkCommandBufferAllocateInfo allocate{VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, nullptr, host.pool,
                                         VK_COMMAND_BUFFER_LEVEL_PRIMARY, 1};
    ASSERT_EQ(vkAllocateCommandBuffers(host.device, &allocate, &consume), VK_SUCCESS);
    allocate.commandPool = pool;
    ASSERT_EQ(vkAllocateCommandBuffers(host.device, &allocate, &compute), VK_SUCCESS);
    VkCommandBufferBeginInfo begin{};
    begin.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
    ASSERT_EQ(vkBeginCommandBuffer(consume, &begin), VK_SUCCESS);
    ASSERT_EQ(vkBeginCommandBuffer(compute, &begin), VK_SUCCESS);

    // First queue: the engine makes Q, K and V, and lets go of them.
    copy(host, host.commands, inputsAt, computeAt, 3 * step);
    transfer(host, host.commands, computeAt, 3 * step, true, true, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_WRITE_BIT);
    ASSERT_EQ(vkEndCommandBuffer(host.commands), VK_SUCCESS);

    // Second queue: takes them, computes, lets go of the output.
    transfer(host, compute, computeAt, 3 * step, true, false, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_ACCESS_SHADER_READ_BIT);
    const vkattn_binding bindings[] = {{VKATTN_Q, host.buffer, computeAt, step},
                                       {VKATTN_K, host.buffer, computeAt + step, step},
                                       {VKATTN_V, host.buffer, computeAt + 2 * step, step},
                                       {VKATTN_OUT, host.buffer, computeAt + 3 * step, step},
                                       {VKATTN_WORKSPACE, host.buffer, 16 * step, (1 << 20) - 16 * step}};
    const std::span<const vkattn_binding> used(bindings, requirements.workspaceBytes ? 5 : 4);
    ASSERT_EQ(context.record(p, compute, used, host.descriptors, &why), VKATTN_OK) << why.message;
    transfer(host, compute, computeAt + 3 * step, step, false, true, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_ACCESS_SHADER_WRITE_BIT);
    ASSERT_EQ(vkEndCommandBuffer(compute), VK_SUCCESS);

    // The first queue takes the output and uses it.
    transfer(host, consume, computeAt + 3 * step, step, false, false, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_READ_BIT);
    copy(host, consume, computeAt + 3 * step, resultAt, step);
    const VkMemoryBarrier toHost{VK_STRUCTURE_TYPE_MEMORY_BARRIER, nullptr, VK_ACCESS_TRANSFER_WRITE_BIT, VK_ACCESS_HOST_READ_BIT};
    vkCmdPipelineBarrier(consume, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &toHost, 0, nullptr, 0, nullptr);
    ASSERT_EQ(vkEndCommandBuffer(consume), VK_SUCCESS);

    ASSERT_TRUE(submit(host.queue, host.commands, timeline, 0, 0));
    ASSERT_TRUE(submit(host.secondQueue, compute, timeline, 1, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT));
    ASSERT_TRUE(submit(host.queue, consume, timeline, 2, VK_PIPELINE_STAGE_TRANSFER_BIT));
    const uint64_t finished = 3;
    VkSemaphoreWaitInfo wait{VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO, nullptr, 0, 1, &timeline, &finished};
    ASSERT_EQ(vkWaitSemaphores(host.device, &wait, UINT64_MAX), VK_SUCCESS);

    vkattn_operand_memory operands[] = {{VKATTN_Q, host.mapped + inputsAt, step},
                                        {VKATTN_K, host.mapped + inputsAt + step, step},
                                        {VKATTN_V, host.mapped + inputsAt + 2 * step, step},
                                        {VKATTN_OUT, host.mapped + resultAt, step}};
    vkattn_verify_report report{};
    ASSERT_EQ(vkattnCpuVerify(&p, operands, 4, nullptr, &report, &why), VKATTN_OK) << why.message;
    EXPECT_TRUE(report.passed) << report.worstError << " " << report.worstBound;
    EXPECT_EQ(host.messages.size(), 0u) << host.messages.front();
    vkDeviceWaitIdle(host.device);
    vkDestroyCommandPool(host.device, pool, nullptr);
    vkDestroySemaphore(host.device, timeline, nullptr);
}

} // namespace

TEST(Queues, aTimelineSemaphoreOrdersAttentionBetweenOthersWork) {
    runOnTwoQueues(false);
}

TEST(Validation, isSilentOnTwoQueues) {
    runOnTwoQueues(true);
}
