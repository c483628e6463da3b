// vkattn/runtime.hpp: batteries included. Finds Vulkan, picks a device, owns queue, buffers and
// staging, runs a problem on host arrays, verifies it against the CPU, and falls back to the CPU
// with a stated reason. C++17, target vkattn::runtime. Nothing here throws, except std::bad_alloc
// from the standard library.
#pragma once

#include "vkattn/cpu.h"
#include "vkattn/vkattn.hpp"

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace vkattn {

enum class DeviceType { discrete, integrated, virtualGpu, cpu, other };
[[nodiscard]] VKATTN_API const char *deviceTypeName(DeviceType type);

struct KernelSupport {
    std::string kernel; // as vkattnKernelName says
    bool available = false;
    std::string reason; // why not, or what to know where it is
};

struct DeviceInfo {
    uint32_t index = 0;       // position in the ranked list: what --device INDEX means
    std::string name, driver; // driver: name and version as the driver tells them
    DeviceType type = DeviceType::other;
    uint32_t vendorId = 0, deviceId = 0, apiVersion = 0, driverVersion = 0;
    std::array<uint8_t, 16> pipelineCacheUuid{}; // of this device with this driver
    vkattn_caps caps{};                          // what plans on it are made from
    uint64_t deviceLocalBytes = 0;               // largest device-local heap
    uint64_t maxAllocationBytes = 0;
    uint32_t subgroupSize = 0; // 0: unknown (Vulkan 1.0 device)
    bool timestamps = false, storage16Bit = false, shaderFloat16 = false;
    bool cooperativeMatrix = false; // caps.matrixShapeCount > 0: matrix units that kernels can use
    std::vector<KernelSupport> kernels;
    // NULL for a kernel that the list lacks.
    [[nodiscard]] const KernelSupport *support(vkattn_kernel kernel) const {
        const char *wanted = vkattnKernelName(kernel);
        for (const KernelSupport &each : kernels)
            if (wanted && each.kernel == wanted) return &each;
        return nullptr;
    }
};

// 1 << vkattn_kernel: the Vulkan kernels that a self-test precedes (vkattn.h), those on matrix
// units.
[[nodiscard]] inline uint32_t selfTestedKernels() {
    uint32_t kernels = 0;
    for (const vkattn_kernel kernel : KernelList())
        if (vkattnKernelTraits(kernel) & VKATTN_KERNEL_TRAIT_MATRIX_UNITS) kernels |= 1u << kernel;
    return kernels;
}

struct RuntimeOptions {
    // Which device, among Runtime::devices(): an index, a name (whole, or a part that fits one kind
    // of device; case does not matter), "cpu" for no Vulkan at all, or empty for the best one. A
    // Vulkan device of type cpu (lavapipe) has its own name. Where the machine has no Vulkan device
    // at all no name is unknown: any of them falls back, or is unusable.
    std::string device;
    // false: open() and run() fail instead of computing on the CPU
    bool allowFallback = true;
    // Enable VK_LAYER_KHRONOS_validation with synchronization validation; messages go to `log`.
    bool validation = false;
    uint64_t maxWorkspaceBytes = 0;       // as vkattn_host
    std::optional<vkattn_caps> capsLimit; // as vkattn_host
    // A tuning file's text (docs/tuning.md); empty: the built-in table.
    std::string tuning;
    // 1 << vkattn_kernel: before the first run() or prewarm() that takes such a kernel it is
    // compared with the staged kernel, and where it is on matrix units timed against what
    // VKATTN_KERNEL_AUTO takes without these; once for a device, driver and library. One that fails
    // is refused from then on, with a message in `log`; one that takes over 1.1 times as long is
    // passed over. 0: none.
    uint32_t selfTest = selfTestedKernels();
    // A file that keeps what was found for the next process; made where it is missing, with its
    // folders. What cannot be read there is no verdict; where it cannot be written, `log` says so
    // and nothing else happens. Empty: none. With capsLimit nothing is kept or read.
    std::string verdictFile;
    // validation errors, and warnings; called from the calling thread
    std::function<void(const char *message)> log;
    // Tests wrap Vulkan here (fault injection). NULL: the system's loader, through volk.
    PFN_vkGetInstanceProcAddr getInstanceProcAddr = nullptr;
};

struct KernelVerdict {
    std::string kernel;
    vkattn_verdict verdict = VKATTN_VERDICT_TRUSTED;
};
// What `file` (RuntimeOptions::verdictFile) says of a device with its driver, for this library and
// whatever tuning. Empty where there is no such file.
[[nodiscard]] VKATTN_API std::vector<KernelVerdict> rememberedVerdicts(const std::string &file, const DeviceInfo &device);

enum class OpenStatus {
    ok,
    unknownDevice,  // no device of that index or name; message has the list
    deviceUnusable, // it is there, or any was wanted and none is there, and allowFallback is false
};

struct RunOptions {
    uint32_t repeat = 1;     // computed this often; milliseconds is the median
    bool warmUp = false;     // run once untimed first (software drivers compile at first dispatch)
    uint32_t cpuThreads = 0; // when the CPU computes; 0 = one per core
};

struct RunResult {
    // INVALID_ARGUMENT; OUT_OF_HOST_MEMORY from the CPU; any other only with allowFallback false.
    vkattn_result status = VKATTN_OK;
    std::string message;        // why status is not OK
    std::string device, driver; // who computed: "cpu" and "vkattn cpu fallback" for the CPU
    std::string kernel;         // "staged", or "cpu"
    std::string fallbackReason; // empty: computed where it was asked for
    // Median of the repeats, of the computation alone: uploads and downloads are outside. Device
    // timestamps where they exist, else wall clock from submit to fence.
    double milliseconds = 0;
    // Of each repeat, in order: what the median was taken of.
    std::vector<double> samplesMilliseconds;
    bool deviceTimestamps = false;
    // Median of what the longest of problem.sliceCount pieces took: nothing on the device runs
    // longer.
    double longestSliceMilliseconds = 0;
    uint64_t workspaceBytes = 0;
    uint32_t dispatchCount = 0;
    float probabilityUnit = 0, probabilityFloor = 0; // of vkattn_requirements: for vkattnCpuVerify
    // How the CPU computed; structSize is 0 where it did not.
    vkattn_cpu_plan cpuPlan{};
};

// One device, or the CPU. One thread at a time; several Runtimes may be used at once.
class Runtime {
  public:
    // Every Vulkan device found, ranked: discrete, integrated, virtual, other, CPU; then as the
    // loader lists them. Empty where there is no loader, driver or device; `whyEmpty` then says
    // which. Unsuitable devices are listed too, with kernels[].available false and the reason.
    [[nodiscard]] VKATTN_API static std::vector<DeviceInfo> devices(std::string *whyEmpty = nullptr,
                                                                    PFN_vkGetInstanceProcAddr getInstanceProcAddr = nullptr);

    // Opens the device that options.device names. With allowFallback and no usable Vulkan device
    // the result computes on the CPU and fallbackReason() says why. NULL only where *status is not
    // ok; *message then says why.
    [[nodiscard]] VKATTN_API static std::unique_ptr<Runtime> open(const RuntimeOptions &options, OpenStatus *status, std::string *message);

    VKATTN_API ~Runtime();
    Runtime(const Runtime &) = delete;
    Runtime &operator=(const Runtime &) = delete;

    [[nodiscard]] VKATTN_API const DeviceInfo *device() const; // NULL: computing on the CPU
    [[nodiscard]] VKATTN_API const std::string &fallbackReason() const;

    // Runs the problem on host arrays, each slice as a submit of its own: operands as in
    // vkattn/cpu.h. Outputs are written element by element: bytes between strided elements stay as
    // they are. A lost device or exhausted memory is answered by the CPU where allowFallback is
    // set; a lost device stays lost for this Runtime.
    [[nodiscard]] VKATTN_API RunResult run(const vkattn_problem &problem, span<const vkattn_operand_memory> operands,
                                           const RunOptions &options = {});

    // Compiles what the problems need, so that their first run() is as quick as the next. Slow.
    // Drivers of devices of type cpu compile at the first dispatch: there a small problem with the
    // same pipelines is run for each. Nothing to do where the CPU computes. VKATTN_OK, or the first
    // problem's error with the reason: of vkattnPrewarm, or of running.
    [[nodiscard]] VKATTN_API vkattn_result prewarm(span<const vkattn_problem> problems, std::string *why = nullptr);

    struct CompileStatistics {
        uint32_t pipelines = 0;
        double seconds = 0;
    };
    [[nodiscard]] VKATTN_API CompileStatistics compileStatistics() const;

  private:
    Runtime();
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

} // namespace vkattn
