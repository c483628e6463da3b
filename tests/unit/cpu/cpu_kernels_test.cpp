// The CPU's kernels, each of Highway's targets that this processor can run forced in turn: against
// the oracle's bounds, for any number of threads the same bits, hidden keys unread, exp2 within its
// stated error.
#include "cpu/targets.hpp"

#include "conform/cases/case_text.hpp"
#include "cpu/attention.hpp"
#include "cpu/pool.hpp"
#include "problem/tensor.hpp"
#include "support/case.hpp"
#include "support/extent.hpp"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <hwy/targets.h>
#include <limits>
#include <thread>

using namespace vkattn;
using namespace vkattn::test;

namespace {

constexpr float nan = std::numeric_limits<float>::quiet_NaN();

struct PoolDeleter {
    void operator()(vkattn_cpu_pool pool) const { vkattnCpuDestroyPool(pool); }
};
using PoolPointer = std::unique_ptr<vkattn_cpu_pool_t, PoolDeleter>;

PoolPointer makePool(uint32_t threads) {
    vkattn_cpu_pool pool = nullptr;
    EXPECT_EQ(vkattnCpuCreatePool(threads, &pool, nullptr), VKATTN_OK);
    pool->pool.shareAnyWork();
    return PoolPointer(pool);
}

// Operands in memory of exactly the stated size, with canaries around it, at an odd address.
std::string runOn(vkattn_cpu_pool pool, test::CaseData &in) {
    vkattn_cpu_plan plan{};
    plan.structSize = sizeof plan;
    vkattn_diagnostic why{};
    if (vkattnCpuExplain(&in.problem, pool, &plan, &why) != VKATTN_OK) return why.message;
    constexpr size_t canary = 67;
    std::vector<unsigned char> workspace(plan.workspaceBytes + 2 * canary, 0xa5);
    if (vkattnCpuRunOn(pool, &in.problem, in.operands.data(), static_cast<uint32_t>(in.operands.size()), workspace.data() + canary,
                       plan.workspaceBytes, &why) != VKATTN_OK)
        return why.message;
    for (size_t n = 0; n < canary; ++n)
        if (workspace[n] != 0xa5 || workspace[workspace.size() - 1 - n] != 0xa5) return "wrote outside its workspace";
    return {};
}

std::string verified(const test::CaseData &in) {
    vkattn_verify_options options{};
    options.structSize = sizeof options;
    options.allRows = 1;
    vkattn_verify_report report{};
    vkattn_diagnostic why{};
    if (vkattnCpuVerify(&in.problem, in.operands.data(), static_cast<uint32_t>(in.operands.size()), &options, &report, &why) != VKATTN_OK)
        return why.message;
    if (report.passed) return {};
    return "role " + std::to_string(report.worstRole) + " at " + std::to_string(report.worstIndex[0]) + " " +
           std::to_string(report.worstIndex[1]) + " " + std::to_string(report.worstIndex[2]) + " " + std::to_string(report.worstIndex[3]) +
           ": " + std::to_string(report.worstGot) + " instead of " + std::to_string(report.worstExpected) + ", allowed " +
           std::to_string(report.worstBound);
}

bool same(const HostTensor &a, const HostTensor &b) {
    if (a.layout.extent[0] == 0) return true; // absent
    return a.bytes() == b.bytes() && std::memcmp(a.data(), b.data(), a.bytes()) == 0;
}
bool same(const Outputs &a, const Outputs &b) {
    return same(a.out, b.out) && same(a.lse, b.lse) && same(a.weights, b.weights) && same(a.scores, b.scores);
}

// Cases that fill whole tiles, units and splits of the keys, which those of the matrix are too
// small for.
std::vector<Case> largeCases(Random &random) {
    std::vector<Case> cases;
    const auto add = [&](const char *name, uint32_t heads, uint32_t kvHeads, uint32_t queries, uint32_t keys, uint32_t dim) -> Case & {
        Case c;
        c.name = name;
        c.batch = 1, c.heads = heads, c.kvHeads = kvHeads, c.queryTokens = queries, c.keyTokens = keys, c.headDim = c.valueDim = dim;
        c.lse = true;
        cases.push_back(c);
        return cases.back();
    };
    add("tiles", 2, 2, 150, 300, 64);
    add("tilesCausal", 2, 1, 200, 200, 32).causal = true;
    add("tilesWindow", 1, 1, 300, 300, 16).window = true;
    cases.back().left = 100, cases.back().right = 3;
    add("tilesBias", 2, 2, 40, 290, 20).biasBroadcast = 0;
    add("tilesDocuments", 2, 1, 130, 130, 24).documents = Documents::runs;
    cases.back().causal = true;
    add("tilesSoftcapAlibi", 2, 2, 40, 400, 24).softcap = 30;
    cases.back().alibi = true;
    add("tilesWeights", 2, 1, 33, 250, 24).weights = true;
    for (const vkattn_score_stage stage : {VKATTN_SCORES_RAW, VKATTN_SCORES_SCALED, VKATTN_SCORES_CAPPED, VKATTN_SCORES_FINAL}) {
        add("tilesScores", 4, 2, 33, 250, 24).scores = stage;
        cases.back().causal = true, cases.back().softcap = 3, cases.back().biasBroadcast = 1, cases.back().lengths = true;
        add("rowScores", 2, 1, 1, 2300, 32).scores = stage;
        cases.back().scoresType = VKATTN_F16;
    }
    add("tilesDropout", 4, 2, 150, 301, 24).dropout = 0.3f;
    cases.back().dropoutSeed = 5, cases.back().dropoutOffset = 9;
    add("tilesDropoutCausal", 2, 1, 33, 250, 24).weights = true;
    cases.back().causal = cases.back().weightsDropped = true, cases.back().dropout = 0.6f;
    add("splitDropout", 3, 1, 1, 2300, 32).dropout = 0.5f; // one row, or few, and the keys in splits
    add("tilesTokenMajor", 3, 3, 70, 210, 64).kStyle = Style::tokenMajor;
    cases.back().vStyle = Style::dimMajor;
    for (const vkattn_dtype type : {VKATTN_F32, VKATTN_F16, VKATTN_BF16}) {
        // Rows of a group: where they are few, dims are in lanes.
        for (const uint32_t rows : {1u, 2u, 3u, 4u, 5u, 8u}) {
            add("decode", 2 * rows, 2, 1, between(random, 1050, 2300), 64);
            cases.back().k = cases.back().v = type;
            cases.back().sinks = rows == 2;
        }
        add("decodeWindow", 2, 2, 1, 3000, 32).window = true;
        cases.back().left = 1500, cases.back().k = type;
        add("decodeOptions", 4, 1, 1, 2500, 32).alibi = true;
        cases.back().bitMaskBroadcast = 7, cases.back().v = type;
        add("decodeNeedle", 2, 1, 1, 2200, 64).data = Data::needle;
        cases.back().needle = between(random, 1050, 1060), cases.back().k = cases.back().v = type;
        add("splitTiles", 2, 2, 20, 2300, 16).causal = true;
        cases.back().k = type;
        Case &ragged = add("raggedSplits", 2, 1, 9, 2000, 16);
        ragged.ragged = true, ragged.sequenceLengths = {{1, 1500}, {9, 30}, {0, 5}, {7, 1200}, {100, 1100}, {2, 0}}, ragged.batch = 6;
        ragged.v = type;
        Case &lengths = add("lengthsSplits", 4, 2, 1, 2600, 32);
        lengths.batch = 3, lengths.lengths = true, lengths.k = type;
    }
    return cases;
}

// Every test runs once for each target; the choice is undone afterwards.
class CpuKernels : public testing::TestWithParam<int64_t> {
  protected:
    void SetUp() override {
        hwy::SetSupportedTargetsForTest(GetParam());
        hwy::GetChosenTarget().Update(hwy::SupportedTargets());
        ASSERT_STREQ(kernels().shape.target, hwy::TargetName(GetParam()));
    }
    void TearDown() override {
        hwy::SetSupportedTargetsForTest(0);
        hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    }
};

TEST_P(CpuKernels, everyCaseIsWithinTheBoundsOnAnyNumberOfThreads) {
    const PoolPointer pools[] = {makePool(1), makePool(2), makePool(3)};
    Random random = randomFor("kernels");
    std::vector<Case> cases = caseMatrix(random, true);
    for (Case &c : largeCases(random)) cases.push_back(std::move(c));
    // Only some, other ones each time, unless the whole extent is asked for; fewer still where they
    // are emulated.
    const char *given = std::getenv("VKATTN_TEST_ONE_CASE_IN");
    const size_t step = given ? std::max<size_t>(std::strtoull(given, nullptr, 10), 1) : fullExtent() ? 1 : 4;
    for (size_t n = step > 1 ? random() % step : 0; n < cases.size(); n += step) {
        const Case &c = cases[n];
        Random own = randomFor(c.name);
        const auto in = makeCaseData(c, own);
        const Outputs before = in->outputs();
        ASSERT_EQ(runOn(pools[0].get(), *in), "") << c.name;
        ASSERT_EQ(in->damage(before), "") << c.name;
        const Outputs single = in->outputs();
        EXPECT_EQ(verified(*in), "") << c.name;
        for (const PoolPointer &pool : pools) {
            in->out = before.out, in->lse = before.lse, in->weights = before.weights, in->scores = before.scores;
            in->collectOperands();
            ASSERT_EQ(runOn(pool.get(), *in), "") << c.name;
            EXPECT_TRUE(same(single, in->outputs())) << c.name;
        }
    }
}

// A key and value that some rows see and others do not: NaN there reaches the former, and changes
// no bit of the latter.
TEST_P(CpuKernels, hiddenKeysAreUnreadAndVisibleOnesAreNot) {
    const PoolPointer pool = makePool(2);
    Random random = randomFor("diagonal");
    for (int round = 0; round < 60; ++round) {
        Case c;
        c.name = "diagonal" + std::to_string(round);
        c.batch = 1, c.heads = 4, c.kvHeads = round % 2 ? 4 : 2, c.poison = false, c.lse = true;
        c.queryTokens = between(random, 1, 60), c.keyTokens = between(random, 1, 230);
        c.headDim = c.valueDim = between(random, 1, 20);
        c.causal = round % 3 == 0;
        c.window = round % 3 == 1, c.left = static_cast<int32_t>(between(random, 0, 30)),
        c.right = static_cast<int32_t>(between(random, 0, 30));
        if (round % 4 == 2) c.maskBroadcast = 0;
        if (round % 4 == 3) c.documents = Documents::random;
        if (round % 5 == 4) c.alibi = true;
        c.weights = round % 7 == 6;
        if (round % 6 == 5) c.k = c.v = VKATTN_F16;
        Random own = randomFor(c.name);
        const auto in = makeCaseData(c, own);
        ASSERT_EQ(runOn(pool.get(), *in), "");
        const Outputs clean = in->outputs();
        const uint32_t key = between(random, 0, c.keyTokens - 1), head = between(random, 0, c.kvHeads - 1);
        const bool inValues = round % 2 == 0;
        for (uint32_t d = 0; d < c.headDim; ++d)
            (inValues ? in->v : in->k).set(0, head, key, d, d % 2 && inValues ? std::numeric_limits<float>::infinity() : nan);
        ASSERT_EQ(runOn(pool.get(), *in), "");
        for (uint32_t h = 0; h < c.heads; ++h)
            for (uint32_t i = 0; i < c.queryTokens; ++i) {
                const bool sees = h / (c.heads / c.kvHeads) == head && in->visibleKeys(0, h, i)[key];
                for (uint32_t d = 0; d < c.valueDim; ++d) {
                    const float was = clean.out.get(0, h, i, d), is = in->out.get(0, h, i, d);
                    if (sees)
                        EXPECT_FALSE(std::isfinite(is)) << c.name << " " << h << " " << i << " " << d;
                    else
                        EXPECT_EQ(std::memcmp(&was, &is, 4), 0) << c.name << " " << h << " " << i << " " << d << ": " << was << " " << is;
                }
                if (!inValues) {
                    EXPECT_EQ(std::isnan(in->lse.get(0, h, i, 0)), sees) << c.name;
                }
            }
    }
}

TEST_P(CpuKernels, sameBitsWhateverTheBatch) {
    const PoolPointer one = makePool(1), three = makePool(3);
    Random random = randomFor("batch");
    for (const uint32_t queries : {1u, 7u, 90u}) {
        Case c;
        c.name = "batch", c.batch = 3, c.heads = 4, c.kvHeads = 2, c.queryTokens = queries, c.keyTokens = 1300, c.headDim = c.valueDim = 32;
        c.causal = c.deterministic = true;
        const auto in = makeCaseData(c, random);
        ASSERT_EQ(runOn(three.get(), *in), "");
        const HostTensor all = in->out;
        for (const auto tensor : {&vkattn_problem::q, &vkattn_problem::k, &vkattn_problem::v, &vkattn_problem::out})
            (in->problem.*tensor).extent[0] = 1;
        in->out.fillRandomly(random);
        ASSERT_EQ(runOn(one.get(), *in), "");
        for (uint32_t h = 0; h < c.heads; ++h)
            for (uint32_t i = 0; i < queries; ++i)
                for (uint32_t d = 0; d < c.valueDim; ++d) EXPECT_EQ(in->out.get(0, h, i, d), all.get(0, h, i, d));
    }
}

// The test takes the whole path: one key is visible, so that the output is the value as it was
// converted.
TEST_P(CpuKernels, everyHalfIsConvertedExactly) {
    const PoolPointer pool = makePool(1);
    for (const vkattn_dtype type : {VKATTN_F16, VKATTN_BF16})
        for (const uint32_t queries : {1u, 20u}) {
            Case c;
            c.name = "halves", c.batch = 64, c.heads = c.kvHeads = 1, c.queryTokens = queries, c.keyTokens = 1;
            c.headDim = 16, c.valueDim = 1024, c.v = type, c.poison = false;
            Random random = randomFor(c.name);
            const auto in = makeCaseData(c, random);
            for (uint32_t n = 0; n < 65536; ++n) {
                const auto bits = static_cast<uint16_t>(n);
                std::memcpy(in->v.data() + 2 * (in->v.layout.offsetElems + n), &bits, 2);
            }
            ASSERT_EQ(runOn(pool.get(), *in), "");
            for (uint32_t n = 0; n < 65536; ++n) {
                const float expected =
                    type == VKATTN_F16 ? halfToFloat(static_cast<uint16_t>(n)) : bfloat16ToFloat(static_cast<uint16_t>(n));
                const float got = in->out.get(n / 1024, 0, queries - 1, n % 1024);
                if (std::isnan(expected))
                    EXPECT_TRUE(std::isnan(got)) << n;
                else
                    EXPECT_EQ(got, expected) << n;
            }
        }
}

// The same of the small types: every code of the 8-bit floats, and any bytes at all of those with scales. Dims that fill vectors in
// several ways, and rows that are few and that are not.
TEST_P(CpuKernels, everySmallElementIsConvertedExactly) {
    const PoolPointer pool = makePool(1);
    for (const vkattn_dtype type : {VKATTN_FP8_E4M3, VKATTN_FP8_E5M2, VKATTN_Q8_0, VKATTN_Q4_0, VKATTN_INT8})
        for (const uint32_t dims : {272u, 96u, 48u, 20u})
            for (const uint32_t queries : {1u, 4u, 20u}) {
                Case c;
                c.name = "small", c.batch = 16, c.heads = queries == 4 ? 4 : 1, c.kvHeads = 1, c.queryTokens = queries == 4 ? 1 : queries;
                c.keyTokens = 1, c.headDim = 16, c.valueDim = dims, c.v = type, c.poison = false;
                Random random = randomFor(c.name);
                const auto in = makeCaseData(c, random);
                const uint64_t bytes = rowBytes(type, dims);
                std::vector<float> expected(size_t{c.batch} * dims);
                for (uint32_t b = 0; b < c.batch; ++b) {
                    unsigned char *row =
                        in->v.data() + bytesBefore(type, in->v.layout.offsetElems + b * static_cast<uint64_t>(in->v.layout.strideElems[0]));
                    for (uint64_t n = 0; n < bytes; ++n) row[n] = static_cast<unsigned char>(hasScales(type) ? random() : b * dims + n);
                    ASSERT_EQ(vkattnConvert(type, row, VKATTN_F32, expected.data() + size_t{b} * dims, dims, nullptr), VKATTN_OK);
                }
                ASSERT_EQ(runOn(pool.get(), *in), "");
                for (uint32_t b = 0; b < c.batch; ++b)
                    for (uint32_t d = 0; d < dims; ++d) {
                        const float got = in->out.get(b, c.heads - 1, c.queryTokens - 1, d), value = expected[size_t{b} * dims + d];
                        if (std::isnan(value))
                            EXPECT_TRUE(std::isnan(got)) << conform::dtypeNameOf(type) << " " << b << " " << d << " of " << dims;
                        else
                            EXPECT_EQ(got, value) << conform::dtypeNameOf(type) << " " << b << " " << d << " of " << dims;
                    }
            }
}
// And of keys: each has one code that is not 0, at a dim of its own, and the lse of a row that sees one key is its score.
TEST_P(CpuKernels, everySmallFloatIsConvertedExactlyInScores) {
    const PoolPointer pool = makePool(1);
    for (const vkattn_dtype type : {VKATTN_FP8_E4M3, VKATTN_FP8_E5M2})
        for (const uint32_t dims : {64u, 48u}) {
            Case c;
            c.name = "small keys", c.batch = 256, c.heads = c.kvHeads = 1, c.queryTokens = 1, c.keyTokens = 40, c.headDim = dims;
            c.valueDim = 16, c.k = type, c.poison = false, c.lse = true, c.scale = 1.0f;
            Random random = randomFor(c.name);
            const auto in = makeCaseData(c, random);
            for (uint32_t b = 0; b < 256; ++b) {
                for (uint32_t d = 0; d < dims; ++d) in->q.set(b, 0, 0, d, 1);
                for (uint32_t j = 0; j < c.keyTokens; ++j)
                    for (uint32_t d = 0; d < dims; ++d) {
                        const auto at = in->k.layout.offsetElems + b * static_cast<uint64_t>(in->k.layout.strideElems[0]) +
                                        j * static_cast<uint64_t>(in->k.layout.strideElems[2]) + d;
                        in->k.data()[at] = static_cast<unsigned char>(d == b % dims ? b : 0);
                    }
            }
            ASSERT_EQ(runOn(pool.get(), *in), "");
            for (uint32_t b = 0; b < 256; ++b) {
                const auto code = static_cast<unsigned char>(b);
                float value = 0;
                ASSERT_EQ(vkattnConvert(type, &code, VKATTN_F32, &value, 1, nullptr), VKATTN_OK);
                const float got = in->lse.get(b, 0, 0, 0), expected = value + std::log(static_cast<float>(c.keyTokens));
                if (std::isnan(value))
                    EXPECT_TRUE(std::isnan(got)) << conform::dtypeNameOf(type) << " " << b;
                else if (std::isinf(value))
                    EXPECT_FALSE(std::isfinite(got)) << b;
                else
                    EXPECT_NEAR(got, expected, 1e-6 * (std::abs(expected) + 4)) << conform::dtypeNameOf(type) << " " << b;
            }
        }
}

TEST_P(CpuKernels, exp2IsWithinItsStatedError) {
    constexpr size_t count = 1 << 16;
    std::vector<float> x(count), y(count);
    const auto compute = [&] { kernels().exp2(x.data(), y.data(), count); };
    double worst = 0;
    Random random = randomFor("exp2");
    for (int round = 0; round < 16; ++round) {
        for (size_t n = 0; n < count; ++n) {
            const double unit = static_cast<double>(random() >> 11) * 0x1p-53;
            x[n] = static_cast<float>(round == 15 ? 64 * unit : round % 3 ? -126.0 * unit : -2 * unit);
        }
        compute();
        for (size_t n = 0; n < count; ++n) {
            const double exact = std::exp2(static_cast<double>(x[n]));
            worst = std::max(worst, std::abs(static_cast<double>(y[n]) - exact) / std::ldexp(1.0, std::ilogb(exact) - 23));
        }
    }
    std::printf("worst error of exp2 on %s: %.3f ulp\n", kernels().shape.target, worst);
    EXPECT_LT(worst, 1.5);
    const float infinity = std::numeric_limits<float>::infinity();
    x.assign(count, 0.0f);
    x[1] = nan, x[2] = -infinity, x[3] = -1e30f, x[4] = -127.0f, x[5] = -0.0f, x[6] = -126.0f, x[7] = 1.0f;
    compute();
    EXPECT_EQ(y[0], 1.0f);
    EXPECT_TRUE(std::isnan(y[1]));
    EXPECT_EQ(y[2], 0.0f);
    EXPECT_EQ(y[3], 0.0f);
    EXPECT_EQ(y[4], 0.0f);
    EXPECT_EQ(y[5], 1.0f);
    EXPECT_EQ(y[6], 0x1p-126f);
    EXPECT_EQ(y[7], 2.0f);
}

// N(0, 1) inputs in f32. VKATTN_TEST_CASES sets their number, which is 100 without the variable, or
// 300 at full extent; docs/performance.md has the figures of 10000.
TEST_P(CpuKernels, ordinaryInputsReachTheStatedAccuracy) {
    const char *given = std::getenv("VKATTN_TEST_CASES");
    const uint64_t cases = given ? std::strtoull(given, nullptr, 10) : fullExtent() ? 300 : 100;
    const PoolPointer pool = makePool(2);
    Random random = randomFor("accuracy");
    double worst = 0, sum = 0;
    for (uint64_t n = 0; n < cases; ++n) {
        Case c;
        c.name = "accuracy";
        c.batch = 1, c.heads = c.kvHeads = 1, c.queryTokens = between(random, 1, 6);
        // Short ones more often.
        c.keyTokens = between(random, 1, 1u << between(random, 0, n % 50 ? 9 : 12));
        c.headDim = c.valueDim = 8 * between(random, 1, n % 50 ? 16 : 32);
        c.causal = random() % 2;
        const auto in = makeCaseData(c, random);
        ASSERT_EQ(runOn(pool.get(), *in), "");
        vkattn_verify_options options{};
        options.structSize = sizeof options;
        options.allRows = 1;
        vkattn_verify_report report{};
        ASSERT_EQ(
            vkattnCpuVerify(&in->problem, in->operands.data(), static_cast<uint32_t>(in->operands.size()), &options, &report, nullptr),
            VKATTN_OK);
        EXPECT_TRUE(report.passed);
        worst = std::max(worst, report.maxErrorRelativeToV);
        sum += report.maxErrorRelativeToV;
    }
    std::printf("worst error of %llu cases on %s: %.3g of max|v|, mean of each case's worst %.3g\n", static_cast<unsigned long long>(cases),
                kernels().shape.target, worst, sum / static_cast<double>(cases));
    EXPECT_LT(worst, 2e-6);
}

INSTANTIATE_TEST_SUITE_P(Targets, CpuKernels, testing::ValuesIn(hwy::SupportedAndGeneratedTargets()),
                         [](const auto &parameter) { return std::string(hwy::TargetName(parameter.param)); });

TEST(CpuPool, everyThreadTakesPartOnceAJob) {
    for (const uint32_t threads : {1u, 2u, 5u}) {
        Pool pool(threads);
        std::vector<std::atomic<int>> taken(threads);
        for (uint32_t job = 0; job < 300; ++job) {
            const uint32_t wanted = 1 + job % pool.threads();
            pool.run(
                wanted, [](void *context, uint32_t thread) { ++(*static_cast<std::vector<std::atomic<int>> *>(context))[thread]; }, &taken);
            for (uint32_t thread = 0; thread < threads; ++thread) EXPECT_EQ(taken[thread].exchange(0), thread < wanted) << threads;
            // The pause lets the threads sleep too.
            if (job == 150) std::this_thread::sleep_for(std::chrono::milliseconds(2));
        }
    }
}

// Handing work over takes longer than a small problem.
TEST(CpuPool, smallProblemsAreTheCallers) {
    vkattn_cpu_pool pool = nullptr;
    ASSERT_EQ(vkattnCpuCreatePool(2, &pool, nullptr), VKATTN_OK);
    const auto threads = [&](uint32_t queries, uint32_t keys) {
        const vkattn_layout q = packed(VKATTN_F32, 1, 2, queries, 32), k = packed(VKATTN_F32, 1, 2, keys, 32);
        const vkattn_problem description = problem(q, k, k, q);
        vkattn_cpu_plan plan{};
        plan.structSize = sizeof plan;
        EXPECT_EQ(vkattnCpuExplain(&description, pool, &plan, nullptr), VKATTN_OK);
        return plan.threads;
    };
    EXPECT_EQ(threads(0, 0), 1u);
    EXPECT_EQ(threads(1, 200), 1u);
    EXPECT_EQ(threads(300, 300), 2u);
    vkattnCpuDestroyPool(pool);
    EXPECT_EQ(threadsFor(1e30, 7), 7u);
    EXPECT_EQ(threadsFor(3.5 * leastWorkOfThread, 7), 3u);
    EXPECT_EQ(threadsFor(0, 7), 1u);
    EXPECT_EQ(threadsFor(0, 7, 0), 7u);
}

TEST(CpuPool, badArgumentsAreRefused) {
    Case c;
    Random random = randomFor("pool");
    const auto in = makeCaseData(c, random);
    const auto count = static_cast<uint32_t>(in->operands.size());
    vkattn_diagnostic why{};
    EXPECT_EQ(vkattnCpuCreatePool(1, nullptr, &why), VKATTN_ERROR_INVALID_ARGUMENT);
    vkattn_cpu_pool none = nullptr;
    EXPECT_EQ(vkattnCpuCreatePool(100000, &none, &why), VKATTN_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(none, nullptr);
    vkattnCpuDestroyPool(nullptr);
    const PoolPointer pool = makePool(2);
    vkattn_cpu_plan plan{};
    // structSize
    EXPECT_EQ(vkattnCpuExplain(&in->problem, pool.get(), &plan, &why), VKATTN_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(vkattnCpuExplain(&in->problem, pool.get(), nullptr, &why), VKATTN_ERROR_INVALID_ARGUMENT);
    plan.structSize = sizeof plan;
    ASSERT_EQ(vkattnCpuExplain(&in->problem, nullptr, &plan, &why), VKATTN_OK);
    ASSERT_EQ(vkattnCpuExplain(&in->problem, pool.get(), &plan, &why), VKATTN_OK);
    EXPECT_LE(plan.threads, 2u);
    const Outputs before = in->outputs();
    std::vector<unsigned char> workspace(plan.workspaceBytes);
    const auto run = [&](vkattn_cpu_pool on, void *memory, uint64_t bytes) {
        return vkattnCpuRunOn(on, &in->problem, in->operands.data(), count, memory, bytes, &why);
    };
    EXPECT_EQ(run(pool.get(), workspace.data(), plan.workspaceBytes - 1), VKATTN_ERROR_INVALID_ARGUMENT);
    EXPECT_NE(std::string(why.message).find("expected at least"), std::string::npos) << why.message;
    EXPECT_EQ(run(pool.get(), nullptr, plan.workspaceBytes), VKATTN_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(run(nullptr, workspace.data(), plan.workspaceBytes), VKATTN_ERROR_INVALID_ARGUMENT);
    EXPECT_TRUE(same(before, in->outputs()));
    EXPECT_EQ(run(pool.get(), workspace.data(), plan.workspaceBytes), VKATTN_OK);
}

} // namespace
