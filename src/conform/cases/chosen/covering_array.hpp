// Strength-2 covering arrays: few rows in which each allowed pair of values of two factors occurs.
// Seeded and greedy: another seed gives each pair other company. What the factors are is for the
// caller to know.
#pragma once

#include "conform/cases/random.hpp"

#include <functional>
#include <vector>

namespace vkattn::conform {

struct Choice {
    size_t factor;
    uint32_t value;
};

struct CoveringModel {
    // The terms of each value of each factor. Value 0 is "off", has no terms and agrees with
    // everything. A term belongs to one factor.
    std::vector<std::vector<uint32_t>> terms;
    // Whether two values of different factors, neither of them off, may be in one row.
    std::function<bool(Choice, Choice)> allowed;
};

using CoveringRow = std::vector<uint32_t>; // the value of each factor

// Rows have as few different sets of terms as cover each pair of terms: a set of terms is what is
// compiled anew. The same for the same model and state of `random`.
[[nodiscard]] std::vector<CoveringRow> coveringArray(const CoveringModel &model, Random &random);

// Whether the model allows both in one row.
[[nodiscard]] bool allowedPair(const CoveringModel &model, Choice a, Choice b);

} // namespace vkattn::conform
