#include "arguments.hpp"

#include "program/failure.hpp"
#include "program/options/option_values.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cmath>

namespace story {
namespace {

using namespace vkattn::program;

constexpr uint32_t mostSteps = 1u << 20;

// From 0 to `most`.
float parseNumber(const char *option, const std::string &text, float most, const char *expected) {
    char *end = nullptr;
    const float value = std::strtof(text.c_str(), &end);
    if (text.empty() || *end != '\0' || !(value >= 0) || !(value <= most)) badValue(option, expected, text);
    return value;
}

void readLayers(const std::string &text, std::vector<uint32_t> &layers) {
    if (!parseList(text, layers)) badValue("--layers", "layers from 0 on, like 0,3", text);
    std::vector<uint32_t> sorted = layers;
    std::sort(sorted.begin(), sorted.end());
    if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) badValue("--layers", "each layer once", text);
}

} // namespace

bool parseArguments(int argc, const char *const *argv, Arguments &out) {
    CLI::App app("Continues a text with a llama2.c checkpoint, everything on the device. The prompt and its continuation go to stdout,\n"
                 "figures to stderr.",
                 "story");
    app.allow_windows_style_options(false); // /path is a file
    app.footer(std::string(computeExitStatuses) +
               "\n\nExamples:\n  story --model stories.bin --tokenizer tok.bin --prompt 'Once upon a time'\n"
               "  story --model stories.bin --tokenizer tok.bin --temperature 0.8 --seed 7 --steps 64");
    app.add_option("--model", out.model, "A llama2.c checkpoint of version 0")->type_name("FILE")->required();
    app.add_option("--tokenizer", out.tokenizer, "The model's tokenizer, of llama2.c")->type_name("FILE")->required();
    app.add_option("--prompt", out.prompt, "How the text begins; default: empty")->type_name("TEXT");
    addValue(app, "--steps", "N", "Positions to compute, the prompt's included; default: the model's length",
             [&](const std::string &text) { out.steps = parseWhole("--steps", text, mostSteps); });
    addValue(
        app, "--temperature", "T", "0, the default, takes the most probable token; above that tokens are drawn",
        [&](const std::string &text) { out.sampling.temperature = parseNumber("--temperature", text, 100, "a number from 0 to 100"); });
    addValue(app, "--top-p", "P", "Draw among the most probable tokens that together have this probability, default 0.9; 1: all tokens",
             [&](const std::string &text) { out.sampling.topP = parseNumber("--top-p", text, 1, "a number from 0 to 1"); });
    addValue(app, "--seed", "N", "Of the draws, default 1: the same seed draws the same", [&](const std::string &text) {
        if (!parseInteger(text, out.sampling.seed) || out.sampling.seed == 0) badValue("--seed", "a whole number from 1 on", text);
    });
    addValue(app, "--kv-type", cacheTypes,
             "Keep keys and values in caches of this type, and say how far attention is from that over caches of float32",
             [&](const std::string &text) { out.kvType = parseCacheType("--kv-type", text); });
    app.add_flag("--hadamard", out.hadamard,
                 "Rotate keys, values and queries by a Hadamard matrix before --kv-type rounds them, and what attention gives back");
    app.add_option("--inspect", out.inspect,
                   "Write rotated queries and keys as .npy files into this folder, of each layer [head, token, dim] and of all layers "
                   "[layer, head, token, dim], and the texts of the tokens, for vkattn inspect; made where it is missing")
        ->type_name("DIR");
    addValue(app, "--layers", "N,N...", "--inspect writes only these layers, counted from 0",
             [&](const std::string &text) { readLayers(text, out.layers); });
    addDeviceOptions(app, out);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError &error) {
        if (error.get_exit_code() != 0) throw Failure(std::string(error.what()) + ": see story --help");
        app.exit(error);
        return false;
    }
    for (const char *option : {"--model", "--tokenizer", "--inspect"})
        for (const std::string &value : app.get_option(option)->results()) refuseMissingValue(*app.get_option(option), value);
    if (out.hadamard && out.kvType == VKATTN_F32)
        throw Failure("--hadamard rotates what goes into caches of a small type: give --kv-type too");
    if (!out.layers.empty() && out.inspect.empty()) throw Failure("--layers chooses what --inspect writes: give --inspect too");
    return true;
}

} // namespace story
