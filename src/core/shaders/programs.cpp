#include "core/plan/operands.hpp"
#include "core/shaders/shaders.hpp"
#include "util/diagnostic.hpp"

#include <cstring>

namespace vkattn {

const vkattn_program_module *programModule(const vkattn_program &program, Module module) {
    const char *const name = infoOf(module).name;
    for (uint32_t n = 0; n < program.moduleCount; ++n)
        if (std::strcmp(program.modules[n].name, name) == 0) return &program.modules[n];
    return nullptr;
}

vkattn_result checkProgram(const Problem &p, const PipelineSet &pipelines, const char *kernel, vkattn_diagnostic *why) {
    if (p.program.hooks == 0) return VKATTN_OK;
    const vkattn_program &program = *p.program.program;
    const char *const name = nameOf(program);
    if (program.shaderHash != shaderSourceHash)
        return fail(
            why, VKATTN_ERROR_INVALID_ARGUMENT,
            "the program %s was compiled with other kernels (hash %016llx) than this library has (%016llx): compile the program with "
            "the library's own version",
            name, static_cast<unsigned long long>(program.shaderHash), static_cast<unsigned long long>(shaderSourceHash));
    for (const PipelineKey &key : pipelines)
        if (key.programHash && !programModule(program, key.module))
            return fail(why, VKATTN_ERROR_UNSUPPORTED,
                        "the program %s has no module for the %s kernel: the compiler of the program could not make %s", name, kernel,
                        infoOf(key.module).name);
    return VKATTN_OK;
}

PipelineSet withProgram(const Problem &p, const PipelineSet &pipelines) {
    PipelineSet set;
    for (const PipelineKey &key : pipelines) set.add(withProgram(p, key));
    return set;
}

Spirv spirvOf(const PipelineKey &key, bool floatControlsNan) {
    if (!key.programHash) return spirvOf(shaderFor(key.module), floatControlsNan);
    const vkattn_program_module *const module = programModule(*key.program, key.module);
    const size_t variant = floatControlsNan ? 1 : 0;
    return module && module->words[variant] ? Spirv{module->words[variant], static_cast<size_t>(module->bytes[variant])}
                                            : Spirv{nullptr, 0};
}

} // namespace vkattn
