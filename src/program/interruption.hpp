// Ctrl-C and the like, for commands that have results to write down first.
#pragma once

namespace vkattn::program {

// From now on the first SIGINT, SIGTERM or SIGHUP is only noted, and a second one has its earlier
// effect. Call this function after output files were made: they have handlers of their own.
void noteInterruptions();
[[nodiscard]] bool interrupted();

} // namespace vkattn::program
