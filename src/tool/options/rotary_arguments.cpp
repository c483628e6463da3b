#include "tool/options/rotary_arguments.hpp"

#include "program/failure.hpp"
#include "program/options/option_values.hpp"
#include "tool/options/names.hpp"

#include <CLI/CLI.hpp>

#include <cmath>
#include <cstdlib>

namespace vkattn::tool {
using namespace program;
namespace {

uint32_t parseDims(const std::string &option, const std::string &text) {
    uint32_t dims = 0;
    if (!parseInteger(text, dims) || dims == 0 || dims % 2 != 0) badValue(option, "an even number of 2 or more", text);
    return dims;
}

double parseBase(const std::string &option, const std::string &text) {
    char *end = nullptr;
    const double base = std::strtod(text.c_str(), &end);
    if (*end != '\0' || !std::isfinite(base) || base <= 0) badValue(option, "a finite number above 0 like 10000", text);
    return base;
}

uint32_t parseStart(const std::string &option, const std::string &text) {
    uint32_t start = 0;
    if (!parseInteger(text, start)) badValue(option, "a whole number from 0 to 4294967295", text);
    return start;
}

} // namespace

void addRotaryChoice(CLI::App &app, RotaryChoice &choice) {
    const auto value = [&](const char *name, const char *type, const char *text, const auto &read) {
        const std::string option = choice.option(name);
        addValue(app, option, type, text, [=](const std::string &given) { read(option, given); });
    };
    value("dims", "N", "Rotate the first N dims, an even number, and copy the rest; default: all",
          [&](const std::string &option, const std::string &text) { choice.dims = parseDims(option, text); });
    value("base", "NUMBER", "Pair t turns by position / NUMBER^(2t/N); default 10000",
          [&](const std::string &option, const std::string &text) { choice.base = parseBase(option, text); });
    value("start", "N", "The position of the first token; the others follow; default 0",
          [&](const std::string &option, const std::string &text) { choice.start = parseStart(option, text); });
}

void RotaryParser::addOptions(CLI::App &app) {
    addFile(app, typed_, VKATTN_X,
            "Queries or keys: float32 or float16 .npy, [token, dim], [head, token, dim] or [batch, head, token, dim]")
        ->required();
    addFile(app, typed_, VKATTN_Y, "Where to write the result, in the shape and dtype of --x")->required();
    addValue(
        app, "--pairs", "half|interleaved",
        "Which dims turn together, of N: t and t + N/2 (default; GPT-NeoX, Llama in Hugging Face), or 2t and 2t + 1 (the paper, GPT-J)",
        [&](const std::string &text) { typed_.pairs = static_cast<vkattn_rotary_pairs>(parseWord("--pairs", text, pairsNames)); });
    addRotaryChoice(app, typed_);
    addFile(app, typed_, VKATTN_COS, "float32 [position, N/2]: the cosine of each pair's angle, in place of --base");
    addFile(app, typed_, VKATTN_SIN, "The sine, likewise");
    addFile(app, typed_, VKATTN_POSITIONS,
            "int32, int64 or uint32 [batch, token], or [token] for one batch entry: each token's position, in place of --start");
    addComputeOptions(app, typed_);
    app.footer(computeExitStatuses);
}

RotaryArguments RotaryParser::interpret(const CLI::App &app) const {
    refuseMissingValues(app);
    const bool cos = !typed_.files[VKATTN_COS].empty(), sin = !typed_.files[VKATTN_SIN].empty();
    if (cos != sin)
        throw Failure(std::string(cos ? "--cos is given without --sin" : "--sin is given without --cos") +
                      ", expected both or none: a rotation takes both, and without them --base makes them");
    if (cos && app.count("--base") > 0)
        throw Failure("--base and --cos are both given, expected one of them: tables hold the angles already, so leave --base out, or "
                      "leave --cos and --sin out");
    if (!typed_.files[VKATTN_POSITIONS].empty() && app.count("--start") > 0)
        throw Failure("--positions and --start are both given, expected one of them: add the start to the positions and leave --start out");
    return typed_;
}

} // namespace vkattn::tool
