#include "reference.hpp"

#include <algorithm>
#include <cmath>

namespace {

// The element of a 2- to 4-dimensional array at an index of [batch, head, token, dim]; extents of 1
// broadcast where asked.
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

double document(const Array &ids, size_t b, size_t token) {
    return ids.values[(ids.shape.size() > 1 && ids.shape[0] > 1 ? b * ids.shape[1] : 0) + token];
}

// A batch entry, or a ragged sequence: where its tokens lie.
struct Sequence {
    size_t entry;   // of the tensors
    size_t options; // of mask, bias and weights
    size_t firstQuery, queries, firstKey, keys;
};

std::vector<Sequence> sequences(size_t batch, size_t queries, size_t keys, const ReferenceOptions &options) {
    std::vector<Sequence> list;
    for (size_t n = 0; n + 1 < options.cuQ.size(); n++) {
        const auto q = static_cast<size_t>(options.cuQ[n]), k = static_cast<size_t>(options.cuK[n]);
        list.push_back({0, n, q, static_cast<size_t>(options.cuQ[n + 1]) - q, k, static_cast<size_t>(options.cuK[n + 1]) - k});
    }
    if (options.cuQ.empty())
        for (size_t b = 0; b < batch; b++)
            list.push_back({b, b, 0, queries, 0, options.keyLengths.empty() ? keys : static_cast<size_t>(options.keyLengths[b])});
    return list;
}

bool isVisible(const ReferenceOptions &options, const Sequence &s, size_t h, size_t i, size_t j) {
    const auto key = static_cast<long>(j);
    const long position = static_cast<long>(i) + (options.topLeft ? 0 : static_cast<long>(s.keys) - static_cast<long>(s.queries));
    if (options.causal && key > position) return false;
    if (options.window && options.left >= 0 && key < position - options.left) return false;
    if (options.window && options.right >= 0 && key > position + options.right) return false;
    if (options.mask && at(*options.mask, s.options, h, i, j) == 0) return false;
    if (options.bits && (static_cast<uint32_t>(at(*options.bits, s.options, h, i, j / 32)) >> j % 32 & 1) == 0) return false;
    if (options.bias && at(*options.bias, s.options, h, i, j) == -INFINITY) return false;
    if (options.documentsQ &&
        document(*options.documentsQ, s.entry, s.firstQuery + i) != document(*options.documentsK, s.entry, s.firstKey + j))
        return false;
    return true;
}

} // namespace

// Philox4x32-10 of a counter and a key of 32-bit words.
uint64_t randomWord(const ReferenceOptions &options, uint64_t plane, uint64_t i, uint64_t j) {
    constexpr uint64_t low = 0xffffffff;
    uint64_t c[4] = {j / 4, i, plane, options.offset}, k[2] = {options.seed & low, options.seed >> 32};
    for (int round = 0; round < 10; round++) {
        const uint64_t a = 0xd2511f53 * c[0], b = 0xcd9e8d57 * c[2];
        const uint64_t next[4] = {(b >> 32) ^ c[1] ^ k[0], b & low, (a >> 32) ^ c[3] ^ k[1], a & low};
        std::copy_n(next, 4, c);
        k[0] = (k[0] + 0x9e3779b9) & low, k[1] = (k[1] + 0xbb67ae85) & low;
    }
    return c[j % 4];
}

ReferenceResult referenceAttention(const Array &q, const Array &k, const Array &v, const ReferenceOptions &options) {
    const size_t batch = extentOf(q, 0), heads = extentOf(q, 1), queries = extentOf(q, 2), dim = extentOf(q, 3);
    const size_t keys = extentOf(k, 2), valueDim = extentOf(v, 3), group = heads / extentOf(k, 1);
    const double scale = options.scale.value_or(1 / std::sqrt(static_cast<double>(dim)));
    const std::vector<Sequence> list = sequences(batch, queries, keys, options);
    size_t longestQ = queries, longestK = keys;
    if (!options.cuQ.empty()) {
        // At least 1 where there are tokens: a length of 0 would be the total.
        longestQ = std::min<size_t>(queries, 1), longestK = std::min<size_t>(keys, 1);
        for (const Sequence &s : list) longestQ = std::max(longestQ, s.queries), longestK = std::max(longestK, s.keys);
    }
    ReferenceResult result;
    const auto zero = [](Array &array, std::vector<size_t> shape) {
        array.shape = std::move(shape);
        array.values.assign(Array::count(array.shape), 0.0);
    };
    zero(result.out, {batch, heads, queries, valueDim});
    zero(result.lse, {batch, heads, queries});
    zero(result.weights, {list.size(), heads, longestQ, longestK});
    zero(result.scores, result.weights.shape);
    const bool final = options.scoresStage == "final";
    // Past a key length; what is outside a sequence is not written.
    if (final && options.cuQ.empty()) std::fill(result.scores.values.begin(), result.scores.values.end(), -INFINITY);
    for (const Sequence &s : list)
        for (size_t h = 0; h < heads; h++)
            for (size_t i = 0; i < s.queries; i++) {
                const double sink = options.sinks.empty() ? -INFINITY : options.sinks[h];
                const double position =
                    static_cast<double>(i) + (options.topLeft ? 0 : static_cast<double>(s.keys) - static_cast<double>(s.queries));
                std::vector<double> weights(s.keys, 0.0);
                double sum = 0, largest = sink;
                for (const bool exponents : {false, true}) {
                    if (exponents && sink > -INFINITY) sum = std::exp(sink - largest);
                    for (size_t j = 0; j < s.keys; j++) {
                        const bool visible = isVisible(options, s, h, i, j);
                        double &stored = result.scores.values[((s.options * heads + h) * longestQ + i) * longestK + j];
                        const auto reached = [&](const char *stage, double value) {
                            if (options.scoresStage == stage) stored = value;
                        };
                        double score = 0;
                        for (size_t d = 0; d < dim; d++)
                            score += at(q, s.entry, h, s.firstQuery + i, d) * at(k, s.entry, h / group, s.firstKey + j, d);
                        reached("raw", score);
                        score *= scale;
                        reached("scaled", score);
                        if (options.softcap > 0) score = options.softcap * std::tanh(score / options.softcap);
                        reached("capped", score);
                        reached("final", -INFINITY);
                        if (!visible) continue;
                        if (options.bias) score += at(*options.bias, s.options, h, i, j);
                        if (!options.alibi.empty()) score -= options.alibi[h] * std::abs(static_cast<double>(j) - position);
                        reached("final", score);
                        if (exponents)
                            sum += weights[j] = std::exp(score - largest);
                        else
                            largest = std::max(largest, score);
                    }
                }
                const size_t row = (s.entry * heads + h) * queries + s.firstQuery + i;
                result.lse.values[row] = sum > 0 ? largest + std::log(sum) : -INFINITY;
                for (size_t j = 0; j < s.keys; j++) {
                    if (weights[j] == 0) continue;
                    const double before = weights[j] / sum, threshold = std::nearbyint(options.dropout * 0x1p32);
                    const bool kept = static_cast<double>(randomWord(options, s.options * heads + h, i, j)) >= threshold;
                    const double weight = kept ? before * 0x1p32 / (0x1p32 - threshold) : 0;
                    result.weights.values[((s.options * heads + h) * longestQ + i) * longestK + j] =
                        options.weightsDropped ? weight : before;
                    for (size_t d = 0; d < valueDim; d++)
                        result.out.values[row * valueDim + d] += weight * at(v, s.entry, h / group, s.firstKey + j, d);
                }
            }
    return result;
}
