// Reports of `vkattn conform` as data: a report that is written can be read back, a damaged one is
// refused, and no string breaks a rendering.
#include "conform/report/report.hpp"

#include "cli/markup.hpp"
#include "program/failure.hpp"
#include "sample_report.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <sstream>

namespace {

using namespace vkattn;
using namespace vkattn::test;
using namespace vkattn::conform;
using namespace vkattn::program;

Report emptyReport() {
    Report report;
    report.problem = "no Vulkan loader was found";
    return report;
}

size_t occurrences(const std::string &text, const std::string &what) {
    size_t count = 0;
    for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + what.size())) count++;
    return count;
}

void expectHas(const std::string &text, const std::string &what) {
    EXPECT_NE(text.find(what), std::string::npos) << "no '" << what << "' in:\n" << text.substr(0, 4000);
}

// Returns the reason of a refusal; empty: the report was accepted.
std::string refusal(const std::string &json) {
    try {
        static_cast<void>(reportFromJson(json, "a.json"));
        return "";
    } catch (const Failure &failure) {
        EXPECT_EQ(failure.status, ExitStatus::badInput);
        return failure.what();
    }
}

std::string replaced(std::string text, const std::string &what, const std::string &with) {
    const size_t at = text.find(what);
    EXPECT_NE(at, std::string::npos) << what;
    return at == std::string::npos ? text : text.replace(at, what.size(), with);
}

// ---- JSON ----

TEST(conformJson, readsBackWhatItWrites) {
    for (const Report &report : {everydayReport(1), emptyReport(), Report{}}) {
        const std::string json = reportToJson(report);
        const Report again = reportFromJson(json, "a.json");
        EXPECT_TRUE(again == report);
        EXPECT_EQ(reportToJson(again), json);
    }
}

TEST(conformJson, readsBackEveryMember) {
    // Bytes that are not UTF-8 are replaced when they are written: from then on nothing changes.
    const std::string json = reportToJson(hostileReport());
    const Report report = reportFromJson(json, "a.json");
    EXPECT_EQ(reportToJson(report), json);
    const Report original = hostileReport();
    const DeviceReport &device = report.devices.at(0), &before = original.devices[0];
    EXPECT_EQ(report.seed, UINT64_MAX);
    EXPECT_EQ(device.facts.deviceLocalBytes, UINT64_MAX);
    EXPECT_EQ(device.facts.maxWorkgroupInvocations, before.facts.maxWorkgroupInvocations);
    EXPECT_EQ(device.checks.size(), before.checks.size());
    EXPECT_EQ(device.checks[1].finding.errors, before.checks[1].finding.errors);
    EXPECT_EQ(device.checks[0].finding.errors, before.checks[0].finding.errors);
    EXPECT_EQ(device.checks[1].seconds, 1.0 / 3);
    EXPECT_EQ(device.timings[0].milliseconds, 0.25);
    // Each member that hostileReport() sets is there: the description forgets no member of a
    // struct.
    for (const char *member : {"library",
                               "shaderHash",
                               "started",
                               "machine",
                               "extent",
                               "seed",
                               "arguments",
                               "problem",
                               "devices",
                               "facts",
                               "seconds",
                               "pipelines",
                               "compileSeconds",
                               "restarts",
                               "timings",
                               "checks",
                               "name",
                               "driver",
                               "type",
                               "vendorId",
                               "deviceId",
                               "apiVersion",
                               "driverVersion",
                               "subgroupSize",
                               "deviceLocalBytes",
                               "maxAllocationBytes",
                               "maxStorageBufferRange",
                               "maxSharedMemoryBytes",
                               "maxWorkgroupInvocations",
                               "nanGuaranteed",
                               "matrixShapes",
                               "kernels",
                               "available",
                               "reason",
                               "id",
                               "kind",
                               "kernel",
                               "verdict",
                               "tiles",
                               "room",
                               "dtype",
                               "features",
                               "replay",
                               "deviceMilliseconds",
                               "errors",
                               "ratio",
                               "error",
                               "bound",
                               "relativeToV",
                               "histogram",
                               "smallest",
                               "attempts",
                               "shape",
                               "milliseconds",
                               "repeats",
                               "deviceTimestamps",
                               "unsupported"})
        expectHas(json, std::string("\"") + member + "\":");
}

