// The kernels on matrix units without a device: when AUTO takes them, what of a workgroup the
// shader relies on, and why they refuse.
#include "core/kernels/coopmat.hpp"
#include "core/kernels/explain.hpp"
#include "core/kernels/flash.hpp"
#include "core/shaders/shaders.hpp"
#include "lib/interop.h"
#include "support/case.hpp"
#include "unit/problem_of.hpp"

#include <algorithm>
#include <cstring>
#include <gtest/gtest.h>

using namespace vkattn;
using namespace vkattn::test;

namespace {

// A GPU of today.
Caps gpu() {
    Caps caps = minimumCaps();
    caps.deviceType = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
    caps.maxStorageBuffersPerStage = 64;
    caps.maxWorkgroupInvocations = caps.maxWorkgroupSize[0] = 1024;
    caps.maxSharedMemoryBytes = 49152;
    caps.subgroupSize = 32;
    caps.subgroupShuffle = caps.fullSubgroups = 1;
    caps.minSubgroupSize = caps.maxSubgroupSize = 32;
    caps.maxWorkgroupSubgroups = 32;
    caps.matrixShapeCount = 2;
    caps.matrixShapes[0] = {16, 8, 16, VKATTN_F16};
    caps.matrixShapes[1] = {16, 16, 16, VKATTN_F16};
    return caps;
}
PlanLimits limitsOf(const Caps &caps) {
    return {caps, 64 << 20, flashTuning(caps)};
}
Case halves() {
    Case c;
    c.q = c.k = c.v = c.out = VKATTN_F16;
    c.batch = 1, c.headDim = c.valueDim = 64, c.queryTokens = 100, c.keyTokens = 200, c.poison = false;
    return c;
}
vkattn_kernel chosen(const Case &c, const Caps &caps) {
    Plan plan;
    vkattn_diagnostic why{};
    EXPECT_EQ(makePlan(problemOf(c), limitsOf(caps), plan, &why), VKATTN_OK) << why.message;
    return plan.kernel->id;
}
// The same with all of VK_NV_cooperative_matrix2 that flash_coopmat2 takes.
Caps gpu2() {
    Caps caps = gpu();
    caps.matrix2 = VKATTN_MATRIX2_FLEXIBLE | VKATTN_MATRIX2_REDUCTIONS | VKATTN_MATRIX2_CONVERSIONS | VKATTN_MATRIX2_PER_ELEMENT;
    caps.matrix2Granularity[0] = caps.matrix2Granularity[2] = 16, caps.matrix2Granularity[1] = 8;
    caps.matrix2MaxDimension = 256;
    return caps;
}
std::string refusal(Case c, const Caps &caps, vkattn_kernel kernel = VKATTN_KERNEL_FLASH_COOPMAT) {
    c.kernel = kernel;
    Plan plan;
    vkattn_diagnostic why{};
    EXPECT_EQ(makePlan(problemOf(c), limitsOf(caps), plan, &why), VKATTN_ERROR_UNSUPPORTED);
    return why.message;
}
bool says(const std::string &text, const char *part) {
    return text.find(part) != std::string::npos;
}

class Coopmat2Plan : public testing::Test {
  protected:
    void SetUp() override {
        if (!shaderFor(Module::flashCoopmat2F16).built()) GTEST_SKIP() << "flash_coopmat2 is not in this build: its glslc was too old";
    }
};

class CoopmatPlan : public testing::Test {
  protected:
    void SetUp() override {
        if (!shaderFor(Module::flashCoopmatF16).built()) GTEST_SKIP() << "flash_coopmat is not in this build: its glslc was too old";
    }
};

} // namespace

