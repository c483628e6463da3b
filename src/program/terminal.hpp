// What is known of the terminal, if there is one.
#pragma once

#include <cstdint>

namespace vkattn::program {

[[nodiscard]] bool stdoutIsTerminal();
[[nodiscard]] bool stderrIsTerminal();
// Columns of the terminal that either stream is; 100 where none says.
[[nodiscard]] uint32_t terminalColumns();

} // namespace vkattn::program
