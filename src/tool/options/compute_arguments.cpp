#include "tool/options/compute_arguments.hpp"

#include "program/options/option_values.hpp"
#include "tool/options/names.hpp"

#include <CLI/CLI.hpp>

namespace vkattn::tool {
using namespace program;
namespace {

// One time is kept of each.
constexpr uint32_t maxRepeat = 1000000;

} // namespace

const OperandName &operandName(const ComputeArguments &arguments, vkattn_role role) {
    for (const OperandName &name : arguments.ownNames)
        if (name.role == role) return name;
    return role == VKATTN_LSE && arguments.rowStatistics ? rowStatisticsName : operandName(role);
}

CLI::Option *addFile(CLI::App &app, ComputeArguments &arguments, vkattn_role role, const char *text) {
    return app.add_option(operandName(arguments, role).option, arguments.files[role], text)->type_name("FILE");
}

void addComputeOptions(CLI::App &app, ComputeArguments &arguments) {
    addDeviceOptions(app, arguments);
    addValue(app, "--repeat", "N", "Compute this often (above 1: after an untimed run) and print the median time",
             [&](const std::string &text) { arguments.repeat = parseWhole("--repeat", text, maxRepeat); });
}

void addShape(CLI::App &app, const char *name, std::vector<uint32_t> &shape, const char *text) {
    addValue(app, name, "B,H,N,D", text, [name, &shape](const std::string &typed) {
        if (!parseList(typed, shape) || shape.size() < 2 || shape.size() > 4)
            badValue(name, "2 to 4 whole numbers [BATCH,[HEADS,]]TOKENS,DIM like 1,8,4096,64", typed);
    });
}

} // namespace vkattn::tool