TEST(conformJson, keepsNumbersThatAreNotFinite) {
    Report report = everydayReport(1);
    Errors &errors = *report.devices[0].checks[0].finding.errors;
    errors.worstRatio = std::numeric_limits<double>::infinity();
    errors.worstError = std::numeric_limits<double>::quiet_NaN();
    const Report again = reportFromJson(reportToJson(report), "a.json");
    EXPECT_EQ(again.devices[0].checks[0].finding.errors->worstRatio, errors.worstRatio);
    EXPECT_TRUE(std::isnan(again.devices[0].checks[0].finding.errors->worstError));
}

TEST(conformJson, staysSmall) {
    const Report report = everydayReport(1);
    EXPECT_LT(reportToJson(report).size() / (report.devices[0].checks.size() + report.devices[1].checks.size()), 600u);
}

TEST(conformJson, linesHaveOneThingEach) {
    const Report report = everydayReport(1), other = hostileReport();
    for (const DeviceReport &device : {report.devices[1], other.devices[0]}) {
        DeviceFacts facts;
        for (const CheckResult &check : device.checks) {
            CheckResult again;
            Timing timing;
            const std::string line = checkToLine(check);
            EXPECT_EQ(line.find('\n'), std::string::npos);
            ASSERT_TRUE(checkFromLine(line, again));
            EXPECT_EQ(checkToLine(again), line);
            EXPECT_FALSE(factsFromLine(line, facts) || timingFromLine(line, timing));
            EXPECT_FALSE(checkFromLine(line.substr(0, line.size() / 2), again));
            EXPECT_FALSE(checkFromLine(line + "x", again));
        }
        const std::string line = factsToLine(device.facts);
        ASSERT_TRUE(factsFromLine(line, facts));
        EXPECT_EQ(factsToLine(facts), line);
        for (const Timing &each : device.timings) {
            Timing timing;
            CheckResult check;
            ASSERT_TRUE(timingFromLine(timingToLine(each), timing));
            EXPECT_EQ(timingToLine(timing), timingToLine(each));
            EXPECT_FALSE(checkFromLine(timingToLine(each), check));
        }
    }
}

TEST(conformJson, refusesWhatIsNoReport) {
    std::string deep(100000, '[');
    const struct {
        std::string text, says;
    } cases[] = {
        {"", "is no report that this vkattn can read: it is no JSON"},
        {"\xff\xfe\x01", "it is no JSON"},
        {"{\"schema\":\"vkattn-conform\",\"version\":1", "it is no JSON"},
        {"[]", "the text is [], expected an object"},
        {"{}", "schema is missing, expected \"vkattn-conform\""},
        {"{\"schema\":\"other\"}", "schema is \"other\", expected \"vkattn-conform\""},
        {"{\"schema\":\"vkattn-conform\"}", "version is missing, expected 1"},
        {"{\"schema\":\"vkattn-conform\",\"version\":2}", "version is 2, expected 1, which this vkattn reads"},
        {"{\"schema\":\"vkattn-conform\",\"version\":\"1\"}", "version is \"1\", expected 1"},
        {"{\"schema\":\"vkattn-conform\",\"version\":1}", "library is missing"},
        {deep, "it is nested more than 8 deep"},
        {"{\"a\":1,\"a\":2}", "an object has the member \"a\" twice"},
        {"{\"a\":1e999}", "it is no JSON"},
        {std::string((64u << 20) + 1, ' '), "it has more than 64 MiB"},
    };
    for (const auto &each : cases) {
        const std::string message = refusal(each.text);
        expectHas(message, "a.json");
        expectHas(message, each.says);
        expectHas(message, "--json FILE");
        EXPECT_LT(message.size(), 1000u);
    }
}

