// Shaders of the host's on a device: limits, pipelines, recording.
#include "runtime/list/host_shader.hpp"

#include "runtime/device.hpp"

#include <algorithm>

namespace vkattn {
namespace {

std::string tooMuch(const std::string &what, uint64_t has, uint64_t most) {
    return what + " " + std::to_string(has) + ", and the device takes at most " + std::to_string(most);
}

} // namespace

Device::Failure Device::checkLimits(const HostShader &shader) const {
    vkattn_caps caps{};
    caps.structSize = sizeof caps;
    if (const auto r = vkattnContextCaps(context_, &caps)) return {VK_SUCCESS, r, "the caps of the context are unknown"};
    std::string why;
    if (shader.buffers.size() > caps.maxStorageBuffersPerStage)
        why = tooMuch("the shader's storage buffers are", shader.buffers.size(), caps.maxStorageBuffersPerStage);
    for (int d = 0; d < 3; ++d)
        if (shader.groups[d] > caps.maxWorkgroupCount[d])
            why = tooMuch("groups[" + std::to_string(d) + "] is", shader.groups[d], caps.maxWorkgroupCount[d]);
    for (size_t n = 0; n < shader.buffers.size(); ++n)
        if (shader.buffers[n].range > caps.maxStorageBufferRange)
            why = tooMuch("the bytes of tensor " + std::to_string(n) + " are", shader.buffers[n].range, caps.maxStorageBufferRange);
    if (why.empty()) return {};
    return {VK_SUCCESS, VKATTN_ERROR_UNSUPPORTED, why};
}

Device::Failure Device::findPipeline(const HostShader &shader, const HostShaderPipeline *&found) {
    if (auto f = checkLimits(shader)) return f;
    const auto same = std::find_if(shaders_.begin(), shaders_.end(), [&](const auto &each) { return each->serves(shader); });
    if (same != shaders_.end()) return found = same->get(), Failure{};
    auto made = std::make_unique<HostShaderPipeline>();
    auto failure = makePipeline(shader, *made);
    if (failure)
        release(*made);
    else
        found = shaders_.emplace_back(std::move(made)).get();
    return failure;
}

Device::Failure Device::makePipeline(const HostShader &shader, HostShaderPipeline &made) {
    made.spirv = shader.spirv;
    made.bindings = shader.buffers.size();
    made.pushBytes = shader.push.size();
    VkDescriptorSetLayoutBinding bindings[maxShaderTensors] = {};
    for (uint32_t n = 0; n < made.bindings; ++n)
        bindings[n] = {n, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1, VK_SHADER_STAGE_COMPUTE_BIT, nullptr};
    VkDescriptorSetLayoutCreateInfo setInfo{};
    setInfo.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO;
    setInfo.flags =
        table_.CmdPushDescriptorSet ? VkDescriptorSetLayoutCreateFlags{VK_DESCRIPTOR_SET_LAYOUT_CREATE_PUSH_DESCRIPTOR_BIT_KHR} : 0;
    setInfo.bindingCount = static_cast<uint32_t>(made.bindings);
    setInfo.pBindings = bindings;
    // Handles are undefined after a call that failed.
    if (const VkResult r = table_.CreateDescriptorSetLayout(device_, &setInfo, nullptr, &made.set)) {
        made.set = VK_NULL_HANDLE;
        return failed("vkCreateDescriptorSetLayout", r);
    }
    const VkPushConstantRange range = {VK_SHADER_STAGE_COMPUTE_BIT, 0, static_cast<uint32_t>(made.pushBytes)};
    VkPipelineLayoutCreateInfo layoutInfo{};
    layoutInfo.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO;
    layoutInfo.setLayoutCount = 1;
    layoutInfo.pSetLayouts = &made.set;
    layoutInfo.pushConstantRangeCount = made.pushBytes ? 1 : 0;
    layoutInfo.pPushConstantRanges = &range;
    if (const VkResult r = table_.CreatePipelineLayout(device_, &layoutInfo, nullptr, &made.layout)) {
        made.layout = VK_NULL_HANDLE;
        return failed("vkCreatePipelineLayout", r);
    }
    VkShaderModuleCreateInfo moduleInfo{};
    moduleInfo.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO;
    moduleInfo.codeSize = 4 * made.spirv.size();
    moduleInfo.pCode = made.spirv.data();
    VkComputePipelineCreateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO;
    info.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
    info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
    info.stage.pName = "main";
    info.layout = made.layout;
    if (const VkResult r = table_.CreateShaderModule(device_, &moduleInfo, nullptr, &info.stage.module))
        return failed("vkCreateShaderModule", r);
    const VkResult result = table_.CreateComputePipelines(device_, VK_NULL_HANDLE, 1, &info, nullptr, &made.pipeline);
    table_.DestroyShaderModule(device_, info.stage.module, nullptr);
    if (result == VK_SUCCESS) return {};
    made.pipeline = VK_NULL_HANDLE;
    return failed("vkCreateComputePipelines", result);
}

void Device::release(HostShaderPipeline &made) {
    if (made.pipeline) table_.DestroyPipeline(device_, made.pipeline, nullptr);
    if (made.layout) table_.DestroyPipelineLayout(device_, made.layout, nullptr);
    if (made.set) table_.DestroyDescriptorSetLayout(device_, made.set, nullptr);
    made = {};
}

Device::Failure Device::recordShader(VkCommandBuffer commands, const HostShader &shader, const HostShaderPipeline &pipeline,
                                     VkDescriptorPool descriptors) {
    const auto count = static_cast<uint32_t>(shader.buffers.size());
    VkDescriptorSet set = VK_NULL_HANDLE;
    if (!table_.CmdPushDescriptorSet) {
        VkDescriptorSetAllocateInfo allocate{};
        allocate.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO;
        allocate.descriptorPool = descriptors;
        allocate.descriptorSetCount = 1;
        allocate.pSetLayouts = &pipeline.set;
        if (const VkResult r = table_.AllocateDescriptorSets(device_, &allocate, &set)) return failed("vkAllocateDescriptorSets", r);
    }
    VkWriteDescriptorSet writes[maxShaderTensors];
    for (uint32_t n = 0; n < count; ++n)
        writes[n] = {VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
                     nullptr,
                     set,
                     n,
                     0,
                     1,
                     VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                     nullptr,
                     &shader.buffers[n],
                     nullptr};
    table_.CmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline.pipeline);
    if (set) {
        table_.UpdateDescriptorSets(device_, count, writes, 0, nullptr);
        table_.CmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline.layout, 0, 1, &set, 0, nullptr);
    } else {
        table_.CmdPushDescriptorSet(commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline.layout, 0, count, writes);
    }
    if (!shader.push.empty())
        table_.CmdPushConstants(commands, pipeline.layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, static_cast<uint32_t>(shader.push.size()),
                                shader.push.data());
    table_.CmdDispatch(commands, shader.groups[0], shader.groups[1], shader.groups[2]);
    return {};
}

} // namespace vkattn
