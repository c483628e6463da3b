#include "analysis/classes.hpp"

#include <algorithm>
#include <cmath>

namespace vkattn::analysis {

const char *headClassName(HeadClass headClass) {
    switch (headClass) {
    case HeadClass::diagonal:
        return "diagonal";
    case HeadClass::local:
        return "local";
    case HeadClass::global:
        return "global";
    case HeadClass::sparse:
        break;
    }
    return "sparse";
}

ClassFigures classFigures(const RowsOfHead &rows) {
    return {rows.diagonal.mean, rows.locality.mean, rows.normalizedEntropy.mean};
}

HeadClass classify(const ClassFigures &figures, const ClassThresholds &thresholds) {
    if (figures.diagonal > thresholds.diagonal) return HeadClass::diagonal;
    if (figures.locality > thresholds.locality) return HeadClass::local;
    if (figures.normalizedEntropy > thresholds.normalizedEntropy) return HeadClass::global;
    return HeadClass::sparse;
}

void SeedBatch::add(const HeadWeights &head) {
    if (count_ == 0) sum_ = Matrix(head.queries(), head.keys());
    count_++;
    // Weights as attention has them: p of a row that sums to 1.
    std::vector<double> p(head.keys());
    for (size_t i = 0; i < std::min(sum_.rows, head.queries()); i++) {
        const NormalizedRow row = normalize(head, i, p);
        for (size_t j = 0; j < std::min(sum_.columns, head.keys()); j++) sum_(i, j) += p[j] * row.sum;
    }
}

SeedFigures SeedBatch::figures(const ClassThresholds &thresholds) const {
    SeedFigures figures;
    const size_t queries = sum_.rows, keys = sum_.columns;
    if (queries == 0 || keys == 0) return figures;
    Matrix mean = sum_;
    for (double &each : mean.elements) each /= static_cast<double>(count_);
    for (const double weight : mean.elements) {
        figures.entropy -= weight * std::log(weight + 1e-8);
        figures.density += weight > 0.1;
    }
    figures.entropy /= static_cast<double>(queries);
    figures.density /= static_cast<double>(queries * keys);
    // The mean of the diagonal of the pairs (i, i + offset), 0 where it is empty.
    const auto diagonal = [&](size_t down, size_t right) {
        double sum = 0;
        size_t count = 0;
        for (; count + down < queries && count + right < keys; count++) sum += mean(count + down, count + right);
        return count == 0 ? 0 : sum / static_cast<double>(count);
    };
    figures.diagonal = diagonal(0, 0);
    figures.locality = (diagonal(0, 1) + diagonal(1, 0)) / 2;
    const ClassThresholds raw{thresholds.diagonal, thresholds.locality, thresholds.normalizedEntropy * std::log(static_cast<double>(keys))};
    figures.headClass = classify({figures.diagonal, figures.locality, figures.entropy}, raw);
    return figures;
}

} // namespace vkattn::analysis
