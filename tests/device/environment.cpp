#include "environment.hpp"

#include <cstdlib>

namespace vkattn::test {
namespace {

std::unique_ptr<conform::DeviceUnderTest> &benchHolder() {
    static std::unique_ptr<conform::DeviceUnderTest> bench;
    return bench;
}

// Of all runtimes that were closed.
Runtime::CompileStatistics compiled;

} // namespace

conform::DeviceUnderTest &bench() {
    std::unique_ptr<conform::DeviceUnderTest> &held = benchHolder();
    if (held) return *held;
    held = std::make_unique<conform::DeviceUnderTest>(RuntimeOptions{});
    static bool said = false;
    if (const DeviceInfo *device = held->device()) {
        if (!said) std::printf("full limits: %s, %s\n", device->name.c_str(), device->driver.c_str());
        said = true;
    } else {
        ADD_FAILURE() << "no device to test: " << held->failure();
    }
    return *held;
}

RuntimeOptions optionsFor(conform::Limits limits) {
    const DeviceInfo *device = bench().device();
    return conform::optionsFor({}, conform::testLayouts()[0], limits, device ? device->caps : vkattn_caps{});
}

Runtime *runtimeFor(conform::Limits limits) {
    std::string why;
    Runtime *runtime = bench().runtime(conform::testLayouts()[0], limits, why);
    if (!runtime) ADD_FAILURE() << "no device to test: " << why;
    return runtime;
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
    if (compiled.pipelines) std::printf("%u pipelines compiled in %.2f s\n", compiled.pipelines, compiled.seconds);
}

void closeRuntimes() {
    if (!benchHolder()) return;
    const Runtime::CompileStatistics statistics = benchHolder()->compileStatistics();
    compiled.pipelines += statistics.pipelines, compiled.seconds += statistics.seconds;
    benchHolder().reset();
}

} // namespace vkattn::test
