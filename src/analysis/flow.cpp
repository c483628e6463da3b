#include "analysis/flow.hpp"

#include <algorithm>
#include <cstdlib>

namespace vkattn::analysis {

bool FlowMask::shows(int64_t position, int64_t key) const {
    const auto distance = static_cast<uint64_t>(std::abs(key - position));
    switch (kind) {
    case Kind::none:
        break;
    case Kind::causal:
        return key <= position;
    case Kind::band:
        return distance <= width;
    case Kind::dilated:
        return distance <= width && distance % step == 0;
    }
    return true;
}

std::string FlowMask::name() const {
    switch (kind) {
    case Kind::none:
        break;
    case Kind::causal:
        return "causal";
    case Kind::band:
        return "band " + std::to_string(width);
    case Kind::dilated:
        return "dilated " + std::to_string(width) + " by " + std::to_string(step);
    }
    return "none";
}

HeadWeights masked(HeadWeights head, const FlowMask &mask) {
    for (size_t i = 0; i < head.queries(); i++)
        for (size_t j = 0; j < head.keys(); j++)
            if (!mask.shows(head.position(i), static_cast<int64_t>(j))) head.visible[i * head.keys() + j] = 0;
    return head;
}

double keptMass(const HeadWeights &head, const FlowMask &mask) {
    std::vector<double> p(head.keys());
    double sum = 0;
    uint64_t rows = 0;
    for (size_t i = 0; i < head.queries(); i++) {
        if (normalize(head, i, p).state != RowState::ordinary) continue;
        rows++;
        for (size_t j = 0; j < p.size(); j++)
            if (mask.shows(head.position(i), static_cast<int64_t>(j))) sum += p[j];
    }
    return rows == 0 ? 0 : sum / static_cast<double>(rows);
}

} // namespace vkattn::analysis
