#include "analysis/rollout.hpp"

#include "analysis/spectra/eigen.hpp"

namespace vkattn::analysis {

Matrix meanOfHeads(std::span<const HeadWeights> heads) {
    if (heads.empty()) return {};
    Matrix mean(heads[0].queries(), heads[0].keys());
    std::vector<double> p(mean.columns);
    for (size_t i = 0; i < mean.rows; i++) {
        const std::span<double> row = mean.row(i);
        double count = 0;
        for (const HeadWeights &head : heads) {
            if (normalize(head, i, p).state != RowState::ordinary) continue;
            count++;
            for (size_t j = 0; j < p.size(); j++) row[j] += p[j];
        }
        for (double &each : row) each /= count > 0 ? count : 1;
    }
    return mean;
}

Matrix rollout(std::span<const Matrix> layers) {
    if (layers.empty()) return {};
    const auto size = static_cast<Eigen::Index>(layers[0].rows);
    EigenMatrix product = EigenMatrix::Identity(size, size);
    for (const Matrix &layer : layers) {
        EigenMatrix step = (view(layer) + EigenMatrix::Identity(size, size)) / 2;
        for (Eigen::Index i = 0; i < size; i++)
            if (const double sum = step.row(i).sum(); sum > 0) step.row(i) /= sum;
        product = step * product;
    }
    return matrixOf(product);
}

} // namespace vkattn::analysis
