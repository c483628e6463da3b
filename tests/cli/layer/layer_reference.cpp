#include "layer_reference.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace {

// Of sums in float32, for each term of size 1; of exp, tanh and the sums of a softmax.
constexpr double sumUnit = 0x1p-22, softmaxUnit = 0x1p-19;

double square(double value) {
    return value * value;
}

Measured zeros(const std::vector<size_t> &shape) {
    const size_t count = Array::count(shape);
    return {Array{shape, std::vector<double>(count)}, std::vector<double>(count)};
}

// Adds what rounding to a type adds; float16 has nothing between 0 and 2^-24.
void store(Measured &tensor, double unit) {
    const double smallest = unit == float16Unit ? 0x1p-25 : 0;
    for (size_t n = 0; n < tensor.deviation.size(); ++n)
        tensor.deviation[n] = std::hypot(tensor.deviation[n], std::max(unit * std::abs(tensor.values.values[n]), smallest));
}

Measured exact(const Array &array) {
    return {array, std::vector<double>(array.values.size())};
}

// X W^T + b of rows [batch, token, model].
Measured project(const Measured &x, const Array &w, const std::optional<Array> &bias) {
    const size_t rows = x.values.values.size() / x.values.shape[2], in = w.shape[1], out = w.shape[0];
    Measured y = zeros({x.values.shape[0], x.values.shape[1], out});
    for (size_t row = 0; row < rows; ++row)
        for (size_t o = 0; o < out; ++o) {
            double sum = bias ? bias->values[o] : 0, size = std::abs(sum), variance = 0;
            for (size_t i = 0; i < in; ++i) {
                const double weight = w.values[o * in + i], value = x.values.values[row * in + i];
                sum += weight * value;
                size += std::abs(weight * value);
                variance += square(weight * x.deviation[row * in + i]);
            }
            y.values.values[row * out + o] = sum;
            y.deviation[row * out + o] = std::sqrt(variance) + sumUnit * size;
        }
    return y;
}

void add(Measured &to, const Array &x) {
    for (size_t n = 0; n < x.values.size(); ++n) {
        to.values.values[n] += x.values[n];
        to.deviation[n] += sumUnit * std::abs(x.values[n]);
    }
}

Measured normalise(const Measured &x, const LayerReference &layer) {
    const size_t dims = x.values.shape[2], rows = x.values.values.size() / dims;
    Measured y = zeros(x.values.shape);
    for (size_t row = 0; row < rows; ++row) {
        const double *values = x.values.values.data() + row * dims, *deviation = x.deviation.data() + row * dims;
        double mean = 0, variance = 0, size = 0, error = 0;
        for (size_t i = 0; i < dims; ++i) mean += values[i] / static_cast<double>(dims);
        for (size_t i = 0; i < dims; ++i) {
            variance += square(values[i] - mean) / static_cast<double>(dims);
            size = std::max(size, std::abs(values[i]));
            error += deviation[i] / static_cast<double>(dims);
        }
        const double inverse = 1 / std::sqrt(variance + layer.epsilon);
        for (size_t i = 0; i < dims; ++i) {
            const double normed = (values[i] - mean) * inverse, gamma = layer.parameters.gamma->values[i];
            y.values.values[row * dims + i] = normed * gamma + layer.parameters.beta->values[i];
            y.deviation[row * dims + i] = std::abs(gamma) * inverse * (deviation[i] + error * (1 + std::abs(normed)) + sumUnit * size) +
                                          sumUnit * (std::abs(gamma * normed) + std::abs(layer.parameters.beta->values[i]));
        }
    }
    return y;
}

