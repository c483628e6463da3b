// The table of drivers in docs/drivers.md.
#include "conform/report/summary.hpp"
#include "program/legible_text.hpp"
#include "program/vulkan_version.hpp"

#include <algorithm>
#include <map>

namespace vkattn::conform {
using namespace program;
namespace {

constexpr size_t reasonCharacters = 90;

// Returns a cell on one line of a table, without markup that a reason may hold by chance.
std::string cell(const std::string &text, size_t characters = SIZE_MAX) {
    std::string out;
    for (const char c : legibleLine(text, characters)) {
        if (std::string_view("|\\`*_[]<&").find(c) != std::string_view::npos) out += '\\';
        out += c;
    }
    return out;
}

// Returns why none of the kernel's checks ran; empty where nobody knows.
std::string whyNone(const DeviceReport &device, const std::string &kernel) {
    const DeviceFacts::Kernel *facts = factsOfKernel(device.facts, kernel);
    if (facts != nullptr && !facts->available && !facts->reason.empty()) return facts->reason;
    for (const CheckResult &check : device.checks)
        if (check.kernel == kernel && !check.finding.reason.empty()) return check.finding.reason;
    return device.problem;
}

std::string kernelCell(const DeviceReport &device, const std::string &kernel) {
    Tally tally;
    for (const CheckResult &check : device.checks)
        if (check.kernel == kernel) tally.add(check.finding.outcome);
    if (tally.failures() > 0) return "**" + std::to_string(tally.failures()) + " failed** of " + std::to_string(tally.ran());
    if (tally.pass > 0)
        return "pass " + std::to_string(tally.pass) + (tally.notRun > 0 ? ", " + std::to_string(tally.notRun) + " not run" : "");
    const std::string why = whyNone(device, kernel);
    return why.empty() ? "-" : "no: " + cell(why, reasonCharacters);
}

std::string errorsCell(const DeviceReport &device) {
    std::map<std::string, Errors> byType;
    for (const KernelErrors &each : errorsOf(device)) byType[each.dtype].merge(each.errors);
    std::string text;
    for (const auto &[dtype, errors] : byType) text += (text.empty() ? "" : ", ") + cell(dtype) + " " + numberText(errors.worstRatio);
    return text.empty() ? "-" : text;
}

std::string row(const std::vector<std::string> &cells) {
    std::string line = "|";
    for (const std::string &each : cells) line += " " + each + " |";
    return line + "\n";
}

} // namespace

std::string reportsToMarkdown(const std::vector<Report> &reports) {
    std::vector<std::string> kernels;
    for (const Report &report : reports)
        for (const DeviceReport &device : report.devices)
            for (const std::string &kernel : kernelsOf(device))
                if (std::find(kernels.begin(), kernels.end(), kernel) == kernels.end()) kernels.push_back(kernel);

    std::vector<std::string> head = {"device", "driver", "Vulkan", "subgroup"};
    for (const std::string &kernel : kernels) head.push_back(cell(kernel));
    head.emplace_back("worst error / bound");
    std::string text = row(head) + row(std::vector<std::string>(head.size(), "---"));
    for (const Report &report : reports) {
        if (report.devices.empty()) text += row({cell(report.machine), "no device: " + cell(report.problem, reasonCharacters)});
        for (const DeviceReport &device : report.devices) {
            const DeviceFacts &facts = device.facts;
            std::vector<std::string> cells = {cell(facts.name), cell(facts.driver), vulkanVersionText(facts.apiVersion),
                                              facts.subgroupSize == 0 ? "?" : std::to_string(facts.subgroupSize)};
            for (const std::string &kernel : kernels) cells.push_back(kernelCell(device, kernel));
            cells.push_back(errorsCell(device));
            text += row(cells);
        }
    }
    return text;
}

} // namespace vkattn::conform
