// With descriptions that pass validation, no shader accesses anything outside the ranges of its
// descriptors. Robust buffer access is off, and the validation layer's own check runs at every
// access. The test needs a newer layer than Debian 12's, which sees nothing, and a driver that the
// checks run on: tests/device/CMakeLists.txt says which.
#include "conform/cases/base_case.hpp"
#include "conform/statistics/statistics_case.hpp"
#include "device/environment.hpp"
#include "device/host.hpp"
#include "gpu_assisted.hpp"
#include "support/extent.hpp"
#include "support/keys/pages.hpp"
#include "support/keys/segments.hpp"

#include <algorithm>
#include <cstring>

using namespace vkattn;
using namespace vkattn::test;

namespace {

// Each kernel runs with small tiles: instrumented shaders take longer still to compile.
constexpr TestLayout kernels[] = {
    {"staged", VKATTN_KERNEL_STAGED, "", false},
    {"flash", VKATTN_KERNEL_FLASH, "rowLanes=8", false},
    {"flashSharedTiles", VKATTN_KERNEL_FLASH, "rowLanes=8 source=1 tileKeys=8 rolledEdges=1", false},
    {"decode", VKATTN_KERNEL_DECODE, "dimLanes=2 keyLanes=4", false},
    {"coopmat", VKATTN_KERNEL_FLASH_COOPMAT, "subgroups=1 rowBlocks=1 tileKeys=32", true},
    {"coopmat2", VKATTN_KERNEL_FLASH_COOPMAT2, "subgroups=1 rowBlocks=1 tileKeys=16", true},
};

class OutOfRange : public testing::TestWithParam<TestLayout> {
  protected:
    void TearDown() override { gpuAssisted.shortenBytes = 0; }

    // NULL where the test is skipped or has failed.
    [[nodiscard]] std::unique_ptr<Runtime> open(Limits limits) {
        gpuAssisted = {};
        RuntimeOptions options;
        options.validation = true;
        options.getInstanceProcAddr = gpuAssistedGetInstanceProcAddr;
        options.log = [this](const char *message) { note(message); };
        std::string message;
        std::unique_ptr<Runtime> runtime = Runtime::open(conform::optionsFor(options, GetParam(), Limits::full, {}), nullptr, &message);
        if (runtime && limits != Limits::full)
            runtime = Runtime::open(conform::optionsFor(options, GetParam(), limits, runtime->device()->caps), nullptr, &message);
        EXPECT_TRUE(runtime) << message;
        EXPECT_GE(gpuAssisted.devices, 1u) << "the runtime's device was not seen: this run would prove nothing";
        EXPECT_FALSE(gpuAssisted.robust) << "the device keeps accesses within their ranges: this run would prove nothing";
        return runtime;
    }
    void note(const std::string &message) {
        // These messages are about the layer's own work: features that it switches on, shaders that
        // become slow.
        const bool ofItself = message.find("WARNING-") != std::string::npos || message.find("GPUAV-Compile-time") != std::string::npos;
        if (!ofItself) messages.push_back(message);
    }
    [[nodiscard]] bool accessReported() const {
        return std::any_of(messages.begin(), messages.end(),
                           [](const std::string &m) { return m.find("out of bounds") != std::string::npos; });
    }
    std::vector<std::string> messages;
};

// The case shares its pipeline with every other case of the kernel: instrumented pipelines take
// seconds to compile.
Case fitted(const TestLayout &kernel, Case c, bool everything) {
    c.kernel = kernel.kernel;
    c.headDim = 8, c.valueDim = c.valuesInKeys ? 5 : 8; // a part of the keys
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
    conform::makeAgree(c); // the options that are left
    return c;
}

bool hasRules(const Case &c) {
    return c.globalTokens || c.headDilations || c.prefixes || c.grid != conform::Grid::none || c.blocks != conform::Blocks::none;
}
// Lengths, cu_seqlens, blocks and ids that say anything come first, and what is read to skip keys.
std::vector<Case> casesFor(const TestLayout &kernel, Random &random, size_t count) {
    std::vector<Case> cases = kernel.kernel == VKATTN_KERNEL_STAGED ? caseMatrix(random, false) : formMatrix(random, 0);
    std::shuffle(cases.begin(), cases.end(), random);
    std::stable_partition(cases.begin(), cases.end(),
                          [&](const Case &c) { return (c.hostileRagged || c.hostileLengths || hasRules(c)) && random() % 4 == 0; });
    std::erase_if(cases, [](const Case &c) { return c.queryTokens > 70 || c.keyTokens > 150; });
    cases.resize(std::min(cases.size(), count));
    // Page tables that name no page, and offsets that are anything.
    for (size_t n = 0; n < count / 4; ++n) {
        Case c = drawPages(random, n % 3 != 0);
        if (n % 2 && !c.offsetArrays) c.offsets = c.offsetArrays = c.hostileOffsets = true;
        if (c.queryTokens <= 70 && c.keyTokens <= 150) cases.push_back(c);
    }
    // Segments that begin inside of steps.
    for (size_t n = 0; n < count / 6; ++n) cases.push_back(drawSegments(random, 2));
    for (Case &c : cases) c = fitted(kernel, c, random() % 3 == 0);
    return cases;
}

} // namespace

