#include "analysis/rows.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace vkattn::analysis {

RowMeasures measureRow(const NormalizedRow &row, std::span<const double> p, std::span<const uint8_t> visible, int64_t position) {
    RowMeasures m{.state = row.state, .sum = row.sum, .visible = row.visible};
    if (row.state != RowState::ordinary) return m;
    for (size_t j = 0; j < p.size(); j++) {
        if (visible[j] == 0) continue;
        const int64_t offset = static_cast<int64_t>(j) - position;
        const auto distance = static_cast<double>(std::abs(offset));
        if (m.largestKey < 0 || p[j] > m.largest) m.largest = p[j], m.largestKey = static_cast<int64_t>(j);
        if (offset == 0) m.diagonal = p[j];
        if (j == 0) m.firstToken = p[j];
        if (distance == 1) m.neighbours++, m.neighbourMass += p[j];
        if (p[j] > 0) m.entropy -= p[j] * std::log(p[j]);
        m.squares += p[j] * p[j];
        m.distance += p[j] * distance;
        m.signedDistance += p[j] * static_cast<double>(offset);
    }
    // -0 of a row that is 1 at one key.
    m.entropy = std::fabs(m.entropy);
    double variance = 0;
    for (size_t j = 0; j < p.size(); j++) {
        const double offset = static_cast<double>(static_cast<int64_t>(j) - position) - m.signedDistance;
        variance += p[j] * offset * offset;
    }
    m.distanceDeviation = std::sqrt(variance);
    return m;
}

void largestKeys(const NormalizedRow &row, std::span<const double> p, std::span<const uint8_t> visible, std::span<int64_t> keys,
                 std::span<double> weights) {
    std::fill(keys.begin(), keys.end(), -1);
    std::fill(weights.begin(), weights.end(), 0.0);
    if (row.state != RowState::ordinary) return;
    size_t found = 0;
    for (size_t j = 0; j < p.size(); j++) {
        if (visible[j] == 0 || (found == keys.size() && !(p[j] > weights[found - 1]))) continue;
        if (found < keys.size()) found++;
        // Keys come in order, so that an equal key stays behind those before.
        size_t place = found - 1;
        for (; place > 0 && p[j] > weights[place - 1]; place--) weights[place] = weights[place - 1], keys[place] = keys[place - 1];
        weights[place] = p[j], keys[place] = static_cast<int64_t>(j);
    }
}

} // namespace vkattn::analysis
