// What holds for every backward pass, whatever computes it.
#include "double_forward.hpp"
#include "problem/dropout.hpp"
#include "support/seed.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <gtest/gtest.h>
#include <limits>

using namespace vkattn;
using namespace vkattn::test;

namespace {

constexpr float notANumber = std::numeric_limits<float>::quiet_NaN();

// A sum of products, and of their sizes.
struct Dot {
    double sum = 0, size = 0;
    void add(double a, double b = 1) {
        if (a == 0) return; // the gradient of what nothing looks at: b may be NaN
        sum += a * b;
        size += std::abs(a * b);
    }
};

Dot dotOf(const GradientCase &g, vkattn_role gradient, const HostTensor &of) {
    Dot dot;
    const HostTensor &t = g.tensors.at(gradient);
    const uint32_t *e = t.layout.extent;
    for (uint32_t b = 0; b < e[0]; ++b)
        for (uint32_t h = 0; h < e[1]; ++h)
            for (uint32_t i = 0; i < e[2]; ++i)
                for (uint32_t d = 0; d < e[3]; ++d)
                    if (gradient == VKATTN_D_Q ? g.data->isQuery(b, i) : g.data->isKey(b, i))
                        dot.add(static_cast<double>(t.get(b, h, i, d)), static_cast<double>(of.get(b, h, i, d)));
    return dot;
}

using VisitRow = std::function<void(uint32_t b, uint32_t h, uint32_t i, const std::vector<unsigned char> &keys, bool seen)>;
void forRows(const GradientCase &g, const VisitRow &visit) {
    for (uint32_t b = 0; b < g.data->c.batch; ++b)
        for (uint32_t h = 0; h < g.data->c.heads; ++h)
            for (uint32_t i = 0; i < g.data->spans[b].queries; ++i) {
                const std::vector<unsigned char> keys = g.data->visibleKeys(b, h, i);
                visit(b, h, i, keys, std::count(keys.begin(), keys.end(), 1) != 0);
            }
}

// Hooks that hide pairs alone: those of scores and probabilities have slopes and factors of their own in sums over pairs.
Case withPlainScores(Case c) {
    if (c.hooks != Hooks::none) c.hooks = Hooks::visible;
    c.hostileOffsets = false; // slopes times 2^28 leave scores no digits
    return c;
}

// Half of them computed by the oracle.
void compute(GradientCase &g, int n) {
    if (n % 2)
        runOracle(g);
    else
        run(g, 2);
}

// A row that sees one key alone has dS = P (dP - D) with dP equal to D but for their rounding: a sum of
// dS has errors that grow with the terms of dOut V, not with dS.
class RoundingOfRows {
  public:
    explicit RoundingOfRows(const GradientCase &g) : g_(g), largest_(size_t{g.data->c.kvHeads} * g.data->c.valueDim) {
        const HostTensor &v = g.data->v;
        const uint32_t *e = v.layout.extent;
        for (uint32_t b = 0; b < e[0]; ++b)
            for (uint32_t h = 0; h < e[1]; ++h)
                for (uint32_t j = 0; j < e[2]; ++j)
                    for (uint32_t d = 0; g.data->isKey(b, j) && d < e[3]; ++d) {
                        double &largest = largest_[h * e[3] + d];
                        const auto value = std::abs(static_cast<double>(v.get(b, h, j, d)));
                        if (std::isfinite(value)) largest = std::max(largest, value);
                    }
        const uint64_t threshold = dropoutThreshold(g.data->problem.dropout);
        if (threshold != 0) factor_ = static_cast<double>(dropoutFactor(threshold));
    }
    // The square of a deviation: each term is rounded by itself.
    [[nodiscard]] double square(uint32_t b, uint32_t h, uint32_t i) const {
        const Span &s = g_.data->spans[b];
        const uint32_t dims = g_.data->c.valueDim, kvHead = h / (g_.data->c.heads / g_.data->c.kvHeads);
        double sum = 0;
        for (uint32_t d = 0; d < dims; ++d) {
            const double term =
                static_cast<double>(g_.tensors.at(VKATTN_D_OUT).get(s.batch, h, s.firstQuery + i, d)) * largest_[kvHead * dims + d];
            sum += term * term;
        }
        const double unit = 0x1p-24 * factor_;
        return unit * unit * sum;
    }

  private:
    const GradientCase &g_;
    std::vector<double> largest_; // of V, per kvHead and dim
    double factor_ = 1;           // of what dropout keeps
};

} // namespace

