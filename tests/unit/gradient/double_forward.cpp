#include "double_forward.hpp"

#include "cpu/pool.hpp"
#include "problem/dropout.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>

namespace vkattn::test {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

std::vector<double> elementsOf(const HostTensor &t) {
    std::vector<double> all;
    const uint32_t *e = t.layout.extent;
    for (uint32_t b = 0; b < e[0]; ++b)
        for (uint32_t h = 0; h < e[1]; ++h)
            for (uint32_t i = 0; i < e[2]; ++i)
                for (uint32_t d = 0; d < e[3]; ++d) all.push_back(static_cast<double>(t.get(b, h, i, d)));
    return all;
}
size_t placeOf(const HostTensor &t, uint32_t b, uint32_t h, uint32_t i, uint32_t d) {
    const uint32_t *e = t.layout.extent, at[4] = {b, h, i, d};
    size_t place = 0;
    for (int n = 0; n < 4; ++n) place = place * e[n] + (e[n] == 1 ? 0 : at[n]);
    return place;
}

} // namespace

DoubleForward::DoubleForward(GradientCase &g) : g_(g), data_(*g.data) {
    inputs.q = elementsOf(data_.q), inputs.k = elementsOf(data_.k), inputs.v = elementsOf(data_.v);
    if (data_.c.biasBroadcast) inputs.bias = elementsOf(data_.bias);
    if (data_.c.sinks) inputs.sinks.assign(data_.sinks.begin(), data_.sinks.end());
    if (data_.c.alibi) inputs.slopes.assign(data_.slopes.begin(), data_.slopes.end());
    inputs.scale = static_cast<double>(data_.c.scale.value_or(1.0f / std::sqrt(static_cast<float>(data_.c.headDim))));
    inputs.softcap = static_cast<double>(data_.c.softcap);
    for (uint32_t b = 0; b < data_.c.batch; ++b)
        for (uint32_t h = 0; h < data_.c.heads; ++h)
            for (uint32_t i = 0; i < data_.spans[b].queries; ++i) {
                Row row{b, h, i, {}};
                const std::vector<unsigned char> visible = data_.visibleKeys(b, h, i);
                for (uint32_t j = 0; j < data_.spans[b].keys; ++j)
                    if (visible[j]) row.keys.push_back(j);
                rows_.push_back(std::move(row));
            }
}

DoubleForward::Result DoubleForward::compute(const Inputs &in, const Row &row) const {
    const Case &c = data_.c;
    const Span &s = data_.spans[row.b];
    const uint32_t kvHead = row.h / (c.heads / c.kvHeads);
    const double sink = c.sinks ? in.sinks[row.h] : -infinite;
    Result r{sink, 0, {}, {}, std::vector<double>(c.valueDim)};
    const double *q = in.q.data() + placeOf(data_.q, s.batch, row.h, s.firstQuery + row.i, 0);
    for (const uint32_t j : row.keys) {
        const double *k = in.k.data() + placeOf(data_.k, s.batch, kvHead, s.firstKey + j, 0);
        double score = 0;
        for (uint32_t d = 0; d < c.headDim; ++d) score += q[d] * k[d];
        score *= in.scale;
        if (c.softcap > 0) score = in.softcap * std::tanh(score / in.softcap);
        if (c.biasBroadcast) score += in.bias[placeOf(data_.bias, row.b, row.h, row.i, j)];
        if (c.alibi) score -= in.slopes[row.h] * static_cast<double>(std::abs(int64_t{j} - data_.position(row.b, row.i)));
        if (changeScores(c.hooks)) { // hooks.glsl
            const uint32_t place = (j * 5 + row.i * 3 + row.h) % 61;
            const auto far = static_cast<double>(std::abs(int64_t{j} - data_.position(row.b, row.i)) % 17);
            score += static_cast<double>(std::bit_cast<float>(data_.hookNumbers[std::min<size_t>(place, data_.hookNumbers.size() - 1)])) -
                     0.25 * std::clamp(score, -8.0, 8.0) - 0.03125 * far + 0.125 * (row.b % 2);
        }
        r.weights.push_back(score);
        r.maximum = std::max(r.maximum, score);
    }
    r.sum = sink == -infinite ? 0 : std::exp(sink - r.maximum);
    for (double &w : r.weights) r.sum += w = std::exp(w - r.maximum);
    const vkattn_problem &p = data_.problem;
    const uint64_t threshold = dropoutThreshold(p.dropout);
    const DropoutPlane plane{p.dropoutSeed, p.dropoutOffset, row.b * c.heads + row.h};
    for (size_t n = 0; n < row.keys.size(); ++n) {
        r.weights[n] /= r.sum;
        r.kept.push_back(threshold == 0 ? 1 : plane.keeps(threshold, row.i, row.keys[n]) ? dropoutFactor(threshold) : 0);
        const double *v = in.v.data() + placeOf(data_.v, s.batch, kvHead, s.firstKey + row.keys[n], 0);
        const double weighing =
            weighProbabilities(c.hooks) ? 0.25 * ((row.keys[n] * 3 + row.i * 5 + row.h + row.b) % 7) - 0.375 : 1; // hooks.glsl
        for (uint32_t d = 0; r.kept[n] != 0 && d < c.valueDim; ++d) r.out[d] += weighing * r.kept[n] * r.weights[n] * v[d];
    }
    return r;
}

