// The same problem with its keys whole, and a problem computed part by part, each going on from the one before.
#pragma once

#include "support/case.hpp"

#include <functional>
#include <vector>

namespace vkattn::test {

// A problem on the same operands but for segments: K and V are whole.
struct WholeProblem {
    explicit WholeProblem(const conform::CaseData &data);
    vkattn_problem problem;
    std::vector<vkattn_operand_memory> operands;
};

// Draws a case with segments; `most` other options.
[[nodiscard]] conform::Case drawSegments(conform::Random &random, uint32_t most);

// Computes the problem of a case with an lse in so many parts of its keys, each but the first with the output and the
// log-sum-exp of the one before as what the part goes on from, in their own memory. compute(problem, operands) returns
// what is wrong; empty: nothing is.
using ComputePart = std::function<std::string(const vkattn_problem &, const std::vector<vkattn_operand_memory> &)>;
[[nodiscard]] std::string computeInParts(const conform::CaseData &data, uint32_t parts, const ComputePart &compute);

} // namespace vkattn::test
