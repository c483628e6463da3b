// The device that the arguments name, with the tuning that is in use there.
#pragma once

#include "tool/options/arguments.hpp"
#include "tool/tune/tuning.hpp"

#include <vkattn/runtime.hpp>

namespace vkattn::tool {

struct OpenedRuntime {
    std::unique_ptr<Runtime> runtime;
    Tuning tuning; // means nothing where the CPU computes
    std::string verdictFile;
};

// Throws Failure where there is no such device, or none that is usable and --no-fallback forbids
// the CPU; or where --tuning is no tuning.
[[nodiscard]] OpenedRuntime openRuntime(const RunArguments &arguments);

// For an operation that is neither tuned nor tested before its first use. Throws likewise.
[[nodiscard]] std::unique_ptr<Runtime> openDevice(const ComputeArguments &arguments);

} // namespace vkattn::tool
