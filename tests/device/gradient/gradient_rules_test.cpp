// Rules of gradients on the device that are more than bounds: the same bits however the work is cut,
// NaN that stays where it belongs, the word of values that are not finite, and gradients in lists.
#include "device/environment.hpp"
#include "device/gradient/gradient_case.hpp"
#include "device/lists.hpp"
#include "support/extent.hpp"
#include "support/golden_gradient.hpp"
#include "vkattn/list.hpp"

#include <cmath>
#include <cstring>
#include <limits>

using namespace vkattn;
using namespace vkattn::test;

namespace {

constexpr float notANumber = std::numeric_limits<float>::quiet_NaN();

// Runs the case and returns what is wrong; the results are in the case.
std::string run(Runtime &runtime, GradientCase &c, RunResult &result) {
    result = runtime.run(c.operation(), c.operands());
    if (result.status != VKATTN_OK) return "status " + std::to_string(result.status) + ": " + result.message;
    return result.fallbackReason;
}

std::unique_ptr<Runtime> openWithWorkspace(uint64_t bytes) {
    RuntimeOptions options = optionsFor(Limits::full);
    options.maxWorkspaceBytes = bytes;
    std::string why;
    std::unique_ptr<Runtime> runtime = Runtime::open(options, nullptr, &why);
    EXPECT_TRUE(runtime) << why;
    return runtime;
}

} // namespace

TEST(Gradient, goldenCases) {
    for (const Limits limits : {Limits::full, Limits::weak})
        for (const bool options : {false, true}) {
            Runtime *runtime = runtimeFor(limits);
            ASSERT_TRUE(runtime);
            GoldenGradient c(options);
            c.g.kernel = VKATTN_GRADIENT_STAGED;
            const RunResult result = runtime->run(c.operation(), c.memory());
            ASSERT_EQ(result.status, VKATTN_OK) << result.message;
            ASSERT_EQ(result.fallbackReason, "");
            c.expectResults();
        }
}

// Rows, heads and batch entries in one chunk, in some, and each row by itself.
TEST(Gradient, bitsDoNotDependOnChunks) {
    Random random = randomFor("chunks of gradients");
    const std::unique_ptr<Runtime> runtimes[] = {openWithWorkspace(0), openWithWorkspace(20000), openWithWorkspace(1)};
    uint32_t cut = 0;
    const Draws draws(12, 60);
    for (int n = 0; draws.take(n); ++n) {
        Case forward = randomCase(random, 4);
        forward.deterministic = true;
        GradientOptions options = drawGradientOptions(random);
        options.kernel = VKATTN_GRADIENT_STAGED;
        GradientCase c(forward, options, random);
        const std::vector<GradientCase::Given> before = c.tensors;
        std::vector<GradientCase::Given> first;
        uint32_t dispatches = 0;
        for (const std::unique_ptr<Runtime> &runtime : runtimes) {
            ASSERT_TRUE(runtime);
            c.tensors = before;
            RunResult result;
            ASSERT_EQ(run(*runtime, c, result), "") << c.text();
            if (first.empty()) first = c.tensors, dispatches = result.dispatchCount;
            cut += result.dispatchCount > dispatches;
            for (size_t t = 0; t < first.size(); ++t)
                ASSERT_EQ(std::memcmp(first[t].tensor.data(), c.tensors[t].tensor.data(), first[t].tensor.bytes()), 0)
                    << "role " << first[t].role << ", " << result.dispatchCount << " dispatches instead of " << dispatches << ": "
                    << c.text();
        }
    }
    EXPECT_GT(cut, 12u);
}

// In one piece, in some slices, and in more than have work, of each routine that takes the problem.
TEST(Gradient, bitsDoNotDependOnSlices) {
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    Random random = randomFor("slices of gradients");
    uint32_t cut = 0;
    const Draws draws(6, 60);
    for (int n = 0; draws.take(n); ++n) {
        Case forward = randomCase(random, 4);
        GradientOptions options = drawGradientOptions(random);
        constexpr vkattn_gradient_kernel routines[] = {VKATTN_GRADIENT_STAGED, VKATTN_GRADIENT_TILES, VKATTN_GRADIENT_COOPMAT};
        options.kernel = routines[n % 3];
        if (options.kernel != VKATTN_GRADIENT_STAGED) options.dWeights = options.weightsDropped = options.dBias = false;
        if (options.kernel == VKATTN_GRADIENT_COOPMAT) forward.q = forward.k = forward.v = VKATTN_F16, options.dOutAsQ = true;
        GradientCase c(forward, options, random);
        const std::vector<GradientCase::Given> before = c.tensors;
        std::vector<GradientCase::Given> first;
        uint32_t dispatches = 0;
        for (const uint32_t slices : {0u, 2u, 7u, UINT32_MAX}) {
            c.tensors = before;
            c.forward->problem.sliceCount = slices;
            RunResult result;
            const std::string wrong = run(*runtime, c, result);
            if (result.status == VKATTN_ERROR_UNSUPPORTED && slices == 0) break; // not by this routine
            ASSERT_EQ(wrong, "") << c.text();
            if (first.empty()) first = c.tensors, dispatches = result.dispatchCount;
            cut += result.dispatchCount > dispatches;
            for (size_t t = 0; t < first.size(); ++t)
                ASSERT_EQ(std::memcmp(first[t].tensor.data(), c.tensors[t].tensor.data(), first[t].tensor.bytes()), 0)
                    << "role " << first[t].role << ", " << slices << " slices, " << result.dispatchCount << " dispatches instead of "
                    << dispatches << ": " << c.text();
        }
    }
    EXPECT_GT(cut, fullExtent() ? 4u : 2u);
}

