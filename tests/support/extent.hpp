// The part of a sweep that a test makes: a part that the test draws, or all of it where
// VKATTN_TEST_EXTENT is "full" (scripts/test.sh --all).
#pragma once

#include "support/seed.hpp"

#include <chrono>
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

// How many cases each test is asked to draw, by VKATTN_TEST_PROBLEMS; 0: the test chooses.
inline int askedProblems() {
    static const int asked = [] {
        const char *given = std::getenv("VKATTN_TEST_PROBLEMS");
        if (!given) return 0;
        char *end = nullptr;
        const long number = std::strtol(given, &end, 10);
        if (end != given && *end == '\0' && number >= 1 && number <= 1'000'000) return static_cast<int>(number);
        std::fprintf(stderr, "VKATTN_TEST_PROBLEMS is '%s', expected a number from 1 to 1000000\n", given);
        std::exit(2);
    }();
    return asked;
}

// How many cases a test draws: as many as asked; else `few`, and at full extent as many as the test
// makes in half a minute, up to `many`. Drivers differ by a hundred in the time that they compile the
// pipelines of a case.
class Draws {
  public:
    Draws(int few, int many) : few_(few), many_(many) {}
    // Returns whether case n, counted from 0, is drawn.
    [[nodiscard]] bool take(int n) const {
        if (askedProblems() > 0) return n < askedProblems();
        return n < few_ || (fullExtent() && n < many_ && std::chrono::steady_clock::now() - begin_ < std::chrono::seconds(30));
    }

  private:
    int few_, many_;
    std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

} // namespace vkattn::test