TEST(conformJson, saysWhichMemberIsDamaged) {
    const std::string json = reportToJson(everydayReport(1));
    const struct {
        const char *what, *with, *says;
    } cases[] = {
        {"\"seed\": 1", "\"seed\": -1", "seed is -1, expected a whole number from 0 to 18446744073709551615"},
        {"\"seed\": 1", "\"seed\": 1.5", "seed is 1.5, expected a whole number"},
        {"\"seed\": 1", "\"seed\": \"1\"", "seed is \"1\", expected a whole number"},
        {"\"seed\": 1", "\"sed\": 1", "seed is missing"},
        {"\"library\": \"0.1.0\"", "\"library\": null", "library is null, expected a string"},
        {"\"subgroupSize\": 8", "\"subgroupSize\": 4294967296",
         "devices[0].facts.subgroupSize is 4294967296, expected a whole number from 0 to 4294967295"},
        {"\"nanGuaranteed\": true", "\"nanGuaranteed\": 1", "devices[0].facts.nanGuaranteed is 1, expected true or false"},
        {"\"available\":true", "\"available\":\"yes\"", "devices[0].facts.kernels[0].available is \"yes\", expected true or false"},
        {"\"verdict\":\"pass\"", "\"verdict\":\"passed\"",
         "devices[0].checks[0].verdict is \"passed\", expected one of \"pass\", \"fail\""},
        {"\"verdict\":\"pass\"", "\"verdict\":1", "devices[0].checks[0].verdict is 1, expected one of"},
        {"\"features\":[\"causal\"]", "\"features\":\"causal\"", "devices[0].checks[0].features is \"causal\", expected an array"},
        {"\"features\":[\"causal\"]", "\"features\":[7]", "devices[0].checks[0].features[0] is 7, expected a string"},
        {"\"histogram\":[", "\"histogram\":[1,", "devices[0].checks[0].errors.histogram has 17 elements, expected an array of 16 counts"},
        {"\"histogram\":[", "\"histogram\":{},\"rest\":[", "devices[0].checks[0].errors.histogram has no elements"},
        {"\"histogram\":[", "\"rest\":[", "devices[0].checks[0].errors.histogram is missing"},
        {"\"ratio\":0", "\"ratio\":-0", "devices[0].checks[0].errors.ratio is -0"},
        {"\"ratio\":", "\"ratio\":\"-Infinity\",\"rest\":",
         "errors.ratio is \"-Infinity\", expected a number of 0 or more, \"Infinity\" or \"NaN\""},
        {"\"errors\":{", "\"errors\":3,\"rest\":{", "devices[0].checks[0].errors is 3, expected an object"},
        {"\"checks\": [", "\"check\": [", "devices[0].checks is missing"},
        {"\"devices\": [", "\"devices\": 7, \"rest\": [", "devices is 7, expected an array"},
    };
    ASSERT_EQ(refusal(json), "");
    for (const auto &each : cases) expectHas(refusal(replaced(json, each.what, each.with)), each.says);
}

TEST(conformJson, refusesWhatIsThereTwiceOrTooOften) {
    Report report = everydayReport(1);
    report.devices[0].checks[3].id = report.devices[0].checks[1].id;
    expectHas(refusal(reportToJson(report)),
              "devices[0].checks[3].id is \"" + report.devices[0].checks[1].id + "\", which an earlier one has");
    report = everydayReport(1);
    report.devices[1].facts.kernels[2].name = "staged";
    expectHas(refusal(reportToJson(report)), "devices[1].facts.kernels[2].name is \"staged\", which an earlier one has");
    report = everydayReport(1);
    report.devices[1].timings.push_back(report.devices[1].timings[0]);
    expectHas(refusal(reportToJson(report)), "devices[1].timings[18] is \"auto, prefill 1 x 8 x 256 x 64 f32\", which an earlier one has");
    report = everydayReport(1);
    for (size_t n = 0; n < 300; n++) report.devices[1].checks[n].kernel = "kernel" + std::to_string(n);
    expectHas(refusal(reportToJson(report)), "devices[1] has more than 256 different kernels");
    report = everydayReport(1);
    for (size_t n = 0; n < 300; n++) report.devices[1].checks[n].features = {std::to_string(n)};
    expectHas(refusal(reportToJson(report)), "devices[1] has more than 256 different features");
    report = everydayReport(1);
    report.devices.resize(65);
    expectHas(refusal(reportToJson(report)), "devices has more than 64 elements");
    std::string many = "{\"schema\":\"vkattn-conform\"";
    for (int n = 0; n < 100; n++) many += ",\"" + std::to_string(n) + "\":0";
    expectHas(refusal(many + "}"), "an object has more than 64 members");
}

TEST(conformJson, passesOverMembersThatItDoesNotKnow) {
    const Report report = everydayReport(1);
    const std::string json = replaced(reportToJson(report), "\"seed\": 1", "\"seed\": 1, \"later\": {\"a\": [1, 2]}");
    EXPECT_TRUE(reportFromJson(json, "a.json") == report);
}

