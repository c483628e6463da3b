#include "arguments.hpp"

#include <vkattn/vkattn.h>

#include <CLI/CLI.hpp>

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <iostream>

namespace vkattn::tool {
namespace {

constexpr uint32_t maxRepeat = 1000000; // one time is kept of each

// What was typed, before its meaning is checked.
struct RawRun {
    std::string causal, align, window, scale, softcap, device, kernel, verify, repeat;
};

template <class Integer> bool parseInteger(std::string_view text, Integer &value) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size();
}

[[noreturn]] void badValue(const std::string &option, const std::string &expected, const std::string &value) {
    throw Failure(option + " takes " + expected + ", not '" + value + "'");
}

float parseFloat(const std::string &option, const std::string &text, bool allowNegative) {
    const std::string expected = allowNegative ? "a finite number" : "a finite number of 0 or more (0 = none)";
    char *end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    if (text.empty() || *end != '\0') badValue(option, expected, text);
    const auto rounded = static_cast<float>(value);
    if (!std::isfinite(rounded) || (!allowNegative && value < 0)) badValue(option, expected, text);
    if (value != 0 && rounded == 0)
        throw Failure(option + " " + text + " is too small for float32, where it would be 0: give 0 or a larger number");
    return rounded;
}

// True for top-left.
bool parseAlignment(const std::string &option, const std::string &text) {
    if (text != "top-left" && text != "bottom-right") badValue(option, "top-left or bottom-right", text);
    return text == "top-left";
}

void parseWindow(const std::string &text, RunArguments &run) {
    const size_t comma = text.find(',');
    if (comma == std::string::npos || !parseInteger(std::string_view(text).substr(0, comma), run.windowLeft) ||
        !parseInteger(std::string_view(text).substr(comma + 1), run.windowRight))
        badValue("--window", "two integers LEFT,RIGHT like 127,0 (-1 = open on that side)", text);
    if (run.windowLeft < -1 || run.windowRight < -1)
        throw Failure("negative window '" + text +
                      "': each side of --window is the number of keys seen there, 0 or more, or -1 for all of them");
    run.flags |= VKATTN_WINDOW;
}

void interpretAlignment(const CLI::App &app, const RawRun &raw, RunArguments &run) {
    const bool causal = app.count("--causal") > 0, aligned = app.count("--align") > 0;
    const bool causalTopLeft = causal && parseAlignment("--causal", raw.causal);
    const bool alignTopLeft = aligned && parseAlignment("--align", raw.align);
    if (app.count("--window") > 0) parseWindow(raw.window, run);
    if (aligned && !causal && (run.flags & VKATTN_WINDOW) == 0)
        throw Failure("--align says where a window or the causal diagonal lies, and there is neither: add --window or --causal, or leave "
                      "--align out");
    if (causal && aligned && causalTopLeft != alignTopLeft)
        throw Failure("--causal " + raw.causal + " and --align " + raw.align +
                      " disagree: --causal names the alignment of the window too, leave --align out");
    if (causal) run.flags |= VKATTN_CAUSAL;
    if (causalTopLeft || alignTopLeft) run.flags |= VKATTN_ALIGN_TOP_LEFT;
}

void interpret(const CLI::App &app, const RawRun &raw, RunArguments &run) {
    for (const CLI::Option *option : app.get_options()) {
        if (option->count() == 0 || option->get_expected_max() == 0) continue; // flags have no value
        const std::string &value = option->results().front();
        // CLI11 takes whatever follows as the value, so `--out --json` would write a file named --json.
        if (value.rfind("--", 0) == 0)
            throw Failure(option->get_name() + " needs a value, and '" + value + "' follows it: to name a file so, write ./" + value);
        if (value.empty() && option->get_expected_min() > 0) throw Failure(option->get_name() + " needs a value, not an empty one");
    }
    interpretAlignment(app, raw, run);
    if (app.count("--scale") > 0) {
        run.scale = parseFloat("--scale", raw.scale, true);
        run.flags |= VKATTN_SCALE;
    }
    if (app.count("--softcap") > 0) run.softcap = parseFloat("--softcap", raw.softcap, false);
    if (app.count("--device") > 0) run.device = raw.device;
    if (app.count("--kernel") > 0) {
        if (raw.kernel != "auto" && raw.kernel != "staged") badValue("--kernel", "auto or staged", raw.kernel);
        run.kernel = raw.kernel;
    }
    if (app.count("--verify") > 0) {
        run.verify.emplace();
        if (raw.verify == "all")
            run.verify->allRows = true;
        else if (!raw.verify.empty() && (!parseInteger(raw.verify, run.verify->rows) || run.verify->rows == 0))
            badValue("--verify", "nothing, =all or the number of rows to check, like =1000", raw.verify);
    }
    if (app.count("--repeat") > 0 && (!parseInteger(raw.repeat, run.repeat) || run.repeat == 0 || run.repeat > maxRepeat))
        badValue("--repeat", "a whole number from 1 to " + std::to_string(maxRepeat), raw.repeat);
}

void addRunOptions(CLI::App &app, RawRun &raw, RunArguments &run) {
    const auto file = [&](const char *name, std::string &path, const char *text) {
        return app.add_option(name, path, text)->type_name("FILE");
    };
    const auto value = [&](const char *name, std::string &target, const char *type, const char *text) {
        return app.add_option(name, target, text)->type_name(type);
    };
    file("--q", run.q, "Queries: float32 or float16 .npy, [token, dim], [head, token, dim] or [batch, head, token, dim]")->required();
    file("--k", run.k, "Keys, likewise; their number of heads divides that of the queries")->required();
    file("--v", run.v, "Values, likewise; as many heads and tokens as the keys")->required();
    file("--out", run.out, "Where to write the result, in the queries' dtype and rank")->required();
    file("--mask", run.mask, "bool or uint8 [query, key], [head, query, key] or [batch, head, query, key], 1 where it broadcasts; 0 hides");
    file("--bias", run.bias, "float32 or float16 of such a shape, added to the scores; -inf hides");
    value("--causal", raw.causal, "ALIGNMENT", "top-left or bottom-right: hide keys after the query's own position");
    value("--align", raw.align, "ALIGNMENT", "top-left or bottom-right (default): where a window without --causal lies");
    value("--window", raw.window, "L,R", "How many keys a query sees on the left and right of its position; -1 = all");
    value("--scale", raw.scale, "NUMBER", "Factor of the scores; default 1/sqrt(dim)");
    value("--softcap", raw.softcap, "NUMBER", "c > 0: scores become c * tanh(score / c); default 0 = none");
    file("--kv-lengths", run.keyLengths, "int32 or int64 [batch]: how many keys each batch entry has");
    file("--lse", run.lse, "Also write the log-sum-exp of the scores, float32 [..., query]");
    file("--weights", run.weights, "Also write the attention weights, float32 [..., query, key]");
    value("--device", raw.device, "INDEX|NAME|cpu", "A device that `vkattn info` lists, or the CPU; default: the best device");
    value("--kernel", raw.kernel, "NAME", "auto (default) or staged");
    value("--verify", raw.verify, "all|ROWS",
          "--verify, --verify=all or --verify=ROWS: compare with the double-precision CPU oracle; "
          "alone: every row of small problems, else a sample")
        ->expected(0, 1);
    app.add_flag_callback(
        "--no-fallback", [&run] { run.allowFallback = false; }, "End with status 3 rather than compute on the CPU");
    value("--repeat", raw.repeat, "N", "Compute this often (above 1: after an untimed run) and print the median time");
    app.add_flag("--json", run.json, "Print one JSON object instead of text");
    app.footer(
        "Exit status: 0 success, 1 verification failed, 2 bad usage or input, 3 the device cannot be used and --no-fallback was given.");
}

} // namespace

