// The statements that all renderings of a report make in the same words and the same order.
#pragma once

#include "conform/report/report.hpp"

namespace vkattn::conform {

enum class Overall {
    pass,
    failed,
    incomplete, // nothing failed, but something kept checks from running
    nothing,    // no check ran
};
[[nodiscard]] Overall overallOf(const Report &report);
[[nodiscard]] Overall overallOf(const DeviceReport &device);
// Returns "PASS", "FAILED", "INCOMPLETE" or "NOTHING RAN".
[[nodiscard]] const char *overallName(Overall overall);
// Returns a sentence such as "812 checks passed, 3 unsupported" or "3 of 812 checks failed (1
// crash), 10 not run".
[[nodiscard]] std::string sentenceOf(const Tally &tally);

// Returns the kernels of a device: those of its facts in their order, then others that checks name.
[[nodiscard]] std::vector<std::string> kernelsOf(const DeviceReport &device);
// Returns NULL where the facts know no such kernel ("auto").
[[nodiscard]] const DeviceFacts::Kernel *factsOfKernel(const DeviceFacts &facts, const std::string &kernel);
// Returns the features of the device's checks, in the order of allFeatures(), then those of other
// versions.
[[nodiscard]] std::vector<std::string> featuresOf(const DeviceReport &device);
[[nodiscard]] std::vector<const CheckResult *> failuresOf(const DeviceReport &device);

// Errors of a kernel's checks with outputs of one type.
struct KernelErrors {
    std::string kernel, dtype;
    Errors errors;
    std::string worstId; // id of the check with the worst ratio
};
[[nodiscard]] std::vector<KernelErrors> errorsOf(const DeviceReport &device);

// The reasons why checks of one outcome ended so, the most frequent reason first.
struct ReasonCount {
    std::string reason;
    uint64_t checks = 0;
    std::vector<std::string> kernels, features; // kernels and features of these checks
};
[[nodiscard]] std::vector<ReasonCount> reasonsOf(const DeviceReport &device, Outcome outcome);

// A device's facts as label and text, without its kernels.
struct FactRow {
    std::string label, value;
};
[[nodiscard]] std::vector<FactRow> factRows(const DeviceFacts &facts);

// Returns the command that runs a case again on the device; empty without a case.
[[nodiscard]] std::string replayCommand(const DeviceReport &device, const std::string &replay);
// Returns the command that runs the whole run again.
[[nodiscard]] std::string runCommand(const Report &report);

// Returns three digits: "0.0312", "4.77e-07", "infinite".
[[nodiscard]] std::string numberText(double value);
[[nodiscard]] std::string countText(uint64_t count); // "1 234 567"
[[nodiscard]] std::string durationText(double seconds);

} // namespace vkattn::conform
