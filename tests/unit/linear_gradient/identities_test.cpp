// What must hold of the gradients of linear attention whatever computes them: central differences of the forward pass in
// double, parts and the whole, what nothing sees, loss scales.
#include "small_gradient.hpp"

#include "cpu/linear/oracle_scan.hpp"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <limits>

using namespace vkattn;
using namespace vkattn::test;

namespace {

// The loss whose gradients dOut and dStateOut are, in double, and the maxima of the states.
class Loss {
  public:
    explicit Loss(SmallGradient &g) : g_(g) {
        EXPECT_EQ(makeLinear(&g.forward.linear, a_, nullptr), VKATTN_OK);
        for (const vkattn_operand_memory &each : g.forward.memory()) operands_.data[each.role] = static_cast<unsigned char *>(each.data);
        for (auto &[role, array] : g.arrays) operands_.data[role] = reinterpret_cast<unsigned char *>(array.data());
    }
    // States are taken relative to maxima of an earlier call, which are constants in a derivative.
    double value(std::vector<double> &maxima) {
        total_ = 0, maxima_ = &maxima, next_ = 0;
        for (b_ = 0; b_ < a_.batch; ++b_)
            for (head_ = 0; head_ < a_.stateHeads; ++head_) {
                SequentialScan<double> scan(a_, operands_);
                scan_ = &scan;
                scan.begin(b_, head_);
                walkHead(a_, keysOf(a_, operands_, b_), *this);
            }
        return total_;
    }
    void write(uint32_t t) { scan_->write(t); }
    void row(uint32_t i, bool sees) {
        for (uint32_t n = 0; sees && n < a_.heads / a_.stateHeads; ++n) {
            const uint32_t head = a_.headOfState(head_, n);
            scan_->read(head, i);
            for (uint32_t d = 0; d < a_.valueDim; ++d) total_ += element(VKATTN_D_OUT, head, i, d) * scan_->out[d];
        }
    }
    void snapshot(uint32_t) {}
    void end() {
        if (g_.gradient.dStateOut.extent[0] == 0) return;
        for (uint32_t r = 0; r < a_.stateRows; ++r) {
            const double maximum = a_.hasMaximum() ? scan_->stored(r, a_.valueDim + 1) : 0;
            if (next_ == maxima_->size()) maxima_->push_back(maximum);
            const double relative = std::exp(maximum - (*maxima_)[next_++]);
            for (uint32_t c = 0; c < scan_->summed(); ++c)
                total_ += element(VKATTN_D_STATE_OUT, head_, r, c) * scan_->stored(r, c) * relative;
        }
    }

  private:
    [[nodiscard]] double element(vkattn_role role, uint64_t head, uint64_t row, uint64_t column) {
        const vkattn_layout &l = g_.layout(role);
        const int64_t *s = l.strideElems;
        return static_cast<double>(
            g_[role][b_ * static_cast<uint64_t>(s[0]) + head * static_cast<uint64_t>(s[1]) + row * static_cast<uint64_t>(s[2]) + column]);
    }

