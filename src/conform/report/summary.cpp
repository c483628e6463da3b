#include "conform/report/summary.hpp"

#include "program/byte_text.hpp"
#include "program/legible_text.hpp"
#include "program/vulkan_version.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

namespace vkattn::conform {
using namespace program;

namespace {

void addOnce(std::vector<std::string> &names, const std::string &name) {
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
}

// Returns the verdict, where it follows from the tally of all checks that were to run.
Overall overallOf(const Tally &tally, bool problem) {
    if (tally.failures() > 0) return Overall::failed;
    if (problem) return Overall::incomplete;
    if (tally.ran() == 0) return Overall::nothing;
    return tally.notRun > 0 ? Overall::incomplete : Overall::pass;
}

std::string hexadecimal(uint32_t value) {
    char text[16];
    std::snprintf(text, sizeof text, "0x%x", value);
    return text;
}

std::string joined(const std::vector<std::string> &words, const char *separator) {
    std::string text;
    for (const std::string &word : words) text += (text.empty() ? "" : separator) + word;
    return text;
}

std::string sizeText(uint64_t bytes) {
    return bytes == 0 ? "unknown" : byteText(bytes);
}

} // namespace

void Tally::add(Outcome outcome) {
    switch (outcome) {
    case Outcome::pass:
        pass++;
        break;
    case Outcome::fail:
        fail++;
        break;
    case Outcome::unsupported:
        unsupported++;
        break;
    case Outcome::crash:
        crash++;
        break;
    case Outcome::hang:
        hang++;
        break;
    case Outcome::notRun:
        notRun++;
        break;
    }
}

uint64_t Tally::of(Outcome outcome) const {
    switch (outcome) {
    case Outcome::pass:
        return pass;
    case Outcome::fail:
        return fail;
    case Outcome::unsupported:
        return unsupported;
    case Outcome::crash:
        return crash;
    case Outcome::hang:
        return hang;
    case Outcome::notRun:
        return notRun;
    }
    return 0;
}

Tally tallyOf(const DeviceReport &device) {
    Tally tally;
    for (const CheckResult &check : device.checks) tally.add(check.finding.outcome);
    return tally;
}

Tally tallyOf(const Report &report) {
    Tally tally;
    for (const DeviceReport &device : report.devices)
        for (const CheckResult &check : device.checks) tally.add(check.finding.outcome);
    return tally;
}

Overall overallOf(const DeviceReport &device) {
    return overallOf(tallyOf(device), !device.problem.empty());
}

Overall overallOf(const Report &report) {
    const bool problem =
        std::any_of(report.devices.begin(), report.devices.end(), [](const DeviceReport &d) { return !d.problem.empty(); });
    return overallOf(tallyOf(report), problem);
}

const char *overallName(Overall overall) {
    switch (overall) {
    case Overall::pass:
        return "PASS";
    case Overall::failed:
        return "FAILED";
    case Overall::incomplete:
        return "INCOMPLETE";
    case Overall::nothing:
        return "NOTHING RAN";
    }
    return "";
}

std::string sentenceOf(const Tally &tally) {
    const auto counted = [](uint64_t count, const char *one, const char *several) {
        return countText(count) + (count == 1 ? one : several);
    };
    std::string text = counted(tally.pass, " check passed", " checks passed"), kinds;
    if (tally.failures() > 0) text = countText(tally.failures()) + " of " + counted(tally.ran(), " check failed", " checks failed");
    if (tally.crash > 0) kinds = counted(tally.crash, " crash", " crashes");
    if (tally.hang > 0) kinds += (kinds.empty() ? "" : ", ") + counted(tally.hang, " hang", " hangs");
    if (!kinds.empty()) text += " (" + kinds + ")";
    if (tally.unsupported > 0) text += ", " + countText(tally.unsupported) + " unsupported";
    if (tally.notRun > 0) text += ", " + countText(tally.notRun) + " not run";
    return text;
}

std::vector<std::string> kernelsOf(const DeviceReport &device) {
    std::vector<std::string> kernels;
    for (const DeviceFacts::Kernel &kernel : device.facts.kernels) addOnce(kernels, kernel.name);
    for (const CheckResult &check : device.checks) addOnce(kernels, check.kernel);
    return kernels;
}

const DeviceFacts::Kernel *factsOfKernel(const DeviceFacts &facts, const std::string &kernel) {
    const auto found = std::find_if(facts.kernels.begin(), facts.kernels.end(), [&](const auto &each) { return each.name == kernel; });
    return found == facts.kernels.end() ? nullptr : &*found;
}

std::vector<std::string> featuresOf(const DeviceReport &device) {
    std::vector<std::string> found;
    for (const CheckResult &check : device.checks)
        for (const std::string &feature : check.features) addOnce(found, feature);
    const auto known = allFeatures();
    const auto place = [&](const std::string &feature) { return std::find(known.begin(), known.end(), feature) - known.begin(); };
    std::stable_sort(found.begin(), found.end(), [&](const std::string &a, const std::string &b) { return place(a) < place(b); });
    return found;
}

std::vector<const CheckResult *> failuresOf(const DeviceReport &device) {
    std::vector<const CheckResult *> failures;
    for (const CheckResult &check : device.checks)
        if (isFailure(check.finding.outcome)) failures.push_back(&check);
    return failures;
}

std::vector<KernelErrors> errorsOf(const DeviceReport &device) {
    std::vector<KernelErrors> all;
    for (const std::string &kernel : kernelsOf(device)) {
        const size_t first = all.size();
        for (const CheckResult &check : device.checks) {
            if (check.kernel != kernel || !check.finding.errors) continue;
            const auto begin = all.begin() + static_cast<std::ptrdiff_t>(first);
            auto found = std::find_if(begin, all.end(), [&](const KernelErrors &each) { return each.dtype == check.dtype; });
            if (found == all.end()) found = all.insert(all.end(), {kernel, check.dtype, {}, check.id});
            const double before = found->errors.worstRatio, ratio = check.finding.errors->worstRatio;
            found->errors.merge(*check.finding.errors);
            if (ratio > before || std::isnan(ratio)) found->worstId = check.id;
        }
    }
    return all;
}

std::vector<ReasonCount> reasonsOf(const DeviceReport &device, Outcome outcome) {
    std::vector<ReasonCount> reasons;
    std::map<std::string_view, size_t> places;
    for (const CheckResult &check : device.checks) {
        if (check.finding.outcome != outcome) continue;
        const auto [place, isNew] = places.emplace(check.finding.reason, reasons.size());
        if (isNew) reasons.push_back({check.finding.reason, 0, {}, {}});
        ReasonCount &found = reasons[place->second];
        found.checks++;
        addOnce(found.kernels, check.kernel);
        for (const std::string &feature : check.features) addOnce(found.features, feature);
    }
    std::stable_sort(reasons.begin(), reasons.end(), [](const ReasonCount &a, const ReasonCount &b) { return a.checks > b.checks; });
    return reasons;
}

std::vector<FactRow> factRows(const DeviceFacts &facts) {
    return {{"name", facts.name},
            {"driver", facts.driver},
            {"type", facts.type},
            {"Vulkan", vulkanVersionText(facts.apiVersion)},
            {"vendor, device", hexadecimal(facts.vendorId) + ", " + hexadecimal(facts.deviceId)},
            {"driver version", hexadecimal(facts.driverVersion)},
            {"subgroup size", facts.subgroupSize == 0 ? "unknown" : std::to_string(facts.subgroupSize)},
            {"device-local memory", sizeText(facts.deviceLocalBytes)},
            {"largest allocation", sizeText(facts.maxAllocationBytes)},
            {"storage buffer range", sizeText(facts.maxStorageBufferRange)},
            {"shared memory", sizeText(facts.maxSharedMemoryBytes)},
            {"workgroup invocations", std::to_string(facts.maxWorkgroupInvocations)},
            {"NaN and infinity", facts.nanGuaranteed ? "in a visible element reach their own rows only" : "not guaranteed"},
            {"matrix shapes", facts.matrixShapes.empty() ? "none" : joined(facts.matrixShapes, ", ")}};
}

std::string replayCommand(const DeviceReport &device, const std::string &replay) {
    if (replay.empty()) return "";
    return "vkattn conform --device " + shellWord(device.facts.name) + " --replay " + shellWord(replay);
}

std::string runCommand(const Report &report) {
    std::string command = "vkattn conform";
    bool determined = false; // the arguments say what the data are
    for (const std::string &argument : report.arguments) {
        command.append(" ").append(shellWord(argument));
        for (const std::string option : {"--seed", "--replay"})
            determined = determined || argument == option || argument.compare(0, option.size() + 1, option + "=") == 0;
    }
    return determined ? command : command + " --seed " + std::to_string(report.seed);
}

std::string numberText(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return "infinite";
    char text[32];
    std::snprintf(text, sizeof text, "%.3g", value);
    return text;
}

std::string countText(uint64_t count) {
    std::string text = std::to_string(count);
    for (size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, 1, ' ');
    return text;
}

std::string durationText(double seconds) {
    char text[64];
    if (!(seconds < 1e9))
        return "unknown";
    else if (seconds < 1)
        std::snprintf(text, sizeof text, "%.0f ms", seconds * 1000);
    else if (seconds < 60)
        std::snprintf(text, sizeof text, "%.1f s", seconds);
    else
        std::snprintf(text, sizeof text, "%.0f min %.0f s", std::floor(seconds / 60), std::floor(std::fmod(seconds, 60)));
    return text;
}

} // namespace vkattn::conform
