// vkattn, the command-line tool. Messages go to stderr, results to stdout.
#include "program/run_program.hpp"
#include "tool/cache/append_command.hpp"
#include "tool/cache/merge_command.hpp"
#include "tool/conform_command.hpp"
#include "tool/explain_command.hpp"
#include "tool/gradient/gradient_command.hpp"
#include "tool/info_command.hpp"
#include "tool/inspect/inspect_command.hpp"
#include "tool/lab/lab_command.hpp"
#include "tool/layer/explain_layer_command.hpp"
#include "tool/layer/layer_command.hpp"
#include "tool/linear/explain_linear_command.hpp"
#include "tool/linear/linear_command.hpp"
#include "tool/options/arguments.hpp"
#include "tool/rotary_command.hpp"
#include "tool/run/run_command.hpp"
#include "tool/tune_command.hpp"

#include <iostream>

namespace {

using namespace vkattn::program;
using namespace vkattn::tool;

ExitStatus execute(int argc, const char *const *argv) {
    const CommandLine line = parseCommandLine(argc, argv);
    const ExitStatus status = line.run             ? runCommand(*line.run)
                              : line.gradient      ? gradientCommand(*line.gradient)
                              : line.rotary        ? rotaryCommand(*line.rotary)
                              : line.linear        ? linearCommand(*line.linear)
                              : line.merge         ? mergeCommand(*line.merge)
                              : line.append        ? appendCommand(*line.append)
                              : line.layer         ? layerCommand(*line.layer)
                              : line.inspect       ? inspectCommand(*line.inspect)
                              : line.explainLayer  ? explainLayerCommand(*line.explainLayer)
                              : line.explainLinear ? explainLinearCommand(*line.explainLinear)
                              : line.explain       ? explainCommand(*line.explain)
                              : line.info          ? infoCommand(*line.info)
                              : line.tune          ? tuneCommand(*line.tune)
                              : line.conform       ? conformCommand(*line.conform)
                              : line.lab           ? labCommand(*line.lab)
                                                   : line.status;
    std::cout.flush();
    if (!std::cout) throw Failure("the result could not be printed: standard output is closed or full");
    return status;
}

} // namespace

int main(int argc, char **argv) {
    return vkattn::program::runProgram("vkattn", "split the work over batch entries, heads or queries",
                                       [&] { return execute(argc, argv); });
}
