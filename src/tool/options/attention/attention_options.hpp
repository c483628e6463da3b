// The options of attention, which every command takes that computes attention: `run`, `grad`,
// `explain`, `inspect` and `layer`.
#pragma once

#include "tool/options/arguments.hpp"

#include <functional>
#include <optional>
#include <string>

namespace CLI {
class App;
} // namespace CLI

namespace vkattn::tool {

// What --causal and --align say: true for top-left.
struct Alignments {
    std::optional<bool> causal, align;
};

inline constexpr const char *verdictsType = "FILE|none", *verdictsText =
                                                             "Where to keep which kernels' self-tests have passed or failed on a "
                                                             "device; default ~/.cache/vkattn/verdicts";

// --round-to and --out-dtype. `typeText`: what the latter is the type of, and its default.
void addTypeOptions(CLI::App &app, RunArguments &run, const std::string &roundText, const std::string &typeText);
// --q, --k and --v.
void addOperandOptions(CLI::App &app, RunArguments &run, bool required);
// Masks, biases, positions, scores, lengths, and the kernel.
void addAttentionOptions(CLI::App &app, Alignments &alignments, RunArguments &run);
// --global-tokens, --dilation, --prefix-lengths, --neighbourhood, --border, --windows, --bigbird, --block-mask and --block-size: part of
// the above.
void addRuleOptions(CLI::App &app, RunArguments &run);
// --program, --program-buffer and --program-words, where the tool was built with libshaderc.
void addProgramOptions(CLI::App &app, RunArguments &run);
void checkProgram(const RunArguments &run);
// --page-table, pages in CSR, and --page-layout.
void addPages(CLI::App &app, RunArguments &run);
// --past-k, --past-v, --state-in-out and --state-in-lse.
void addPast(CLI::App &app, RunArguments &run);
// --query-offset and --key-offset.
void addOffsets(CLI::App &app, RunArguments &run);
// --kv-type.
void addKvType(CLI::App &app, RunArguments &run);
// Throws Failure where these three contradict each other or other options.
void checkCache(const CLI::App &app);
void addVisibleBlocks(CLI::App &app, RunArguments &run);
// --q-global, --k-global and --v-global.
void addGlobalProjections(CLI::App &app, RunArguments &run);
// --project-k and --project-v.
void addTokenProjections(CLI::App &app, RunArguments &run);
// Throws Failure where they go with what tells tokens apart. `spelling`: how the user has said that an operand takes part; empty: it
// does not.
void checkTokenProjections(const CLI::App &app, const RunArguments &run, const std::function<std::string(vkattn_role)> &spelling);
// Throws Failure where these contradict each other or other options.
void checkRules(const CLI::App &app, const RunArguments &run);
// --lse, --row-statistics and --weights.
void addFurtherOutputs(CLI::App &app, RunArguments &run);
// --scores and --scores-stage.
void addScoresOptions(CLI::App &app, RunArguments &run);
// --slices.
void addSlicesOption(CLI::App &app, RunArguments &run);
// Tuning and verdicts.
void addTuningOptions(CLI::App &app, RunArguments &run);
// The same, and what computes.
void addDeviceOptions(CLI::App &app, RunArguments &run);

// Throw Failure where options contradict each other. `assumed`: what `explain` was told without
// files.
void checkRun(const CLI::App &app, const Alignments &alignments, RunArguments &run);
void checkConflicts(const CLI::App &app, const RunArguments &run, const Assumptions &assumed);

// A finite number that float32 has, at least 0 where it may not be negative.
[[nodiscard]] float parseFloat(const std::string &option, const std::string &text, bool allowNegative);

// The value of --loss-scale: a finite number above 0.
[[nodiscard]] float parseLossScale(const std::string &text);

// 0 to 1.
[[nodiscard]] double parseProbability(const std::string &option, const std::string &text);

[[nodiscard]] vkattn_dtype readFloatType(const std::string &option, const std::string &text);

} // namespace vkattn::tool