// One NaN or infinity in what one row reads, and elsewhere; the oracle says what it reaches.
TEST(Gradient, keepsNaNWhereItBelongs) {
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    Random random = randomFor("gradients of NaN");
    const Draws draws(16, 80);
    for (int n = 0; draws.take(n); ++n) {
        Case forward = randomCase(random, 3);
        forward.sharedHeads = forward.valuesInKeys = false;
        GradientOptions options = drawGradientOptions(random);
        options.kernel = VKATTN_GRADIENT_STAGED;
        options.dropout = 0;
        options.drawLayouts = false;
        GradientCase c(forward, options, random);
        HostTensor &t = n % 2 ? c.forward->q : *c.find(VKATTN_D_OUT);
        const uint32_t *const e = t.layout.extent;
        if (!e[2]) continue;
        t.set(static_cast<uint32_t>(random() % e[0]), static_cast<uint32_t>(random() % e[1]), static_cast<uint32_t>(random() % e[2]),
              static_cast<uint32_t>(random() % e[3]), notANumber);
        c.computeForward();
        ASSERT_EQ(runAndVerify(*runtime, c), "") << (n % 2 ? "NaN in q: " : "NaN in dOut: ") << c.text();
    }
}

// The word changes where a stored value is infinite, and in no other case.
TEST(Gradient, tellsValuesThatAreNotFinite) {
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    Random random = randomFor("not finite");
    for (const uint32_t held : {0u, 1u, 6u})
        for (const bool overflows : {false, true}) {
            Case forward;
            forward.k = VKATTN_F16; // and so dK
            GradientOptions options;
            options.kernel = VKATTN_GRADIENT_STAGED;
            options.nonfinite = true;
            options.dQ = options.dV = false;
            options.lossScale = overflows ? 1e-7f : 1.0f;
            GradientCase c(forward, options, random);
            c.find(VKATTN_NONFINITE)->setWord(0, 0, 0, 0, held);
            RunResult result;
            ASSERT_EQ(run(*runtime, c, result), "");
            EXPECT_EQ(c.find(VKATTN_NONFINITE)->getWord(0, 0, 0, 0), overflows ? held | 1 : held);
        }
}

// The forward pass and its gradients in one list, with memory of the device between them.
TEST(Gradient, followsTheForwardPassInAList) {
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    Random random = randomFor("gradients in a list");
    const auto allocate = [&](const vkattn_layout &layout) { return allocateDrawn(*runtime, layout, random); };
    const vkattn_layout q = packed(VKATTN_F32, 2, 4, 33, 24), k = packed(VKATTN_F32, 2, 2, 40, 24), v = packed(VKATTN_F32, 2, 2, 40, 16);
    AttentionOf forward;
    forward.q = allocate(q), forward.k = allocate(k), forward.v = allocate(v);
    forward.out = allocate(packed(VKATTN_F32, 2, 4, 33, 16)), forward.lse = allocate(packed(VKATTN_F32, 2, 4, 33, 2));
    forward.bias = allocate(packed(VKATTN_F32, 1, 4, 1, 40)), forward.slopes = allocate(vector(VKATTN_F32, 4));
    forward.sinks = allocate(vector(VKATTN_F32, 4));
    forward.options.flags = VKATTN_CAUSAL | VKATTN_ROW_STATISTICS;
    AttentionGradientOf gradient;
    gradient.forward = forward;
    gradient.dOut = allocate(packed(VKATTN_F32, 2, 4, 33, 16));
    gradient.dQ = allocate(q), gradient.dK = allocate(k), gradient.dV = allocate(v);
    gradient.dBias = allocate(packed(VKATTN_F32, 1, 4, 1, 40));
    gradient.dSinks = allocate(vector(VKATTN_F32, 4)), gradient.dSlopes = allocate(vector(VKATTN_F32, 4));
    gradient.dScale = allocate(vector(VKATTN_F32, 1));
    OperationList list = runtime->list();
    std::string why;
    ASSERT_EQ(list.add(forward, &why), VKATTN_OK) << why;
    ASSERT_EQ(list.add(gradient, &why), VKATTN_OK) << why;
    expectVerified(list);
}

// Their dOut is NaN here, and nothing may read it.
TEST(Gradient, rowsThatSeeNothingReachSinksAlone) {
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    Random random = randomFor("rows that see nothing");
    Case forward;
    forward.causal = forward.sinks = true;
    forward.queryTokens = 28, forward.keyTokens = 14;
    GradientOptions options;
    options.kernel = VKATTN_GRADIENT_STAGED;
    options.arrays = options.dLse = true;
    GradientCase c(forward, options, random);
    EXPECT_EQ(runAndVerify(*runtime, c), "");
}
