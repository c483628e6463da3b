#include "renderer.hpp"

#include <cstdio>

namespace {

constexpr uint32_t wholeTarget[] = {
#include "whole_target.vert.inc"
};
constexpr uint32_t sceneFragment[] = {
#include "scene.frag.inc"
};
constexpr uint32_t frameFragment[] = {
#include "frame.frag.inc"
};
constexpr VkFormat floats = VK_FORMAT_R32G32B32A32_SFLOAT, bytes = VK_FORMAT_R8G8B8A8_UNORM;

bool worked(const char *call, VkResult result) {
    if (result) std::printf("host: %s failed with VkResult %d\n", call, result);
    return result == VK_SUCCESS;
}
#define TRY(call)                                                                                                                          \
    if (!worked(#call, call)) return false

} // namespace

bool Renderer::allocate(const VkMemoryRequirements &needs, VkMemoryPropertyFlags wanted, VkDeviceMemory &memory) {
    VkPhysicalDeviceMemoryProperties types;
    vkGetPhysicalDeviceMemoryProperties(own_.physicalDevice, &types);
    for (uint32_t type = 0; type < types.memoryTypeCount; ++type) {
        if (!(needs.memoryTypeBits >> type & 1) || (types.memoryTypes[type].propertyFlags & wanted) != wanted) continue;
        const VkMemoryAllocateInfo info{VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, nullptr, needs.size, type};
        return worked("vkAllocateMemory", vkAllocateMemory(own_.device, &info, nullptr, &memory));
    }
    std::printf("host: no memory type for what the engine needs\n");
    return false;
}

bool Renderer::makeBuffer(Buffer &buffer, VkDeviceSize size, VkBufferUsageFlags usage) {
    const VkBufferCreateInfo info{VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO, nullptr, 0, size, usage, VK_SHARING_MODE_EXCLUSIVE, 0, nullptr};
    TRY(vkCreateBuffer(own_.device, &info, nullptr, &buffer.buffer));
    VkMemoryRequirements needs;
    vkGetBufferMemoryRequirements(own_.device, buffer.buffer, &needs);
    if (!allocate(needs, VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT, buffer.memory)) return false;
    TRY(vkBindBufferMemory(own_.device, buffer.buffer, buffer.memory, 0));
    void *address = nullptr;
    TRY(vkMapMemory(own_.device, buffer.memory, 0, VK_WHOLE_SIZE, 0, &address));
    buffer.mapped = static_cast<unsigned char *>(address);
    return true;
}

void Renderer::destroy(Buffer &buffer) const {
    vkDestroyBuffer(own_.device, buffer.buffer, nullptr);
    vkFreeMemory(own_.device, buffer.memory, nullptr);
    buffer = {};
}

bool Renderer::makeImage(Image &image, VkFormat format, uint32_t w, uint32_t h, VkImageUsageFlags usage) {
    VkImageCreateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_IMAGE_CREATE_INFO;
    info.imageType = VK_IMAGE_TYPE_2D;
    info.format = format;
    info.extent = {w, h, 1};
    info.mipLevels = info.arrayLayers = 1;
    info.samples = VK_SAMPLE_COUNT_1_BIT;
    info.tiling = VK_IMAGE_TILING_OPTIMAL;
    info.usage = usage;
    TRY(vkCreateImage(own_.device, &info, nullptr, &image.image));
    VkMemoryRequirements needs;
    vkGetImageMemoryRequirements(own_.device, image.image, &needs);
    if (!allocate(needs, 0, image.memory)) return false;
    TRY(vkBindImageMemory(own_.device, image.image, image.memory, 0));
    VkImageViewCreateInfo view{};
    view.sType = VK_STRUCTURE_TYPE_IMAGE_VIEW_CREATE_INFO;
    view.image = image.image;
    view.viewType = VK_IMAGE_VIEW_TYPE_2D;
    view.format = format;
    view.subresourceRange = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1};
    TRY(vkCreateImageView(own_.device, &view, nullptr, &image.view));
    return true;
}

// Every pass overwrites its targets and leaves them for what comes next, which the dependencies
// say.
bool Renderer::makePass(VkRenderPass &pass, VkFormat format, uint32_t attachments, VkImageLayout after) {
    VkAttachmentDescription descriptions[3] = {};
    VkAttachmentReference references[3] = {};
    for (uint32_t n = 0; n < attachments; ++n) {
        descriptions[n].format = format;
        descriptions[n].samples = VK_SAMPLE_COUNT_1_BIT;
        descriptions[n].loadOp = VK_ATTACHMENT_LOAD_OP_DONT_CARE;
        descriptions[n].storeOp = VK_ATTACHMENT_STORE_OP_STORE;
        descriptions[n].stencilLoadOp = VK_ATTACHMENT_LOAD_OP_DONT_CARE;
        descriptions[n].stencilStoreOp = VK_ATTACHMENT_STORE_OP_DONT_CARE;
        descriptions[n].finalLayout = after;
        references[n] = {n, VK_IMAGE_LAYOUT_COLOR_ATTACHMENT_OPTIMAL};
    }
    VkSubpassDescription subpass{};
    subpass.pipelineBindPoint = VK_PIPELINE_BIND_POINT_GRAPHICS;
    subpass.colorAttachmentCount = attachments;
    subpass.pColorAttachments = references;
    const VkSubpassDependency dependencies[] = {
        {VK_SUBPASS_EXTERNAL, 0, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_COLOR_ATTACHMENT_OUTPUT_BIT, VK_ACCESS_TRANSFER_READ_BIT,
         VK_ACCESS_COLOR_ATTACHMENT_WRITE_BIT, 0},
        {0, VK_SUBPASS_EXTERNAL, VK_PIPELINE_STAGE_COLOR_ATTACHMENT_OUTPUT_BIT, VK_PIPELINE_STAGE_TRANSFER_BIT,
         VK_ACCESS_COLOR_ATTACHMENT_WRITE_BIT, VK_ACCESS_TRANSFER_READ_BIT, 0}};
    VkRenderPassCreateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_RENDER_PASS_CREATE_INFO;
    info.attachmentCount = attachments;
    info.pAttachments = descriptions;
    info.subpassCount = 1;
    info.pSubpasses = &subpass;
    info.dependencyCount = 2;
    info.pDependencies = dependencies;
    TRY(vkCreateRenderPass(own_.device, &info, nullptr, &pass));
    return true;
}

bool Renderer::makeTarget(VkFramebuffer &target, VkRenderPass pass, const VkImageView *views, uint32_t count, uint32_t w, uint32_t h) {
    const VkFramebufferCreateInfo info{VK_STRUCTURE_TYPE_FRAMEBUFFER_CREATE_INFO, nullptr, 0, pass, count, views, w, h, 1};
    TRY(vkCreateFramebuffer(own_.device, &info, nullptr, &target));
    return true;
}

bool Renderer::makePipeline(VkPipeline &pipeline, VkRenderPass pass, const uint32_t *fragment, size_t fragmentBytes, uint32_t targets,
                            uint32_t w, uint32_t h) {
    VkPipelineShaderStageCreateInfo stages[2] = {};
    for (int n = 0; n < 2; ++n) {
        const VkShaderModuleCreateInfo module{VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO, nullptr, 0,
                                              n ? fragmentBytes : sizeof wholeTarget, n ? fragment : wholeTarget};
        stages[n].sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
        stages[n].stage = n ? VK_SHADER_STAGE_FRAGMENT_BIT : VK_SHADER_STAGE_VERTEX_BIT;
        stages[n].pName = "main";
        TRY(vkCreateShaderModule(own_.device, &module, nullptr, &stages[n].module));
    }
    VkPipelineVertexInputStateCreateInfo vertices{};
    vertices.sType = VK_STRUCTURE_TYPE_PIPELINE_VERTEX_INPUT_STATE_CREATE_INFO;
    VkPipelineInputAssemblyStateCreateInfo assembly{};
    assembly.sType = VK_STRUCTURE_TYPE_PIPELINE_INPUT_ASSEMBLY_STATE_CREATE_INFO;
    assembly.topology = VK_PRIMITIVE_TOPOLOGY_TRIANGLE_LIST;
    const VkViewport viewport{0, 0, static_cast<float>(w), static_cast<float>(h), 0, 1};
    const VkRect2D scissor{{0, 0}, {w, h}};
    const VkPipelineViewportStateCreateInfo viewports{
        VK_STRUCTURE_TYPE_PIPELINE_VIEWPORT_STATE_CREATE_INFO, nullptr, 0, 1, &viewport, 1, &scissor};
    VkPipelineRasterizationStateCreateInfo rasterization{};
    rasterization.sType = VK_STRUCTURE_TYPE_PIPELINE_RASTERIZATION_STATE_CREATE_INFO;
    rasterization.lineWidth = 1;
    VkPipelineMultisampleStateCreateInfo samples{};
    samples.sType = VK_STRUCTURE_TYPE_PIPELINE_MULTISAMPLE_STATE_CREATE_INFO;
    samples.rasterizationSamples = VK_SAMPLE_COUNT_1_BIT;
    VkPipelineColorBlendAttachmentState blends[3] = {};
    for (auto &blend : blends) blend.colorWriteMask = 15;
    VkPipelineColorBlendStateCreateInfo blending{};
    blending.sType = VK_STRUCTURE_TYPE_PIPELINE_COLOR_BLEND_STATE_CREATE_INFO;
    blending.attachmentCount = targets;
    blending.pAttachments = blends;
    VkGraphicsPipelineCreateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_GRAPHICS_PIPELINE_CREATE_INFO;
    info.stageCount = 2;
    info.pStages = stages;
    info.pVertexInputState = &vertices;
    info.pInputAssemblyState = &assembly;
    info.pViewportState = &viewports;
    info.pRasterizationState = &rasterization;
    info.pMultisampleState = &samples;
    info.pColorBlendState = &blending;
    info.layout = layout_;
    info.renderPass = pass;
    TRY(vkCreateGraphicsPipelines(own_.device, VK_NULL_HANDLE, 1, &info, nullptr, &pipeline));
    for (const auto &stage : stages) vkDestroyShaderModule(own_.device, stage.module, nullptr);
    return true;
}

bool Renderer::makeTextures() {
    VkSamplerCreateInfo sampler{};
    sampler.sType = VK_STRUCTURE_TYPE_SAMPLER_CREATE_INFO;
    TRY(vkCreateSampler(own_.device, &sampler, nullptr, &sampler_));
    VkDescriptorSetLayoutBinding bindings[2] = {};
    for (uint32_t n = 0; n < 2; ++n) bindings[n] = {n, VK_DESCRIPTOR_TYPE_COMBINED_IMAGE_SAMPLER, 1, VK_SHADER_STAGE_FRAGMENT_BIT, nullptr};
    const VkDescriptorSetLayoutCreateInfo textures{VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO, nullptr, 0, 2, bindings};
    TRY(vkCreateDescriptorSetLayout(own_.device, &textures, nullptr, &textures_));
    const VkPushConstantRange push{VK_SHADER_STAGE_FRAGMENT_BIT, 0, 8};
    const VkPipelineLayoutCreateInfo layout{VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO, nullptr, 0, 1, &textures_, 1, &push};
    TRY(vkCreatePipelineLayout(own_.device, &layout, nullptr, &layout_));
    const VkDescriptorPoolSize size{VK_DESCRIPTOR_TYPE_COMBINED_IMAGE_SAMPLER, 2};
    const VkDescriptorPoolCreateInfo pool{VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO, nullptr, 0, 1, 1, &size};
    TRY(vkCreateDescriptorPool(own_.device, &pool, nullptr, &pool_));
    const VkDescriptorSetAllocateInfo set{VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO, nullptr, pool_, 1, &textures_};
    TRY(vkAllocateDescriptorSets(own_.device, &set, &set_));
    const VkDescriptorImageInfo images[] = {{sampler_, colour_.view, VK_IMAGE_LAYOUT_SHADER_READ_ONLY_OPTIMAL},
                                            {sampler_, result_.view, VK_IMAGE_LAYOUT_SHADER_READ_ONLY_OPTIMAL}};
    VkWriteDescriptorSet write{};
    write.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET;
    write.dstSet = set_;
    write.descriptorCount = 2;
    write.descriptorType = VK_DESCRIPTOR_TYPE_COMBINED_IMAGE_SAMPLER;
    write.pImageInfo = images;
    vkUpdateDescriptorSets(own_.device, 1, &write, 0, nullptr);
    return true;
}

bool Renderer::create() {
    const VkImageUsageFlags rendered = VK_IMAGE_USAGE_COLOR_ATTACHMENT_BIT | VK_IMAGE_USAGE_TRANSFER_SRC_BIT;
    if (!makeImage(colour_, floats, side, side, rendered | VK_IMAGE_USAGE_SAMPLED_BIT) || !makeImage(key_, floats, side, side, rendered) ||
        !makeImage(query_, floats, side, side, rendered) || !makeImage(frame_, bytes, width, height, rendered) ||
        !makeImage(result_, floats, side, side, VK_IMAGE_USAGE_SAMPLED_BIT | VK_IMAGE_USAGE_TRANSFER_DST_BIT))
        return false;
    if (!makePass(scenePass_, floats, 3, VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL) ||
        !makePass(framePass_, bytes, 1, VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL) || !makeTextures())
        return false;
    const VkImageView views[] = {colour_.view, key_.view, query_.view};
    return makeTarget(sceneTarget_, scenePass_, views, 3, side, side) &&
           makeTarget(frameTarget_, framePass_, &frame_.view, 1, width, height) &&
           makePipeline(scene_, scenePass_, sceneFragment, sizeof sceneFragment, 3, side, side) &&
           makePipeline(framePipeline_, framePass_, frameFragment, sizeof frameFragment, 1, width, height);
}

void Renderer::transition(VkCommandBuffer commands, VkImage image, VkImageLayout from, VkImageLayout to, VkPipelineStageFlags before,
                          VkAccessFlags written, VkPipelineStageFlags after, VkAccessFlags read) const {
    VkImageMemoryBarrier barrier{};
    barrier.sType = VK_STRUCTURE_TYPE_IMAGE_MEMORY_BARRIER;
    barrier.srcAccessMask = written;
    barrier.dstAccessMask = read;
    barrier.oldLayout = from;
    barrier.newLayout = to;
    barrier.srcQueueFamilyIndex = barrier.dstQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED;
    barrier.image = image;
    barrier.subresourceRange = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1};
    vkCmdPipelineBarrier(commands, before, after, 0, 0, nullptr, 0, nullptr, 1, &barrier);
}

