// `vkattn conform` on the first device, on checks that are quick, with and without a driver that is
// faulty (tests/support/vulkan/faulty_layer.cpp).
#pragma once

#include "cli/harness.hpp"

#include <nlohmann/json.hpp>

class ConformTest : public CliTest {
  protected:
    using Json = nlohmann::json;

    // Skips the test where there is no device.
    void SetUp() override;

    // Replay texts of the first checks of the staged kernel.
    [[nodiscard]] const std::vector<std::string> &someChecks() const { return checks_; }
    // --replay for each of them.
    [[nodiscard]] Arguments replays() const;

    // conform and these arguments, with --json r.json, on a driver that has the fault (empty:
    // none).
    [[nodiscard]] Outcome conform(const Arguments &arguments, const std::string &fault = "",
                                  const std::vector<std::string> &environment = {}) const;
    [[nodiscard]] static std::vector<std::string> withFault(const std::string &fault);
    [[nodiscard]] Json report() const;
    // Returns the numbers of a device's checks, by verdict.
    [[nodiscard]] static std::vector<std::string> verdicts(const Json &device);

  private:
    std::vector<std::string> checks_;
};

void expectWords(const std::string &text, const std::vector<std::string> &words);
