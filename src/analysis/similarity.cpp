#include "analysis/similarity.hpp"

#include "analysis/spectra/eigen.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace vkattn::analysis {
namespace {

constexpr double undefined = std::numeric_limits<double>::quiet_NaN();

// Calls between(a, b) of each pair of heads, a < b, and of each head with itself.
template <class Between> Matrix symmetric(size_t count, const Between &between) {
    Matrix matrix(count, count);
    for (size_t a = 0; a < count; a++)
        for (size_t b = a; b < count; b++) matrix(a, b) = matrix(b, a) = between(a, b);
    return matrix;
}

double entropyTerm(double p) {
    return p > 0 ? -p * std::log(p) : 0;
}

} // namespace

HeadRows headRows(const HeadWeights &head, size_t stride) {
    HeadRows rows;
    rows.p = Matrix((head.queries() + stride - 1) / stride, head.keys());
    rows.ordinary.resize(rows.p.rows);
    for (size_t n = 0; n < rows.p.rows; n++) rows.ordinary[n] = normalize(head, n * stride, rows.p.row(n)).state == RowState::ordinary;
    return rows;
}

Matrix jensenShannon(std::span<const HeadRows> heads) {
    // The entropy of each row is needed in each comparison.
    std::vector<std::vector<double>> entropies;
    for (const HeadRows &head : heads) {
        std::vector<double> &entropy = entropies.emplace_back(head.p.rows);
        for (size_t i = 0; i < head.p.rows; i++)
            for (const double p : head.p.row(i)) entropy[i] += entropyTerm(p);
    }
    return symmetric(heads.size(), [&](size_t a, size_t b) {
        double sum = 0;
        size_t rows = 0;
        for (size_t i = 0; i < heads[a].p.rows; i++) {
            if (heads[a].ordinary[i] == 0 || heads[b].ordinary[i] == 0) continue;
            rows++;
            if (a == b) continue;
            const std::span<const double> p = heads[a].p.row(i), q = heads[b].p.row(i);
            double between = 0;
            for (size_t j = 0; j < p.size(); j++) between += entropyTerm((p[j] + q[j]) / 2);
            sum += std::max(0.0, between - (entropies[a][i] + entropies[b][i]) / 2);
        }
        return rows == 0 ? undefined : sum / static_cast<double>(rows);
    });
}

Matrix cosine(std::span<const HeadRows> heads) {
    return symmetric(heads.size(), [&](size_t a, size_t b) {
        double dot = 0, squareA = 0, squareB = 0;
        for (size_t i = 0; i < heads[a].p.rows; i++) {
            if (heads[a].ordinary[i] == 0 || heads[b].ordinary[i] == 0) continue;
            const std::span<const double> p = heads[a].p.row(i), q = heads[b].p.row(i);
            for (size_t j = 0; j < p.size(); j++) dot += p[j] * q[j], squareA += p[j] * p[j], squareB += q[j] * q[j];
        }
        return squareA == 0 ? undefined : std::min(1.0, dot / std::sqrt(squareA * squareB));
    });
}

Matrix linearCka(std::span<const Matrix> outputs) {
    std::vector<EigenMatrix> centred;
    for (const Matrix &output : outputs) {
        const auto y = view(output);
        centred.emplace_back(y.rowwise() - y.colwise().mean());
    }
    return symmetric(outputs.size(), [&](size_t a, size_t b) {
        const double own = (centred[a].transpose() * centred[a]).norm() * (centred[b].transpose() * centred[b]).norm();
        return own > 0 ? std::min(1.0, (centred[b].transpose() * centred[a]).squaredNorm() / own) : undefined;
    });
}

} // namespace vkattn::analysis
