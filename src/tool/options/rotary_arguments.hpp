// The command line of `vkattn rotary`. No file is touched here.
#pragma once

#include "tool/options/compute_arguments.hpp"

#include <vkattn/operations.h>

namespace vkattn::tool {

// How a rotary embedding turns.
struct RotaryChoice {
    const char *prefix = "--"; // of the options, in messages
    vkattn_rotary_pairs pairs = VKATTN_PAIRS_HALF;
    std::optional<uint32_t> dims; // even; otherwise all dims
    uint32_t start = 0;           // means nothing with a file of positions
    double base = 10000;          // means nothing with files of tables

    [[nodiscard]] std::string option(const char *name) const { return std::string(prefix) + name; }
};

struct RotaryArguments : ComputeArguments, RotaryChoice {};

// The options whose names follow the choice's prefix: dims, base and start. `choice` outlives the
// parsing.
void addRotaryChoice(CLI::App &app, RotaryChoice &choice);

class RotaryParser {
  public:
    void addOptions(CLI::App &app);
    // Throws Failure where a value is missing, or where options exclude each other.
    [[nodiscard]] RotaryArguments interpret(const CLI::App &app) const;

  private:
    RotaryArguments typed_; // filled as the command line is parsed
};

} // namespace vkattn::tool
