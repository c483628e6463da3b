// The report as one page, to be read in a browser or sent to the writers of the driver.
#include "conform/report/html_parts.hpp"
#include "conform/report/summary.hpp"
#include "program/legible_text.hpp"
#include "program/vulkan_version.hpp"

#include <algorithm>
#include <map>

namespace vkattn::conform {
using namespace program;
namespace {

constexpr size_t slowest = 10;

std::string joined(const std::vector<std::string> &words) {
    std::string text;
    for (const std::string &word : words) text += (text.empty() ? "" : ", ") + word;
    return text;
}

Html verdictBadge(Overall overall) {
    const char *sign = overall == Overall::pass ? "✓ " : overall == Overall::failed ? "✗ " : "! ";
    const std::string name = overallName(overall);
    return "<span class=\"verdict " + name + "\">" + sign + name +
           "</span>"; // "NOTHING RAN" becomes two classes, and the first has a style
}

Html definitions(const std::vector<FactRow> &rows) {
    Html html = "<dl>\n";
    for (const FactRow &row : rows) html += textElement("dt", row.label) + textElement("dd", row.value) + "\n";
    return html + "</dl>\n";
}

Html anchor(size_t device) {
    return "device-" + std::to_string(device + 1);
}

// The places of reasons in the list of unsupported checks. Cells refer to the places, because
// tooltips do not print.
using ReasonPlaces = std::map<std::string, size_t>;

ReasonPlaces placesOf(const std::vector<ReasonCount> &reasons) {
    ReasonPlaces places;
    for (size_t n = 0; n < reasons.size(); n++) places.emplace(reasons[n].reason, n);
    return places;
}

// Returns a number in letters, as browsers count: a to z, aa, ab, ...
std::string letters(size_t place) {
    const std::string last(1, static_cast<char>('a' + place % 26));
    return place < 26 ? last : letters(place / 26 - 1) + last;
}

// A cell of the matrix.
struct Crossing {
    Tally tally;
    std::map<std::string, uint64_t> unsupported; // by reason
    void add(const CheckResult &check) {
        tally.add(check.finding.outcome);
        if (check.finding.outcome == Outcome::unsupported) unsupported[check.finding.reason]++;
    }
};

Html noteLetters(const Crossing &crossing, const ReasonPlaces &places) {
    constexpr size_t most = 3;
    std::vector<size_t> found;
    for (const auto &[reason, count] : crossing.unsupported) found.push_back(places.at(reason));
    std::sort(found.begin(), found.end());
    Html html;
    for (size_t n = 0; n < std::min(found.size(), most); n++) html += (n > 0 ? "," : "") + letters(found[n]);
    return "<sup>" + html + (found.size() > most ? "…" : "") + "</sup>";
}

Cell matrixCell(const Crossing &crossing, const ReasonPlaces &places) {
    const Tally &tally = crossing.tally;
    if (tally.all() == 0) return {"·", "no"};
    std::vector<Html> parts;
    if (tally.fail > 0) parts.push_back("✗ " + countText(tally.fail));
    if (tally.crash > 0) parts.push_back("crash " + countText(tally.crash));
    if (tally.hang > 0) parts.push_back("hang " + countText(tally.hang));
    if (tally.pass > 0) parts.push_back("✓ " + countText(tally.pass));
    if (tally.unsupported > 0) parts.push_back("– " + countText(tally.unsupported) + noteLetters(crossing, places));
    if (tally.notRun > 0) parts.push_back("○ " + countText(tally.notRun));
    Html content;
    for (size_t n = 0; n < parts.size(); n++) content += n == 0 ? parts[n] : " " + element("small", parts[n]);
    std::string title;
    for (const auto &[reason, count] : crossing.unsupported)
        title += (title.empty() ? "" : "\n") + countText(count) + " unsupported: " + reason;
    return {content, tally.failures() > 0 ? "fail" : tally.pass > 0 ? "pass" : "no", title};
}

Html matrix(const DeviceReport &device, const std::vector<ReasonCount> &unsupported) {
    const std::vector<std::string> kernels = kernelsOf(device), features = featuresOf(device);
    const ReasonPlaces places = placesOf(unsupported);
    std::map<std::pair<std::string, std::string>, Crossing> crossings; // by feature and kernel
    std::map<std::string, Crossing> totals;                            // by kernel
    for (const CheckResult &check : device.checks) {
        totals[check.kernel].add(check);
        for (const std::string &feature : check.features) crossings[{feature, check.kernel}].add(check);
    }
    std::vector<Cell> head = {{"feature"}};
    std::vector<std::vector<Cell>> rows = {{{"all checks"}}};
    for (const std::string &kernel : kernels) {
        const DeviceFacts::Kernel *facts = factsOfKernel(device.facts, kernel);
        const bool missing = facts != nullptr && !facts->available;
        head.push_back({escapeMarkup(kernel) + (missing ? "<small>not available</small>" : ""), "", missing ? facts->reason : ""});
        rows.front().push_back(matrixCell(totals[kernel], places));
    }
    for (const std::string &feature : features) {
        rows.push_back({{escapeMarkup(feature)}});
        for (const std::string &kernel : kernels) rows.back().push_back(matrixCell(crossings[{feature, kernel}], places));
    }
    return "<h3>Kernels and features</h3>\n<p class=\"faint\">✓ passed, ✗ failed, – unsupported (the small letters say why, in the list "
           "below), ○ not run, · no such check. A check counts in the row of each feature that it has.</p>\n" +
           tableBox(head, rows, "matrix");
}

Html kernelNotes(const DeviceFacts &facts) {
    Html html;
    for (const DeviceFacts::Kernel &kernel : facts.kernels)
        if (!kernel.reason.empty())
            html += "<li>" + textElement("code", kernel.name) + (kernel.available ? ": " : " is not available: ") +
                    escapeMarkup(kernel.reason) + "</li>\n";
    return html.empty() ? "" : "<ul>\n" + html + "</ul>\n";
}

Html reasonList(const char *heading, const std::vector<ReasonCount> &reasons) {
    if (reasons.empty()) return "";
    Html html = textElement("h3", heading) + "\n<ol type=\"a\">\n";
    for (const ReasonCount &each : reasons) {
        const std::string whose = countText(each.checks) + (each.checks == 1 ? " check of " : " checks of ") + joined(each.kernels) +
                                  (each.features.empty() ? "" : ": " + joined(each.features));
        html += "<li>" + escapeMarkup(each.reason.empty() ? "no reason given" : each.reason) + " " +
                textElement("small", "(" + whose + ")") + "</li>\n";
    }
    return html + "</ol>\n";
}

Html failure(const DeviceReport &device, const CheckResult &check) {
    Html html = "<div class=\"failure\">\n<h4><span class=\"verdict\">✗ " + escapeMarkup(outcomeName(check.finding.outcome)) + "</span>" +
                textElement("code", check.id) + "</h4>\n";
    if (!check.finding.reason.empty()) html += textElement("pre", check.finding.reason);
    for (const std::string &feature : check.features) html += textElement("span", feature, "tag");
    if (check.finding.errors) {
        const Errors &errors = *check.finding.errors;
        html += textElement("p", "worst error " + numberText(errors.worstError) + " where " + numberText(errors.worstBound) +
                                     " is allowed, of " + countText(errors.elements()) + " elements compared");
    }
    if (check.smallest) {
        html += textElement("p", "Smallest case that fails, after " + countText(check.smallest->attempts) + " tries:");
        html += textElement("pre", check.smallest->reason) + textElement("pre", replayCommand(device, check.smallest->replay));
    }
    if (!check.replay.empty())
        html += textElement("p", check.smallest ? "The check as it was found:" : "To run it again:") +
                textElement("pre", replayCommand(device, check.replay));
    return html + "</div>\n";
}

Html failures(const DeviceReport &device) {
    Html html;
    for (const CheckResult *check : failuresOf(device)) html += failure(device, *check);
    return html.empty() ? "" : "<h3>Failures</h3>\n" + html;
}

Html errorTable(const DeviceReport &device) {
    std::vector<std::vector<Cell>> rows;
    for (const KernelErrors &each : errorsOf(device)) {
        const Errors &errors = each.errors;
        const bool within = errors.worstRatio <= 1;
        rows.push_back({{escapeMarkup(each.kernel)},
                        {escapeMarkup(each.dtype), "left"},
                        {(within ? "" : "✗ ") + numberText(errors.worstRatio), within ? "" : "fail", each.worstId},
                        {numberText(errors.worstError)},
                        {numberText(errors.worstBound)},
                        {numberText(errors.relativeToV)},
                        {countText(errors.elements())},
                        {histogramSvg(errors)}});
    }
    if (rows.empty()) return "";
    return "<h3>Errors</h3>\n<p class=\"faint\">Every element is compared with an oracle in double precision and has a bound of its own. "
           "The "
           "histogram counts elements by error / bound in powers of two, on a logarithmic scale; the dashed line is the bound, and what is "
           "right of it has failed. Beside the worst ratio are the error and the bound of that element.</p>\n" +
           tableBox({{"kernel"},
                     {"output", "left"},
                     {"worst<br>error / bound"},
                     {"error<br>there"},
                     {"bound<br>there"},
                     {"largest error<br>/ max |v|"},
                     {"elements<br>compared"},
                     {"error / bound", "left"}},
                    rows);
}

std::string clocksOf(const std::vector<Timing> &timings) {
    bool device = false, wall = false;
    for (const Timing &timing : timings)
        if (timing.unsupported.empty()) (timing.deviceTimestamps ? device : wall) = true;
    const std::string byWall = "by the wall clock from submit to fence";
    return !wall ? "by the device's clock" : device ? "some by the device's clock and some " + byWall : byWall;
}

Html timingTable(const DeviceReport &device) {
    if (device.timings.empty()) return "";
    std::vector<std::string> kernels, shapes;
    std::map<std::pair<std::string, std::string>, const Timing *> timings; // by shape and kernel
    for (const Timing &timing : device.timings) {
        if (std::find(kernels.begin(), kernels.end(), timing.kernel) == kernels.end()) kernels.push_back(timing.kernel);
        if (timings.emplace(std::pair(timing.shape, timing.kernel), &timing).second &&
            std::find(shapes.begin(), shapes.end(), timing.shape) == shapes.end())
            shapes.push_back(timing.shape);
    }
    std::vector<Cell> head = {{"shape"}};
    std::vector<std::vector<Cell>> rows;
    std::map<std::string, std::vector<std::string>> missing; // kernels by reason
    for (const std::string &kernel : kernels) head.push_back({escapeMarkup(kernel)});
    for (const std::string &shape : shapes) {
        rows.push_back({{escapeMarkup(shape)}});
        for (const std::string &kernel : kernels) {
            const auto found = timings.find({shape, kernel});
            if (found == timings.end()) {
                rows.back().push_back({"·", "no"});
            } else if (const Timing &timing = *found->second; !timing.unsupported.empty()) {
                rows.back().push_back({"–", "no", timing.unsupported});
                missing[timing.unsupported].push_back(kernel + ", " + shape);
            } else {
                rows.back().push_back({numberText(timing.milliseconds) + " ms", "",
                                       "median of " + countText(timing.repeats) +
                                           (timing.deviceTimestamps ? ", by the device's clock" : ", wall clock from submit to fence")});
            }
        }
    }
    Html html = "<h3>Timings</h3>\n" + textElement("p", "Medians, of the computation alone, " + clocksOf(device.timings) + ".", "faint") +
                "\n" + tableBox(head, rows, "matrix");
    if (missing.empty()) return html;
    html += "<ul>\n";
    for (const auto &[reason, whose] : missing)
        html += "<li>" + escapeMarkup(reason) + " " + textElement("small", "(" + joined(whose) + ")") + "</li>\n";
    return html + "</ul>\n";
}

Html slowestTable(const DeviceReport &device) {
    std::vector<const CheckResult *> checks;
    for (const CheckResult &check : device.checks)
        if (check.seconds > 0) checks.push_back(&check);
    std::stable_sort(checks.begin(), checks.end(), [](const CheckResult *a, const CheckResult *b) { return a->seconds > b->seconds; });
    checks.resize(std::min(checks.size(), slowest));
    if (checks.empty()) return "";
    std::vector<std::vector<Cell>> rows;
    for (const CheckResult *check : checks)
        rows.push_back({{textElement("code", check->id), "id"},
                        {escapeMarkup(outcomeName(check->finding.outcome)), isFailure(check->finding.outcome) ? "fail" : ""},
                        {durationText(check->seconds)},
                        {check->finding.deviceMilliseconds > 0 ? durationText(check->finding.deviceMilliseconds / 1000) : ""}});
    return "<h3>Slowest checks</h3>\n" + tableBox({{"check"}, {"verdict"}, {"in all"}, {"on the device"}}, rows);
}

Html deviceSection(const DeviceReport &device, size_t number) {
    const std::vector<ReasonCount> unsupported = reasonsOf(device, Outcome::unsupported);
    Html html = "<section id=\"" + anchor(number) + "\">\n<h2>" + escapeMarkup(device.facts.name) + " " + verdictBadge(overallOf(device)) +
                "</h2>\n" + textElement("p", sentenceOf(tallyOf(device)));
    if (!device.problem.empty()) html += textElement("p", device.problem, "notice");
    std::vector<FactRow> facts = factRows(device.facts);
    facts.push_back({"pipelines compiled", countText(device.pipelines) + " in " + durationText(device.compileSeconds)});
    facts.push_back({"time in all", durationText(device.seconds)});
    if (device.restarts > 0) facts.push_back({"restarts", countText(device.restarts) + ", after crashes and hangs"});
    html += failures(device) + matrix(device, unsupported) + kernelNotes(device.facts);
    html += reasonList("Unsupported, because", unsupported);
    html += reasonList("Not run, because", reasonsOf(device, Outcome::notRun));
    html += errorTable(device) + timingTable(device) + slowestTable(device);
    return html + "<h3>Device and driver</h3>\n" + definitions(facts) + "</section>\n";
}

constexpr Outcome columns[] = {Outcome::pass, Outcome::fail, Outcome::crash, Outcome::hang, Outcome::unsupported, Outcome::notRun};

Html summaryTable(const Report &report) {
    std::vector<std::vector<Cell>> rows;
    for (size_t n = 0; n < report.devices.size(); n++) {
        const DeviceReport &device = report.devices[n];
        const Tally tally = tallyOf(device);
        rows.push_back({{"<a href=\"#" + anchor(n) + "\">" + escapeMarkup(device.facts.name) + "</a><br>" +
                         textElement("small", device.facts.driver + ", Vulkan " + vulkanVersionText(device.facts.apiVersion))},
                        {verdictBadge(overallOf(device)), "left"}});
        for (const Outcome outcome : columns)
            rows.back().push_back({countText(tally.of(outcome)), isFailure(outcome) && tally.of(outcome) > 0 ? "fail" : ""});
        rows.back().push_back({durationText(device.seconds)});
    }
    std::vector<Cell> head = {{"device"}, {"verdict", "left"}};
    for (const Outcome outcome : columns) head.push_back({escapeMarkup(outcomeName(outcome))});
    head.push_back({"time"});
    return tableBox(head, rows, "devices");
}

} // namespace

std::string reportToHtml(const Report &report) {
    const Overall overall = overallOf(report);
    Html html =
        pageBegin("vkattn conformance: " + std::string(overallName(overall))) + "<header>\n<h1>vkattn conformance " +
        verdictBadge(overall) + "</h1>\n" + textElement("p", sentenceOf(tallyOf(report))) +
        textElement("p", "vkattn " + report.library + ", " + report.extent + ", " + report.started + ", " + report.machine, "faint") +
        "\n</header>\n";
    if (!report.problem.empty()) html += textElement("p", "No device was tested: " + report.problem, "notice");
    if (report.devices.size() > 1) html += summaryTable(report);
    for (size_t n = 0; n < report.devices.size(); n++) html += deviceSection(report.devices[n], n);
    html += "<section>\n<h2>How to repeat this run</h2>\n" + textElement("pre", runCommand(report)) +
            definitions({{"vkattn", report.library},
                         {"shader hash", report.shaderHash},
                         {"seed", std::to_string(report.seed)},
                         {"extent", report.extent},
                         {"started", report.started},
                         {"machine", report.machine}});
    return html + "</section>\n" + pageEnd();
}

} // namespace vkattn::conform
