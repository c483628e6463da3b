// The command line of `vkattn grad`. No file is touched here.
#pragma once

#include "tool/options/attention/attention_options.hpp"
#include "tool/options/names.hpp"

#include <span>

namespace vkattn::tool {

// Throws Failure where none of the gradients is asked for, or one with respect to what is not given. `hasNumber`: the
// number is there that a gradient without an array is with respect to.
void checkGradients(std::span<const GradientName> names, const ComputeArguments &arguments, bool hasNumber);

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
