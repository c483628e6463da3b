// SPIR-V embedded at build time (cmake/VkattnShaders.cmake), one entry per file in shaders/.
#pragma once

#include <cstddef>
#include <cstdint>

namespace vkattn {

struct Spirv {
    const uint32_t *words;
    size_t bytes;
};
struct ShaderModule {
    const char *name;
    Spirv plain, nanPreserving; // the second declares SignedZeroInfNanPreserve
    // The shader compiler of the build may lack an extension that a module needs (cmake/VkattnShaders.cmake says which).
    [[nodiscard]] bool built() const { return plain.bytes != 0; }
};

extern const ShaderModule shader_sequences, shader_sinks, shader_scores, shader_pairs, shader_softmax, shader_values, shader_options, shader_combine, shader_flash_plain, shader_flash_plain_subgroups,
    shader_flash, shader_flash_subgroups, shader_flash_coopmat_f16, shader_flash_coopmat_bf16, shader_flash_coopmat2_f16,
    shader_flash_coopmat2_bf16;

} // namespace vkattn
