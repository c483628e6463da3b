// Covering arrays over the feature table: each two variants of different features meet in a case,
// with other company in each array.
#pragma once

#include "conform/cases/chosen/covering_array.hpp"
#include "conform/cases/features.hpp"

namespace vkattn::conform {

// What all cases of an array share: with other types, dims or terms a kernel would be compiled
// anew.
struct CoveringPalette {
    vkattn_dtype q = VKATTN_F32, k = VKATTN_F32, v = VKATTN_F32, out = VKATTN_F32;
    uint32_t headDim = 8, valueDim = 8;
    uint32_t terms = pairTerms | dimMajorTerm; // that cases may have
    bool weights = false;                      // the kernel writes attention weights
};

// Types and dims are drawn from a few.
[[nodiscard]] CoveringPalette drawPalette(Random &random);

struct CoveringCases {
    struct Factor {
        const Feature *feature;
        // Value n of the factor is variant n - 1; those that the palette allows.
        std::vector<const Variant *> variants;
    };
    std::vector<Factor> factors;
    CoveringModel model;
    std::vector<CoveringRow> rows;
    std::vector<Case> cases; // of each row
};

// Names of cases are "covering0" and so on.
[[nodiscard]] CoveringCases coveringCases(Random &random, const CoveringPalette &palette);

} // namespace vkattn::conform
