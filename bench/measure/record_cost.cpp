#include "measure/record_cost.hpp"

#include "device/vulkan_device.hpp"
#include "failure.hpp"
#include "report/csv.hpp"
#include "text.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

namespace vkattn::bench {
namespace {

constexpr uint32_t callsInBatch = 32;
constexpr double secondsToMeasure = 0.4;
constexpr const char *wantedExtensions[] = {"VK_KHR_push_descriptor", "VK_KHR_shader_float_controls"};

// A Vulkan whose recording functions do nothing. All other functions are the device's own: plans
// and pipelines are the same.
VKAPI_ATTR void VKAPI_CALL idleBindPipeline(VkCommandBuffer, VkPipelineBindPoint, VkPipeline) {}
VKAPI_ATTR void VKAPI_CALL idleBindSets(VkCommandBuffer, VkPipelineBindPoint, VkPipelineLayout, uint32_t, uint32_t, const VkDescriptorSet *,
                                        uint32_t, const uint32_t *) {}
VKAPI_ATTR void VKAPI_CALL idlePushDescriptors(VkCommandBuffer, VkPipelineBindPoint, VkPipelineLayout, uint32_t, uint32_t,
                                               const VkWriteDescriptorSet *) {}
VKAPI_ATTR void VKAPI_CALL idlePushConstants(VkCommandBuffer, VkPipelineLayout, VkShaderStageFlags, uint32_t, uint32_t, const void *) {}
VKAPI_ATTR void VKAPI_CALL idleDispatch(VkCommandBuffer, uint32_t, uint32_t, uint32_t) {}
VKAPI_ATTR void VKAPI_CALL idleBarrier(VkCommandBuffer, VkPipelineStageFlags, VkPipelineStageFlags, VkDependencyFlags, uint32_t,
                                       const VkMemoryBarrier *, uint32_t, const VkBufferMemoryBarrier *, uint32_t,
                                       const VkImageMemoryBarrier *) {}
VKAPI_ATTR VkResult VKAPI_CALL idleAllocateSets(VkDevice, const VkDescriptorSetAllocateInfo *info, VkDescriptorSet *sets) {
    std::fill_n(sets, info->descriptorSetCount, VkDescriptorSet{});
    return VK_SUCCESS;
}
VKAPI_ATTR void VKAPI_CALL idleUpdateSets(VkDevice, uint32_t, const VkWriteDescriptorSet *, uint32_t, const VkCopyDescriptorSet *) {}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL idleDeviceProcAddr(VkDevice device, const char *name) {
    const struct {
        const char *name;
        PFN_vkVoidFunction function;
    } idle[] = {{"vkCmdBindPipeline", reinterpret_cast<PFN_vkVoidFunction>(idleBindPipeline)},
                {"vkCmdBindDescriptorSets", reinterpret_cast<PFN_vkVoidFunction>(idleBindSets)},
                {"vkCmdPushDescriptorSetKHR", reinterpret_cast<PFN_vkVoidFunction>(idlePushDescriptors)},
                {"vkCmdPushConstants", reinterpret_cast<PFN_vkVoidFunction>(idlePushConstants)},
                {"vkCmdDispatch", reinterpret_cast<PFN_vkVoidFunction>(idleDispatch)},
                {"vkCmdPipelineBarrier", reinterpret_cast<PFN_vkVoidFunction>(idleBarrier)},
                {"vkAllocateDescriptorSets", reinterpret_cast<PFN_vkVoidFunction>(idleAllocateSets)},
                {"vkUpdateDescriptorSets", reinterpret_cast<PFN_vkVoidFunction>(idleUpdateSets)}};
    const PFN_vkVoidFunction real = vkGetDeviceProcAddr(device, name);
    for (const auto &each : idle)
        if (real && std::strcmp(each.name, name) == 0) return each.function;
    return real;
}
VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL idleInstanceProcAddr(VkInstance instance, const char *name) {
    if (std::strcmp(name, "vkGetDeviceProcAddr") == 0) return reinterpret_cast<PFN_vkVoidFunction>(idleDeviceProcAddr);
    return vkGetInstanceProcAddr(instance, name);
}

void check(vkattn_result result, const vkattn_diagnostic &why) {
    if (result != VKATTN_OK) throw Failure(why.message, ExitStatus::failed);
}

RecordCost::Times timesOf(std::vector<double> samples) {
    std::sort(samples.begin(), samples.end());
    return {samples[samples.size() / 2], samples.front()};
}

} // namespace

class RecordMeter::Device {
  public:
    explicit Device(const DeviceInfo &info) : vulkan(info, wantedExtensions) {}
    ~Device() {
        vulkan.release(memory);
        vkDestroyDescriptorPool(vulkan.handle(), pool, nullptr);
    }
    void makePool(const vkattn_requirements &needs) {
        vkDestroyDescriptorPool(vulkan.handle(), pool, nullptr);
        pool = VK_NULL_HANDLE;
        if (needs.descriptorSetCount == 0) return;
        const VkDescriptorPoolSize size{VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, needs.storageDescriptorCount * callsInBatch};
        VkDescriptorPoolCreateInfo info{};
        info.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO;
        info.maxSets = needs.descriptorSetCount * callsInBatch;
        info.poolSizeCount = 1;
        info.pPoolSizes = &size;
        if (vkCreateDescriptorPool(vulkan.handle(), &info, nullptr, &pool)) throw VulkanError("vkCreateDescriptorPool failed");
    }

