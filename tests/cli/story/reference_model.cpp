#include "story_fixture.hpp"

#include "text/tokenizer.hpp"

#include <cmath>
#include <cstring>

namespace {

using Row = std::vector<double>;

// y = W x, W [out, in] of a layer.
Row multiply(const std::vector<float> &all, uint32_t layer, uint32_t out, const Row &x) {
    Row y(out);
    const float *w = all.data() + size_t{layer} * out * x.size();
    for (double &each : y)
        for (const double number : x) each += static_cast<double>(*w++) * number;
    return y;
}

Row rmsNorm(const Row &x, const std::vector<float> &gamma, uint32_t layer) {
    double squares = 0;
    for (const double each : x) squares += each * each;
    const double scale = 1 / std::sqrt(squares / static_cast<double>(x.size()) + 1e-5);
    Row y = x;
    for (size_t d = 0; d < y.size(); ++d) y[d] *= scale * static_cast<double>(gamma[layer * x.size() + d]);
    return y;
}

void rotate(Row &x, uint32_t headDim, size_t position) {
    for (size_t d = 0; d < x.size(); d += 2) {
        const double angle = static_cast<double>(position) * std::pow(10000, -static_cast<double>(d % headDim) / headDim);
        const double a = x[d], b = x[d + 1];
        x[d] = a * std::cos(angle) - b * std::sin(angle);
        x[d + 1] = a * std::sin(angle) + b * std::cos(angle);
    }
}

void addTo(Row &sum, const Row &x) {
    for (size_t d = 0; d < sum.size(); ++d) sum[d] += x[d];
}

std::vector<double> byHead(const std::vector<Row> &rows, uint32_t headDim) {
    std::vector<double> all;
    for (size_t first = 0; first < rows[0].size(); first += headDim)
        for (const Row &row : rows)
            all.insert(all.end(), row.begin() + static_cast<std::ptrdiff_t>(first),
                       row.begin() + static_cast<std::ptrdiff_t>(first + headDim));
    return all;
}

template <class T> void append(std::string &bytes, const T *data, size_t count) {
    bytes.append(reinterpret_cast<const char *>(data), count * sizeof(T));
}

} // namespace

void ReferenceModel::draw(std::mt19937_64 &random) {
    std::normal_distribution<float> normal;
    const auto fill = [&](std::vector<float> &all, size_t count, double scale, float mean = 0) {
        all.resize(count);
        for (float &each : all) each = mean + static_cast<float>(scale) * normal(random);
    };
    const double small = 1.5 / std::sqrt(dims);
    const size_t square = size_t{layers} * dims * dims, kv = size_t{layers} * kvDims() * dims, wide = size_t{layers} * hidden * dims;
    fill(embedding, size_t{vocabulary} * dims, 1);
    fill(attentionNorm, size_t{layers} * dims, 0.1, 1), fill(feedForwardNorm, size_t{layers} * dims, 0.1, 1), fill(finalNorm, dims, 0.1, 1);
    fill(wq, square, small), fill(wk, kv, small), fill(wv, kv, small), fill(wo, square, small);
    fill(w1, wide, small), fill(w2, wide, small), fill(w3, wide, small);
    classifier = embedding;
    if (!tied) fill(classifier, size_t{vocabulary} * dims, 1);
    // A text that ends by itself would leave tests without the steps that they ask for: the score of the end is near 0, and the
    // largest of the others is above it.
    for (std::vector<float> *each : {&embedding, &classifier})
        for (uint32_t d = 0; d < dims; ++d) (*each)[size_t{::story::beginToken} * dims + d] *= 0.01f;
}

std::string ReferenceModel::bytes() const {
    const int32_t header[] = {static_cast<int32_t>(dims),     static_cast<int32_t>(hidden),
                              static_cast<int32_t>(layers),   static_cast<int32_t>(heads),
                              static_cast<int32_t>(kvHeads),  static_cast<int32_t>(vocabulary) * (tied ? 1 : -1),
                              static_cast<int32_t>(positions)};
    std::string all;
    append(all, header, 7);
    for (const std::vector<float> *each : {&embedding, &attentionNorm, &wq, &wk, &wv, &wo, &feedForwardNorm, &w1, &w2, &w3, &finalNorm})
        append(all, each->data(), each->size());
    const std::vector<float> skipped(size_t{2} * positions * (headDim() / 2), NAN); // nobody reads the tables
    append(all, skipped.data(), skipped.size());
    if (!tied) append(all, classifier.data(), classifier.size());
    return all;
}

