// A visible NaN or infinity reaches its row and no other row (docs/numerics.md 4).
#include "forms.hpp"

#include <cmath>
#include <limits>

using namespace vkattn;
using namespace vkattn::test;

class NonFinite : public EveryForm {};
VKATTN_FORMS(NonFinite);

TEST_P(NonFinite, visibleValuesReachTheirRowOnly) {
    Runtime *on = runtime();
    if (!on) return;
    const bool staged = form().kernel == VKATTN_KERNEL_STAGED;
    if (!on->device()->caps.floatControlsNan) GTEST_SKIP() << "the device does not promise NaN (shaderSignedZeroInfNanPreserveFloat32)";
    Case c = taken({});
    c.batch = 1, c.heads = c.kvHeads = 2, c.queryTokens = 37, c.poison = false, c.headDim = c.valueDim = 8, c.lse = true,
    c.weights = staged, c.biasBroadcast = 1, c.biasHidden = 0;
    for (const float value :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()})
        for (const bool inQuery : {true, false}) {
            if (!inQuery && value < 0) continue; // a bias of -infinity hides
            for (const float softcap : {0.0f, 5.0f}) {
                if (softcap > 0 && !staged) continue; // the same code, and one pipeline more
                // Softcap squashes an infinite score into a finite one, by its formula.
                if (softcap > 0 && inQuery && std::isinf(value)) continue;
                c.softcap = softcap;
                Random random = randomFor("nonfinite");
                const auto in = makeInstance(c, random);
                ASSERT_EQ(runAndCheck(*on, *in), "");
                const HostTensor clean = in->out;
                if (inQuery)
                    in->q.set(0, 1, 11, 3, value);
                else
                    in->bias.set(0, 1, 11, 4, value);
                in->collectOperands();
                const RunResult result = on->run(in->problem, in->operands);
                ASSERT_EQ(result.status, VKATTN_OK);
                for (uint32_t h = 0; h < 2; ++h)
                    for (uint32_t i = 0; i < c.queryTokens; ++i) {
                        if (h == 1 && i == 11) {
                            EXPECT_TRUE(std::isnan(in->out.get(0, h, i, 0))) << value << (inQuery ? " in q" : " in bias");
                            EXPECT_TRUE(std::isnan(in->lse.get(0, h, i, 0)));
                            EXPECT_TRUE(!staged || std::isnan(in->weights.get(0, h, i, 0)));
                        } else {
                            EXPECT_EQ(in->out.get(0, h, i, 0), clean.get(0, h, i, 0));
                        }
                    }
                const vkattn_verify_options options = {sizeof options, 0, 0, 0, result.probabilityUnit, 0, result.probabilityFloor};
                vkattn_verify_report report{};
                ASSERT_EQ(vkattnCpuVerify(&in->problem, in->operands.data(), static_cast<uint32_t>(in->operands.size()), &options, &report,
                                          nullptr),
                          VKATTN_OK);
                EXPECT_TRUE(report.passed);
            }
        }
}

