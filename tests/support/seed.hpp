// Seeds of random tests: printed once per process, taken back from the environment variable VKATTN_TEST_SEED.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>

namespace vkattn::test {

using Random = std::mt19937_64;

inline uint64_t seed() {
    static const uint64_t value = [] {
        const char *given = std::getenv("VKATTN_TEST_SEED");
        const uint64_t chosen = given ? std::strtoull(given, nullptr, 0) : std::random_device{}() % 1000000000ull;
        std::printf("seed %llu (repeat with VKATTN_TEST_SEED=%llu)\n", static_cast<unsigned long long>(chosen),
                    static_cast<unsigned long long>(chosen));
        return chosen;
    }();
    return value;
}

// A generator of its own for each name, so that one test's draws do not depend on which others ran.
inline Random randomFor(const std::string &name) {
    uint64_t hash = 14695981039346656037ull;
    for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ull;
    return Random(seed() ^ hash);
}

inline uint32_t between(Random &random, uint32_t low, uint32_t high) {
    return low + static_cast<uint32_t>(random() % (uint64_t{high} - low + 1));
}

} // namespace vkattn::test
