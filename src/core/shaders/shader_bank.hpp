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
    Spirv plain, nanPreserving; // the second declares SignedZeroInfNanPreserve
    // The shader compiler of the build may lack an extension that a module needs, and
    // VKATTN_KERNELS may leave out all kernels that need the module.
    [[nodiscard]] bool built() const { return plain.bytes != 0; }
};

extern const ShaderModule shaderBank[moduleCount];

} // namespace vkattn
