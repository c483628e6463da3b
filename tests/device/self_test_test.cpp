// The self-test of every kernel on this driver passes. Where the test's memory is changed, the
// self-test sees the change, and the kernel is refused.
#include "environment.hpp"
#include "host.hpp"

#include <chrono>
#include <cstring>
#include <memory>

using namespace vkattn;
using namespace vkattn::test;

namespace {

constexpr vkattn_kernel judged[] = {VKATTN_KERNEL_FLASH, VKATTN_KERNEL_DECODE, VKATTN_KERNEL_FLASH_COOPMAT, VKATTN_KERNEL_FLASH_COOPMAT2};

// Of the host: kernels on matrix units test two types, with wide heads on GPUs.
constexpr VkDeviceSize bufferBytes = 2 << 20;

// One run on a host of its own; `mapped` is the memory after the device, `before` the memory that
// the device was given.
struct Attempt {
    Host host;
    Context context;
    vkattn_self_test needs{};
    vkattn_diagnostic why{};
    VkDescriptorPool descriptors = VK_NULL_HANDLE;
    std::vector<unsigned char> before;
    double milliseconds = 0;

    explicit Attempt(const HostOptions &options) : host(options) {}
    ~Attempt() {
        if (descriptors) vkDestroyDescriptorPool(host.device, descriptors, nullptr);
    }
    Attempt(const Attempt &) = delete;
    Attempt &operator=(const Attempt &) = delete;

    // UNSUPPORTED with the reason where the device has no such kernel.
    vkattn_result compute(vkattn_kernel kernel) {
        if (!host.ready) return VKATTN_ERROR_VULKAN;
        if (const auto r = context.create(host.host, &why)) return r;
        if (const auto r = context.selfTestQuery(kernel, needs, &why)) return r;
        if (needs.bufferBytes > bufferBytes) {
            ADD_FAILURE() << "the self-test of " << vkattnKernelName(kernel) << " needs " << needs.bufferBytes << " bytes, over "
                          << bufferBytes;
            return VKATTN_ERROR_OUT_OF_HOST_MEMORY;
        }
        EXPECT_EQ(needs.bufferBytes % 4, 0u);
        if (needs.descriptorSetCount) {
            descriptors = makeDescriptorPool(host.device, needs.descriptorSetCount, needs.storageDescriptorCount);
            EXPECT_TRUE(descriptors);
        }
        if (const auto r = context.selfTestFill(kernel, host.mapped, &why)) return r;
        before.assign(host.mapped, host.mapped + needs.bufferBytes);
        if (const auto r = context.selfTestRecord(kernel, host.commands, host.buffer, 0, descriptors, &why)) return r;
        const auto start = std::chrono::steady_clock::now();
        if (!host.submitAndWait()) return VKATTN_ERROR_DEVICE_LOST;
        milliseconds = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
        return VKATTN_OK;
    }
    // The first word that the device changed: the first element of the first output.
    [[nodiscard]] size_t firstResult() const {
        size_t at = 0;
        while (at < before.size() && std::memcmp(host.mapped + at, before.data() + at, 4) == 0) at += 4;
        return at;
    }
};

HostOptions modern(bool validation = false) {
    HostOptions options;
    options.apiVersion = VK_API_VERSION_1_3;
    options.askVkattn = true;
    options.validation = validation;
    options.bytes = bufferBytes;
    return options;
}

// flash with everything enabled, computed once: it takes CPU devices ten seconds to compile.
class SelfTest : public testing::Test {
  protected:
    static Attempt &flash() {
        static vkattn_result computed;
        if (!held_) held_ = std::make_unique<Attempt>(modern()), computed = held_->compute(VKATTN_KERNEL_FLASH);
        EXPECT_EQ(computed, VKATTN_OK) << held_->why.message << held_->host.why;
        return *held_;
    }
    static void TearDownTestSuite() { held_.reset(); }