TEST_F(CoopmatPlan, autoTakesWhatFillsMatrices) {
    const Caps caps = gpu();
    EXPECT_EQ(chosen(halves(), caps), VKATTN_KERNEL_FLASH_COOPMAT);
    Case c = halves();
    c.q = c.k = c.v = VKATTN_F32;
    EXPECT_EQ(chosen(c, caps), VKATTN_KERNEL_FLASH);
    c = halves(), c.queryTokens = 1, c.heads = 8, c.kvHeads = 8;
    EXPECT_EQ(chosen(c, caps), VKATTN_KERNEL_DECODE);
    c.kvHeads = 1; // 8 rows share a key
    EXPECT_EQ(chosen(c, caps), VKATTN_KERNEL_DECODE);
    c.queryTokens = 2;
    EXPECT_EQ(chosen(c, caps), VKATTN_KERNEL_FLASH_COOPMAT);
    c = halves(), c.weights = true;
    EXPECT_EQ(chosen(c, caps), VKATTN_KERNEL_STAGED);

    Caps cpu = caps;
    cpu.deviceType = VK_PHYSICAL_DEVICE_TYPE_CPU;
    EXPECT_EQ(chosen(halves(), cpu), VKATTN_KERNEL_FLASH) << "its matrix units are loops";
    c = halves(), c.kernel = VKATTN_KERNEL_FLASH_COOPMAT;
    EXPECT_EQ(chosen(c, cpu), VKATTN_KERNEL_FLASH_COOPMAT) << "who asks gets it";
    Caps slow = caps;
    slow.slowKernels = 1u << VKATTN_KERNEL_FLASH_COOPMAT;
    EXPECT_EQ(chosen(halves(), slow), VKATTN_KERNEL_FLASH);
    EXPECT_EQ(chosen(c, slow), VKATTN_KERNEL_FLASH_COOPMAT);
    Caps wrong = caps;
    wrong.wrongKernels = 1u << VKATTN_KERNEL_FLASH_COOPMAT;
    EXPECT_EQ(chosen(halves(), wrong), VKATTN_KERNEL_FLASH);
    EXPECT_TRUE(says(refusal(halves(), wrong), "self-test"));
}

// What shaders/flash/matrices.comp relies on, written down a second time.
TEST_F(CoopmatPlan, workgroupsAreAsTheShaderNeedsThem) {
    uint32_t plans = 0;
    const vkattn_matrix_shape shapes[] = {
        {16, 16, 16, VKATTN_F16}, {16, 8, 16, VKATTN_F16}, {16, 8, 8, VKATTN_F16}, {8, 8, 8, VKATTN_F16}, {32, 8, 16, VKATTN_F16}};
    for (const uint32_t dim : {1u, 8u, 40u, 64u, 65u, 96u, 128u, 200u, 256u}) {
        Case c = halves();
        c.headDim = dim, c.valueDim = dim == 64 ? 33 : dim, c.kernel = VKATTN_KERNEL_FLASH_COOPMAT;
        const Problem problem = problemOf(c); // fills tensors, which takes longer than planning
        for (const vkattn_matrix_shape &shape : shapes)
            for (const uint32_t lanes : {4u, 8u, 16u, 32u, 64u})
                for (const uint32_t shared : {16384u, 32768u, 49152u, 65536u})
                    for (const uint32_t type : {VK_PHYSICAL_DEVICE_TYPE_CPU, VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU}) {
                        Caps caps = gpu();
                        caps.deviceType = type, caps.maxSharedMemoryBytes = shared;
                        caps.subgroupSize = caps.minSubgroupSize = caps.maxSubgroupSize = lanes;
                        caps.matrixShapeCount = 1, caps.matrixShapes[0] = shape;
                        Plan plan;
                        vkattn_diagnostic why{};
                        if (makePlan(problem, limitsOf(caps), plan, &why) != VKATTN_OK) {
                            EXPECT_TRUE(says(why.message, "shared memory") || says(why.message, "suits")) << why.message;
                            continue;
                        }
                        ++plans;
                        const MatrixShape &m = plan.flash.matrix;
                        const uint32_t rows = m.m * m.rowBlocks, parts = std::max(lanes / rows, 1u);
                        EXPECT_TRUE(m.subgroupLanes == lanes && plan.flash.tile.invocations() == lanes * m.subgroups);
                        EXPECT_LE(plan.flash.tile.invocations(), caps.maxWorkgroupInvocations);
                        EXPECT_TRUE(rows % lanes == 0 || lanes % rows == 0);
                        EXPECT_TRUE(m.tileKeys % m.n == 0 && m.tileKeys % m.k == 0 && m.tileKeys % (8 * parts) == 0);
                        EXPECT_LE(m.tileKeys / 8 + m.n / 4, m.tileKeys / 4 + 1) << "the wide matrix stays in its row";
                        EXPECT_LE(m.k / 8, m.tileKeys / 4 + 1) << "queries pass through a row of scores";
                        EXPECT_TRUE(m.paddedDim >= c.headDim && m.paddedDim % m.k == 0 && m.paddedDim < c.headDim + m.k);
                        EXPECT_TRUE(m.paddedValueDim >= c.valueDim && m.paddedValueDim % m.n == 0);
                        const uint32_t bytes =
                            16 * (m.tileKeys * (m.paddedDim / 8 + m.paddedValueDim / 8 + 2) + m.subgroups * rows * (m.tileKeys / 4 + 1)) +
                            8;
                        EXPECT_LE(bytes, shared);
                        const PipelineKey key = coopmat::pipelineKey(plan);
                        EXPECT_EQ(key.constants[0], lanes * m.subgroups);
                        EXPECT_EQ(key.constants[interop::firstOwnConstant], lanes);
                        EXPECT_EQ(plan.flash.splitKeys % m.tileKeys, 0u);
                    }
    }
    EXPECT_GT(plans, 300u);
}

