// The options that every program has which computes: the device, the verification, the report. No
// file is touched here.
#pragma once

#include <vkattn/runtime.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace CLI {
class App;
} // namespace CLI

namespace vkattn::program {

struct VerifyRequest {
    bool allRows = false;
    uint64_t rows = 0; // 0: the library chooses
};

struct DeviceChoice {
    std::optional<std::string> device;
    bool allowFallback = true;
};
struct DeviceOptions : DeviceChoice {
    std::optional<VerifyRequest> verify;
    bool json = false;
};

// What is added to outlives the parsing, which throws Failure where a value is wrong.
void addDeviceChoice(CLI::App &app, DeviceChoice &choice);
void addDeviceOptions(CLI::App &app, DeviceOptions &options); // with the choice

inline constexpr const char *computeExitStatuses =
    "Exit status: 0 success, 1 verification failed, 2 bad usage or input, 3 the device cannot be used and --no-fallback was given.";

// What a message ends with where --no-fallback forbids the CPU.
inline constexpr const char *adviseFallback = ": leave out --no-fallback to compute on the CPU";

[[nodiscard]] RuntimeOptions runtimeOptions(const DeviceChoice &choice);
[[nodiscard]] vkattn_verify_options verifyOptions(const VerifyRequest &request);

// Throws Failure where there is no such device, or none that is usable and the options forbid the
// CPU. `ifUnusable` ends the message where the device cannot be used.
[[nodiscard]] std::unique_ptr<Runtime> openRuntime(const RuntimeOptions &options, const std::string &ifUnusable = adviseFallback);

} // namespace vkattn::program
