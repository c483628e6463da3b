#include "compile/times.hpp"

#include "device/vulkan_device.hpp"
#include "failure.hpp"
#include "report/csv.hpp"
#include "text.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <map>
#include <stdlib.h> // setenv

namespace vkattn::bench {
namespace {

// Returns the CPU time of all threads. Software drivers compile in threads of their own, and other
// programs take turns on the machine.
double cpuSeconds() {
    return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

struct Pipeline {
    VkPipeline handle;
    std::string shader;
    double creationSeconds;
};

// The one measurement under way: Vulkan's functions have no user data.
struct Watched {
    std::vector<Pipeline> created;      // the problem's pipelines that no earlier problem has
    VkPipeline bound = VK_NULL_HANDLE;  // bound in the commands that are being recorded
    VkPipeline wanted = VK_NULL_HANDLE; // the pipeline whose first dispatch alone is recorded
    bool recorded = false;
} *watched = nullptr;

VKAPI_ATTR VkResult VKAPI_CALL createTimed(VkDevice device, VkPipelineCache cache, uint32_t count, const VkComputePipelineCreateInfo *infos,
                                           const VkAllocationCallbacks *allocator, VkPipeline *pipelines) {
    const double start = cpuSeconds();
    const VkResult result = vkCreateComputePipelines(device, cache, count, infos, allocator, pipelines);
    if (result == VK_SUCCESS && watched && count == 1) watched->created.push_back({*pipelines, "", cpuSeconds() - start});
    return result;
}
// The library names each pipeline after its shader, right after creating it.
VKAPI_ATTR VkResult VKAPI_CALL readName(VkDevice, const VkDebugUtilsObjectNameInfoEXT *info) {
    constexpr std::string_view prefix = "vkattn ";
    if (watched && !watched->created.empty() && info->objectType == VK_OBJECT_TYPE_PIPELINE &&
        std::string_view(info->pObjectName).starts_with(prefix))
        watched->created.back().shader = info->pObjectName + prefix.size();
    return VK_SUCCESS;
}
VKAPI_ATTR void VKAPI_CALL beginNoLabel(VkCommandBuffer, const VkDebugUtilsLabelEXT *) {}
VKAPI_ATTR void VKAPI_CALL endNoLabel(VkCommandBuffer) {}
VKAPI_ATTR void VKAPI_CALL bindWatched(VkCommandBuffer commands, VkPipelineBindPoint point, VkPipeline pipeline) {
    watched->bound = pipeline;
    vkCmdBindPipeline(commands, point, pipeline);
}
// One workgroup is enough: the result is of no interest, and operands are zeros anyhow.
VKAPI_ATTR void VKAPI_CALL dispatchWatched(VkCommandBuffer commands, uint32_t, uint32_t, uint32_t) {
    if (watched->recorded || watched->bound != watched->wanted) return;
    watched->recorded = true;
    vkCmdDispatch(commands, 1, 1, 1);
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL deviceProcAddr(VkDevice device, const char *name) {
    const struct {
        const char *name;
        PFN_vkVoidFunction function;
    } own[] = {{"vkCreateComputePipelines", reinterpret_cast<PFN_vkVoidFunction>(createTimed)},
               {"vkCmdBindPipeline", reinterpret_cast<PFN_vkVoidFunction>(bindWatched)},
               {"vkCmdDispatch", reinterpret_cast<PFN_vkVoidFunction>(dispatchWatched)}};
    for (const auto &each : own)
        if (std::strcmp(each.name, name) == 0) return each.function;
    return vkGetDeviceProcAddr(device, name);
}
VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL instanceProcAddr(VkInstance instance, const char *name) {
    const struct {
        const char *name;
        PFN_vkVoidFunction function;
    } own[] = {{"vkGetDeviceProcAddr", reinterpret_cast<PFN_vkVoidFunction>(deviceProcAddr)},
               {"vkSetDebugUtilsObjectNameEXT", reinterpret_cast<PFN_vkVoidFunction>(readName)},
               {"vkCmdBeginDebugUtilsLabelEXT", reinterpret_cast<PFN_vkVoidFunction>(beginNoLabel)},
               {"vkCmdEndDebugUtilsLabelEXT", reinterpret_cast<PFN_vkVoidFunction>(endNoLabel)}};
    for (const auto &each : own)
        if (std::strcmp(each.name, name) == 0) return each.function;
    return vkGetInstanceProcAddr(instance, name);
}

void check(vkattn_result result, const vkattn_diagnostic &why) {
    if (result != VKATTN_OK) throw Failure(why.message, ExitStatus::failed);
}

// Returns the least caps that Vulkan 1.0 guarantees, for a device of this type.
vkattn_caps leastCaps(uint32_t deviceType) {
    vkattn_caps caps{};
    caps.structSize = sizeof caps;
    caps.deviceType = deviceType;
    caps.maxStorageBufferRange = 1u << 27;
    caps.minStorageBufferOffsetAlignment = 256;
    caps.maxStorageBuffersPerStage = 4;
    caps.maxPushConstantsBytes = caps.maxWorkgroupInvocations = 128;
    caps.maxWorkgroupSize[0] = caps.maxWorkgroupSize[1] = 128;
    caps.maxWorkgroupSize[2] = 64;
    for (uint32_t &count : caps.maxWorkgroupCount) count = 65535;
    caps.maxSharedMemoryBytes = 16384;
    return caps;
}

struct Extents {
    const char *name;
    uint32_t heads, kvHeads, queries, keys;
};
// The shapes have few tokens, because token counts are part of no pipeline: one shape has one row a
// key head, another as many rows as fill a tile of decode.
constexpr Extents shapes[] = {{"prefill", 2, 2, 64, 64}, {"decode", 2, 2, 1, 64}, {"decode-gqa", 8, 2, 1, 64}};
constexpr struct {
    const char *name;
    vkattn_dtype dtype;
} dtypes[] = {{"f32", VKATTN_F32}, {"f16", VKATTN_F16}};
constexpr const char *optionSets[] = {"", "all"};

vkattn_problem problemOf(const Extents &e, vkattn_dtype dtype, uint32_t dim, std::string_view options, vkattn_kernel kernel) {
    const vkattn_layout q = packed(dtype, 1, e.heads, e.queries, dim), kv = packed(dtype, 1, e.kvHeads, e.keys, dim);
    vkattn_problem p = vkattn::problem(q, kv, kv, q);
    p.kernel = kernel;
    if (options.empty()) return p;
    p.flags |= VKATTN_CAUSAL;
    p.bias = packed(dtype, 1, e.heads, e.queries, e.keys);
    p.mask = packed(VKATTN_BOOL8, 1, 1, e.queries, e.keys);
    p.lse = packed(VKATTN_F32, 1, e.heads, e.queries, 1);
    p.softcap = 30;
    for (const vkattn_role role : {VKATTN_KEY_LENGTHS, VKATTN_DOC_IDS_Q, VKATTN_DOC_IDS_K, VKATTN_SINKS, VKATTN_ALIBI_SLOPES})
        p.presentRoles |= 1u << role;
    return p;
}

class Meter {
  public:
    Meter(const DeviceInfo &info, const std::string &tuning, const vkattn_caps *limit)
        : vulkan_(info, {}, VulkanDevice::Features::library), name_(limit ? "vulkan 1.0" : "device") {
        vkattn_host host = vulkan_.host(tuning);
        host.getInstanceProcAddr = instanceProcAddr;
        host.debugLabels = 1;
        host.capsLimit = limit;
        check(context_.create(host, &why_), why_);
    }
    ~Meter() {
        vulkan_.release(memory_);
        vkDestroyDescriptorPool(vulkan_.handle(), pool_, nullptr);
    }
    Meter(const Meter &) = delete;
    Meter &operator=(const Meter &) = delete;

    [[nodiscard]] const char *limits() const { return name_; }

    // Returns shader and seconds of each pipeline that no earlier problem has. Returns nothing
    // where the kernel refuses the problem.
    [[nodiscard]] std::vector<std::pair<std::string, double>> measure(const vkattn_problem &problem) {
        vkattn_requirements needs{};
        const vkattn_result result = context_.query(problem, needs, &why_);
        if (result == VKATTN_ERROR_UNSUPPORTED) return {};
        check(result, why_);
        Watched own;
        watched = &own;
        check(context_.prewarm({&problem, 1}, &why_), why_);
        std::vector<std::pair<std::string, double>> times;
        for (const Pipeline &each : std::vector(own.created)) {
            own.wanted = each.handle;
            const double first = dispatchSeconds(problem, needs), second = dispatchSeconds(problem, needs);
            times.emplace_back(each.shader, each.creationSeconds + std::max(first - second, 0.0));
        }
        watched = nullptr;
        return times;
    }

  private:
    [[nodiscard]] double dispatchSeconds(const vkattn_problem &problem, const vkattn_requirements &needs) {
        std::vector<vkattn_binding> bindings;
        uint64_t end = 0;
        for (uint32_t n = 0; n < VKATTN_ROLE_LIMIT; ++n) {
            const auto role = static_cast<vkattn_role>(n);
            const uint64_t bytes = role == VKATTN_WORKSPACE ? needs.workspaceBytes : vkattnOperandBytes(&problem, role);
            if (bytes) bindings.push_back({role, VK_NULL_HANDLE, end, bytes});
            end += (bytes + 4095) / 4096 * 4096;
        }
        if (memory_.bytes < end) vulkan_.reserve(memory_, end);
        for (vkattn_binding &binding : bindings) binding.buffer = memory_.buffer;
        makePool(needs);
        const VkCommandBuffer commands = vulkan_.startRecording();
        watched->recorded = false;
        check(context_.record(problem, commands, bindings, pool_, &why_), why_);
        const double start = cpuSeconds();
        vulkan_.submitRecorded();
        return cpuSeconds() - start;
    }
    void makePool(const vkattn_requirements &needs) {
        vkDestroyDescriptorPool(vulkan_.handle(), pool_, nullptr);
        pool_ = VK_NULL_HANDLE;
        if (needs.descriptorSetCount == 0) return;
        const VkDescriptorPoolSize size{VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, needs.storageDescriptorCount};
        VkDescriptorPoolCreateInfo info{};
        info.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO;
        info.maxSets = needs.descriptorSetCount;
        info.poolSizeCount = 1;
        info.pPoolSizes = &size;
        if (vkCreateDescriptorPool(vulkan_.handle(), &info, nullptr, &pool_)) throw VulkanError("vkCreateDescriptorPool failed");
    }

    VulkanDevice vulkan_;
    Context context_;             // must be destroyed before the device
    VulkanDevice::Buffer memory_; // zeros
    VkDescriptorPool pool_ = VK_NULL_HANDLE;
    const char *name_;
    vkattn_diagnostic why_{};
};

void measureWith(Meter &meter, const CompileTimesOptions &options) {
    for (const Kernel &kernel : options.kernels)
        for (const uint32_t dim : options.headDims)
            for (const Extents &extents : shapes) {
                // decode is made for few rows. Other kernels take the pipelines of many rows,
                // except for tiles of few rows.
                if ((kernel.kernel == VKATTN_KERNEL_DECODE) == (extents.queries > 1) && kernel.kernel != VKATTN_KERNEL_STAGED) continue;
                for (const auto &dtype : dtypes)
                    for (const char *set : optionSets)
                        for (auto &[shader, seconds] : meter.measure(problemOf(extents, dtype.dtype, dim, set, kernel.kernel)))
                            options.done({meter.limits(), kernel.name, extents.name, dtype.name, set, dim, shader, seconds});
            }
}

} // namespace

std::vector<uint32_t> compileTimeDims() {
    return {16, 32, 64, 80, 96, 127, 128, 192, 256, 384, 511, 512, 576, 1024, 2048};
}

void leaveOutDriverCaches() {
#if defined(__unix__) || defined(__APPLE__)
    setenv("MESA_SHADER_CACHE_DISABLE", "1", 1);
#endif
}

void measureCompileTimes(const DeviceInfo &device, const CompileTimesOptions &options) {
    try {
        const vkattn_caps least = leastCaps(device.caps.deviceType);
        for (const vkattn_caps *limit : {static_cast<const vkattn_caps *>(nullptr), &least}) {
            Meter meter(device, options.tuning, limit);
            measureWith(meter, options);
        }
    } catch (const VulkanError &error) {
        throw Failure(std::string("--compile-times needs a device of its own: ") + error.what(), ExitStatus::noDevice);
    }
}

namespace {
constexpr const char *rowFormat = "%-10s %-15s %-25s %-24s %9s\n";
}

void printCompileTimesHeading(const Machine &machine) {
    std::printf("device  %s (%s), compiled by %s\n", machine.device.c_str(), machine.driver.c_str(), machine.processor.c_str());
    std::printf("times   CPU seconds of the process, of creating a pipeline and its first dispatch, less its second\n\n");
    std::printf(rowFormat, "limits", "kernel", "problem", "shader", "seconds");
}

void printCompileTime(const CompileTime &time) {
    const std::string problem =
        time.shape + " " + time.dtype + " D" + std::to_string(time.headDim) + (time.options.empty() ? "" : " " + time.options);
    std::printf(rowFormat, time.limits.c_str(), time.kernel.c_str(), problem.c_str(), time.shader.c_str(),
                decimals(time.seconds, 3).c_str());
    std::fflush(stdout);
}

void printCompileTimesEnd(const std::vector<CompileTime> &times) {
    std::map<std::string, const CompileTime *> slowest;
    for (const CompileTime &time : times) {
        const CompileTime *&most = slowest[time.kernel + ", " + time.limits];
        if (!most || most->seconds < time.seconds) most = &time;
    }
    std::printf("\n%zu pipelines, each under the first problem that has it; the slowest of each kernel:\n", times.size());
    for (const auto &[kernel, time] : slowest)
        std::printf("  %-28s %9s s, %s %s D%u %s\n", kernel.c_str(), decimals(time->seconds, 3).c_str(), time->shape.c_str(),
                    time->dtype.c_str(), time->headDim, time->options.c_str());
}

std::string compileTimesCsvHeader() {
    return "date,commit,processor,device,driver,limits,kernel,shape,dtype,head_dim,options,shader,cpu_seconds\n";
}

std::string compileTimesCsvRow(const Machine &machine, const CompileTime &time) {
    return csvLine({machine.date, machine.commit, machine.processor, machine.device, machine.driver, time.limits, time.kernel, time.shape,
                    time.dtype, std::to_string(time.headDim), time.options, time.shader, decimals(time.seconds, 3)});
}

} // namespace vkattn::bench
