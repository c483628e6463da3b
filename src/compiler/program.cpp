#include "vkattn/program.hpp"

#include "compiler/sources.hpp"
#include "compiler/text.hpp"
#include "vkattn/gradient.h"
#include "vkattn/statistics.h"
#include "vkattn/visible_blocks.h"

#include <shaderc/shaderc.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <mutex>
#include <vector>

namespace vkattn {
namespace {

using namespace compiler;

// The file of the text, as attention/program.glsl includes it.
constexpr std::string_view textFile = "vkattn_program.glsl";

// Resolves the #include lines of the kernels, and of nothing else: a text has none.
class Includer final : public shaderc::CompileOptions::IncluderInterface {
  public:
    Includer(std::string_view text, std::string_view name) : text_(text), name_(name) {}

    shaderc_include_result *GetInclude(const char *requested, shaderc_include_type, const char *, size_t) override {
        auto *const result = new shaderc_include_result{};
        const auto give = [&](std::string_view path, std::string_view content) {
            result->source_name = path.data(), result->source_name_length = path.size();
            result->content = content.data(), result->content_length = content.size();
            return result;
        };
        if (requested == textFile) return give(name_, text_);
        for (size_t n = 0; n < shaderSourceCount; ++n)
            if (std::strcmp(shaderSources[n].path, requested) == 0)
                return give(shaderSources[n].path, {shaderSources[n].text, shaderSources[n].bytes});
        return give({}, "not a file of the kernels");
    }
    void ReleaseInclude(shaderc_include_result *result) override { delete result; }

  private:
    std::string_view text_, name_;
};

void forParts(const char *list, const std::function<void(std::string_view)> &visit) {
    std::string_view rest = list;
    while (!rest.empty()) {
        const size_t end = std::min(rest.find(';'), rest.size());
        visit(rest.substr(0, end));
        rest.remove_prefix(std::min(end + 1, rest.size()));
    }
}

uint32_t versionOf(uint32_t vulkan) {
    return vulkan >= 13 ? shaderc_env_version_vulkan_1_3 : vulkan >= 11 ? shaderc_env_version_vulkan_1_1 : shaderc_env_version_vulkan_1_0;
}

shaderc::CompileOptions optionsFor(uint32_t vulkan) {
    shaderc::CompileOptions options;
    options.SetTargetEnvironment(shaderc_target_env_vulkan, versionOf(vulkan));
    // Drivers inline and fold what they compile; the optimiser takes ten times as long as all else.
    options.SetOptimizationLevel(shaderc_optimization_level_zero);
    options.SetSuppressWarnings();
    return options;
}

// Which of the modules with hooks the compiler can make.
const std::vector<const HookModule *> &makeableModules() {
    static const std::vector<const HookModule *> modules = [] {
        const shaderc::Compiler compiler;
        const auto knows = [&](std::string_view ability, uint32_t vulkan) {
            const Probe *const probe =
                std::find_if(probes, probes + probeCount, [&](const Probe &each) { return ability == each.ability; });
            return probe != probes + probeCount &&
                   compiler.CompileGlslToSpv(probe->text, probe->bytes, shaderc_compute_shader, probe->ability, optionsFor(vulkan))
                           .GetCompilationStatus() == shaderc_compilation_status_success;
        };
        std::vector<const HookModule *> made;
        for (size_t n = 0; n < hookModuleCount; ++n) {
            bool all = true;
            forParts(hookModules[n].abilities, [&](std::string_view ability) { all = all && knows(ability, hookModules[n].vulkan); });
            if (all) made.push_back(&hookModules[n]);
        }
        return made;
    }();
    return modules;
}

uint64_t mixBytes(uint64_t hash, std::string_view bytes) { // FNV-1a
    for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
    return hash;
}

// The text by itself, with what it may call and without anything of the kernels: so a text that asks for more does not
// compile, and errors are all its own.
std::string alone(uint32_t found) {
    std::string text =
        "#version 450\n#extension GL_GOOGLE_include_directive : require\n"
        "uint vkattnWord(uint n) { return n; }\nfloat vkattnNumber(uint n) { return float(n); }\n"
        "uint vkattnBufferLength(uint b) { return b; }\nuint vkattnBuffer(uint b, uint n) { return n; }\n"
        "float vkattnBufferNumber(uint b, uint n) { return float(n); }\nint vkattnPosition(uint query) { return int(query); }\n"
        "uint vkattnQueryTokens() { return 1u; }\nuint vkattnKeyTokens() { return 1u; }\n"
        "#include \"vkattn_program.glsl\"\nvoid main() {\n";
    for (const Hook &hook : hooks)
        if (found & hook.bit)
            text += std::string(hook.name) + (hook.parameters == rowTypes     ? "(1.0);\n"
                                              : hook.parameters == scoreTypes ? "(1.0, 0u, 0u, 0u, 0u);\n"
                                                                              : "(0u, 0u, 0u, 0u);\n");
    return text + "}\n";
}

// The compiler's first lines, without what it counts at the end.
std::string firstLines(std::string message) {
    for (size_t at = 0, lines = 0; at < message.size(); ++at)
        if (message[at] == '\n' && ++lines == 4) message.resize(at);
    while (!message.empty() && message.back() == '\n') message.pop_back();
    return message;
}

vkattn_result refuse(vkattn_diagnostic *why, vkattn_result result, const std::string &message) {
    if (why) {
        why->vkResult = 0;
        std::snprintf(why->message, sizeof why->message, "%s", message.c_str());
    }
    return result;
}

} // namespace

struct Program::State {
    std::string text, name;
    uint32_t found = 0;
    std::mutex mutex;
    shaderc::Compiler compiler;
    vkattn_program program{};
    std::vector<vkattn_program_module> modules;
    std::vector<std::vector<uint32_t>> spirv; // two of each module
    uint32_t compiled = 0;
    double milliseconds = 0;

