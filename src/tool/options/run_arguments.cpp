#include "tool/options/run_arguments.hpp"

#include "program/options/option_values.hpp"
#include "tool/options/names.hpp"

#include <CLI/CLI.hpp>

namespace vkattn::tool {
using namespace program;

void checkValuesInKeys(const RunArguments &run, bool valuesGiven) {
    if (run.valuesInKeys && valuesGiven)
        throw Failure("--values-in-keys says that the values are dims of the keys, and an array of values is given too: leave one of the "
                      "two out");
}

void addRunOptions(CLI::App &app, Alignments &alignments, RunArguments &run, bool arraysRequired) {
    addOperandOptions(app, run, arraysRequired);
    addValue(app, "--values-in-keys", "N", "The values are the first N dims of the keys, in place of --v (latent attention)",
             [&](const std::string &text) {
                 run.valuesInKeys = parseWhole("--values-in-keys", text, mostDims);
                 run.flags |= VKATTN_VALUES_IN_KEYS;
             });
    addFile(app, run, VKATTN_OUT, "Where to write the result, in the rank of the queries")->required(arraysRequired);
    addTypeOptions(app, run, "Round queries, keys and values to this type and compute with them so",
                   "Type of the result; default: that of the queries' file");
    addAttentionOptions(app, alignments, run);
    addPages(app, run);
    addPast(app, run);
    addOffsets(app, run);
    addVisibleBlocks(app, run);
    addGlobalProjections(app, run);
    addTokenProjections(app, run);
    addKvType(app, run);
    addProgramOptions(app, run);
    addFurtherOutputs(app, run);
    addScoresOptions(app, run);
    addSlicesOption(app, run);
    addDeviceOptions(app, run);
    app.footer(computeExitStatuses);
}

void RunParser::addOptions(CLI::App &app) {
    addRunOptions(app, alignments_, typed_, true);
}

RunArguments RunParser::interpret(const CLI::App &app) {
    checkRun(app, alignments_, typed_);
    const bool valuesGiven = !typed_.files[VKATTN_V].empty();
    checkValuesInKeys(typed_, valuesGiven);
    if (!typed_.valuesInKeys && !valuesGiven)
        throw Failure("--v is required, or --values-in-keys N where the values are the first N dims of the keys: see vkattn run --help");
    checkConflicts(app, typed_, {});
    return typed_;
}

} // namespace vkattn::tool