// Positive control: descriptors that end one word early, of the very shaders whose silence the
// other test takes for proof.
TEST_P(OutOfRange, isReportedWhereRangesEndEarly) {
    const auto runtime = open(Limits::full);
    ASSERT_TRUE(runtime);
    Case c;
    c.lse = true;
    Random random = randomFor("control");
    const auto in = makeCaseData(fitted(GetParam(), c, false), random);
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
    for (const Limits limits : {Limits::full, Limits::tight}) {
        const auto runtime = open(limits);
        ASSERT_TRUE(runtime);
        Random random = randomFor(std::string("out of range ") + GetParam().name);
        for (const Case &c : casesFor(GetParam(), random, 60)) {
            Random own = randomFor(c.name);
            const auto in = makeCaseData(c, own);
            const RunResult result = runtime->run(in->problem, in->operands);
            ASSERT_TRUE(messages.empty()) << c.name << ", " << limitsName(limits) << ": " << messages.front();
            if (result.status == VKATTN_ERROR_UNSUPPORTED) continue;
            ASSERT_EQ(result.status, VKATTN_OK) << c.name << ": " << result.message;
            ++ran;
        }
    }
    if (ran == 0) GTEST_SKIP() << GetParam().name << ": not on this device";
    EXPECT_GE(ran, 60u);
    std::printf("%zu cases of %s, no access out of range\n", ran, GetParam().name);
}

// The same test without a layer, on every driver. Each operand is bound exactly, between NaN that
// no result may show and nobody may overwrite.
class Neighbours {
  protected:
    // NaN of every type, in words that differ.
    void fillWithNan(Random &random) {
        for (size_t n = 0; n < bufferBytes; n += 2) {
            const auto half = static_cast<uint16_t>(0x7f81u + random() % 0x7f);
            std::memcpy(host.mapped + n, &half, 2);
        }
    }
    [[nodiscard]] bool begin() {
        VkCommandBufferBeginInfo info{};
        info.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
        return vkResetCommandPool(host.device, host.pool, 0) == VK_SUCCESS &&
               vkResetDescriptorPool(host.device, host.descriptors, 0) == VK_SUCCESS &&
               vkBeginCommandBuffer(host.commands, &info) == VK_SUCCESS;
    }
    // `bytesOf(role)`: what the operand takes. Returns false where the buffer has no room for all.
    template <class BytesOf>
    [[nodiscard]] bool place(const std::vector<vkattn_operand_memory> &operands, const BytesOf &bytesOf,
                             const vkattn_requirements &requirements) {
        bound.clear();
        uint64_t at = 0;
        const auto bind = [&](vkattn_role role, uint64_t bytes, uint64_t alignment) {
            constexpr uint64_t guard = 512;
            at = (at + guard + alignment - 1) / alignment * alignment;
            bound.push_back({role, host.buffer, at, bytes});
            at += bytes;
        };
        for (const vkattn_operand_memory &operand : operands) {
            const uint64_t bytes = bytesOf(operand.role);
            bind(operand.role, bytes, 4);
            // The end is no whole word.
            if (operand.role < VKATTN_KEY_LENGTHS && bytes % 4 == 2) bound.back().offset += 2, at += 2;
            if (bytes > 0 && at < bufferBytes) std::memcpy(host.mapped + bound.back().offset, operand.data, bytes);
        }
        if (requirements.workspaceBytes) bind(VKATTN_WORKSPACE, requirements.workspaceBytes, requirements.workspaceAlignment);
        return at + 512 <= bufferBytes;
    }
    // Outputs then come back into the memory of their operands.
    template <class IsOutput>
    void checkSurroundings(const std::vector<vkattn_operand_memory> &operands, const IsOutput &isOutput,
                           const std::vector<unsigned char> &before, const std::string &name) {
        std::vector<bool> may(bufferBytes);
        for (const vkattn_binding &b : bound) {
            if (!isOutput(b.role) && b.role != VKATTN_WORKSPACE) continue;
            std::fill_n(may.begin() + static_cast<std::ptrdiff_t>(b.offset), b.size, true);
            for (const vkattn_operand_memory &operand : operands)
                if (operand.role == b.role && b.size > 0) std::memcpy(operand.data, host.mapped + b.offset, b.size);
        }
        for (size_t n = 0; n < bufferBytes; ++n)
            ASSERT_TRUE(may[n] || host.mapped[n] == before[n]) << name << ": byte " << n << ", outside all that is written";
    }

