// SPIR-V embedded at build time (cmake/VkattnShaders.cmake), one entry for each module.
#pragma once

#include "core/plan/module.hpp"

#include <cstddef>
#include <cstdint>

namespace vkattn {

struct Spirv {
    const uint32_t *words;
    size_t bytes;
};
struct ShaderModule {
    Spirv plain, nanPreserving; // nanPreserving declares SignedZeroInfNanPreserve
    // A module is missing where the shader compiler of the build lacks an extension that the module
    // needs, and where VKATTN_KERNELS leaves out all kernels that need the module.
    [[nodiscard]] bool built() const { return plain.bytes != 0; }
};

extern const ShaderModule shaderBank[moduleCount];
// Of the GLSL and the manifest that the modules are made of: what vkattn_program::shaderHash is compared with.
extern const uint64_t shaderSourceHash;

} // namespace vkattn
