// A zone brackets what is recorded, for people who look at captures and profiles: a debug label,
// and in it the host's own zone.
#pragma once

#include "core/vulkan/context.hpp"

namespace vkattn {

class Zone {
  public:
    // `name` is static storage.
    Zone(const DeviceContext &context, VkCommandBuffer commandBuffer, const char *name) : context_(context), commandBuffer_(commandBuffer) {
        if (const auto begin = context.table().CmdBeginDebugUtilsLabel) {
            VkDebugUtilsLabelEXT label{};
            label.sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_LABEL_EXT;
            label.pLabelName = name;
            begin(commandBuffer, &label);
        }
        if (context.zoneCallback()) context.zoneCallback()(context.log().userData, commandBuffer, name);
    }
    ~Zone() {
        if (context_.zoneCallback()) context_.zoneCallback()(context_.log().userData, commandBuffer_, nullptr);
        if (context_.table().CmdBeginDebugUtilsLabel) context_.table().CmdEndDebugUtilsLabel(commandBuffer_);
    }
    Zone(const Zone &) = delete;
    Zone &operator=(const Zone &) = delete;

  private:
    const DeviceContext &context_;
    VkCommandBuffer commandBuffer_;
};

} // namespace vkattn
