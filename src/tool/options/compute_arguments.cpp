#include "tool/options/compute_arguments.hpp"

#include "tool/options/names.hpp"
#include "tool/options/option_values.hpp"

#include <CLI/CLI.hpp>

namespace vkattn::tool {
namespace {

// One time is kept of each.
constexpr uint32_t maxRepeat = 1000000;

void readVerify(const std::string &text, ComputeArguments &arguments) {
    VerifyRequest &verify = arguments.verify.emplace();
    verify.allRows = text == "all";
    if (!verify.allRows && !text.empty() && (!parseInteger(text, verify.rows) || verify.rows == 0))
        badValue("--verify", "nothing, =all or the number of rows to check, like =1000", text);
}

} // namespace

CLI::Option *addFile(CLI::App &app, ComputeArguments &arguments, vkattn_role role, const char *text) {
    return app.add_option(operandName(role).option, arguments.files[role], text)->type_name("FILE");
}

void addComputeOptions(CLI::App &app, ComputeArguments &arguments) {
    app.add_option("--device", arguments.device, "A device that `vkattn info` lists, or the CPU; default: the best device")
        ->type_name("INDEX|NAME|cpu");
    addValue(app, "--verify", "all|ROWS",
             "--verify, --verify=all or --verify=ROWS: compare with the double-precision CPU oracle; "
             "alone: every row of small problems, else a sample",
             [&](const std::string &text) { readVerify(text, arguments); })
        ->expected(0, 1);
    app.add_flag_callback(
        "--no-fallback", [&arguments] { arguments.allowFallback = false; }, "End with status 3 rather than compute on the CPU");
    addValue(app, "--repeat", "N", "Compute this often (above 1: after an untimed run) and print the median time",
             [&](const std::string &text) { arguments.repeat = parseWhole("--repeat", text, maxRepeat); });
    app.add_flag("--json", arguments.json, "Print one JSON object instead of text");
}

} // namespace vkattn::tool
