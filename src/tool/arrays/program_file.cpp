#include "tool/arrays/program_file.hpp"

#include "program/note.hpp"
#ifdef VKATTN_TOOL_HAS_PROGRAM
#include <vkattn/program.hpp>
#endif
#include <vkattn/vkattn.hpp>

#include <cmath>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>

namespace vkattn::tool {
using namespace program;

#ifdef VKATTN_TOOL_HAS_PROGRAM
namespace {

constexpr std::streamoff mostBytes = 1 << 20;

std::string readText(const std::string &path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) throw Failure(path + ": cannot be opened; --program takes a file of GLSL");
    std::string text(static_cast<size_t>(mostBytes) + 1, '\0');
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    if (file.bad()) throw Failure(path + ": cannot be read; --program takes a file of GLSL");
    text.resize(static_cast<size_t>(file.gcount()));
    if (static_cast<std::streamoff>(text.size()) > mostBytes) throw Failure(path + ": over 1 MiB, expected a program: functions in GLSL");
    return text;
}

std::map<std::string, std::unique_ptr<Program>> &programs() {
    static std::map<std::string, std::unique_ptr<Program>> all;
    return all;
}

const vkattn_program *programIn(const vkattn_operation &operation) {
    switch (operation.kind) {
    case VKATTN_ATTENTION:
        return operation.of.attention->program;
    case VKATTN_ATTENTION_GRADIENT:
        return operation.of.attentionGradient->forward->program;
    case VKATTN_VISIBLE_BLOCKS:
        return operation.of.visibleBlocks->attention->program;
    default:
        return nullptr;
    }
}

} // namespace

const vkattn_program *programOf(const RunArguments &arguments) {
    const std::string &path = arguments.program.file;
    if (path.empty()) return nullptr;
    std::unique_ptr<Program> &program = programs()[path];
    std::string error;
    if (!program) program = Program::make(readText(path), path, error);
    if (!program) throw Failure(error);
    return program->get();
}

void prepareProgram(const RunArguments &arguments, const OpenedRuntime &opened, const vkattn_operation &operation) {
    const vkattn_program *const wanted = programIn(operation);
    if (!wanted) return;
    const DeviceInfo *const device = opened.runtime->device();
    if (!device) {
        const std::string &reason = opened.runtime->fallbackReason();
        throw Failure("--program " + arguments.program.file + ": GLSL runs on Vulkan devices alone, and the CPU was to compute" +
                          (reason.empty() ? "; choose a device that `vkattn info` lists" : ": " + reason),
                      ExitStatus::deviceUnusable);
    }
    Program &program = *programs()[arguments.program.file];
    const auto prepare = [&](const vkattn_operation &each, vkattn_diagnostic &why) {
        const vkattn_plan_options options = planOptions(0, opened.tuning.text);
        return program.prepare(device->caps, each, &why, &options);
    };
    vkattn_diagnostic why{};
    const vkattn_result result = prepare(operation, why);
    if (result == VKATTN_ERROR_INVALID_ARGUMENT) throw Failure(why.message);
    if (result != VKATTN_OK) throw Failure(device->name + ": " + why.message, ExitStatus::deviceUnusable);
    if (operation.kind == VKATTN_ATTENTION && operation.of.attention->kernel == VKATTN_KERNEL_AUTO)
        // A self-test may have the runtime take another kernel; those that cannot compute the problem need nothing.
        for (const vkattn_kernel kernel : KernelList()) {
            vkattn_problem problem = *operation.of.attention;
            problem.kernel = kernel;
            vkattn_operation with = operation;
            with.of.attention = &problem;
            vkattn_diagnostic ignored{};
            (void)prepare(with, ignored);
        }
    printNote(arguments.program.file + ": compiled " + std::to_string(program.compiledModules()) + " modules in " +
              std::to_string(std::lround(program.compileMilliseconds())) + " ms");
}
#else
const vkattn_program *programOf(const RunArguments &) {
    return nullptr; // there is no such option
}
void prepareProgram(const RunArguments &, const OpenedRuntime &, const vkattn_operation &) {}
#endif

} // namespace vkattn::tool
