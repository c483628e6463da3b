// A compute shader of the host's in a list: what recording needs of one, and its pipeline.
#pragma once

#include "runtime/vulkan.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace vkattn {

inline constexpr uint32_t maxShaderTensors = 16, maxShaderPushBytes = 128; // vkattn/list.hpp
inline constexpr uint64_t shaderAlignment = 256;                           // where descriptors may begin on every device

struct HostShader {
    std::string name;
    std::vector<uint32_t> spirv;
    std::vector<unsigned char> push;
    uint32_t groups[3];
    std::vector<VkDescriptorBufferInfo> buffers; // by binding
};

// Pipelines are shared by all shaders of the same SPIR-V and interface, and live as long as their
// device: a list that is recorded again compiles nothing.
struct HostShaderPipeline {
    std::vector<uint32_t> spirv;
    size_t bindings = 0, pushBytes = 0;
    VkDescriptorSetLayout set = VK_NULL_HANDLE;
    VkPipelineLayout layout = VK_NULL_HANDLE;
    VkPipeline pipeline = VK_NULL_HANDLE;

    [[nodiscard]] bool serves(const HostShader &shader) const {
        return bindings == shader.buffers.size() && pushBytes == shader.push.size() && spirv == shader.spirv;
    }
};

} // namespace vkattn
