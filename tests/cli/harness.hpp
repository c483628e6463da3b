// Starts the built tool in a folder of its own, and looks at the files and streams that it leaves
// behind.
#pragma once

#include "programs.hpp" // made by CMakeLists.txt

#include "arrays.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

struct Outcome {
    int status = -1; // exit status; 128 + n where signal n ended it
    std::string out, err;
};

using Arguments = std::vector<std::string>;

class CliTest : public testing::Test {
  protected:
    CliTest();
    // No test may leave a temporary file of the tool behind.
    ~CliTest() override;

    [[nodiscard]] std::filesystem::path file(const std::string &name) const { return folder_ / name; }
    [[nodiscard]] std::filesystem::path config() const { return folder_ / "config"; }
    [[nodiscard]] bool exists(const std::string &name) const { return std::filesystem::exists(file(name)); }
    [[nodiscard]] std::vector<std::string> temporaries() const;

    // Runs in the test's folder. Environment entries are NAME=value. What the user has tuned, and
    // what self-tests have found, is not looked at: the places for that are config() here, and a
    // folder of this process.
    [[nodiscard]] Outcome start(const Arguments &command, const std::vector<std::string> &environment = {}) const;
    [[nodiscard]] Outcome tool(Arguments arguments, const std::vector<std::string> &environment = {}) const;
    [[nodiscard]] Outcome faultyTool(const std::string &fault, Arguments arguments) const;

    // Runs the tool as a user whom permissions bind; root is not bound. Returns nothing, and marks
    // the test as skipped, where that cannot be arranged.
    [[nodiscard]] std::optional<Outcome> unprivilegedTool(const Arguments &arguments) const;

    // Without waiting; the process id.
    [[nodiscard]] int launch(const Arguments &command, const std::vector<std::string> &environment) const;
    [[nodiscard]] Outcome await(int process) const;

    // Tells whether the first Vulkan device is one to test, and marks the test as skipped where not.
    [[nodiscard]] bool hasTestedDevice() const;

    // Writes q.npy, k.npy and v.npy of [tokens, dim], float32.
    void writeSmallProblem(size_t queries = 5, size_t keys = 7, size_t dim = 4) const;

    // "run --q q.npy --k k.npy --v v.npy --out o.npy --device cpu" and what follows.
    [[nodiscard]] static Arguments onCpu(const Arguments &more = {});

    // Expects exit status 2, nothing on stdout, no output file, and a message that has all of these
    // words.
    void expectRefused(const Outcome &outcome, const std::vector<std::string> &words) const;

  private:
    std::filesystem::path folder_;
};
