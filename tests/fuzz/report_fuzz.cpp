// Reports of `vkattn conform` from anywhere. Every rendering takes a report that the reader takes,
// and writing a report and reading it again changes nothing.
#include "conform/report/report.hpp"
#include "fuzz/shared/fuzz.hpp"
#include "program/failure.hpp"

#include <optional>

using namespace vkattn;
using namespace vkattn::conform;
using namespace vkattn::program;

namespace {

std::optional<Report> read(const std::string &text) {
    try {
        return reportFromJson(text, "input");
    } catch (const Failure &failure) {
        const std::string message = failure.what();
        require(message.find("input is no report") == 0 && message.size() < 4096);
        for (const char c : message) require(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f);
        return {};
    }
}

// Terminals and parsers of markup obey nothing in the output but what we have put there.
void checkText(const std::string &text) {
    for (const char c : text) require(static_cast<unsigned char>(c) >= 0x20 || c == '\n' || c == '\t');
}

void checkLines(const Report &report) {
    for (const DeviceReport &device : report.devices) {
        DeviceFacts facts;
        require(factsFromLine(factsToLine(device.facts), facts) && factsToLine(facts) == factsToLine(device.facts));
        for (const conform::CheckResult &each : device.checks) {
            conform::CheckResult check;
            require(checkFromLine(checkToLine(each), check) && checkToLine(check) == checkToLine(each));
        }
        for (const conform::Timing &each : device.timings) {
            conform::Timing timing;
            require(timingFromLine(timingToLine(each), timing) && timingToLine(timing) == timingToLine(each));
        }
    }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const std::string text(reinterpret_cast<const char *>(data), size);
    conform::CheckResult check;
    DeviceFacts facts;
    conform::Timing timing;
    static_cast<void>(checkFromLine(text, check));
    static_cast<void>(factsFromLine(text, facts));
    static_cast<void>(timingFromLine(text, timing));
    const std::optional<Report> report = read(text);
    if (!report) return 0;
    const std::string json = reportToJson(*report);
    const std::optional<Report> again = read(json);
    require(again && reportToJson(*again) == json);
    checkLines(*report);
    checkText(reportToText(*report, 80, false));
    checkText(reportToHtml(*report));
    checkText(reportToJUnit(*report));
    checkText(reportsToMarkdown({*report, *again}));
    const Comparison comparison = compareReports(*report, *again, "a", "b");
    require(!comparison.worse && comparison.text.find("no differences") != std::string::npos);
    return 0;
}