TEST(GradientIdentities, queriesKeysAndTheScaleAgree) {
    Random random = randomFor("gradient sums");
    GradientOptions options;
    options.everything = true;
    options.most = 6;
    for (int n = 0; n < 300; ++n) {
        GradientCase g = drawWhole(random, options);
        compute(g, n);
        const Dot q = dotOf(g, VKATTN_D_Q, g.data->q), k = dotOf(g, VKATTN_D_K, g.data->k);
        const double scale = static_cast<double>(g.data->c.scale.value_or(1 / std::sqrt(static_cast<float>(g.data->c.headDim))));
        const double tolerance = 2e-5 * (q.size + k.size) + 1e-12;
        EXPECT_NEAR(q.sum, k.sum, tolerance) << g.text();
        EXPECT_NEAR(q.sum, scale * static_cast<double>(g.arrays.at(VKATTN_D_SCALE)[0]), tolerance) << g.text();
    }
}

TEST(GradientIdentities, scoresOfAHeadAndItsSinksSumUpToDLse) {
    Random random = randomFor("gradient rows");
    GradientOptions options;
    options.everything = true;
    for (int n = 0; n < 150; ++n) {
        Case c = withPlainScores(randomCase(random, 5));
        if (c.data == Data::extreme) c.data = Data::normal;
        c.biasBroadcast = 0; // then dBias is dS
        c.ragged = c.hostileRagged = false;
        GradientCase g = drawWhole(random, c, options);
        compute(g, n);
        std::vector<Dot> left(g.data->c.heads), right(g.data->c.heads);
        const RoundingOfRows rounding(g);
        std::vector<double> rounded(g.data->c.heads);
        for (uint32_t h = 0; h < g.data->c.heads; ++h)
            if (g.data->c.sinks) left[h].add(static_cast<double>(g.arrays.at(VKATTN_D_SINKS)[h]));
        forRows(g, [&](uint32_t b, uint32_t h, uint32_t i, const std::vector<unsigned char> &keys, bool seen) {
            for (uint32_t j = 0; j < keys.size(); ++j) {
                const auto gradient = static_cast<double>(g.tensors.at(VKATTN_D_BIAS).get(b, h, i, j));
                EXPECT_TRUE(keys[j] || gradient == 0);
                left[h].add(gradient);
            }
            if (seen) rounded[h] += rounding.square(b, h, i);
            const bool hasSink = g.data->c.sinks && std::isfinite(g.data->sinks[h]);
            if ((seen || hasSink) && g.has(VKATTN_D_LSE)) right[h].add(static_cast<double>(g.tensors.at(VKATTN_D_LSE).get(b, h, i, 0)));
        });
        for (uint32_t h = 0; h < g.data->c.heads; ++h)
            EXPECT_NEAR(left[h].sum, right[h].sum, 2e-5 * (left[h].size + right[h].size) + 2e-5 + 6 * std::sqrt(rounded[h]))
                << "head " << h << " " << g.text();
    }
}

TEST(GradientIdentities, valuesOfAHeadSumUpToDOut) {
    Random random = randomFor("gradient values");
    GradientOptions options;
    options.everything = true;
    options.dropout = false;
    for (int n = 0; n < 150; ++n) {
        Case c = withPlainScores(randomCase(random, 5));
        if (c.data == Data::extreme) c.data = Data::normal;
        c.sinks = false;
        GradientCase g = drawWhole(random, c, options);
        compute(g, n);
        const uint32_t dims = g.data->c.valueDim, group = g.data->c.heads / g.data->c.kvHeads;
        std::vector<Dot> sums(size_t{g.data->c.kvHeads} * dims);
        const HostTensor &dV = g.tensors.at(VKATTN_D_V), &dOut = g.tensors.at(VKATTN_D_OUT);
        for (uint32_t b = 0; b < dV.layout.extent[0]; ++b)
            for (uint32_t h = 0; h < dV.layout.extent[1]; ++h)
                for (uint32_t j = 0; j < dV.layout.extent[2]; ++j)
                    for (uint32_t d = 0; g.data->isKey(b, j) && d < dims; ++d)
                        sums[h * dims + d].add(static_cast<double>(dV.get(b, h, j, d)));
        forRows(g, [&](uint32_t b, uint32_t h, uint32_t i, const std::vector<unsigned char> &, bool seen) {
            const Span &s = g.data->spans[b];
            for (uint32_t d = 0; seen && d < dims; ++d)
                sums[h / group * dims + d].add(-static_cast<double>(dOut.get(s.batch, h, s.firstQuery + i, d)));
        });
        for (const Dot &sum : sums) EXPECT_NEAR(sum.sum, 0, 1e-5 * sum.size + 1e-9) << g.text();
    }
}

