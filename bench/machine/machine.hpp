// Where and when: what a row needs beside its numbers.
#pragma once

#include <cstdint>
#include <string>

namespace vkattn::bench {

struct Machine {
    std::string date;      // of today, UTC, 2026-01-31
    std::string commit;    // of the sources, as they were when this was built; empty: not known
    std::string processor; // as the system names it; empty: not known
    uint32_t cores = 0;    // that this process may use
    std::string device, driver;
    std::string tuning{}; // "built-in", or a tuning file's path
};

[[nodiscard]] Machine thisMachine(); // device and driver are left empty

} // namespace vkattn::bench
