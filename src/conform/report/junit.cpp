// Reports for CI systems: a suite for each device, a case for each check.
#include "conform/report/summary.hpp"
#include "program/legible_text.hpp"

#include <cmath>
#include <cstdio>

namespace vkattn::conform {
using namespace program;
namespace {

std::string attribute(const char *name, const std::string &value) {
    return std::string(" ") + name + "=\"" + escapeMarkup(legibleLine(value)) + "\"";
}

std::string attribute(const char *name, uint64_t value) {
    return attribute(name, std::to_string(value));
}

// Readers of JUnit want a decimal number.
std::string secondsText(double seconds) {
    char text[32];
    std::snprintf(text, sizeof text, "%.3f", std::isfinite(seconds) && seconds < 1e9 ? seconds : 0.0);
    return text;
}

std::string details(const DeviceReport &device, const CheckResult &check) {
    std::string text = check.finding.reason + "\n";
    if (!check.replay.empty()) text += "replay: " + replayCommand(device, check.replay) + "\n";
    if (check.smallest)
        text += "smallest failing case: " + replayCommand(device, check.smallest->replay) + "\n" + check.smallest->reason + "\n";
    return escapeMarkup(text);
}

std::string verdictElement(const DeviceReport &device, const CheckResult &check) {
    switch (check.finding.outcome) {
    case Outcome::pass:
        return "";
    case Outcome::fail:
    case Outcome::crash:
    case Outcome::hang: {
        // JUnit tells a test that found something wrong from a test that came to no end.
        const std::string element = check.finding.outcome == Outcome::fail ? "failure" : "error";
        return "<" + element + attribute("type", outcomeName(check.finding.outcome)) + attribute("message", check.finding.reason) + ">" +
               details(device, check) + "</" + element + ">";
    }
    case Outcome::unsupported:
    case Outcome::notRun:
        return "<skipped" + attribute("message", outcomeName(check.finding.outcome) + (": " + check.finding.reason)) + "/>";
    }
    return "";
}

std::string caseElement(const DeviceReport &device, const CheckResult &check) {
    const std::string head = "    <testcase" + attribute("classname", check.kernel) + attribute("name", check.id) +
                             attribute("time", secondsText(check.seconds));
    const std::string outcome = verdictElement(device, check);
    return head + (outcome.empty() ? "/>\n" : ">" + outcome + "</testcase>\n");
}

// A reason that kept checks from running is an error: a suite without cases would look fine.
std::string problemCase(const std::string &problem) {
    return "    <testcase" + attribute("classname", "device") + attribute("name", "device") + "><error" + attribute("message", problem) +
           ">" + escapeMarkup(problem) + "</error></testcase>\n";
}

struct Counts {
    uint64_t tests = 0, failures = 0, errors = 0, skipped = 0;
};

std::string countAttributes(const Counts &counts) {
    return attribute("tests", counts.tests) + attribute("failures", counts.failures) + attribute("errors", counts.errors) +
           attribute("skipped", counts.skipped);
}

Counts countsOf(const Tally &tally, uint64_t problems) {
    return {tally.all() + problems, tally.fail, tally.crash + tally.hang + problems, tally.unsupported + tally.notRun};
}

std::string suite(const Report &report, const DeviceReport &device) {
    const bool problem = !device.problem.empty();
    std::string xml = "  <testsuite" + attribute("name", device.facts.name) + countAttributes(countsOf(tallyOf(device), problem ? 1 : 0)) +
                      attribute("time", secondsText(device.seconds)) + attribute("timestamp", report.started) + ">\n    <properties>\n";
    for (const FactRow &row : factRows(device.facts))
        xml += "      <property" + attribute("name", row.label) + attribute("value", row.value) + "/>\n";
    for (const FactRow &row :
         {FactRow{"library", report.library}, {"shader hash", report.shaderHash}, {"seed", std::to_string(report.seed)}})
        xml += "      <property" + attribute("name", row.label) + attribute("value", row.value) + "/>\n";
    xml += "    </properties>\n";
    if (problem) xml += problemCase(device.problem);
    for (const CheckResult &check : device.checks) xml += caseElement(device, check);
    return xml + "  </testsuite>\n";
}

} // namespace

std::string reportToJUnit(const Report &report) {
    uint64_t problems = report.problem.empty() ? 0 : 1;
    double seconds = 0;
    std::string suites;
    if (!report.problem.empty())
        suites += "  <testsuite" + attribute("name", "devices") + countAttributes({1, 0, 1, 0}) + ">\n" + problemCase(report.problem) +
                  "  </testsuite>\n";
    for (const DeviceReport &device : report.devices) {
        suites += suite(report, device);
        problems += device.problem.empty() ? 0 : 1;
        seconds += device.seconds;
    }
    return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites" + attribute("name", "vkattn conform") +
           countAttributes(countsOf(tallyOf(report), problems)) + attribute("time", secondsText(seconds)) + ">\n" + suites +
           "</testsuites>\n";
}

} // namespace vkattn::conform
