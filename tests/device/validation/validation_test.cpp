// Under the Khronos validation layer with synchronization validation: silent on the real thing, and
// first, as a positive control, not silent when the barriers between dispatches are left out (a
// layer that reports nothing would prove nothing).
#include "conform/cases/operation_case.hpp"
#include "conform/checks/selection.hpp"
#include "conform/layers/layer_gradient_case.hpp"
#include "conform/linear/linear_gradient_case.hpp"
#include "conform/statistics/statistics_case.hpp"
#include "device/environment.hpp"
#include "device/gradient/gradient_case.hpp"
#include "device/recording/random_list.hpp"
#include "support/extent.hpp"
#include "support/vulkan/faulty_vulkan.hpp"

#include <algorithm>
#include <cstring>
#include <map>

using namespace vkattn;
using namespace vkattn::test;

namespace {

struct Log {
    std::vector<std::string> messages;
    RuntimeOptions options() {
        RuntimeOptions o;
        o.validation = true;
        o.getInstanceProcAddr = faultyGetInstanceProcAddr;
        o.log = [this](const char *message) {
            // Only newer layers report this, also for dispatches that write different columns of
            // one binding: the layers take the whole binding for written.
            // Plan.everyCaseFitsEveryLimit looks for real hazards.
            if (std::strstr(message, "SYNC-HAZARD-WRITE-AFTER-WRITE") == nullptr) messages.emplace_back(message);
        };
        return o;
    }
    [[nodiscard]] size_t count(const char *part) const {
        return static_cast<size_t>(
            std::count_if(messages.begin(), messages.end(), [&](const std::string &m) { return m.find(part) != std::string::npos; }));
    }
};

// The cases are those of the quick plan, up to 120 of the staged kernel (60 by default) and 25 of each
// other kernel in each of its layouts and limits (by default in one of these: each compiles its own
// pipelines). They are drawn anew with each seed, with the two sets of pipelines that most cases
// share: the layer looks at dispatches, not at what shaders compute.
std::vector<Check> someChecks(const DeviceInfo &device) {
    Selection selection;
    selection.extent = Extent::quick;
    selection.seed = seed();
    std::map<std::string, std::vector<Check>> groups;
    for (const Planned &planned : planChecks(device, selection)) {
        const Check &c = planned.check;
        // To compile: barriers.
        const bool slow = std::string(c.testLayout->name).find("Portable") != std::string::npos;
        const bool builtIn = c.testLayout == &testLayouts()[0] && c.c.kernel > VKATTN_KERNEL_STAGED;
        if (std::string(c.kind->name) == "matrix" && c.c.keyTokens < 1000 && !slow && !builtIn)
            groups[std::string(c.testLayout->name) + limitsName(c.limits) + vkattnKernelName(c.c.kernel)].push_back(c);
    }
    std::vector<std::string> names;
    for (const auto &[name, checks] : groups) names.push_back(name);
    Random order = randomFor("order of what is validated");
    std::shuffle(names.begin(), names.end(), order);
    std::map<vkattn_kernel, size_t> taken;
    std::vector<Check> chosen;
    for (const std::string &name : names) {
        std::vector<Check> &checks = groups[name];
        const bool staged = checks.front().c.kernel == VKATTN_KERNEL_STAGED;
        if (!staged && !fullExtent() && (checks.size() < 20 || ++taken[checks.front().c.kernel] > 1)) continue;
        std::map<std::string, size_t> sharing;
        for (const Check &c : checks) ++sharing[pipelineSignature(c.c)];
        const auto shares = [&](const Check &c) { return sharing[pipelineSignature(c.c)]; };
        Random random = randomFor("validation of " + name);
        std::shuffle(checks.begin(), checks.end(), random);
        if (!staged) std::stable_sort(checks.begin(), checks.end(), [&](const Check &a, const Check &b) { return shares(a) > shares(b); });
        checks.resize(std::min<size_t>(checks.size(), !staged ? 25 : fullExtent() ? 120 : 60));
        chosen.insert(chosen.end(), checks.begin(), checks.end());
    }
    return chosen;
}

} // namespace

