#include "program/options/device_options.hpp"

#include "program/failure.hpp"
#include "program/options/option_values.hpp"

#include <CLI/CLI.hpp>

namespace vkattn::program {
namespace {

void readVerify(const std::string &text, DeviceOptions &options) {
    VerifyRequest &verify = options.verify.emplace();
    verify.allRows = text == "all";
    if (!verify.allRows && !text.empty() && (!parseInteger(text, verify.rows) || verify.rows == 0))
        badValue("--verify", "nothing, =all or the number of rows to check, like =1000", text);
}

} // namespace

void addDeviceChoice(CLI::App &app, DeviceChoice &choice) {
    app.add_option("--device", choice.device, "A device that `vkattn info` lists, or the CPU; default: the best device")
        ->type_name("INDEX|NAME|cpu");
    app.add_flag_callback(
        "--no-fallback", [&choice] { choice.allowFallback = false; }, "End with status 3 rather than compute on the CPU");
}

void addDeviceOptions(CLI::App &app, DeviceOptions &options) {
    addDeviceChoice(app, options);
    addValue(app, "--verify", "all|ROWS",
             "--verify, --verify=all or --verify=ROWS: compare with the double-precision CPU oracle; "
             "alone: every row of small problems, else a sample",
             [&](const std::string &text) { readVerify(text, options); })
        ->expected(0, 1);
    app.add_flag("--json", options.json, "Print one JSON object instead of text");
}

RuntimeOptions runtimeOptions(const DeviceChoice &choice) {
    RuntimeOptions runtime;
    runtime.device = choice.device.value_or("");
    runtime.allowFallback = choice.allowFallback;
    return runtime;
}

vkattn_verify_options verifyOptions(const VerifyRequest &request) {
    vkattn_verify_options options{};
    options.structSize = sizeof options;
    options.allRows = request.allRows ? 1 : 0;
    options.rows = request.rows;
    options.seed = 1; // fixed: the same command checks the same rows
    return options;
}

std::unique_ptr<Runtime> openRuntime(const RuntimeOptions &options, const std::string &ifUnusable) {
    OpenStatus status = OpenStatus::ok;
    std::string message;
    std::unique_ptr<Runtime> runtime = Runtime::open(options, &status, &message);
    if (status == OpenStatus::unknownDevice) throw Failure(message);
    if (status != OpenStatus::ok || runtime == nullptr) throw Failure(message + ifUnusable, ExitStatus::deviceUnusable);
    return runtime;
}

} // namespace vkattn::program
