// The shader of a pipeline: its module, in one of its variants. pipelines.cpp compiles the shader,
// and dispatch_list.cpp lists it.
#pragma once

#include "core/plan/plan.hpp"
#include "core/shaders/shader_bank.hpp"

namespace vkattn {

[[nodiscard]] inline const ShaderModule &shaderFor(Module module) {
    return shaderBank[static_cast<uint32_t>(module)];
}

[[nodiscard]] inline const Spirv &spirvOf(const ShaderModule &shader, bool floatControlsNan) {
    return floatControlsNan ? shader.nanPreserving : shader.plain;
}

// Maps the specialization constants. Every key has its constants in the same places.
struct ConstantMap {
    VkSpecializationMapEntry entries[PipelineKey::maxConstants];
};
inline constexpr ConstantMap constantMap = [] {
    ConstantMap map{};
    for (uint32_t n = 0; n < PipelineKey::maxConstants; ++n) map.entries[n] = {n, n * 4, 4};
    return map;
}();

} // namespace vkattn