TEST(Validation, reportsMissingBarriers) {
    Log log;
    DeviceUnderTest bench(log.options());
    std::string why;
    fault = {};
    Runtime *runtime = bench.runtime(testLayouts()[0], Limits::full, why);
    ASSERT_TRUE(runtime) << why;
    Case c;
    c.name = "control";
    c.kernel = VKATTN_KERNEL_STAGED;
    c.biasBroadcast = 0;
    Random random = randomFor(c.name);
    const auto in = makeCaseData(c, random);
    (void)runtime->run(in->problem, in->operands);
    EXPECT_EQ(log.messages.size(), 0u);
    fault.dropBarriers = true;
    (void)runtime->run(in->problem, in->operands);
    fault = {};
    EXPECT_GE(log.count("SYNC-HAZARD"), 1u) << "the layer does not see a deliberate hazard: this run would prove nothing";
}

// Every kernel, whole, cut into chunks and with the limits of Vulkan 1.0.
TEST(Validation, isSilent) {
    Log log;
    DeviceUnderTest bench(log.options());
    fault = {};
    const DeviceInfo *device = bench.device();
    ASSERT_TRUE(device) << bench.failure();
    std::map<std::string, size_t> ran;
    for (const Check &check : someChecks(*device)) {
        const Finding finding = conform::run(bench, check);
        EXPECT_FALSE(isFailure(finding.outcome)) << checkId(check) << ": " << finding.reason;
        EXPECT_EQ(log.messages.size(), 0u) << checkId(check) << " (" << replayText(check) << "): " << log.messages.front();
        log.messages.clear();
        ran[vkattnKernelName(check.c.kernel)] += finding.outcome == Outcome::pass;
    }
    for (const KernelSupport &kernel : device->kernels) {
        std::printf("%zu cases of %s under validation\n", ran[kernel.kernel], kernel.kernel.c_str());
        EXPECT_TRUE(!kernel.available || ran[kernel.kernel] >= (fullExtent() ? 25u : 15u)) << kernel.kernel;
    }
}

TEST(Validation, isSilentOnOperations) {
    Log log;
    DeviceUnderTest bench(log.options());
    fault = {};
    Random random = randomFor("operations under validation");
    for (const Limits limits : {Limits::full, Limits::weak, Limits::tight}) {
        std::string why;
        Runtime *runtime = bench.runtime(testLayouts()[0], limits, why);
        ASSERT_TRUE(runtime) << why;
        const Draws draws(10, 150);
        for (int n = 0; draws.take(n); ++n) {
            OperationCase c = drawOperation(random, otherKind(n));
            const RunResult result = runtime->run(c.operation(), c.operands());
            EXPECT_TRUE(result.status == VKATTN_OK || result.status == VKATTN_ERROR_UNSUPPORTED) << result.message << c.text();
            for (const std::string &message : log.messages) ADD_FAILURE() << message << c.text();
            if (HasFailure()) return; // the first is enough
        }
    }
}

TEST(Validation, isSilentOnGradients) {
    Log log;
    DeviceUnderTest bench(log.options());
    fault = {};
    Random random = randomFor("gradients under validation");
    for (const Limits limits : {Limits::full, Limits::weak, Limits::tight}) {
        std::string why;
        Runtime *runtime = bench.runtime(testLayouts()[0], limits, why);
        ASSERT_TRUE(runtime) << why;
        const Draws draws(6, 100);
        for (int n = 0; draws.take(n); ++n) {
            Case forward = randomCase(random, 4);
            GradientOptions options = drawGradientOptions(random);
            if (n % 3 == 2) { // on matrix units, where the device has them
                forward.q = forward.k = forward.v = VKATTN_F16;
                options.dWeights = options.weightsDropped = options.dBias = false;
                options.dOutAsQ = true;
                options.kernel = VKATTN_GRADIENT_COOPMAT;
            }
            GradientCase c(forward, options, random);
            const RunResult result = runtime->run(c.operation(), c.operands());
            EXPECT_TRUE(result.status == VKATTN_OK || result.status == VKATTN_ERROR_UNSUPPORTED) << result.message << c.text();
            for (const std::string &message : log.messages) ADD_FAILURE() << message << c.text();
            if (HasFailure()) return; // the first is enough
        }
    }
}

