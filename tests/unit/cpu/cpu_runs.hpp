// Drawn cases of operations on the CPU: by the kernels, by the oracle and by the verifier; and elements to
// plant errors in.
#pragma once

#include "conform/cases/operation_case.hpp"
#include "support/case.hpp"

#include <functional>
#include <string>
#include <vector>

namespace vkattn::test {

// Runs the operation with exactly the workspace that it asks for, on `threads` threads; 0: without a
// pool. `text` is for whoever looks at a failure.
void runOnCpu(const vkattn_operation &operation, const std::vector<vkattn_operand_memory> &memory, uint32_t threads,
              const std::string &text);
void runOracleOf(const vkattn_operation &operation, const std::vector<vkattn_operand_memory> &memory, const std::string &text);
// Compares outputs with the oracle: all rows, unless the options say how many.
[[nodiscard]] vkattn_verify_report verifiedOnCpu(const vkattn_operation &operation, const std::vector<vkattn_operand_memory> &memory,
                                                 const std::string &text, vkattn_verify_options options = {});

// The same for a drawn case: OperationCase, GradientCase or StatisticsCase.
template <class DrawnCase> void run(DrawnCase &c, uint32_t threads) {
    runOnCpu(c.operation(), c.operands(), threads, c.text());
}
template <class DrawnCase> void runOracle(DrawnCase &c) {
    runOracleOf(c.operation(), c.operands(), c.text());
}
template <class DrawnCase> [[nodiscard]] vkattn_verify_report verified(DrawnCase &c, const vkattn_verify_options &options = {}) {
    return verifiedOnCpu(c.operation(), c.operands(), c.text(), options);
}
// Compares the outputs that `after` has with the oracle on the inputs of `before`.
[[nodiscard]] vkattn_verify_report verified(OperationCase &after, OperationCase &before);

// An element of an output.
struct Element {
    vkattn_role role;
    uint32_t at[4];
};
// Draws an element of one of the roles; VKATTN_ROLE_LIMIT as its role: none was found. extentOf(role) returns
// the extents of an output, and writes(element) whether the call writes the element.
[[nodiscard]] Element drawElement(Random &random, const std::vector<vkattn_role> &roles,
                                  const std::function<const uint32_t *(vkattn_role)> &extentOf,
                                  const std::function<bool(const Element &)> &writes);

// Draws a case of large numbers, the n-th one: extremes, needles, large biases and slopes, in every type.
[[nodiscard]] Case drawLargeNumbers(Random &random, int n);

} // namespace vkattn::test
