// The whole case matrix against the oracle: with the device's own limits, with the Vulkan 1.0 minimum, and cut into many chunks.
#include "forms.hpp"

#include <algorithm>
#include <cstring>

using namespace vkattn;
using namespace vkattn::test;

namespace {

// Half of the cases that are cut into chunks are dealt out to slices.
uint32_t someSlices(Random &random) {
    constexpr uint32_t counts[] = {0, 0, 0, 1, 2, 3, 7, 50};
    return counts[random() % std::size(counts)];
}

void runMatrix(Limits limits, bool full, vkattn_kernel kernel = VKATTN_KERNEL_STAGED) {
    Runtime *runtime = runtimeFor(limits);
    ASSERT_TRUE(runtime);
    Random random = randomFor("matrix");
    // Full tiles take a second a pipeline to compile on software drivers: of the planner's choices, one set of types and dims.
    const std::vector<Case> cases = kernel == VKATTN_KERNEL_STAGED ? caseMatrix(random, full) : formMatrix(random, 0);
    size_t ran = 0;
    for (Case c : cases) {
        c.kernel = kernel;
        // Rows of a 2048-wide head with dims far apart do not fit a 64 KiB binding: the plan refuses, which tests/unit/plan_test.cpp
        // covers.
        if (limits == Limits::tiny && std::max(c.headDim, c.valueDim) * std::max({c.queryTokens, c.keyTokens, 1u}) * 4 > 60000) continue;
        Random own = randomFor(c.name);
        if (limits == Limits::tiny) c.slices = someSlices(own);
        const auto instance = makeInstance(c, own);
        const std::string wrong = runAndCheck(*runtime, *instance);
        EXPECT_EQ(wrong, "") << c.name << " in " << c.slices << " slices";
        ++ran;
    }
    std::printf("%zu cases\n", ran);
    EXPECT_GE(ran, full ? 500u : 200u);
}

} // namespace

TEST(Device, isListed) {
    std::string why;
    const std::vector<DeviceInfo> devices = Runtime::devices(&why);
    ASSERT_FALSE(devices.empty()) << why;
    for (const DeviceInfo &device : devices) {
        std::printf("%u  %s  %s  %s\n", device.index, device.name.c_str(), deviceTypeName(device.type), device.driver.c_str());
        EXPECT_FALSE(device.kernels.empty());
    }
}

TEST(Matrix, fullLimits) {
    runMatrix(Limits::full, true);
}
TEST(Matrix, vulkan10Limits) {
    runMatrix(Limits::weak, false);
}
TEST(Matrix, cutIntoChunks) {
    runMatrix(Limits::tiny, false);
}

// What the planner chooses, kernel by kernel, on the weakest device: fused kernels where four storage buffers do.
TEST(Matrix, vulkan10LimitsAuto) {
    runMatrix(Limits::weak, false, VKATTN_KERNEL_AUTO);
}

namespace {

class MatrixOf : public EveryForm {
  protected:
    // Of what is cut into chunks, and of forms that differ from others only in how lanes exchange sums: few pipelines, overlays in turn.
    [[nodiscard]] bool isTaken(const Case &c) const {
        const size_t turn = GetParam() % 4;
        const bool others = c.alibi || c.softcap > 0 || (c.maskBroadcast && turn != 0) || (c.biasBroadcast && turn != 1) ||
                            (c.bitMaskBroadcast && turn != 2) || (c.documents != Documents::none && turn != 3);
        return !others && c.headDim == 8 && c.valueDim == 8 && c.q == VKATTN_F32 && c.k == VKATTN_F32 && c.kStyle != Style::dimMajor;
    }
    void run(Room room, bool all, size_t pipelines) {
        Runtime *on = runtime(room);
        if (!on) return;
        Random random = randomFor(std::string("matrix of ") + form().name);
        std::vector<Case> cases = formMatrix(random, pipelines);
        // 512 dims in one lane take software drivers minutes to compile; BuiltInTiles has them as the planner lays them out.
        const std::string name = form().name;
        if (name != "flashSubgroups" && name != "flashPortable" && name != "flashSharedTiles")
            std::erase_if(cases, [](const Case &c) { return c.headDim == 512; });
        if (!all) std::erase_if(cases, [&](const Case &c) { return !isTaken(c); });
        size_t ran = 0, refused = 0;
        for (const Case &given : cases) {
            Case c = taken(given);
            Random own = randomFor(c.name);
            if (room == Room::tight) c.slices = someSlices(own);
            const auto in = makeInstance(c, own);
            const std::string expected = refusalOf(form(), *in), wrong = runAndCheck(*on, *in);
            if (expected.empty())
                EXPECT_EQ(wrong, "") << c.name;
            else
                EXPECT_NE(wrong.find(expected), std::string::npos) << c.name << ": " << wrong;
            ++(expected.empty() ? ran : refused);
        }
        std::printf("%s: %zu cases run, %zu refused by design, %u pipelines so far\n", form().name, ran, refused,
                    on->compileStatistics().pipelines);
        EXPECT_GE(ran, all ? 150u : 30u);
    }
};

} // namespace

