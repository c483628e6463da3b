// From arrays that are described to a report: the steps that `run` and the commands of single
// operations share. Each throws Failure; before the outputs are written, no output file has
// appeared.
#pragma once

#include "program/failure.hpp"
#include "program/files/output_file.hpp"
#include "tool/arrays/job_arrays.hpp"
#include "tool/options/arguments.hpp"
#include "tool/report/run_report.hpp"

#include <vkattn/runtime.hpp>

#include <vector>

namespace vkattn::tool {

// Storage of operands, bound by role.
class HostArrays {
  public:
    void add(vkattn_role role, HostBuffer buffer);
    // Empty storage of every output.
    void add(const std::vector<OutputArray> &outputs);
    [[nodiscard]] const std::vector<vkattn_operand_memory> &operands() const { return operands_; }
    // Those that an operation uses.
    [[nodiscard]] std::vector<vkattn_operand_memory> operandsOf(const vkattn_operation &operation) const;
    // The bytes of a role that was added.
    [[nodiscard]] std::span<const std::byte> of(vkattn_role role) const;
    // Of gradients: whether the word of VKATTN_NONFINITE, which was added, is still 0.
    [[nodiscard]] bool allFinite() const;

  private:
    std::vector<HostBuffer> buffers_;
    std::vector<vkattn_operand_memory> operands_;
};

// Makes sure that the outputs can be written, before anything is computed.
[[nodiscard]] std::vector<program::OutputFile> openOutputs(const ComputeArguments &arguments, const JobArrays &job);

// Of the arrays those that the operation uses.
[[nodiscard]] RunResult compute(const ComputeArguments &arguments, Runtime &runtime, const vkattn_operation &operation,
                                const HostArrays &arrays);

// As `finish` does. Of a step of several the name is noted.
[[nodiscard]] Verification verify(const program::VerifyRequest &request, const vkattn_operation &operation, const HostArrays &arrays,
                                  const RunResult &result, const std::string &step = "");

// Notes on stderr that --kernel chose nothing, where the CPU was asked for.
void noteUnusedKernel(const RunArguments &arguments, const Runtime &runtime);

// Throws Failure where a run has failed.
void throwWhereFailed(const ComputeArguments &arguments, const Runtime &runtime, const RunResult &result);

// Writes the outputs, and prints the report.
[[nodiscard]] program::ExitStatus publish(const RunReport &report, const HostArrays &arrays, std::vector<program::OutputFile> &files);

// Verifies where that was asked for, writes the outputs, and prints the report.
[[nodiscard]] program::ExitStatus finish(RunReport report, const vkattn_operation &operation, const HostArrays &arrays,
                                         std::vector<program::OutputFile> &files);

} // namespace vkattn::tool
