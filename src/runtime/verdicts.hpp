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
    // `subject`: the name of a kernel, or `halves`.
    [[nodiscard]] std::optional<vkattn_verdict> find(const std::string &subject) const;
    void remember(const std::string &subject, vkattn_verdict verdict, const std::function<void(const char *)> &log) const;

    static constexpr const char *halves = "halves"; // that unpackHalf2x16 is exact

  private:
    std::string key_, file_; // empty: verdicts are kept nowhere
    bool inProcess_ = false;
};

} // namespace vkattn
