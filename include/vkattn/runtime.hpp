// vkattn/runtime.hpp: batteries included. C++17, target vkattn::runtime. The runtime finds Vulkan,
// picks a device, owns queue, buffers and staging, runs a problem on host arrays, and falls back to
// the CPU with a stated reason. Nothing here throws, except std::bad_alloc from the standard
// library.
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

// A kernel, and whether a device can run it.
struct KernelSupport {
    std::string kernel; // as vkattnKernelName says
    bool available = false;
    std::string reason; // why the kernel is not available, or what to know where it is
};

struct DeviceInfo {
    uint32_t index = 0;       // position in the ranked list, as in --device INDEX
    std::string name, driver; // driver: its name and version, in its own words
    DeviceType type = DeviceType::other;
    uint32_t vendorId = 0, deviceId = 0, apiVersion = 0, driverVersion = 0;
    std::array<uint8_t, 16> pipelineCacheUuid{}; // of this device with this driver
    vkattn_caps caps{};                          // the caps that plans on the device are made from
    uint64_t deviceLocalBytes = 0;               // largest device-local heap
    uint64_t maxAllocationBytes = 0;
    uint32_t subgroupSize = 0; // 0: unknown (Vulkan 1.0 device)
    bool timestamps = false, storage16Bit = false, shaderFloat16 = false;
    bool cooperativeMatrix = false; // kernels can use matrix units: caps.matrixShapeCount > 0
    std::vector<KernelSupport> kernels;
    // Returns NULL for a kernel that the list lacks.
    [[nodiscard]] const KernelSupport *support(vkattn_kernel kernel) const {
        const char *wanted = vkattnKernelName(kernel);
        for (const KernelSupport &each : kernels)
            if (wanted && each.kernel == wanted) return &each;
        return nullptr;
    }
};

// Returns bits 1 << vkattn_kernel of the kernels that a self-test precedes (vkattn.h): the kernels
// on matrix units.
[[nodiscard]] inline uint32_t selfTestedKernels() {
    uint32_t kernels = 0;
    for (const vkattn_kernel kernel : KernelList())
        if (vkattnKernelTraits(kernel) & VKATTN_KERNEL_TRAIT_MATRIX_UNITS) kernels |= 1u << kernel;
    return kernels;
}

struct RuntimeOptions {
    // The device, among Runtime::devices(): an index, a name (whole, or a part that fits one kind
    // of device; case does not matter), "cpu" for no Vulkan at all, or empty for the best one. A
    // Vulkan device of type cpu (lavapipe) has its own name. On a machine without any Vulkan device
    // no name is unknown: every name falls back, or is unusable.
    std::string device;
    // false: open() and run() fail instead of computing on the CPU.
    bool allowFallback = true;
    // true: enables VK_LAYER_KHRONOS_validation with synchronization validation. Messages go to
    // `log`.
    bool validation = false;
    uint64_t maxWorkspaceBytes = 0;       // as in vkattn_host
    std::optional<vkattn_caps> capsLimit; // as in vkattn_host
    // The text of a tuning file (docs/tuning.md). Empty: the built-in table.
    std::string tuning;
    // Bits 1 << vkattn_kernel of the kernels to test, once for a device, driver and library, before
    // the first run() or prewarm() that takes the kernel. The test compares the kernel with the
    // staged kernel. A kernel on matrix units is also timed against the kernel that
    // VKATTN_KERNEL_AUTO takes without matrix units. A kernel that differs is refused from then on,
    // with a message in `log`; a kernel that takes over 1.1 times as long is passed over. 0: no
    // kernel.
    uint32_t selfTest = selfTestedKernels();
    // Whether to try, once for a device, driver and library, before the first run() or prewarm() whose
    // kernel unpacks keys or values of VKATTN_F16, that unpackHalf2x16 gives all 65,536 halves their
    // values (vkattnSetExactHalves). Takes a small dispatch, and the time to compile it. false: they
    // are unpacked in integer arithmetic. With capsLimit nothing is tried.
    bool testHalves = true;
    // A file that keeps the verdicts of self-tests for the next process. A missing file is made,
    // with its folders. Text in the file that cannot be read counts as no verdict. Where the file
    // cannot be written, `log` says so and nothing else happens. Empty: no file. With capsLimit no
    // verdict is kept or read.
    std::string verdictFile;
    // Receives warnings and validation errors, on the calling thread.
    std::function<void(const char *message)> log;
    // The entry point of Vulkan; tests wrap Vulkan here for fault injection. NULL: the system's
    // loader, through volk.
    PFN_vkGetInstanceProcAddr getInstanceProcAddr = nullptr;
};

struct KernelVerdict {
    std::string kernel; // or "halves": TRUSTED where testHalves found them exact, else WRONG
    vkattn_verdict verdict = VKATTN_VERDICT_TRUSTED;
};
// Returns the verdicts in `file` (RuntimeOptions::verdictFile) on a device with its driver, for
// this library and any tuning. Empty where there is no such file.
[[nodiscard]] VKATTN_API std::vector<KernelVerdict> rememberedVerdicts(const std::string &file, const DeviceInfo &device);

enum class OpenStatus {
    ok,
    unknownDevice, // no device of that index or name; message has the list
    // allowFallback is false, and the device is unusable, or any device was wanted and there is
    // none.
    deviceUnusable,
};

