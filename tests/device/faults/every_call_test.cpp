// Every Vulkan call of the runtime fails in turn, with every error that it may return: opening,
// prewarming, self-test, running, running again. The code and the reason are the documented ones,
// answers are right wherever they come from, nothing leaks, and the next run works or says that the
// device is lost.
#include "conform/cases/operation_case.hpp"
#include "conform/statistics/statistics_case.hpp"
#include "device/environment.hpp"
#include "every_call.hpp"

#include <algorithm>
#include <cstring>

using namespace vkattn;
using namespace vkattn::test;

namespace {

// Tiny tiles, which compile sooner; stages are small anyway.
const std::string tiles = "vkattn-tuning 1\nflash maxDim=512 dimLanes=2 rowLanes=2 rowsPerLane=1 keysPerLane=1\n"
                          "decode maxDim=512 dimLanes=2 keyLanes=2 rowsPerLane=1 keysPerLane=1\n";

Case caseOf(vkattn_kernel kernel, uint32_t slices = 0) {
    Case c;
    c.name = "every call";
    c.batch = 1, c.heads = c.kvHeads = 2;
    c.queryTokens = kernel == VKATTN_KERNEL_DECODE ? 1 : 9;
    c.keyTokens = 11, c.headDim = c.valueDim = 8;
    c.causal = c.lse = true;
    c.outStyle = Style::padded;
    c.kernel = kernel;
    c.slices = slices;
    return c;
}

bool isRight(const test::CaseData &in) {
    vkattn_verify_report report{};
    return vkattnCpuVerify(&in.problem, in.operands.data(), static_cast<uint32_t>(in.operands.size()), nullptr, &report, nullptr) ==
               VKATTN_OK &&
           report.passed;
}

bool contains(const std::string &text, const std::string &part) {
    return text.find(part) != std::string::npos;
}

// What a runtime computes, and how its outputs are judged.
class Work {
  public:
    Work() = default;
    Work(const Work &) = delete;
    Work &operator=(const Work &) = delete;
    virtual ~Work() = default;
    [[nodiscard]] virtual std::string name() const = 0;
    [[nodiscard]] virtual vkattn_operation operation() const = 0;
    [[nodiscard]] virtual std::vector<vkattn_operand_memory> operands() = 0;
    // Fills the outputs, and remembers with what.
    virtual void spoil(Random &random) = 0;
    // What was written although it must not be; empty: nothing.
    [[nodiscard]] virtual std::string damage() = 0;
    // Returns whether the outputs are what they were filled with.
    [[nodiscard]] virtual bool untouched() = 0;
    [[nodiscard]] virtual bool right() = 0;
};
using WorkList = std::vector<std::unique_ptr<Work>>;

class AttentionWork final : public Work {
  public:
    explicit AttentionWork(const Case &c) {
        Random random = randomFor(c.name);
        instance_ = makeCaseData(c, random);
    }
    [[nodiscard]] std::string name() const override { return "attention"; }
    [[nodiscard]] vkattn_operation operation() const override { return vkattn::operation(instance_->problem); }
    [[nodiscard]] std::vector<vkattn_operand_memory> operands() override { return instance_->operands; }
    void spoil(Random &random) override {
        instance_->out.fillRandomly(random);
        instance_->lse.fillRandomly(random);
        before_ = instance_->outputs();
    }
    [[nodiscard]] std::string damage() override { return instance_->damage(before_); }
    [[nodiscard]] bool untouched() override { return std::memcmp(before_.out.data(), instance_->out.data(), before_.out.bytes()) == 0; }
    [[nodiscard]] bool right() override { return isRight(*instance_); }

  private:
    std::unique_ptr<test::CaseData> instance_;
    Outputs before_;
};

class OperationWork final : public Work {
  public:
    explicit OperationWork(OperationCase made) : case_(std::move(made)) {
        Random random = randomFor(name());
        case_.fill(random);
    }
    // No two works of a list have the same name: it is a phase of theirs.
    [[nodiscard]] std::string name() const override {
        return std::string(vkattnOperationName(case_.kind)) + (case_.lengths.empty() ? "" : " with lengths") +
               (case_.append.tablePages ? " to pages" : "");
    }
    [[nodiscard]] vkattn_operation operation() const override { return case_.operation(); }
    [[nodiscard]] std::vector<vkattn_operand_memory> operands() override { return case_.operands(); }
    void spoil(Random &random) override {
        for (const vkattn_role role : case_.outputs()) case_.output(role).fillRandomly(random);
        before_ = case_;
    }
    [[nodiscard]] std::string damage() override {
        std::string all;
        for (const vkattn_role role : case_.outputs())
            all += case_.output(role).damage(before_.output(role),
                                             [&](uint32_t b, uint32_t g, uint32_t row, uint32_t) { return case_.writes(role, b, g, row); });
        return all;
    }
    [[nodiscard]] bool untouched() override {
        for (const vkattn_role role : case_.outputs())
            if (std::memcmp(before_.output(role).data(), case_.output(role).data(), case_.output(role).bytes()) != 0) return false;
        return true;
    }
    [[nodiscard]] bool right() override { return judge(case_, before_).report.passed != 0; }