void Renderer::draw(VkCommandBuffer commands, VkRenderPass pass, VkFramebuffer target, VkPipeline pipeline, uint32_t w, uint32_t h) const {
    const VkRenderPassBeginInfo info{VK_STRUCTURE_TYPE_RENDER_PASS_BEGIN_INFO, nullptr, pass, target, {{0, 0}, {w, h}}, 0, nullptr};
    vkCmdBeginRenderPass(commands, &info, VK_SUBPASS_CONTENTS_INLINE);
    vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_GRAPHICS, pipeline);
    vkCmdDraw(commands, 3, 1, 0, 0);
    vkCmdEndRenderPass(commands);
}

void Renderer::renderScene(VkCommandBuffer commands, VkBuffer to) {
    draw(commands, scenePass_, sceneTarget_, scene_, side, side);
    VkBufferImageCopy copy{};
    copy.imageSubresource = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 0, 1};
    copy.imageExtent = {side, side, 1};
    for (const Image *image : {&colour_, &key_, &query_}) {
        vkCmdCopyImageToBuffer(commands, image->image, VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL, to, 1, &copy);
        copy.bufferOffset += pictureBytes;
    }
    transition(commands, colour_.image, VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL, VK_IMAGE_LAYOUT_SHADER_READ_ONLY_OPTIMAL,
               VK_PIPELINE_STAGE_TRANSFER_BIT, 0, VK_PIPELINE_STAGE_FRAGMENT_SHADER_BIT, VK_ACCESS_SHADER_READ_BIT);
    // vkattn.h asks for this: inputs visible to compute.
    const VkMemoryBarrier inputs{VK_STRUCTURE_TYPE_MEMORY_BARRIER, nullptr, VK_ACCESS_TRANSFER_WRITE_BIT, VK_ACCESS_SHADER_READ_BIT};
    vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, 0, 1, &inputs, 0, nullptr, 0,
                         nullptr);
    // There is nothing to show yet.
    const VkClearColorValue grey{{0.05f, 0.05f, 0.06f, 1}};
    const VkImageSubresourceRange all{VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1};
    transition(commands, result_.image, VK_IMAGE_LAYOUT_UNDEFINED, VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL, VK_PIPELINE_STAGE_TOP_OF_PIPE_BIT,
               0, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_WRITE_BIT);
    vkCmdClearColorImage(commands, result_.image, VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL, &grey, 1, &all);
    transition(commands, result_.image, VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL, VK_IMAGE_LAYOUT_SHADER_READ_ONLY_OPTIMAL,
               VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_WRITE_BIT, VK_PIPELINE_STAGE_FRAGMENT_SHADER_BIT,
               VK_ACCESS_SHADER_READ_BIT);
}

