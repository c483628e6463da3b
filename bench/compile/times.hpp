// How long a driver compiles each pipeline of the kernels, cold, in CPU seconds: where a plan's
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
    // "device", or "vulkan 1.0": planned as for a device with the least that Vulkan 1.0 guarantees
    std::string limits;
    std::string kernel, shape, dtype, options;
    uint32_t headDim = 0;
    std::string shader;
    // CPU time of the process: creating the pipeline and its first dispatch, less its second
    // dispatch.
    double seconds = 0;
};

struct CompileTimesOptions {
    std::vector<Kernel> kernels;
    std::vector<uint32_t> headDims;
    std::string tuning;
    std::function<void(const CompileTime &)> done;
};

// The head dims where options do not say others: powers of two, dims between them, and dims that no
// tile covers exactly.
[[nodiscard]] std::vector<uint32_t> compileTimeDims();

// Before any driver is loaded: what Mesa has kept on disk would not be compiled again.
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