std::string versionText() {
    const uint32_t version = vkattnVersion();
    return std::to_string(version >> 22) + "." + std::to_string(version >> 12 & 0x3ff) + "." + std::to_string(version & 0xfff);
}

CommandLine parseCommandLine(int argc, const char *const *argv) {
    CommandLine line;
    RawRun raw;
    RunArguments run;
    InfoArguments info;
    CLI::App app("Attention for Vulkan: softmax(Q K^T) V on any Vulkan device, or the CPU.", "vkattn");
    app.allow_windows_style_options(false); // /path is a file
    app.set_version_flag("--version", "vkattn " + versionText());
    CLI::App *runCommand = app.add_subcommand("run", "Compute attention over .npy arrays");
    runCommand->allow_windows_style_options(false);
    addRunOptions(*runCommand, raw, run);
    CLI::App *infoCommand =
        app.add_subcommand("info", "List every device: limits, features, what kernels it can run and why not the others");
    infoCommand->add_flag("--json", info.json, "Print one JSON object instead of text");

    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError &error) {
        if (error.get_exit_code() != 0)
            throw Failure(std::string(error.what()) + ": see vkattn " + (runCommand->parsed() ? "run --help" : "--help"));
        app.exit(error); // help or version, on stdout
        return line;
    }
    if (runCommand->parsed()) {
        interpret(*runCommand, raw, run);
        line.run = run;
    } else if (infoCommand->parsed()) {
        line.info = info;
    } else {
        std::cerr << app.help();
        line.status = ExitStatus::badInput;
    }
    return line;
}

} // namespace vkattn::tool
