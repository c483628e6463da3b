// Converts a case to the form that the planner takes.
#pragma once

#include "problem/problem.hpp"
#include "support/case.hpp"

#include <gtest/gtest.h>

namespace vkattn::test {

inline Problem problemOf(const Case &c) {
    Random random(1);
    const auto instance = makeCaseData(c, random);
    Problem p;
    EXPECT_EQ(makeProblem(&instance->problem, p, nullptr), VKATTN_OK) << c.name;
    return p;
}

} // namespace vkattn::test
