// Notes that the user should know although the command goes on. They go to stderr: stdout belongs
// to the result.
#pragma once

#include <cstdio>
#include <string>

namespace vkattn::program {

inline void printNote(const std::string &text) {
    std::fprintf(stderr, "vkattn: note: %s\n", text.c_str());
}

// Prints a warning that something is not as the user has set it up.
inline void printWarning(const std::string &text) {
    std::fprintf(stderr, "vkattn: warning: %s\n", text.c_str());
}

} // namespace vkattn::program
