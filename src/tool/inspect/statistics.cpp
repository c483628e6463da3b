#include "tool/inspect/statistics.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

namespace vkattn::tool {
namespace {

uint64_t countOf(const std::vector<uint64_t> &shape) {
    return std::accumulate(shape.begin(), shape.end(), uint64_t{1}, std::multiplies<>());
}

// What each head keeps for each of its rows, in the place of the rows.
template <class Number>
std::vector<Number> ofRows(const Inspection &inspection, const HeadSource &source, std::vector<Number> InspectedHead::*numbers,
                           Number none) {
    const size_t count = inspection.measured.topKeys;
    std::vector<Number> values(static_cast<size_t>(countOf(source.facts().rowShape)) * count, none);
    for (const InspectedHead &head : inspection.entries)
        std::copy((head.*numbers).begin(), (head.*numbers).end(),
                  values.begin() + static_cast<ptrdiff_t>(source.firstRow(head.batch, head.head) * count));
    return values;
}

} // namespace

std::vector<float> rowStatistics(const Inspection &inspection, const HeadSource &source) {
    std::vector<float> values(static_cast<size_t>(countOf(source.facts().rowShape)) * statisticsOfRow);
    for (size_t row = 0; row < values.size() / statisticsOfRow; row++) values[row * statisticsOfRow + 2] = -1;
    for (const InspectedHead &head : inspection.entries) {
        float *at = values.data() + source.firstRow(head.batch, head.head) * statisticsOfRow;
        for (const analysis::RowMeasures &row : head.measures.rows) {
            // Of a row that is not finite some sources know what it sees.
            const uint64_t visible = row.state == analysis::RowState::notFinite ? 0 : row.visible;
            const double figures[statisticsOfRow] = {
                row.entropy,    row.largest, static_cast<double>(row.largestKey), row.distance, row.diagonal,
                row.firstToken, row.squares, static_cast<double>(visible)};
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

std::vector<int32_t> largestKeysOfRows(const Inspection &inspection, const HeadSource &source) {
    return ofRows<int32_t>(inspection, source, &InspectedHead::topKeys, -1);
}

std::vector<float> largestWeightsOfRows(const Inspection &inspection, const HeadSource &source) {
    return ofRows<float>(inspection, source, &InspectedHead::topWeights, 0);
}

} // namespace vkattn::tool
