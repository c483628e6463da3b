// Ctrl-C and the like, for commands that have results to write down first.
#pragma once

namespace vkattn::program {

// From now on the first SIGINT, SIGTERM or SIGHUP is only noted; a second one does what it did
// before. To be called after output files were made, which have handlers of their own.
void noteInterruptions();
[[nodiscard]] bool interrupted();

} // namespace vkattn::program
