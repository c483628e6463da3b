// One row of attention in plain loops, for any arithmetic type: in double it is the oracle, the truth that everything is measured
// against; in float it is the fallback and the "plain fp32 emulation" of docs/numerics.md 6. The formulas are those of problem.h.
#pragma once

#include "cpu/operands.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace vkattn {

// K and V of one key/value head as rows of floats: a view where memory already holds that, else a decoded copy.
class HeadKeysValues {
  public:
    void load(const Problem &p, const Operands &operands, uint32_t b, uint32_t kvHead) {
        if (loaded_ && b == b_ && kvHead == kvHead_) return;
        k_.load(p.tensor(VKATTN_K), operands.data[VKATTN_K], b, kvHead);
        v_.load(p.tensor(VKATTN_V), operands.data[VKATTN_V], b, kvHead);
        loaded_ = true;
        b_ = b;
        kvHead_ = kvHead;
    }
    [[nodiscard]] const float *key(uint32_t j) const { return k_.row(j); }
    [[nodiscard]] const float *value(uint32_t j) const { return v_.row(j); }

  private:
    struct Rows {
        const float *base = nullptr;
        int64_t stride = 0;
        std::vector<float> copy;

        void load(const Tensor &t, const unsigned char *data, uint32_t b, uint32_t h) {
            if (t.empty()) return;
            if (t.dtype == VKATTN_F32 && (t.stride[3] == 1 || t.extent[3] == 1)) {
                base = reinterpret_cast<const float *>(data) + t.index(b, h, 0, 0);
                stride = t.stride[2];
                return;
            }
            copy.resize(static_cast<size_t>(t.extent[2]) * t.extent[3]);
            for (uint32_t j = 0; j < t.extent[2]; ++j)
                for (uint32_t d = 0; d < t.extent[3]; ++d)
                    copy[static_cast<size_t>(j) * t.extent[3] + d] = loadElement(data, t.dtype, t.index(b, h, j, d));
            base = copy.data();
            stride = t.extent[3];
        }
        [[nodiscard]] const float *row(uint32_t j) const { return base + static_cast<int64_t>(j) * stride; }
    };
    Rows k_, v_;
    bool loaded_ = false;
    uint32_t b_ = 0, kvHead_ = 0;
};

