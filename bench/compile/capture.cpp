#include "compile/capture.hpp"

#include "device/vulkan_device.hpp"
#include "failure.hpp"
#include "text.hpp"

#include <cstring>

namespace vkattn::bench {
namespace {

constexpr const char *wantedExtensions[] = {VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME};

// The one report under way: Vulkan's functions have no user data.
std::vector<CompiledPipeline> *captured = nullptr;

Statistic statisticOf(const std::string &executable, const VkPipelineExecutableStatisticKHR &given) {
    Statistic s{executable, given.name, given.description, {}, {}};
    switch (given.format) {
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_BOOL32_KHR:
        s.text = given.value.b32 ? "true" : "false";
        break;
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_INT64_KHR:
        s.text = std::to_string(given.value.i64);
        if (given.value.i64 >= 0) s.whole = static_cast<uint64_t>(given.value.i64);
        break;
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_UINT64_KHR:
        s.text = std::to_string(given.value.u64);
        s.whole = given.value.u64;
        break;
    default:
        s.text = shortNumber(given.value.f64);
        break;
    }
    return s;
}

std::vector<VkPipelineExecutableStatisticKHR> statisticsOf(VkDevice device, const VkPipelineExecutableInfoKHR &info) {
    uint32_t count = 0;
    if (vkGetPipelineExecutableStatisticsKHR(device, &info, &count, nullptr) != VK_SUCCESS) return {};
    VkPipelineExecutableStatisticKHR empty{};
    empty.sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_STATISTIC_KHR;
    std::vector<VkPipelineExecutableStatisticKHR> list(count, empty);
    if (vkGetPipelineExecutableStatisticsKHR(device, &info, &count, list.data()) < 0) return {};
    list.resize(count);
    return list;
}

std::vector<Representation> representationsOf(VkDevice device, const VkPipelineExecutableInfoKHR &info) {
    uint32_t count = 0;
    if (vkGetPipelineExecutableInternalRepresentationsKHR(device, &info, &count, nullptr) != VK_SUCCESS) return {};
    VkPipelineExecutableInternalRepresentationKHR empty{};
    empty.sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INTERNAL_REPRESENTATION_KHR;
    std::vector<VkPipelineExecutableInternalRepresentationKHR> list(count, empty);
    // The first call returns the sizes.
    if (vkGetPipelineExecutableInternalRepresentationsKHR(device, &info, &count, list.data()) < 0) return {};
    std::vector<std::vector<char>> room(count);
    for (uint32_t n = 0; n < count; ++n) {
        room[n].resize(list[n].dataSize);
        list[n].pData = room[n].data();
    }
    if (vkGetPipelineExecutableInternalRepresentationsKHR(device, &info, &count, list.data()) < 0) return {};
    std::vector<Representation> texts;
    for (uint32_t n = 0; n < count; ++n)
        if (list[n].isText && list[n].dataSize)
            texts.push_back({list[n].name, std::string(room[n].data(), strnlen(room[n].data(), list[n].dataSize))});
    return texts;
}

CompiledPipeline read(VkDevice device, VkPipeline pipeline) {
    CompiledPipeline compiled;
    VkPipelineInfoKHR whole{};
    whole.sType = VK_STRUCTURE_TYPE_PIPELINE_INFO_KHR;
    whole.pipeline = pipeline;
    uint32_t count = 0;
    if (vkGetPipelineExecutablePropertiesKHR(device, &whole, &count, nullptr) != VK_SUCCESS) return compiled;
    VkPipelineExecutablePropertiesKHR empty{};
    empty.sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_PROPERTIES_KHR;
    std::vector<VkPipelineExecutablePropertiesKHR> executables(count, empty);
    if (vkGetPipelineExecutablePropertiesKHR(device, &whole, &count, executables.data()) < 0) return compiled;
    for (uint32_t n = 0; n < count; ++n) {
        VkPipelineExecutableInfoKHR info{};
        info.sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INFO_KHR;
        info.pipeline = pipeline;
        info.executableIndex = n;
        compiled.statistics.push_back(
            {executables[n].name, "Subgroup size", "", std::to_string(executables[n].subgroupSize), executables[n].subgroupSize});
        for (const VkPipelineExecutableStatisticKHR &each : statisticsOf(device, info))
            compiled.statistics.push_back(statisticOf(executables[n].name, each));
        for (Representation &each : representationsOf(device, info)) {
            // The compiler's last intermediate code and the assembly show the same instructions.
            // The text with more of them counts.
            MatrixCounts found = matrixInstructions(each.text);
            if (total(found) > total(compiled.matrix)) compiled.matrix = std::move(found);
            compiled.representations.push_back(std::move(each));
        }
    }
    compiled.figures = figuresOf(compiled.statistics);
    if (!compiled.representations.empty()) compiled.figures[Figure::matrixInstructions] = total(compiled.matrix);
    return compiled;
}

VKAPI_ATTR VkResult VKAPI_CALL createAndRead(VkDevice device, VkPipelineCache cache, uint32_t count,
                                             const VkComputePipelineCreateInfo *infos, const VkAllocationCallbacks *allocator,
                                             VkPipeline *pipelines) {
    std::vector<VkComputePipelineCreateInfo> own(infos, infos + count);
    for (VkComputePipelineCreateInfo &info : own)
        info.flags |= VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR | VK_PIPELINE_CREATE_CAPTURE_INTERNAL_REPRESENTATIONS_BIT_KHR;
    const VkResult result = vkCreateComputePipelines(device, cache, count, own.data(), allocator, pipelines);
    for (uint32_t n = 0; result == VK_SUCCESS && captured && n < count; ++n) captured->push_back(read(device, pipelines[n]));
    return result;
}

// The library names each pipeline after its shader, right after creating it.
VKAPI_ATTR VkResult VKAPI_CALL readName(VkDevice, const VkDebugUtilsObjectNameInfoEXT *info) {
    constexpr std::string_view prefix = "vkattn ";
    if (captured && !captured->empty() && info->objectType == VK_OBJECT_TYPE_PIPELINE &&
        std::string_view(info->pObjectName).starts_with(prefix))
        captured->back().shader = info->pObjectName + prefix.size();
    return VK_SUCCESS;
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL deviceProcAddr(VkDevice device, const char *name) {
    if (std::strcmp(name, "vkCreateComputePipelines") == 0) return reinterpret_cast<PFN_vkVoidFunction>(createAndRead);
    return vkGetDeviceProcAddr(device, name);
}
VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL instanceProcAddr(VkInstance instance, const char *name) {
    if (std::strcmp(name, "vkGetDeviceProcAddr") == 0) return reinterpret_cast<PFN_vkVoidFunction>(deviceProcAddr);
    if (std::strcmp(name, "vkSetDebugUtilsObjectNameEXT") == 0) return reinterpret_cast<PFN_vkVoidFunction>(readName);
    return vkGetInstanceProcAddr(instance, name);
}

} // namespace

class CompileCapture::Device {
  public:
    Device(const DeviceInfo &info, const std::string &tuning) : vulkan_(info, wantedExtensions, VulkanDevice::Features::library) {
        const auto isIt = [](std::string_view name) { return name == VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME; };
        if (std::none_of(vulkan_.extensions().begin(), vulkan_.extensions().end(), isIt))
            throw Failure(info.name + " (" + info.driver +
                              ") lacks VK_KHR_pipeline_executable_properties, by which a driver tells what it has compiled",
                          ExitStatus::noDevice);
        vkattn_host host = vulkan_.host(tuning);
        host.getInstanceProcAddr = instanceProcAddr;
        host.debugLabels = 1;
        vkattn_diagnostic why{};
        if (context_.create(host, &why) != VKATTN_OK) throw Failure(why.message, ExitStatus::failed);
    }

    [[nodiscard]] Outcome compile(const vkattn_operation &operation) {
        Outcome outcome;
        vkattn_diagnostic why{};
        captured = &outcome.pipelines;
        outcome.result = context_.prewarm(span<const vkattn_operation>(&operation, 1), &why);
        captured = nullptr;
        if (outcome.result != VKATTN_OK) outcome.why = why.message;
        return outcome;
    }

  private:
    VulkanDevice vulkan_;
    Context context_; // must be destroyed before the device
};

CompileCapture::CompileCapture(const DeviceInfo &device, const std::string &tuning) {
    try {
        device_ = std::make_unique<Device>(device, tuning);
    } catch (const VulkanError &error) {
        throw Failure(std::string("--compile-report needs a device of its own: ") + error.what(), ExitStatus::noDevice);
    }
}

CompileCapture::~CompileCapture() = default;

CompileCapture::Outcome CompileCapture::compile(const vkattn_operation &operation) {
    return device_->compile(operation);
}

} // namespace vkattn::bench