    static constexpr size_t bufferBytes = 1 << 20; // of Host
    Host host{{.apiVersion = VK_API_VERSION_1_3, .askVkattn = true}};
    std::vector<vkattn_binding> bound;
};

class Surroundings : public Neighbours, public testing::TestWithParam<TestLayout> {};

class StatisticsSurroundings : public Neighbours, public testing::Test {};

TEST_P(Surroundings, doNotCountAndStay) {
    ASSERT_TRUE(host.ready) << host.why;
    size_t ran = 0;
    std::string refusal;
    for (const Limits limits : {Limits::full, Limits::tiny}) {
        const RuntimeOptions options = conform::optionsFor({}, GetParam(), limits, {});
        host.host.tuning = options.tuning.data(), host.host.tuningBytes = options.tuning.size();
        host.host.capsLimit = options.capsLimit ? &*options.capsLimit : nullptr;
        host.host.maxWorkspaceBytes = options.maxWorkspaceBytes;
        Context context;
        vkattn_diagnostic why{};
        ASSERT_EQ(context.create(host.host, &why), VKATTN_OK) << why.message;
        Random random = randomFor(std::string("surroundings ") + GetParam().name);
        for (const Case &c : casesFor(GetParam(), random, fullExtent() ? 40 : 18)) {
            Random own = randomFor(c.name);
            const auto in = makeCaseData(c, own);
            vkattn_requirements requirements{};
            const vkattn_result queried = context.query(in->problem, requirements, &why);
            if (queried == VKATTN_ERROR_UNSUPPORTED) {
                if (refusal.empty()) refusal = why.message;
                continue;
            }
            ASSERT_EQ(queried, VKATTN_OK) << why.message;
            fillWithNan(own);
            const auto bytesOf = [&](vkattn_role role) { return vkattnOperandBytes(&in->problem, role); };
            if (requirements.descriptorSetCount > 16 || !place(in->operands, bytesOf, requirements)) continue;
            const std::vector<unsigned char> before(host.mapped, host.mapped + bufferBytes);
            const Outputs outputs = in->outputs();
            ASSERT_TRUE(begin());
            ASSERT_EQ(context.prewarm({&in->problem, 1}, &why), VKATTN_OK) << why.message;
            ASSERT_EQ(context.record(in->problem, host.commands, bound, host.descriptors, &why), VKATTN_OK) << c.name << why.message;
            ASSERT_TRUE(host.submitAndWait());
            const auto isOutput = [](vkattn_role role) {
                return role == VKATTN_OUT || role == VKATTN_LSE || role == VKATTN_WEIGHTS || role == VKATTN_SCORES;
            };
            checkSurroundings(in->operands, isOutput, before, c.name);
            if (HasFatalFailure()) return;
            vkattn_verify_options all{};
            all.structSize = sizeof all;
            all.allRows = 1;
            all.probabilityUnit = requirements.probabilityUnit;
            all.probabilityFloor = requirements.probabilityFloor;
            vkattn_verify_report report{};
            ASSERT_EQ(vkattnCpuVerify(&in->problem, in->operands.data(), static_cast<uint32_t>(in->operands.size()), &all, &report, &why),
                      VKATTN_OK)
                << why.message;
            EXPECT_TRUE(report.passed) << c.name << ": got " << report.worstGot << ", expected " << report.worstExpected;
            EXPECT_EQ(in->damage(outputs), "") << c.name;
            ++ran;
        }
    }
    if (ran == 0) GTEST_SKIP() << GetParam().name << ": " << refusal;
    EXPECT_GE(ran, fullExtent() ? 20u : 9u);
    std::printf("%zu cases of %s between poisoned neighbours\n", ran, GetParam().name);
}

