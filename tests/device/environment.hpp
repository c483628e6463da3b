// The device under test. Opened once per kind of plan; a device test never falls back to the CPU.
#pragma once

#include "support/case.hpp"

#include <gtest/gtest.h>

namespace vkattn::test {

enum class Limits {
    full, // what the device has
    weak, // the minimum limits of Vulkan 1.0
    tiny, // storage buffers of 64 KiB and 16 KiB of workspace, so that everything is cut into chunks
};

// Opened on first use. Fails the test and returns NULL where the device cannot be opened.
[[nodiscard]] Runtime *runtimeFor(Limits limits);
[[nodiscard]] RuntimeOptions optionsFor(Limits limits);
// The same for other options, known by a name.
[[nodiscard]] Runtime *runtimeFor(const std::string &name, const RuntimeOptions &options);

// True where VKATTN_TEST_SKIP_CPU_DEVICES is set and there is no other device: the process then has nothing to do.
[[nodiscard]] bool nothingToTest(std::string &why);

// Pipelines compiled and seconds spent so far by all runtimes of this process.
void printStatistics();
void closeRuntimes();

} // namespace vkattn::test
