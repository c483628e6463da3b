// Where attention would go if a mask hid more: rows are masked and renormalised where anything is left.
#pragma once

#include "analysis/head.hpp"

#include <string>

namespace vkattn::analysis {

struct FlowMask {
    enum class Kind {
        none,
        causal,  // j <= i'
        band,    // |j - i'| <= width
        dilated, // the same at every step-th key: (j - i') divisible by step
    };
    Kind kind = Kind::none;
    uint64_t width = 0, step = 1;

    [[nodiscard]] bool shows(int64_t position, int64_t key) const;
    [[nodiscard]] std::string name() const; // "causal", "band 8", "dilated 8 by 2"
};

// The same head with only those pairs visible that the mask shows too. Weights stay as they are: measures
// divide by the sum of what is left.
[[nodiscard]] HeadWeights masked(HeadWeights head, const FlowMask &mask);

// The mean over ordinary rows of the mass that the mask keeps.
[[nodiscard]] double keptMass(const HeadWeights &head, const FlowMask &mask);

} // namespace vkattn::analysis
