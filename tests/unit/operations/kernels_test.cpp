// The CPU's operations against the oracle, over drawn shapes, types and strides; and what holds for
// them whatever the numbers are.
#include "cpu/targets.hpp"

#include "cpu/operations/work.hpp"
#include "cpu/pool.hpp"
#include "support/extent.hpp"
#include "support/heap_count.hpp"
#include "unit/cpu/cpu_runs.hpp"
#include "util/philox.hpp"
#include "vkattn/vkattn.hpp"

#include <bit>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <hwy/targets.h>
#include <limits>

using namespace vkattn;
using namespace vkattn::test;

namespace {

void expectPassed(const vkattn_verify_report &report, const std::string &by) {
    EXPECT_TRUE(report.passed) << by << ": role " << report.worstRole << " [" << report.worstIndex[0] << ", " << report.worstIndex[1]
                               << ", " << report.worstIndex[2] << ", " << report.worstIndex[3] << "] is " << report.worstGot
                               << ", expected " << report.worstExpected << ", error " << report.worstError << " bound "
                               << report.worstBound;
    EXPECT_EQ(report.rowsChecked, report.rowsTotal);
}

void expectOnlyOutputs(OperationCase &after, OperationCase &before, const char *by) {
    for (auto &[role, tensor] : after.tensors) {
        bool output = false;
        for (const vkattn_role each : after.outputs()) output |= &after.output(each) == &tensor;
        const auto damage = tensor.damage(
            before.tensor(role), [&](uint32_t b, uint32_t g, uint32_t r, uint32_t) { return output && after.writes(VKATTN_Y, b, g, r); });
        EXPECT_EQ(damage, "") << by << ", role " << role;
    }
}

bool sameOutputs(OperationCase &a, OperationCase &b) {
    for (const vkattn_role role : a.outputs())
        if (std::memcmp(a.output(role).data(), b.output(role).data(), a.output(role).bytes()) != 0) return false;
    return true;
}

} // namespace

// Each of the processor's instruction sets.
class OperationKernelsOf : public testing::TestWithParam<int64_t> {
  protected:
    void SetUp() override {
        hwy::SetSupportedTargetsForTest(GetParam());
        hwy::GetChosenTarget().Update(hwy::SupportedTargets());
        ASSERT_STREQ(operationKernels().target, hwy::TargetName(GetParam()));
    }
    void TearDown() override {
        hwy::SetSupportedTargetsForTest(0);
        hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    }
};

TEST_P(OperationKernelsOf, areWithinTheBoundsOfTheOracle) {
    Random random = randomFor("operations");
    for (int n = 0; n < (fullExtent() ? 8000 : 400); ++n) {
        OperationCase before = drawOperation(random, otherKind(n));
        SCOPED_TRACE("case " + std::to_string(n) + ": " + before.text());
        OperationCase alone = before;
        run(alone, 0);
        expectPassed(verified(alone, before), "the kernels");
        expectOnlyOutputs(alone, before, "the kernels");
        for (const uint32_t threads : {1u, 2u, 3u}) {
            OperationCase pooled = before;
            run(pooled, threads);
            EXPECT_TRUE(sameOutputs(alone, pooled)) << threads << " threads";
        }
        OperationCase truth = before;
        runOracle(truth);
        expectPassed(verified(truth, before), "the oracle");
        expectOnlyOutputs(truth, before, "the oracle");
        if (::testing::Test::HasFailure()) return; // the first is enough
    }
}

INSTANTIATE_TEST_SUITE_P(Targets, OperationKernelsOf, testing::ValuesIn(hwy::SupportedAndGeneratedTargets()),
                         [](const auto &target) { return std::string(hwy::TargetName(target.param)); });

TEST(Operations, takeNothingFromTheHeap) {
    if (!countsHeap()) GTEST_SKIP() << "a sanitizer has the heap";
    Random random = randomFor("operations heap");
    vkattn_cpu_pool pool = nullptr;
    ASSERT_EQ(vkattnCpuCreatePool(2, &pool, nullptr), VKATTN_OK);
    pool->pool.shareAnyWork();
    for (int n = 0; n < 81; ++n) {
        OperationCase c = drawOperation(random, otherKind(n));
        const vkattn_operation o = c.operation();
        const auto memory = c.operands();
        for (const vkattn_cpu_pool used : {pool, vkattn_cpu_pool{}}) {
            uint64_t bytes = 0;
            ASSERT_EQ(vkattnCpuOperationWorkspace(&o, used, &bytes, nullptr), VKATTN_OK);
            std::vector<unsigned char> workspace(bytes);
            const uint64_t before = heapAllocations();
            const vkattn_result r =
                vkattnCpuRunOperation(used, &o, memory.data(), static_cast<uint32_t>(memory.size()), workspace.data(), bytes, nullptr);
            EXPECT_EQ(heapAllocations(), before) << c.text();
            EXPECT_EQ(r, VKATTN_OK);
        }
    }
    vkattnCpuDestroyPool(pool);
}

