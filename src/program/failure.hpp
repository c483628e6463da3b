// The ways in which the program ends. Scripts rely on these numbers.
#pragma once

#include <stdexcept>
#include <string>

namespace vkattn::program {

enum class ExitStatus {
    success = 0,
    verificationFailed = 1, // verification, or a check of conform
    badInput = 2,           // usage, files, shapes, memory, an unknown device
    deviceUnusable = 3,     // --no-fallback forbids the CPU, or there is nothing to test
    interrupted = 130,      // the status of shells; results were written nevertheless
};

// Ends the command with this status; main prints the message on stderr. The message says what was
// wrong, what was expected and what to do.
class Failure : public std::runtime_error {
  public:
    explicit Failure(const std::string &message, ExitStatus exitStatus = ExitStatus::badInput)
        : std::runtime_error(message), status(exitStatus) {}
    ExitStatus status;
};

} // namespace vkattn::program
