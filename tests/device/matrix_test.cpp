// The whole case matrix against the oracle: with the device's own limits, with the Vulkan 1.0 minimum, and cut into many chunks.
#include "forms.hpp"

#include <algorithm>
#include <cstring>

using namespace vkattn;
using namespace vkattn::test;

namespace {

void runMatrix(Limits limits, bool full, vkattn_kernel kernel = VKATTN_KERNEL_STAGED) {
    Runtime *runtime = runtimeFor(limits);
    ASSERT_TRUE(runtime);
    Random random = randomFor("matrix");
    const std::vector<Case> cases = caseMatrix(random, full);
    size_t ran = 0;
    for (Case c : cases) {
        c.kernel = kernel;
        // Rows of a 2048-wide head with dims far apart do not fit a 64 KiB binding: the plan refuses, which tests/unit/plan_test.cpp
        // covers.
        if (limits == Limits::tiny && std::max(c.headDim, c.valueDim) * std::max({c.queryTokens, c.keyTokens, 1u}) * 4 > 60000) continue;
        Random own = randomFor(c.name);
        const auto instance = makeInstance(c, own);
        const std::string wrong = runAndCheck(*runtime, *instance);
        EXPECT_EQ(wrong, "") << c.name;
        ++ran;
    }
    std::printf("%zu cases\n", ran);
    EXPECT_GE(ran, full ? 500u : 300u);
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
    void run(Room room, size_t pairs, size_t others) {
        Runtime *on = runtime(room);
        if (!on) return;
        Random random = randomFor(std::string("matrix of ") + form().name);
        size_t ran = 0, refused = 0;
        for (Case &c : formMatrix(random, pairs, others)) {
            if (room == Room::tight && std::max(c.headDim, c.valueDim) * std::max({c.queryTokens, c.keyTokens, 1u}) * 4 > 60000) continue;
            c.kernel = form().kernel;
            Random own = randomFor(c.name);
            const auto in = makeInstance(c, own);
            const std::string expected = refusalOf(form(), *in), wrong = runAndCheck(*on, *in);
            if (expected.empty())
                EXPECT_EQ(wrong, "") << c.name;
            else
                EXPECT_NE(wrong.find(expected), std::string::npos) << c.name << ": " << wrong;
            ++(expected.empty() ? ran : refused);
        }
        std::printf("%s: %zu cases run, %zu refused by design\n", form().name, ran, refused);
        EXPECT_GE(ran, 60u);
    }
};

} // namespace

TEST_P(MatrixOf, wholeProblems) {
    if (form().kernel == VKATTN_KERNEL_STAGED) GTEST_SKIP() << "Matrix.fullLimits has all of it";
    run(Room::all, 60, 60);
}
TEST_P(MatrixOf, cutIntoChunks) {
    if (form().kernel == VKATTN_KERNEL_STAGED) GTEST_SKIP() << "Matrix.cutIntoChunks has all of it";
    run(Room::tight, 30, 30);
}
VKATTN_FORMS(MatrixOf);

TEST(Matrix, sameDeviceSamePlanSameBits) {
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    Random random = randomFor("repeat");
    std::vector<Case> cases = caseMatrix(random, false);
    std::shuffle(cases.begin(), cases.end(), random);
    cases.resize(40);
    for (const Case &c : cases) {
        Random own = randomFor(c.name);
        const auto instance = makeInstance(c, own);
        ASSERT_EQ(runtime->run(instance->problem, instance->operands).status, VKATTN_OK);
        const HostTensor first = instance->out;
        ASSERT_EQ(runtime->run(instance->problem, instance->operands).status, VKATTN_OK);
        EXPECT_EQ(0, std::memcmp(first.data(), instance->out.data(), first.bytes())) << c.name;
    }
}

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