  private:
    static inline std::unique_ptr<Attempt> held_;
};

TEST_F(SelfTest, passesOnThisDriver) {
    // Two devices: one with what vkattn asks for, and one of Vulkan 1.0 with nothing enabled.
    for (const bool enabled : {true, false}) {
        for (const vkattn_kernel kernel : judged) {
            const bool shared = enabled && kernel == VKATTN_KERNEL_FLASH;
            std::unique_ptr<Attempt> own;
            if (!shared) own = std::make_unique<Attempt>(enabled ? modern() : HostOptions{.bytes = bufferBytes});
            Attempt &run = shared ? flash() : *own;
            ASSERT_TRUE(run.host.ready) << run.host.why;
            VkPhysicalDeviceProperties properties;
            vkGetPhysicalDeviceProperties(run.host.physicalDevice, &properties);
            // Compiles for minutes without subgroups.
            if (!enabled && properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU) continue;
            const vkattn_result result = shared ? VKATTN_OK : run.compute(kernel);
            if (result == VKATTN_ERROR_UNSUPPORTED) {
                std::printf("%s: %s\n", vkattnKernelName(kernel), run.why.message);
                EXPECT_NE(run.why.message[0], '\0');
                EXPECT_GE(kernel, VKATTN_KERNEL_FLASH_COOPMAT) << run.why.message;
                continue;
            }
            ASSERT_EQ(result, VKATTN_OK) << run.why.message;
            vkattn_verdict verdict = VKATTN_VERDICT_MAX;
            ASSERT_EQ(run.context.selfTestJudge(kernel, run.host.mapped, verdict, &run.why), VKATTN_OK) << run.why.message;
            EXPECT_EQ(verdict, VKATTN_VERDICT_TRUSTED) << vkattnKernelName(kernel) << ": " << run.why.message;
            std::printf("%s%s: %llu bytes, %.1f ms with what the driver compiles at the first dispatch\n", vkattnKernelName(kernel),
                        enabled ? "" : ", nothing enabled", static_cast<unsigned long long>(run.needs.bufferBytes), run.milliseconds);
            vkattn_caps caps{};
            ASSERT_EQ(run.context.caps(caps), VKATTN_OK);
            EXPECT_EQ(caps.wrongKernels | caps.slowKernels, 0u);
        }
    }
}

TEST_F(SelfTest, aWrongElementIsSeenAndTheKernelIsRefused) {
    const vkattn_kernel kernel = VKATTN_KERNEL_FLASH;
    Attempt &run = flash();
    ASSERT_FALSE(HasFailure());
    const size_t at = run.firstResult();
    ASSERT_LT(at + 8, run.needs.bufferBytes);
    const auto judge = [&] {
        vkattn_verdict verdict = VKATTN_VERDICT_MAX;
        run.why = {};
        EXPECT_EQ(run.context.selfTestJudge(kernel, run.host.mapped, verdict, &run.why), VKATTN_OK) << run.why.message;
        EXPECT_EQ(run.why.message[0] != '\0', verdict == VKATTN_VERDICT_WRONG) << run.why.message;
        return verdict;
    };
    const auto with = [&](size_t where, uint32_t word) { // judges with another word in the memory
        uint32_t kept;
        std::memcpy(&kept, run.host.mapped + where, 4);
        std::memcpy(run.host.mapped + where, &word, 4);
        const vkattn_verdict verdict = judge();
        std::memcpy(run.host.mapped + where, &kept, 4);
        EXPECT_EQ(run.context.setVerdict(kernel, VKATTN_VERDICT_TRUSTED), VKATTN_OK);
        return verdict;
    };
    EXPECT_EQ(judge(), VKATTN_VERDICT_TRUSTED);
    float value;
    std::memcpy(&value, run.host.mapped + at, 4);
    const auto bits = [](float f) {
        uint32_t word;
        std::memcpy(&word, &f, 4);
        return word;
    };
    EXPECT_EQ(with(at, bits(value + 1e-3f)), VKATTN_VERDICT_WRONG);
    EXPECT_EQ(with(at, bits(value + 1e-6f)), VKATTN_VERDICT_TRUSTED) << "rounding";
    EXPECT_EQ(with(at, 0x7fc00000u), VKATTN_VERDICT_WRONG) << "NaN";
    EXPECT_EQ(with(at, 0x7f800000u), VKATTN_VERDICT_WRONG) << "infinity";
    EXPECT_EQ(with(at, 0xffffffffu), VKATTN_VERDICT_WRONG) << "as if nobody had written it";
    EXPECT_EQ(with(at - 4, 0), VKATTN_VERDICT_WRONG) << "before an output";

    // From then on the kernel is refused, and AUTO takes another one.
    std::memcpy(run.host.mapped + at, "\0\0\0", 4);
    EXPECT_EQ(judge(), VKATTN_VERDICT_WRONG);
    std::printf("%s\n", run.why.message);
    vkattn_caps caps{};
    ASSERT_EQ(run.context.caps(caps), VKATTN_OK);
    EXPECT_EQ(caps.wrongKernels, 1u << kernel);
    const vkattn_layout t = packed(VKATTN_F32, 1, 2, 64, 32);
    vkattn_problem p = problem(t, t, t, t);
    vkattn_requirements needs{};
    ASSERT_EQ(run.context.query(p, needs, &run.why), VKATTN_OK) << run.why.message;
    EXPECT_STREQ(needs.kernelName, "staged");
    p.kernel = kernel;
    EXPECT_EQ(run.context.query(p, needs, &run.why), VKATTN_ERROR_UNSUPPORTED);
    EXPECT_NE(std::string(run.why.message).find("self-test of the flash kernel failed"), std::string::npos) << run.why.message;
    EXPECT_EQ(run.context.selfTestQuery(kernel, run.needs, &run.why), VKATTN_ERROR_UNSUPPORTED);
    ASSERT_EQ(run.context.setVerdict(kernel, VKATTN_VERDICT_TRUSTED), VKATTN_OK);
    EXPECT_EQ(run.context.query(p, needs, &run.why), VKATTN_OK) << run.why.message;
    std::memcpy(run.host.mapped + at, &value, 4); // the other test's too
}

// This test is in the set that runs under the layer: barriers between the recordings, and no access
// outside of the buffer.
TEST(Validation, isSilentAboutTheSelfTest) {
    for (const vkattn_kernel kernel : {VKATTN_KERNEL_FLASH, VKATTN_KERNEL_FLASH_COOPMAT, VKATTN_KERNEL_FLASH_COOPMAT2}) {
        Attempt run(modern(true));
        const vkattn_result result = run.compute(kernel);
        ASSERT_TRUE(run.host.ready) << run.host.why;
        if (result == VKATTN_ERROR_UNSUPPORTED) continue;
        EXPECT_EQ(result, VKATTN_OK) << run.why.message;
        EXPECT_EQ(run.host.messages.size(), 0u) << run.host.messages.front();
    }
}

} // namespace
