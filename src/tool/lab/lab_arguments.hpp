// The command line of `vkattn lab`.
#pragma once

#include "program/options/device_options.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace vkattn::tool {

struct LabArguments : program::DeviceChoice {
    std::string name;             // of an experiment, or "all"; empty: they are listed
    std::string out;              // a folder; empty: nothing is written
    std::optional<uint64_t> seed; // otherwise the experiment's own
};

class LabParser {
  public:
    void addOptions(CLI::App &app);
    // Throws Failure where an option's value is wrong.
    [[nodiscard]] LabArguments interpret(const CLI::App &app);

  private:
    LabArguments typed_;
    bool list_ = false;
};

} // namespace vkattn::tool
