// What `vkattn run` and the commands of single operations print. The JSON keys are a contract.
#pragma once

#include "program/json_text.hpp"
#include "tool/arrays/job_arrays.hpp"

#include <vkattn/runtime.hpp>

#include <optional>
#include <span>

namespace vkattn::tool {

struct Verification {
    vkattn_verify_options options{};
    vkattn_verify_report report{};
    std::string step{}; // of several steps: where the worst element lies
};

// All steps as one: the worst element is that of the step with the largest error for its bound.
[[nodiscard]] Verification combined(std::span<const Verification> steps, const vkattn_verify_options &options);

// A step of a layer.
struct ReportedStep {
    std::string name, operation;
    std::string formula, result;      // shapes
    std::string kernel, form, choice; // on a device: what computes, and why
    double flops = 0, bytesRead = 0, bytesWritten = 0;
    uint64_t workspaceBytes = 0;
    std::optional<Verification> verification{};
};

// The lists of blocks that were made before attention.
struct ReportedBlocks {
    uint32_t queries = 0, keys = 0;          // of a block
    double blocks = 0, listed = 0, full = 0; // of all batch entries and heads; listed: with the full ones
    RunResult result{};
};

// Keys or values that a matrix has made of the tokens before attention.
struct ReportedProjection {
    const char *words, *key; // "projected keys", "k"
    std::string matrix;      // its file, shape and type
    uint32_t tokens = 0, rows = 0;
    vkattn_dtype dtype = VKATTN_F32; // of what it makes
    RunResult result{};
};

// What a cache of a small type costs and does.
struct ReportedCache {
    vkattn_dtype dtype;
    uint64_t bytes = 0; // of keys and values
    // Of the result, against that of the files' own keys and values.
    double maxError = 0, rmsError = 0, rmsOfOut = 0;
};

struct RunReport {
    const ComputeArguments &arguments;
    const JobArrays &job;
    program::Json options; // those in use
    RunResult result{};
    std::optional<std::string> tuning{}; // "built-in", or the file's path; empty: nothing is tuned
    uint32_t slices = 1;
    std::optional<Verification> verification{};
    std::vector<ReportedStep> steps{};  // of a layer
    std::optional<RunResult> forward{}; // of gradients: the forward pass before them
    std::optional<bool> finite{};       // of gradients, where that was counted
    std::optional<ReportedBlocks> visibleBlocks{};
    std::vector<ReportedProjection> projections{};
    std::optional<ReportedCache> cache{};
};

// The table of shapes of a layer, on stdout; a row of it for JSON, without the verification.
void printSteps(const std::vector<ReportedStep> &steps);
[[nodiscard]] program::Json stepJson(const ReportedStep &step);

// On stdout: text, or one JSON object. A failed verification is said on stderr too.
void printRunReport(const RunReport &report);

} // namespace vkattn::tool