TEST_F(CoopmatPlan, subgroupsOf32WhereThereIsAChoice) {
    Caps caps = gpu();
    caps.subgroupSize = caps.maxSubgroupSize = 64;
    Case c = halves();
    Plan plan;
    ASSERT_EQ(makePlan(problemOf(c), limitsOf(caps), plan, nullptr), VKATTN_OK);
    EXPECT_EQ(plan.flash.matrix.subgroupLanes, 32u);
    EXPECT_EQ(plan.flash.matrix.n, 16u) << "16x16x16 before the others";
    caps.minSubgroupSize = caps.maxSubgroupSize = 0; // sizes cannot be required: the device's own
    ASSERT_EQ(makePlan(problemOf(c), limitsOf(caps), plan, nullptr), VKATTN_OK);
    EXPECT_EQ(plan.flash.matrix.subgroupLanes, 64u);
}

TEST_F(CoopmatPlan, saysHowFarWeightsAreRounded) {
    Plan plan;
    ASSERT_EQ(makePlan(problemOf(halves()), limitsOf(gpu()), plan, nullptr), VKATTN_OK);
    EXPECT_EQ(plan.kernel->weightRounding(plan).unit, 0x1p-11f);
    EXPECT_EQ(plan.kernel->weightRounding(plan).floor, 0x1p-36f);
    Case c = halves();
    c.kernel = VKATTN_KERNEL_FLASH;
    ASSERT_EQ(makePlan(problemOf(c), limitsOf(gpu()), plan, nullptr), VKATTN_OK);
    EXPECT_EQ(plan.kernel->weightRounding(plan).unit, 0.0f);
}

// Every number of fp8 is one of f16: K and V take the queries' type in shared memory.
TEST_F(CoopmatPlan, takesKeysAndValuesOfFp8) {
    Plan plan, plain;
    ASSERT_EQ(makePlan(problemOf(halves()), limitsOf(gpu()), plain, nullptr), VKATTN_OK);
    Case c = halves();
    c.k = VKATTN_FP8_E4M3, c.v = VKATTN_FP8_E5M2;
    ASSERT_EQ(makePlan(problemOf(c), limitsOf(gpu()), plan, nullptr), VKATTN_OK);
    EXPECT_EQ(coopmat::pipelineKey(plan).module, coopmat::pipelineKey(plain).module);
    EXPECT_EQ(plan.kernel->weightRounding(plan).unit, 0x1p-11f) << "weights are rounded to the queries' type";
    EXPECT_TRUE(plan.flash.matrix.wholeWords);
    c.headDim = c.valueDim = 66; // rows begin in the middle of a word
    ASSERT_EQ(makePlan(problemOf(c), limitsOf(gpu()), plan, nullptr), VKATTN_OK);
    EXPECT_FALSE(plan.flash.matrix.wholeWords);
    // Rows begin at words, and the last word of each has dims that are none.
    const auto fills = [](uint32_t dims) {
        Tensor t{};
        t.dtype = VKATTN_FP8_E4M3;
        const uint32_t extent[4] = {1, 1, 8, dims};
        const int64_t stride[4] = {544, 544, 68, 1};
        std::copy_n(extent, 4, t.extent), std::copy_n(stride, 4, t.stride);
        return fillsWords(t);
    };
    EXPECT_FALSE(fills(66));
    EXPECT_TRUE(fills(68));
    for (const vkattn_dtype type : {VKATTN_INT8, VKATTN_Q8_0, VKATTN_Q4_0}) {
        c = halves(), c.v = type;
        EXPECT_TRUE(says(refusal(c, gpu()), (std::string("v is ") + nameOfSmallType(type)).c_str())) << refusal(c, gpu());
    }
    c = halves(), c.q = VKATTN_F32, c.k = c.v = VKATTN_FP8_E4M3;
    EXPECT_TRUE(says(refusal(c, gpu()), "q is f32")) << refusal(c, gpu());
}