// ---- JUnit ----

TEST(conformJUnit, isWellFormedAndComplete) {
    for (const Report &report : {everydayReport(1), hostileReport(), emptyReport(), Report{}}) {
        const std::string xml = reportToJUnit(report);
        const Markup markup = readMarkup(xml, false);
        EXPECT_EQ(markup.problem, "");
        size_t cases = report.problem.empty() ? 0 : 1;
        for (const DeviceReport &device : report.devices) cases += device.checks.size() + (device.problem.empty() ? 0 : 1);
        EXPECT_EQ(occurrences(xml, "<testcase "), cases);
        const Tally tally = tallyOf(report);
        EXPECT_EQ(occurrences(xml, "<failure "), tally.fail);
        EXPECT_EQ(occurrences(xml, "<error "), tally.crash + tally.hang + cases - tally.all());
        EXPECT_EQ(occurrences(xml, "<skipped "), tally.unsupported + tally.notRun);
    }
    const std::string xml = reportToJUnit(everydayReport(1));
    expectHas(xml, "<testsuites name=\"vkattn conform\" tests=\"802\" failures=\"1\" errors=\"2\" skipped=\"");
    expectHas(xml, "--replay 81200:matrix,kernel=flash");
}

// ---- HTML ----

TEST(conformHtml, isBalancedAndSelfContained) {
    for (const Report &report : {everydayReport(1), hostileReport(), emptyReport(), Report{}}) {
        const std::string html = reportToHtml(report);
        EXPECT_EQ(readMarkup(html, true).problem, "");
        for (const char *outside : {"http:", "https:", "src=", "url(", "@import", "<script", "<link", "<iframe"})
            EXPECT_EQ(html.find(outside), std::string::npos) << outside;
    }
}

TEST(conformHtml, showsWhatWasFound) {
    const std::string text = readMarkup(reportToHtml(everydayReport(1)), true).text;
    for (const char *shown :
         {"✗ FAILED", "✓ PASS", "NVIDIA H100 80GB HBM3", "NVIDIA 570.133.20", "the error 0.0028 is over the bound 4.1e-06",
          "vkattn conform --device 'NVIDIA H100 80GB HBM3' --replay 81200:matrix,kernel=flash,room=tight,causal,heads=1",
          "the process ended with signal 11", "the device has no VK_KHR_cooperative_matrix", "the time limit of 600 seconds came first",
          "683", "prefill 1 x 8 x 256 x 64 f32", "matrix units take f16", "9f3c1b2a77e0d415",
          "vkattn conform --html report.html --json report.json --seed 1", "Slowest checks"})
        expectHas(text, shown);
    // The order is that of allFeatures(), whichever check comes first.
    EXPECT_LT(text.find("sinks"), text.find("ragged"));
    const std::string hostile = readMarkup(reportToHtml(hostileReport()), true).text;
    for (const char *what : {"name", "driver", "reason", "smallest reason", "device problem", "machine", "shape", "why", "pass", "one"})
        expectHas(hostile, std::string(hostileBeginning) + what);
    // The words are quoted as a shell takes them.
    expectHas(hostile, "vkattn conform '</script><b onclick='\\''x'\\''>&\"|argument");
    expectHas(readMarkup(reportToHtml(emptyReport()), true).text, "no Vulkan loader was found");
}

// ---- text and Markdown ----

TEST(conformText, summarises) {
    const std::string text = reportToText(everydayReport(1), 100, false);
    for (const char *shown :
         {"NVIDIA H100 80GB HBM3: FAILED", "3 of 414 checks failed (1 crash, 1 hang), 14 unsupported, 12 not run",
          "fail matrix/flash/device/full/", "--replay 81200:matrix", "2 of flash_coopmat, flash_coopmat2: the device has no",
          "FAILED on 2 devices: 3 of 763 checks failed", "llvmpipe (LLVM 15.0.6, 256 bits): PASS"})
        expectHas(text, shown);
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) // commands stay whole, to be copied
        EXPECT_TRUE(line.size() <= 100 || line.find("vkattn conform") != std::string::npos) << line;
    expectHas(reportToText(emptyReport(), 80, false), "no device was tested: no Vulkan loader was found");
    expectHas(reportToText(emptyReport(), 80, false), "NOTHING RAN on 0 devices");
}

