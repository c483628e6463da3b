// What self-tests have found, by device and driver: in this process, and in a file where the host
// names one (docs/embedding.md has its format).
#pragma once

#include "vkattn/runtime.hpp"

#include <optional>

namespace vkattn {

class Verdicts {
  public:
    // Keeps nothing with a capsLimit, and nothing in the process for a Vulkan of the host's own.
    Verdicts(const RuntimeOptions &options, const DeviceInfo &device);
    [[nodiscard]] std::optional<vkattn_verdict> find(vkattn_kernel kernel) const;
    void remember(vkattn_kernel kernel, vkattn_verdict verdict, const std::function<void(const char *)> &log) const;

  private:
    std::string key_, file_; // empty: kept nowhere
    bool inProcess_ = false;
};

} // namespace vkattn
