// The command line of `vkattn grad`. No file is touched here.
#pragma once

#include "tool/options/attention/attention_options.hpp"

namespace vkattn::tool {

class GradientParser {
  public:
    void addOptions(CLI::App &app);
    // Throws Failure where a value is missing, where options exclude each other, or where no
    // gradient is asked for.
    [[nodiscard]] GradientArguments interpret(const CLI::App &app);

  private:
    GradientArguments typed_; // filled as the command line is parsed
    Alignments alignments_;
};

} // namespace vkattn::tool
