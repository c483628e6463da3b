#include "tool/info_command.hpp"

#include "program/byte_text.hpp"
#include "program/json_text.hpp"
#include "program/vulkan_version.hpp"
#include "tool/options/names.hpp"
#include "tool/verdicts.hpp"
#include "tool/version.hpp"

#include <vkattn/runtime.hpp>

#include <iomanip>
#include <iostream>
#include <thread>

namespace vkattn::tool {
using namespace program;
namespace {

constexpr struct {
    vkattn_matrix2_bits bit;
    const char *name;
} matrix2Names[] = {{VKATTN_MATRIX2_FLEXIBLE, "flexible"},         {VKATTN_MATRIX2_REDUCTIONS, "reductions"},
                    {VKATTN_MATRIX2_CONVERSIONS, "conversions"},   {VKATTN_MATRIX2_PER_ELEMENT, "per element"},
                    {VKATTN_MATRIX2_TENSOR_LOADS, "tensor loads"}, {VKATTN_MATRIX2_WORKGROUP_SCOPE, "workgroup scope"}};

Json matrixUnits(const vkattn_caps &caps) {
    Json shapes = Json::array(), extras = Json::array();
    for (uint32_t n = 0; n < caps.matrixShapeCount; ++n) {
        const vkattn_matrix_shape &s = caps.matrixShapes[n];
        shapes.push_back({{"m", s.m}, {"n", s.n}, {"k", s.k}, {"inputs", dtypeNames[s.inputs]}});
    }
    for (const auto &each : matrix2Names)
        if (caps.matrix2 & each.bit) extras.push_back(each.name);
    return {{"shapes", std::move(shapes)},
            {"matrix2", std::move(extras)},
            {"granularity", caps.matrix2MaxDimension ? Json(caps.matrix2Granularity) : Json()},
            {"maxDimension", caps.matrix2MaxDimension ? Json(caps.matrix2MaxDimension) : Json()}};
}

constexpr const char *verdictNames[] = {"trusted", "slow", "wrong"};

Json toJson(const DeviceInfo &device, const std::string &verdictFile) {
    const vkattn_caps &caps = device.caps;
    Json verdicts = Json::object();
    for (const KernelVerdict &each : rememberedVerdicts(verdictFile, device)) verdicts[each.kernel] = verdictNames[each.verdict];
    Json kernels = Json::array();
    for (const KernelSupport &kernel : device.kernels)
        kernels.push_back(
            {{"name", kernel.kernel}, {"available", kernel.available}, {"reason", kernel.reason.empty() ? Json() : Json(kernel.reason)}});
    return {{"index", device.index},
            {"name", device.name},
            {"type", deviceTypeName(device.type)},
            {"driver", device.driver},
            {"vendorId", device.vendorId},
            {"deviceId", device.deviceId},
            {"apiVersion", vulkanVersionText(device.apiVersion)},
            {"deviceLocalBytes", device.deviceLocalBytes},
            {"limits",
             {{"maxAllocationBytes", device.maxAllocationBytes},
              {"maxStorageBufferRange", caps.maxStorageBufferRange},
              {"minStorageBufferOffsetAlignment", caps.minStorageBufferOffsetAlignment},
              {"maxStorageBuffersPerStage", caps.maxStorageBuffersPerStage},
              {"maxPushConstantsBytes", caps.maxPushConstantsBytes},
              {"maxWorkgroupInvocations", caps.maxWorkgroupInvocations},
              {"maxWorkgroupSize", caps.maxWorkgroupSize},
              {"maxWorkgroupCount", caps.maxWorkgroupCount},
              {"maxSharedMemoryBytes", caps.maxSharedMemoryBytes},
              {"subgroupSize", caps.subgroupSize > 0 ? Json(caps.subgroupSize) : Json()},
              {"minSubgroupSize", caps.minSubgroupSize > 0 ? Json(caps.minSubgroupSize) : Json()},
              {"maxSubgroupSize", caps.maxSubgroupSize > 0 ? Json(caps.maxSubgroupSize) : Json()}}},
            {"features",
             {{"timestamps", device.timestamps},
              {"storage16Bit", device.storage16Bit},
              {"shaderFloat16", device.shaderFloat16},
              {"cooperativeMatrix", device.cooperativeMatrix},
              {"pushDescriptors", caps.pushDescriptors != 0},
              {"subgroupShuffle", caps.subgroupShuffle != 0},
              {"subgroupClustered", caps.subgroupClustered != 0},
              {"fullSubgroups", caps.fullSubgroups != 0},
              {"floatControlsNan", caps.floatControlsNan != 0}}},
            {"matrixUnits", matrixUnits(caps)},
            {"kernels", std::move(kernels)},
            {"selfTests", std::move(verdicts)}};
}

// One aligned line of a block.
std::ostream &row(const char *label) {
    return std::cout << "  " << std::left << std::setw(16) << label;
}

std::string triple(const uint32_t (&value)[3]) {
    return std::to_string(value[0]) + " x " + std::to_string(value[1]) + " x " + std::to_string(value[2]);
}

const char *yesNo(bool value) {
    return value ? "yes" : "no";
}

std::string matrixText(const vkattn_caps &caps) {
    if (caps.matrixShapeCount == 0) return "none that the kernels can use";
    std::string text;
    for (uint32_t n = 0; n < caps.matrixShapeCount; ++n) {
        const vkattn_matrix_shape &s = caps.matrixShapes[n];
        text += (n ? ", " : "") + std::to_string(s.m) + "x" + std::to_string(s.n) + "x" + std::to_string(s.k) + " " + dtypeNames[s.inputs];
    }
    const char *before = "; NV2: ";
    for (const auto &each : matrix2Names) {
        if (!(caps.matrix2 & each.bit)) continue;
        text += std::string(before) + each.name;
        before = ", ";
        if (each.bit == VKATTN_MATRIX2_FLEXIBLE && caps.matrix2MaxDimension)
            text += " (steps of " + triple(caps.matrix2Granularity) + ", up to " + std::to_string(caps.matrix2MaxDimension) + ")";
    }
    return text;
}

std::string subgroupText(const vkattn_caps &caps) {
    if (caps.subgroupSize == 0) return "width unknown";
    std::string text = std::to_string(caps.subgroupSize) + " wide";
    if (caps.minSubgroupSize < caps.maxSubgroupSize)
        text += " (" + std::to_string(caps.minSubgroupSize) + " to " + std::to_string(caps.maxSubgroupSize) + " on request)";
    return text;
}

void printKernel(const std::string &name, bool available, const std::string &reason) {
    row("kernel") << std::setw(14) << name << (available ? " available" : " not available") << (reason.empty() ? "" : ": ") << reason
                  << "\n";
}

void printDevice(const DeviceInfo &device, const std::string &verdictFile) {
    const vkattn_caps &caps = device.caps;
    std::cout << "device " << device.index << ": " << device.name << "\n";
    row("type") << deviceTypeName(device.type) << "\n";
    row("driver") << device.driver << "\n";
    row("Vulkan") << vulkanVersionText(device.apiVersion) << std::hex << " (vendor 0x" << device.vendorId << ", device 0x"
                  << device.deviceId << std::dec << ")\n";
    row("memory") << byteText(device.deviceLocalBytes) << " device-local, allocations up to " << byteText(device.maxAllocationBytes)
                  << "\n";
    row("storage buffers") << byteText(caps.maxStorageBufferRange) << " each, " << caps.maxStorageBuffersPerStage
                           << " per stage, offsets in steps of " << caps.minStorageBufferOffsetAlignment << "\n";
    row("workgroups") << caps.maxWorkgroupInvocations << " invocations, up to " << triple(caps.maxWorkgroupSize) << "; "
                      << triple(caps.maxWorkgroupCount) << " of them\n";
    row("shared memory") << byteText(caps.maxSharedMemoryBytes) << "\n";
    row("push constants") << caps.maxPushConstantsBytes << " bytes; push descriptors: " << yesNo(caps.pushDescriptors != 0) << "\n";
    row("subgroups") << subgroupText(caps) << ", shuffles: " << yesNo(caps.subgroupShuffle != 0)
                     << ", clustered: " << yesNo(caps.subgroupClustered != 0) << ", whole: " << yesNo(caps.fullSubgroups != 0) << "\n";
    row("16 bit") << "storage: " << yesNo(device.storage16Bit) << ", arithmetic: " << yesNo(device.shaderFloat16)
                  << ", cooperative matrices: " << yesNo(device.cooperativeMatrix) << "\n";
    row("matrix units") << matrixText(caps) << "\n";
    row("timestamps") << (device.timestamps ? "yes" : "no, times are wall clock") << "\n";
    row("NaN, infinity") << "in a visible element reach their own rows only: "
                         << (caps.floatControlsNan != 0 ? "guaranteed" : "not guaranteed") << "\n";
    for (const KernelSupport &kernel : device.kernels) printKernel(kernel.kernel, kernel.available, kernel.reason);
    static constexpr const char *meanings[] = {"right, and not slower than the others", "right, but slower: not chosen unless asked for",
                                               "computes wrongly on this device and driver: refused"};
    for (const KernelVerdict &each : rememberedVerdicts(verdictFile, device)) {
        const char *halves = each.verdict == VKATTN_VERDICT_TRUSTED
                                 ? "unpackHalf2x16 keeps denormals: flash and decode unpack K and V by it"
                                 : "unpackHalf2x16 loses denormals: K and V are unpacked in integers";
        row("self-test") << std::setw(14) << each.kernel << " " << (each.kernel == "halves" ? halves : meanings[each.verdict]) << "\n";
    }
    std::cout << "\n";
}

} // namespace

ExitStatus infoCommand(const InfoArguments &arguments) {
    const std::string verdicts = verdictFile(arguments.verdicts);
    std::string whyEmpty;
    const std::vector<DeviceInfo> devices = Runtime::devices(&whyEmpty);
    if (devices.empty() && whyEmpty.empty()) whyEmpty = "no Vulkan device found";
    const unsigned cores = std::thread::hardware_concurrency();
    if (arguments.json) {
        Json list = Json::array();
        for (const DeviceInfo &device : devices) list.push_back(toJson(device, verdicts));
        Json cpuKernels = Json::array();
        cpuKernels.push_back({{"name", "cpu"}, {"available", true}, {"reason", nullptr}});
        const Json json = {{"version", versionText()},
                           {"devices", std::move(list)},
                           {"cpu", {{"name", "cpu"}, {"cores", cores}, {"kernels", std::move(cpuKernels)}}},
                           {"noVulkanReason", devices.empty() ? Json(whyEmpty) : Json()}};
        std::cout << jsonText(json, 2) << "\n";
        return ExitStatus::success;
    }
    std::cout << "vkattn " << versionText() << "\n\n";
    for (const DeviceInfo &device : devices) printDevice(device, verdicts);
    if (devices.empty()) std::cout << "no Vulkan device: " << whyEmpty << "\n\n";
    std::cout << "cpu\n";
    row("cores") << cores << "\n";
    printKernel("cpu", true, "takes every problem, without Vulkan");
    return ExitStatus::success;
}

} // namespace vkattn::tool
