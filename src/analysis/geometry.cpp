#include "analysis/geometry.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace vkattn::analysis {
namespace {

double dot(std::span<const double> a, std::span<const double> b) {
    double sum = 0;
    for (size_t d = 0; d < a.size(); d++) sum += a[d] * b[d];
    return sum;
}

double norm(std::span<const double> a) {
    return std::sqrt(dot(a, a));
}

bool hasDirection(double norm) {
    return norm > 0 && std::isfinite(norm);
}

double angleOf(std::span<const double> a, double normA, std::span<const double> b, double normB) {
    double differences = 0, sums = 0;
    for (size_t d = 0; d < a.size(); d++) {
        const double u = a[d] / normA, v = b[d] / normB;
        differences += (u - v) * (u - v);
        sums += (u + v) * (u + v);
    }
    return 2 * std::atan2(std::sqrt(differences), std::sqrt(sums)) * 180 / std::numbers::pi;
}

double cosineOf(std::span<const double> a, double normA, std::span<const double> b, double normB) {
    return std::clamp(dot(a, b) / normA / normB, -1.0, 1.0);
}

std::vector<double> norms(const Matrix &vectors, Spread &spread, uint64_t &zero, uint64_t &notFinite) {
    std::vector<double> found(vectors.rows);
    for (size_t i = 0; i < vectors.rows; i++) {
        found[i] = norm(vectors.row(i));
        if (!std::isfinite(found[i])) {
            notFinite++;
            continue;
        }
        zero += found[i] == 0;
        spread.add(found[i]);
    }
    return found;
}

} // namespace

std::optional<double> angle(std::span<const double> a, std::span<const double> b) {
    const double normA = norm(a), normB = norm(b);
    if (!hasDirection(normA) || !hasDirection(normB)) return {};
    return angleOf(a, normA, b, normB);
}

std::optional<double> cosine(std::span<const double> a, std::span<const double> b) {
    const double normA = norm(a), normB = norm(b);
    if (!hasDirection(normA) || !hasDirection(normB)) return {};
    return cosineOf(a, normA, b, normB);
}

Geometry geometry(const Matrix &q, const Matrix &k, std::span<const uint8_t> visible, size_t queryStride) {
    Geometry g;
    const std::vector<double> normQ = norms(q, g.queryNorm, g.zeroQueries, g.notFiniteQueries);
    const std::vector<double> normK = norms(k, g.keyNorm, g.zeroKeys, g.notFiniteKeys);
    for (size_t i = 0; i < q.rows; i += queryStride) {
        for (size_t j = 0; j < k.rows; j++) {
            if (!visible.empty() && visible[i * k.rows + j] == 0) continue;
            if (!hasDirection(normQ[i]) || !hasDirection(normK[j])) continue;
            const double degrees = angleOf(q.row(i), normQ[i], k.row(j), normK[j]);
            g.angle.add(degrees);
            g.cosine.add(cosineOf(q.row(i), normQ[i], k.row(j), normK[j]));
            g.normProduct.add(normQ[i] * normK[j]);
            g.angleHistogram[std::min(angleBins - 1, static_cast<size_t>(degrees / 180 * angleBins))]++;
        }
    }
    return g;
}

} // namespace vkattn::analysis
