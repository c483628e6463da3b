// The statistics of one row in double precision: the formulas of vkattn/statistics.h in their order, over
// the list of the pairs that the row sees. cpu/oracle/pair.hpp has the rule for one pair.
#pragma once

#include "cpu/oracle/row.hpp"
#include "problem/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace vkattn {

// What a word of topKeys holds where there is no key.
inline constexpr uint32_t noKey = 0xffffffff;

// A visible pair of a row and key j.
struct StatisticsPair {
    uint32_t j;
    double dot, score, added; // dot(q_i, k_j), s_ij, and the size of the terms that were added to it
    double weight;            // p_ij
    double distance;          // j - i'
};

class StatisticsRow {
  public:
    std::vector<StatisticsPair> pairs; // the visible pairs by key, ascending
    std::vector<double> query;
    std::vector<size_t> ranked;                  // the pairs above -infinity, by score and then by key
    double columns[VKATTN_STATISTIC_COUNT] = {}; // what `statistics` holds
    double maximum = 0;                          // the largest score
    size_t largest = 0;                          // the pair of the largest score and the lowest key
    uint32_t neighbours = 0;                     // of i', as far as the row sees them

    [[nodiscard]] bool seen() const { return !pairs.empty(); }
    // Returns whether the row sees a score of NaN or +infinity, or nothing but -infinity.
    [[nodiscard]] bool undefined() const { return seen() && !std::isfinite(maximum); }
    // Returns the pair of key j; NULL where the row does not see it.
    [[nodiscard]] const StatisticsPair *find(int64_t j) const {
        const auto at =
            std::lower_bound(pairs.begin(), pairs.end(), j, [](const StatisticsPair &pair, int64_t key) { return pair.j < key; });
        return at != pairs.end() && at->j == j ? &*at : nullptr;
    }
    [[nodiscard]] int64_t position() const { return position_; } // i'
    // Returns ln p_ij, also where p_ij has underflowed. For a row that is defined.
    [[nodiscard]] double logOfWeight(const StatisticsPair &pair) const {
        return pair.score - probabilities_.maximum - std::log(probabilities_.sum);
    }

    void compute(const Statistics &statistics, const Operands &operands, const Sequence &s, const HeadKeysValues &kv, uint32_t b,
                 uint32_t h, uint32_t i) {
        findPairs(statistics.attention, operands, s, kv, b, h, i);
        maximum = 0;
        largest = 0;
        ranked.clear();
        std::fill(std::begin(columns), std::end(columns), 0.0);
        neighbours = (find(position_ - 1) ? 1 : 0) + (find(position_ + 1) ? 1 : 0);
        if (!seen()) {
            columns[VKATTN_STATISTIC_LARGEST_KEY] = columns[VKATTN_STATISTIC_LOCALITY] = -1;
            return;
        }
        weigh();
        if (undefined())
            std::fill(std::begin(columns), std::end(columns), std::numeric_limits<double>::quiet_NaN());
        else
            computeColumns(static_cast<double>(statistics.densityThreshold));
    }

  private:
    void findPairs(const Problem &p, const Operands &operands, const Sequence &s, const HeadKeysValues &kv, uint32_t b, uint32_t h,
                   uint32_t i) {
        const OraclePair rule(p, operands, s, b, h, i);
        const Tensor &q = p.tensor(VKATTN_Q);
        position_ = rule.position();
        query.resize(p.headDim);
        for (uint32_t e = 0; e < p.headDim; ++e)
            query[e] = static_cast<double>(loadElement(operands.data[VKATTN_Q], q.dtype, q.index(s.batch, h, s.query(i), e)));
        pairs.clear();
        for (uint32_t j = 0; j < s.keys; ++j) {
            if (!rule.visible(j)) continue;
            StatisticsPair pair{};
            pair.j = j;
            for (uint32_t e = 0; e < p.headDim; ++e) pair.dot += query[e] * static_cast<double>(kv.key(j)[e]);
            pair.score = rule.score(j, pair.dot, pair.added);
            pair.distance = static_cast<double>(int64_t{j} - position_);
            pairs.push_back(pair);
        }
    }

    void weigh() {
        constexpr double infinity = std::numeric_limits<double>::infinity();
        probabilities_.compute(pairs.size(), -infinity, [&](size_t n) { return pairs[n].score; });
        maximum = probabilities_.maximum;
        for (size_t n = 0; n < pairs.size(); ++n) pairs[n].weight = probabilities_.weight[n];
        if (undefined()) return;
        for (size_t n = 0; n < pairs.size(); ++n)
            if (pairs[n].score != -infinity) ranked.push_back(n);
        std::stable_sort(ranked.begin(), ranked.end(), [&](size_t a, size_t b) { return pairs[a].score > pairs[b].score; });
        largest = ranked[0];
    }

    void computeColumns(double threshold) {
        const auto weightAt = [&](int64_t j) {
            const StatisticsPair *const pair = find(j);
            return pair ? pair->weight : 0;
        };
        double dense = 0;
        for (const StatisticsPair &pair : pairs) {
            const double w = pair.weight, distance = pair.distance;
            if (w > 0) columns[VKATTN_STATISTIC_ENTROPY] -= w * std::log(w);
            columns[VKATTN_STATISTIC_DISTANCE] += w * std::abs(distance);
            columns[VKATTN_STATISTIC_SQUARES] += w * w;
            columns[VKATTN_STATISTIC_SIGNED_DISTANCE] += w * distance;
            columns[VKATTN_STATISTIC_SQUARED_DISTANCE] += w * distance * distance;
            if (w > threshold) ++dense;
        }
        const auto visible = static_cast<double>(pairs.size());
        columns[VKATTN_STATISTIC_LARGEST] = pairs[largest].weight;
        columns[VKATTN_STATISTIC_LARGEST_KEY] = pairs[largest].j;
        columns[VKATTN_STATISTIC_DIAGONAL] = weightAt(position_);
        columns[VKATTN_STATISTIC_FIRST] = weightAt(0);
        columns[VKATTN_STATISTIC_VISIBLE] = visible;
        columns[VKATTN_STATISTIC_LOCALITY] = neighbours ? (weightAt(position_ - 1) + weightAt(position_ + 1)) / neighbours : -1;
        columns[VKATTN_STATISTIC_DENSITY] = threshold > 0 ? dense / visible : 0;
    }

    RowProbabilities<double> probabilities_;
    int64_t position_ = 0;
};

} // namespace vkattn