    SmallGradient &g_;
    LinearAttention a_;
    Operands operands_;
    SequentialScan<double> *scan_ = nullptr;
    std::vector<double> *maxima_ = nullptr;
    double total_ = 0;
    size_t next_ = 0;
    uint32_t b_ = 0, head_ = 0;
};

// Compares each gradient, as the kernels and as the oracle have it, with central differences of the loss.
void expectDifferences(SmallGradient g, const std::string &text) {
    // Steps of a power of two are exact in fp32, and so short that none leads over the corner of a RELU.
    constexpr float step = 0x1p-18f;
    for (auto &[role, array] : g.forward.arrays)
        for (float &each : array) each = std::round(each * 4096) / 4096 + 1.0f / 8192;
    SmallGradient exact = g, fast = g;
    exact.runOracle();
    fast.run();
    EXPECT_EQ(fast.wrong(), "") << text;
    EXPECT_EQ(exact.wrong(), "") << text;
    std::vector<double> maxima;
    (void)Loss(g).value(maxima);
    for (const vkattn_role role : smallGradients) {
        const vkattn_role source = sourceOf(role);
        std::vector<float> &of = g.forward.arrays[source];
        for (size_t n = 0; n < of.size() && g.layout(role).extent[0]; ++n) {
            const float was = of[n];
            double sides[2];
            for (const int side : {0, 1}) {
                of[n] = side ? was + step : was - step;
                sides[side] = Loss(g).value(maxima);
            }
            of[n] = was;
            const bool maximum = role == VKATTN_D_STATE_IN && g.forward.linear.rule == VKATTN_LINEAR_FEATURES &&
                                 n % g.forward.stateColumns() == g.forward.linear.v.extent[3] + 1;
            const double expected = maximum ? 0 : (sides[1] - sides[0]) / (2 * static_cast<double>(step));
            const double allowed = 2e-5 * (1 + std::abs(expected));
            EXPECT_NEAR(static_cast<double>(exact[role][n]), expected, allowed) << text << " oracle, role " << role << " element " << n;
            EXPECT_NEAR(static_cast<double>(fast[role][n]), expected, allowed) << text << " kernels, role " << role << " element " << n;
            if (::testing::Test::HasFailure()) return;
        }
    }
}

std::string textOf(const SmallScan &c) {
    return "rule " + std::to_string(c.linear.rule) + " features " + std::to_string(c.linear.features) + " flags " +
           std::to_string(c.linear.flags);
}

// Relative to the largest number, where that is above 1.
double largestDifference(const std::vector<float> &a, const std::vector<float> &b) {
    double most = 0, size = 1;
    for (size_t n = 0; n < a.size(); ++n) {
        most = std::max(most, static_cast<double>(std::abs(a[n] - b[n])));
        size = std::max(size, static_cast<double>(std::abs(b[n])));
    }
    return most / size;
}

} // namespace

TEST(LinearGradientIdentities, areCentralDifferences) {
    Random random = randomFor("central differences of linear attention");
    for (const uint32_t tokens : {1u, 7u})
        for (SmallScan &c : everySmallScan(random, tokens)) {
            SmallGradient g(c);
            g.draw(random);
            expectDifferences(g, textOf(c));
            if (HasFailure()) return;
        }
}

// Fewer queries than keys and more, both alignments, lengths, and a negative scale.
TEST(LinearGradientIdentities, areCentralDifferencesAtEveryAlignment) {
    Random random = randomFor("alignments of gradients of linear attention");
    for (const uint32_t queries : {2u, 9u})
        for (const bool topLeft : {false, true})
            for (SmallScan &c : everySmallScan(random, 5)) {
                c.add(VKATTN_Q, 1, 2, queries, 4);
                c.add(VKATTN_OUT, 1, 2, queries, 3);
                for (float &each : c[VKATTN_Q]) each = std::normal_distribution<float>(0, 0.5f)(random);
                if (topLeft) c.linear.flags |= VKATTN_ALIGN_TOP_LEFT | VKATTN_SCALE, c.linear.scale = -0.375f;
                c.linear.presentRoles = VKATTN_PRESENT(VKATTN_KEY_LENGTHS);
                c.lengths = {4};
                SmallGradient g(c);
                g.draw(random);
                expectDifferences(g, textOf(c));
                if (HasFailure()) return;
            }
}

