// The command line of `vkattn inspect`. No file is touched here.
#pragma once

#include "tool/options/attention/attention_options.hpp"

namespace vkattn::tool {

class InspectParser {
  public:
    void addOptions(CLI::App &app);
    // Throws Failure where options are missing or contradict each other.
    [[nodiscard]] InspectArguments interpret(const CLI::App &app);

  private:
    InspectArguments typed_; // filled as the command line is parsed
    Alignments alignments_;
};

} // namespace vkattn::tool
