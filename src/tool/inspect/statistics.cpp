#include "tool/inspect/statistics.hpp"

#include <functional>
#include <numeric>

namespace vkattn::tool {
namespace {

uint64_t countOf(const std::vector<uint64_t> &shape) {
    return std::accumulate(shape.begin(), shape.end(), uint64_t{1}, std::multiplies<>());
}

} // namespace

std::vector<float> rowStatistics(const Inspection &inspection, const HeadSource &source) {
    std::vector<float> values(static_cast<size_t>(countOf(source.facts().rowShape)) * statisticsOfRow);
    for (size_t row = 0; row < values.size() / statisticsOfRow; row++) values[row * statisticsOfRow + 2] = -1;
    for (const InspectedHead &head : inspection.entries) {
        float *at = values.data() + source.firstRow(head.batch, head.head) * statisticsOfRow;
        for (const analysis::RowMeasures &row : head.measures.rows) {
            const double figures[statisticsOfRow] = {
                row.entropy,    row.largest, static_cast<double>(row.largestKey), row.distance, row.diagonal,
                row.firstToken, row.squares, static_cast<double>(row.visible)};
            for (const double figure : figures) *at++ = static_cast<float>(figure);
        }
    }
    return values;
}

std::vector<float> receivedMass(const Inspection &inspection, const HeadSource &source) {
    std::vector<float> values(static_cast<size_t>(countOf(source.facts().keyShape)));
    for (const InspectedHead &head : inspection.entries) {
        float *at = values.data() + source.firstKey(head.batch, head.head);
        for (const double mass : head.measures.pairs.received) *at++ = static_cast<float>(mass);
    }
    return values;
}

} // namespace vkattn::tool