// Statistics, whole and in chunks, with every output alone and beside the others.
TEST_F(StatisticsSurroundings, doNotCountAndStay) {
    ASSERT_TRUE(host.ready) << host.why;
    size_t ran = 0;
    std::string refusal;
    Random random = randomFor("surroundings of statistics");
    for (const Limits limits : {Limits::full, Limits::tight}) {
        const RuntimeOptions options = optionsFor(limits);
        host.host.capsLimit = options.capsLimit ? &*options.capsLimit : nullptr;
        host.host.maxWorkspaceBytes = options.maxWorkspaceBytes;
        Context context;
        vkattn_diagnostic why{};
        ASSERT_EQ(context.create(host.host, &why), VKATTN_OK) << why.message;
        Case c;
        StatisticsOptions outputs;
        for (int n = 0; n < (fullExtent() ? 60 : 8); ++n) {
            // Several cases of the same pipelines, whose compilation takes CPU devices seconds.
            if (n % 4 == 0)
                c = randomCase(random, 4), outputs = drawStatisticsOptions(random);
            else
                c = samePipelines(random, c);
            StatisticsCase s = drawStatistics(random, c, outputs);
            const StatisticsCase drawn = s;
            const vkattn_operation operation = s.operation();
            vkattn_requirements requirements{};
            requirements.structSize = sizeof requirements;
            const vkattn_result queried = context.query(operation, requirements, &why);
            if (queried == VKATTN_ERROR_UNSUPPORTED) {
                if (refusal.empty()) refusal = why.message;
                continue;
            }
            ASSERT_EQ(queried, VKATTN_OK) << why.message;
            fillWithNan(random);
            const std::vector<vkattn_operand_memory> operands = s.operands();
            const auto bytesOf = [&](vkattn_role role) { return vkattnOperationBytes(&operation, role); };
            if (requirements.descriptorSetCount > 16 || !place(operands, bytesOf, requirements)) continue;
            const std::vector<unsigned char> before(host.mapped, host.mapped + bufferBytes);
            ASSERT_TRUE(begin());
            ASSERT_EQ(context.prewarm({&operation, 1}, &why), VKATTN_OK) << why.message;
            ASSERT_EQ(context.record(operation, host.commands, bound, host.descriptors, &why), VKATTN_OK) << s.text() << why.message;
            ASSERT_TRUE(host.submitAndWait());
            const auto isOutput = [&](vkattn_role role) { return s.tensors.count(role) != 0; };
            checkSurroundings(operands, isOutput, before, s.text());
            if (HasFatalFailure()) return;
            EXPECT_EQ(s.wrong(drawn), "") << s.text();
            ++ran;
        }
    }
    if (ran == 0) GTEST_SKIP() << refusal;
    EXPECT_GE(ran, fullExtent() ? 60u : 4u);
    std::printf("%zu statistics between poisoned neighbours\n", ran);
}

std::string nameOf(const testing::TestParamInfo<TestLayout> &info) {
    return info.param.name;
}
INSTANTIATE_TEST_SUITE_P(Kernels, OutOfRange, testing::ValuesIn(kernels), nameOf);
INSTANTIATE_TEST_SUITE_P(Kernels, Surroundings, testing::ValuesIn(kernels), nameOf);