    shaderc::SpvCompilationResult compile(const std::string &source, const char *file, shaderc::CompileOptions &options) {
        options.SetIncluder(std::make_unique<Includer>(text, name));
        return compiler.CompileGlslToSpv(source, shaderc_compute_shader, file, options);
    }

    vkattn_result compileModule(size_t number, size_t variant, vkattn_diagnostic *why) {
        const HookModule &module = *makeableModules()[number];
        shaderc::CompileOptions options = optionsFor(module.vulkan);
        forParts(module.defines, [&](std::string_view define) { options.AddMacroDefinition(std::string(define)); });
        options.AddMacroDefinition("VKATTN_PROGRAM");
        if (variant == 1) options.AddMacroDefinition("VKATTN_FLOAT_CONTROLS");
        for (const Hook &hook : hooks)
            if (found & hook.bit) options.AddMacroDefinition(hook.define);
        const Source *const source = std::find_if(shaderSources, shaderSources + shaderSourceCount,
                                                  [&](const Source &each) { return std::strcmp(each.path, module.file) == 0; });
        const auto start = std::chrono::steady_clock::now();
        const shaderc::SpvCompilationResult result = compile(std::string(source->text, source->bytes), module.file, options);
        milliseconds += std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
        if (result.GetCompilationStatus() != shaderc_compilation_status_success)
            return refuse(why, VKATTN_ERROR_INVALID_ARGUMENT,
                          "the program compiles by itself and not with the kernel " + std::string(module.name) +
                              ", which has the same names; give names of your own a prefix: " + firstLines(result.GetErrorMessage()));
        ++compiled;
        std::vector<uint32_t> &words = spirv[2 * number + variant];
        words.assign(result.begin(), result.end());
        modules[number].bytes[variant] = 4 * words.size();
        modules[number].words[variant] = words.data();
        return VKATTN_OK;
    }

