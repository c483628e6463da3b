// The command line of `vkattn layer`. No file is touched here.
#pragma once

#include "tool/options/attention_options.hpp"

#include <vkattn/layer.h>

namespace vkattn::tool {

class LayerParser {
  public:
    void addOptions(CLI::App &app);
    // Throws Failure where a value is missing, or where options exclude each other.
    [[nodiscard]] LayerArguments interpret(const CLI::App &app);

  private:
    LayerArguments typed_; // filled as the command line is parsed
    Alignments alignments_;
};

} // namespace vkattn::tool
