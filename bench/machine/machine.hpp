// Place and time of a measurement: what a row needs beside its numbers.
#pragma once

#include <cstdint>
#include <string>

namespace vkattn::bench {

struct Machine {
    std::string date;      // today's date, UTC, e.g. 2026-01-31
    std::string commit;    // commit of the sources at the time of the build; empty: unknown
    std::string processor; // the processor's name as the system tells it; empty: unknown
    uint32_t cores = 0;    // threads that this process may use
    std::string device, driver;
    std::string tuning{}; // "built-in", or the path of a tuning file
};

[[nodiscard]] Machine thisMachine(); // leaves device and driver empty

} // namespace vkattn::bench
