// The figures of the device's compiler for every kernel, in the forms that the planner chooses by
// its own tables.
#pragma once

#include "compile/capture.hpp"
#include "compile/table.hpp"
#include "machine/machine.hpp"
#include "measure/measure.hpp"

#include <functional>
#include <string>
#include <vector>

namespace vkattn::bench {

struct CompileReport {
    struct Pipeline {
        CompileRow row;
        std::vector<Statistic> statistics;
        std::vector<Representation> representations;
    };
    struct Refusal {
        std::string kernel, why;
        std::vector<std::string> problems;
        bool failed = false; // the driver failed; refusals of the planner do not count
    };
    std::vector<Pipeline> pipelines; // each pipeline once, under the first problem that has it
    std::vector<Refusal> refusals;
    uint32_t problems = 0;

    [[nodiscard]] std::vector<CompileRow> rows() const;
    [[nodiscard]] bool failed() const;
};

// Compiles the kernels, and with `operations` what computes the operations beside attention. Calls
// `progress` before each problem.
[[nodiscard]] CompileReport compileReport(const DeviceInfo &device, const std::vector<Kernel> &kernels, bool operations,
                                          const std::string &tuning, const std::function<void(const std::string &)> &progress);

void printCompileReport(const Machine &machine, const CompileReport &report, bool raw);
void printComparison(const CompileComparison &comparison, const std::string &table);
// Writes a file for each internal representation. Throws Failure.
void writeRepresentations(const CompileReport &report, const std::string &folder);

} // namespace vkattn::bench
