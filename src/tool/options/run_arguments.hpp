// The command line of `vkattn run`.
#pragma once

#include "tool/options/arguments.hpp"
#include "tool/options/attention/attention_options.hpp"

namespace vkattn::tool {

class RunParser {
  public:
    void addOptions(CLI::App &app);
    // Throws Failure where a value is missing, or where options exclude each other.
    [[nodiscard]] RunArguments interpret(const CLI::App &app);

  private:
    RunArguments typed_; // filled as the command line is parsed
    Alignments alignments_;
};

// All options of `run`; other commands take them without demanding arrays.
void addRunOptions(CLI::App &app, Alignments &alignments, RunArguments &run, bool arraysRequired);
// Throws Failure where --values-in-keys and an array of values are both given.
void checkValuesInKeys(const RunArguments &run, bool valuesGiven);

} // namespace vkattn::tool
