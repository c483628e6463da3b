// With descriptions that pass validation no shader accesses anything outside the ranges of its descriptors: robust buffer access off, and
// the validation layer's own check at every access. Needs a newer layer than Debian 12's, which sees nothing, and a driver that its checks
// run on: tests/device/CMakeLists.txt says which.
#include "environment.hpp"
#include "gpu_assisted.hpp"

#include <algorithm>

using namespace vkattn;
using namespace vkattn::test;

namespace {

struct Kernel {
    const char *name;
    vkattn_kernel kernel;
    const char *tile; // small; instrumented shaders take longer still to compile
    [[nodiscard]] bool onMatrixUnits() const { return kernel >= VKATTN_KERNEL_FLASH_COOPMAT; }
};
constexpr Kernel kernels[] = {
    {"staged", VKATTN_KERNEL_STAGED, ""},
    {"flash", VKATTN_KERNEL_FLASH, "rowLanes=8"},
    {"flashSharedTiles", VKATTN_KERNEL_FLASH, "rowLanes=8 source=1 tileKeys=8 rolledEdges=1"},
    {"decode", VKATTN_KERNEL_DECODE, "dimLanes=2 keyLanes=4"},
    {"coopmat", VKATTN_KERNEL_FLASH_COOPMAT, "subgroups=1 rowBlocks=1 tileKeys=32"},
    {"coopmat2", VKATTN_KERNEL_FLASH_COOPMAT2, "subgroups=1 rowBlocks=1 tileKeys=16"},
};

std::string tuningOf(const Kernel &kernel) {
    const std::string row = std::string(" maxDim=256 ") + kernel.tile + "\n";
    if (kernel.kernel == VKATTN_KERNEL_STAGED) return {};
    if (kernel.onMatrixUnits()) return "vkattn-tuning 1\nflash_coopmat" + row;
    return "vkattn-tuning 1\nflash" + row + "decode" + row;
}

class OutOfRange : public testing::TestWithParam<Kernel> {
  protected:
    void TearDown() override { gpuAssisted.shortenBytes = 0; }

    // NULL where the test is skipped or has failed.
    [[nodiscard]] std::unique_ptr<Runtime> open(bool tight) {
        gpuAssisted = {};
        RuntimeOptions options = optionsFor(Limits::full);
        options.validation = true;
        options.getInstanceProcAddr = gpuAssistedGetInstanceProcAddr;
        options.tuning = tuningOf(GetParam());
        options.log = [this](const char *message) { note(message); };
        std::string message;
        std::unique_ptr<Runtime> runtime = Runtime::open(options, nullptr, &message);
        if (runtime && tight) {
            options.capsLimit = runtime->device()->caps;
            options.capsLimit->maxStorageBufferRange = 1u << 16;
            options.maxWorkspaceBytes = 16384;
            runtime = Runtime::open(options, nullptr, &message);
        }
        EXPECT_TRUE(runtime) << message;
        EXPECT_GE(gpuAssisted.devices, 1u) << "the runtime's device was not seen: this run would prove nothing";
        EXPECT_FALSE(gpuAssisted.robust) << "the device keeps accesses within their ranges: this run would prove nothing";
        return runtime;
    }
    void note(const std::string &message) {
        // What the layer says of its own work: features that it switches on, shaders that become slow.
        const bool ofItself = message.find("WARNING-") != std::string::npos || message.find("GPUAV-Compile-time") != std::string::npos;
        if (!ofItself) messages.push_back(message);
    }
    [[nodiscard]] bool accessReported() const {
        return std::any_of(messages.begin(), messages.end(),
                           [](const std::string &m) { return m.find("out of bounds") != std::string::npos; });
    }
    std::vector<std::string> messages;
};

// What shares a pipeline with every other case of the kernel: instrumented ones take seconds to compile.
Case fitted(const Kernel &kernel, Case c, bool everything) {
    c.kernel = kernel.kernel;
    c.headDim = c.valueDim = 8;
    c.q = c.k = c.v = c.out = kernel.onMatrixUnits() || everything ? VKATTN_F16 : VKATTN_F32;
    c.softcap = everything ? 20.0f : 0;
    c.alibi = everything;
    c.documents = everything ? Documents::random : Documents::none;
    c.biasType = VKATTN_F16;
    c.maskBroadcast.reset(), c.biasBroadcast.reset(), c.bitMaskBroadcast.reset();
    if (everything) c.bitMaskBroadcast = c.biasBroadcast = 0;
    c.weights = everything && kernel.kernel == VKATTN_KERNEL_STAGED;
    for (Style *style : {&c.qStyle, &c.kStyle, &c.vStyle})
        if (*style == Style::dimMajor) *style = Style::padded;
    return c;
}

// Lengths, cu_seqlens and ids that say anything come first.
std::vector<Case> casesFor(const Kernel &kernel, Random &random, size_t count) {
    std::vector<Case> cases = kernel.kernel == VKATTN_KERNEL_STAGED ? caseMatrix(random, false) : formMatrix(random, 0);
    std::shuffle(cases.begin(), cases.end(), random);
    std::stable_partition(cases.begin(), cases.end(),
                          [&](const Case &c) { return (c.hostileRagged || c.hostileLengths) && random() % 4 == 0; });
    std::erase_if(cases, [](const Case &c) { return c.queryTokens > 70 || c.keyTokens > 150; });
    cases.resize(std::min(cases.size(), count));
    for (Case &c : cases) c = fitted(kernel, c, random() % 3 == 0);
    return cases;
}

} // namespace