void Renderer::showResult(VkCommandBuffer commands, VkBuffer from, VkDeviceSize offset) {
    // After vkattn: its outputs were written by compute shaders.
    const VkMemoryBarrier output{VK_STRUCTURE_TYPE_MEMORY_BARRIER, nullptr, VK_ACCESS_SHADER_WRITE_BIT, VK_ACCESS_TRANSFER_READ_BIT};
    vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_PIPELINE_STAGE_TRANSFER_BIT, 0, 1, &output, 0, nullptr, 0,
                         nullptr);
    transition(commands, result_.image, VK_IMAGE_LAYOUT_SHADER_READ_ONLY_OPTIMAL, VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL,
               VK_PIPELINE_STAGE_FRAGMENT_SHADER_BIT, 0, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_WRITE_BIT);
    VkBufferImageCopy copy{};
    copy.bufferOffset = offset;
    copy.imageSubresource = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 0, 1};
    copy.imageExtent = {side, side, 1};
    vkCmdCopyBufferToImage(commands, from, result_.image, VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL, 1, &copy);
    transition(commands, result_.image, VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL, VK_IMAGE_LAYOUT_SHADER_READ_ONLY_OPTIMAL,
               VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_WRITE_BIT, VK_PIPELINE_STAGE_FRAGMENT_SHADER_BIT,
               VK_ACCESS_SHADER_READ_BIT);
}

