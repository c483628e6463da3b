// One row of attention in plain loops, for any arithmetic type. In double the row is the oracle's,
// the truth that everything is measured against; in float it is the "plain fp32 emulation" of
// docs/numerics.md 6. oracle/pair.hpp has the rule for one pair.
#pragma once

#include "cpu/oracle/pair.hpp"
#include "problem/dropout.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace vkattn {

// K and V of one sequence and key/value head as rows of floats: a view where memory already holds
// such rows, else a decoded copy.
class HeadKeysValues {
  public:
    void load(const Problem &p, const Operands &operands, const Sequences &sequences, uint32_t b, uint32_t kvHead) {
        if (loaded_ && b == b_ && kvHead == kvHead_) return;
        if (p.paged()) {
            for (const auto &[rows, role] : {std::pair{&k_, VKATTN_K}, {&v_, VKATTN_V}})
                if (operands.data[p.memoryOf(role)]) rows->loadPages(p, operands, role, sequences[b], kvHead);
            loaded_ = true, b_ = b, kvHead_ = kvHead;
            return;
        }
        if (p.segmented()) {
            k_.loadSegments(p, operands, VKATTN_K, sequences[b], kvHead);
            v_.loadSegments(p, operands, VKATTN_V, sequences[b], kvHead);
            loaded_ = true, b_ = b, kvHead_ = kvHead;
            return;
        }
        k_.load(p.tensor(VKATTN_K), operands.data[VKATTN_K], sequences[b], kvHead);
        // Operations that know no values have no memory for V.
        if (operands.data[p.memoryOf(VKATTN_V)]) v_.load(p.tensor(VKATTN_V), operands.data[p.memoryOf(VKATTN_V)], sequences[b], kvHead);
        loaded_ = true;
        b_ = b;
        kvHead_ = kvHead;
    }
    [[nodiscard]] const float *key(uint32_t j) const { return k_.row(j); }
    [[nodiscard]] const float *value(uint32_t j) const { return v_.row(j); }

  private:
    struct Rows {
        const float *base = nullptr;
        int64_t stride = 0;
        std::vector<float> copy;

        void load(const Tensor &t, const unsigned char *data, const Sequence &s, uint32_t h) {
            if (t.empty() || s.keys == 0) return;
            if (t.dtype == VKATTN_F32 && (t.stride[3] == 1 || t.extent[3] == 1)) {
                base = reinterpret_cast<const float *>(data) + t.index(s.batch, h, s.keyFirst, 0);
                stride = t.stride[2];
                return;
            }
            copy.resize(static_cast<size_t>(s.keys) * t.extent[3]);
            for (uint32_t j = 0; j < s.keys; ++j)
                for (uint32_t d = 0; d < t.extent[3]; ++d)
                    copy[static_cast<size_t>(j) * t.extent[3] + d] = loadElement(t, data, s.batch, h, s.key(j), d);
            base = copy.data();
            stride = t.extent[3];
        }
        // One segment after the other. Operations that know no values have no memory for V.
        void loadSegments(const Problem &p, const Operands &operands, vkattn_role role, const Sequence &s, uint32_t h) {
            copy.clear();
            stride = p.tensor(role).extent[3];
            if (!operands.data[role]) return;
            for (uint32_t n = 0; n < p.segments.count; ++n) {
                const vkattn_role own = roleOfSegment(role, n);
                const Tensor &t = p.tensor(own);
                for (uint32_t j = 0; j < t.extent[2]; ++j)
                    for (uint32_t d = 0; d < t.extent[3]; ++d) copy.push_back(loadElement(t, operands.data[own], s.batch, h, j, d));
            }
            base = copy.data();
        }
        // Keys of absent pages are NaN: nobody may see them.
        void loadPages(const Problem &p, const Operands &operands, vkattn_role role, const Sequence &s, uint32_t h) {
            const Tensor &t = p.tensor(role);
            const uint32_t tokens = t.extent[2];
            copy.assign(static_cast<size_t>(s.keys) * t.extent[3], std::numeric_limits<float>::quiet_NaN());
            for (uint32_t j = 0; j < s.keys; ++j) {
                const int64_t page = oraclePage(p, operands, s.batch, j);
                for (uint32_t d = 0; d < t.extent[3] && page >= 0; ++d)
                    copy[static_cast<size_t>(j) * t.extent[3] + d] =
                        loadElement(t, operands.data[p.memoryOf(role)], static_cast<uint64_t>(page), h, j % tokens, d);
            }
            base = copy.data();
            stride = t.extent[3];
        }
        [[nodiscard]] const float *row(uint32_t j) const { return base + static_cast<int64_t>(j) * stride; }
    };
    Rows k_, v_;
    bool loaded_ = false;
    uint32_t b_ = 0, kvHead_ = 0;
};

