// Random numbers from a seed: the same on every machine.
#pragma once

#include <cstdint>
#include <random>
#include <string_view>

namespace vkattn::conform {

using Random = std::mt19937_64;

// A generator of its own for each name, so that what one check draws does not depend on which
// others ran.
[[nodiscard]] inline uint64_t seedFor(uint64_t seed, std::string_view name) {
    uint64_t hash = 14695981039346656037ull;
    for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ull;
    return seed ^ hash;
}
[[nodiscard]] inline Random randomFor(uint64_t seed, std::string_view name) {
    return Random(seedFor(seed, name));
}

[[nodiscard]] inline uint32_t between(Random &random, uint32_t low, uint32_t high) {
    return low + static_cast<uint32_t>(random() % (uint64_t{high} - low + 1));
}

} // namespace vkattn::conform
