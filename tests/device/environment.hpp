// The device under test. Opened once per kind of plan; a device test never falls back to the CPU.
#pragma once

#include "conform/checks/check.hpp"
#include "support/case.hpp"

#include <gtest/gtest.h>

namespace vkattn::test {

// Opens the best device. Fails the test where the device cannot be opened.
[[nodiscard]] conform::DeviceUnderTest &bench();
// Opened on first use, with the device's own tiles. Fails the test and returns NULL where the
// device cannot be opened.
[[nodiscard]] Runtime *runtimeFor(conform::Limits limits);
[[nodiscard]] RuntimeOptions optionsFor(conform::Limits limits);

// Returns true where VKATTN_TEST_SKIP_CPU_DEVICES is set and there is no other device: the process
// then has nothing to do.
[[nodiscard]] bool nothingToTest(std::string &why);

// Destroys all runtimes and what they have compiled; the next test opens others.
void closeRuntimes();
// Pipelines compiled and seconds spent by all runtimes that were closed.
void printStatistics();

} // namespace vkattn::test
