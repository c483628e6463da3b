#include "tool/conform_command.hpp"

#include "conform/processes/follow.hpp"
#include "conform/processes/supervisor.hpp"
#include "conform/report/inputs.hpp"
#include "program/files/output_file.hpp"
#include "program/interruption.hpp"
#include "program/terminal.hpp"
#include "tool/options/arguments.hpp"
#include "tool/version.hpp"

#include <vkattn/vkattn.h>

#include <algorithm>
#include <cinttypes>
#include <cstdlib>
#include <ctime>
#include <iomanip>
#include <iostream>
#include <random>
#include <sstream>

#if defined(__unix__) || defined(__APPLE__)
#include <sys/utsname.h>
#endif

namespace vkattn::tool {
using namespace conform;
using namespace program;
namespace {

// Where a driver hangs, each is listed alone: so long for each.
constexpr double listPatienceSeconds = 30;

struct Output {
    OutputFile file;
    std::string (*format)(const Report &);
};

// Made before the run: hours of it are not to end in a typing error.
std::vector<Output> openOutputs(const ConformArguments &arguments) {
    const struct {
        const char *option;
        const std::string &path;
        std::string (*format)(const Report &);
    } wanted[] = {
        {"--json", arguments.json, reportToJson}, {"--junit", arguments.junit, reportToJUnit}, {"--html", arguments.html, reportToHtml}};
    std::vector<OutputTarget> targets;
    std::vector<Output> outputs;
    for (const auto &each : wanted) {
        if (each.path.empty()) continue;
        targets.push_back(checkOutputTarget(each.option, each.path, arguments.replays, targets));
        outputs.push_back({OutputFile(targets.back()), each.format});
    }
    return outputs;
}

void publish(std::vector<Output> &outputs, const Report &report) {
    for (Output &output : outputs) {
        const std::string text = output.format(report);
        output.file.write(std::as_bytes(std::span(text)));
        output.file.close();
    }
    for (Output &output : outputs) output.file.publish();
}

std::string nowText() {
    const std::time_t now = std::time(nullptr);
    char text[32] = "";
    if (const std::tm *utc = std::gmtime(&now)) std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", utc);
    return text;
}

std::string machineText() {
#if defined(__unix__) || defined(__APPLE__)
    utsname name{};
    if (uname(&name) == 0) return std::string(name.sysname) + " " + name.release + " " + name.machine;
#endif
    return "unknown";
}

// Short enough to be typed again.
uint64_t freshSeed() {
    return std::random_device{}() % 1000000;
}

std::string extentText(const ConformArguments &arguments) {
    if (!arguments.replays.empty()) return "replay";
    if (!arguments.soakMinutes) return arguments.quick ? "quick" : "normal";
    std::ostringstream text;
    text << "soak " << *arguments.soakMinutes << " minutes";
    return text.str();
}

Report headOf(const ConformArguments &arguments, uint64_t seed) {
    Report report;
    report.library = versionText();
    char hash[32];
    std::snprintf(hash, sizeof hash, "%016" PRIx64, vkattnShaderHash());
    report.shaderHash = hash;
    report.started = nowText();
    report.machine = machineText();
    report.extent = extentText(arguments);
    report.seed = seed;
    report.arguments = arguments.commandLine;
    return report;
}

RunSettings settingsOf(const ConformArguments &arguments, uint64_t seed) {
    RunSettings settings;
    settings.plan = {arguments.quick ? Extent::quick : Extent::normal, seed, arguments.kernels};
    if (arguments.soakMinutes) settings.soakSeconds = *arguments.soakMinutes * 60;
    if (arguments.timeLimitMinutes) settings.timeLimitSeconds = *arguments.timeLimitMinutes * 60;
    settings.caseTimeoutSeconds = arguments.caseTimeoutSeconds;
    settings.failFast = arguments.failFast;
    return settings;
}

bool brokenDevice(const DeviceReport &device) {
    return !device.problem.empty();
}

ExitStatus statusOf(const Report &report) {
    const Tally tally = tallyOf(report);
    const bool broken = std::any_of(report.devices.begin(), report.devices.end(), brokenDevice);
    if (tally.failures() > 0) return ExitStatus::verificationFailed;
    if (interrupted()) return ExitStatus::interrupted;
    if (broken) return ExitStatus::verificationFailed;
    return tally.ran() > 0 ? ExitStatus::success : ExitStatus::deviceUnusable;
}

std::string whyNothing(const Report &report, const RunSettings &settings) {
    if (!report.problem.empty()) return report.problem;
    const auto &limit = settings.limitSeconds();
    const Tally tally = tallyOf(report);
    const bool late = limit && (tally.notRun > 0 || tally.all() == 0);
    if (late) return "the time limit of " + secondsText(*limit) + " came before the first check ended: give it more";
    return "no device can run what was asked for; the reasons are above";
}

void explainNothing(const Report &report, const RunSettings &settings) {
    std::fprintf(stderr, "vkattn: nothing was tested: %s\n", whyNothing(report, settings).c_str());
}

std::vector<DeviceTask> devicesFor(const ConformArguments &arguments, Report &report) {
    const DeviceList found = findDevices(std::min(arguments.caseTimeoutSeconds, listPatienceSeconds));
    if (found.devices.empty()) {
        report.problem = !found.whyEmpty.empty() ? found.whyEmpty : interrupted() ? "interrupted" : "no Vulkan device was found";
        return {};
    }
    std::vector<DeviceTask> chosen = chooseDevices(found.devices, arguments.devices);
    if (arguments.skipCpu) {
        const std::string cpu = deviceTypeName(DeviceType::cpu);
        std::erase_if(chosen, [&](const DeviceTask &task) { return task.facts.type == cpu; });
        if (chosen.empty()) report.problem = "no Vulkan device was found but those of type CPU, which --skip-cpu leaves out";
    }
    return chosen;
}

void printList(const DeviceReport &device) {
    std::cout << device.facts.name << " (" << device.facts.driver << ")\n";
    if (brokenDevice(device)) std::cout << "  " << device.problem << "\n";
    size_t width = 0;
    for (const CheckResult &check : device.checks) width = std::max(width, check.id.size());
    for (const CheckResult &check : device.checks)
        std::cout << "  " << std::left << std::setw(static_cast<int>(width)) << check.id << "  " << check.replay << "\n";
    std::cout << device.checks.size() << " checks\n\n";
}

ExitStatus compareCommand(const ConformArguments &arguments) {
    const Report a = readReport("--compare", arguments.compare[0]), b = readReport("--compare", arguments.compare[1]);
    const Comparison comparison = compareReports(a, b, arguments.compare[0], arguments.compare[1]);
    std::cout << comparison.text;
    return comparison.worse ? ExitStatus::verificationFailed : ExitStatus::success;
}

ExitStatus tableCommand(const ConformArguments &arguments) {
    std::vector<Report> reports;
    for (const std::string &path : arguments.table) reports.push_back(readReport("--table", path));
    std::cout << reportsToMarkdown(reports);
    return ExitStatus::success;
}

ExitStatus listCommand(const ConformArguments &arguments, Report &report, const RunSettings &settings) {
    Progress progress;
    for (const DeviceTask &task : devicesFor(arguments, report)) {
        report.devices.push_back(planDevice(task, settings, progress));
        printList(report.devices.back());
    }
    if (!report.problem.empty()) return explainNothing(report, settings), ExitStatus::deviceUnusable;
    return std::any_of(report.devices.begin(), report.devices.end(), brokenDevice) ? ExitStatus::verificationFailed : ExitStatus::success;
}

void testDevices(const ConformArguments &arguments, const RunSettings &settings, Report &report) {
    const std::vector<DeviceTask> tasks = devicesFor(arguments, report);
    Progress progress;
    for (size_t n = 0; n < tasks.size(); n++) {
        if (interrupted()) {
            DeviceReport &left = report.devices.emplace_back();
            left.facts = tasks[n].facts;
            left.problem = "interrupted before this device was tested";
            continue;
        }
        const std::string label = "device " + std::to_string(n + 1) + " of " + std::to_string(tasks.size());
        report.devices.push_back(testDevice(tasks[n], settings, label, progress));
        if (brokenDevice(report.devices.back())) progress.print("FAIL " + tasks[n].facts.name + ": " + report.devices.back().problem);
    }
}

} // namespace

ExitStatus conformCommand(const ConformArguments &arguments) {
    if (!arguments.compare.empty()) return compareCommand(arguments);
    if (!arguments.table.empty()) return tableCommand(arguments);
    const uint64_t seed = arguments.seed ? *arguments.seed : freshSeed();
    RunSettings settings = settingsOf(arguments, seed);
    settings.replays = readReplays(arguments.replays);
    std::vector<Output> outputs = openOutputs(arguments);
    noteInterruptions();
    Report report = headOf(arguments, seed);
    // Before anything can go wrong: it is what repeats the run.
    if (settings.replays.empty()) std::fprintf(stderr, "vkattn conform, %s, seed %" PRIu64 "\n", report.extent.c_str(), seed);
    if (arguments.list) return listCommand(arguments, report, settings);
    testDevices(arguments, settings, report);
    const bool color = stdoutIsTerminal() && std::getenv("NO_COLOR") == nullptr;
    std::cout << reportToText(report, terminalColumns(), color) << std::flush;
    publish(outputs, report);
    const ExitStatus status = statusOf(report);
    if (status == ExitStatus::deviceUnusable) explainNothing(report, settings);
    return status;
}

} // namespace vkattn::tool