TEST(Operations, refuseOperandsThatDoNotFit) {
    Random random = randomFor("operations operands");
    OperationCase c = plainNorm(VKATTN_LAYER_NORM, 3, 8);
    c.fill(random);
    const OperationCase before = c;
    const vkattn_operation o = c.operation();
    uint64_t bytes = 0;
    ASSERT_EQ(vkattnCpuOperationWorkspace(&o, nullptr, &bytes, nullptr), VKATTN_OK);
    std::vector<unsigned char> workspace(bytes);
    const auto refused = [&](const std::string &expected, const std::vector<vkattn_operand_memory> &memory, uint64_t given) {
        vkattn_diagnostic why{};
        EXPECT_EQ(vkattnCpuRunOperation(nullptr, &o, memory.data(), static_cast<uint32_t>(memory.size()), workspace.data(), given, &why),
                  VKATTN_ERROR_INVALID_ARGUMENT);
        EXPECT_NE(std::string(why.message).find(expected), std::string::npos) << why.message;
    };
    auto memory = c.operands();
    refused("workspace has", memory, bytes - 1);
    memory[0].bytes -= 1;
    refused("x has 95 bytes, expected at least 96", memory, bytes);
    memory = c.operands();
    memory.pop_back();
    refused("y is missing: the operation uses it", memory, bytes);
    memory.push_back(memory.front());
    refused("x is given twice", memory, bytes);
    memory.back().role = VKATTN_W;
    refused("which the operation does not use", memory, bytes);
    memory = c.operands();
    memory[0].data = static_cast<unsigned char *>(memory[0].data) + 1;
    refused("x is not aligned", memory, bytes);
    EXPECT_EQ(c.tensor(VKATTN_Y).damage(before.tensors.at(VKATTN_Y), [](auto...) { return false; }), "");
    memory = c.operands();
    EXPECT_EQ(vkattnCpuCheckOperation(&o, memory.data(), static_cast<uint32_t>(memory.size()), nullptr), VKATTN_OK);
    EXPECT_EQ(vkattnCpuCheckOperation(&o, memory.data(), 1, nullptr), VKATTN_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(vkattnCpuCheckOperation(nullptr, nullptr, 0, nullptr), VKATTN_ERROR_INVALID_ARGUMENT);
}

// As an operation, attention is what it is by its own calls.
TEST(Operations, attentionIsOneOfThem) {
    Random random = randomFor("operations attention");
    Case c;
    const auto in = makeCaseData(c, random);
    vkattn_operation o{};
    o.kind = VKATTN_ATTENTION;
    o.of.attention = &in->problem;
    const auto count = static_cast<uint32_t>(in->operands.size());
    EXPECT_EQ(vkattnCpuCheckOperation(&o, in->operands.data(), count, nullptr), VKATTN_OK);
    ASSERT_EQ(vkattnCpuRun(&in->problem, in->operands.data(), count, 1, nullptr), VKATTN_OK);
    const HostTensor expected = in->out;
    Random other = randomFor("operations attention, before");
    in->out.fillRandomly(other);
    uint64_t bytes = 0;
    ASSERT_EQ(vkattnCpuOperationWorkspace(&o, nullptr, &bytes, nullptr), VKATTN_OK);
    std::vector<unsigned char> workspace(bytes);
    ASSERT_EQ(vkattnCpuRunOperation(nullptr, &o, in->operands.data(), count, workspace.data(), bytes, nullptr), VKATTN_OK);
    for (uint32_t d = 0; d < c.valueDim; ++d) EXPECT_EQ(in->out.get(0, 0, 0, d), expected.get(0, 0, 0, d));
    vkattn_verify_report report{};
    ASSERT_EQ(vkattnCpuVerifyOperation(&o, in->operands.data(), count, nullptr, &report, nullptr), VKATTN_OK);
    EXPECT_TRUE(report.passed);
    in->out.set(0, 0, 0, 0, 100.0f);
    ASSERT_EQ(vkattnCpuVerifyOperation(&o, in->operands.data(), count, nullptr, &report, nullptr), VKATTN_OK);
    EXPECT_FALSE(report.passed);
    ASSERT_EQ(vkattnCpuOracleOperation(&o, in->operands.data(), count, nullptr), VKATTN_OK);
    ASSERT_EQ(vkattnCpuVerifyOperation(&o, in->operands.data(), count, nullptr, &report, nullptr), VKATTN_OK);
    EXPECT_TRUE(report.passed);
}

TEST(Operations, nonFiniteRowsTouchNoOtherRow) {
    Random random = randomFor("operations nan");
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()})
        for (const vkattn_operation_kind kind : {VKATTN_PROJECTION, VKATTN_NORM, VKATTN_ROTARY})
            for (const uint32_t rows : {1u, 2u, 5u, 8u, 13u, 40u}) {
                OperationCase c = kind == VKATTN_PROJECTION ? plainProjection(rows, 19, 37)
                                  : kind == VKATTN_NORM     ? plainNorm(VKATTN_LAYER_NORM, rows, 37)
                                                            : plainRotary(VKATTN_PAIRS_HALF, rows, 37, 20, rows);
                c.fill(random);
                OperationCase clean = c;
                run(clean, 1);
                const uint32_t row = between(random, 0, rows - 1);
                c.tensor(VKATTN_X).set(0, 0, row, between(random, 0, 18), bad);
                OperationCase before = c;
                run(c, 2);
                expectPassed(verified(c, before), c.text());
                uint32_t nonFinite = 0;
                for (uint32_t r = 0; r < rows; ++r)
                    for (uint32_t d = 0; d < 37; ++d) {
                        const float got = c.tensor(VKATTN_Y).get(0, 0, r, d);
                        if (r == row)
                            nonFinite += !std::isfinite(got);
                        else
                            ASSERT_EQ(got, clean.tensor(VKATTN_Y).get(0, 0, r, d)) << c.text() << " row " << r;
                    }
                EXPECT_EQ(nonFinite, kind == VKATTN_ROTARY ? 2u : 37u) << c.text();
            }
}

