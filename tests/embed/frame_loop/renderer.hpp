// The engine of the frame loop: Vulkan 1.0 graphics, nothing of vkattn's. Functions that answer
// false have printed why.
#pragma once

#include "gpu.h"

#include <vulkan/vulkan.h>

#include <vector>

struct Image {
    VkImage image = VK_NULL_HANDLE;
    VkDeviceMemory memory = VK_NULL_HANDLE;
    VkImageView view = VK_NULL_HANDLE;
};
struct Buffer {
    VkBuffer buffer = VK_NULL_HANDLE;
    VkDeviceMemory memory = VK_NULL_HANDLE;
    unsigned char *mapped = nullptr;
};

class Renderer {
  public:
    // The side of the picture, and the size of a frame.
    static constexpr uint32_t side = 96, width = 480, height = 300;
    static constexpr uint32_t pixels = side * side;
    static constexpr VkDeviceSize pictureBytes = VkDeviceSize{pixels} * 16;

    explicit Renderer(gpu &own) : own_(own) {}
    ~Renderer();
    Renderer(const Renderer &) = delete;
    Renderer &operator=(const Renderer &) = delete;

    [[nodiscard]] bool create();
    [[nodiscard]] bool makeBuffer(Buffer &buffer, VkDeviceSize bytes, VkBufferUsageFlags usage);
    void destroy(Buffer &buffer) const;

    // Renders colours, keys and queries, and copies them to the first three pictures of `to`; makes
    // them visible to compute.
    void renderScene(VkCommandBuffer commands, VkBuffer to);
    // Takes rows of RGBA floats, as compute wrote them, for the texture of the result.
    void showResult(VkCommandBuffer commands, VkBuffer from, VkDeviceSize offset);
    void renderFrame(VkCommandBuffer commands, float turn, float done);
    void copyFrame(VkCommandBuffer commands, VkBuffer to); // RGBA bytes, for the host to read

  private:
    [[nodiscard]] bool makeImage(Image &image, VkFormat format, uint32_t w, uint32_t h, VkImageUsageFlags usage);
    [[nodiscard]] bool allocate(const VkMemoryRequirements &needs, VkMemoryPropertyFlags wanted, VkDeviceMemory &memory);
    [[nodiscard]] bool makePass(VkRenderPass &pass, VkFormat format, uint32_t attachments, VkImageLayout after);
    [[nodiscard]] bool makeTarget(VkFramebuffer &target, VkRenderPass pass, const VkImageView *views, uint32_t count, uint32_t w,
                                  uint32_t h);
    [[nodiscard]] bool makePipeline(VkPipeline &pipeline, VkRenderPass pass, const uint32_t *fragment, size_t bytes, uint32_t targets,
                                    uint32_t w, uint32_t h);
    [[nodiscard]] bool makeTextures();
    void draw(VkCommandBuffer commands, VkRenderPass pass, VkFramebuffer target, VkPipeline pipeline, uint32_t w, uint32_t h) const;
    void transition(VkCommandBuffer commands, VkImage image, VkImageLayout from, VkImageLayout to, VkPipelineStageFlags before,
                    VkAccessFlags written, VkPipelineStageFlags after, VkAccessFlags read) const;

    gpu &own_;
    Image colour_, key_, query_, result_, frame_;
    VkRenderPass scenePass_ = VK_NULL_HANDLE, framePass_ = VK_NULL_HANDLE;
    VkFramebuffer sceneTarget_ = VK_NULL_HANDLE, frameTarget_ = VK_NULL_HANDLE;
    VkSampler sampler_ = VK_NULL_HANDLE;
    VkDescriptorSetLayout textures_ = VK_NULL_HANDLE;
    VkDescriptorPool pool_ = VK_NULL_HANDLE;
    VkDescriptorSet set_ = VK_NULL_HANDLE;
    VkPipelineLayout layout_ = VK_NULL_HANDLE;
    VkPipeline scene_ = VK_NULL_HANDLE, framePipeline_ = VK_NULL_HANDLE;
};
