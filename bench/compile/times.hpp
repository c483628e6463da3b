// The CPU seconds that a driver needs to compile each pipeline of the kernels, cold. Where a plan's
// pipelines cost too much, a first dispatch looks like a hang. Software drivers compile at the
// first dispatch, others when the pipeline is created: both are counted.
#pragma once

#include "machine/machine.hpp"
#include "measure/measure.hpp"

#include <vkattn/runtime.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace vkattn::bench {

struct CompileTime {
    // "device", or "vulkan 1.0" for plans with the least caps that Vulkan 1.0 guarantees.
    std::string limits;
    std::string kernel, shape, dtype, options;
    uint32_t headDim = 0;
    std::string shader;
    // CPU time of the process for creating the pipeline and for its first dispatch, less its second
    // dispatch.
    double seconds = 0;
};

struct CompileTimesOptions {
    std::vector<Kernel> kernels;
    std::vector<uint32_t> headDims;
    std::string tuning;
    std::function<void(const CompileTime &)> done;
};

// Returns the head dims where options do not name others: powers of two, dims between them, and
// dims that no tile covers exactly.
[[nodiscard]] std::vector<uint32_t> compileTimeDims();

// Switches the drivers' own caches off, before any driver is loaded: pipelines that Mesa has kept
// on disk would not be compiled again.
void leaveOutDriverCaches();

// Calls `done` for each pipeline that no earlier problem has. Problems that a kernel refuses are
// left out. Throws Failure.
void measureCompileTimes(const DeviceInfo &device, const CompileTimesOptions &options);

void printCompileTimesHeading(const Machine &machine);
void printCompileTime(const CompileTime &time);
void printCompileTimesEnd(const std::vector<CompileTime> &times);
[[nodiscard]] std::string compileTimesCsvHeader();
[[nodiscard]] std::string compileTimesCsvRow(const Machine &machine, const CompileTime &time);

} // namespace vkattn::bench