// Rows [batch, token, heads * dim] as [batch, head, token, dim].
Measured split(const Measured &rows, size_t heads) {
    const size_t batch = rows.values.shape[0], tokens = rows.values.shape[1], dim = rows.values.shape[2] / heads;
    Measured tensor = zeros({batch, heads, tokens, dim});
    size_t at = 0;
    for (size_t b = 0; b < batch; ++b)
        for (size_t h = 0; h < heads; ++h)
            for (size_t t = 0; t < tokens; ++t)
                for (size_t d = 0; d < dim; ++d, ++at) {
                    const size_t from = ((b * tokens + t) * heads + h) * dim + d;
                    tensor.values.values[at] = rows.values.values[from], tensor.deviation[at] = rows.deviation[from];
                }
    return tensor;
}

// Turns the first dims of each token of [batch, head, token, dim] by its position.
void turn(Measured &tensor, const RotaryReference &rotary) {
    const size_t tokens = tensor.values.shape[2], dim = tensor.values.shape[3], rows = tensor.deviation.size() / dim,
                 pairs = rotary.dims / 2;
    for (size_t row = 0; row < rows; ++row)
        for (size_t i = 0; i < pairs; ++i) {
            const size_t first = row * dim + (rotary.interleaved ? 2 * i : i), second = first + (rotary.interleaved ? 1 : pairs);
            const double angle = static_cast<double>(rotary.start + row % tokens) *
                                 std::pow(rotary.base, -2 * static_cast<double>(i) / static_cast<double>(rotary.dims)),
                         c = std::cos(angle), s = std::sin(angle);
            double &x = tensor.values.values[first], &y = tensor.values.values[second];
            const double size = std::abs(x) + std::abs(y),
                         error = std::hypot(tensor.deviation[first], tensor.deviation[second], sumUnit * size);
            std::tie(x, y) = std::pair(x * c - y * s, x * s + y * c);
            tensor.deviation[first] = tensor.deviation[second] = error;
        }
}

// The inverse.
Measured join(const Measured &tensor) {
    const std::vector<size_t> &shape = tensor.values.shape;
    const size_t heads = shape[1], tokens = shape[2], dim = shape[3];
    Measured rows = zeros({shape[0], tokens, heads * dim});
    size_t from = 0;
    for (size_t b = 0; b < shape[0]; ++b)
        for (size_t h = 0; h < heads; ++h)
            for (size_t t = 0; t < tokens; ++t)
                for (size_t d = 0; d < dim; ++d, ++from) {
                    const size_t at = ((b * tokens + t) * heads + h) * dim + d;
                    rows.values.values[at] = tensor.values.values[from], rows.deviation[at] = tensor.deviation[from];
                }
    return rows;
}

// The deviation of a score from those of the query and the key.
double scoreDeviation(const Measured &q, const Measured &k, size_t query, size_t key, size_t dim, double scale) {
    double variance = 0, size = 1;
    for (size_t d = 0; d < dim; ++d) {
        const size_t i = query * dim + d, j = key * dim + d;
        variance += square(q.deviation[i] * k.values.values[j]) + square(q.values.values[i] * k.deviation[j]);
        size += std::abs(q.values.values[i] * k.values.values[j]);
    }
    return std::sqrt(variance) * std::abs(scale) + softmaxUnit * (1 + size * std::abs(scale));
}

