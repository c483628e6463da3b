#include "analysis/measures.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

namespace vkattn::analysis {
namespace {

// A row's part of what needs all pairs. `p` is sorted here.
void addSorted(std::vector<double> &p, const MeasureOptions &options, PairsOfHead &pairs) {
    std::sort(p.begin(), p.end(), std::greater<>());
    double mass = 0, top = 0;
    uint64_t keys = 0;
    // Sums of doubles that should reach the whole may miss it by their rounding.
    const double wanted = options.coveredMass * (1 - 0x1p-40);
    for (size_t n = 0; n < p.size() && (mass < wanted || n < options.topKeys); n++) {
        if (mass < wanted) keys++;
        mass += p[n];
        if (n < options.topKeys) top = mass;
    }
    pairs.topMass.add(top);
    pairs.keysForMass.add(static_cast<double>(keys));
}

double entropyOf(std::span<const double> p) {
    double sum = 0;
    for (const double each : p)
        if (each > 0) sum -= each * std::log(each);
    return sum;
}

void finishMeans(uint64_t rows, double entropySum, const MeasureOptions &options, PairsOfHead &pairs) {
    if (rows == 0) return;
    const auto count = static_cast<double>(rows);
    for (double &mass : pairs.received) mass /= count;
    for (double &mass : pairs.distanceHistogram) mass /= count;
    pairs.density /= count;
    pairs.relativeDensity /= count;
    pairs.mutualInformation = mutualInformation(pairs.received, entropySum / count);
    double beyond = 0;
    size_t r = pairs.distanceHistogram.size();
    for (; r > 1 && beyond + pairs.distanceHistogram[r - 1] <= options.reachMass; r--) beyond += pairs.distanceHistogram[r - 1];
    pairs.reach = r == 0 ? 0 : static_cast<double>(r - 1);
}

} // namespace

void Spread::add(double value) {
    least = count == 0 ? value : std::min(least, value);
    greatest = count == 0 ? value : std::max(greatest, value);
    count++;
    const double delta = value - mean;
    mean += delta / static_cast<double>(count);
    squares_ += delta * (value - mean);
    deviation = std::sqrt(squares_ / static_cast<double>(count));
}

RowsOfHead summarize(std::span<const RowMeasures> rows) {
    RowsOfHead head;
    for (const RowMeasures &row : rows) {
        head.rows++;
        if (row.state == RowState::empty) head.empty++;
        if (row.state == RowState::notFinite) head.notFinite++;
        if (row.state != RowState::ordinary) continue;
        head.sum.add(row.sum);
        head.entropy.add(row.entropy);
        head.largest.add(row.largest);
        head.distance.add(row.distance);
        head.diagonal.add(row.diagonal);
        head.firstToken.add(row.firstToken);
        head.squares.add(row.squares);
        head.visible.add(static_cast<double>(row.visible));
        head.signedDistance.add(row.signedDistance);
        head.distanceDeviation.add(row.distanceDeviation);
        if (row.visible >= 2) head.normalizedEntropy.add(row.entropy / std::log(static_cast<double>(row.visible)));
        head.effectiveRange.add(std::exp(row.entropy));
        head.effectiveKeys.add(1 / row.squares);
        if (row.neighbours > 0) head.locality.add(row.neighbourMass / static_cast<double>(row.neighbours));
    }
    return head;
}

HeadMeasures measureHead(const HeadWeights &head, const MeasureOptions &options) {
    HeadMeasures measures;
    measures.rows.resize(head.queries());
    PairsOfHead &pairs = measures.pairs;
    pairs.received.resize(head.keys());
    std::vector<double> p(head.keys());
    uint64_t ordinary = 0;
    double entropySum = 0;
    for (size_t i = 0; i < head.queries(); i++) {
        const NormalizedRow row = normalize(head, i, p);
        const std::span<const uint8_t> visible = head.visibleOf(i);
        measures.rows[i] = measureRow(row, p, visible, head.position(i));
        if (row.state != RowState::ordinary) continue;
        ordinary++;
        entropySum += measures.rows[i].entropy;
        const auto count = static_cast<double>(row.visible);
        uint64_t dense = 0, relativelyDense = 0;
        for (size_t j = 0; j < p.size(); j++) {
            if (visible[j] == 0) continue;
            const auto distance = static_cast<size_t>(std::abs(static_cast<int64_t>(j) - head.position(i)));
            if (distance >= pairs.distanceHistogram.size()) pairs.distanceHistogram.resize(distance + 1);
            pairs.distanceHistogram[distance] += p[j];
            pairs.received[j] += p[j];
            dense += p[j] > options.density;
            relativelyDense += p[j] > options.relativeDensity / count;
        }
        pairs.density += static_cast<double>(dense) / count;
        pairs.relativeDensity += static_cast<double>(relativelyDense) / count;
        if (options.topKeys > 0 || options.coveredMass > 0) addSorted(p, options, pairs);
    }
    finishMeans(ordinary, entropySum, options, pairs);
    measures.overRows = summarize(measures.rows);
    return measures;
}

double mutualInformation(std::span<const double> received, double meanEntropy) {
    // Rounding may take what is 0 below it.
    return std::max(0.0, entropyOf(received) - meanEntropy);
}

double pointwiseInformation(double p, double received) {
    return p > 0 ? std::log(p / received) : -std::numeric_limits<double>::infinity();
}

} // namespace vkattn::analysis
