#include "core/plan/work.hpp"

#include <algorithm>

namespace vkattn {
namespace {

// Sum over i in [0, n) of i + c clamped to [0, most].
double clampedSum(double n, double c, double most) {
    const double zeros = std::clamp(-c, 0.0, n), full = std::clamp(n - std::max(most - c, 0.0), 0.0, n - zeros);
    const double first = zeros, last = n - full; // rows that are neither
    return (last - first) * (c + (first + last - 1) / 2) + full * most;
}

} // namespace

double visiblePairs(const Problem &p, uint32_t rows, uint32_t keys) {
    // Where queries stand is data on the device: each row counts as one that sees all that a row may.
    if (p.hasUnknownOffsets()) return static_cast<double>(rows) * (keys ? reach(p, keys) : 0);
    const double shift = p.hasOffsets() ? static_cast<double>(shiftOf(p.queryOffset, p.keyOffset, 0, 0))
                         : p.topLeft    ? 0
                                        : static_cast<double>(p.keyTokens) - p.queryTokens;
    return clampedSum(rows, shift + p.right + 1, keys) - clampedSum(rows, shift - p.left, keys);
}

double visiblePairs(const Problem &p) {
    return p.batch * static_cast<double>(p.heads) * visiblePairs(p, p.queryTokens, p.keyTokens);
}

double visibleFlops(const Problem &p) {
    const double pairs = static_cast<double>(p.batch) * p.heads * p.queryTokens * p.keyTokens;
    return pairs > 0 ? p.flops() * (visiblePairs(p) / pairs) : 0;
}

uint32_t reach(const Problem &p, uint32_t keys) {
    if (p.left == openWindow || p.right == openWindow) return std::max(keys, 1u);
    return static_cast<uint32_t>(std::clamp<int64_t>(int64_t{p.left} + p.right + 1, 1, std::max(keys, 1u)));
}

bool rowsDiffer(const Problem &p) {
    return p.ragged() || (p.left == openWindow) != (p.right == openWindow);
}

} // namespace vkattn
