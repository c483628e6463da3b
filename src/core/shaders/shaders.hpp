// What a pipeline is made of besides its key: which module, in which variant. For those who compile
// (pipelines.cpp) and for those who only say it (describe.cpp).
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

// Every key has its constants in the same places.
struct ConstantMap {
    VkSpecializationMapEntry entries[PipelineKey::maxConstants];
};
inline constexpr ConstantMap constantMap = [] {
    ConstantMap map{};
    for (uint32_t n = 0; n < PipelineKey::maxConstants; ++n) map.entries[n] = {n, n * 4, 4};
    return map;
}();

} // namespace vkattn
