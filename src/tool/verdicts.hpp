// Where the tool keeps what self-tests have found on this machine's devices (docs/embedding.md).
#pragma once

#include <vkattn/runtime.hpp>

#include <optional>
#include <string>

namespace vkattn::tool {

// The file that --verdicts names; empty where it says none. Without the option
// ${XDG_CACHE_HOME:-$HOME/.cache}/vkattn/verdicts, or empty where neither variable says where that
// is. Throws Failure where the option names what cannot be such a file.
[[nodiscard]] std::string verdictFile(const std::optional<std::string> &option);

// The file, and warnings on stderr: but none where it is the default place that cannot be written.
void useVerdicts(const std::optional<std::string> &option, RuntimeOptions &options);

// Bits of caps, as a runtime with this file would plan.
void applyVerdicts(const std::string &file, const DeviceInfo &device, vkattn_caps &caps);

} // namespace vkattn::tool
