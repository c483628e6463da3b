// The part of a sweep that a test makes: a part that the test draws, or all of it where
// VKATTN_TEST_EXTENT is "full" (scripts/test.sh --all).
#pragma once

#include "support/seed.hpp"

#include <string_view>

namespace vkattn::test {

inline bool fullExtent() {
    static const bool full = [] {
        const char *given = std::getenv("VKATTN_TEST_EXTENT");
        if (!given || std::string_view(given) == "default") return false;
        if (std::string_view(given) == "full") return true;
        std::fprintf(stderr, "VKATTN_TEST_EXTENT is '%s', expected default or full\n", given);
        std::exit(2);
    }();
    return full;
}

// Returns true for one in `oneIn` of the calls, drawn; for every call at full extent.
inline bool isDrawn(Random &random, uint32_t oneIn) {
    const bool drawn = random() % oneIn == 0;
    return drawn || fullExtent();
}

} // namespace vkattn::test
