// The GLSL of the kernels as data, and the modules that have hooks: written at build time from shaders/
// (cmake/VkattnShaderSources.cmake).
#pragma once

#include <cstddef>
#include <cstdint>

namespace vkattn::compiler {

struct Source {
    const char *path; // from shaders/ on
    const char *text;
    size_t bytes;
};
extern const Source shaderSources[];
extern const size_t shaderSourceCount;

struct HookModule {
    const char *name, *file;
    const char *defines;   // apart by ';'
    uint32_t vulkan;       // 10, 11 or 13: the environment
    const char *abilities; // names of `probes`, apart by ';': what the compiler must know
};
extern const HookModule hookModules[];
extern const size_t hookModuleCount;

// Whether the compiler knows an extension: small shaders that need it.
struct Probe {
    const char *ability;
    const char *text;
    size_t bytes;
};
extern const Probe probes[];
extern const size_t probeCount;

extern const uint64_t sourceHash; // as vkattn_program::shaderHash

} // namespace vkattn::compiler
