// The same problem with keys and values of small types as the f32 numbers that these stand for.
#pragma once

#include "support/case.hpp"

#include <vector>

namespace vkattn::test {

struct DequantizedProblem {
    explicit DequantizedProblem(const conform::CaseData &data);
    conform::HostTensor k, v;
    vkattn_problem problem;
    std::vector<vkattn_operand_memory> operands;
};

// Draws a case with keys or values of small types, or both.
[[nodiscard]] conform::Case drawSmallCache(conform::Random &random, uint32_t mostOptions);

} // namespace vkattn::test