template <class Real> struct Row {
    std::vector<Real> out; // [valueDim]
    Real lse = 0;
    Real maximum = 0, sum = 0;     // the row statistics
    std::vector<uint32_t> visible; // the sequence's visible keys, ascending
    std::vector<Real> weights;     // weights of the visible keys, before dropout
    std::vector<Real> scoresSeen;  // their scores
    std::vector<Real> factors;     // w_ij of the visible keys: 0 where dropped
    std::vector<Real> weighings;   // what a program multiplies their weights with; 1 without
    // The size of the terms that were added to the scores of the visible keys (oracle/pair.hpp).
    std::vector<Real> added;
    std::vector<Real> scores; // what is stored of every key of the sequence; empty where nothing is
    std::vector<Real> query;
    // What the row goes on from: its log-sum-exp, its share of the whole sum, and its output, where the share is not 0.
    Real priorLse = 0, priorWeight = 0;
    std::vector<Real> priorOut;
    bool goesOn = false; // from keys that were seen

    [[nodiscard]] bool sawNothing() const { return visible.empty() && !goesOn; }

    void attend(const Problem &p, const Operands &operands, const Sequences &sequences, const HeadKeysValues &kv, uint32_t b, uint32_t h,
                uint32_t i) {
        constexpr Real infinity = std::numeric_limits<Real>::infinity();
        const Sequence &sequence = sequences[b];
        const OraclePair pair(p, operands, sequence, b, h, i);
        const Tensor &q = p.tensor(VKATTN_Q);
        query.resize(p.headDim);
        for (uint32_t d = 0; d < p.headDim; ++d)
            query[d] = static_cast<Real>(loadElement(operands.data[VKATTN_Q], q.dtype, q.index(sequence.batch, h, sequence.query(i), d)));

        out.assign(p.valueDim, Real(0));
        loadPrior(p, operands, sequence, h, i);
        const auto sink = static_cast<Real>(operands.sink(p, h));
        lse = maximum = sink;
        if (goesOn && !std::isnan(maximum) && !(priorLse <= maximum)) maximum = priorLse;
        sum = sink == -infinity ? Real(0) : Real(1);
        visible.clear();
        weights.clear(); // holds scores until the maximum is known
        factors.clear();
        weighings.clear();
        added.clear();
        scores.clear();
        if (p.tensor(VKATTN_SCORES).present())
            for (uint32_t j = 0; j < sequence.keys; ++j) scores.push_back(pair.storedScore(j, dot(query.data(), kv.key(j), p.headDim)));
        for (uint32_t j = 0; j < sequence.keys; ++j) {
            if (!pair.visible(j)) continue;
            Real addedTerms;
            const Real s = pair.score(j, dot(query.data(), kv.key(j), p.headDim), addedTerms);
            visible.push_back(j);
            weights.push_back(s);
            added.push_back(addedTerms);
            // A NaN becomes the maximum and stays the maximum.
            if (!std::isnan(maximum) && !(s <= maximum)) maximum = s;
        }
        if (sawNothing()) return;

        scoresSeen = weights;
        if (p.program.sumless()) {
            for (Real &w : weights) w = static_cast<Real>(pair.rowWeight(static_cast<double>(w)));
            sum = 1;
            lse = std::any_of(weights.begin(), weights.end(), [](Real w) { return std::isnan(w); }) ? std::numeric_limits<Real>::quiet_NaN()
                                                                                                    : Real(0);
        } else {
            sum = sink == -infinity ? Real(0) : std::exp(sink - maximum);
            if (goesOn) sum += std::exp(priorLse - maximum);
            for (Real &w : weights) sum += w = std::isnan(maximum) ? maximum : std::exp(w - maximum);
            if (std::isnan(maximum)) sum = maximum;
            if (std::isnan(sum)) maximum = sum; // of infinite scores
            lse = maximum + std::log(sum);
        }
        if (goesOn) {
            priorWeight = std::exp(priorLse - lse);
            for (uint32_t d = 0; d < p.valueDim; ++d) out[d] = priorWeight * priorOut[d];
        }
        const DropoutPlane plane{p.dropoutSeed, p.dropoutOffset, b * p.heads + h};
        for (size_t n = 0; n < visible.size(); ++n) {
            weights[n] /= sum;
            // A row that is NaN drops nothing.
            const bool kept = !p.drops() || std::isnan(lse) || plane.keeps(p.dropoutThreshold, i, visible[n]);
            factors.push_back(!p.drops() || std::isnan(lse) ? Real(1)
                              : kept                        ? static_cast<Real>(dropoutFactor(p.dropoutThreshold))
                                                            : Real(0));
            weighings.push_back(static_cast<Real>(pair.weighing(visible[n])));
            if (!kept) continue; // 0 * NaN is NaN
            const Real w = weights[n] * factors[n] * weighings[n];
            const float *v = kv.value(visible[n]);
            for (uint32_t d = 0; d < p.valueDim; ++d) out[d] += w * static_cast<Real>(v[d]);
        }
    }

    // The sum that is stored beside the maximum m: of exp(s - m) over scores that are rounded to f32 as
    // m is, so that the two belong together also where scores are so large that f32 moves them by more
    // than 1. Whoever computes a weight anew subtracts the stored maximum from a score in f32.
    [[nodiscard]] Real sumForStoredMaximum(Real sink) const {
        if (visible.empty() || !std::isfinite(maximum)) return sum;
        const Real top = static_cast<float>(maximum);
        const auto share = [&](Real score) { return std::exp(static_cast<Real>(static_cast<float>(score)) - top); };
        Real stored = std::isinf(sink) ? Real(0) : share(sink);
        for (const Real w : weights) stored += w == 0 ? Real(0) : share(maximum + std::log(w * sum));
        return stored;
    }

    // What the weights output holds for the n-th visible key.
    [[nodiscard]] Real storedWeight(const Problem &p, size_t n) const {
        return !p.weightsDropped ? weights[n] : factors[n] == 0 ? Real(0) : weights[n] * factors[n];
    }

  private:
    void loadPrior(const Problem &p, const Operands &operands, const Sequence &sequence, uint32_t h, uint32_t i) {
        goesOn = false;
        if (!p.goesOn()) return;
        const Tensor &lses = p.tensor(VKATTN_PRIOR_LSE), &outs = p.tensor(VKATTN_PRIOR_OUT);
        const uint64_t token = sequence.query(i);
        priorLse = static_cast<Real>(loadElement(operands.data[VKATTN_PRIOR_LSE], VKATTN_F32, lses.index(sequence.batch, h, token, 0)));
        goesOn = priorLse != -std::numeric_limits<Real>::infinity();
        priorOut.resize(p.valueDim);
        for (uint32_t d = 0; goesOn && d < p.valueDim; ++d)
            priorOut[d] =
                static_cast<Real>(loadElement(operands.data[VKATTN_PRIOR_OUT], outs.dtype, outs.index(sequence.batch, h, token, d)));
    }
    static Real dot(const Real *a, const float *b, uint32_t n) {
        // The sums are independent, so that the loop is not one long chain of dependent additions.
        constexpr uint32_t lanes = 16;
        Real sums[lanes] = {};
        uint32_t d = 0;
        for (; d + lanes <= n; d += lanes)
            for (uint32_t l = 0; l < lanes; ++l) sums[l] += a[d + l] * static_cast<Real>(b[d + l]);
        Real sum = 0;
        for (const Real s : sums) sum += s;
        for (; d < n; ++d) sum += a[d] * static_cast<Real>(b[d]);
        return sum;
    }
};

