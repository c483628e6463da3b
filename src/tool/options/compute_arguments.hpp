// What `run` shares with the commands of single operations: arrays in files, the device, the
// verification and the report. No file is touched here.
#pragma once

#include <vkattn/problem.h>

#include <cstdint>
#include <optional>
#include <string>

namespace CLI {
class App;
class Option;
} // namespace CLI

namespace vkattn::tool {

struct VerifyRequest {
    bool allRows = false;
    uint64_t rows = 0; // 0: the library chooses
};

struct ComputeArguments {
    std::string files[VKATTN_WORKSPACE]; // by role: paths, empty where the option was not given

    std::optional<std::string> device;
    bool allowFallback = true;
    std::optional<VerifyRequest> verify;
    uint32_t repeat = 1;
    bool json = false;
};

// The option of a role's file.
CLI::Option *addFile(CLI::App &app, ComputeArguments &arguments, vkattn_role role, const char *text);

// All but the files; `arguments` outlives the parsing.
void addComputeOptions(CLI::App &app, ComputeArguments &arguments);

inline constexpr const char *computeExitStatuses =
    "Exit status: 0 success, 1 verification failed, 2 bad usage or input, 3 the device cannot be used and --no-fallback was given.";

} // namespace vkattn::tool