TEST(Operations, projectionByTheIdentityIsX) {
    Random random = randomFor("identity");
    for (const uint32_t rows : {1u, 3u, 8u, 9u, 50u})
        for (const uint32_t dims : {1u, 16u, 33u, 300u}) {
            OperationCase c = plainProjection(rows, dims, dims);
            c.fill(random);
            for (uint32_t n = 0; n < dims; ++n)
                for (uint32_t k = 0; k < dims; ++k) c.tensor(VKATTN_W).set(0, 0, n, k, n == k ? 1.0f : 0.0f);
            run(c, 2);
            for (uint32_t r = 0; r < rows; ++r)
                for (uint32_t d = 0; d < dims; ++d) ASSERT_EQ(c.tensor(VKATTN_Y).get(0, 0, r, d), c.tensor(VKATTN_X).get(0, 0, r, d));
        }
}

TEST(Operations, deterministicRowsDoNotDependOnTheNumberOfRows) {
    Random random = randomFor("deterministic");
    OperationCase all = plainProjection(40, 700, 70);
    all.projection.flags = VKATTN_DETERMINISTIC;
    all.fill(random);
    run(all, 2);
    for (const uint32_t rows : {1u, 2u, 7u, 9u, 33u}) {
        OperationCase some = plainProjection(rows, 700, 70);
        some.projection.flags = VKATTN_DETERMINISTIC;
        some.fill(random);
        some.tensor(VKATTN_W) = all.tensor(VKATTN_W);
        std::memcpy(some.tensor(VKATTN_X).data(), all.tensor(VKATTN_X).data(), some.tensor(VKATTN_X).bytes());
        run(some, 3);
        EXPECT_EQ(std::memcmp(some.tensor(VKATTN_Y).data(), all.tensor(VKATTN_Y).data(), some.tensor(VKATTN_Y).bytes()), 0) << rows;
    }
}

TEST(Operations, layerNormOfConstantRowsIsBeta) {
    Random random = randomFor("constant rows");
    for (const uint32_t dims : {1u, 7u, 64u, 1000u})
        for (const float value : {0.0f, 0.1f, -1000.1f, 3e6f}) {
            OperationCase c = plainNorm(VKATTN_LAYER_NORM, 2, dims);
            c.norm.gamma = c.norm.beta = packed(VKATTN_F32, 1, 1, 1, dims);
            c.fill(random);
            for (uint32_t r = 0; r < 2; ++r)
                for (uint32_t d = 0; d < dims; ++d) c.tensor(VKATTN_X).set(0, 0, r, d, value);
            run(c, 1);
            for (uint32_t d = 0; d < dims; ++d)
                EXPECT_EQ(c.tensor(VKATTN_Y).get(0, 0, 1, d), c.tensor(VKATTN_BETA).get(0, 0, 0, d)) << dims << " of " << value;
        }
}

// E[s^2] - E[s]^2 would have no digit left.
TEST(Operations, normsHaveMeanZeroAndVarianceOne) {
    Random random = randomFor("norms");
    for (const float offset : {0.0f, 1000.0f}) {
        OperationCase c = plainNorm(VKATTN_LAYER_NORM, 3, 5000);
        c.fill(random);
        for (uint32_t r = 0; r < 3; ++r)
            for (uint32_t d = 0; d < 5000; ++d) c.tensor(VKATTN_X).set(0, 0, r, d, c.tensor(VKATTN_X).get(0, 0, r, d) + offset);
        run(c, 2);
        for (uint32_t r = 0; r < 3; ++r) {
            double mean = 0, square = 0;
            for (uint32_t d = 0; d < 5000; ++d) {
                const auto y = static_cast<double>(c.tensor(VKATTN_Y).get(0, 0, r, d));
                mean += y / 5000, square += y * y / 5000;
            }
            EXPECT_NEAR(mean, 0, 1e-6);
            EXPECT_NEAR(square, 1, 2e-5); // epsilon is in it
        }
    }
    OperationCase c = plainNorm(VKATTN_RMS_NORM, 1, 400);
    c.fill(random);
    run(c, 1);
    double square = 0;
    for (uint32_t d = 0; d < 400; ++d) square += std::pow(static_cast<double>(c.tensor(VKATTN_Y).get(0, 0, 0, d)), 2) / 400;
    EXPECT_NEAR(square, 1, 2e-5);
}

