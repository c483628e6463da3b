#include "tool/options/conform_arguments.hpp"

#include "program/failure.hpp"
#include "program/options/option_values.hpp"
#include "tool/options/names.hpp"

#include <CLI/CLI.hpp>

#include <cmath>

namespace vkattn::tool {
using namespace program;
namespace {

constexpr double maxMinutes = 7 * 24 * 60, maxCaseTimeout = 24 * 60 * 60;

double parseAmount(const std::string &option, const std::string &text, const char *unit, double most) {
    char *end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    if (text.empty() || *end != '\0' || !std::isfinite(value) || value <= 0 || value > most)
        badValue(option, std::string("a number of ") + unit + " above 0, up to " + std::to_string(static_cast<uint64_t>(most)), text);
    return value;
}

std::vector<vkattn_kernel> parseKernels(const std::string &text) {
    std::vector<vkattn_kernel> kernels;
    for (const std::string &word : partsOfList(text)) {
        const auto kernel = parseKernel("--kernel", word);
        if (std::find(kernels.begin(), kernels.end(), kernel) == kernels.end()) kernels.push_back(kernel);
    }
    return kernels;
}

// Options of which one stands alone among those of the list.
struct Exclusion {
    const char *option, *reason;
    std::vector<const char *> without;
};

const std::vector<const char *> ofARun = {"--device",    "--skip-cpu",   "--kernel",       "--quick", "--soak",  "--seed", "--replay",
                                          "--fail-fast", "--time-limit", "--case-timeout", "--json",  "--junit", "--html"};

std::vector<const char *> ofARunAnd(std::vector<const char *> more) {
    more.insert(more.end(), ofARun.begin(), ofARun.end());
    return more;
}

void checkExclusions(const CLI::App &app) {
    const std::vector<Exclusion> exclusions = {
        {"--compare", "compares two reports and runs nothing", ofARunAnd({"--table", "--list"})},
        {"--table", "prints a table of reports and runs nothing", ofARunAnd({"--list"})},
        {"--list", "prints the checks and runs none", {"--soak", "--replay", "--fail-fast", "--time-limit", "--json", "--junit", "--html"}},
        {"--replay", "runs the checks that it names and no others", {"--kernel", "--quick", "--soak", "--seed"}},
        {"--device", "names the devices that are tested", {"--skip-cpu"}},
        {"--soak", "runs random checks for the time that it names", {"--quick", "--time-limit"}}};
    for (const Exclusion &each : exclusions) {
        if (app.count(each.option) == 0) continue;
        for (const char *other : each.without)
            if (app.count(other) > 0) throw Failure(std::string(each.option) + " " + each.reason + ": leave " + other + " out");
    }
}

} // namespace

void ConformParser::addOptions(CLI::App &app) {
    const auto file = [&](const char *name, std::string &target, const char *text) {
        app.add_option(name, target, text)->type_name("FILE");
    };
    const auto amount = [&](const char *name, const char *unit, double most, const char *type, const char *text, auto &target) {
        addValue(app, name, type, text, [=, &target](const std::string &typed) { target = parseAmount(name, typed, unit, most); });
    };
    app.add_option("--device", typed_.devices, "A device that `vkattn info` lists; give it again for more; default: all of them")
        ->type_name("INDEX|NAME")
        ->expected(1)
        ->allow_extra_args(false)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    app.add_flag("--skip-cpu", typed_.skipCpu, "Leave out devices of type CPU, which are drivers in software");
    addValue(app, "--kernel", "LIST", "Only these: " + kernelList("auto") + "; default: all that there are",
             [&](const std::string &text) { typed_.kernels = parseKernels(text); });
    app.add_flag("--quick", typed_.quick, "Fewer checks: about a minute on a software driver, where the default takes about ten");
    amount("--soak", "minutes", maxMinutes, "MINUTES", "Fresh random checks for so long, on each device", typed_.soakMinutes);
    addValue(app, "--seed", "N", "Of all random data; default: another one each time, which is printed", [&](const std::string &text) {
        if (!parseInteger(text, typed_.seed.emplace())) badValue("--seed", "a whole number from 0 to 18446744073709551615", text);
    });
    app.add_option("--replay", typed_.replays, "Run this check again, or every failure of a report of --json; give it again for more")
        ->type_name("SEED:CASE|FILE")
        ->expected(1)
        ->allow_extra_args(false)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    file("--json", typed_.json, "Also write everything as JSON (docs/conform.md)");
    file("--junit", typed_.junit, "Also write what CI systems read, JUnit's XML");
    file("--html", typed_.html, "Also write a report for people, one file that needs no other");
    app.add_flag("--fail-fast", typed_.failFast, "End a device's checks at its first failure");
    amount("--time-limit", "minutes", maxMinutes, "MINUTES", "End a device's checks after so long; what is left is \"not run\"",
           typed_.timeLimitMinutes);
    amount("--case-timeout", "seconds", maxCaseTimeout, "SECONDS", "When a check that has not come back counts as hanging; default 120",
           typed_.caseTimeoutSeconds);
    app.add_flag("--list", typed_.list, "Print the checks that would run, with what --replay takes, and run none");
    app.add_option("--compare", typed_.compare, "Run nothing: print what changed from one report of --json to another")
        ->type_name("A.json B.json")
        ->expected(2);
    app.add_option("--table", typed_.table, "Run nothing: print a table of the devices of these reports, in Markdown")
        ->type_name("FILE...")
        ->expected(1, 1000);
    app.footer(
        "Every device is tested in a process of its own: a driver that crashes or hangs is a result, and ends nothing. Nothing is ever "
        "computed on the CPU in place of a device.\n"
        "Exit status: 0 all passed, 1 failures (of --compare: the second report is worse), 2 bad usage or input, 3 nothing to test, "
        "130 interrupted; reports are written also then.");
}

ConformArguments ConformParser::interpret(const CLI::App &app) const {
    refuseMissingValues(app);
    checkExclusions(app);
    for (const std::string &device : typed_.devices)
        if (device == "cpu")
            throw Failure(
                "--device cpu is no Vulkan device, and conform tests those alone: name one that `vkattn info` lists, or leave --device "
                "out for all");
    return typed_;
}

} // namespace vkattn::tool