TEST(conformText, obeysNobodyElsesEscapes) {
    for (const uint32_t columns : {0u, 30u, 100u, UINT32_MAX}) {
        const std::string text = reportToText(hostileReport(), columns, false);
        EXPECT_EQ(text.find('\x1b'), std::string::npos);
        EXPECT_EQ(text.find('\0'), std::string::npos);
        EXPECT_EQ(text.find('\xff'), std::string::npos);
        EXPECT_EQ(text.find("\xe2\x80\xae"), std::string::npos); // text from right to left
    }
    const std::string colored = reportToText(hostileReport(), 100, true);
    EXPECT_EQ(occurrences(colored, "\x1b["), occurrences(colored, "\x1b[1;") + occurrences(colored, "\x1b[0m"));
}

TEST(conformText, incompleteIsNoPass) {
    Report report = everydayReport(1);
    report.devices.pop_back();
    report.devices[0].problem = "the device was lost";
    expectHas(reportToText(report, 100, false), "INCOMPLETE on 1 device");
    report.devices[0].problem.clear();
    report.devices[0].checks[0].finding = {Outcome::notRun, "a time limit", {}, 0};
    expectHas(reportToText(report, 100, false), "INCOMPLETE on 1 device");
    report.devices[0].checks[0].finding = {};
    expectHas(reportToText(report, 100, false), "PASS on 1 device");
}

TEST(conformMarkdown, hasARowForEachDevice) {
    const std::string table = reportsToMarkdown({everydayReport(1), hostileReport(), emptyReport()});
    EXPECT_EQ(occurrences(table, "\n"), 2u + 2 + 1 + 1);
    const size_t columns = occurrences(table.substr(0, table.find('\n')), "|") - occurrences(table.substr(0, table.find('\n')), "\\|");
    const std::string hostileRow = table.substr(table.find("\n| \\</script>") + 1);
    EXPECT_EQ(occurrences(hostileRow.substr(0, hostileRow.find('\n')), "|") -
                  occurrences(hostileRow.substr(0, hostileRow.find('\n')), "\\|"),
              columns);
    for (const char *shown : {"| NVIDIA H100 80GB HBM3 | NVIDIA 570.133.20 | 1.3.230 | 32 |", "**2 failed** of 86", "pass 90",
                              "no: the device has no VK\\_KHR\\_cooperative\\_matrix", "bf16 683"})
        expectHas(table, shown);
}

// ---- comparison ----

TEST(conformCompare, findsNothingWhereNothingDiffers) {
    for (const Report &report : {everydayReport(1), hostileReport(), emptyReport(), Report{}}) {
        const Comparison comparison = compareReports(report, report, "a.json", "b.json");
        expectHas(comparison.text, "no differences");
        EXPECT_FALSE(comparison.worse);
    }
}

// Compares the everyday report with one whose first device has changed.
struct Change {
    Report a = everydayReport(1), b = a;
    DeviceReport &first() { return a.devices.at(0); }
    DeviceReport &second() { return b.devices.at(0); }
    [[nodiscard]] Comparison compare() const { return compareReports(a, b, "a.json", "b.json"); }
};

void expectChange(const Change &change, const char *says, bool worse) {
    const Comparison comparison = change.compare();
    expectHas(comparison.text, says);
    EXPECT_EQ(comparison.text.find("no differences"), std::string::npos);
    EXPECT_EQ(comparison.worse, worse) << comparison.text;
}

TEST(conformCompare, checksThatChange) {
    Change change;
    change.second().checks[0].finding = {Outcome::fail, "wrong by much", {}, 0};
    const std::string &id = change.first().checks[0].id;
    expectChange(change, ("fails now\n  " + id + ": pass -> fail: wrong by much\n").c_str(), true);
    expectHas(change.compare().text, "vkattn conform --device 'llvmpipe (LLVM 15.0.6, 256 bits)' --replay 81000:");
    std::swap(change.a, change.b);
    expectChange(change, ("passes now\n  " + id + ": fail -> pass\n").c_str(), false);

    Change skipped;
    skipped.second().checks[0].finding = {Outcome::notRun, "no time", {}, 0};
    expectChange(skipped, "other verdicts", false);

    Change crashed; // the check failed before too: the report is not worse
    crashed.first().checks[0].finding.outcome = Outcome::fail;
    crashed.second().checks[0].finding.outcome = Outcome::crash;
    expectChange(crashed, ": fail -> crash", false);
}