    VulkanDevice vulkan;
    VulkanDevice::Buffer memory; // memory for all operands of a shape; nothing is ever computed
    VkDescriptorPool pool = VK_NULL_HANDLE;
};

RecordMeter::RecordMeter(const DeviceInfo &device) {
    try {
        device_ = std::make_unique<Device>(device);
    } catch (const VulkanError &error) {
        throw Failure(std::string("--record needs a device of its own: ") + error.what(), ExitStatus::noDevice);
    }
}

RecordMeter::~RecordMeter() = default;

RecordCost RecordMeter::measure(const Shape &shape, const Kernel &kernel, const std::string &tuning) {
    RecordCost cost{.shape = shape};
    const vkattn_problem problem = shape.problem(kernel.kernel);
    vkattn_diagnostic why{};
    for (const bool idle : {true, false}) {
        vkattn_host host = device_->vulkan.host(tuning);
        if (idle) host.getInstanceProcAddr = idleInstanceProcAddr;
        Context context;
        check(context.create(host, &why), why);
        vkattn_requirements needs{};
        check(context.query(problem, needs, &why), why);
        check(context.prewarm({&problem, 1}, &why), why);
        cost.kernel = needs.kernelName;
        cost.dispatches = needs.dispatchCount;
        cost.pushDescriptors = needs.descriptorSetCount == 0;
        device_->makePool(needs);

        std::vector<vkattn_binding> bindings;
        uint64_t end = 0;
        std::vector<vkattn_role> roles{VKATTN_Q, VKATTN_K, VKATTN_V, VKATTN_OUT, VKATTN_WORKSPACE};
        roles.insert(roles.end(), std::begin(ruleRoles), std::end(ruleRoles));
        for (const vkattn_role role : roles) {
            const uint64_t bytes = role == VKATTN_WORKSPACE ? needs.workspaceBytes : vkattnOperandBytes(&problem, role);
            if (bytes) bindings.push_back({role, VK_NULL_HANDLE, end, bytes});
            end += (bytes + 4095) / 4096 * 4096;
        }
        if (device_->memory.bytes < end) device_->vulkan.reserve(device_->memory, end);
        for (vkattn_binding &binding : bindings) binding.buffer = device_->memory.buffer;

        std::vector<double> samples;
        const auto start = std::chrono::steady_clock::now();
        const auto seconds = [](auto since) { return std::chrono::duration<double>(std::chrono::steady_clock::now() - since).count(); };
        for (cost.calls = 0; samples.size() < 8 || seconds(start) < secondsToMeasure; cost.calls += callsInBatch) {
            const VkCommandBuffer commands = device_->vulkan.startRecording();
            if (device_->pool) vkResetDescriptorPool(device_->vulkan.handle(), device_->pool, 0);
            const auto batch = std::chrono::steady_clock::now();
            for (uint32_t n = 0; n < callsInBatch; ++n) check(context.record(problem, commands, bindings, device_->pool, &why), why);
            samples.push_back(seconds(batch) / callsInBatch * 1e6);
        }
        (idle ? cost.own : cost.whole) = timesOf(samples);
    }
    return cost;
}

namespace {
constexpr const char *rowFormat = "%-27s %-7s %10s %9s %9s %9s %9s  %s\n";
}

void printRecordHeading(const Machine &machine) {
    std::printf("device  %s (%s), recorded by %s\n", machine.device.c_str(), machine.driver.c_str(), machine.processor.c_str());
    std::printf("times   CPU time of vkattnRecord, microseconds a call; own: with Vulkan functions that do nothing\n\n");
    std::printf(rowFormat, "shape", "kernel", "dispatches", "us", "min us", "own us", "own min", "descriptors");
}

void printRecordRow(const RecordCost &cost) {
    if (!cost.failure.empty()) {
        std::printf("%-27s failed: %s\n", cost.shape.name.c_str(), cost.failure.c_str());
    } else {
        std::printf(rowFormat, cost.shape.name.c_str(), cost.kernel.c_str(), std::to_string(cost.dispatches).c_str(),
                    shortNumber(cost.whole.median).c_str(), shortNumber(cost.whole.least).c_str(), shortNumber(cost.own.median).c_str(),
                    shortNumber(cost.own.least).c_str(), cost.pushDescriptors ? "pushed" : "of a pool");
    }
    static_cast<void>(std::fflush(stdout));
}

std::string recordCsvHeader() {
    return "date,commit,processor,cores,device,driver,shape,kernel,dtype,descriptors,dispatches,calls,us,min_us,own_us,own_min_us\n";
}

std::string recordCsvRow(const Machine &machine, const RecordCost &cost) {
    return csvLine({machine.date, machine.commit, machine.processor, std::to_string(machine.cores), machine.device, machine.driver,
                    cost.shape.name, cost.kernel, cost.shape.types->name, cost.pushDescriptors ? "pushed" : "pool",
                    std::to_string(cost.dispatches), std::to_string(cost.calls), decimals(cost.whole.median, 3),
                    decimals(cost.whole.least, 3), decimals(cost.own.median, 3), decimals(cost.own.least, 3)});
}

} // namespace vkattn::bench