struct RunOptions {
    uint32_t repeat = 1; // number of computations; milliseconds is their median
    // run once untimed first: software drivers compile at the first dispatch
    bool warmUp = false;
    uint32_t cpuThreads = 0; // for the CPU; 0: one per core
};

struct RunResult {
    // INVALID_ARGUMENT, or OUT_OF_HOST_MEMORY from the CPU. Other errors only with allowFallback
    // false.
    vkattn_result status = VKATTN_OK;
    std::string message;        // why status is not OK
    std::string device, driver; // for the CPU: "cpu" and "vkattn cpu fallback"
    std::string kernel;         // as vkattnKernelName says; "cpu" for the CPU
    std::string fallbackReason; // empty: computed on the device that was asked for
    // Median time of the computation over the repeats, without uploads and downloads: by device
    // timestamps where they exist, else by wall clock from submit to fence.
    double milliseconds = 0;
    // The time of each repeat, in order.
    std::vector<double> samplesMilliseconds;
    bool deviceTimestamps = false;
    // Median time of the longest of the problem's slices: nothing on the device runs longer.
    double longestSliceMilliseconds = 0;
    uint64_t workspaceBytes = 0;
    uint32_t dispatchCount = 0;
    float probabilityUnit = 0, probabilityFloor = 0; // for vkattnCpuVerify
    // How the CPU computed attention. structSize is 0 where the CPU did not compute, and for other
    // operations.
    vkattn_cpu_plan cpuPlan{};
};

class DeviceTensor;
class OperationList;
struct LayerOf;

// One device, or the CPU. A Runtime serves one thread at a time; several Runtimes may be used at
// once.
class Runtime {
  public:
    // Lists every Vulkan device found, ranked by type (discrete, integrated, virtual, other, CPU)
    // and then in the loader's order. The list is empty where there is no loader, driver or device;
    // `whyEmpty` then says which. Unsuitable devices are listed too, with kernels[].available false
    // and the reason.
    [[nodiscard]] VKATTN_API static std::vector<DeviceInfo> devices(std::string *whyEmpty = nullptr,
                                                                    PFN_vkGetInstanceProcAddr getInstanceProcAddr = nullptr);

    // Opens the device that options.device names. With allowFallback and no usable Vulkan device
    // the result computes on the CPU, and fallbackReason() says why. Returns NULL only where
    // *status is not ok; *message then says why.
    [[nodiscard]] VKATTN_API static std::unique_ptr<Runtime> open(const RuntimeOptions &options, OpenStatus *status, std::string *message);

    // Tensors and lists keep what they need of the Runtime.
    VKATTN_API ~Runtime();
    Runtime(const Runtime &) = delete;
    Runtime &operator=(const Runtime &) = delete;

    [[nodiscard]] VKATTN_API const DeviceInfo *device() const; // NULL: computing on the CPU
    [[nodiscard]] VKATTN_API const std::string &fallbackReason() const;

    // Runs the problem on host arrays, each slice as a submit of its own. The operands are those of
    // vkattn/cpu.h. Outputs are written element by element: bytes between strided elements stay as
    // they are. With allowFallback the CPU computes where the device is lost or memory is
    // exhausted. A lost device stays lost for this Runtime.
    [[nodiscard]] VKATTN_API RunResult run(const vkattn_problem &problem, span<const vkattn_operand_memory> operands,
                                           const RunOptions &options = {});
    // The same for any operation of vkattn/operations.h. Where an output is the memory of an input,
    // each repeat on the CPU starts from the result of the one before.
    [[nodiscard]] VKATTN_API RunResult run(const vkattn_operation &operation, span<const vkattn_operand_memory> operands,
                                           const RunOptions &options = {});

    // Compiles the pipelines that the problems need, so that their first run() is as quick as the
    // next. Slow. Drivers of devices of type cpu compile at the first dispatch: there the call
    // runs, for each problem, a small problem with the same pipelines. Where the CPU computes there
    // is nothing to do. Returns VKATTN_OK, or the error of the first problem that fails, from
    // vkattnPrewarm or from running, with the reason in *why.
    [[nodiscard]] VKATTN_API vkattn_result prewarm(span<const vkattn_problem> problems, std::string *why = nullptr);

    struct CompileStatistics {
        uint32_t pipelines = 0;
        double seconds = 0;
    };
    [[nodiscard]] VKATTN_API CompileStatistics compileStatistics() const;

    // Tensors and lists of operations (vkattn/list.hpp). A tensor begins as zeros. Returns no tensor,
    // with the reason in *why, where the layout is none or memory is exhausted.
    [[nodiscard]] VKATTN_API DeviceTensor allocate(const vkattn_layout &layout, std::string *why = nullptr);
    // Returns memory for what a layer keeps for its backward pass: LayerOf::kept. Returns no tensor, with
    // the reason in *why, where there is no such layer or memory is exhausted.
    [[nodiscard]] VKATTN_API DeviceTensor allocateKept(const LayerOf &layer, std::string *why = nullptr);
    [[nodiscard]] VKATTN_API OperationList list();

  private:
    friend class OperationList;
    friend class TensorMemory;
    Runtime();
    struct Impl;
    std::shared_ptr<Impl> impl_;
};

} // namespace vkattn