// Positive control: descriptors that end one word early, of the very shaders whose silence the other test takes for proof.
TEST_P(OutOfRange, isReportedWhereRangesEndEarly) {
    const auto runtime = open(false);
    ASSERT_TRUE(runtime);
    Case c;
    c.lse = true;
    Random random = randomFor("control");
    const auto in = makeInstance(fitted(GetParam(), c, false), random);
    RunResult result = runtime->run(in->problem, in->operands);
    if (result.status == VKATTN_ERROR_UNSUPPORTED) GTEST_SKIP() << GetParam().name << ": " << result.message;
    ASSERT_EQ(result.status, VKATTN_OK) << result.message;
    ASSERT_TRUE(messages.empty()) << messages.front();
    gpuAssisted.shortenBytes = 4;
    result = runtime->run(in->problem, in->operands);
    EXPECT_TRUE(accessReported()) << "the layer does not see a deliberate access out of range: this run would prove nothing";
}

TEST_P(OutOfRange, neverHappens) {
    size_t ran = 0;
    for (const bool tight : {false, true}) {
        const auto runtime = open(tight);
        ASSERT_TRUE(runtime);
        Random random = randomFor(std::string("out of range ") + GetParam().name);
        for (const Case &c : casesFor(GetParam(), random, 60)) {
            Random own = randomFor(c.name);
            const auto in = makeInstance(c, own);
            const RunResult result = runtime->run(in->problem, in->operands);
            ASSERT_TRUE(messages.empty()) << c.name << (tight ? " in chunks: " : ": ") << messages.front();
            if (result.status == VKATTN_ERROR_UNSUPPORTED) continue;
            ASSERT_EQ(result.status, VKATTN_OK) << c.name << ": " << result.message;
            ++ran;
        }
    }
    if (ran == 0) GTEST_SKIP() << GetParam().name << ": not on this device";
    EXPECT_GE(ran, 60u);
    std::printf("%zu cases of %s, no access out of range\n", ran, GetParam().name);
}

std::string nameOf(const testing::TestParamInfo<Kernel> &info) {
    return info.param.name;
}
INSTANTIATE_TEST_SUITE_P(Kernels, OutOfRange, testing::ValuesIn(kernels), nameOf);
