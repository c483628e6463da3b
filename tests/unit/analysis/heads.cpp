#include "heads.hpp"

#include <cmath>
#include <numbers>

namespace vkattn::test {
using namespace analysis;

HeadWeights headOf(size_t queries, size_t keys, const std::function<double(size_t i, size_t j)> &weight) {
    Matrix weights(queries, keys);
    for (size_t i = 0; i < queries; i++)
        for (size_t j = 0; j < keys; j++) weights(i, j) = weight(i, j);
    return fromWeights(std::move(weights));
}

HeadWeights identityHead(size_t n) {
    return headOf(n, n, [](size_t i, size_t j) { return i == j; });
}

HeadWeights uniformHead(size_t n) {
    return headOf(n, n, [n](size_t, size_t) { return 1.0 / static_cast<double>(n); });
}

HeadWeights causalUniformHead(size_t n) {
    return headOf(n, n, [](size_t i, size_t j) { return j <= i ? 1.0 / static_cast<double>(i + 1) : 0; });
}

HeadWeights bandedHead(size_t n) {
    return headOf(n, n, [n](size_t i, size_t j) {
        const size_t keys = 1 + (i > 0) + (i + 1 < n);
        return i <= j + 1 && j <= i + 1 ? 1.0 / static_cast<double>(keys) : 0;
    });
}

HeadWeights oneHotHead(size_t n, size_t key) {
    HeadWeights head = headOf(n, n, [key](size_t, size_t j) { return j == key; });
    head.visible.assign(head.visible.size(), 1);
    return head;
}

HeadWeights blocksHead(size_t n) {
    return headOf(n, n, [n](size_t i, size_t j) { return (2 * i < n) == (2 * j < n) ? 2.0 / static_cast<double>(n) : 0; });
}

double normal(Random &random) {
    return std::normal_distribution<double>()(random);
}

namespace {

HeadWeights softmaxHead(Matrix logits, bool causal) {
    for (size_t i = 0; i < logits.rows; i++)
        for (size_t j = 0; j < logits.columns; j++) logits(i, j) = causal && j > i ? 0 : std::exp(logits(i, j));
    return fromWeights(std::move(logits));
}

} // namespace

HeadWeights logitsHead(Random &random, size_t n, bool causal) {
    Matrix logits(n, n);
    for (double &each : logits.elements) each = normal(random);
    return softmaxHead(std::move(logits), causal);
}

HeadWeights dotsHead(Random &random, size_t n, size_t dim, bool causal) {
    Matrix q(n, dim), k(n, dim), logits(n, n);
    for (double &each : q.elements) each = normal(random);
    for (double &each : k.elements) each = normal(random);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++) {
            for (size_t d = 0; d < dim; d++) logits(i, j) += q(i, d) * k(j, d);
            logits(i, j) /= std::sqrt(static_cast<double>(dim));
        }
    return softmaxHead(std::move(logits), causal);
}

} // namespace vkattn::test
