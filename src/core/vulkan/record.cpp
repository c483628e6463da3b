#include "core/vulkan/record.hpp"

#include "core/device/vulkan_failure.hpp"
#include "core/plan/kernel.hpp"
#include "core/plan/operands.hpp"
#include "core/plan/slices.hpp"
#include "core/vulkan/bindings.hpp"
#include "core/vulkan/zone.hpp"
#include "util/diagnostic.hpp"

#include <new>

namespace vkattn {
namespace {

// Records dispatches one by one.
class Recorder {
  public:
    Recorder(DeviceContext &context, const Bindings &bindings, const vkattn_record &record)
        : context_(context), table_(context.table()), bindings_(bindings), record_(record),
          alignment_(descriptorAlignment(context.limits().caps)), push_(context.limits().caps.pushDescriptors != 0) {}
    Recorder(const Recorder &) = delete;
    Recorder &operator=(const Recorder &) = delete;

    // Sets the bases among the dispatch's push constants. Returns VK_SUCCESS, or the reason why
    // there was no descriptor set.
    [[nodiscard]] VkResult record(Dispatch &dispatch, VkPipeline pipeline) {
        for (; writeCount_ < dispatch.operandCount; ++writeCount_)
            writes_[writeCount_] = {VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET, nullptr, VK_NULL_HANDLE,         writeCount_, 0, 1,
                                    VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,      nullptr, &buffers_[writeCount_], nullptr};
        for (uint32_t o = 0; o < dispatch.operandCount; ++o) buffers_[o] = place(dispatch, o);
        const VkCommandBuffer commands = record_.commandBuffer;
        const Zone zone(context_, commands, infoOf(dispatch.key.module).name);
        if (dispatch.barrierBefore) computeBarrier(table_, commands);
        if (pipeline != bound_) table_.CmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, bound_ = pipeline);
        const PipelineLayout &layout = context_.pipelines().layout(dispatch.key.module);
        if (push_)
            table_.CmdPushDescriptorSet(commands, VK_PIPELINE_BIND_POINT_COMPUTE, layout.pipelines, 0, dispatch.operandCount, writes_);
        else if (const VkResult r = bindSet(layout, dispatch.operandCount))
            return r;
        table_.CmdPushConstants(commands, layout.pipelines, VK_SHADER_STAGE_COMPUTE_BIT, 0, dispatch.pushBytes, dispatch.pushWords);
        table_.CmdDispatch(commands, dispatch.groups[0], dispatch.groups[1], dispatch.groups[2]);
        return VK_SUCCESS;
    }

  private:
    VkDescriptorBufferInfo place(Dispatch &dispatch, uint32_t o) const {
        const vkattn_binding &binding = bindings_.byRole[dispatch.operands[o].role];
        const DescriptorRange range = placeOperand(dispatch.operands[o], binding.offset, alignment_, dispatch.pushWords);
        return {binding.buffer, range.offset, range.size};
    }
    VkResult bindSet(const PipelineLayout &layout, uint32_t operandCount) {
        VkDescriptorSetAllocateInfo allocate{};
        allocate.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO;
        allocate.descriptorPool = record_.descriptorPool;
        allocate.descriptorSetCount = 1;
        allocate.pSetLayouts = &layout.set;
        VkDescriptorSet set = VK_NULL_HANDLE;
        if (const VkResult r = table_.AllocateDescriptorSets(context_.device(), &allocate, &set)) return r;
        for (uint32_t o = 0; o < operandCount; ++o) writes_[o].dstSet = set;
        table_.UpdateDescriptorSets(context_.device(), operandCount, writes_, 0, nullptr);
        table_.CmdBindDescriptorSets(record_.commandBuffer, VK_PIPELINE_BIND_POINT_COMPUTE, layout.pipelines, 0, 1, &set, 0, nullptr);
        return VK_SUCCESS;
    }

