#include "analysis/head.hpp"

#include <algorithm>
#include <cmath>

namespace vkattn::analysis {

HeadWeights fromWeights(Matrix weights) {
    HeadWeights head;
    head.visible.resize(weights.elements.size());
    std::transform(weights.elements.begin(), weights.elements.end(), head.visible.begin(),
                   [](double weight) { return static_cast<uint8_t>(weight > 0 || std::isnan(weight)); });
    head.shift = static_cast<int64_t>(weights.columns) - static_cast<int64_t>(weights.rows);
    head.weights = std::move(weights);
    return head;
}

NormalizedRow normalize(const HeadWeights &head, size_t query, std::span<double> p) {
    const std::span<const double> weights = head.weights.row(query);
    const std::span<const uint8_t> visible = head.visibleOf(query);
    NormalizedRow row;
    double sum = 0;
    for (size_t j = 0; j < weights.size(); j++) {
        p[j] = visible[j] != 0 ? weights[j] : 0;
        row.visible += visible[j] != 0;
        sum += p[j];
    }
    row.sum = head.sums.empty() ? sum : head.sums[query];
    row.state = !std::isfinite(sum) || !std::isfinite(row.sum) ? RowState::notFinite : sum > 0 ? RowState::ordinary : RowState::empty;
    if (row.state == RowState::ordinary)
        for (double &each : p) each /= sum;
    else
        std::fill(p.begin(), p.end(), 0.0);
    return row;
}

Matrix normalized(const HeadWeights &head) {
    Matrix p(head.queries(), head.keys());
    for (size_t i = 0; i < head.queries(); i++) (void)normalize(head, i, p.row(i));
    return p;
}

} // namespace vkattn::analysis
