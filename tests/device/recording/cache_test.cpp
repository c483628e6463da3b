// Pipeline caches of a real driver, and that a prewarmed pipeline needs no compiling at its first
// dispatch.
#include "device/environment.hpp"
#include "vkattn/vkattn.hpp"

#include <vulkan/vulkan.h>

#include <chrono>
#include <cstdlib>

using namespace vkattn;
using namespace vkattn::test;

namespace {

using Bytes = std::vector<unsigned char>;

// Instance and device: nothing is computed.
class Bare {
  public:
    Bare() {
        VkInstanceCreateInfo instanceInfo{};
        instanceInfo.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
        if (vkCreateInstance(&instanceInfo, nullptr, &instance_)) return;
        uint32_t count = 1;
        vkEnumeratePhysicalDevices(instance_, &count, &physicalDevice_);
        if (!count) return;
        const float priority = 1;
        VkDeviceQueueCreateInfo queueInfo{};
        queueInfo.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO;
        queueInfo.queueCount = 1;
        queueInfo.pQueuePriorities = &priority;
        VkDeviceCreateInfo deviceInfo{};
        deviceInfo.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
        deviceInfo.queueCreateInfoCount = 1;
        deviceInfo.pQueueCreateInfos = &queueInfo;
        if (vkCreateDevice(physicalDevice_, &deviceInfo, nullptr, &device_)) return;
        host.structSize = sizeof host;
        host.instance = instance_;
        host.physicalDevice = physicalDevice_;
        host.device = device_;
        host.getInstanceProcAddr = vkGetInstanceProcAddr;
        ready = true;
    }
    ~Bare() {
        if (device_) vkDestroyDevice(device_, nullptr);
        if (instance_) vkDestroyInstance(instance_, nullptr);
    }
    Bare(const Bare &) = delete;
    Bare &operator=(const Bare &) = delete;

    bool ready = false;
    vkattn_host host{};

  private:
    VkInstance instance_ = VK_NULL_HANDLE;
    VkPhysicalDevice physicalDevice_ = VK_NULL_HANDLE;
    VkDevice device_ = VK_NULL_HANDLE;
};

Bytes exported(const Context &context) {
    size_t bytes = 0;
    vkattn_diagnostic why{};
    EXPECT_EQ(vkattnExportCache(context.handle(), &bytes, nullptr, &why), VKATTN_OK) << why.message;
    Bytes data(bytes);
    EXPECT_EQ(vkattnExportCache(context.handle(), &bytes, data.data(), &why), VKATTN_OK) << why.message;
    data.resize(bytes);
    return data;
}

double secondsSince(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

} // namespace

TEST(Cache, ofThisDriverIsTakenBack) {
    const vkattn_layout t = packed(VKATTN_F32, 1, 2, 8, 16);
    vkattn_problem p = problem(t, t, t, t);
    p.kernel = VKATTN_KERNEL_STAGED;
    vkattn_diagnostic why{};
    Bytes blob;
    {
        Bare first;
        ASSERT_TRUE(first.ready);
        Context context;
        ASSERT_EQ(context.create(first.host, &why), VKATTN_OK) << why.message;
        ASSERT_EQ(context.prewarm({&p, 1}, &why), VKATTN_OK) << why.message;
        blob = exported(context);
    }
    std::printf("the driver's cache of %zu bytes\n", blob.size());
    Bare second;
    ASSERT_TRUE(second.ready);
    Context context;
    ASSERT_EQ(context.create(second.host, &why), VKATTN_OK) << why.message;
    for (const size_t at : {size_t{28}, size_t{40}, blob.size() - 1}) {
        Bytes damaged = blob;
        damaged[at] ^= 4;
        EXPECT_EQ(vkattnImportCache(context.handle(), damaged.size(), damaged.data(), &why), VKATTN_CACHE_REJECTED);
        EXPECT_NE(std::string(why.message).find("damaged"), std::string::npos) << why.message;
    }
    EXPECT_EQ(vkattnImportCache(context.handle(), blob.size(), blob.data(), &why), VKATTN_OK) << why.message;
    EXPECT_EQ(context.prewarm({&p, 1}, &why), VKATTN_OK) << why.message;
    EXPECT_GE(exported(context).size(), blob.size()) << "what was imported is exported too";
}

TEST(Cache, prewarmedPipelinesDoNotCompileAtTheFirstDispatch) {
    // Mesa would find on disk what an earlier run has compiled.
    setenv("MESA_SHADER_CACHE_DISABLE", "1", 1);
    Case c;
    c.name = "prewarm";
    c.batch = 2, c.heads = c.kvHeads = 2, c.queryTokens = 96, c.keyTokens = 160, c.headDim = c.valueDim = 64;
    c.causal = true, c.softcap = 20, c.lse = true;
    c.kernel = VKATTN_KERNEL_FLASH;
    Random random = randomFor(c.name);
    const auto in = makeCaseData(c, random);
    const auto open = [&] {
        std::string message;
        OpenStatus status;
        auto runtime = Runtime::open(optionsFor(Limits::full), &status, &message);
        EXPECT_TRUE(runtime) << message;
        return runtime;
    };
    const auto timed = [&](Runtime &runtime) {
        const auto start = std::chrono::steady_clock::now();
        const RunResult result = runtime.run(in->problem, in->operands);
        EXPECT_EQ(result.status, VKATTN_OK) << result.message;
        return secondsSince(start);
    };
    double cold = 0, warm = 0, prewarmed = 0;
    for (int attempt = 0; attempt < 3; ++attempt) { // this process may have to wait for others
        const auto first = open(), second = open();
        if (!first || !second) break;
        cold = timed(*first);
        warm = timed(*first);
        std::string why;
        const auto start = std::chrono::steady_clock::now();
        EXPECT_EQ(second->prewarm({&in->problem, 1}, &why), VKATTN_OK) << why;
        const double compiling = secondsSince(start);
        prewarmed = timed(*second);
        std::printf("first run %.1f ms, second %.1f ms; prewarming %.1f ms, first run after it %.1f ms\n", cold * 1e3, warm * 1e3,
                    compiling * 1e3, prewarmed * 1e3);
        const std::string wrong = runAndCheck(*second, *in);
        EXPECT_EQ(wrong, "") << "after a warm-up";
        if (prewarmed < warm + (cold - warm) / 4) break;
    }
    unsetenv("MESA_SHADER_CACHE_DISABLE");
    EXPECT_LT(prewarmed, warm + (cold - warm) / 4);
    EXPECT_GT(cold, 2 * warm) << "compiling is too quick here for this test to tell: take a larger tile";
}