// The probabilities of a row: in double those of the oracle, in float the plain fp32 emulation, whose
// errors the comparison allows.
template <class Real> struct RowProbabilities {
    Real maximum, sum;
    std::vector<Real> weight; // P_ij of the visible pairs

    // `scoreOf(n)` returns the score of visible pair n.
    template <class ScoreOf> void compute(size_t count, Real sink, const ScoreOf &scoreOf) {
        constexpr Real infinity = std::numeric_limits<Real>::infinity();
        maximum = sink;
        weight.resize(count);
        for (size_t n = 0; n < count; ++n) {
            const Real s = weight[n] = scoreOf(n);
            // A NaN becomes the maximum and stays the maximum.
            if (!std::isnan(maximum) && !(s <= maximum)) maximum = s;
        }
        sum = sink == -infinity ? Real(0) : std::exp(sink - maximum);
        for (Real &w : weight) sum += w = std::exp(w - maximum);
        for (Real &w : weight) w /= sum;
    }
};

// Returns scale * dot(q_i, k_j) after softcap, without the terms that are added: from the oracle's
// product, and in plain fp32.
[[nodiscard]] inline double cappedProduct(const Problem &p, double dot) {
    const double z = static_cast<double>(p.scale) * dot, softcap = static_cast<double>(p.softcap);
    return softcap > 0 ? softcap * std::tanh(z / softcap) : z;
}
[[nodiscard]] inline float emulatedDot(const std::vector<double> &query, const float *k) {
    float dot = 0;
    for (size_t e = 0; e < query.size(); ++e) dot += static_cast<float>(query[e]) * k[e];
    return dot;
}
[[nodiscard]] inline float emulatedProduct(const Problem &p, const std::vector<double> &query, const float *k) {
    const float z = p.scale * emulatedDot(query, k);
    return p.softcap > 0 ? p.softcap * std::tanh(z / p.softcap) : z;
}

