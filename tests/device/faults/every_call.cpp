#include "every_call.hpp"
#include "support/extent.hpp"

#include <gtest/gtest.h>
#include <vulkan/vulkan.h>

#include <chrono>
#include <span>
#include <vector>

namespace vkattn::test {

bool isTolerated(const std::string &function) {
    static const std::set<std::string> functions = {
        "vkEnumerateInstanceExtensionProperties",            // nothing is enabled then
        "vkEnumerateDeviceExtensionProperties",              // nothing is enabled then
        "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR", // no matrix units
        "vkGetPhysicalDeviceCooperativeMatrixFlexibleDimensionsPropertiesNV",
        "vkSetDebugUtilsObjectNameEXT", // a name less
        "vkCreateQueryPool",            // wall clock
        "vkGetQueryPoolResults",        // wall clock, unless the device is lost
        "vkDeviceWaitIdle",             // before objects are destroyed
    };
    return functions.contains(function);
}

vkattn_result codeOf(VkResult error) {
    switch (error) {
    case VK_ERROR_OUT_OF_HOST_MEMORY:
        return VKATTN_ERROR_OUT_OF_HOST_MEMORY;
    case VK_ERROR_OUT_OF_DEVICE_MEMORY:
    case VK_ERROR_OUT_OF_POOL_MEMORY:
    case VK_ERROR_FRAGMENTED_POOL:
        return VKATTN_ERROR_OUT_OF_DEVICE_MEMORY;
    case VK_ERROR_DEVICE_LOST:
        return VKATTN_ERROR_DEVICE_LOST;
    default:
        return VKATTN_ERROR_VULKAN;
    }
}

std::string Trial::text() const {
    return function.empty() ? "no call fails" : function + " answers " + errorName(error) + " during " + phase;
}

namespace {

// While one instance lives the loader keeps drivers loaded: a tenth of a second a trial.
class LoadedDrivers {
  public:
    LoadedDrivers() {
        VkInstanceCreateInfo info{};
        info.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
        if (vkCreateInstance(&info, nullptr, &instance_) != VK_SUCCESS) instance_ = VK_NULL_HANDLE;
    }
    ~LoadedDrivers() {
        if (instance_) vkDestroyInstance(instance_, nullptr);
    }
    LoadedDrivers(const LoadedDrivers &) = delete;
    LoadedDrivers &operator=(const LoadedDrivers &) = delete;

  private:
    VkInstance instance_ = VK_NULL_HANDLE;
};

// One of the errors that a call may return, drawn; all of them at full extent.
std::vector<VkResult> drawnErrorsOf(const char *function, Random &random) {
    const std::span<const VkResult> all = errorsOf(function);
    std::vector<VkResult> errors(all.begin(), all.end());
    if (!fullExtent() && errors.size() > 1) errors = {errors[random() % errors.size()]};
    return errors;
}

void runTrial(const Trial &trial, const std::function<void(const Trial &)> &scenario) {
    scenario(trial);
    EXPECT_EQ(ledger.leaks(), "") << trial.text();
    for (const std::string &error : ledger.errors) ADD_FAILURE() << error << ": " << trial.text();
}

} // namespace

void failEveryCall(const std::string &name, const std::function<void(const Trial &)> &scenario) {
    const auto start = std::chrono::steady_clock::now();
    const LoadedDrivers loaded;
    ledger.reset();
    runTrial({}, scenario);
    for (const std::string &function : ledger.unwrapped)
        ADD_FAILURE() << "tests/support/vulkan/faulty_vulkan.cpp has no wrapper of " << function;
    EXPECT_GT(ledger.made, 0u);
    const std::vector<Ledger::Call> calls = ledger.calls;
    std::set<std::string> functions;
    uint64_t failures = 0;
    Random random = randomFor(name);
    for (uint64_t n = 0; n < calls.size(); ++n)
        for (const VkResult error : drawnErrorsOf(calls[n].function, random)) {
            const Trial trial = {calls[n].function, calls[n].phase, error};
            SCOPED_TRACE("call " + std::to_string(n) + ": " + trial.text());
            ledger.reset();
            ledger.failAt = n;
            ledger.failWith = error;
            runTrial(trial, scenario);
            EXPECT_TRUE(ledger.struck) << "the calls are not the same every time";
            functions.insert(calls[n].function);
            ++failures;
            if (testing::Test::HasFatalFailure()) return;
        }
    ledger.reset();
    std::printf("faults: %s: %zu calls of %zu functions failed in %llu ways, in %.1f s\n", name.c_str(), calls.size(), functions.size(),
                static_cast<unsigned long long>(failures), std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
}

} // namespace vkattn::test