// The same of a head's slope and of its sink; rows that see nothing see no sink either.
TEST_P(NonFinite, slopesAndSinksReachTheirHeadOnly) {
    Runtime *on = runtime();
    if (!on) return;
    const bool staged = form().kernel == VKATTN_KERNEL_STAGED;
    if (!on->device()->caps.floatControlsNan) GTEST_SKIP() << "the device does not promise NaN (shaderSignedZeroInfNanPreserveFloat32)";
    Case c = taken({});
    c.batch = 1, c.heads = c.kvHeads = 2, c.queryTokens = 37, c.poison = false, c.headDim = c.valueDim = 8, c.lse = true,
    c.weights = staged, c.alibi = c.sinks = true;
    c.causal = true; // 19 keys for 37 queries: the first 18 rows see nothing
    constexpr float infinity = std::numeric_limits<float>::infinity();
    for (const float value : {std::numeric_limits<float>::quiet_NaN(), infinity, -infinity})
        for (const bool inSinks : {true, false}) {
            c.sink = 0.5f;
            Random random = randomFor("nonfinite heads");
            const auto in = makeInstance(c, random);
            ASSERT_EQ(runAndCheck(*on, *in), "");
            const HostTensor clean = in->out;
            (inSinks ? in->sinks : in->slopes)[1] = value;
            in->collectOperands();
            const RunResult result = on->run(in->problem, in->operands);
            ASSERT_EQ(result.status, VKATTN_OK);
            for (uint32_t i = 0; i < c.queryTokens; ++i) {
                EXPECT_EQ(in->out.get(0, 0, i, 0), clean.get(0, 0, i, 0));
                const float out = in->out.get(0, 1, i, 0), lse = in->lse.get(0, 1, i, 0);
                if (i < 18) {
                    EXPECT_EQ(out, 0.0f) << i;
                    if (!inSinks || !std::isnan(value)) {
                        EXPECT_EQ(lse, inSinks ? value : 0.5f) << i;
                    }
                } else if (inSinks && value == -infinity) {
                    EXPECT_TRUE(std::isfinite(out) && std::isfinite(lse)) << i;
                } else { // an infinite slope is NaN at distance 0, which every row sees
                    EXPECT_TRUE(std::isnan(out) && std::isnan(lse)) << value << (inSinks ? " in sinks, row " : " in slopes, row ") << i;
                }
            }
            const vkattn_verify_options options = {sizeof options, 0, 0, 0, result.probabilityUnit, 0, result.probabilityFloor};
            vkattn_verify_report report{};
            ASSERT_EQ(
                vkattnCpuVerify(&in->problem, in->operands.data(), static_cast<uint32_t>(in->operands.size()), &options, &report, nullptr),
                VKATTN_OK);
            EXPECT_TRUE(report.passed) << value << (inSinks ? " in sinks" : " in slopes");
        }
}

// Scores of -infinity that come from K: rows that see nothing else have no softmax (NaN), and one with a sink is all sink.
TEST_P(NonFinite, rowsOfNothingButMinusInfinity) {
    Runtime *on = runtime();
    if (!on) return;
    if (!on->device()->caps.floatControlsNan) GTEST_SKIP() << "the device does not promise NaN (shaderSignedZeroInfNanPreserveFloat32)";
    Case c = taken({});
    c.batch = 1, c.headDim = c.valueDim = 8, c.queryTokens = c.keyTokens = 30, c.causal = c.lse = true;
    for (const bool sinks : {false, true}) {
        c.sinks = sinks, c.sink = 0.5f;
        c.name = sinks ? "minusInfinitySinks" : "minusInfinity";
        Random random = randomFor(c.name);
        const auto in = makeInstance(c, random);
        for (uint32_t h = 0; h < c.heads; ++h)
            for (uint32_t t = 0; t < 30; ++t)
                for (uint32_t d = 0; d < 8; ++d) {
                    in->q.set(0, h, t, d, std::abs(in->q.get(0, h, t, d)) + 0.1f);
                    if (t < 10) in->k.set(0, h, t, d, -std::numeric_limits<float>::infinity());
                }
        in->collectOperands();
        EXPECT_EQ(runAndCheck(*on, *in), "") << c.name;
        for (uint32_t i = 0; i < 30; ++i) {
            const float out = in->out.get(0, 1, i, 3), lse = in->lse.get(0, 1, i, 0);
            if (i >= 10)
                EXPECT_TRUE(std::isfinite(out) && std::isfinite(lse)) << c.name << " row " << i;
            else if (sinks)
                EXPECT_TRUE(out == 0 && lse == 0.5f) << c.name << " row " << i << ": " << out << ", " << lse;
            else
                EXPECT_TRUE(std::isnan(out) && std::isnan(lse)) << c.name << " row " << i << ": " << out << ", " << lse;
        }
    }
}