TEST_P(MatrixOf, wholeProblems) {
    if (form().kernel == VKATTN_KERNEL_STAGED) GTEST_SKIP() << "Matrix.fullLimits has all of it";
    // Forms with barriers take seconds a pipeline to compile on CPU devices, and the other forms run the same code of options.
    run(Room::all, std::string(form().name).find("Portable") == std::string::npos, 0);
}
TEST_P(MatrixOf, cutIntoChunks) {
    if (form().kernel == VKATTN_KERNEL_STAGED) GTEST_SKIP() << "Matrix.cutIntoChunks has all of it";
    run(Room::tight, false, 0);
}
VKATTN_FORMS(MatrixOf);

class Repeated : public EveryForm {};
TEST_P(Repeated, sameDeviceSamePlanSameBits) {
    Runtime *on = runtime();
    if (!on) return;
    Random random = randomFor("repeat");
    std::vector<Case> cases = form().kernel == VKATTN_KERNEL_STAGED ? caseMatrix(random, false) : formMatrix(random, 0);
    std::shuffle(cases.begin(), cases.end(), random);
    size_t ran = 0;
    for (Case &c : cases) {
        if (ran == 40) break;
        if (form().kernel != VKATTN_KERNEL_STAGED && (c.headDim != 8 || c.softcap > 0 || c.q != VKATTN_F32 || c.k != VKATTN_F32)) continue;
        Random own = randomFor(c.name);
        const auto instance = makeInstance(taken(c), own);
        if (!refusalOf(form(), *instance).empty()) continue;
        ASSERT_EQ(on->run(instance->problem, instance->operands).status, VKATTN_OK);
        const HostTensor first = instance->out;
        ASSERT_EQ(on->run(instance->problem, instance->operands).status, VKATTN_OK);
        EXPECT_EQ(0, std::memcmp(first.data(), instance->out.data(), first.bytes())) << c.name;
        ++ran;
    }
    EXPECT_GE(ran, 30u);
}
VKATTN_FORMS(Repeated);

// Devices may flush f32 denormals to 0; the tolerance knows that and nothing more.
TEST(Matrix, denormalValuesMayBeFlushed) {
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    Case c;
    c.name = "denormalValues";
    Random own = randomFor(c.name);
    const auto instance = makeInstance(c, own);
    for (uint32_t b = 0; b < c.batch; ++b)
        for (uint32_t h = 0; h < c.kvHeads; ++h)
            for (uint32_t j = 0; j < c.keyTokens; ++j)
                for (uint32_t d = 0; d < c.valueDim; ++d) instance->v.set(b, h, j, d, 1e-39f * instance->v.get(b, h, j, d));
    EXPECT_EQ(runAndCheck(*runtime, *instance), "");
}

// numerics.md 6, needle data: one dominating key at every place of a step, and at both sides of every edge of splits.
class Needles : public EveryForm {};
TEST_P(Needles, everyKeyOfAStepAndEveryEdgeOfSplits) {
    Runtime *on = runtime();
    if (!on) return;
    Case c = taken({});
    c.data = Data::needle, c.batch = 1, c.headDim = c.valueDim = 8, c.queryTokens = 3, c.poison = false;
    const auto check = [&] {
        c.name = "needle" + std::to_string(c.needle) + "of" + std::to_string(c.keyTokens);
        Random own = randomFor(c.name);
        const auto in = makeInstance(c, own);
        EXPECT_EQ(runAndCheck(*on, *in), "") << c.name;
    };
    c.keyTokens = 41;
    for (c.needle = 0; c.needle < 41; ++c.needle) check();
    c.deterministic = true, c.keyTokens = 2100; // splits of 1024 keys
    for (const uint32_t needle : {0u, 1u, 1022u, 1023u, 1024u, 1025u, 2047u, 2048u, 2099u}) c.needle = needle, check();
}
VKATTN_FORMS(Needles);

// numerics.md 6: ordinary inputs in f32 reach 2e-6 of the largest |v|.
TEST(Matrix, ordinaryInputsReachTheStatedAccuracy) {
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    double worst = 0;
    for (const uint32_t keys : {64u, 512u, 4096u})
        for (const uint32_t dim : {16u, 64u, 128u, 256u}) {
            Case c;
            c.name = "ordinary" + std::to_string(keys) + "x" + std::to_string(dim);
            c.batch = 1, c.queryTokens = 24, c.keyTokens = keys, c.headDim = c.valueDim = dim, c.causal = dim == 64;
            Random own = randomFor(c.name);
            const auto instance = makeInstance(c, own);
            vkattn_verify_report report{};
            EXPECT_EQ(runAndCheck(*runtime, *instance, &report), "") << c.name;
            EXPECT_LE(report.maxErrorRelativeToV, 2e-6) << c.name;
            worst = std::max(worst, report.maxErrorRelativeToV);
        }
    std::printf("worst error / max|v|: %.3g\n", worst);
}