  private:
    OperationCase case_, before_;
};

class StatisticsWork final : public Work {
  public:
    explicit StatisticsWork(StatisticsCase &&drawn) : case_(std::move(drawn)), before_(case_) {}
    [[nodiscard]] std::string name() const override { return "statistics"; }
    [[nodiscard]] vkattn_operation operation() const override { return case_.operation(); }
    [[nodiscard]] std::vector<vkattn_operand_memory> operands() override { return case_.operands(); }
    void spoil(Random &random) override {
        for (auto &[role, tensor] : case_.tensors) tensor.fillRandomly(random);
        before_ = case_;
    }
    [[nodiscard]] std::string damage() override { return case_.damage(before_); }
    [[nodiscard]] bool untouched() override { return case_.sameOutputs(before_); }
    [[nodiscard]] bool right() override { return case_.wrong(before_).empty(); }

  private:
    StatisticsCase case_, before_;
};

// Every kind, with all operands.
WorkList otherOperations() {
    OperationCase projection = plainProjection(9, 8, 8), norm = plainNorm(VKATTN_LAYER_NORM, 9, 8),
                  rotary = plainRotary(VKATTN_PAIRS_HALF, 9, 8, 8, 5), append = plainAppend(9, 20, 8), advance = plainAdvance(9),
                  mean = plainMean(3, 9, 8), keep = plainKeep(3, 9, 40), normGradient = plainNormGradient(VKATTN_LAYER_NORM, 9, 8),
                  drop = plainDrop(3, 9, 8), merge = plainMerge(3, 2, 9, 8), hadamard = plainHadamard(2, 9, 8),
                  lengths = plainProjection(9, 8, 8);
    projection.projection.bias = vector(VKATTN_F32, 8);
    projection.projection.residual = projection.projection.y;
    lengths.projection.bias = vector(VKATTN_F32, 8);
    lengths.projection.presentRoles = VKATTN_PRESENT(VKATTN_KEY_LENGTHS);
    lengths.lengths = {5};
    norm.norm.gamma = norm.norm.beta = vector(VKATTN_F32, 8);
    norm.norm.residual = norm.norm.sum = norm.norm.y;
    rotary.rotary.flags = VKATTN_ROTARY_APPEND;
    rotary.rotary.presentRoles = VKATTN_PRESENT(VKATTN_POSITIONS) | VKATTN_PRESENT(VKATTN_STARTS);
    append.append.presentRoles = VKATTN_PRESENT(VKATTN_STARTS);
    OperationCase pages = append;
    pages.append.y = packed(VKATTN_F32, 7, 1, 4, 8);
    pages.append.presentRoles |= VKATTN_PRESENT(VKATTN_PAGE_TABLE), pages.append.tablePages = 3;
    WorkList list;
    for (OperationCase *const each :
         {&projection, &norm, &rotary, &append, &pages, &merge, &hadamard, &advance, &mean, &keep, &normGradient, &drop, &lengths})
        list.push_back(std::make_unique<OperationWork>(*each));
    return list;
}

// All outputs, the density among them.
WorkList statistics() {
    Random random = randomFor("statistics of every call");
    StatisticsOptions options;
    options.densityThreshold = 0.1f;
    Case c = caseOf(VKATTN_KERNEL_AUTO);
    c.lse = false;
    WorkList list;
    list.push_back(std::make_unique<StatisticsWork>(drawStatistics(random, c, options)));
    return list;
}

// The messages of one life of a runtime, and the place in it where the call failed.
class Life {
  public:
    Life(const Trial &trial, const RuntimeOptions &options, WorkList work) : trial_(trial), options_(options), work_(std::move(work)) {
        options_.getInstanceProcAddr = faultyGetInstanceProcAddr;
        options_.log = [this](const char *message) { log_ += message; };
    }

    void live() {
        ledger.phase = "open";
        OpenStatus status = OpenStatus::ok;
        std::string message;
        const auto runtime = Runtime::open(options_, &status, &message);
        if (!runtime) {
            EXPECT_FALSE(options_.allowFallback);
            EXPECT_EQ(status, OpenStatus::deviceUnusable);
            expectReason(message);
            return;
        }
        onCpu_ = runtime->device() == nullptr;
        if (onCpu_)
            expectReason(runtime->fallbackReason());
        else
            EXPECT_TRUE(!struckIn("open") || isTolerated(trial_.function)) << "opened as if nothing had happened";
        for (const auto &work : work_)
            if (work->operation().kind == VKATTN_ATTENTION) prewarm(*runtime, *work->operation().of.attention);
        for (const auto &work : work_) run(*runtime, *work, "run of " + work->name());
        for (const auto &work : work_) run(*runtime, *work, "next run of " + work->name());
        ledger.phase = "close";
    }

