// Attention in double, straight from the formulas of docs/numerics.md. Shares nothing with the library.
#pragma once

#include "arrays.hpp"

#include <optional>

struct ReferenceOptions {
    bool causal = false, topLeft = false, window = false;
    long left = -1, right = -1;
    std::optional<double> scale;
    double softcap = 0;
    std::optional<Array> mask, bias; // 2 to 4 dimensions that broadcast
    std::vector<long> keyLengths;    // empty: all; already clamped
};

struct ReferenceResult {
    Array out, lse, weights; // [batch, head, query, ...]
};

[[nodiscard]] ReferenceResult referenceAttention(const Array &q, const Array &k, const Array &v, const ReferenceOptions &options = {});
