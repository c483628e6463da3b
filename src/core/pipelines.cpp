#include "core/pipelines.hpp"

#include "core/shader_bank.hpp"
#include "util/diagnostic.hpp"

#include <chrono>

namespace vkattn {
namespace {

// Specialization constants of one pipeline: ids 0, 1, 2, ... in the order of the shader's constant_id declarations.
struct Constants {
    uint32_t values[8];
    uint32_t count;
};

Constants constantsFor(const PipelineKey &key, const StagedTuning &t) {
    const auto tiled = [&](const TileShape &s) {
        return Constants{{s.invocations(), s.lanesX, s.lanesY, s.perLaneX, s.perLaneY, key.firstIsHalf, key.secondIsHalf, key.softcap},
                         key.stage == Stage::scores ? 8u : 7u};
    };
    switch (key.stage) {
    case Stage::scores:
        return tiled(t.scores[key.tile]);
    case Stage::bias:
        return {{t.overlayLanes, t.overlayKeysPerLane, key.firstIsHalf}, 3};
    case Stage::mask:
        return {{t.overlayLanes, t.overlayKeysPerLane}, 2};
    case Stage::softmax:
        return {{t.softmaxLanes[key.tile], t.softmaxLanes[key.tile], key.firstIsHalf}, 3};
    case Stage::values:
        return tiled(t.values[key.tile]);
    }
    return {};
}

const ShaderModule &shaderFor(Stage stage) {
    switch (stage) {
    case Stage::scores:
        return shader_scores;
    case Stage::bias:
        return shader_bias;
    case Stage::mask:
        return shader_mask;
    case Stage::softmax:
        return shader_softmax;
    case Stage::values:
        break;
    }
    return shader_values;
}

vkattn_result vulkanFailure(vkattn_diagnostic *why, VkResult result, const char *call, const char *what) {
    const vkattn_result code = result == VK_ERROR_OUT_OF_HOST_MEMORY     ? VKATTN_ERROR_OUT_OF_HOST_MEMORY
                               : result == VK_ERROR_OUT_OF_DEVICE_MEMORY ? VKATTN_ERROR_OUT_OF_DEVICE_MEMORY
                               : result == VK_ERROR_DEVICE_LOST          ? VKATTN_ERROR_DEVICE_LOST
                                                                         : VKATTN_ERROR_VULKAN;
    return failVulkan(why, code, result, "%s failed with VkResult %d for %s", call, static_cast<int>(result), what);
}

} // namespace

vkattn_result Pipelines::create(const DeviceTable &table, const vkattn_host &host, const Caps &caps, vkattn_diagnostic *why) {
    table_ = &table;
    device_ = host.device;
    cache_ = host.pipelineCache;
    allocator_ = host.allocator;
    tuning_ = stagedTuning(caps);
    nanPreserving_ = caps.floatControlsNan != 0;

    VkDescriptorSetLayoutBinding bindings[operandsPerDispatch] = {};
    for (uint32_t n = 0; n < operandsPerDispatch; ++n)
        bindings[n] = {n, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1, VK_SHADER_STAGE_COMPUTE_BIT, nullptr};
    VkDescriptorSetLayoutCreateInfo setInfo{};
    setInfo.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO;
    setInfo.flags = caps.pushDescriptors ? VkDescriptorSetLayoutCreateFlags{VK_DESCRIPTOR_SET_LAYOUT_CREATE_PUSH_DESCRIPTOR_BIT_KHR} : 0;
    setInfo.bindingCount = operandsPerDispatch;
    setInfo.pBindings = bindings;
    if (const VkResult r = table_->CreateDescriptorSetLayout(device_, &setInfo, allocator_, &setLayout_))
        return vulkanFailure(why, r, "vkCreateDescriptorSetLayout", "four storage buffers");

    const VkPushConstantRange range = {VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof(Dispatch::pushWords)};
    VkPipelineLayoutCreateInfo layoutInfo{};
    layoutInfo.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO;
    layoutInfo.setLayoutCount = 1;
    layoutInfo.pSetLayouts = &setLayout_;
    layoutInfo.pushConstantRangeCount = 1;
    layoutInfo.pPushConstantRanges = &range;
    if (const VkResult r = table_->CreatePipelineLayout(device_, &layoutInfo, allocator_, &layout_))
        return vulkanFailure(why, r, "vkCreatePipelineLayout", "four storage buffers and 128 bytes of push constants");
    return VKATTN_OK;
}

void Pipelines::destroy() {
    if (!table_) return;
    for (auto &slot : slots_)
        if (const VkPipeline pipeline = slot.exchange(VK_NULL_HANDLE)) table_->DestroyPipeline(device_, pipeline, allocator_);
    if (layout_) table_->DestroyPipelineLayout(device_, layout_, allocator_);
    if (setLayout_) table_->DestroyDescriptorSetLayout(device_, setLayout_, allocator_);
}

bool Pipelines::has(const PipelineSet &set) const {
    for (uint32_t n = 0; n < pipelineKeyCount; ++n)
        if (set[n] && !slots_[n].load(std::memory_order_acquire)) return false;
    return true;
}

vkattn_result Pipelines::compile(const PipelineSet &set, vkattn_diagnostic *why) {
    for (uint32_t n = 0; n < pipelineKeyCount; ++n)
        if (set[n] && !slots_[n].load(std::memory_order_acquire))
            if (const auto r = compileOne(pipelineKey(n), why)) return r;
    return VKATTN_OK;
}

vkattn_result Pipelines::compileOne(const PipelineKey &key, vkattn_diagnostic *why) {
    const ShaderModule &shader = shaderFor(key.stage);
    const Spirv &spirv = nanPreserving_ ? shader.nanPreserving : shader.plain;
    VkShaderModuleCreateInfo moduleInfo{};
    moduleInfo.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO;
    moduleInfo.codeSize = spirv.bytes;
    moduleInfo.pCode = spirv.words;
    VkShaderModule module = VK_NULL_HANDLE;
    if (const VkResult r = table_->CreateShaderModule(device_, &moduleInfo, allocator_, &module))
        return vulkanFailure(why, r, "vkCreateShaderModule", shader.name);

    const Constants constants = constantsFor(key, tuning_);
    VkSpecializationMapEntry entries[8];
    for (uint32_t n = 0; n < constants.count; ++n) entries[n] = {n, n * 4, 4};
    const VkSpecializationInfo specialization = {constants.count, entries, constants.count * size_t{4}, constants.values};
    VkComputePipelineCreateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO;
    info.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
    info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
    info.stage.module = module;
    info.stage.pName = "main";
    info.stage.pSpecializationInfo = &specialization;
    info.layout = layout_;
    VkPipeline pipeline = VK_NULL_HANDLE;
    const auto start = std::chrono::steady_clock::now();
    const VkResult result = table_->CreateComputePipelines(device_, cache_, 1, &info, allocator_, &pipeline);
    const auto elapsed = std::chrono::steady_clock::now() - start;
    table_->DestroyShaderModule(device_, module, allocator_);
    if (result != VK_SUCCESS) return vulkanFailure(why, result, "vkCreateComputePipelines", shader.name);
    ++compiled_;
    nanoseconds_ += static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(elapsed).count());

    VkPipeline expected = VK_NULL_HANDLE;
    if (!slots_[key.index()].compare_exchange_strong(expected, pipeline, std::memory_order_acq_rel))
        table_->DestroyPipeline(device_, pipeline, allocator_);
    return VKATTN_OK;
}

} // namespace vkattn