// Attention, and how far its results follow the errors of q, k and v. A ragged batch has the
// weights [sequence, head, query, key], of which the deviations are those of scores of size 1.
void attend(const Measured &q, const Measured &k, const Measured &v, const ReferenceOptions &options, Measured &a, LayerExpectation &out) {
    const ReferenceResult result = referenceAttention(q.values, k.values, v.values, options);
    const std::vector<size_t> &shape = q.values.shape;
    const size_t heads = shape[1], tokens = shape[2], dim = shape[3], keys = k.values.shape[2], valueDim = v.values.shape[3];
    const size_t group = heads / k.values.shape[1];
    const double scale = options.scale.value_or(1 / std::sqrt(static_cast<double>(dim)));
    a = exact(result.out), out.lse = exact(result.lse), out.weights = exact(result.weights);
    for (size_t b = 0; b < shape[0]; ++b)
        for (size_t h = 0; h < heads; ++h)
            for (size_t t = 0; t < tokens; ++t) {
                const size_t row = (b * heads + h) * tokens + t, keyRow = (b * k.values.shape[1] + h / group) * keys;
                double spread = 0;
                std::vector<double> variance(valueDim);
                for (size_t j = 0; j < keys; ++j) {
                    const double weight = result.weights.values[row * keys + j];
                    if (weight == 0) continue;
                    const double deviation = scoreDeviation(q, k, row, keyRow + j, dim, scale);
                    spread += square(weight * deviation);
                    out.weights.deviation[row * keys + j] = weight * deviation;
                    for (size_t d = 0; d < valueDim; ++d) {
                        const size_t value = (keyRow + j) * valueDim + d;
                        variance[d] += square(weight * deviation * (v.values.values[value] - result.out.values[row * valueDim + d])) +
                                       square(weight * v.deviation[value]) + square(weight * softmaxUnit * v.values.values[value]);
                    }
                }
                for (size_t d = 0; d < valueDim; ++d) a.deviation[row * valueDim + d] = std::sqrt(variance[d]);
                out.lse.deviation[row] = std::sqrt(spread) + softmaxUnit;
                for (size_t j = 0; j < keys; ++j) {
                    double &deviation = out.weights.deviation[row * keys + j];
                    deviation = std::hypot(deviation, result.weights.values[row * keys + j] * std::sqrt(spread)) + 0x1p-30;
                }
            }
}

// Each batch entry is a plane.
void drop(Measured &y, double probability, ReferenceOptions options) {
    options.offset ^= 0x80000000u;
    const double threshold = std::nearbyint(probability * 0x1p32), factor = 0x1p32 / (0x1p32 - threshold);
    const size_t tokens = y.values.shape[1], dims = y.values.shape[2];
    for (size_t n = 0; n < y.values.values.size(); ++n) {
        const uint64_t word = randomWord(options, n / dims / tokens, n / dims % tokens, n % dims);
        const bool kept = static_cast<double>(word) >= threshold;
        y.values.values[n] = kept ? factor * y.values.values[n] : 0;
        y.deviation[n] = kept ? factor * y.deviation[n] + sumUnit * std::abs(y.values.values[n]) : 0;
    }
}

} // namespace

LayerExpectation referenceLayer(const LayerReference &layer) {
    const LayerParameters &p = layer.parameters;
    Measured in = exact(layer.x);
    if (layer.norm == NormPlace::pre) store(in = normalise(in, layer), layer.storedUnit);
    const Measured from = layer.context ? exact(*layer.context) : in;
    Measured q = project(in, p.wq, p.bq), k = project(from, p.wk, p.bk), v = project(from, p.wv, p.bv);
    for (Measured *each : {&q, &k, &v}) store(*each, layer.storedUnit);
    q = split(q, layer.heads), k = split(k, layer.kvHeads);
    for (Measured *each : {&q, &k}) {
        if (!layer.rotary) break;
        turn(*each, *layer.rotary);
        store(*each, layer.storedUnit);
    }
    LayerExpectation expected;
    Measured a;
    attend(q, k, split(v, layer.kvHeads), layer.attention, a, expected);
    store(a, layer.storedUnit);
    Measured y = project(join(a), p.wo, p.bo);
    if (layer.norm == NormPlace::post || layer.outputDropout > 0) store(y, layer.storedUnit);
    if (layer.outputDropout > 0) {
        drop(y, layer.outputDropout, layer.attention);
        if (layer.norm == NormPlace::post) store(y, layer.storedUnit);
    }
    if (layer.residual) add(y, layer.x);
    expected.out = layer.norm == NormPlace::post ? normalise(y, layer) : std::move(y);
    store(expected.out, layer.outUnit);
    return expected;
}