void Renderer::renderFrame(VkCommandBuffer commands, float turn, float done) {
    const float push[] = {turn, done};
    vkCmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_GRAPHICS, layout_, 0, 1, &set_, 0, nullptr);
    vkCmdPushConstants(commands, layout_, VK_SHADER_STAGE_FRAGMENT_BIT, 0, sizeof push, push);
    draw(commands, framePass_, frameTarget_, framePipeline_, width, height);
}

void Renderer::copyFrame(VkCommandBuffer commands, VkBuffer to) {
    VkBufferImageCopy copy{};
    copy.imageSubresource = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 0, 1};
    copy.imageExtent = {width, height, 1};
    vkCmdCopyImageToBuffer(commands, frame_.image, VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL, to, 1, &copy);
    const VkMemoryBarrier picture{VK_STRUCTURE_TYPE_MEMORY_BARRIER, nullptr, VK_ACCESS_TRANSFER_WRITE_BIT, VK_ACCESS_HOST_READ_BIT};
    vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &picture, 0, nullptr, 0, nullptr);
}

Renderer::~Renderer() {
    const VkDevice device = own_.device;
    for (const VkPipeline pipeline : {scene_, framePipeline_}) vkDestroyPipeline(device, pipeline, nullptr);
    vkDestroyPipelineLayout(device, layout_, nullptr);
    vkDestroyDescriptorPool(device, pool_, nullptr);
    vkDestroyDescriptorSetLayout(device, textures_, nullptr);
    vkDestroySampler(device, sampler_, nullptr);
    for (const VkFramebuffer target : {sceneTarget_, frameTarget_}) vkDestroyFramebuffer(device, target, nullptr);
    for (const VkRenderPass pass : {scenePass_, framePass_}) vkDestroyRenderPass(device, pass, nullptr);
    for (const Image *image : {&colour_, &key_, &query_, &result_, &frame_}) {
        vkDestroyImageView(device, image->view, nullptr);
        vkDestroyImage(device, image->image, nullptr);
        vkFreeMemory(device, image->memory, nullptr);
    }
}
