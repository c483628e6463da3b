#include "core/record.hpp"

#include "core/slices.hpp"
#include "core/zone.hpp"
#include "util/diagnostic.hpp"

#include <algorithm>
#include <cstring>

namespace vkattn {
namespace {

constexpr vkattn_result invalid = VKATTN_ERROR_INVALID_ARGUMENT;

struct Bindings {
    vkattn_binding byRole[VKATTN_ROLE_COUNT] = {};
};

uint64_t bytesNeeded(const Plan &plan, vkattn_role role) {
    return role == VKATTN_WORKSPACE ? plan.workspaceBytes : plan.problem.bytesNeeded(role);
}

vkattn_result collectBindings(const Plan &plan, const vkattn_record &record, Bindings &out, vkattn_diagnostic *why) {
    if (!record.bindings && record.bindingCount)
        return fail(why, invalid, "record.bindings is NULL with bindingCount %u", record.bindingCount);
    bool given[VKATTN_ROLE_COUNT] = {};
    for (uint32_t n = 0; n < record.bindingCount; ++n) {
        const vkattn_binding &binding = record.bindings[n];
        const char *name = roleName(binding.role);
        if (static_cast<uint32_t>(binding.role) >= VKATTN_ROLE_COUNT ||
            (binding.role != VKATTN_WORKSPACE && !plan.problem.uses(binding.role)))
            return fail(why, invalid, "binding %u has role %s (%d), which the problem does not use", n, name,
                        static_cast<int>(binding.role));
        if (given[binding.role]) return fail(why, invalid, "%s is bound twice", name);
        given[binding.role] = true;
        const uint64_t needed = bytesNeeded(plan, binding.role);
        if (needed && !binding.buffer) return fail(why, invalid, "%s is bound to VK_NULL_HANDLE", name);
        if (binding.size < needed)
            return fail(why, invalid, "%s is bound with %llu bytes, expected at least %llu", name,
                        static_cast<unsigned long long>(binding.size), static_cast<unsigned long long>(needed));
        const uint64_t alignment = binding.role == VKATTN_WORKSPACE     ? plan.workspaceAlignment
                                   : binding.role >= VKATTN_KEY_LENGTHS ? 4
                                                                        : elementBytes(plan.problem.tensor(binding.role).dtype);
        if (binding.offset % alignment)
            return fail(why, invalid, "%s is bound at offset %llu, expected a multiple of %llu", name,
                        static_cast<unsigned long long>(binding.offset), static_cast<unsigned long long>(alignment));
        out.byRole[binding.role] = binding;
    }
    for (uint32_t n = 0; n < VKATTN_ROLE_COUNT; ++n) {
        const auto role = static_cast<vkattn_role>(n);
        if (!given[n] && bytesNeeded(plan, role))
            return fail(why, invalid, "%s is not bound; it needs %llu bytes", roleName(role),
                        static_cast<unsigned long long>(bytesNeeded(plan, role)));
    }
    return VKATTN_OK;
}

// Descriptors begin at multiples of the device's alignment and cover whole words; what that moves goes into the push constant.
VkDescriptorBufferInfo describeOperand(const Operand &operand, const vkattn_binding &binding, uint64_t alignment, Dispatch &dispatch) {
    const uint64_t begin = binding.offset + operand.beginBytes, alignedBegin = begin & ~(alignment - 1);
    const uint64_t end = (binding.offset + operand.endBytes + 3) & ~3ull;
    if (operand.basePushWord != noPushWord)
        dispatch.pushWords[operand.basePushWord] =
            static_cast<uint32_t>((binding.offset + operand.firstByte - alignedBegin) / operand.elementSize);
    return {binding.buffer, alignedBegin, std::max<uint64_t>(end - alignedBegin, 4)};
}

void barrier(const DeviceTable &table, VkCommandBuffer commandBuffer) {
    VkMemoryBarrier memory{};
    memory.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
    memory.srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT;
    memory.dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT;
    table.CmdPipelineBarrier(commandBuffer, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, 0, 1, &memory, 0,
                             nullptr, 0, nullptr);
}

const char *zoneName(vkattn_kernel kernel) {
    return kernel == VKATTN_KERNEL_STAGED ? "vkattn staged" : kernel == VKATTN_KERNEL_DECODE ? "vkattn decode" : "vkattn flash";
}

} // namespace

vkattn_result recordPlan(Context &context, const Plan &plan, const vkattn_record &record, vkattn_diagnostic *why) {
    if (!record.commandBuffer) return fail(why, invalid, "record.commandBuffer is VK_NULL_HANDLE");
    if (record.sliceIndex >= plan.problem.slices)
        return fail(why, invalid, "record.sliceIndex is %u, expected less than the problem's sliceCount, %u", record.sliceIndex,
                    plan.problem.slices);
    Bindings bindings;
    if (const auto r = collectBindings(plan, record, bindings, why)) return r;
    const DeviceTable &table = context.table();
    Pipelines &pipelines = context.pipelines();
    const Caps &caps = context.limits().caps;
    const bool push = caps.pushDescriptors != 0;
    if (!push && !record.descriptorPool && plan.dispatchCount)
        return fail(why, invalid, "record.descriptorPool is required: VK_KHR_push_descriptor is not enabled on this device");

    const PipelineSet needed = plan.pipelines();
    if (record.allowCompile) {
        if (const auto r = pipelines.compile(needed, why)) return r;
    } else if (!pipelines.has(needed)) {
        return VKATTN_NOT_READY;
    }

    const Zone call(context, record.commandBuffer, zoneName(plan.kernel));
    const uint64_t alignment = std::max(caps.minStorageBufferOffsetAlignment, 4u);
    VkPipeline bound = VK_NULL_HANDLE;
    const DispatchRange slice = dispatchesOfSlice(plan, record.sliceIndex);
    for (uint32_t n = slice.first; n < slice.last; ++n) {
        Dispatch dispatch = plan.dispatch(n);
        VkDescriptorBufferInfo buffers[maxOperandsPerDispatch];
        VkWriteDescriptorSet writes[maxOperandsPerDispatch] = {};
        for (uint32_t o = 0; o < dispatch.operandCount; ++o) {
            buffers[o] = describeOperand(dispatch.operands[o], bindings.byRole[dispatch.operands[o].role], alignment, dispatch);
            writes[o].sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET;
            writes[o].dstBinding = o;
            writes[o].descriptorCount = 1;
            writes[o].descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
            writes[o].pBufferInfo = &buffers[o];
        }
        for (uint32_t o = dispatch.operandCount; o < dispatch.operandCount + dispatch.unboundCount; ++o)
            (void)describeOperand(dispatch.operands[o], bindings.byRole[dispatch.operands[o].role], alignment, dispatch);
        const Zone zone(context, record.commandBuffer, Pipelines::name(dispatch.key.stage));
        if (dispatch.barrierBefore) barrier(table, record.commandBuffer);
        const VkPipeline pipeline = pipelines.find(dispatch.key);
        const PipelineLayout &layout = pipelines.layout(dispatch.key.stage);
        if (pipeline != bound) table.CmdBindPipeline(record.commandBuffer, VK_PIPELINE_BIND_POINT_COMPUTE, bound = pipeline);
        if (push) {
            table.CmdPushDescriptorSet(record.commandBuffer, VK_PIPELINE_BIND_POINT_COMPUTE, layout.pipelines, 0, dispatch.operandCount,
                                       writes);
        } else {
            VkDescriptorSetAllocateInfo allocate{};
            allocate.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO;
            allocate.descriptorPool = record.descriptorPool;
            allocate.descriptorSetCount = 1;
            allocate.pSetLayouts = &layout.set;
            VkDescriptorSet set = VK_NULL_HANDLE;
            if (const VkResult r = table.AllocateDescriptorSets(context.device(), &allocate, &set))
                return failVulkan(why,
                                  r == VK_ERROR_OUT_OF_HOST_MEMORY ? VKATTN_ERROR_OUT_OF_HOST_MEMORY : VKATTN_ERROR_OUT_OF_DEVICE_MEMORY, r,
                                  "vkAllocateDescriptorSets failed with VkResult %d at dispatch %u of %u; make the pool as large as "
                                  "vkattn_requirements says",
                                  static_cast<int>(r), n, plan.dispatchCount);
            for (VkWriteDescriptorSet &write : writes) write.dstSet = set;
            table.UpdateDescriptorSets(context.device(), dispatch.operandCount, writes, 0, nullptr);
            table.CmdBindDescriptorSets(record.commandBuffer, VK_PIPELINE_BIND_POINT_COMPUTE, layout.pipelines, 0, 1, &set, 0, nullptr);
        }
        table.CmdPushConstants(record.commandBuffer, layout.pipelines, VK_SHADER_STAGE_COMPUTE_BIT, 0, dispatch.pushBytes,
                               dispatch.pushWords);
        table.CmdDispatch(record.commandBuffer, dispatch.groups[0], dispatch.groups[1], dispatch.groups[2]);
    }
    return VKATTN_OK;
}

} // namespace vkattn