TEST(GradientIdentities, aConstantInTheBiasOfARowChangesNothing) {
    Random random = randomFor("gradient constant");
    GradientOptions options;
    options.everything = true;
    for (int n = 0; n < 60; ++n) {
        Case c = withPlainScores(randomCase(random, 4));
        if (c.data == Data::extreme) c.data = Data::normal;
        c.biasBroadcast = 0;
        c.biasType = VKATTN_F32;
        c.sinks = false;
        GradientCase g = drawGradient(random, c, options);
        g.gradient.dLse = {};
        g.tensors.erase(VKATTN_D_LSE);
        GradientCase moved = g;
        const uint32_t *e = g.data->bias.layout.extent;
        for (uint32_t b = 0; b < e[0]; ++b)
            for (uint32_t h = 0; h < e[1]; ++h)
                for (uint32_t i = 0; i < e[2]; ++i)
                    for (uint32_t j = 0; j < e[3]; ++j)
                        moved.data->bias.set(b, h, i, j, g.data->bias.get(b, h, i, j) + static_cast<float>(i % 5) - 2);
        for (GradientCase *each : {&g, &moved}) {
            DoubleForward(*each).store();
            compute(*each, n);
        }
        for (const vkattn_role role : {VKATTN_D_Q, VKATTN_D_K, VKATTN_D_V}) {
            const HostTensor &a = g.tensors.at(role), &b = moved.tensors.at(role);
            double largest = 0, error = 0;
            for (uint32_t n0 = 0; n0 < a.layout.extent[0]; ++n0)
                for (uint32_t h = 0; h < a.layout.extent[1]; ++h)
                    for (uint32_t i = 0; i < a.layout.extent[2]; ++i)
                        for (uint32_t d = 0; (role == VKATTN_D_Q ? g.data->isQuery(n0, i) : g.data->isKey(n0, i)) && d < a.layout.extent[3];
                             ++d) {
                            largest = std::max(largest, std::abs(static_cast<double>(a.get(n0, h, i, d))));
                            error = std::max(error,
                                             std::abs(static_cast<double>(a.get(n0, h, i, d)) - static_cast<double>(b.get(n0, h, i, d))));
                        }
            EXPECT_LE(error, 2e-5 * largest + 1e-5) << role << " " << g.text();
        }
    }
}

TEST(GradientIdentities, aNanOfARowReachesWhatTheRowSeesAndNothingElse) {
    Random random = randomFor("gradient nan");
    GradientOptions options;
    options.everything = true;
    options.dropout = false;
    for (int n = 0; n < 100; ++n) {
        const GradientCase drawn = drawWhole(random, options);
        GradientCase clean = drawn, spoiled = drawn;
        const Case &c = drawn.data->c;
        const uint32_t b = between(random, 0, c.batch - 1), h = between(random, 0, c.heads - 1);
        const Span &s = drawn.data->spans[b];
        if (s.queries == 0) continue;
        const uint32_t i = between(random, 0, s.queries - 1), token = s.firstQuery + i;
        const std::vector<unsigned char> keys = drawn.data->visibleKeys(b, h, i);
        const bool seen = std::count(keys.begin(), keys.end(), 1) != 0, inQuery = n % 2;
        if (inQuery && c.sharedHeads) continue; // a query of all batch entries
        if (inQuery) {
            // What the forward pass makes of it.
            spoiled.data->q.set(s.batch, h, token, 0, notANumber);
            for (uint32_t d = 0; seen && d < c.valueDim; ++d) spoiled.data->out.set(s.batch, h, token, d, notANumber);
            for (uint32_t d = 0; seen && d < 2; ++d) spoiled.data->lse.set(s.batch, h, token, d, notANumber);
        } else {
            spoiled.tensors.at(VKATTN_D_OUT).set(s.batch, h, token, 0, notANumber);
        }
        compute(clean, n / 2);
        compute(spoiled, n / 2);
        const uint32_t kvHead = h / (c.heads / c.kvHeads);
        for (const vkattn_role role : {VKATTN_D_Q, VKATTN_D_K, VKATTN_D_V}) {
            const HostTensor &was = clean.tensors.at(role), &is = spoiled.tensors.at(role);
            const uint32_t *e = was.layout.extent;
            for (uint32_t n0 = 0; n0 < e[0]; ++n0)
                for (uint32_t head = 0; head < e[1]; ++head)
                    for (uint32_t t = 0; t < e[2]; ++t)
                        for (uint32_t d = 0; d < e[3]; ++d) {
                            bool reached = seen && n0 == s.batch;
                            if (role == VKATTN_D_Q) reached = reached && head == h && t == token;
                            const bool key = t >= s.firstKey && t - s.firstKey < s.keys;
                            if (role != VKATTN_D_Q) reached = reached && head == kvHead && key && keys[t - s.firstKey];
                            // Another element of a key that the row sees: its sum may be in another order.
                            const bool beside = reached && role == VKATTN_D_V && !inQuery && d != 0;
                            if (beside)
                                EXPECT_NEAR(is.get(n0, head, t, d), was.get(n0, head, t, d), 1e-4f);
                            else if (reached)
                                EXPECT_TRUE(std::isnan(is.get(n0, head, t, d))) << role << " " << spoiled.text();
                            else
                                EXPECT_EQ(is.getWord(n0, head, t, d), was.getWord(n0, head, t, d)) << role << " " << spoiled.text();
                        }
        }
        EXPECT_EQ(std::isnan(spoiled.arrays.at(VKATTN_D_SCALE)[0]), seen) << spoiled.text();
        if (::testing::Test::HasFailure()) return;
    }
}
