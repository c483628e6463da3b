#include "core/vulkan/pipelines.hpp"

#include "core/device/host_memory.hpp"
#include "core/device/vulkan_failure.hpp"
#include "core/shaders/continues.hpp"
#include "core/shaders/shaders.hpp"
#include "core/shaders/specialize.hpp"
#include "core/shaders/subgroups.hpp"
#include "lib/interop.h"
#include "util/clock.hpp"

#include <algorithm>
#include <new>

namespace vkattn {
vkattn_result Pipelines::create(const DeviceTable &table, const vkattn_host &host, const Caps &caps, uint32_t deviceSubgroupSize,
                                const PipelineCaches &caches, vkattn_diagnostic *why) {
    table_ = &table;
    device_ = host.device;
    caches_ = &caches;
    allocator_ = host.allocator;
    caps_ = caps;
    deviceSubgroupSize_ = deviceSubgroupSize;
    log_ = {host.log, host.userData};
    PipelineLayout *layout = layouts_;
    for (const uint32_t slots : slotCounts)
        if (slots <= caps.maxStorageBuffersPerStage)
            if (const auto r = createLayout(slots, caps.pushDescriptors != 0, *layout++, why)) return r;
    return VKATTN_OK;
}

vkattn_result Pipelines::createLayout(uint32_t slots, bool pushDescriptors, PipelineLayout &layout, vkattn_diagnostic *why) {
    VkDescriptorSetLayoutBinding bindings[maxOperandsPerDispatch] = {};
    for (uint32_t n = 0; n < slots; ++n) bindings[n] = {n, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1, VK_SHADER_STAGE_COMPUTE_BIT, nullptr};
    VkDescriptorSetLayoutCreateInfo setInfo{};
    setInfo.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO;
    setInfo.flags = pushDescriptors ? VkDescriptorSetLayoutCreateFlags{VK_DESCRIPTOR_SET_LAYOUT_CREATE_PUSH_DESCRIPTOR_BIT_KHR} : 0;
    setInfo.bindingCount = slots;
    setInfo.pBindings = bindings;
    if (const VkResult r = table_->CreateDescriptorSetLayout(device_, &setInfo, allocator_, &layout.set)) {
        layout.set = VK_NULL_HANDLE; // the handle is undefined after a failure
        return vulkanFailure(why, r, "vkCreateDescriptorSetLayout", "storage buffers");
    }
    giveName(VK_OBJECT_TYPE_DESCRIPTOR_SET_LAYOUT, reinterpret_cast<uint64_t>(layout.set), "storage buffers");

    const VkPushConstantRange range = {VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof(Dispatch::pushWords)};
    VkPipelineLayoutCreateInfo layoutInfo{};
    layoutInfo.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO;
    layoutInfo.setLayoutCount = 1;
    layoutInfo.pSetLayouts = &layout.set;
    layoutInfo.pushConstantRangeCount = 1;
    layoutInfo.pPushConstantRanges = &range;
    if (const VkResult r = table_->CreatePipelineLayout(device_, &layoutInfo, allocator_, &layout.pipelines)) {
        layout.pipelines = VK_NULL_HANDLE;
        return vulkanFailure(why, r, "vkCreatePipelineLayout", "storage buffers and 128 bytes of push constants");
    }
    giveName(VK_OBJECT_TYPE_PIPELINE_LAYOUT, reinterpret_cast<uint64_t>(layout.pipelines), "storage buffers");
    return VKATTN_OK;
}

void Pipelines::destroy() {
    if (!table_) return;
    for (auto &bucket : buckets_)
        for (Node *node = bucket.exchange(nullptr); node;) {
            Node *next = node->next;
            table_->DestroyPipeline(device_, node->pipeline, allocator_);
            hostFree(allocator_, node);
            node = next;
        }
    for (const PipelineLayout &layout : layouts_) {
        if (layout.pipelines) table_->DestroyPipelineLayout(device_, layout.pipelines, allocator_);
        if (layout.set) table_->DestroyDescriptorSetLayout(device_, layout.set, allocator_);
    }
}

void Pipelines::giveName(VkObjectType type, uint64_t object, const char *name) const {
    if (!table_->SetDebugUtilsObjectName) return;
    char text[64];
    std::snprintf(text, sizeof text, "vkattn %s", name);
    VkDebugUtilsObjectNameInfoEXT info{};
    info.sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_OBJECT_NAME_INFO_EXT;
    info.objectType = type;
    info.objectHandle = object;
    info.pObjectName = text;
    // Names serve debuggers only: a failure to set one is no error.
    (void)table_->SetDebugUtilsObjectName(device_, &info);
}

const Pipelines::Node *Pipelines::search(const Node *from, const PipelineKey &key) {
    while (from && !(from->key == key)) from = from->next;
    return from;
}

VkPipeline Pipelines::find(const PipelineKey &key) const {
    const Node *node = search(buckets_[key.hash() % bucketCount].load(std::memory_order_acquire), key);
    return node ? node->pipeline : VK_NULL_HANDLE;
}

bool Pipelines::has(const PipelineSet &set) const {
    for (const PipelineKey &key : set)
        if (!find(key)) return false;
    return true;
}

vkattn_result Pipelines::compile(const PipelineSet &set, vkattn_diagnostic *why) {
    for (const PipelineKey &key : set)
        if (!find(key))
            if (const auto r = compileOne(key, why)) return r;
    return VKATTN_OK;
}

void Pipelines::insert(const PipelineKey &key, VkPipeline pipeline, Node *node) {
    std::atomic<Node *> &bucket = buckets_[key.hash() % bucketCount];
    Node *head = bucket.load(std::memory_order_acquire);
    new (node) Node{key, pipeline, head};
    do { // a failed exchange brings the new head, among whose nodes another thread's copy may be
        if (search(head, key)) {
            table_->DestroyPipeline(device_, pipeline, allocator_);
            hostFree(allocator_, node);
            return;
        }
        node->next = head;
    } while (!bucket.compare_exchange_weak(head, node, std::memory_order_acq_rel, std::memory_order_acquire));
}

vkattn_result Pipelines::createModule(const char *name, const Spirv &spirv, const Specialization &specialization, VkShaderModule &module,
                                      vkattn_diagnostic *why) {
    // On CPU devices alone: no GPU was measured with it.
    const bool splits = caps_.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU;
    const size_t words = spirv.bytes / 4, room = splits ? mostWordsOfSplit(spirv.words, words) : words;
    // Splitting adds ids, a word or more for each.
    const size_t scratchBytes = std::max(splitScratchBytes(spirv.words), foldScratchBytes(spirv.words) + sizeof(uint32_t) * (room - words));
    void *const memory = hostAllocate(allocator_, sizeof(uint32_t) * room + scratchBytes, alignof(uint32_t));
    if (!memory) return fail(why, VKATTN_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for the shader %s", name);
    uint32_t *const split = static_cast<uint32_t *>(memory), *const scratch = split + room;
    const size_t splitWords =
        splits ? splitContinues(spirv.words, words, scratch, split) : static_cast<size_t>(std::copy_n(spirv.words, words, split) - split);
    VkShaderModuleCreateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO;
    info.codeSize = 4 * foldConstants(split, splitWords, specialization, scratch, split);
    info.pCode = split;
    const VkResult r = table_->CreateShaderModule(device_, &info, allocator_, &module);
    hostFree(allocator_, memory);
    return r ? vulkanFailure(why, r, "vkCreateShaderModule", name) : VKATTN_OK;
}

vkattn_result Pipelines::compileOne(const PipelineKey &key, vkattn_diagnostic *why) {
    const char *const name = infoOf(key.module).name;
    const Spirv spirv = spirvOf(key, caps_.floatControlsNan != 0);
    if (!spirv.words) // of a program: the library's own modules are there, or the plan has another kernel
        return fail(
            why, VKATTN_ERROR_UNSUPPORTED,
            "the program %s is not compiled for the module %s: call vkattn::Program::prepare with the problem and the device's caps "
            "first",
            nameOf(*key.program), name);
    VkShaderModule module = VK_NULL_HANDLE;
    if (const auto r = createModule(name, spirv, {key.constants, key.constantCount, interop::conceptConstants}, module, why)) return r;

    const VkSpecializationInfo specialization = {key.constantCount, constantMap.entries, key.constantCount * size_t{4}, key.constants};
    VkComputePipelineCreateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO;
    info.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
    info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
    info.stage.module = module;
    info.stage.pName = "main";
    info.stage.pSpecializationInfo = &specialization;
    info.layout = layout(key.module).pipelines;
    const SubgroupStage stage = subgroupStage(key, caps_, deviceSubgroupSize_);
    VkPipelineShaderStageRequiredSubgroupSizeCreateInfo size{};
    size.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO;
    size.requiredSubgroupSize = stage.requiredSize;
    info.stage.flags = stage.flags;
    if (stage.requiredSize) info.stage.pNext = &size;
    VkPipeline pipeline = VK_NULL_HANDLE;
    const uint64_t start = nanosecondsNow();
    const VkResult result = table_->CreateComputePipelines(device_, caches_->current(), 1, &info, allocator_, &pipeline);
    const uint64_t elapsed = nanosecondsNow() - start;
    table_->DestroyShaderModule(device_, module, allocator_);
    if (result != VK_SUCCESS) return vulkanFailure(why, result, "vkCreateComputePipelines", name);
    giveName(VK_OBJECT_TYPE_PIPELINE, reinterpret_cast<uint64_t>(pipeline), name);
    log_.info("compiled %s in %.1f ms", name, static_cast<double>(elapsed) * 1e-6);
    ++compiled_;
    nanoseconds_ += elapsed;

    void *memory = hostAllocate(allocator_, sizeof(Node), alignof(Node));
    if (!memory) {
        table_->DestroyPipeline(device_, pipeline, allocator_);
        return fail(why, VKATTN_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for the entry of a pipeline");
    }
    insert(key, pipeline, static_cast<Node *>(memory));
    return VKATTN_OK;
}

} // namespace vkattn
