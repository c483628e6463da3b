// What a pipeline is made of besides its key: which module, in which variant, and how subgroups are asked for. For those who compile
// (pipelines.cpp) and for those who only say it (describe.cpp).
#pragma once

#include "core/plan.hpp"
#include "core/shader_bank.hpp"

namespace vkattn {

[[nodiscard]] const ShaderModule &shaderFor(Stage stage);

[[nodiscard]] inline const Spirv &spirvOf(const ShaderModule &shader, bool floatControlsNan) {
    return floatControlsNan ? shader.nanPreserving : shader.plain;
}

// Shuffles among lanes that are not there give anything. Vulkan allows the flag only where workgroups are whole subgroups
// (VUID-VkPipelineShaderStageCreateInfo-flags-02759); constant 0 is the number of invocations.
[[nodiscard]] bool needsFullSubgroups(const PipelineKey &key, const Caps &caps);

} // namespace vkattn
