// The backward pass on the CPU: its oracle against central differences and identities, and its fast
// form against the oracle.
#include "double_forward.hpp"
#include "support/seed.hpp"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <limits>

using namespace vkattn;
using namespace vkattn::test;

namespace {

using Inputs = DoubleForward::Inputs;

// All gradients of a case, in the order of what they are gradients of.
Inputs gradientsOf(const GradientCase &g) {
    Inputs all;
    const auto take = [&](vkattn_role role, std::vector<double> &to) {
        if (!g.has(role)) return;
        const HostTensor &t = g.tensors.at(role);
        const uint32_t *e = t.layout.extent;
        for (uint32_t b = 0; b < e[0]; ++b)
            for (uint32_t h = 0; h < e[1]; ++h)
                for (uint32_t i = 0; i < e[2]; ++i)
                    for (uint32_t d = 0; d < e[3]; ++d) {
                        const bool written = role == VKATTN_D_Q ? g.data->isQuery(b, i) : role == VKATTN_D_BIAS || g.data->isKey(b, i);
                        to.push_back(written ? static_cast<double>(t.get(b, h, i, d)) : 0);
                    }
    };
    const auto takeArray = [&](vkattn_role role, std::vector<double> &to) {
        if (g.has(role)) to.assign(g.arrays.at(role).begin(), g.arrays.at(role).end());
    };
    take(VKATTN_D_Q, all.q), take(VKATTN_D_K, all.k), take(VKATTN_D_V, all.v), take(VKATTN_D_BIAS, all.bias);
    takeArray(VKATTN_D_SINKS, all.sinks), takeArray(VKATTN_D_SLOPES, all.slopes);
    if (g.has(VKATTN_D_SCALE)) all.scale = static_cast<double>(g.arrays.at(VKATTN_D_SCALE)[0]);
    if (g.has(VKATTN_D_SOFTCAP)) all.softcap = static_cast<double>(g.arrays.at(VKATTN_D_SOFTCAP)[0]);
    return all;
}

bool sameOutputs(const GradientCase &a, const GradientCase &b) {
    for (const auto &[role, t] : a.tensors) {
        const HostTensor &other = b.tensors.at(role);
        if (std::memcmp(t.data(), other.data(), t.bytes()) != 0) return false;
    }
    for (const auto &[role, array] : a.arrays)
        if (std::memcmp(array.data(), b.arrays.at(role).data(), 4 * array.size()) != 0) return false;
    return a.nonfinite == b.nonfinite;
}

} // namespace

TEST(Gradient, isTheSlopeOfTheLoss) {
    Random random = randomFor("gradient slope");
    std::normal_distribution<double> normal;
    GradientOptions options;
    options.everything = true;
    options.most = 6;
    for (int n = 0; n < 60; ++n) {
        GradientCase g = drawWhole(random, options);
        if (n % 2)
            runOracle(g);
        else
            run(g, 1);
        const DoubleForward forward(g);
        const Inputs gradients = gradientsOf(g);
        Inputs ahead = forward.inputs, behind = forward.inputs;
        constexpr double h = 1e-5;
        double expected = 0, magnitude = 0;
        const auto step = [&](double &up, double &down, double gradient) {
            const double direction = normal(random);
            if (!std::isfinite(up)) return; // hidden, by a bias or a sink of -infinity, or poison that nothing may look at
            up += h * direction, down -= h * direction;
            expected += direction * gradient;
            magnitude += std::abs(direction * gradient);
        };
        const auto walk = [&](std::vector<double> &up, std::vector<double> &down, const std::vector<double> &gradient) {
            for (size_t e = 0; e < gradient.size(); ++e) step(up[e], down[e], gradient[e]);
        };
        walk(ahead.q, behind.q, gradients.q), walk(ahead.k, behind.k, gradients.k), walk(ahead.v, behind.v, gradients.v);
        walk(ahead.bias, behind.bias, gradients.bias), walk(ahead.sinks, behind.sinks, gradients.sinks);
        walk(ahead.slopes, behind.slopes, gradients.slopes);
        step(ahead.scale, behind.scale, gradients.scale);
        if (g.has(VKATTN_D_SOFTCAP)) step(ahead.softcap, behind.softcap, gradients.softcap);
        const double slope = (forward.loss(ahead) - forward.loss(behind)) / (2 * h);
        EXPECT_NEAR(slope, expected, 1e-6 * magnitude + 1e-8) << (n % 2 ? "oracle " : "fast ") << g.text();
    }
}

TEST(Gradient, isWithinItsBoundsAndHasTheSameBitsForAnyNumberOfThreads) {
    Random random = randomFor("gradient fast");
    for (int n = 0; n < 300; ++n) {
        GradientOptions options;
        options.most = between(random, 0, 8);
        const GradientCase drawn = drawWhole(random, options);
        GradientCase before = drawn, one = drawn, exact = drawn;
        run(one, n % 2);
        EXPECT_EQ(one.wrong(before), "") << n << " " << one.text();
        for (uint32_t threads = 2; threads <= 4; ++threads) {
            GradientCase more = drawn;
            run(more, threads);
            EXPECT_TRUE(sameOutputs(one, more)) << threads << " threads: " << one.text();
        }
        runOracle(exact);
        EXPECT_EQ(exact.wrong(before), "") << "oracle: " << exact.text();
        if (::testing::Test::HasFailure()) return;
    }
}