template <class Real> struct Row {
    std::vector<Real> out; // [valueDim]
    Real lse = 0;
    std::vector<uint32_t> visible;     // keys, ascending
    std::vector<Real> weights;         // of the visible keys
    std::vector<Real> query, products; // scratch

    void attend(const Problem &p, const Operands &operands, const HeadKeysValues &kv, uint32_t b, uint32_t h, uint32_t i) {
        findVisible(p, operands, b, h, i);
        const Tensor &q = p.tensor(VKATTN_Q), &bias = p.tensor(VKATTN_BIAS);
        query.resize(p.headDim);
        for (uint32_t d = 0; d < p.headDim; ++d)
            query[d] = static_cast<Real>(loadElement(operands.data[VKATTN_Q], q.dtype, q.index(b, h, i, d)));

        out.assign(p.valueDim, Real(0));
        lse = -std::numeric_limits<Real>::infinity();
        weights.resize(visible.size());
        if (visible.empty()) return;

        Real maximum = -std::numeric_limits<Real>::infinity();
        for (size_t n = 0; n < visible.size(); ++n) {
            Real s = static_cast<Real>(p.scale) * dot(query.data(), kv.key(visible[n]), p.headDim);
            if (p.softcap > 0) s = static_cast<Real>(p.softcap) * std::tanh(s / static_cast<Real>(p.softcap));
            if (bias.present())
                s += static_cast<Real>(loadElement(operands.data[VKATTN_BIAS], bias.dtype, bias.index(b, h, i, visible[n])));
            weights[n] = s;
            if (!(s <= maximum)) maximum = s; // a NaN becomes the maximum, and NaN <= NaN is false: it stays
            if (std::isnan(maximum)) break;
        }
        Real sum = 0;
        for (Real &w : weights) sum += w = std::exp(w - maximum);
        if (std::isnan(maximum)) sum = maximum;
        lse = maximum + std::log(sum);
        for (size_t n = 0; n < visible.size(); ++n) {
            const Real w = weights[n] = weights[n] / sum;
            const float *v = kv.value(visible[n]);
            for (uint32_t d = 0; d < p.valueDim; ++d) out[d] += w * static_cast<Real>(v[d]);
        }
    }

  private:
    void findVisible(const Problem &p, const Operands &operands, uint32_t b, uint32_t h, uint32_t i) {
        const int64_t keys = operands.keyLength(p, b);
        const int64_t position = p.topLeft ? int64_t{i} : int64_t{i} + keys - int64_t{p.queryTokens};
        const int64_t first = std::max<int64_t>(0, position - p.left), last = std::min<int64_t>(keys - 1, position + p.right);
        const Tensor &mask = p.tensor(VKATTN_MASK), &bias = p.tensor(VKATTN_BIAS);
        visible.clear();
        for (int64_t j = first; j <= last; ++j) {
            const auto key = static_cast<uint32_t>(j);
            if (mask.present() && operands.data[VKATTN_MASK][mask.index(b, h, i, key)] == 0) continue;
            if (bias.present() &&
                loadElement(operands.data[VKATTN_BIAS], bias.dtype, bias.index(b, h, i, key)) == -std::numeric_limits<float>::infinity())
                continue;
            visible.push_back(key);
        }
    }
    static Real dot(const Real *a, const float *b, uint32_t n) {
        constexpr uint32_t lanes = 16; // independent sums, so that the loop is not one long chain of dependent additions
        Real sums[lanes] = {};
        uint32_t d = 0;
        for (; d + lanes <= n; d += lanes)
            for (uint32_t l = 0; l < lanes; ++l) sums[l] += a[d + l] * static_cast<Real>(b[d + l]);
        Real sum = 0;
        for (const Real s : sums) sum += s;
        for (; d < n; ++d) sum += a[d] * static_cast<Real>(b[d]);
        return sum;
    }
};

// A unit of work for a thread: rows of one query head.
struct RowBlock {
    uint32_t b, h, first, count;
};
constexpr uint32_t rowBlockSize = 32;
[[nodiscard]] inline uint64_t rowBlocks(const Problem &p) {
    return uint64_t{p.batch} * p.heads * ((p.queryTokens + rowBlockSize - 1) / rowBlockSize);
}
[[nodiscard]] inline RowBlock rowBlock(const Problem &p, uint64_t n) {
    const uint32_t perHead = (p.queryTokens + rowBlockSize - 1) / rowBlockSize;
    const auto head = n / perHead;
    const auto first = static_cast<uint32_t>(n % perHead) * rowBlockSize;
    return {static_cast<uint32_t>(head / p.heads), static_cast<uint32_t>(head % p.heads), first,
            std::min(rowBlockSize, p.queryTokens - first)};
}

template <class Real> void storeRow(const Problem &p, const Operands &operands, const Row<Real> &row, uint32_t b, uint32_t h, uint32_t i) {
    const Tensor &out = p.tensor(VKATTN_OUT), &lse = p.tensor(VKATTN_LSE), &weights = p.tensor(VKATTN_WEIGHTS);
    for (uint32_t d = 0; d < p.valueDim; ++d)
        storeElement(operands.data[VKATTN_OUT], out.dtype, out.index(b, h, i, d), static_cast<float>(row.out[d]));
    if (lse.present()) storeElement(operands.data[VKATTN_LSE], lse.dtype, lse.index(b, h, i, 0), static_cast<float>(row.lse));
    if (weights.present()) {
        size_t n = 0;
        for (uint32_t j = 0; j < p.keyTokens; ++j) {
            const bool visible = n < row.visible.size() && row.visible[n] == j;
            storeElement(operands.data[VKATTN_WEIGHTS], weights.dtype, weights.index(b, h, i, j),
                         visible ? static_cast<float>(row.weights[n++]) : 0.0f);
        }
    }
}

} // namespace vkattn
