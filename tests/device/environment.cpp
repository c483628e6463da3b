#include "environment.hpp"

#include <cstdlib>
#include <map>

namespace vkattn::test {
namespace {

std::map<std::string, std::unique_ptr<Runtime>> &runtimes() {
    static std::map<std::string, std::unique_ptr<Runtime>> map;
    return map;
}

const char *name(Limits limits) {
    return limits == Limits::full ? "full limits" : limits == Limits::weak ? "weak limits" : "tiny limits";
}

} // namespace

RuntimeOptions optionsFor(Limits limits) {
    RuntimeOptions options;
    options.allowFallback = false;
    options.selfTest = 0; // these tests compare every result themselves (and verdicts_test.cpp the runtime's own)
    if (limits == Limits::full) return options;
    // The required limits of the Vulkan 1.0 specification, table "Required Limits".
    vkattn_caps caps{};
    caps.structSize = sizeof caps;
    caps.deviceType = VK_PHYSICAL_DEVICE_TYPE_OTHER;
    caps.maxStorageBufferRange = limits == Limits::weak ? 1u << 27 : 1u << 16;
    caps.minStorageBufferOffsetAlignment = 256;
    caps.maxStorageBuffersPerStage = 4;
    caps.maxPushConstantsBytes = 128;
    caps.maxWorkgroupInvocations = 128;
    caps.maxWorkgroupSize[0] = caps.maxWorkgroupSize[1] = 128;
    caps.maxWorkgroupSize[2] = 64;
    for (uint32_t &count : caps.maxWorkgroupCount) count = 65535;
    caps.maxSharedMemoryBytes = 16384;
    options.capsLimit = caps;
    if (limits == Limits::tiny) options.maxWorkspaceBytes = 16384;
    // Such a device gets the tiles of GPUs, which take minutes to compile where the device is the CPU.
    options.tuning = "vkattn-tuning 1\n"
                     "flash maxDim=512 dimLanes=4 rowLanes=4 rowsPerLane=2 keysPerLane=2\n"
                     "decode maxDim=512 dimLanes=4 keyLanes=4 rowsPerLane=2 keysPerLane=2\n";
    return options;
}

Runtime *runtimeFor(Limits limits) {
    return runtimeFor(name(limits), optionsFor(limits));
}

Runtime *runtimeFor(const std::string &name, const RuntimeOptions &options) {
    std::unique_ptr<Runtime> &runtime = runtimes()[name];
    if (!runtime) {
        OpenStatus status;
        std::string message;
        runtime = Runtime::open(options, &status, &message);
        if (!runtime)
            ADD_FAILURE() << "no device to test: " << message;
        else
            std::printf("%s: %s, %s\n", name.c_str(), runtime->device()->name.c_str(), runtime->device()->driver.c_str());
    }
    return runtime.get();
}

bool nothingToTest(std::string &why) {
    if (!std::getenv("VKATTN_TEST_SKIP_CPU_DEVICES")) return false;
    const std::vector<DeviceInfo> devices = Runtime::devices(&why);
    for (const DeviceInfo &device : devices)
        if (device.type != DeviceType::cpu) return false;
    why = "no Vulkan device but those of type CPU on this machine" + (why.empty() ? "" : " (" + why + ")");
    return true;
}

void printStatistics() {
    for (const auto &[name, runtime] : runtimes()) {
        if (!runtime) continue;
        const Runtime::CompileStatistics statistics = runtime->compileStatistics();
        std::printf("%s: %u pipelines compiled in %.2f s\n", name.c_str(), statistics.pipelines, statistics.seconds);
    }
}

void closeRuntimes() {
    runtimes().clear();
}

} // namespace vkattn::test
