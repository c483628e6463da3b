// The ways in which the program ends. Scripts rely on these numbers.
#pragma once

#include <stdexcept>
#include <string>

namespace vkattn::bench {

enum class ExitStatus {
    success = 0,
    // A shape could not be computed or was computed wrongly; the others were still measured.
    failed = 1,
    usage = 2, // arguments and files
    noDevice = 3,
};

// Ends the program with this status; main prints the message on stderr. The message says what was
// wrong, what was expected and what to do.
class Failure : public std::runtime_error {
  public:
    explicit Failure(const std::string &message, ExitStatus exitStatus = ExitStatus::usage)
        : std::runtime_error(message), status(exitStatus) {}
    ExitStatus status;
};

} // namespace vkattn::bench
