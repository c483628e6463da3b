// A kernel that this driver computes wrongly: the runtime finds out before its first use, takes
// another, and remembers.
#include "environment.hpp"
#include "support/vulkan/faulty_vulkan.hpp"

#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

using namespace vkattn;
using namespace vkattn::test;
namespace fs = std::filesystem;

namespace {

constexpr uint32_t flashBit = 1u << VKATTN_KERNEL_FLASH;

std::string textOf(const fs::path &path) {
    std::ifstream file(path, std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
}

class VerdictsOf : public testing::Test {
  protected:
    fs::path folder = fs::path(testing::TempDir()) / ("vkattn-verdicts-" + std::to_string(std::random_device{}()));
    std::string file = (folder / "verdicts").string();
    std::vector<std::string> messages;
    RuntimeOptions options;

    void SetUp() override {
        fs::create_directories(folder);
        fault = {};
        options.allowFallback = false;
        options.selfTest = flashBit; // every device has it
        options.getInstanceProcAddr = faultyGetInstanceProcAddr;
        options.verdictFile = file;
        options.log = [this](const char *message) { messages.emplace_back(message); };
    }
    void TearDown() override {
        fault = {};
        std::error_code error;
        EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), fs::exists(file) ? 1 : 0)
            << "a temporary is left";
        fs::remove_all(folder, error);
    }

    // Returns the kernel that computed. The result is right whichever kernel that was.
    std::string runs(Runtime &runtime, vkattn_kernel kernel = VKATTN_KERNEL_AUTO, vkattn_dtype dtype = VKATTN_F32,
                     std::string *why = nullptr) {
        Case c;
        c.name = "verdicts";
        c.batch = 1, c.queryTokens = 40, c.keyTokens = 50, c.headDim = c.valueDim = 16;
        c.q = c.k = c.v = c.out = dtype;
        c.kernel = kernel;
        c.poison = false;
        Random random = randomFor(c.name);
        const auto in = makeCaseData(c, random);
        const RunResult result = runtime.run(in->problem, in->operands);
        if (why) *why = result.message + result.fallbackReason;
        if (result.status != VKATTN_OK) return "refused";
        vkattn_verify_options verify{};
        verify.structSize = sizeof verify;
        verify.probabilityUnit = result.probabilityUnit;
        verify.probabilityFloor = result.probabilityFloor;
        vkattn_verify_report report{};
        EXPECT_EQ(vkattnCpuVerify(&in->problem, in->operands.data(), static_cast<uint32_t>(in->operands.size()), &verify, &report, nullptr),
                  VKATTN_OK);
        EXPECT_TRUE(report.passed) << result.kernel << ": " << report.worstError << " of " << report.worstBound;
        return result.kernel;
    }
    std::unique_ptr<Runtime> open() {
        std::string message;
        messages.clear();
        auto runtime = Runtime::open(options, nullptr, &message);
        EXPECT_TRUE(runtime) << message;
        return runtime;
    }
};

} // namespace

TEST_F(VerdictsOf, ofWrongKernelsMakeTheRuntimeTakeAnother) {
    auto runtime = open();
    ASSERT_TRUE(runtime);
    fault.corrupt = true; // strikes what the first wait waits for, the self-test
    EXPECT_EQ(runs(*runtime), "staged");
    EXPECT_FALSE(fault.corrupt);
    ASSERT_EQ(messages.size(), 1u);
    EXPECT_NE(messages[0].find("flash computes wrongly on " + runtime->device()->name), std::string::npos) << messages[0];
    EXPECT_NE(messages[0].find("the staged kernel's is"), std::string::npos) << messages[0];
    std::string why;
    EXPECT_EQ(runs(*runtime, VKATTN_KERNEL_FLASH, VKATTN_F32, &why), "refused");
    EXPECT_NE(why.find("self-test of the flash kernel failed"), std::string::npos) << why;
    EXPECT_EQ(messages.size(), 1u) << "tested once";
    const auto found = rememberedVerdicts(file, *runtime->device());
    ASSERT_EQ(found.size(), 1u) << textOf(file);
    EXPECT_EQ(found[0].kernel, "flash");
    EXPECT_EQ(found[0].verdict, VKATTN_VERDICT_WRONG);

    // The next process reads the file: no test is needed.
    options.allowFallback = true;
    runtime = open();
    EXPECT_EQ(runs(*runtime), "staged");
    EXPECT_EQ(runs(*runtime, VKATTN_KERNEL_FLASH, VKATTN_F32, &why), "cpu");
    EXPECT_NE(why.find("self-test"), std::string::npos) << why;
    EXPECT_TRUE(messages.empty());
    // It holds for those kernels that are tested.
    options.selfTest = selfTestedKernels();
    EXPECT_EQ(runs(*open()), "flash");
    options.selfTest = flashBit;

    // Another driver or tuning: nothing is known. What is there stays.
    const std::string text = textOf(file);
    for (const size_t word : {1u, 3u}) { // driver, tuning
        std::istringstream words(text);
        std::string changed, each;
        for (size_t n = 0; words >> each; ++n) changed += (n ? " " : "") + (n == word ? each + "0" : each);
        std::ofstream(file, std::ios::binary) << changed << "\n";
        runtime = open();
        EXPECT_EQ(rememberedVerdicts(file, *runtime->device()).size(), word == 3 ? 1u : 0u);
        EXPECT_EQ(runs(*runtime), "flash") << changed;
        EXPECT_EQ(textOf(file).find(changed + "\n"), 0u);
        EXPECT_NE(textOf(file).find(" flash trusted\n"), std::string::npos) << textOf(file);
    }
}

