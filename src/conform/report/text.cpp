// The summary on a terminal, at the end of `vkattn conform`.
#include "conform/report/summary.hpp"
#include "program/legible_text.hpp"
#include "program/vulkan_version.hpp"

#include <algorithm>
#include <string_view>

namespace vkattn::conform {
using namespace program;
namespace {

constexpr size_t mostFailures = 40, mostReasons = 8;

class Page {
  public:
    Page(uint32_t columns, bool color) : columns_(std::max<size_t>(columns, 40)), color_(color) {}

    void line(const std::string &text = "") { text_ += text + "\n"; }

    // Adds text, broken at spaces. Lines after the first are indented further by `hanging`.
    void paragraph(size_t indent, std::string_view text, size_t hanging = 0) {
        std::string current(indent, ' ');
        bool empty = true;
        const std::string words = legibleLine(text);
        for (size_t begin = 0; begin < words.size();) {
            const size_t end = std::min(words.find(' ', begin), words.size());
            const std::string word = words.substr(begin, end - begin);
            begin = end + 1;
            if (word.empty()) continue;
            if (!empty && characterCount(current) + 1 + characterCount(word) > columns_) {
                line(current);
                current = std::string(indent + hanging, ' ');
                empty = true;
            }
            current += (empty ? "" : " ") + word;
            empty = false;
        }
        line(current);
    }

    // Adds a command on one line, however long, so that it can be copied.
    void command(size_t indent, const std::string &text) { line(std::string(indent, ' ') + legibleLine(text)); }

    [[nodiscard]] std::string colored(Overall overall) const {
        const std::string name = overallName(overall);
        if (!color_) return name;
        const char *code = overall == Overall::pass ? "32" : overall == Overall::failed ? "31" : "33";
        return std::string("\x1b[1;") + code + "m" + name + "\x1b[0m";
    }

    [[nodiscard]] size_t columns() const { return columns_; }
    [[nodiscard]] std::string take() { return std::move(text_); }

  private:
    size_t columns_;
    bool color_;
    std::string text_;
};

std::string padded(const std::string &text, size_t width, bool right) {
    const size_t length = characterCount(text);
    const std::string spaces(width > length ? width - length : 0, ' ');
    return right ? spaces + text : text + spaces;
}

// Adds a table: the first column to the left, the columns between to the right, the last one as it
// is.
void table(Page &page, const std::vector<std::vector<std::string>> &rows) {
    std::vector<size_t> widths(rows.front().size());
    for (const auto &row : rows)
        for (size_t n = 0; n < row.size(); n++) widths[n] = std::max(widths[n], characterCount(row[n]));
    for (const auto &row : rows) {
        std::string text = "  ";
        for (size_t n = 0; n + 1 < row.size(); n++) text += padded(row[n], widths[n], n > 0) + "  ";
        page.line(text + row.back());
    }
}

void kernelTable(Page &page, const DeviceReport &device) {
    const std::vector<KernelErrors> errors = errorsOf(device);
    std::vector<std::vector<std::string>> rows = {{"kernel", "pass", "fail", "unsupported", "not run", "worst error / bound"}};
    for (const std::string &kernel : kernelsOf(device)) {
        Tally tally;
        for (const CheckResult &check : device.checks)
            if (check.kernel == kernel) tally.add(check.finding.outcome);
        std::string worst;
        for (const KernelErrors &each : errors)
            if (each.kernel == kernel)
                worst += (worst.empty() ? "" : ", ") + legibleLine(each.dtype, 20) + " " + numberText(each.errors.worstRatio);
        rows.push_back({legibleLine(kernel, 20), countText(tally.pass), countText(tally.failures()), countText(tally.unsupported),
                        countText(tally.notRun), worst.empty() ? "-" : worst});
    }
    if (rows.size() > 1) table(page, rows);
}

void failures(Page &page, const DeviceReport &device) {
    const std::vector<const CheckResult *> failed = failuresOf(device);
    if (failed.empty()) return;
    page.line();
    page.line("  failures:");
    for (size_t n = 0; n < std::min(failed.size(), mostFailures); n++) {
        const CheckResult &check = *failed[n];
        page.paragraph(4, std::string(outcomeName(check.finding.outcome)) + "  " + check.id + ": " + check.finding.reason, 2);
        const std::string replay = replayCommand(device, check.replay);
        if (check.smallest) {
            page.paragraph(
                6, "smallest case that fails, after " + countText(check.smallest->attempts) + " tries: " + check.smallest->reason, 2);
            page.command(8, replayCommand(device, check.smallest->replay));
        } else if (!replay.empty()) {
            page.command(8, replay);
        }
    }
    if (failed.size() > mostFailures)
        page.paragraph(4, "and " + countText(failed.size() - mostFailures) + " more: --html FILE and --json FILE have them all");
}

void reasons(Page &page, const DeviceReport &device, Outcome outcome) {
    const std::vector<ReasonCount> all = reasonsOf(device, outcome);
    if (all.empty()) return;
    page.line();
    page.line(std::string("  ") + outcomeName(outcome) + ":");
    for (size_t n = 0; n < std::min(all.size(), mostReasons); n++) {
        std::string kernels;
        for (const std::string &kernel : all[n].kernels) kernels += (kernels.empty() ? "" : ", ") + kernel;
        page.paragraph(4, countText(all[n].checks) + " of " + kernels + ": " + (all[n].reason.empty() ? "no reason" : all[n].reason), 2);
    }
    if (all.size() > mostReasons)
        page.paragraph(4, "and " + countText(all.size() - mostReasons) + " more reasons: --html FILE and --json FILE have them all");
}

void deviceSection(Page &page, const DeviceReport &device) {
    const DeviceFacts &facts = device.facts;
    page.line();
    page.line(legibleLine(facts.name, page.columns() - 14) + ": " + page.colored(overallOf(device)));
    page.paragraph(2, sentenceOf(tallyOf(device)), 2);
    page.paragraph(2,
                   facts.driver + ", Vulkan " + vulkanVersionText(facts.apiVersion) + ", subgroups of " +
                       std::to_string(facts.subgroupSize) + "; " + countText(device.pipelines) + " pipelines compiled in " +
                       durationText(device.compileSeconds) + ", " + durationText(device.seconds) + " in all" +
                       (device.restarts > 0 ? ", " + countText(device.restarts) + " restarts after crashes and hangs" : ""),
                   2);
    if (!device.problem.empty()) page.paragraph(2, "problem: " + device.problem, 2);
    page.line();
    kernelTable(page, device);
    failures(page, device);
    reasons(page, device, Outcome::unsupported);
    reasons(page, device, Outcome::notRun);
}

} // namespace

std::string reportToText(const Report &report, uint32_t columns, bool color) {
    Page page(columns, color);
    page.paragraph(0, "vkattn " + report.library + " conform, " + report.extent + ", seed " + std::to_string(report.seed), 2);
    if (!report.problem.empty()) page.paragraph(0, "no device was tested: " + report.problem, 2);
    for (const DeviceReport &device : report.devices) deviceSection(page, device);
    page.line();
    const size_t devices = report.devices.size();
    page.line(page.colored(overallOf(report)) + " on " + countText(devices) + (devices == 1 ? " device: " : " devices: ") +
              sentenceOf(tallyOf(report)));
    return page.take();
}

} // namespace vkattn::conform
