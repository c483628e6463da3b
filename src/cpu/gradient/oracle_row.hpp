// One row of the backward pass in double precision: the formulas of vkattn/gradient.h in their order,
// in plain loops. cpu/oracle/pair.hpp has the rule for one pair. What the forward pass has stored is
// recomputed here: the truth is the gradient of q, k and v.
#pragma once

#include "cpu/oracle/pair.hpp"
#include "cpu/oracle/row.hpp"
#include "problem/dropout.hpp"

#include <cmath>
#include <limits>
#include <optional>
#include <vector>

namespace vkattn {

// A visible pair of a row and key j.
struct GradientPair {
    uint32_t j;
    bool dropped;
    double kept;                                                        // w_ij, times what a program makes of P_ij; 0 where dropped
    double dot;                                                         // dot(q_i, k_j)
    double score, added;                                                // s_ij, and the size of the terms that were added to it
    double distance;                                                    // |j - i'|
    double hookSlope;                                                   // of a program's vkattnScore; 1 without
    double weighing;                                                    // what vkattnProbability multiplies P_ij with; 1 without
    double slope;                                                       // 1 - (t_ij / softcap)^2; 1 without softcap
    double weight;                                                      // P_ij
    double dValues;                                                     // w_ij dot(dOut_i, v_j)
    double dWeights;                                                    // what dWeights adds to dP_ij
    double dScore, dPlain;                                              // dS_ij and dz_ij
    [[nodiscard]] double dWeight() const { return dValues + dWeights; } // dP_ij
};

class GradientRow {
  public:
    std::vector<GradientPair> pairs; // the visible pairs by key, ascending
    std::vector<double> query, dOut, out;
    RowProbabilities<double> probabilities;
    double d = 0;     // D_i
    double dLse = 0;  // 0 where it is not given
    double sink = 0;  // exp(sink_h - m_i) / l_i; 0 without a sink
    double dSink = 0; // the row's summand of dSinks_h

    [[nodiscard]] bool seen() const { return !pairs.empty(); }
    // Of the row that was computed last: the rule of its pairs, and the score of its head's sink, -infinity without.
    [[nodiscard]] const OraclePair &rule() const { return *rule_; }
    [[nodiscard]] float ownSink() const { return ownSink_; }

    void compute(const Gradient &g, const Operands &operands, const Sequence &s, const HeadKeysValues &kv, uint32_t b, uint32_t h,
                 uint32_t i) {
        const Problem &p = g.forward;
        const OraclePair &rule = rule_.emplace(p, operands, s, b, h, i);
        load(query, p.tensor(VKATTN_Q), operands.data[VKATTN_Q], s, h, i);
        pairs.clear();
        for (uint32_t j = 0; j < s.keys; ++j)
            if (rule.visible(j)) pairs.push_back(score(p, rule, kv, j));
        ownSink_ = operands.sink(p, h);
        const auto ownSink = static_cast<double>(ownSink_);
        constexpr double infinity = std::numeric_limits<double>::infinity();
        probabilities.compute(pairs.size(), ownSink, [&](size_t n) { return pairs[n].score; });
        dLse = 0;
        if (const Tensor &t = g.tensor(VKATTN_D_LSE); t.present())
            dLse = static_cast<double>(loadElement(operands.data[VKATTN_D_LSE], t.dtype, t.index(s.batch, h, s.query(i), 0)));
        sink = ownSink == -infinity ? 0 : std::exp(ownSink - probabilities.maximum) / probabilities.sum;

        d = 0; // a row that sees nothing: dOut is not read
        if (seen()) computePairs(g, operands, s, kv, b, h, i);
        dSink = ownSink == -infinity ? 0 : sink * (dLse - d);
    }

  private:
    static void load(std::vector<double> &row, const Tensor &t, const unsigned char *data, const Sequence &s, uint32_t h, uint32_t i) {
        row.resize(t.extent[3]);
        for (uint32_t e = 0; e < t.extent[3]; ++e)
            row[e] = static_cast<double>(loadElement(data, t.dtype, t.index(s.batch, h, s.query(i), e)));
    }
    static double dotOf(const std::vector<double> &a, const float *b) {
        double sum = 0;
        for (size_t e = 0; e < a.size(); ++e) sum += a[e] * static_cast<double>(b[e]);
        return sum;
    }

