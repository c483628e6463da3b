// The scan of one state head, token by token in plain loops, written from the formulas of vkattn/linear.h and
// from nothing else. In double precision it is the oracle's truth, and in fp32 the plain emulation that bounds
// are made of.
#pragma once

#include "cpu/operands.hpp"
#include "problem/linear/linear.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

namespace vkattn {

// Returns the keys of a batch entry.
[[nodiscard]] inline uint32_t keysOf(const LinearAttention &a, const Operands &operands, uint32_t b) {
    return a.has(VKATTN_KEY_LENGTHS) ? std::min(operands.word(VKATTN_KEY_LENGTHS, b), a.keyTokens) : a.keyTokens;
}
[[nodiscard]] inline float linearElement(const LinearAttention &a, const Operands &operands, vkattn_role role, const uint64_t (&at)[4]) {
    const Tensor &t = a.tensor(role);
    return loadElement(operands.data[role], t.dtype, t.index(at[0], at[1], at[2], at[3]));
}

// Visits what happens to a state head, in order: write(token), row(i, sees) for the rows of each head of out that
// reads the state, snapshot(c), and end() with the state after the last token.
template <class Visitor> void walkHead(const LinearAttention &a, uint32_t keys, Visitor &visitor) {
    const int64_t shift = a.positionOfRow(keys);
    const auto rows = static_cast<int64_t>(a.queryTokens);
    int64_t next = 0; // row
    if (a.causal)
        for (; next < rows && next + shift < 0; ++next) visitor.row(static_cast<uint32_t>(next), false);
    uint32_t snapshot = 0;
    for (uint32_t t = 0; t < keys; ++t) {
        visitor.write(t);
        if (a.causal)
            for (; next < rows && next + shift == t; ++next) visitor.row(static_cast<uint32_t>(next), true);
        if (snapshot < a.snapshotCount() && t + 1 == (snapshot + 1) * a.snapshotTokens) visitor.snapshot(snapshot++);
    }
    const bool sees = keys != 0 || a.uses(VKATTN_STATE_IN);
    for (; next < rows; ++next) visitor.row(static_cast<uint32_t>(next), sees);
    for (; snapshot < a.snapshotCount(); ++snapshot) visitor.snapshot(snapshot);
    visitor.end();
}

template <class Number> class SequentialScan {
  public:
    SequentialScan(const LinearAttention &a, const Operands &operands) : a_(a), operands_(operands) {}

    // [row][column] as it is stored, but for M: -infinity where z is 0.
    std::vector<Number> state;
    // Of the last token: its key, and what the feature map makes of the key (exponents with a maximum), its value and
    // what of the value is written, and for each row of the state what it was multiplied by.
    std::vector<Number> rawKey, key, value, written, kept;
    Number strength = 1;
    // Of the last row: its query, likewise, with the factors that cancel divided out; and the result.
    std::vector<Number> rawQuery, query, out;
    Number denominator = 0;

    void begin(uint32_t b, uint32_t stateHead) {
        b_ = b, head_ = stateHead;
        const uint64_t rows = a_.stateRows, columns = a_.stateColumns;
        state.assign(rows * columns, Number{0});
        if (a_.uses(VKATTN_STATE_IN))
            for (uint64_t r = 0; r < rows; ++r)
                for (uint64_t c = 0; c < columns; ++c) state[r * columns + c] = element(VKATTN_STATE_IN, head_, r, c);
        std::vector<Number> all(size_t{a_.randomFeatures()} * a_.keyDim);
        for (size_t n = 0; n < all.size(); ++n)
            all[n] = static_cast<Number>(
                linearElement(a_, operands_, VKATTN_OMEGA, {0, a_.keyHead(VKATTN_OMEGA, head_), n / a_.keyDim, n % a_.keyDim}));
        omega_ = std::make_shared<const std::vector<Number>>(std::move(all));
        if (a_.hasMaximum())
            for (uint64_t r = 0; r < rows; ++r)
                if (state[r * columns + a_.valueDim] == 0) state[r * columns + a_.valueDim + 1] = lowest;
    }
    void write(uint32_t t) {
        const uint32_t columns = a_.stateColumns;
        value.resize(a_.valueDim);
        for (uint32_t d = 0; d < a_.valueDim; ++d) value[d] = element(VKATTN_V, a_.keyHead(VKATTN_V, head_), t, d);
        features(VKATTN_K, a_.keyHead(VKATTN_K, head_), t, rawKey, key);
        kept.assign(a_.stateRows, Number{1});
        written = value;
        for (uint32_t r = 0; r < a_.stateRows; ++r) {
            Number *const row = &state[uint64_t{r} * columns];
            if (a_.isGated()) kept[r] = std::exp(decay(t, r));
            if (a_.hasMaximum()) {
                Number &maximum = row[a_.valueDim + 1];
                const Number before = maximum;
                if (key[r] > maximum) maximum = key[r];
                kept[r] = before == lowest ? Number{0} : std::exp(before - maximum);
                if (key[r] == lowest)
                    key[r] = 0;
                else // a NaN stays
                    key[r] = std::exp(key[r] - maximum);
            }
            for (uint32_t c = 0; c < summed(); ++c) row[c] *= kept[r];
        }
        if (a_.isDelta()) {
            strength = element(VKATTN_WRITE_STRENGTH, a_.keyHead(VKATTN_WRITE_STRENGTH, head_), t, 0);
            for (uint32_t d = 0; d < a_.valueDim; ++d) {
                Number read = 0;
                for (uint32_t r = 0; r < a_.stateRows; ++r) read += state[uint64_t{r} * columns + d] * key[r];
                written[d] = strength * (value[d] - read);
            }
        }
        for (uint32_t r = 0; r < a_.stateRows; ++r) {
            Number *const row = &state[uint64_t{r} * columns];
            for (uint32_t d = 0; d < a_.valueDim; ++d) row[d] += key[r] * written[d];
            if (a_.hasFeatures()) row[a_.valueDim] += key[r];
        }
    }
    // Reads row i of a head of out.
    void read(uint32_t head, uint32_t i) {
        const uint32_t columns = a_.stateColumns;
        features(VKATTN_Q, a_.queryHead(head), i, rawQuery, query);
        if (a_.hasMaximum()) {
            Number most = lowest;
            const auto exponent = [&](uint32_t r) { return query[r] + state[uint64_t{r} * columns + a_.valueDim + 1]; };
            const auto isEmpty = [&](uint32_t r) { return state[uint64_t{r} * columns + a_.valueDim + 1] == lowest; };
            for (uint32_t r = 0; r < a_.stateRows; ++r)
                if (!isEmpty(r) && exponent(r) > most) most = exponent(r);
            for (uint32_t r = 0; r < a_.stateRows; ++r) query[r] = isEmpty(r) ? Number{0} : std::exp(exponent(r) - most);
        }
        out.assign(a_.valueDim, Number{0});
        denominator = 0;
        for (uint32_t r = 0; r < a_.stateRows; ++r) {
            const Number *const row = &state[uint64_t{r} * columns];
            for (uint32_t d = 0; d < a_.valueDim; ++d) out[d] += query[r] * row[d];
            if (a_.hasFeatures()) denominator += query[r] * row[a_.valueDim];
        }
        for (Number &each : out) // a NaN stays
            each = !a_.hasFeatures() ? static_cast<Number>(a_.scale) * each : denominator == 0 ? each * 0 + Number{0} : each / denominator;
    }
    // Returns an element of the state as it is stored.
    [[nodiscard]] Number stored(uint32_t r, uint32_t c) const {
        const Number element = state[uint64_t{r} * a_.stateColumns + c];
        return a_.hasMaximum() && c == a_.valueDim + 1 && element == lowest ? Number{0} : element;
    }
    // The columns that tokens are added to.
    [[nodiscard]] uint32_t summed() const { return a_.valueDim + (a_.hasFeatures() ? 1 : 0); }
    // The sum of the sizes of the terms of the largest exponent, or of feature r of RELU, of the row that was mapped
    // last.
    [[nodiscard]] double sizeOfTerms(uint32_t r = 0) const { return a_.hasMaximum() ? largestTerms_ : terms_[r]; }
    // Element d of omega's row r.
    [[nodiscard]] Number omega(uint32_t r, uint32_t d) const { return (*omega_)[size_t{r} * a_.keyDim + d]; }
    // What FAVOR multiplies a token by before omega.
    [[nodiscard]] Number rootOfScale(vkattn_role role) const {
        const Number root = std::sqrt(std::abs(static_cast<Number>(a_.scale)));
        return role == VKATTN_Q && a_.scale < 0 ? -root : root;
    }
    [[nodiscard]] Number decay(uint32_t t, uint32_t r) const {
        return element(VKATTN_DECAY, a_.keyHead(VKATTN_DECAY, head_), t, a_.decaysKeyDims() ? r : 0);
    }

  private:
    static constexpr Number lowest = -std::numeric_limits<Number>::infinity();

    [[nodiscard]] Number element(vkattn_role role, uint64_t head, uint64_t token, uint64_t d) const {
        return static_cast<Number>(linearElement(a_, operands_, role, {b_, head, token, d}));
    }
    // Reads a token, and applies the feature map. FAVOR: the exponents; those of queries without |q'|^2 / 2.
    void features(vkattn_role role, uint32_t head, uint32_t token, std::vector<Number> &x, std::vector<Number> &to) {
        x.resize(a_.keyDim);
        for (uint32_t d = 0; d < a_.keyDim; ++d) x[d] = element(role, head, token, d);
        to.resize(a_.stateRows);
        if (!a_.hasFeatures()) {
            to = x;
            return;
        }
        if (a_.features == VKATTN_FEATURES_ELU1) {
            for (uint32_t r = 0; r < a_.stateRows; ++r) to[r] = x[r] > 0 ? x[r] + 1 : std::exp(x[r]);
            return;
        }
        const uint32_t m = a_.randomFeatures();
        terms_.assign(a_.stateRows, 0.0);
        largestTerms_ = 0;
        if (a_.features == VKATTN_FEATURES_RELU) {
            const Number root = m ? std::sqrt(static_cast<Number>(m)) : Number{1};
            for (uint32_t r = 0; r < a_.stateRows; ++r) {
                const Number product = m ? randomProduct(r, Number{1}, x) / root : x[r];
                terms_[r] = m ? terms_[r] / static_cast<double>(root) : 0;
                // A NaN stays.
                to[r] = (product < 0 ? Number{0} : product) + static_cast<Number>(a_.epsilon);
            }
            return;
        }
        const Number root = rootOfScale(role);
        Number square = 0;
        if (role == VKATTN_K)
            for (const Number each : x) square += (root * each) * (root * each);
        for (uint32_t r = 0; r < m; ++r) {
            const Number product = randomProduct(r, root, x);
            to[r] = product - square / 2;
            if (a_.features == VKATTN_FEATURES_FAVOR2) to[m + r] = -product - square / 2;
            largestTerms_ = std::max(largestTerms_, terms_[r] + static_cast<double>(square / 2));
        }
    }
    // Returns omega_r . (factor x), and notes the size of its terms.
    Number randomProduct(uint32_t r, Number factor, const std::vector<Number> &x) {
        Number sum = 0;
        for (uint32_t d = 0; d < a_.keyDim; ++d) {
            const Number term = omega(r, d) * (factor * x[d]);
            sum += term;
            terms_[r] += std::abs(static_cast<double>(term));
        }
        return sum;
    }

    const LinearAttention &a_;
    const Operands &operands_;
    uint32_t b_ = 0, head_ = 0;
    std::shared_ptr<const std::vector<Number>> omega_; // copies of a scan share it
    std::vector<double> terms_;
    double largestTerms_ = 0;
};

} // namespace vkattn
