#include "arguments.hpp"

#include "program/failure.hpp"
#include "program/options/option_values.hpp"

#include <CLI/CLI.hpp>

#include <cmath>
#include <cstdlib>

namespace train {
namespace {

using namespace vkattn::program;

constexpr uint32_t mostSteps = 1u << 20;

double parseNumber(const char *option, const std::string &text, double most, const char *expected) {
    char *end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    if (text.empty() || *end != '\0' || !(value >= 0) || !(value <= most)) badValue(option, expected, text);
    return value;
}

} // namespace

bool parseArguments(int argc, const char *const *argv, Arguments &out) {
    CLI::App app("Trains a model of one attention layer to copy sequences, everything on the device: forward, backward and Adam.", "train");
    app.allow_windows_style_options(false); // /path is a file
    app.footer(std::string(computeExitStatuses) +
               "\nA run that SIGINT, SIGTERM or SIGHUP ends has status 130, and its checkpoint holds every step that is done."
               "\n\nExamples:\n  train --curve loss.svg\n  train --steps 1000 --dropout 0.1 --seed 7 --checkpoint copy.train");
    addValue(app, "--steps", "N", "How many steps are trained in all; default 300",
             [&](const std::string &text) { out.steps = parseWhole("--steps", text, mostSteps); });
    addValue(app, "--seed", "N", "Of the weights, the sequences and dropout, default 1: on one device the same seed gives the same bits",
             [&](const std::string &text) {
                 if (!parseInteger(text, out.seed)) badValue("--seed", "a whole number from 0 on", text);
             });
    addValue(app, "--dropout", "P", "Drop attention weights with this probability; default 0",
             [&](const std::string &text) { out.dropout = parseNumber("--dropout", text, 1, "a number from 0 to 1"); });
    app.add_option("--checkpoint", out.checkpoint, "Go on from this file where it exists, and write it: whole, or not at all")
        ->type_name("FILE");
    addValue(app, "--every", "N", "Write the checkpoint after so many steps, and at the end; default 1",
             [&](const std::string &text) { out.every = parseWhole("--every", text, mostSteps); });
    app.add_option("--curve", out.curve, "Draw loss and accuracy of every step")->type_name("FILE.svg");
    addValue(app, "--min-accuracy", "P", "End with status 1 where new sequences have fewer than P percent of their symbols right",
             [&](const std::string &text) { out.minAccuracy = parseNumber("--min-accuracy", text, 100, "a number from 0 to 100"); });
    addDeviceOptions(app, out);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError &error) {
        if (error.get_exit_code() != 0) throw Failure(std::string(error.what()) + ": see train --help");
        app.exit(error);
        return false;
    }
    for (const char *option : {"--checkpoint", "--curve"})
        for (const std::string &value : app.get_option(option)->results()) refuseMissingValue(*app.get_option(option), value);
    if (app.count("--every") > 0 && out.checkpoint.empty())
        throw Failure("--every says how often --checkpoint is written: give --checkpoint too");
    return true;
}

} // namespace train
