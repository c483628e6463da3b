// The shader of a pipeline: its module, in one of its variants. pipelines.cpp compiles the shader,
// and dispatch_list.cpp lists it.
#pragma once

#include "core/plan/plan.hpp"
#include "core/shaders/shader_bank.hpp"

namespace vkattn {

[[nodiscard]] inline const ShaderModule &shaderFor(Module module) {
    return shaderBank[static_cast<uint32_t>(module)];
}

// The module that a program has in place of one of the library's; NULL where its compiler could not make it.
[[nodiscard]] const vkattn_program_module *programModule(const vkattn_program &program, Module module);

// Whether a problem's program is for the kernels of this library, and has modules for all pipelines.
[[nodiscard]] vkattn_result checkProgram(const Problem &p, const PipelineSet &pipelines, const char *kernel, vkattn_diagnostic *why);
// The same of one whose keys do not have their program yet, which then have.
[[nodiscard]] PipelineSet withProgram(const Problem &p, const PipelineSet &pipelines);

// The SPIR-V of a key: the library's own, or that of a program, which is empty until the program is compiled for what
// the key is of (vkattn::Program::prepare).
[[nodiscard]] Spirv spirvOf(const PipelineKey &key, bool floatControlsNan);

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
