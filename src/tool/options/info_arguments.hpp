// The command line of `vkattn info`.
#pragma once

#include <optional>
#include <string>

namespace CLI {
class App;
}

namespace vkattn::tool {

struct InfoArguments {
    std::optional<std::string> verdicts; // as RunArguments
    bool json = false;
};

class InfoParser {
  public:
    void addOptions(CLI::App &app);
    // Throws Failure where a value is missing.
    [[nodiscard]] InfoArguments interpret(const CLI::App &app) const;

  private:
    InfoArguments typed_; // filled as the command line is parsed
};

} // namespace vkattn::tool