TEST(Operations, longRowsKeepTheirDigits) {
    Random random = randomFor("long rows");
    for (const vkattn_norm_kind kind : {VKATTN_LAYER_NORM, VKATTN_RMS_NORM})
        for (const float offset : {0.0f, 300.0f}) {
            constexpr uint32_t dims = 1u << 20;
            OperationCase c = plainNorm(kind, 1, dims);
            c.fill(random);
            for (uint32_t d = 0; d < dims; ++d) c.tensor(VKATTN_X).set(0, 0, 0, d, c.tensor(VKATTN_X).get(0, 0, 0, d) + offset);
            OperationCase before = c;
            run(c, 1);
            expectPassed(verified(c, before), "offset " + std::to_string(offset));
        }
}

TEST(Operations, rotationKeepsNormsAndDependsOnDistanceAlone) {
    Random random = randomFor("rotation");
    constexpr uint32_t dims = 64, positions = 400;
    std::vector<float> cosines(positions * dims / 2), sines(cosines.size());
    ASSERT_EQ(vkattnRotaryTable(positions, dims, 10000, cosines.data(), sines.data(), nullptr), VKATTN_OK);
    for (const vkattn_rotary_pairs pairs : {VKATTN_PAIRS_HALF, VKATTN_PAIRS_INTERLEAVED}) {
        const auto rotated = [&](const std::vector<float> &x, uint32_t position, uint32_t flags) {
            OperationCase c = plainRotary(pairs, 1, dims, dims, positions);
            c.rotary.start = position;
            c.rotary.flags = flags;
            c.fill(random);
            std::memcpy(c.tensor(VKATTN_COS).data(), cosines.data(), 4 * cosines.size());
            std::memcpy(c.tensor(VKATTN_SIN).data(), sines.data(), 4 * sines.size());
            std::memcpy(c.tensor(VKATTN_X).data(), x.data(), 4 * dims);
            run(c, 1);
            std::vector<float> y(dims);
            std::memcpy(y.data(), c.tensor(VKATTN_Y).data(), 4 * dims);
            return y;
        };
        const auto dot = [](const std::vector<float> &a, const std::vector<float> &b) {
            double sum = 0;
            for (size_t d = 0; d < a.size(); ++d) sum += static_cast<double>(a[d]) * static_cast<double>(b[d]);
            return sum;
        };
        std::normal_distribution<float> normal;
        std::vector<float> q(dims), k(dims);
        for (uint32_t d = 0; d < dims; ++d) q[d] = normal(random), k[d] = normal(random);
        EXPECT_EQ(rotated(q, 0, 0), q) << "position 0 is the identity";
        const auto q300 = rotated(q, 300, 0);
        EXPECT_NE(q300, q);
        EXPECT_NEAR(dot(q300, q300), dot(q, q), 1e-4);
        EXPECT_NEAR(dot(rotated(q, 310, 0), rotated(k, 303, 0)), dot(rotated(q, 10, 0), rotated(k, 3, 0)), 1e-4);
        EXPECT_GT(std::abs(dot(rotated(q, 10, 0), rotated(k, 3, 0)) - dot(rotated(q, 11, 0), rotated(k, 3, 0))), 1e-3);
        const auto back = rotated(q300, 300, VKATTN_ROTARY_INVERSE);
        for (uint32_t d = 0; d < dims; ++d) EXPECT_NEAR(back[d], q[d], 1e-5f);
        // Past the table the table's last row counts.
        EXPECT_EQ(rotated(q, 1u << 30, 0), rotated(q, positions - 1, 0));
    }
}

