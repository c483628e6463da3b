#include "plain_model.hpp"

#include <algorithm>
#include <cmath>

PlainModel::PlainModel(const PlainSizes &sizes, const std::vector<float> &weights)
    : s_(sizes), weights_(weights.begin(), weights.end()), gradients_(weights.size()), first_(weights.size()), second_(weights.size()) {}

PlainModel::Matrix PlainModel::product(const Matrix &x, const double *w, size_t inner, size_t outer) const {
    Matrix y(s_.rows() * outer);
    for (size_t r = 0; r < s_.rows(); r++)
        for (size_t o = 0; o < outer; o++)
            for (size_t i = 0; i < inner; i++) y[r * outer + o] += x[r * inner + i] * w[o * inner + i];
    return y;
}

PlainModel::Matrix PlainModel::backward(const Matrix &dY, const Matrix &x, const double *w, double *dW, size_t inner, size_t outer) const {
    Matrix dX(s_.rows() * inner);
    for (size_t r = 0; r < s_.rows(); r++)
        for (size_t o = 0; o < outer; o++)
            for (size_t i = 0; i < inner; i++) {
                dW[o * inner + i] += dY[r * outer + o] * x[r * inner + i];
                dX[r * inner + i] += dY[r * outer + o] * w[o * inner + i];
            }
    return dX;
}

void PlainModel::attend(const Matrix &projected, Matrix &attended) {
    const size_t length = s_.positions(), dim = s_.dims / s_.heads, row = 3 * s_.dims;
    probabilities_.assign(s_.sequences * s_.heads * length * length, 0);
    for (size_t b = 0; b < s_.sequences; b++)
        for (size_t h = 0; h < s_.heads; h++)
            for (size_t i = 0; i < length; i++) {
                double *p = &probabilities_[((b * s_.heads + h) * length + i) * length], sum = 0;
                const double *q = &projected[(b * length + i) * row + h * dim];
                for (size_t j = 0; j <= i; j++) {
                    const double *k = &projected[(b * length + j) * row + s_.dims + h * dim];
                    double score = 0;
                    for (size_t d = 0; d < dim; d++) score += q[d] * k[d];
                    sum += p[j] = std::exp(score / std::sqrt(static_cast<double>(dim)));
                }
                for (size_t j = 0; j <= i; j++) {
                    const double *v = &projected[(b * length + j) * row + 2 * s_.dims + h * dim];
                    p[j] /= sum;
                    for (size_t d = 0; d < dim; d++) attended[(b * length + i) * s_.dims + h * dim + d] += p[j] * v[d];
                }
            }
}

PlainModel::Matrix PlainModel::attendBackward(const Matrix &projected, const Matrix &attended, const Matrix &dAttended) const {
    const size_t length = s_.positions(), dim = s_.dims / s_.heads, row = 3 * s_.dims;
    const double scale = 1 / std::sqrt(static_cast<double>(dim));
    Matrix all(projected.size());
    for (size_t b = 0; b < s_.sequences; b++)
        for (size_t h = 0; h < s_.heads; h++)
            for (size_t i = 0; i < length; i++) {
                const double *p = &probabilities_[((b * s_.heads + h) * length + i) * length];
                const size_t at = (b * length + i) * s_.dims + h * dim, queries = (b * length + i) * row + h * dim;
                double mean = 0;
                for (size_t d = 0; d < dim; d++) mean += dAttended[at + d] * attended[at + d];
                for (size_t j = 0; j <= i; j++) {
                    const size_t keys = (b * length + j) * row + s_.dims + h * dim, values = keys + s_.dims;
                    double dP = 0;
                    for (size_t d = 0; d < dim; d++) {
                        dP += dAttended[at + d] * projected[values + d];
                        all[values + d] += p[j] * dAttended[at + d];
                    }
                    const double dScore = p[j] * (dP - mean) * scale;
                    for (size_t d = 0; d < dim; d++) {
                        all[queries + d] += dScore * projected[keys + d];
                        all[keys + d] += dScore * projected[queries + d];
                    }
                }
            }
    return all;
}

double PlainModel::train(const std::vector<uint32_t> &tokens, const std::vector<uint32_t> &targets, double step) {
    const size_t rows = s_.rows(), dims = s_.dims, symbols = s_.symbols;
    const double *const embedding = weights_.data(), *const projection = embedding + dims * s_.columns(),
                        *const out = projection + 3 * dims * dims, *const logitsOf = out + dims * dims,
                        *const bias = logitsOf + symbols * dims;
    std::fill(gradients_.begin(), gradients_.end(), 0.0);
    const auto gradient = [&](const double *of) { return gradients_.data() + (of - weights_.data()); };
    Matrix x(rows * s_.columns());
    for (size_t r = 0; r < rows; r++) x[r * s_.columns() + tokens[r]] = x[r * s_.columns() + symbols + 1 + r % s_.positions()] = 1;
    const Matrix embedded = product(x, embedding, s_.columns(), dims), projected = product(embedded, projection, dims, 3 * dims);
    Matrix attended(rows * dims);
    attend(projected, attended);
    Matrix mixed = product(attended, out, dims, dims);
    for (size_t n = 0; n < mixed.size(); n++) mixed[n] += embedded[n];
    Matrix logits = product(mixed, logitsOf, dims, symbols), dLogits(logits.size());
    const double count = static_cast<double>(s_.sequences * s_.copied);
    double loss = 0;
    for (size_t r = 0; r < rows; r++) {
        if (targets[r] >= symbols) continue;
        double sum = 0;
        for (size_t n = 0; n < symbols; n++) sum += std::exp(logits[r * symbols + n] += bias[n]);
        loss += std::log(sum) - logits[r * symbols + targets[r]];
        for (size_t n = 0; n < symbols; n++) {
            const double each = (std::exp(logits[r * symbols + n]) / sum - (n == targets[r] ? 1 : 0)) / count;
            dLogits[r * symbols + n] = each;
            gradient(bias)[n] += each;
        }
    }
    const Matrix dMixed = backward(dLogits, mixed, logitsOf, gradient(logitsOf), dims, symbols);
    const Matrix dAttended = backward(dMixed, attended, out, gradient(out), dims, dims);
    Matrix dEmbedded = backward(attendBackward(projected, attended, dAttended), embedded, projection, gradient(projection), dims, 3 * dims);
    for (size_t n = 0; n < dEmbedded.size(); n++) dEmbedded[n] += dMixed[n];
    backward(dEmbedded, x, embedding, gradient(embedding), s_.columns(), dims);
    for (size_t n = 0; n < weights_.size(); n++) {
        const double g = gradients_[n];
        first_[n] = 0.9 * first_[n] + 0.1 * g;
        second_[n] = 0.999 * second_[n] + 0.001 * g * g;
        weights_[n] -= 3e-3 * first_[n] / (1 - std::pow(0.9, step)) / (std::sqrt(second_[n] / (1 - std::pow(0.999, step))) + 1e-8);
    }
    return loss / count;
}