    template <class Listing>
    vkattn_result prepare(const vkattn_caps &caps, const vkattn_program *given, const Listing &listing, vkattn_diagnostic *why) {
        const std::lock_guard lock(mutex);
        if (given != &program)
            return refuse(why, VKATTN_ERROR_INVALID_ARGUMENT,
                          "the problem's program is another one than " + name + ", or none; set program to Program::get()");
        vkattn_dispatch_list list{};
        list.structSize = sizeof list;
        if (const auto r = listing(nullptr, 0, list)) return r;
        std::vector<uint64_t> scratch((list.scratchBytes + 7) / 8);
        if (const auto r = listing(scratch.data(), list.scratchBytes, list)) return r;
        const size_t variant = caps.floatControlsNan ? 1 : 0;
        for (uint32_t n = 0; n < list.dispatchCount && list.dispatches; ++n) {
            if (list.dispatches[n].spirv) continue;
            const auto found_ = std::find_if(modules.begin(), modules.end(), [&](const vkattn_program_module &module) {
                return std::strcmp(module.name, list.dispatches[n].name) == 0;
            });
            if (found_ == modules.end() || found_->words[variant]) continue;
            if (const auto r = compileModule(static_cast<size_t>(found_ - modules.begin()), variant, why)) return r;
        }
        return VKATTN_OK;
    }
};

std::unique_ptr<Program> Program::make(std::string_view text, std::string_view name, std::string &error) {
    auto state = std::make_unique<State>();
    state->text = text;
    state->text += '\n';
    state->name = name;
    state->found = hooksOf(state->text, state->name, error);
    if (!state->found) return nullptr;
    shaderc::CompileOptions options = optionsFor(10);
    const shaderc::SpvCompilationResult result = state->compile(alone(state->found), "hooks", options);
    if (result.GetCompilationStatus() != shaderc_compilation_status_success) {
        error = firstLines(result.GetErrorMessage());
        return nullptr;
    }
    uint32_t version = 0, revision = 0;
    shaderc_get_spv_version(&version, &revision);
    vkattn_program &program = state->program;
    for (const HookModule *module : makeableModules()) state->modules.push_back({module->name, {}, {}});
    state->spirv.resize(2 * state->modules.size());
    program.structSize = sizeof program;
    program.hooks = state->found;
    program.name = state->name.c_str();
    program.shaderHash = sourceHash;
    const uint64_t hash = mixBytes(0xcbf29ce484222325u ^ sourceHash ^ (uint64_t{version} << 32 | revision), state->text);
    program.hash = hash ? hash : 1;
    program.modules = state->modules.data();
    program.moduleCount = static_cast<uint32_t>(state->modules.size());
    return std::unique_ptr<Program>(new Program(std::move(state)));
}

Program::Program(std::unique_ptr<State> state) : state_(std::move(state)) {}
Program::~Program() = default;

const vkattn_program *Program::get() const {
    return &state_->program;
}

void Program::setProcessorForm(double (*score)(double, const vkattn_program_pair *),
                               double (*scoreSlope)(double, const vkattn_program_pair *), uint32_t (*visible)(const vkattn_program_pair *),
                               double (*probability)(double, const vkattn_program_pair *), double (*row)(double)) {
    state_->program.score = score;
    state_->program.scoreSlope = scoreSlope;
    state_->program.visible = visible;
    state_->program.probability = probability;
    state_->program.row = row;
}

vkattn_result Program::prepare(const vkattn_caps &caps, const vkattn_problem &problem, vkattn_diagnostic *why,
                               const vkattn_plan_options *options) {
    return state_->prepare(
        caps, problem.program,
        [&](void *scratch, size_t bytes, vkattn_dispatch_list &list) {
            return vkattnListDispatches(&caps, options, &problem, scratch, bytes, &list, why);
        },
        why);
}

vkattn_result Program::prepare(const vkattn_caps &caps, const vkattn_operation &operation, vkattn_diagnostic *why,
                               const vkattn_plan_options *options) {
    const vkattn_program *given = nullptr;
    if (operation.kind == VKATTN_ATTENTION_GRADIENT && operation.of.attentionGradient && operation.of.attentionGradient->forward)
        given = operation.of.attentionGradient->forward->program;
    if (operation.kind == VKATTN_ATTENTION_STATISTICS && operation.of.attentionStatistics && operation.of.attentionStatistics->attention)
        given = operation.of.attentionStatistics->attention->program;
    if (operation.kind == VKATTN_VISIBLE_BLOCKS && operation.of.visibleBlocks && operation.of.visibleBlocks->attention)
        given = operation.of.visibleBlocks->attention->program;
    if (operation.kind == VKATTN_ATTENTION && operation.of.attention) given = operation.of.attention->program;
    return state_->prepare(
        caps, given,
        [&](void *scratch, size_t bytes, vkattn_dispatch_list &list) {
            return vkattnListOperation(&caps, options, &operation, scratch, bytes, &list, why);
        },
        why);
}

uint32_t Program::compiledModules() const {
    return state_->compiled;
}
double Program::compileMilliseconds() const {
    return state_->milliseconds;
}

} // namespace vkattn