// Central differences of the norm itself, in double precision: the formulas of the gradient share
// nothing with them.
TEST(Operations, gradientsOfNormsAreThoseOfDifferences) {
    constexpr uint32_t rows = 3, dims = 7;
    constexpr double step = 1e-5;
    Random random = randomFor("gradients of norms");
    for (const vkattn_norm_kind kind : {VKATTN_LAYER_NORM, VKATTN_RMS_NORM}) {
        OperationCase c = plainNormGradient(kind, rows, dims);
        c.normGradient.epsilon = 1e-3f;
        c.fill(random);
        const auto value = [&](vkattn_role role, uint32_t r, uint32_t d) { return static_cast<double>(c.tensor(role).get(0, 0, r, d)); };
        // The loss is the sum of dY * y.
        const auto loss = [&](vkattn_role moved, uint32_t row, uint32_t dim, double by) {
            double sum = 0;
            for (uint32_t r = 0; r < rows; ++r) {
                std::vector<double> s(dims);
                double mean = 0, variance = 0;
                for (uint32_t d = 0; d < dims; ++d) {
                    s[d] = value(VKATTN_X, r, d) + (moved == VKATTN_D_X && r == row && d == dim ? by : 0);
                    if (kind == VKATTN_LAYER_NORM) mean += s[d] / dims;
                }
                for (const double each : s) variance += (each - mean) * (each - mean) / dims;
                const double sigma = std::sqrt(variance + static_cast<double>(c.normGradient.epsilon));
                for (uint32_t d = 0; d < dims; ++d) {
                    const double gamma = value(VKATTN_GAMMA, 0, d) + (moved == VKATTN_D_GAMMA && d == dim ? by : 0);
                    const double beta = moved == VKATTN_D_BETA && d == dim ? by : 0;
                    sum += value(VKATTN_D_Y, r, d) * ((s[d] - mean) / sigma * gamma + beta);
                }
            }
            return sum;
        };
        OperationCase kernels = c;
        run(kernels, 2);
        const vkattn_operation o = c.operation();
        const auto memory = c.operands();
        ASSERT_EQ(vkattnCpuOracleOperation(&o, memory.data(), static_cast<uint32_t>(memory.size()), nullptr), VKATTN_OK);
        for (const vkattn_role role : {VKATTN_D_X, VKATTN_D_GAMMA, VKATTN_D_BETA})
            for (uint32_t r = 0; r < (role == VKATTN_D_X ? rows : 1); ++r)
                for (uint32_t d = 0; d < dims; ++d) {
                    const double expected = (loss(role, r, d, step) - loss(role, r, d, -step)) / (2 * step);
                    const double bound = std::max(1.0, std::abs(expected));
                    EXPECT_NEAR(value(role, r, d), expected, 1e-6 * bound) << "oracle, role " << role;
                    EXPECT_NEAR(static_cast<double>(kernels.tensor(role).get(0, 0, r, d)), expected, 1e-5 * bound) << "role " << role;
                }
    }
}

// The gradient of a layer norm is orthogonal to 1: a shift of a row changes nothing.
TEST(Operations, gradientsOfLayerNormsSumToZero) {
    Random random = randomFor("sums of gradients");
    OperationCase c = plainNormGradient(VKATTN_LAYER_NORM, 5, 300);
    c.fill(random);
    run(c, 2);
    for (uint32_t r = 0; r < 5; ++r) {
        double sum = 0;
        for (uint32_t d = 0; d < 300; ++d) sum += static_cast<double>(c.tensor(VKATTN_D_X).get(0, 0, r, d));
        EXPECT_NEAR(sum, 0, 1e-4);
    }
}

TEST(Operations, meansAreThoseOfTheGroups) {
    OperationCase c = plainMean(3, 2, 5);
    Random random = randomFor("means");
    c.fill(random);
    for (uint32_t g = 0; g < 3; ++g)
        for (uint32_t r = 0; r < 2; ++r)
            for (uint32_t d = 0; d < 5; ++d) c.tensor(VKATTN_X).set(0, g, r, d, static_cast<float>(3 * (g * 100 + r * 10 + d)));
    run(c, 1);
    for (uint32_t r = 0; r < 2; ++r)
        for (uint32_t d = 0; d < 5; ++d)
            EXPECT_NEAR(c.tensor(VKATTN_Y).get(0, 0, r, d), 300.0f + 30 * static_cast<float>(r) + 3 * static_cast<float>(d), 1e-4f);
}

// The sum of such values is no f32.
TEST(Operations, meansOfLargeValuesAreFinite) {
    OperationCase c = plainMean(70, 1, 9);
    Random random = randomFor("large means");
    c.fill(random);
    for (uint32_t g = 0; g < 70; ++g)
        for (uint32_t d = 0; d < 9; ++d) c.tensor(VKATTN_X).set(0, g, 0, d, 3e38f);
    run(c, 1);
    for (uint32_t d = 0; d < 9; ++d) EXPECT_NEAR(c.tensor(VKATTN_Y).get(0, 0, 0, d) / 3e38f, 1.0f, 1e-5f);
}

// One chain of fp32 sums would be off by 1e-3 here.
TEST(Operations, meansOfManyGroupsAreWithinTheirBounds) {
    OperationCase before = plainMean(100000, 1, 3);
    Random random = randomFor("many groups");
    before.fill(random);
    for (uint32_t g = 0; g < 100000; ++g)
        for (uint32_t d = 0; d < 3; ++d) before.tensor(VKATTN_X).set(0, g, 0, d, 0.1f);
    OperationCase after = before;
    run(after, 1);
    expectPassed(verified(after, before), "the kernels");
}

