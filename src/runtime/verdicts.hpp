// The verdicts of self-tests, by device and driver: in this process, and in a file where the host
// names one (docs/embedding.md has the format).
#pragma once

#include "vkattn/runtime.hpp"

#include <optional>

namespace vkattn {

class Verdicts {
  public:
    // With a capsLimit nothing is kept. With a Vulkan of the host's own nothing is kept in the
    // process.
    Verdicts(const RuntimeOptions &options, const DeviceInfo &device);
    [[nodiscard]] std::optional<vkattn_verdict> find(vkattn_kernel kernel) const;
    void remember(vkattn_kernel kernel, vkattn_verdict verdict, const std::function<void(const char *)> &log) const;

  private:
    std::string key_, file_; // empty: verdicts are kept nowhere
    bool inProcess_ = false;
};

} // namespace vkattn
