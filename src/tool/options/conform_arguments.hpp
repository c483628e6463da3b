// The command line of `vkattn conform`. No file is touched here, and no device.
#pragma once

#include <vkattn/problem.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace vkattn::tool {

struct ConformArguments {
    std::vector<std::string> devices;   // indices or names; empty: all
    bool skipCpu = false;               // devices of type CPU are left out
    std::vector<vkattn_kernel> kernels; // empty: all
    bool quick = false, failFast = false, list = false;
    std::optional<double> soakMinutes, timeLimitMinutes;
    double caseTimeoutSeconds = 120;
    std::optional<uint64_t> seed;
    std::vector<std::string> replays; // SEED:CASE, or a report's file
    std::string json, junit, html;    // files; empty: none
    std::vector<std::string> compare; // two reports, or none
    std::vector<std::string> table;   // reports
    std::vector<std::string> commandLine;
};

class ConformParser {
  public:
    void addOptions(CLI::App &app);
    // Throws Failure where a value is wrong, or two options are that exclude each other.
    [[nodiscard]] ConformArguments interpret(const CLI::App &app) const;

  private:
    ConformArguments typed_; // filled as the command line is parsed
};

} // namespace vkattn::tool
