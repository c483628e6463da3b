// The facts about the terminal, if there is one.
#pragma once

#include <cstdint>

namespace vkattn::program {

[[nodiscard]] bool stdoutIsTerminal();
[[nodiscard]] bool stderrIsTerminal();
// Returns the columns of the terminal that either stream is; 100 where they are unknown.
[[nodiscard]] uint32_t terminalColumns();

} // namespace vkattn::program
