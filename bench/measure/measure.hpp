// One shape, computed, checked and timed.
#pragma once

#include "machine/peaks.hpp"
#include "shapes/shapes.hpp"

#include <vkattn/runtime.hpp>

#include <optional>

namespace vkattn::bench {

struct MeasureOptions {
    uint32_t repeat = 7, warmUp = 1, threads = 0;
    double budgetSeconds = 60;  // fewer repeats where a shape would take longer
    std::optional<bool> verify; // not given: as many as take about a second
    uint64_t seed = 1;
    bool peaks = true;
};

struct Measurement {
    Shape shape;
    std::string askedKernel; // the name as given: "auto", "staged", ...
    std::string failure;     // why there are no times; empty where there are
    std::string device, driver, kernel;
    uint32_t repeats = 0;
    double medianMs = 0, minMs = 0;
    bool deviceTimestamps = false;
    uint64_t workspaceBytes = 0;
    double compileSeconds = 0;
    std::optional<vkattn_verify_report> verified;
    std::optional<Share> share; // not given where there are no peaks

    [[nodiscard]] double gflops() const { return shape.flops() / medianMs * 1e-6; }
    [[nodiscard]] double gbs() const { return static_cast<double>(shape.bytes()) / medianMs * 1e-6; }
};

[[nodiscard]] double medianOf(std::vector<double> values); // of at least one

struct Kernel {
    const char *name;
    vkattn_kernel kernel;
};
[[nodiscard]] std::span<const Kernel> kernelTable(); // AUTO first
// Throws Failure for a name that is no kernel.
[[nodiscard]] Kernel kernelNamed(const std::string &name);

// Measures a shape. `peaks` may be NULL. Throws Failure only where no other shape could succeed
// either.
[[nodiscard]] Measurement measure(Runtime &runtime, Peaks *peaks, const Shape &shape, const Kernel &kernel, const MeasureOptions &options);

} // namespace vkattn::bench