TEST_F(VerdictsOf, aFileMayHoldAnything) {
    auto runtime = open();
    ASSERT_TRUE(runtime);
    const DeviceInfo device = *runtime->device();
    EXPECT_EQ(runs(*runtime), "flash");
    EXPECT_TRUE(messages.empty());
    const std::string good = textOf(file);
    ASSERT_NE(good.find(" flash trusted\n"), std::string::npos) << good;
    const std::string slow = good.substr(0, good.size() - 8) + "slow\n";
    std::string everything;
    for (const std::string &foreign :
         {std::string(), std::string("\n\n#\n"), "one two\n" + slow.substr(0, slow.size() - 6) + "\n", std::string("\0\xff\n", 3),
          slow.substr(0, slow.size() - 1) + " more\n", slow.substr(0, slow.size() - 5) + "dubious\n", std::string(70000, 'x')}) {
        std::ofstream(file, std::ios::binary) << foreign;
        EXPECT_TRUE(rememberedVerdicts(file, device).empty()) << foreign;
        if (foreign.size() < 1000) everything += foreign;
    }
    std::ofstream(file, std::ios::binary) << everything << good << slow; // the last one counts
    EXPECT_EQ(rememberedVerdicts(file, device).size(), 2u);
    runtime = open();
    EXPECT_EQ(runs(*runtime), "staged");
    EXPECT_EQ(runs(*runtime, VKATTN_KERNEL_FLASH), "flash") << "slow ones are taken where they are asked for";

    options.verdictFile = (fs::path(file) / "verdicts").string(); // below a file
    EXPECT_TRUE(rememberedVerdicts(options.verdictFile, device).empty());
    EXPECT_EQ(runs(*open()), "flash");
    ASSERT_EQ(messages.size(), 1u);
    EXPECT_NE(messages[0].find("cannot be kept"), std::string::npos) << messages[0];
    std::ofstream(file, std::ios::binary) << everything;
    options.verdictFile = file;
    EXPECT_EQ(runs(*open()), "flash");
    EXPECT_EQ(textOf(file), good) << "what is no verdict goes";
    fs::remove(file); // nor is anything kept with other caps than the device's
    options.capsLimit = device.caps;
    EXPECT_EQ(runs(*open()), "flash");
    EXPECT_FALSE(fs::exists(file));
    EXPECT_TRUE(rememberedVerdicts(folder.string(), device).empty());
}

TEST_F(VerdictsOf, aTestThatCannotRunIsNotRemembered) {
    auto runtime = open();
    fault = {"vkAllocateMemory", VK_ERROR_OUT_OF_DEVICE_MEMORY, 1, 0, false, false};
    EXPECT_EQ(runs(*runtime), "staged");
    ASSERT_EQ(messages.size(), 1u);
    EXPECT_NE(messages[0].find("could not run"), std::string::npos) << messages[0];
    EXPECT_FALSE(fs::exists(file));
    EXPECT_EQ(runs(*open()), "flash");
    fs::remove(file);
    runtime = open();
    fault = {"vkQueueSubmit", VK_ERROR_DEVICE_LOST, 1, 0, false, false};
    std::string why;
    EXPECT_EQ(runs(*runtime, VKATTN_KERNEL_AUTO, VKATTN_F32, &why), "refused");
    EXPECT_NE(why.find("the device was lost"), std::string::npos) << why;
}

TEST_F(VerdictsOf, prewarmingTestsToo) {
    const auto runtime = open();
    fault.corrupt = true;
    const vkattn_layout t = packed(VKATTN_F32, 1, 2, 40, 32);
    const vkattn_problem p = problem(t, t, t, t);
    std::string why;
    EXPECT_EQ(runtime->prewarm({&p, 1}, &why), VKATTN_OK) << why;
    EXPECT_EQ(messages.size(), 1u);
    EXPECT_EQ(runs(*runtime), "staged");
}

