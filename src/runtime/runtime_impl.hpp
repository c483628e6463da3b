// What a Runtime shares with its tensors and lists, and what they keep alive.
#pragma once

#include "runtime/device.hpp"
#include "runtime/verdicts.hpp"

#include <cstring>

namespace vkattn {

struct Runtime::Impl {
    RuntimeOptions options;
    std::unique_ptr<Instance> instance;
    std::unique_ptr<Device> device; // NULL: computing on the CPU
    const DeviceInfo *info = nullptr;
    std::string fallbackReason;
    std::string lost; // why the device is gone for good; empty: it is usable
    // The CPU's threads and memory stay for the next run.
    std::unique_ptr<vkattn_cpu_pool_t, void (*)(vkattn_cpu_pool)> cpuPool{nullptr, vkattnCpuDestroyPool};
    uint32_t cpuThreads = 0;
    uint64_t cpuPoolNumber = 0; // of the pool, counted from 1
    std::unique_ptr<unsigned char[]> cpuWorkspace;
    uint64_t cpuWorkspaceBytes = 0;

    uint64_t unreachableMemories = 0; // of tensors, so far (runtime/list/tensor_memory.cpp)

    std::optional<Verdicts> verdicts;
    // Bits 1 << vkattn_kernel of the kernels that the device has and whose self-test comes before
    // their first use.
    uint32_t untested = 0;
    bool untestedHalves = false; // RuntimeOptions::testHalves

    // Takes over the verdicts of an earlier time, which still hold.
    void recallVerdicts();
    // Tests what AUTO may take for the operation, until it takes what has been tested or needs no
    // test.
    void testWhatTakes(const vkattn_operation &operation);
    // Notes that the device is lost where the failure says so, and returns the reason to tell.
    const std::string &reasonOf(Device::Failure &failure);

    // Makes threads and workspace; fills the plan of attention.
    [[nodiscard]] vkattn_result prepareCpu(const vkattn_operation &operation, uint32_t threads, RunResult &result, vkattn_diagnostic &why);
    [[nodiscard]] RunResult runOnCpu(const vkattn_operation &operation, std::span<const vkattn_operand_memory> operands,
                                     const RunOptions &run, std::string reason);
    // How results of the device and of the CPU are signed.
    void sign(RunResult &result) const;

  private:
    void say(const std::string &message) const {
        if (options.log) options.log(message.c_str());
    }
    void test(vkattn_kernel kernel);
    void testHalves();
};

} // namespace vkattn
