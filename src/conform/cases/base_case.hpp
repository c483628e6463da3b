// What cases of the matrix are made of.
#pragma once

#include "conform/cases/case.hpp"

namespace vkattn::conform {

// Of small drawn extents.
[[nodiscard]] Case baseCase(Random &random, std::string name);
// Options that change sizes may have made them disagree.
void makeAgree(Case &c);
// What asks for sums has no program whose weights have none, and what drops weights goes on from none.
void agreeOnSums(Case &c);
// What the case asks for, without data. The lengths of a ragged one are the most that may be drawn.
[[nodiscard]] vkattn_problem descriptionOf(const Case &c);

} // namespace vkattn::conform
