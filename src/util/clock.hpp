// Elapsed time, from the C library: std::chrono's clocks are functions of the C++ library, which a
// C program does not link.
#pragma once

#include <cstdint>
#include <ctime>

namespace vkattn {

// Returns nanoseconds from an arbitrary start.
[[nodiscard]] inline uint64_t nanosecondsNow() {
    std::timespec now{};
#ifdef _WIN32
    // This is the wall clock: setting it makes one duration wrong.
    std::timespec_get(&now, TIME_UTC);
#else
    clock_gettime(CLOCK_MONOTONIC, &now);
#endif
    return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
}

} // namespace vkattn