TEST_F(CoopmatPlan, saysWhyItCannot) {
    Case c = halves();
    c.q = VKATTN_F32;
    EXPECT_TRUE(says(refusal(c, gpu()), "q, k and v all f16 or all bf16, and k and v fp8 beside either; q is f32")) << refusal(c, gpu());
    c = halves(), c.v = VKATTN_BF16;
    EXPECT_TRUE(says(refusal(c, gpu()), "v is bf16 and q is not")) << refusal(c, gpu());
    c = halves(), c.q = c.k = c.v = VKATTN_BF16;
    EXPECT_TRUE(says(refusal(c, gpu()), "bf16")) << refusal(c, gpu());
    c = halves(), c.headDim = 257;
    EXPECT_TRUE(says(refusal(c, gpu()), "dims up to 256, and this problem has 257"));
    c = halves(), c.weights = true;
    EXPECT_TRUE(says(refusal(c, gpu()), "only the staged kernel writes them"));
    c = halves(), c.keyTokens = 0;
    EXPECT_TRUE(says(refusal(c, gpu()), "nothing to do without keys"));
    c = halves();
    Caps caps = gpu();
    caps.matrixShapeCount = 0;
    EXPECT_TRUE(says(refusal(c, caps), "no matrix units")) << refusal(c, caps);
    caps = gpu(), caps.fullSubgroups = 0;
    EXPECT_TRUE(says(refusal(c, caps), "computeFullSubgroups"));
    caps = gpu(), caps.maxStorageBuffersPerStage = 8;
    EXPECT_TRUE(says(refusal(c, caps), "11 storage buffers a stage"));
    caps = gpu(), caps.maxSharedMemoryBytes = 8192;
    EXPECT_TRUE(says(refusal(c, caps), "bytes of shared memory; the device has 8192")) << refusal(c, caps);
    caps = gpu(), caps.maxWorkgroupInvocations = 32;
    EXPECT_TRUE(says(refusal(c, caps), "suits matrices of 16x16x16 and workgroups of 32")) << refusal(c, caps);
    caps = gpu(), caps.matrixShapeCount = 1, caps.matrixShapes[0] = {4, 4, 4, VKATTN_F16};
    EXPECT_TRUE(says(refusal(c, caps), "multiples of 8")) << refusal(c, caps);
}

TEST_F(Coopmat2Plan, whoAsksForItGetsIt) {
    EXPECT_EQ(chosen(halves(), gpu2()), VKATTN_KERNEL_FLASH_COOPMAT);
    Case c = halves();
    c.kernel = VKATTN_KERNEL_FLASH_COOPMAT2;
    EXPECT_EQ(chosen(c, gpu2()), VKATTN_KERNEL_FLASH_COOPMAT2);
    vkattn_explanation explanation{};
    ASSERT_EQ(explainPlan(problemOf(halves()), limitsOf(gpu2()), explanation, nullptr), VKATTN_OK);
    const auto whyNot = [&](vkattn_kernel kernel, const Caps &caps) {
        vkattn_diagnostic why{};
        EXPECT_EQ(reasonOf(*findKernel(kernel), problemOf(halves()), limitsOf(caps), &why), VKATTN_OK);
        return std::string(why.message);
    };
    EXPECT_TRUE(says(whyNot(VKATTN_KERNEL_FLASH_COOPMAT2, gpu2()), "AUTO never takes it"));
    EXPECT_TRUE(says(whyNot(VKATTN_KERNEL_FLASH, gpu2()), "without the device's matrix units"));
    EXPECT_TRUE(says(explanation.choice, "both products run there"));
    EXPECT_EQ(explanation.probabilityUnit, 0x1p-11f);
    Caps slow = gpu2();
    slow.slowKernels = 1u << VKATTN_KERNEL_FLASH_COOPMAT;
    ASSERT_EQ(explainPlan(problemOf(halves()), limitsOf(slow), explanation, nullptr), VKATTN_OK);
    EXPECT_EQ(explanation.kernel, VKATTN_KERNEL_FLASH);
    EXPECT_TRUE(says(whyNot(VKATTN_KERNEL_FLASH_COOPMAT, slow), "others were measured to be faster"));
}

