// --program, --program-buffer and --program-words: hooks in GLSL, and what they read.
#include "program/options/option_values.hpp"
#include "tool/options/attention/attention_options.hpp"

#include <CLI/CLI.hpp>

#include <bit>
#include <charconv>

namespace vkattn::tool {
using namespace program;
namespace {

#ifdef VKATTN_TOOL_HAS_PROGRAM
void readBuffer(const std::string &text, RunArguments &run) {
    uint32_t number = 0;
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals + 1 == text.size() || !parseInteger(std::string_view(text).substr(0, equals), number) ||
        number > 3)
        badValue("--program-buffer", "NUMBER=FILE with a number from 0 to 3, like 0=table.npy", text);
    std::string &file = run.files[VKATTN_PROGRAM_BUFFER_0 + number];
    if (!file.empty()) throw Failure("--program-buffer " + text + ": buffer " + std::to_string(number) + " is given twice, expected once");
    file = text.substr(equals + 1);
}

// A whole number as it is, below 0 in two's complement; anything with a point, an exponent or "inf" as the bits of a float.
bool parseWord(std::string_view text, uint32_t &word) {
    if (text.find_first_of(".eEnN") == std::string_view::npos) {
        int64_t number = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
        if (error != std::errc() || end != text.data() + text.size() || number < INT32_MIN || number > int64_t{UINT32_MAX}) return false;
        word = static_cast<uint32_t>(number);
        return true;
    }
    float number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size()) return false;
    word = std::bit_cast<uint32_t>(number);
    return true;
}

void readWords(const std::string &text, ProgramArguments &program) {
    program.words.clear();
    for (const std::string &part : partsOfList(text))
        if (program.words.size() == 16 || !parseWord(part, program.words.emplace_back()))
            badValue("--program-words",
                     "1 to 16 numbers of 32 bits like 3,-1,0.5: with a point or an exponent a float, otherwise an integer", text);
}
#endif

} // namespace

void addProgramOptions([[maybe_unused]] CLI::App &app, [[maybe_unused]] RunArguments &run) {
#ifdef VKATTN_TOOL_HAS_PROGRAM
    app.add_option("--program", run.program.file,
                   "GLSL with hooks that change scores, hide pairs, weigh probabilities or take the softmax' place: vkattnScore, "
                   "vkattnVisible, vkattnProbability, vkattnRow (docs/programs.md)")
        ->type_name("FILE");
    app.add_option_function<std::vector<std::string>>(
           "--program-buffer",
           [&](const std::vector<std::string> &all) {
               for (const std::string &text : all) readBuffer(text, run);
           },
           "What vkattnBuffer(N, index) reads, N from 0 to 3: numbers of 32 bits; may be given for each N")
        ->type_name("N=FILE")
        ->allow_extra_args(false);
    addValue(app, "--program-words", "W,W...", "What vkattnWord(index) and vkattnNumber(index) return: up to 16 integers or floats",
             [&](const std::string &text) { readWords(text, run.program); });
#endif
}

void checkProgram(const RunArguments &run) {
    const bool anyBuffer = !run.files[VKATTN_PROGRAM_BUFFER_0].empty() || !run.files[VKATTN_PROGRAM_BUFFER_1].empty() ||
                           !run.files[VKATTN_PROGRAM_BUFFER_2].empty() || !run.files[VKATTN_PROGRAM_BUFFER_3].empty();
    if (run.program.file.empty()) {
        if (anyBuffer || !run.program.words.empty())
            throw Failure(std::string(anyBuffer ? "--program-buffer" : "--program-words") +
                          " is given without --program, which would read it: add --program, or leave it out");
        return;
    }
    if (run.verify)
        throw Failure(
            "--verify compares with the CPU, which cannot compute --program: GLSL runs on Vulkan devices alone. Leave --verify out");
}

} // namespace vkattn::tool