    DeviceContext &context_;
    const DeviceTable &table_;
    const Bindings &bindings_;
    const vkattn_record &record_;
    uint64_t alignment_;
    bool push_;
    VkPipeline bound_ = VK_NULL_HANDLE;
    uint32_t writeCount_ = 0;
    VkDescriptorBufferInfo buffers_[gradientSlots];
    VkWriteDescriptorSet writes_[gradientSlots]; // the first `count` entries are in use
};

// The dispatches of short plans are made once. Those of long plans are made twice, to find the
// pipelines and to record: nothing is recorded before all pipelines are there.
constexpr uint32_t keptDispatches = 4;
struct Kept {
    Kept() {} // leaves the dispatches uninitialised: most plans have one or two
    union {
        Dispatch dispatch;
    };
    VkPipeline pipeline = VK_NULL_HANDLE;
};

// This function is off the path of a frame that is ready. The message reaches the log once: a host
// may ask in every frame.
vkattn_result notReady(DeviceContext &context, const Schedule &schedule, const PipelineSet &needed, vkattn_diagnostic *why) {
    const char *missing = "";
    uint32_t count = 0, all = 0;
    for (const PipelineKey &key : needed) {
        ++all;
        if (context.pipelines().find(key)) continue;
        if (count++ == 0) missing = infoOf(key.module).name;
    }
    const vkattn_result result =
        fail(why, VKATTN_NOT_READY,
             "nothing was recorded: %u of the %u pipelines of the %s kernel for this %s %s not compiled "
             "(%s%s), and allowCompile is 0; call "
             "vkattnPrewarm on any thread before, or set allowCompile to 1",
             count, all, schedule.kernelName, schedule.type->what, count == 1 ? "is" : "are", missing, count == 1 ? "" : " and others");
    if (why && context.firstNotReady()) context.log().warning("%s (said once)", why->message);
    return result;
}

} // namespace

void computeBarrier(const DeviceTable &table, VkCommandBuffer commandBuffer) {
    VkMemoryBarrier memory{};
    memory.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
    memory.srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT;
    memory.dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT;
    table.CmdPipelineBarrier(commandBuffer, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, 0, 1, &memory, 0,
                             nullptr, 0, nullptr);
}

vkattn_result recordSchedule(DeviceContext &context, const Schedule &schedule, const vkattn_record &record, vkattn_diagnostic *why) {
    if (!record.commandBuffer) return fail(why, invalid, "record.commandBuffer is VK_NULL_HANDLE");
    if (record.sliceIndex >= schedule.slices)
        return fail(why, invalid, "record.sliceIndex is %u, expected less than the %s's sliceCount, %u", record.sliceIndex,
                    schedule.type->what, schedule.slices);
    Bindings bindings;
    if (const auto r = collectBindings(schedule, record, bindings, why)) return r;
    Pipelines &pipelines = context.pipelines();
    if (!context.limits().caps.pushDescriptors && !record.descriptorPool && schedule.dispatchCount)
        return fail(why, invalid,
                    "record.descriptorPool is VK_NULL_HANDLE, and is required: %s is not listed in vkattn_host::enabledExtensions, its "
                    "functions are missing, or "
                    "capsLimit leaves it out",
                    VK_KHR_PUSH_DESCRIPTOR_EXTENSION_NAME);

    const DispatchRange slice = schedule.dispatchesOfSlice(record.sliceIndex);
    const uint32_t count = slice.last - slice.first;
    Kept kept[keptDispatches];
    const bool keep = count <= keptDispatches;
    // A pipeline that a later slice needs is reported with the first slice, not halfway.
    bool ready = keep && schedule.slices <= 1;
    for (uint32_t n = 0; keep && n < count; ++n) {
        new (&kept[n].dispatch) Dispatch(schedule.type->dispatch(schedule, slice.first + n)); // constructed in place
        kept[n].pipeline = pipelines.find(kept[n].dispatch.key);
        ready = ready && kept[n].pipeline;
    }
    if (!ready) {
        const PipelineSet needed = schedule.type->pipelines(schedule);
        if (record.allowCompile) {
            if (const auto r = pipelines.compile(needed, why)) return r;
        } else if (!pipelines.has(needed)) {
            return notReady(context, schedule, needed, why);
        }
        for (uint32_t n = 0; keep && n < count; ++n) kept[n].pipeline = pipelines.find(kept[n].dispatch.key);
    }

    const Zone call(context, record.commandBuffer, schedule.zone);
    Recorder recorder(context, bindings, record);
    for (uint32_t n = 0; n < count; ++n) {
        VkResult result;
        if (keep) {
            result = recorder.record(kept[n].dispatch, kept[n].pipeline);
        } else {
            Dispatch dispatch = schedule.type->dispatch(schedule, slice.first + n);
            result = recorder.record(dispatch, pipelines.find(dispatch.key));
        }
        if (result != VK_SUCCESS)
            return failVulkan(why, codeOf(result), result,
                              "vkAllocateDescriptorSets failed with VkResult %d at dispatch %u of %u; make the pool as large as "
                              "vkattn_requirements says",
                              static_cast<int>(result), slice.first + n, schedule.dispatchCount);
    }
    return VKATTN_OK;
}

} // namespace vkattn