    [[nodiscard]] GradientPair score(const Problem &p, const OraclePair &rule, const HeadKeysValues &kv, uint32_t j) const {
        GradientPair pair{};
        pair.j = j;
        pair.dot = dotOf(query, kv.key(j));
        pair.score = rule.score(j, pair.dot, pair.added);
        pair.distance = rule.distance(j);
        pair.hookSlope = rule.hookSlope(j, pair.dot);
        pair.weighing = rule.weighing(j);
        pair.slope = 1;
        if (p.softcap > 0) {
            const double tanh = std::tanh(static_cast<double>(p.scale) * pair.dot / static_cast<double>(p.softcap)); // t_ij / softcap
            pair.slope = 1 - tanh * tanh;
        }
        return pair;
    }

    void computePairs(const Gradient &g, const Operands &operands, const Sequence &s, const HeadKeysValues &kv, uint32_t b, uint32_t h,
                      uint32_t i) {
        const Problem &p = g.forward;
        const Tensor &dWeights = g.tensor(VKATTN_D_WEIGHTS);
        const DropoutPlane plane{p.dropoutSeed, p.dropoutOffset, b * p.heads + h};
        load(dOut, g.tensor(VKATTN_D_OUT), operands.data[VKATTN_D_OUT], s, h, i);
        out.assign(p.valueDim, 0.0);
        for (size_t n = 0; n < pairs.size(); ++n) {
            GradientPair &pair = pairs[n];
            pair.weight = probabilities.weight[n]; // P_ij
            pair.dropped = p.drops() && !plane.keeps(p.dropoutThreshold, i, pair.j);
            const double ofDropout = pair.dropped ? 0 : p.drops() ? dropoutFactor(p.dropoutThreshold) : 1;
            pair.kept = ofDropout * pair.weighing;
            if (!pair.dropped) {
                const float *v = kv.value(pair.j);
                for (uint32_t e = 0; e < p.valueDim; ++e) out[e] += pair.kept * pair.weight * static_cast<double>(v[e]);
                pair.dValues = pair.kept * dotOf(dOut, v);
            }
            if (dWeights.present()) {
                const double given =
                    static_cast<double>(loadElement(operands.data[VKATTN_D_WEIGHTS], dWeights.dtype, dWeights.index(b, h, i, pair.j)));
                pair.dWeights = !p.weightsDropped ? given : pair.dropped ? 0 : ofDropout * given;
            }
        }
        for (uint32_t e = 0; e < p.valueDim; ++e) d += dOut[e] * out[e]; // dot(dOut_i, out_i)
        for (const GradientPair &pair : pairs)
            if (pair.dWeights != 0) d += pair.weight * pair.dWeights;
        for (GradientPair &pair : pairs) {
            pair.dScore = pair.weight * (pair.dWeight() - d + dLse) * pair.hookSlope;
            pair.dPlain = pair.dScore * pair.slope;
        }
    }

    std::optional<OraclePair> rule_;
    float ownSink_ = 0;
};

// tanh x - x (1 - tanh^2 x) with x = z / softcap, which dS_ij is multiplied with in dSoftcap.
[[nodiscard]] inline double softcapFactor(const Problem &p, double dot) {
    const double x = static_cast<double>(p.scale) * dot / static_cast<double>(p.softcap), tanh = std::tanh(x);
    return tanh - x * (1 - tanh * tanh);
}

// The place of a pair's element in a bias that may broadcast, counted in C order.
[[nodiscard]] inline uint64_t biasPlace(const Tensor &t, uint32_t b, uint32_t h, uint32_t i, uint32_t j) {
    const uint32_t at[4] = {b, h, i, j};
    uint64_t place = 0;
    for (int d = 0; d < 4; ++d) place = place * t.extent[d] + (t.extent[d] == 1 ? 0 : at[d]);
    return place;
}
[[nodiscard]] inline uint64_t biasElements(const Tensor &t) {
    return uint64_t{t.extent[0]} * t.extent[1] * t.extent[2] * t.extent[3];
}
[[nodiscard]] inline uint64_t biasIndex(const Tensor &t, uint64_t place) {
    uint64_t at[4];
    for (int d = 3; d >= 0; --d) at[d] = place % t.extent[d], place /= t.extent[d];
    return t.index(at[0], at[1], at[2], at[3]);
}

} // namespace vkattn
