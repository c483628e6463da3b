// The command line of `vkattn tune`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace vkattn::tool {

struct TuneArguments {
    std::string device, out; // empty: the best device; the default place
    uint32_t seconds = 120;
    std::vector<uint32_t> dims = {64, 128}; // ascending
    bool json = false;
};

class TuneParser {
  public:
    void addOptions(CLI::App &app);
    // Throws Failure where a value is missing.
    [[nodiscard]] TuneArguments interpret(const CLI::App &app) const;

  private:
    TuneArguments typed_; // filled as the command line is parsed
};

} // namespace vkattn::tool
