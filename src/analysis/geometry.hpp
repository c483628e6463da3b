// Lengths and angles of queries and keys.
#pragma once

#include "analysis/measures.hpp"

#include <optional>

namespace vkattn::analysis {

// In degrees, 0 to 180, by 2 atan2(|u - v|, |u + v|) of unit vectors: exact for small angles too. Empty where
// a vector is zero or not finite.
[[nodiscard]] std::optional<double> angle(std::span<const double> a, std::span<const double> b);
[[nodiscard]] std::optional<double> cosine(std::span<const double> a, std::span<const double> b);

inline constexpr size_t angleBins = 90; // of 2 degrees each

struct Geometry {
    Spread queryNorm, keyNorm;
    Spread angle, cosine, normProduct; // over visible pairs
    std::vector<uint64_t> angleHistogram = std::vector<uint64_t>(angleBins);
    uint64_t zeroQueries = 0, zeroKeys = 0;           // their angles are undefined and left out
    uint64_t notFiniteQueries = 0, notFiniteKeys = 0; // left out everywhere
};
// q is [query, dim] and k [key, dim]. `visible` is [query, key], or empty: all pairs. Angles are of every
// `queryStride`-th query.
[[nodiscard]] Geometry geometry(const Matrix &q, const Matrix &k, std::span<const uint8_t> visible = {}, size_t queryStride = 1);

} // namespace vkattn::analysis