// k, v and q of fewer heads than the state or the result, by division and modulo, and decays that broadcast.
TEST(LinearGradientIdentities, areCentralDifferencesOfSharedHeads) {
    Random random = randomFor("shared heads of gradients of linear attention");
    for (const bool modulo : {false, true})
        for (const vkattn_linear_rule rule : {VKATTN_LINEAR_FEATURES, VKATTN_LINEAR_GATED, VKATTN_LINEAR_GATED_DELTA})
            for (const uint32_t queryHeads : {1u, 2u, 8u}) {
                SmallScan c(rule, 4, 4, 3, 2);
                c.linear.headMapping = modulo ? VKATTN_HEADS_MODULO : VKATTN_HEADS_DIVIDED;
                c.add(VKATTN_Q, 2, queryHeads, 4, 3);
                c.add(VKATTN_K, 2, 2, 4, 3);
                c.add(VKATTN_V, 2, 4, 4, 2);
                c.add(VKATTN_OUT, 2, std::max(queryHeads, 4u), 4, 2);
                if (rule != VKATTN_LINEAR_FEATURES) c.add(VKATTN_DECAY, 1, 1, 4, 3);
                if (rule == VKATTN_LINEAR_GATED_DELTA) c.add(VKATTN_WRITE_STRENGTH, 2, 1, 4, 1);
                c.draw(random, 0.5f);
                SmallGradient g(c);
                g.draw(random);
                expectDifferences(g, textOf(c) + (modulo ? " modulo" : " divided"));
                if (HasFailure()) return;
            }
}

// dStateIn of the second half is dStateOut of the first.
TEST(LinearGradientIdentities, goOnWhereTheyHaveEnded) {
    Random random = randomFor("parts of gradients of linear attention");
    for (const uint32_t tokens : {2u, 33u, 130u})
        for (SmallScan &c : everySmallScan(random, tokens)) {
            if (c.linear.rule == VKATTN_LINEAR_FEATURES && !(c.linear.flags & VKATTN_CAUSAL)) continue;
            SmallGradient whole(c);
            whole.draw(random);
            whole.run();
            const uint32_t half = tokens / 2;
            SmallScan first = c.part(0, half, nullptr);
            first.run();
            const SmallScan second = c.part(half, tokens - half, &first);
            // Arrays of tokens are cut as the inputs are: what a scan is cut by cuts its gradients.
            SmallScan ofGradients = c;
            ofGradients[VKATTN_Q] = whole[VKATTN_D_Q], ofGradients[VKATTN_K] = whole[VKATTN_D_K], ofGradients[VKATTN_V] = whole[VKATTN_D_V];
            ofGradients[VKATTN_OUT] = whole[VKATTN_D_OUT];
            if (whole.layout(VKATTN_D_DECAY).extent[0]) ofGradients[VKATTN_DECAY] = whole[VKATTN_D_DECAY];
            if (whole.layout(VKATTN_D_WRITE_STRENGTH).extent[0]) ofGradients[VKATTN_WRITE_STRENGTH] = whole[VKATTN_D_WRITE_STRENGTH];
            const auto expectPart = [&](SmallGradient &part, SmallScan expected) {
                for (const vkattn_role role : {VKATTN_D_Q, VKATTN_D_K, VKATTN_D_V, VKATTN_D_DECAY, VKATTN_D_WRITE_STRENGTH})
                    EXPECT_LT(part.layout(role).extent[0] ? largestDifference(part[role], expected[sourceOf(role)]) : 0.0, 3e-5)
                        << textOf(c) << " role " << role;
            };
            SmallGradient later(second);
            SmallScan expected = ofGradients.part(half, tokens - half, nullptr);
            later[VKATTN_D_OUT] = expected[VKATTN_OUT];
            later[VKATTN_D_STATE_OUT] = whole[VKATTN_D_STATE_OUT];
            later.run();
            expectPart(later, expected);
            SmallGradient earlier(first);
            expected = ofGradients.part(0, half, nullptr);
            earlier[VKATTN_D_OUT] = expected[VKATTN_OUT];
            earlier[VKATTN_D_STATE_OUT] = later[VKATTN_D_STATE_IN];
            earlier.run();
            expectPart(earlier, expected);
            EXPECT_LT(largestDifference(earlier[VKATTN_D_STATE_IN], whole[VKATTN_D_STATE_IN]), 3e-5) << textOf(c);
        }
}