// Random words of 2011's known answers, and of batch * heads + head 6, row 3: each is kept where the
// threshold is the word itself, and dropped where the threshold is one more.
TEST(Operations, keepsByTheKnownAnswersOfPhilox) {
    struct Known {
        uint64_t seed;
        uint32_t offset, group, row;
        std::vector<uint32_t> words; // of columns 0, 1, ...
    };
    const Known all[] = {
        {0, 0, 0, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {42, 7, 6, 3, {0x43891be6, 0x98441154, 0xbe4fbe68, 0x027071b6, 0x4760d2e5, 0xb32dddbd, 0x8445848f, 0xd9fa4348, 0x193d2c9b}}};
    Random random = randomFor("known answers");
    for (const Known &known : all)
        for (size_t n = 0; n < known.words.size(); ++n)
            for (const uint32_t more : {0u, 1u}) {
                OperationCase c = plainKeep(known.group + 1, known.row + 1, 9), truth = c;
                c.keep.seed = known.seed, c.keep.offset = known.offset;
                c.keep.probability = (known.words[n] + static_cast<double>(more)) * 0x1p-32;
                c.fill(random);
                truth = c;
                run(c, 1);
                runOracle(truth);
                for (OperationCase *const each : {&c, &truth})
                    EXPECT_EQ(each->tensor(VKATTN_Y).getWord(0, known.group, known.row, 0) >> n & 1u, 1 - more) << n;
            }
    OperationCase c = plainKeep(7, 4, 9); // of probability 0.1
    c.fill(random);
    run(c, 1);
    EXPECT_EQ(c.tensor(VKATTN_Y).getWord(0, 6, 3, 0), 0x1ffu & ~(1u << 3 | 1u << 8));
    // Of the constants that no plane reaches.
    constexpr uint32_t ones = 0xffffffffu;
    constexpr PhiloxCounter allOnes = philox({{ones, ones, ones, ones}}, {{ones, ones}});
    static_assert(allOnes.words[0] == 0x408f276d && allOnes.words[1] == 0x41c83b0e && allOnes.words[2] == 0xa20bc7c6 &&
                  allOnes.words[3] == 0x6d5451fd);
    constexpr PhiloxCounter pi = philox({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, {{0xa4093822, 0x299f31d0}});
    static_assert(pi.words[0] == 0xd16cfe09 && pi.words[1] == 0x94fdcceb && pi.words[2] == 0x5001e420 && pi.words[3] == 0x24126ea1);
}

TEST(Operations, keepsNothingOrAllAtTheEnds) {
    Random random = randomFor("ends of probability");
    for (const double probability : {0.0, 1.0, 0x1p-34, 1 - 0x1p-34}) { // the last two round to the ends
        OperationCase c = plainKeep(2, 3, 70);
        c.keep.probability = probability;
        c.fill(random);
        run(c, 2);
        for (uint32_t word = 0; word < 3; ++word)
            EXPECT_EQ(c.tensor(VKATTN_Y).getWord(0, 1, 2, word), probability > 0.5 ? 0 : word == 2 ? 0x3fu : 0xffffffffu);
    }
}

// 40,000 columns: the share that is kept is within four standard deviations.
TEST(Operations, keepsTheShareThatItIsAskedFor) {
    Random random = randomFor("share");
    for (const double probability : {0.1, 0.5, 0.75}) {
        OperationCase c = plainKeep(4, 10, 1000);
        c.keep.probability = probability;
        c.keep.seed = random();
        c.fill(random);
        run(c, 1);
        int kept = 0;
        for (uint32_t g = 0; g < 4; ++g)
            for (uint32_t r = 0; r < 10; ++r)
                for (uint32_t word = 0; word < 32; ++word) kept += std::popcount(c.tensor(VKATTN_Y).getWord(0, g, r, word));
        EXPECT_NEAR(kept, 40000 * (1 - probability), 4 * std::sqrt(40000 * probability * (1 - probability))) << c.text();
    }
}

// The words are the bit mask of a problem: a pair is visible where vkattnDropoutKeeps says.
TEST(Operations, keepIsABitMask) {
    constexpr uint32_t batch = 2, heads = 3, queries = 5, keys = 70;
    const vkattn_keep description = keep(0.5, 99, 3, keys, packed(VKATTN_BITS32, batch, heads, queries, 3));
    const vkattn_operation o = operation(description);
    std::vector<uint32_t> bits(batch * heads * queries * 3, 0xffffffffu);
    const vkattn_operand_memory y{VKATTN_Y, bits.data(), bits.size() * 4};
    uint64_t bytes = 0;
    ASSERT_EQ(vkattnCpuOperationWorkspace(&o, nullptr, &bytes, nullptr), VKATTN_OK);
    std::vector<unsigned char> workspace(bytes);
    ASSERT_EQ(vkattnCpuRunOperation(nullptr, &o, &y, 1, workspace.data(), bytes, nullptr), VKATTN_OK);
    vkattn_problem p = problem(packed(VKATTN_F32, batch, heads, queries, 1), packed(VKATTN_F32, batch, heads, keys, 1),
                               packed(VKATTN_F32, batch, heads, keys, 1), packed(VKATTN_F32, batch, heads, queries, 1));
    p.bitMask = description.y;
    std::vector<float> q(batch * heads * queries), k(batch * heads * keys), v(k.size()), out(q.size());
    const vkattn_operand_memory memory[] = {{VKATTN_Q, q.data(), q.size() * 4},
                                            {VKATTN_K, k.data(), k.size() * 4},
                                            {VKATTN_V, v.data(), v.size() * 4},
                                            {VKATTN_OUT, out.data(), out.size() * 4},
                                            {VKATTN_BIT_MASK, bits.data(), bits.size() * 4}};
    std::vector<unsigned char> visible(keys);
    for (uint32_t b = 0; b < batch; ++b)
        for (uint32_t h = 0; h < heads; ++h)
            for (uint32_t i = 0; i < queries; ++i) {
                ASSERT_EQ(vkattnCpuVisible(&p, memory, 5, b, h, i, visible.data(), keys, nullptr), VKATTN_OK);
                for (uint32_t j = 0; j < keys; ++j) EXPECT_EQ(visible[j], vkattnDropoutKeeps(0.5, 99, 3, b * heads + h, i, j));
            }
}

// What is dropped is what keep says is dropped, whichever part of the tensor is given; what is kept is
// scaled, and NaN that is dropped does not reach the result. The residual is added to both.
TEST(Operations, dropIsWhatKeepSays) {
    Random random = randomFor("drop and keep");
    constexpr uint32_t groups = 7, rows = 10, columns = 41;
    // The last two are both sides of a word of group 6, row 3.
    for (const double probability : {0.1, 0.5, 0x43891be6 * 0x1p-32, 0x43891be7 * 0x1p-32}) {
        OperationCase kept = plainKeep(groups, rows, columns), c = plainDrop(groups, rows, columns);
        kept.keep.probability = c.drop.probability = probability;
        kept.fill(random), c.fill(random);
        run(kept, 1);
        const float factor = static_cast<float>(0x1p32 / (0x1p32 - std::nearbyint(probability * 0x1p32)));
        for (uint32_t g = 0; g < groups; ++g)
            for (uint32_t r = 0; r < rows; ++r)
                for (uint32_t d = 0; d < columns; ++d)
                    if (!(kept.tensor(VKATTN_Y).getWord(0, g, r, d / 32) >> d % 32 & 1u))
                        c.tensor(VKATTN_X).set(0, g, r, d, std::numeric_limits<float>::quiet_NaN());
        OperationCase truth = c;
        run(c, 2);
        runOracle(truth);
        for (OperationCase *const each : {&c, &truth})
            for (uint32_t g = 0; g < groups; ++g)
                for (uint32_t r = 0; r < rows; ++r)
                    for (uint32_t d = 0; d < columns; ++d) {
                        const bool keeps = kept.tensor(VKATTN_Y).getWord(0, g, r, d / 32) >> d % 32 & 1u;
                        const float x = keeps ? factor * c.tensor(VKATTN_X).get(0, g, r, d) : 0;
                        ASSERT_NEAR(each->tensor(VKATTN_Y).get(0, g, r, d), x + c.tensor(VKATTN_RESIDUAL).get(0, g, r, d), 2e-6f)
                            << g << ", " << r << ", " << d;
                    }
        // Group 1 from row 4 on, as a tensor of its own.
        OperationCase part = plainDrop(1, rows - 4, columns);
        part.drop.probability = probability, part.drop.firstPlane = 1, part.drop.firstRow = 4;
        part.fill(random);
        for (const vkattn_role role : {VKATTN_X, VKATTN_RESIDUAL})
            for (uint32_t r = 4; r < rows; ++r)
                for (uint32_t d = 0; d < columns; ++d) part.tensor(role).set(0, 0, r - 4, d, c.tensor(role).get(0, 1, r, d));
        run(part, 1);
        for (uint32_t r = 4; r < rows; ++r)
            for (uint32_t d = 0; d < columns; ++d) ASSERT_EQ(part.tensor(VKATTN_Y).get(0, 0, r - 4, d), c.tensor(VKATTN_Y).get(0, 1, r, d));
    }
}

// Of probability 0 a copy to the last bit, of zeros too; of probability 1 the residual, whatever X is.
TEST(Operations, dropsNothingOrAllAtTheEnds) {
    Random random = randomFor("ends of dropout");
    for (const double probability : {0.0, 1.0, 0x1p-34, 1 - 0x1p-34}) // the last two round to the ends
        for (const bool residual : {false, true}) {
            OperationCase c = plainDrop(2, 3, 70);
            c.drop.probability = probability;
            if (!residual) c.drop.residual = {};
            c.fill(random);
            c.tensor(VKATTN_X).set(0, 1, 2, 68, -0.0f);
            c.tensor(VKATTN_X).set(0, 1, 2, 69, std::numeric_limits<float>::infinity());
            run(c, 2);
            const HostTensor &x = c.tensor(VKATTN_X);
            for (uint32_t d = 0; d < 70; ++d) {
                const float added = residual ? c.tensor(VKATTN_RESIDUAL).get(0, 1, 2, d) : 0, got = c.tensor(VKATTN_Y).get(0, 1, 2, d);
                if (probability > 0.5)
                    EXPECT_EQ(got, added);
                else if (residual)
                    EXPECT_EQ(got, x.get(0, 1, 2, d) + added);
                else
                    EXPECT_EQ(std::bit_cast<uint32_t>(got), std::bit_cast<uint32_t>(x.get(0, 1, 2, d)));
            }
        }
}

// The loss sum(Y * dY) in the direction of any change of X: dX is the same operation of dY.
TEST(Operations, dropIsItsOwnGradient) {
    Random random = randomFor("gradient of dropout");
    OperationCase forward = plainDrop(2, 9, 33);
    forward.drop.probability = 0.4;
    forward.fill(random);
    OperationCase backward = plainDrop(2, 9, 33);
    backward.drop.probability = 0.4, backward.drop.residual = {};
    backward.fill(random); // its X is dY
    OperationCase moved = forward;
    OperationCase direction = plainDrop(2, 9, 33);
    direction.fill(random);
    const auto each = [](const auto &visit) {
        for (uint32_t g = 0; g < 2; ++g)
            for (uint32_t r = 0; r < 9; ++r)
                for (uint32_t d = 0; d < 33; ++d) visit(g, r, d);
    };
    each([&](uint32_t g, uint32_t r, uint32_t d) {
        moved.tensor(VKATTN_X).set(0, g, r, d, forward.tensor(VKATTN_X).get(0, g, r, d) + direction.tensor(VKATTN_X).get(0, g, r, d));
    });
    run(forward, 1), run(backward, 1), run(moved, 1);
    double difference = 0, slope = 0;
    each([&](uint32_t g, uint32_t r, uint32_t d) {
        const auto at = [&](OperationCase &c, vkattn_role role) { return static_cast<double>(c.tensor(role).get(0, g, r, d)); };
        difference += (at(moved, VKATTN_Y) - at(forward, VKATTN_Y)) * at(backward, VKATTN_X);
        slope += at(backward, VKATTN_Y) * at(direction, VKATTN_X);
    });
    EXPECT_NEAR(difference, slope, 1e-4 * std::max(1.0, std::abs(slope))); // dropout is linear
}

TEST(Operations, appendDropsWhatIsPastTheEnd) {
    Random random = randomFor("append");
    for (const uint32_t start : {0u, 3u, 7u, 8u, 9u, 0xffffffffu, 0xfffffffeu}) {
        OperationCase c = plainAppend(4, 8, 3);
        c.append.presentRoles = VKATTN_PRESENT(VKATTN_STARTS);
        c.starts = {start};
        c.fill(random);
        OperationCase before = c;
        run(c, 2);
        for (uint32_t t = 0; t < 8; ++t)
            for (uint32_t d = 0; d < 3; ++d) {
                const bool isNew = t >= start && t - start < 4;
                const float expected = isNew ? c.tensor(VKATTN_X).get(0, 0, t - start, d) : before.tensor(VKATTN_Y).get(0, 0, t, d);
                const float got = c.tensor(VKATTN_Y).get(0, 0, t, d);
                EXPECT_EQ(std::memcmp(&got, &expected, 4), 0) << "start " << start << ", token " << t;
            }
    }
}

TEST(Operations, wordsStopAtTheLimit) {
    struct Row {
        uint32_t x, by, limit, y;
    };
    constexpr uint32_t none = 0xffffffffu;
    constexpr Row rows[] = {{0, 1, none, 1},
                            {7, 0, none, 7},
                            {none - 1, 1, none, none},
                            {none, 1, none, none},
                            {none, none, none, none},
                            {1u << 31, 1u << 31, none, none},
                            {1u << 31, 1u << 31, 5, 5},
                            {9, 1, 10, 10},
                            {10, 1, 10, 10},
                            {11, 0, 10, 10},
                            {none, 0, 10, 10},
                            {0, 0, 0, 0},
                            {16777216, 1, none, 16777217},
                            {3, 4, 0, 0},
                            {8, 1, 10, 9}};
    Random random = randomFor("words stop");
    for (const Row &row : rows)
        for (const bool inPlace : {false, true}) {
            OperationCase c = plainAdvance(3);
            c.advance.by = row.by, c.advance.limit = row.limit;
            if (inPlace) c.inPlace[VKATTN_Y] = VKATTN_X;
            c.fill(random);
            for (uint32_t n = 0; n < 3; ++n) c.tensor(VKATTN_X).setWord(0, 0, 0, n, row.x);
            OperationCase truth = c;
            run(c, 1);
            runOracle(truth);
            for (uint32_t n = 0; n < 3; ++n) {
                EXPECT_EQ(c.output(VKATTN_Y).getWord(0, 0, 0, n), row.y) << row.x << " by " << row.by << " to " << row.limit;
                EXPECT_EQ(truth.output(VKATTN_Y).getWord(0, 0, 0, n), row.y) << row.x << " by " << row.by << " to " << row.limit;
            }
        }
}

// More words than one thread takes at a time, with gaps and backwards.
TEST(Operations, wordsLieAnyhow) {
    Random random = randomFor("words anyhow");
    constexpr uint32_t count = 50000;
    OperationCase c = plainAdvance(count);
    c.advance.by = 3;
    c.advance.x.strideElems[3] = -2, c.advance.x.offsetElems = 2ull * count;
    c.advance.y.strideElems[3] = 3;
    c.fill(random);
    OperationCase before = c;
    run(c, 3);
    expectPassed(verified(c, before), "the kernels");
    expectOnlyOutputs(c, before, "the kernels");
    for (uint32_t n = 0; n < count; ++n) {
        const uint32_t x = c.tensor(VKATTN_X).getWord(0, 0, 0, n);
        ASSERT_EQ(c.tensor(VKATTN_Y).getWord(0, 0, 0, n), x > 0xfffffffcu ? 0xffffffffu : x + 3) << n;
    }
}