ReferenceModel::Pass ReferenceModel::compute(const std::vector<uint32_t> &tokens) const {
    Pass pass;
    std::vector<Row> x;
    for (const uint32_t token : tokens) {
        const float *row = embedding.data() + size_t{token} * dims;
        x.emplace_back(row, row + dims);
    }
    for (uint32_t layer = 0; layer < layers; ++layer) {
        std::vector<Row> q, k, v;
        for (size_t t = 0; t < x.size(); ++t) {
            const Row normed = rmsNorm(x[t], attentionNorm, layer);
            q.push_back(multiply(wq, layer, dims, normed)), k.push_back(multiply(wk, layer, kvDims(), normed));
            v.push_back(multiply(wv, layer, kvDims(), normed));
            rotate(q[t], headDim(), t), rotate(k[t], headDim(), t);
        }
        pass.queries.push_back(byHead(q, headDim())), pass.keys.push_back(byHead(k, headDim()));
        for (size_t t = 0; t < x.size(); ++t) {
            Row attended(dims);
            for (uint32_t h = 0; h < heads; ++h) {
                const uint32_t from = h * headDim(), shared = h / (heads / kvHeads) * headDim();
                Row weights;
                double sum = 0;
                for (size_t j = 0; j <= t; ++j) {
                    double score = 0;
                    for (uint32_t d = 0; d < headDim(); ++d) score += q[t][from + d] * k[j][shared + d];
                    sum += weights.emplace_back(std::exp(score / std::sqrt(headDim())));
                }
                for (size_t j = 0; j <= t; ++j)
                    for (uint32_t d = 0; d < headDim(); ++d) attended[from + d] += weights[j] / sum * v[j][shared + d];
            }
            addTo(x[t], multiply(wo, layer, dims, attended));
            const Row normed = rmsNorm(x[t], feedForwardNorm, layer);
            Row gate = multiply(w1, layer, hidden, normed);
            const Row up = multiply(w3, layer, hidden, normed);
            for (uint32_t d = 0; d < hidden; ++d) gate[d] = gate[d] / (1 + std::exp(-gate[d])) * up[d];
            addTo(x[t], multiply(w2, layer, dims, gate));
        }
    }
    pass.logits = multiply(classifier, 0, vocabulary, rmsNorm(x.back(), finalNorm, 0));
    return pass;
}

std::string tokenizerBytes(uint32_t vocabulary) {
    std::vector<std::pair<float, std::string>> tokens = {{0, "<unk>"}, {0, "\n<s>\n"}, {0, "\n</s>\n"}};
    for (unsigned byte = 0; byte < 256; ++byte) {
        char text[8];
        std::snprintf(text, sizeof text, "<0x%02X>", byte);
        tokens.emplace_back(0.0f, text);
    }
    const std::pair<float, std::string> pieces[] = {{-9, " "}, {-9, "a"}, {-9, "b"}, {-9, "c"}, {-2, "ab"}, {-1, " a"}, {-3, "abc"}};
    // Ids from 259 on: " " a b c, then 263 "ab", 264 " a", 265 "abc".
    tokens.insert(tokens.end(), std::begin(pieces), std::end(pieces));
    while (tokens.size() < vocabulary) tokens.emplace_back(-20.0f, " w" + std::to_string(tokens.size()));
    int32_t longest = 0;
    for (const auto &[score, text] : tokens) longest = std::max(longest, static_cast<int32_t>(text.size()));
    std::string all;
    append(all, &longest, 1);
    for (const auto &[score, text] : tokens) {
        const auto length = static_cast<int32_t>(text.size());
        append(all, &score, 1), append(all, &length, 1);
        all += text;
    }
    return all;
}
