// What `vkattn run` prints. The JSON keys are a contract.
#pragma once

#include "tool/arrays/job.hpp"
#include "tool/options/arguments.hpp"

#include <vkattn/runtime.hpp>

namespace vkattn::tool {

struct Verification {
    vkattn_verify_options options{};
    vkattn_verify_report report{};
};

struct RunReport {
    const RunArguments &arguments;
    Job job;
    RunResult result{};
    std::string tuning{}; // "built-in", or the file's path
    std::optional<Verification> verification{};
};

// On stdout: text, or one JSON object. A failed verification is said on stderr too.
void printRunReport(const RunReport &report);

} // namespace vkattn::tool