// Tokens past the length, rows that see nothing and their dOut may hold anything, and have gradients of exactly 0.
TEST(LinearGradientIdentities, areZeroWhereNothingIsSeen) {
    Random random = randomFor("hidden tokens of gradients");
    const float nan = std::nanf("");
    for (SmallScan &c : everySmallScan(random, 9)) {
        const bool causal = c.linear.rule != VKATTN_LINEAR_FEATURES || c.linear.flags & VKATTN_CAUSAL;
        c.linear.presentRoles = VKATTN_PRESENT(VKATTN_KEY_LENGTHS);
        c.lengths = {6};
        SmallGradient g(c);
        g.draw(random);
        SmallGradient clean = g;
        clean.run();
        for (const vkattn_role role : {VKATTN_K, VKATTN_V, VKATTN_DECAY, VKATTN_WRITE_STRENGTH}) {
            std::vector<float> &of = g.forward.arrays[role];
            const size_t dims = of.size() / 18;
            for (size_t n = 0; n < of.size(); ++n)
                if (n / dims % 9 >= 6) of[n] = nan;
        }
        for (size_t n = 0; n < g[VKATTN_D_OUT].size() && causal; ++n) // i' = i - 3
            if (n / 3 % 9 < 3) g[VKATTN_D_OUT][n] = nan;
        for (const vkattn_role role : smallGradients) std::fill(g[role].begin(), g[role].end(), nan);
        g.run();
        for (const vkattn_role role : smallGradients) {
            EXPECT_EQ(g[role], clean[role]) << textOf(c) << " role " << role;
            const size_t dims = g[role].size() / 18;
            for (size_t n = 0; n < g[role].size() && role != VKATTN_D_STATE_IN; ++n) {
                const size_t token = n / dims % 9;
                const bool unseen = role == VKATTN_D_Q ? causal && token < 3 : token >= 6;
                EXPECT_TRUE(!unseen || g[role][n] == 0) << textOf(c) << " role " << role;
            }
        }
    }
}

// Nothing to see at all, with and without a state.
TEST(LinearGradientIdentities, takeNoTokens) {
    Random random = randomFor("gradients of no tokens");
    for (SmallScan &c : everySmallScan(random, 3)) {
        c.linear.presentRoles = VKATTN_PRESENT(VKATTN_KEY_LENGTHS);
        c.lengths = {0};
        c.linear.flags |= VKATTN_ALIGN_TOP_LEFT;
        SmallGradient g(c);
        g.draw(random);
        expectDifferences(g, textOf(c) + " without keys");
        if (HasFailure()) return;
    }
}

// Gradients are linear in dOut: a loss scale that is a power of two changes no bit, and what overflows is noted.
TEST(LinearGradientIdentities, divideByTheLossScale) {
    Random random = randomFor("loss scales of linear attention");
    for (SmallScan &c : everySmallScan(random, 20)) {
        SmallGradient plain(c), scaled(c);
        plain.draw(random);
        for (const vkattn_role role : {VKATTN_D_OUT, VKATTN_D_STATE_OUT}) {
            scaled[role] = plain[role];
            for (float &each : scaled[role]) each *= 1024;
        }
        scaled.gradient.lossScale = 1024;
        plain.gradient.presentRoles = scaled.gradient.presentRoles = VKATTN_PRESENT(VKATTN_NONFINITE);
        plain.run();
        scaled.run();
        for (const vkattn_role role : smallGradients) EXPECT_EQ(plain[role], scaled[role]) << textOf(c) << " role " << role;
        EXPECT_EQ(plain.nonfinite, 0u);
        scaled[VKATTN_D_OUT].back() = std::numeric_limits<float>::infinity();
        scaled.run();
        EXPECT_EQ(scaled.nonfinite, 1u);
        EXPECT_EQ(scaled.wrong(), "");
        scaled.nonfinite = 0;
        EXPECT_NE(scaled.wrong(), "");
        scaled.runOracle();
        EXPECT_EQ(scaled.nonfinite, 1u);
    }
}
