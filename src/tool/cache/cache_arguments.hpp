// The command lines of `vkattn merge` and `vkattn append`. No file is touched here.
#pragma once

#include "tool/options/compute_arguments.hpp"

#include <vector>

namespace vkattn::tool {

struct MergeArguments : ComputeArguments {
    std::vector<std::string> outs, lses; // files, one of each for a part
};

struct AppendArguments : ComputeArguments {
    bool ring = false;
    bool headsFirst = false; // of pages: [page, head, token, dim]
};

class MergeParser {
  public:
    void addOptions(CLI::App &app);
    // Throws Failure where a value is missing, or where options disagree.
    [[nodiscard]] MergeArguments interpret(const CLI::App &app) const;

  private:
    MergeArguments typed_; // filled as the command line is parsed
};

class AppendParser {
  public:
    void addOptions(CLI::App &app);
    // Throws Failure where a value is missing, or where options exclude each other.
    [[nodiscard]] AppendArguments interpret(const CLI::App &app) const;

  private:
    AppendArguments typed_; // filled as the command line is parsed
};

} // namespace vkattn::tool
