#include "tool/lab/lab_arguments.hpp"

#include "program/failure.hpp"
#include "program/options/option_values.hpp"

#include <CLI/CLI.hpp>

namespace vkattn::tool {
using namespace program;

void LabParser::addOptions(CLI::App &app) {
    app.add_option("name", typed_.name, "An experiment, or all; without a name the experiments are listed")->type_name("NAME");
    app.add_flag("--list", list_, "List the experiments, with what each asks");
    app.add_option("--out", typed_.out,
                   "Write the table as NAME.csv and the picture as NAME.svg into this folder, which is made where it is missing")
        ->type_name("DIR");
    addValue(app, "--seed", "N", "Of all random numbers; default: the experiment's own, which is printed", [&](const std::string &text) {
        if (!parseInteger(text, typed_.seed.emplace())) badValue("--seed", "a whole number from 0 to 2^64 - 1", text);
    });
    addDeviceChoice(app, typed_);
    app.footer("Exit status: 0 success, 2 bad usage or output, 3 the device cannot be used and --no-fallback was given.");
}

LabArguments LabParser::interpret(const CLI::App &app) {
    refuseMissingValues(app);
    if (app.count("name") > 0 && typed_.name.empty())
        throw Failure("vkattn lab takes the name of an experiment, not an empty one: vkattn lab --list names them");
    if (list_ && !typed_.name.empty())
        throw Failure("--list and the experiment '" + typed_.name + "' are both given, expected one of them");
    return typed_;
}

} // namespace vkattn::tool
