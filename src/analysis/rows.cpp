#include "analysis/rows.hpp"

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

} // namespace vkattn::analysis
