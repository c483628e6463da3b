// What a check finds out.
#pragma once

#include "vkattn/cpu.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vkattn::conform {

enum class Outcome {
    pass,
    fail,        // a wrong result, or an error where there should be none
    unsupported, // the device or the kernel does not take this problem, and says why: by design
    crash,       // the driver ended the process
    hang,        // the driver did not come back in time
    notRun,      // a time limit, or --fail-fast, came first
};
constexpr Outcome outcomes[] = {Outcome::pass, Outcome::fail, Outcome::unsupported, Outcome::crash, Outcome::hang, Outcome::notRun};
// "pass", "fail", "unsupported", "crash", "hang", "not run"
[[nodiscard]] const char *outcomeName(Outcome outcome);
[[nodiscard]] std::optional<Outcome> outcomeOf(std::string_view name);
[[nodiscard]] inline bool isFailure(Outcome outcome) {
    return outcome == Outcome::fail || outcome == Outcome::crash || outcome == Outcome::hang;
}

// How far results were from the oracle, over all elements that were compared
// (vkattn_verify_report).
struct Errors {
    uint64_t histogram[VKATTN_VERIFY_BINS] = {}; // elements by error / bound
    // Largest error / bound; infinity where one of them was not finite or the bound was 0.
    double worstRatio = 0;
    double worstError = 0, worstBound = 0; // of that element
    double relativeToV = 0;                // largest |out - oracle| / max|v|
    void merge(const Errors &other);       // NaN counts as worse than any number
    [[nodiscard]] uint64_t elements() const;
    bool operator==(const Errors &) const = default;
};

struct Finding {
    Outcome outcome = Outcome::pass;
    std::string reason;            // empty for pass
    std::optional<Errors> errors;  // where something was compared with the oracle
    double deviceMilliseconds = 0; // spent computing on the device
    bool operator==(const Finding &) const = default;
};

// A smaller case that fails as well.
struct Smallest {
    std::string replay, reason; // SEED:CASE
    uint32_t attempts = 0;      // cases tried on the way
    bool operator==(const Smallest &) const = default;
};

// What checks can be about, in the order of reports.
[[nodiscard]] std::span<const char *const> allFeatures();

// One check of a report.
struct CheckResult {
    // Stable from run to run, unique in one: "matrix/flash/device/full/causal_window".
    std::string id;
    std::string kind;   // which check: a name of checkKinds()
    std::string kernel; // "staged", "flash", ... or "auto"
    // "device": the built-in ones; else the name of a small layout of lanes
    std::string testLayout;
    // limits that were planned for: "full", "weak", "tight", "tiny"
    std::string limits;
    std::string dtype;                 // of the output
    std::vector<std::string> features; // names of allFeatures()
    std::string replay;                // SEED:CASE, for --replay
    Finding finding;
    double seconds = 0;               // wall clock, compiling and checking included
    std::optional<Smallest> smallest; // of a failure
    bool operator==(const CheckResult &) const = default;
};

// What a kernel takes for a usual shape.
struct Timing {
    std::string kernel, shape; // "prefill 8 x 256 x 256 x 64 f32"
    double milliseconds = 0;   // median, of the computation alone
    uint32_t repeats = 0;
    bool deviceTimestamps = false; // else wall clock from submit to fence
    std::string unsupported;       // why there is no time
    bool operator==(const Timing &) const = default;
};

} // namespace vkattn::conform