// The kernels that are tested by default, on devices that have them.
TEST_F(VerdictsOf, matrixKernelsAreTestedBeforeTheirFirstUse) {
    options.selfTest = selfTestedKernels();
    options.getInstanceProcAddr = nullptr;
    const auto runtime = open();
    ASSERT_TRUE(runtime);
    EXPECT_EQ(runs(*runtime, VKATTN_KERNEL_FLASH), "flash");
    EXPECT_FALSE(fs::exists(file)) << "nothing to test";
    for (const KernelSupport &kernel : runtime->device()->kernels) {
        const bool second = kernel.kernel == "flash_coopmat2";
        if (!second && kernel.kernel != "flash_coopmat") continue;
        std::string why;
        const std::string used = runs(*runtime, second ? VKATTN_KERNEL_FLASH_COOPMAT2 : VKATTN_KERNEL_FLASH_COOPMAT, VKATTN_F16, &why);
        std::printf("%s: %s %s\n", kernel.kernel.c_str(), used.c_str(), why.c_str());
        if (!kernel.available) {
            EXPECT_EQ(used, "refused");
            continue;
        }
        EXPECT_EQ(used, kernel.kernel) << why;
        EXPECT_NE(textOf(file).find(" " + kernel.kernel + " "), std::string::npos);
    }
    std::printf("%s", textOf(file).c_str());
    EXPECT_NE(runs(*runtime, VKATTN_KERNEL_AUTO, VKATTN_F16), "refused");
}

TEST_F(VerdictsOf, halvesAreTriedBeforeTheirFirstUse) {
    options.selfTest = 0;
    const auto halvesIn = [&](const char *verdict) {
        return textOf(file).find(std::string(" halves ") + verdict + "\n") != std::string::npos;
    };
    auto runtime = open();
    ASSERT_TRUE(runtime);
    EXPECT_EQ(runs(*runtime, VKATTN_KERNEL_FLASH), "flash");
    EXPECT_EQ(runs(*runtime, VKATTN_KERNEL_FLASH, VKATTN_BF16), "flash");
    EXPECT_EQ(runs(*runtime, VKATTN_KERNEL_STAGED, VKATTN_F16), "staged");
    EXPECT_FALSE(fs::exists(file)) << "nothing to unpack";
    EXPECT_EQ(runs(*runtime, VKATTN_KERNEL_FLASH, VKATTN_F16), "flash");
    std::printf("%s", textOf(file).c_str());
    EXPECT_TRUE(halvesIn("trusted") || halvesIn("wrong"));
    ASSERT_EQ(rememberedVerdicts(file, *runtime->device()).size(), 1u);
    EXPECT_EQ(rememberedVerdicts(file, *runtime->device())[0].kernel, "halves");
    EXPECT_TRUE(messages.empty());
    // Once: the next process compiles one pipeline less, and so does one that does not ask.
    const auto pipelines = [&] {
        const auto own = open();
        EXPECT_EQ(runs(*own, VKATTN_KERNEL_FLASH, VKATTN_F16), "flash");
        return own->compileStatistics().pipelines;
    };
    fs::remove(file);
    const uint32_t first = pipelines(), remembered = pipelines();
    EXPECT_EQ(remembered + 1, first);
    fs::remove(file);
    options.testHalves = false;
    EXPECT_EQ(pipelines(), remembered);
    EXPECT_FALSE(fs::exists(file));
    options.testHalves = true, options.capsLimit = runtime->device()->caps;
    EXPECT_EQ(pipelines(), remembered);
    EXPECT_FALSE(fs::exists(file));
    options.capsLimit.reset();

    // A device that does not return what it should unpacks in integers, and that is no error.
    runtime = open();
    fault.corrupt = true;
    EXPECT_EQ(runs(*runtime, VKATTN_KERNEL_FLASH, VKATTN_F16), "flash");
    EXPECT_FALSE(fault.corrupt);
    EXPECT_TRUE(halvesIn("wrong")) << textOf(file);
    EXPECT_TRUE(messages.empty());
    fs::remove(file);
    // What could not run is told and tried again by the next process.
    runtime = open();
    fault = {"vkAllocateMemory", VK_ERROR_OUT_OF_DEVICE_MEMORY, 1, 0, false, false};
    EXPECT_EQ(runs(*runtime, VKATTN_KERNEL_FLASH, VKATTN_F16), "flash");
    ASSERT_EQ(messages.size(), 1u);
    EXPECT_NE(messages[0].find("halves are unpacked in integer arithmetic: the test"), std::string::npos) << messages[0];
    EXPECT_FALSE(fs::exists(file));
    runtime = open();
    fault = {"vkQueueSubmit", VK_ERROR_DEVICE_LOST, 1, 0, false, false};
    std::string why;
    EXPECT_EQ(runs(*runtime, VKATTN_KERNEL_FLASH, VKATTN_F16, &why), "refused");
    EXPECT_NE(why.find("the device was lost"), std::string::npos) << why;
}
