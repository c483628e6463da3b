// The report of `vkattn conform`, as data. docs/conform_json.md describes the JSON.
#pragma once

#include "conform/checks/outcome.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace vkattn::conform {

constexpr const char *conformSchema = "vkattn-conform";
constexpr int conformSchemaVersion = 1;

// A device with its driver, as Vulkan describes it.
struct DeviceFacts {
    std::string name, driver, type; // type: deviceTypeName()
    uint32_t vendorId = 0, deviceId = 0, apiVersion = 0, driverVersion = 0;
    uint32_t subgroupSize = 0;
    uint64_t deviceLocalBytes = 0, maxAllocationBytes = 0;
    uint32_t maxStorageBufferRange = 0, maxSharedMemoryBytes = 0, maxWorkgroupInvocations = 0;
    bool nanGuaranteed = false;            // caps.floatControlsNan
    std::vector<std::string> matrixShapes; // "16x16x16 f16"
    struct Kernel {
        // reason: why the kernel is not available, or what to know where it is.
        std::string name, reason;
        bool available = false;
        bool operator==(const Kernel &) const = default;
    };
    std::vector<Kernel> kernels;
    bool operator==(const DeviceFacts &) const = default;
};

struct DeviceReport {
    DeviceFacts facts;
    std::string problem; // why the device could not be tested, or not to the end; else empty
    std::vector<CheckResult> checks;
    std::vector<Timing> timings;
    uint32_t pipelines = 0;    // compiled pipelines
    double compileSeconds = 0; // time that their compiling took
    double seconds = 0;        // time in all
    uint32_t restarts = 0;     // restarts of the child process, after crashes and hangs
    bool operator==(const DeviceReport &) const = default;
};

struct Report {
    std::string library;    // version of the library
    std::string shaderHash; // vkattnShaderHash, in hexadecimal
    std::string started;    // UTC, ISO 8601
    std::string machine;    // operating system and processor
    std::string extent;     // "quick", "normal", "soak 10 minutes" or "replay"
    uint64_t seed = 0;
    std::vector<std::string> arguments; // arguments of the command line, after `conform`
    std::string problem;                // why no device was found; else empty
    std::vector<DeviceReport> devices;
    bool operator==(const Report &) const = default;
};

// Counts of checks by outcome.
struct Tally {
    uint64_t pass = 0, fail = 0, unsupported = 0, crash = 0, hang = 0, notRun = 0;
    void add(Outcome outcome);
    [[nodiscard]] uint64_t of(Outcome outcome) const;
    [[nodiscard]] uint64_t failures() const { return fail + crash + hang; }
    [[nodiscard]] uint64_t ran() const { return pass + failures(); }
    [[nodiscard]] uint64_t all() const { return ran() + unsupported + notRun; }
};
[[nodiscard]] Tally tallyOf(const DeviceReport &device);
[[nodiscard]] Tally tallyOf(const Report &report);

// The report as JSON, and back. reportFromJson takes any bytes, and throws Failure with the place,
// what was wrong, what was expected and what to do.
[[nodiscard]] std::string reportToJson(const Report &report);
[[nodiscard]] Report reportFromJson(const std::string &text, const std::string &nameOfSource);
// One check, and one device's facts, on one line, as the child process sends them to its parent,
// and back. The functions that read return false where the line is none.
[[nodiscard]] std::string checkToLine(const CheckResult &check);
[[nodiscard]] bool checkFromLine(const std::string &line, CheckResult &check);
[[nodiscard]] std::string factsToLine(const DeviceFacts &facts);
[[nodiscard]] bool factsFromLine(const std::string &line, DeviceFacts &facts);
[[nodiscard]] std::string timingToLine(const Timing &timing);
[[nodiscard]] bool timingFromLine(const std::string &line, Timing &timing);

// Returns XML of JUnit's de facto schema: a suite for each device, a case for each check.
[[nodiscard]] std::string reportToJUnit(const Report &report);
// Returns one HTML file without links to anything else.
[[nodiscard]] std::string reportToHtml(const Report &report);
// Returns text for a terminal `columns` wide; with `color` it has ANSI sequences.
[[nodiscard]] std::string reportToText(const Report &report, uint32_t columns, bool color);
// Returns a table of drivers and kernels in Markdown, with a row for each device of the reports
// (docs/drivers.md).
[[nodiscard]] std::string reportsToMarkdown(const std::vector<Report> &reports);

// The differences between two reports, as text. `worse`: the second report has failures that the
// first has not, has lost a kernel, or has a worst error of a kernel and type that grew to more
// than twice its size.
struct Comparison {
    std::string text;
    bool worse = false;
};
[[nodiscard]] Comparison compareReports(const Report &a, const Report &b, const std::string &nameOfA, const std::string &nameOfB);

} // namespace vkattn::conform