// What shaders/flash/matrices2.comp relies on, written down a second time.
TEST_F(Coopmat2Plan, matricesAreMultiplesOfTheGranularity) {
    uint32_t plans = 0;
    for (const uint32_t dim : {1u, 40u, 64u, 128u, 256u}) {
        Case c = halves();
        c.kernel = VKATTN_KERNEL_FLASH_COOPMAT2, c.headDim = c.valueDim = dim;
        const Problem problem = problemOf(c); // fills tensors, which takes longer than planning
        for (const uint32_t gm : {8u, 16u, 32u})
            for (const uint32_t gn : {4u, 8u, 16u})
                for (const uint32_t gk : {8u, 16u, 32u})
                    for (const uint32_t most : {32u, 256u}) {
                        Caps caps = gpu2();
                        caps.matrix2Granularity[0] = gm, caps.matrix2Granularity[1] = gn, caps.matrix2Granularity[2] = gk;
                        caps.matrix2MaxDimension = most;
                        Plan plan;
                        vkattn_diagnostic why{};
                        if (makePlan(problem, limitsOf(caps), plan, &why) != VKATTN_OK) {
                            EXPECT_TRUE(says(why.message, "shared memory") || says(why.message, "suits")) << why.message;
                            continue;
                        }
                        ++plans;
                        const MatrixShape &m = plan.flash.matrix;
                        const uint32_t rows = m.m * m.rowBlocks;
                        for (const uint32_t k : {m.k, m.tileKeys}) EXPECT_TRUE(k % gk == 0 && k % 8 == 0 && k <= most) << k;
                        for (const uint32_t n : {m.n, m.tileKeys}) EXPECT_TRUE(n % gn == 0 && n % 8 == 0 && n <= most) << n;
                        EXPECT_TRUE(m.m % gm == 0 && m.m <= most);
                        EXPECT_TRUE(m.paddedDim % m.k == 0 && m.paddedDim >= dim && m.paddedValueDim % m.n == 0);
                        EXPECT_LE(m.tileKeys / 8 + m.n / 4, m.tileKeys / 4) << "the wide matrix leaves what is known of a row";
                        EXPECT_LE(m.tileKeys, 128u) << "a piece has the bits of a row's keys";
                        EXPECT_LE(
                            16 * (m.tileKeys * (m.paddedDim / 8 + m.paddedValueDim / 8 + 2) + m.subgroups * rows * (m.tileKeys / 4 + 2)) +
                                8,
                            caps.maxSharedMemoryBytes);
                    }
    }
    EXPECT_GT(plans, 50u);
}

TEST_F(Coopmat2Plan, saysWhatOfTheExtensionIsMissing) {
    const auto why = [](const Caps &caps) { return refusal(halves(), caps, VKATTN_KERNEL_FLASH_COOPMAT2); };
    constexpr struct {
        uint32_t bit;
        const char *name;
    } needs[] = {{VKATTN_MATRIX2_FLEXIBLE, "cooperativeMatrixFlexibleDimensions"},
                 {VKATTN_MATRIX2_REDUCTIONS, "cooperativeMatrixReductions"},
                 {VKATTN_MATRIX2_CONVERSIONS, "cooperativeMatrixConversions"},
                 {VKATTN_MATRIX2_PER_ELEMENT, "cooperativeMatrixPerElementOperations"}};
    for (const auto &[bit, name] : needs) {
        Caps caps = gpu2();
        caps.matrix2 &= ~bit;
        EXPECT_TRUE(says(why(caps), name)) << why(caps);
        EXPECT_EQ(chosen(halves(), caps), VKATTN_KERNEL_FLASH_COOPMAT);
    }
    Caps caps = gpu2();
    caps.matrix2MaxDimension = caps.matrix2Granularity[0] = caps.matrix2Granularity[1] = caps.matrix2Granularity[2] = 0;
    EXPECT_TRUE(says(why(caps), "no flexible dimensions")) << why(caps);
    caps = gpu2(), caps.matrix2Granularity[0] = 24; // lanes do not share such rows evenly
    EXPECT_TRUE(says(why(caps), "no matrix shape")) << why(caps);
}