  private:
    [[nodiscard]] bool struckIn(const std::string &phase) const { return ledger.struck && trial_.phase == phase; }
    // Without what the call brings, nothing has to go wrong; a lost device is never an extra.
    [[nodiscard]] bool mayPass() const { return isTolerated(trial_.function) && trial_.error != VK_ERROR_DEVICE_LOST; }

    void expectReason(const std::string &reason) const {
        // The message says what to do.
        if (trial_.error == VK_ERROR_INCOMPATIBLE_DRIVER && contains(reason, "no Vulkan driver was found")) return;
        EXPECT_TRUE(contains(reason, trial_.function)) << "'" << reason << "' does not name " << trial_.function;
    }

    void prewarm(Runtime &runtime, const vkattn_problem &problem) {
        ledger.phase = "prewarm";
        std::string why;
        const vkattn_result result = runtime.prewarm({&problem, 1}, &why);
        if (onCpu_) {
            EXPECT_EQ(result, VKATTN_OK);
            return;
        }
        if (!struckIn("prewarm") || mayPass()) {
            EXPECT_EQ(result, VKATTN_OK) << why;
        } else if (selfTestFailed() && !ledger.lost) {
            EXPECT_EQ(result, VKATTN_OK) << why; // another kernel takes the problem
        } else {
            EXPECT_EQ(result, codeOf(trial_.error)) << why;
            expectReason(why);
        }
    }

    // The kernel is then not used, and the log says why.
    [[nodiscard]] bool selfTestFailed() const { return contains(log_, "could not run") && contains(log_, trial_.function); }

    void run(Runtime &runtime, Work &work, const std::string &phase) {
        ledger.phase = phase;
        Random random = randomFor(phase);
        work.spoil(random);
        const bool lostBefore = ledger.lost;
        const RunResult result = runtime.run(work.operation(), work.operands());
        EXPECT_EQ(work.damage(), "");
        const std::string reason = result.fallbackReason + result.message;
        const bool failed = lostBefore || (struckIn(phase) && !mayPass() && !(selfTestFailed() && !ledger.lost));
        if (result.status != VKATTN_OK) {
            EXPECT_TRUE(!options_.allowFallback && failed) << phase << ": " << reason;
            EXPECT_EQ(result.status, codeOf(trial_.error));
            EXPECT_TRUE(work.untouched()) << "something was written";
        } else {
            EXPECT_TRUE(work.right() || (fault.emptyShaders && result.kernel != "cpu")) << phase;
            EXPECT_EQ(result.kernel == "cpu", onCpu_ || failed) << phase << ": " << reason;
        }
        if (onCpu_ || failed) expectReason(reason);
        if (ledger.lost) {
            EXPECT_TRUE(contains(reason, "the device was lost")) << reason;
        }
    }

    const Trial &trial_;
    RuntimeOptions options_;
    WorkList work_;
    std::string log_;
    bool onCpu_ = false;
};

// Results of the device are checked where its shaders are real: compiling them is most of the time.
// Results of the CPU are always checked.
void failEveryCallOf(const std::string &name, const RuntimeOptions &options, const std::function<WorkList()> &work) {
    failEveryCall(name + (options.allowFallback ? ", falling back" : ", not falling back"),
                  [&](const Trial &trial) { Life(trial, options, work()).live(); });
}
void failEveryCallOf(const std::string &name, const RuntimeOptions &options, const Case &c) {
    failEveryCallOf(name, options, [&] {
        WorkList list;
        list.push_back(std::make_unique<AttentionWork>(c));
        return list;
    });
}

RuntimeOptions tiny(bool allowFallback) {
    RuntimeOptions options;
    options.allowFallback = allowFallback;
    options.selfTest = 0;
    options.tuning = tiles;
    return options;
}

class EveryCall : public testing::Test {
  protected:
    void SetUp() override { fault = {}; }
    void TearDown() override { fault = {}; }
};

} // namespace

