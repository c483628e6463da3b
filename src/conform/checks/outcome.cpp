#include "conform/checks/outcome.hpp"

#include "conform/cases/features.hpp"

#include <cmath>
#include <iterator>

namespace vkattn::conform {

constexpr const char *names[] = {"pass", "fail", "unsupported", "crash", "hang", "not run"};
static_assert(std::size(names) == std::size(outcomes));

const char *outcomeName(Outcome outcome) {
    return names[static_cast<size_t>(outcome)];
}

std::optional<Outcome> outcomeOf(std::string_view name) {
    for (const Outcome outcome : outcomes)
        if (name == outcomeName(outcome)) return outcome;
    return std::nullopt;
}

namespace {
bool atLeast(double value, double other) {
    return std::isnan(value) || value >= other;
}
} // namespace

void Errors::merge(const Errors &other) {
    for (size_t n = 0; n < VKATTN_VERIFY_BINS; ++n) histogram[n] += other.histogram[n];
    if (atLeast(other.worstRatio, worstRatio)) worstRatio = other.worstRatio, worstError = other.worstError, worstBound = other.worstBound;
    if (atLeast(other.relativeToV, relativeToV)) relativeToV = other.relativeToV;
}

std::span<const char *const> allFeatures() {
    static const std::vector<const char *> list = [] {
        std::vector<const char *> all = {"plain"};
        for (const Feature &feature : features())
            if (feature.name) all.push_back(feature.name);
        all.insert(all.end(), {"hidden NaN", "visible NaN", "same bits", "chunks", "weak limits", "operations", "layers"});
        return all;
    }();
    return list;
}

uint64_t Errors::elements() const {
    uint64_t sum = 0;
    for (const uint64_t count : histogram) sum += count;
    return sum;
}

} // namespace vkattn::conform