TEST(Validation, isSilentOnStatistics) {
    Log log;
    DeviceUnderTest bench(log.options());
    fault = {};
    Random random = randomFor("statistics under validation");
    for (const Limits limits : {Limits::full, Limits::tight}) { // of weak ones nothing is recorded
        std::string why;
        Runtime *runtime = bench.runtime(testLayouts()[0], limits, why);
        ASSERT_TRUE(runtime) << why;
        const Draws draws(6, 100);
        Case c = randomCase(random, 4);
        StatisticsOptions options = drawStatisticsOptions(random);
        for (int n = 0; draws.take(n); ++n) {
            // Two sets of pipelines by default.
            if (n % 3 == 0 && n > 0) c = randomCase(random, 4), options = drawStatisticsOptions(random);
            StatisticsCase s = drawStatistics(random, n % 3 ? samePipelines(random, c) : c, options);
            s.attention.sliceCount = n % 2 ? 3 : 0;
            const RunResult result = runtime->run(s.operation(), s.operands());
            EXPECT_TRUE(result.status == VKATTN_OK || result.status == VKATTN_ERROR_UNSUPPORTED) << result.message << s.text();
            for (const std::string &message : log.messages) ADD_FAILURE() << message << s.text();
            if (HasFailure()) return; // the first is enough
        }
    }
}

TEST(Validation, isSilentOnLinearAttentionAndItsGradients) {
    Log log;
    DeviceUnderTest bench(log.options());
    fault = {};
    Random random = randomFor("linear attention under validation");
    for (const Limits limits : {Limits::full, Limits::tight}) { // of weak ones nothing is recorded
        std::string why;
        Runtime *runtime = bench.runtime(testLayouts()[0], limits, why);
        ASSERT_TRUE(runtime) << why;
        const Draws draws(4, 60);
        for (int n = 0; draws.take(n); ++n) {
            LinearGradientCase c = drawLinearGradient(random);
            LinearCase forward = c.forward;
            forward.linear.sliceCount = n % 2 ? 3 : 0;
            for (const RunResult &result :
                 {runtime->run(c.operation(), c.operands()), runtime->run(forward.operation(), forward.operands())})
                EXPECT_TRUE(result.status == VKATTN_OK || result.status == VKATTN_ERROR_UNSUPPORTED) << result.message << c.text();
            for (const std::string &message : log.messages) ADD_FAILURE() << message << c.text();
            if (HasFailure()) return; // the first is enough
        }
    }
}

TEST(Validation, isSilentOnLayerGradients) {
    Log log;
    DeviceUnderTest bench(log.options());
    fault = {};
    Random random = randomFor("gradients of layers under validation");
    for (const Limits limits : {Limits::weak, Limits::full}) {
        std::string why;
        Runtime *runtime = bench.runtime(testLayouts()[0], limits, why);
        ASSERT_TRUE(runtime) << why;
        const Draws draws(1, 30);
        for (int n = 0; draws.take(n); ++n) {
            const auto d = drawLayerGradient(random, n == 0 ? MultiHeadParts::all : MultiHeadParts::any);
            OperationList list = runtime->list();
            ASSERT_EQ(d->addTo(*runtime, list, &why), VKATTN_OK) << why;
            EXPECT_EQ(list.run().status, VKATTN_OK);
            ASSERT_EQ(log.messages.size(), 0u) << log.messages.front() << "; " << d->text();
        }
    }
}

// The barriers of lists are those that are needed: silent with them, and not without.
TEST(Validation, isSilentOnLists) {
    Log log;
    DeviceUnderTest bench(log.options());
    fault = {};
    Random random = randomFor("lists under validation");
    std::string why;
    size_t barriers = 0;
    Runtime *runtime = nullptr;
    for (const Limits limits : {Limits::weak, Limits::full}) { // with a workspace and without
        runtime = bench.runtime(testLayouts()[0], limits, why);
        ASSERT_TRUE(runtime) << why;
        const Draws draws(8, 60);
        for (int n = 0; draws.take(n); ++n) {
            RandomList drawn(*runtime, random, 12);
            barriers += drawn.list.barrierCount();
            ASSERT_EQ(drawn.list.record(&why), VKATTN_OK) << why;
            for (int replay = 0; replay < 2; ++replay) ASSERT_EQ(drawn.list.submit(&why), VKATTN_OK) << why;
            ASSERT_EQ(drawn.list.wait(&why), VKATTN_OK) << why;
            ASSERT_EQ(log.messages.size(), 0u) << "list " << n << ": " << log.messages.front();
        }
    }
    EXPECT_GT(barriers, 20u);
    fault.dropBarriers = true;
    RandomList bare(*runtime, random, 12);
    EXPECT_EQ(bare.list.run().status, VKATTN_OK);
    fault = {};
    EXPECT_GE(log.count("SYNC-HAZARD"), 1u) << "the layer does not see lists without barriers";
}