TEST_F(EveryCall, failsWithTheStagedKernel) {
    failEveryCallOf("staged", tiny(true), caseOf(VKATTN_KERNEL_STAGED));
    fault.emptyShaders = true;
    failEveryCallOf("staged", tiny(false), caseOf(VKATTN_KERNEL_STAGED));
}
TEST_F(EveryCall, failsWithTheFlashKernelInSlices) {
    fault.emptyShaders = true;
    failEveryCallOf("flash in 3 slices", tiny(true), caseOf(VKATTN_KERNEL_FLASH, 3));
    failEveryCallOf("flash in 3 slices", tiny(false), caseOf(VKATTN_KERNEL_FLASH, 3));
}
TEST_F(EveryCall, failsWithTheDecodeKernelAndDescriptorPools) {
    fault.emptyShaders = fault.hidePushDescriptors = true;
    failEveryCallOf("decode with descriptor pools", tiny(true), caseOf(VKATTN_KERNEL_DECODE));
}
TEST_F(EveryCall, failsWithAStagingBuffer) {
    fault.emptyShaders = fault.pretendDiscrete = true;
    failEveryCallOf("staged through a staging buffer", tiny(true), caseOf(VKATTN_KERNEL_STAGED));
}
TEST_F(EveryCall, failsWithOtherOperations) {
    fault.emptyShaders = true;
    failEveryCallOf("operations", tiny(false), otherOperations);
}
TEST_F(EveryCall, failsWithStatistics) {
    fault.emptyShaders = true;
    failEveryCallOf("statistics", tiny(false), statistics);
}
TEST_F(EveryCall, failsWithOtherOperationsInTheFormsOfFourBuffers) {
    fault.emptyShaders = true;
    RuntimeOptions options = tiny(true);
    vkattn_caps weak{};
    weak.structSize = sizeof weak;
    ASSERT_EQ(vkattnMinimumCaps(&weak, nullptr), VKATTN_OK);
    options.capsLimit = weak; // and without push descriptors
    failEveryCallOf("operations with four storage buffers", options, otherOperations);
}
TEST_F(EveryCall, failsWithASelfTest) {
    // The self-test finds that flash is wrong, and another kernel takes the problem.
    fault.emptyShaders = true;
    RuntimeOptions options = tiny(true);
    options.selfTest = 1u << VKATTN_KERNEL_FLASH;
    Case c = caseOf(VKATTN_KERNEL_AUTO);
    c.queryTokens = 40, c.keyTokens = 50, c.headDim = c.valueDim = 64;
    failEveryCallOf("self-test", options, c);
}

namespace {

Case slicedCase() {
    Case c = caseOf(VKATTN_KERNEL_STAGED, 9);
    c.queryTokens = 200, c.keyTokens = 30, c.headDim = c.valueDim = 16;
    return c;
}

RuntimeOptions smallChunks() {
    RuntimeOptions options = tiny(true);
    options.maxWorkspaceBytes = 4096; // many dispatches: work for every slice
    options.getInstanceProcAddr = faultyGetInstanceProcAddr;
    return options;
}

// Twice: with the device lost by the given call of `function`.
void expectTheCpu(const char *function, int call) {
    Random random = randomFor("lost");
    const auto instance = makeCaseData(slicedCase(), random);
    const auto runtime = Runtime::open(smallChunks(), nullptr, nullptr);
    ASSERT_TRUE(runtime && runtime->device());
    fault = {function, VK_ERROR_DEVICE_LOST, 1, call};
    for (int run = 0; run < 2; ++run) {
        instance->out.fillRandomly(random);
        const Outputs before = instance->outputs();
        const RunResult result = runtime->run(instance->problem, instance->operands);
        const std::string where = std::string(function) + " of slice " + std::to_string(call) + ", run " + std::to_string(run);
        EXPECT_EQ(result.status, VKATTN_OK) << where << ": " << result.message;
        EXPECT_EQ(result.kernel, "cpu") << where;
        EXPECT_TRUE(contains(result.fallbackReason, std::string("the device was lost: ") + function)) << result.fallbackReason;
        EXPECT_TRUE(isRight(*instance)) << where;
        EXPECT_EQ(instance->damage(before), "") << where;
    }
    fault = {};
}

} // namespace

// The device is lost in the middle of the work. The CPU computes everything, results of the device
// are not mixed in, and this runtime stays with the CPU.
TEST_F(EveryCall, aDeviceLostInAnySliceIsAnsweredByTheCpu) {
    Random random = randomFor("lost");
    const auto instance = makeCaseData(slicedCase(), random);
    const auto runtime = Runtime::open(smallChunks(), nullptr, nullptr);
    ASSERT_TRUE(runtime && runtime->device());
    ledger.calls.clear();
    ASSERT_EQ(runtime->run(instance->problem, instance->operands).kernel, "staged");
    const auto slices = std::count_if(ledger.calls.begin(), ledger.calls.end(),
                                      [](const Ledger::Call &call) { return std::string(call.function) == "vkQueueSubmit"; });
    EXPECT_EQ(slices, 9);
    for (const char *function : {"vkQueueSubmit", "vkWaitForFences"})
        for (int slice = 0; slice < slices; ++slice) expectTheCpu(function, slice);
    std::printf("faults: the device was lost by the submit and by the wait of each of %d slices\n", static_cast<int>(slices));
}
