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

// Returns the number from 1 to 1000000 that an environment variable gives, or `otherwise` without the
// variable.
inline int numberOf(const char *variable, int otherwise) {
    const char *given = std::getenv(variable);
    if (!given) return otherwise;
    char *end = nullptr;
    const long number = std::strtol(given, &end, 10);
    if (end != given && *end == '\0' && number >= 1 && number <= 1'000'000) return static_cast<int>(number);
    std::fprintf(stderr, "%s is '%s', expected a number from 1 to 1000000\n", variable, given);
    std::exit(2);
}

// How many cases each test is asked to draw, by VKATTN_TEST_PROBLEMS; 0: the test chooses.
inline int askedProblems() {
    static const int asked = numberOf("VKATTN_TEST_PROBLEMS", 0);
    return asked;
}

// How long a test draws cases at full extent, by VKATTN_TEST_DRAW_SECONDS.
inline std::chrono::seconds drawSeconds() {
    static const std::chrono::seconds seconds(numberOf("VKATTN_TEST_DRAW_SECONDS", 30));
    return seconds;
}

// How many cases a test draws: as many as asked; else `few`, and at full extent as many as the test
// makes in drawSeconds(), up to `many`. Drivers differ by a hundred in the time that they compile the
// pipelines of a case.
class Draws {
  public:
    Draws(int few, int many) : few_(few), many_(many) {}
    // Returns whether case n, counted from 0, is drawn.
    [[nodiscard]] bool take(int n) const {
        if (askedProblems() > 0) return n < askedProblems();
        return n < few_ || (fullExtent() && n < many_ && std::chrono::steady_clock::now() - begin_ < drawSeconds());
    }

  private:
    int few_, many_;
    std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

} // namespace vkattn::test