// What `scores` holds past a key length.
[[nodiscard]] inline float scoreOfNoKey(const Problem &p) {
    return p.scoresStage == VKATTN_SCORES_FINAL ? -std::numeric_limits<float>::infinity() : 0.0f;
}

template <class Real>
void storeRow(const Problem &p, const Operands &operands, const Sequences &sequences, const Row<Real> &row, uint32_t b, uint32_t h,
              uint32_t i) {
    const Tensor &out = p.tensor(VKATTN_OUT), &lse = p.tensor(VKATTN_LSE), &weights = p.tensor(VKATTN_WEIGHTS);
    const Sequence &s = sequences[b];
    for (uint32_t d = 0; d < p.valueDim; ++d)
        storeElement(operands.data[VKATTN_OUT], out.dtype, out.index(s.batch, h, s.query(i), d), static_cast<float>(row.out[d]));
    if (lse.present()) {
        const auto store = [&](uint32_t n, Real value) {
            storeElement(operands.data[VKATTN_LSE], lse.dtype, lse.index(s.batch, h, s.query(i), n), static_cast<float>(value));
        };
        store(0, p.rowStatistics ? row.maximum : row.lse);
        if (p.rowStatistics) store(1, row.sumForStoredMaximum(static_cast<Real>(operands.sink(p, h))));
    }
    // Weights and scores outside a sequence belong to nobody.
    const uint32_t keys = p.ragged() ? s.keys : p.keyTokens;
    if (const Tensor &scores = p.tensor(VKATTN_SCORES); scores.present())
        for (uint32_t j = 0; j < keys; ++j)
            storeElement(operands.data[VKATTN_SCORES], scores.dtype, scores.index(b, h, i, j),
                         j < row.scores.size() ? static_cast<float>(row.scores[j]) : scoreOfNoKey(p));
    if (weights.present()) { // past a key length the weights are 0
        size_t n = 0;
        for (uint32_t j = 0; j < keys; ++j) {
            const bool visible = n < row.visible.size() && row.visible[n] == j;
            storeElement(operands.data[VKATTN_WEIGHTS], weights.dtype, weights.index(b, h, i, j),
                         visible ? static_cast<float>(row.storedWeight(p, n++)) : 0.0f);
        }
    }
}

} // namespace vkattn