double DoubleForward::loss(const Inputs &in) const {
    double sum = 0;
    for (const Row &row : rows_) {
        const Result r = compute(in, row);
        const Span &s = data_.spans[row.b];
        const uint32_t token = s.firstQuery + row.i;
        for (uint32_t d = 0; !row.keys.empty() && d < data_.c.valueDim; ++d)
            sum += r.out[d] * static_cast<double>(g_.tensors.at(VKATTN_D_OUT).get(s.batch, row.h, token, d));
        if (g_.has(VKATTN_D_LSE) && r.sum > 0)
            sum += (r.maximum + std::log(r.sum)) * static_cast<double>(g_.tensors.at(VKATTN_D_LSE).get(s.batch, row.h, token, 0));
        for (size_t n = 0; g_.has(VKATTN_D_WEIGHTS) && n < row.keys.size(); ++n)
            sum += r.weights[n] * (data_.problem.flags & VKATTN_WEIGHTS_DROPPED ? r.kept[n] : 1) *
                   static_cast<double>(g_.tensors.at(VKATTN_D_WEIGHTS).get(row.b, row.h, row.i, row.keys[n]));
    }
    return sum;
}

void DoubleForward::store() {
    CaseData &data = *g_.data;
    for (const Row &row : rows_) {
        const Result r = compute(inputs, row);
        const Span &s = data.spans[row.b];
        const uint32_t token = s.firstQuery + row.i;
        for (uint32_t d = 0; d < data.c.valueDim; ++d) data.out.set(s.batch, row.h, token, d, static_cast<float>(r.out[d]));
        // The sum is that of the maximum as it is stored.
        const auto maximum = static_cast<float>(r.maximum);
        const double sum = std::isinf(r.maximum) ? r.sum : r.sum * std::exp(r.maximum - static_cast<double>(maximum));
        data.lse.set(s.batch, row.h, token, 0, maximum);
        data.lse.set(s.batch, row.h, token, 1, static_cast<float>(sum));
    }
}

GradientCase drawWhole(Random &random, const Case &attention, const GradientOptions &options) {
    GradientCase g = drawGradient(random, attention, options);
    DoubleForward(g).store();
    return g;
}
GradientCase drawWhole(Random &random, const GradientOptions &options) {
    Case c = drawAttentionOfGradient(random, options);
    // Slopes times 2^28 leave scores no digits, so that fp32 has another largest key than what is stored here.
    if (c.alibi) c.hostileOffsets = false;
    return drawWhole(random, c, options);
}

} // namespace vkattn::test
