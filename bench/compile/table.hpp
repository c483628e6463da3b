// Rows of compiled pipelines as CSV, and their comparison with earlier rows.
#pragma once

#include "compile/figures.hpp"
#include "machine/machine.hpp"

#include <string>
#include <vector>

namespace vkattn::bench {

struct CompileRow {
    std::string device, driver;
    std::string kernel, shape, dtype;
    uint32_t headDim = 0; // 0: an operation beside attention
    std::string options;  // "", "causal", "options"
    std::string shader;   // "name", or "name#2" for the second of that name in one problem
    Figures figures;
    std::string matrixKinds; // "mnemonic x count", with blanks between

    [[nodiscard]] std::string problem() const; // e.g. "prefill f16 D64 causal"
    [[nodiscard]] std::string name() const;    // kernel, problem and shader, which identify a row
};

[[nodiscard]] std::string compileCsvHeader();
[[nodiscard]] std::string compileCsvRow(const Machine &machine, const CompileRow &row);
// Throws Failure with the line's number.
[[nodiscard]] std::vector<CompileRow> parseCompileTable(const std::string &source, const std::string &text);

struct CompileComparison {
    std::vector<std::string> failures; // figures that are worse than they were, or than they may be
    std::vector<std::string> notes;    // figures that are different
};
// `before`: rows of a table, of which those of other devices and of kernels that `kernels` does not
// name are ignored.
//   - No spills at head dims up to 128, nor where there were none before.
//   - Matrix instructions in every pipeline of a kernel that is named for them, and in each that
//     had some.
//   - No more registers than before by the larger of 8 and an eighth, and no fewer waves.
//   - No kernel gone.
[[nodiscard]] CompileComparison compareCompiled(const std::vector<CompileRow> &before, const std::vector<CompileRow> &now,
                                                const std::vector<std::string> &kernels);

} // namespace vkattn::bench
