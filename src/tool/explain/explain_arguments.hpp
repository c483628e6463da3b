// The command line of `vkattn explain`.
#pragma once

#include "tool/options/arguments.hpp"
#include "tool/options/attention/attention_options.hpp"

namespace vkattn::tool {

class ExplainParser {
  public:
    void addOptions(CLI::App &app);
    // Throws Failure where neither arrays nor shapes are given, or where options exclude each other.
    [[nodiscard]] ExplainArguments interpret(const CLI::App &app);

  private:
    ExplainArguments typed_; // filled as the command line is parsed
    Alignments alignments_;
};

} // namespace vkattn::tool
