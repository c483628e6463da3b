// What the parts of the faulty runtime share.
#pragma once

#include <vkattn/runtime.hpp>

namespace vkattn {

// The fault that VKATTN_TEST_FAULT names.
std::string fault();
RunResult failedRun(vkattn_result status);
// Fails as the fault says; otherwise signs the result.
RunResult startRun();

struct Runtime::Impl {
    DeviceInfo device;
    std::string fallbackReason;
    bool onCpu = false; // the CPU was asked for: its lists have no fault
};

} // namespace vkattn
