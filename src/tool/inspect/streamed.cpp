#include "tool/inspect/streamed.hpp"

#include <algorithm>
#include <cmath>

namespace vkattn::tool {
using namespace analysis;

RowMeasures rowMeasures(std::span<const float, VKATTN_STATISTIC_COUNT> row, double sum) {
    const auto figure = [&](vkattn_statistic column) { return static_cast<double>(row[column]); };
    RowMeasures m{.sum = sum};
    if (std::isnan(figure(VKATTN_STATISTIC_ENTROPY))) {
        m.state = RowState::notFinite;
        return m;
    }
    m.visible = static_cast<uint64_t>(figure(VKATTN_STATISTIC_VISIBLE));
    if (m.visible == 0) return m;
    m.state = RowState::ordinary;
    m.entropy = figure(VKATTN_STATISTIC_ENTROPY);
    m.largest = figure(VKATTN_STATISTIC_LARGEST);
    m.largestKey = static_cast<int64_t>(figure(VKATTN_STATISTIC_LARGEST_KEY));
    m.distance = figure(VKATTN_STATISTIC_DISTANCE);
    m.diagonal = figure(VKATTN_STATISTIC_DIAGONAL);
    m.firstToken = figure(VKATTN_STATISTIC_FIRST);
    m.squares = figure(VKATTN_STATISTIC_SQUARES);
    // Both neighbours in one, with their mean: more of them is not told, and not asked.
    if (const double locality = figure(VKATTN_STATISTIC_LOCALITY); locality >= 0) m.neighbours = 1, m.neighbourMass = locality;
    m.signedDistance = figure(VKATTN_STATISTIC_SIGNED_DISTANCE);
    // The difference of two moments, which rounding may take below 0.
    m.distanceDeviation = std::sqrt(std::max(0.0, figure(VKATTN_STATISTIC_SQUARED_DISTANCE) - m.signedDistance * m.signedDistance));
    return m;
}

void takeStatistics(const HeadStatistics &statistics, const StatisticsRequest &request, const MeasureOptions &options,
                    HeadMeasures &measures) {
    PairsOfHead &pairs = measures.pairs;
    measures.rows.clear();
    measures.rows.reserve(statistics.queries);
    if (request.density > 0) pairs.density = 0;
    const bool sumsLargest = options.topKeys > 0 && request.topKeys >= options.topKeys;
    if (sumsLargest) pairs.topMass = {};
    double ordinary = 0;
    for (size_t i = 0; i < statistics.queries; i++) {
        const auto row = std::span(statistics.rows).subspan(i * VKATTN_STATISTIC_COUNT).first<VKATTN_STATISTIC_COUNT>();
        measures.rows.push_back(rowMeasures(row, statistics.sums[i]));
        if (measures.rows.back().state != RowState::ordinary) continue;
        ordinary++;
        if (request.density > 0) pairs.density += static_cast<double>(row[VKATTN_STATISTIC_DENSITY]);
        if (!sumsLargest) continue;
        double mass = 0;
        for (size_t n = 0; n < options.topKeys; n++) mass += static_cast<double>(statistics.topWeights[i * request.topKeys + n]);
        pairs.topMass.add(mass);
    }
    if (ordinary > 0) pairs.density /= request.density > 0 ? ordinary : 1;
    measures.overRows = summarize(measures.rows);
    pairs.received.assign(statistics.received.begin(), statistics.received.end());
    pairs.mutualInformation = ordinary > 0 ? mutualInformation(pairs.received, measures.overRows.entropy.mean) : 0;
}

} // namespace vkattn::tool
