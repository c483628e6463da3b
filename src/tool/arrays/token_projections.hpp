// --project-k and --project-v: matrices over tokens (Linformer, Wang et al. 2020), by which the tokens of keys and values become a few
// projected ones before attention.
#pragma once

#include "tool/arrays/inputs.hpp"
#include "tool/arrays/shapes.hpp"
#include "tool/options/arguments.hpp"

#include <vkattn/operations.hpp>

namespace vkattn::tool {

struct TokenProjection {
    vkattn_role role;              // VKATTN_K or VKATTN_V
    size_t matrix;                 // of TokenProjections::matrices
    vkattn_projection description; // K' = E K
    [[nodiscard]] const char *words() const { return role == VKATTN_K ? "projected keys" : "projected values"; }
    [[nodiscard]] uint32_t tokens() const { return description.x.extent[dim]; }
    [[nodiscard]] uint32_t rows() const { return description.x.extent[token]; }
};

struct TokenProjections {
    std::vector<Input> matrices;       // E, and F where that is another file
    std::vector<TokenProjection> list; // of the keys, and of the values unless the keys hold them; empty: nothing is projected
};

// Opens the matrices and puts the projected keys and values in the place of `k` and `v`, whose tokens have lengths or not. Throws Failure.
[[nodiscard]] TokenProjections describeTokenProjections(const RunArguments &arguments, bool hasLengths, Operand &k, Operand &v);

} // namespace vkattn::tool
