#include "reference.hpp"

#include <cmath>

namespace {

// The element of a 2- to 4-dimensional array at an index of [batch, head, token, dim]; extents of 1 broadcast where asked.
double at(const Array &array, size_t b, size_t h, size_t t, size_t d) {
    const size_t index[4] = {b, h, t, d};
    size_t flat = 0;
    for (size_t i = 0; i < array.shape.size(); i++) {
        const size_t extent = array.shape[i];
        flat = flat * extent + (extent == 1 ? 0 : index[4 - array.shape.size() + i]);
    }
    return array.values[flat];
}

size_t extentOf(const Array &array, size_t dimension) {
    const size_t missing = 4 - array.shape.size();
    return dimension < missing ? 1 : array.shape[dimension - missing];
}

} // namespace

ReferenceResult referenceAttention(const Array &q, const Array &k, const Array &v, const ReferenceOptions &options) {
    const size_t batch = extentOf(q, 0), heads = extentOf(q, 1), queries = extentOf(q, 2), dim = extentOf(q, 3);
    const size_t keys = extentOf(k, 2), valueDim = extentOf(v, 3), group = heads / extentOf(k, 1);
    const double scale = options.scale.value_or(1 / std::sqrt(static_cast<double>(dim)));
    ReferenceResult result;
    result.out.shape = {batch, heads, queries, valueDim};
    result.lse.shape = {batch, heads, queries};
    result.weights.shape = {batch, heads, queries, keys};
    for (size_t b = 0; b < batch; b++)
        for (size_t h = 0; h < heads; h++)
            for (size_t i = 0; i < queries; i++) {
                const long length = options.keyLengths.empty() ? static_cast<long>(keys) : options.keyLengths[b];
                const long position = static_cast<long>(i) + (options.topLeft ? 0 : length - static_cast<long>(queries));
                std::vector<double> weights(keys, 0.0);
                double sum = 0, largest = -INFINITY;
                for (const bool exponents : {false, true})
                    for (size_t j = 0; j < keys; j++) {
                        const auto key = static_cast<long>(j);
                        const double bias = options.bias ? at(*options.bias, b, h, i, j) : 0;
                        if (key >= length || (options.causal && key > position) || bias == -INFINITY) continue;
                        if (options.window && options.left >= 0 && key < position - options.left) continue;
                        if (options.window && options.right >= 0 && key > position + options.right) continue;
                        if (options.mask && at(*options.mask, b, h, i, j) == 0) continue;
                        double score = 0;
                        for (size_t d = 0; d < dim; d++) score += at(q, b, h, i, d) * at(k, b, h / group, j, d);
                        score *= scale;
                        if (options.softcap > 0) score = options.softcap * std::tanh(score / options.softcap);
                        score += bias;
                        if (exponents)
                            sum += weights[j] = std::exp(score - largest);
                        else
                            largest = std::max(largest, score);
                    }
                for (double &weight : weights) weight = sum > 0 ? weight / sum : 0;
                for (size_t d = 0; d < valueDim; d++) {
                    double value = 0;
                    for (size_t j = 0; j < keys; j++)
                        if (weights[j] != 0) value += weights[j] * at(v, b, h / group, j, d);
                    result.out.values.push_back(value);
                }
                result.lse.values.push_back(sum > 0 ? largest + std::log(sum) : -INFINITY);
                result.weights.values.insert(result.weights.values.end(), weights.begin(), weights.end());
            }
    return result;
}