TEST(conformCompare, checksOfOneReport) {
    Change change;
    change.second().checks.erase(change.second().checks.begin());
    expectChange(change, "1 in the first report only", false);
    std::swap(change.a, change.b);
    expectChange(change, "1 in the second report only", false);
    change.second().checks[0].finding.outcome = Outcome::hang;
    expectChange(change, ": new -> hang", true);
}

TEST(conformCompare, facts) {
    Change change;
    change.second().facts.driver = "llvmpipe Mesa 23";
    expectChange(change, "facts\n  driver: llvmpipe Mesa 22.3.6 (LLVM 15.0.6) -> llvmpipe Mesa 23\n", false);
    change.second().problem = "the device was lost";
    expectChange(change, "problem: none -> the device was lost", true);
    Change library;
    library.b.library = "0.2.0";
    expectChange(library, "library: 0.1.0 -> 0.2.0", false);
}

TEST(conformCompare, kernels) {
    Change change;
    change.second().facts.kernels[1] = {"flash", "it computes wrongly here", false};
    expectChange(change, "flash: lost: it computes wrongly here", true);
    std::swap(change.a, change.b);
    expectChange(change, "flash: gained; it was not available: it computes wrongly here", false);
}

TEST(conformCompare, errors) {
    const auto with = [](double before, double after) {
        Change change;
        for (const auto &[report, ratio] : {std::pair(&change.first(), before), std::pair(&change.second(), after)})
            for (CheckResult &check : report->checks)
                if (check.kernel == "flash" && check.dtype == "f16" && check.finding.errors) check.finding.errors->worstRatio = ratio;
        return change;
    };
    expectChange(with(0.1, 0.21), "flash f16: 0.1 -> 0.21 of the bound (", true);
    expectChange(with(0.21, 0.1), "flash f16: 0.21 -> 0.1 of the bound (", false);
    expectChange(with(0.9, INFINITY), "0.9 -> infinite of the bound", true);
    expectChange(with(0.9, NAN), "0.9 -> NaN of the bound", true);
    for (const auto &[before, after] :
         {std::pair(0.1, 0.19), std::pair(1e-6, 1e-3), std::pair(0.0, 0.0), std::pair<double, double>(NAN, NAN)})
        expectHas(with(before, after).compare().text, "no differences");
}

TEST(conformCompare, timings) {
    Change change;
    change.first().timings[0].milliseconds = 10;
    change.second().timings[0].milliseconds = 14;
    expectChange(change, "10 -> 14 ms (1.4 times slower)", false);
    std::swap(change.a, change.b);
    expectChange(change, "14 -> 10 ms (1.4 times faster)", false);
    change.second().timings[0].milliseconds = 12;
    expectHas(change.compare().text, "no differences");
}

TEST(conformCompare, seeds) {
    Change change;
    change.b.seed = 2;
    expectChange(change, "seed: 1 -> 2: checks of the same id had other data", false);
}

TEST(conformCompare, pairsDevices) {
    Change swapped;
    std::swap(swapped.b.devices[0], swapped.b.devices[1]);
    expectHas(swapped.compare().text, "no differences");

    Change renamed; // one is left on either side
    renamed.second().facts.name = "llvmpipe (LLVM 20)";
    expectChange(renamed, "llvmpipe (LLVM 15.0.6, 256 bits) against llvmpipe (LLVM 20)\n", false);

    Change lost;
    lost.b.devices.erase(lost.b.devices.begin());
    expectChange(lost, "llvmpipe (LLVM 15.0.6, 256 bits): in the first report only", true);
    std::swap(lost.a, lost.b);
    expectChange(lost, "llvmpipe (LLVM 15.0.6, 256 bits): in the second report only: 349 checks passed", false);

    Change twins; // the same name twice: by driver
    for (Report *report : {&twins.a, &twins.b}) {
        report->devices[1] = report->devices[0];
        report->devices[1].facts.driver = "another";
        report->devices[1].checks[0].finding.outcome = Outcome::hang;
    }
    std::swap(twins.b.devices[0], twins.b.devices[1]);
    expectHas(twins.compare().text, "no differences");
}

} // namespace
