// The scan of one state head and its way back, token by token in plain loops, written from the formulas of
// vkattn/linear_gradient.h and from nothing else. In double precision it is the oracle's truth, and in fp32 the
// plain emulation that bounds are made of.
#pragma once

#include "cpu/linear/oracle_scan.hpp"
#include "problem/linear/linear_gradient.hpp"

namespace vkattn {

// Visits what the gradients of a state head are made of, in order: row(i, sees) for the rows of each head of out that
// reads the state, token(t) from the last to the first, and end().
template <class Visitor> void walkBack(const LinearAttention &a, uint32_t keys, bool hasStateIn, Visitor &visitor) {
    const int64_t shift = a.positionOfRow(keys);
    int64_t row = int64_t{a.queryTokens} - 1;
    // The token that a row reads after; a row that reads the state before the first token has -1.
    const auto placeOf = [&](int64_t i) { return a.causal ? std::min(i + shift, int64_t{keys} - 1) : int64_t{keys} - 1; };
    for (int64_t t = int64_t{keys} - 1; t >= 0; --t) {
        for (; row >= 0 && placeOf(row) == t; --row) visitor.row(static_cast<uint32_t>(row), true);
        visitor.token(static_cast<uint32_t>(t));
    }
    for (; row >= 0; --row) visitor.row(static_cast<uint32_t>(row), keys == 0 && hasStateIn && (!a.causal || row + shift >= 0));
    visitor.end();
}

// What goes with a scan from token to token: nothing.
struct NoCompanion {
    explicit NoCompanion(const LinearAttention &) {}
    template <class Scan> void begin(const Scan &) {}
    template <class Scan> void write(const Scan &, uint32_t) {}
};

template <class Number, class Companion = NoCompanion> class ReverseScan {
  public:
    // A scan behind a token.
    struct Moment {
        SequentialScan<Number> scan;
        Companion companion;
    };

    ReverseScan(const LinearGradient &g, const Operands &operands)
        : g_(g), a_(g.forward), operands_(operands), columns_(a_.valueDim + (a_.hasFeatures() ? 1 : 0)) {}

    // dS, and dz behind it: [row][column].
    std::vector<Number> dState;
    // Of the last row: scale dOut, or N and then E; the gradients of what the map makes of the query, and of the query.
    // `reader` has read the row.
    std::vector<Number> given, dMappedQuery, dQuery;
    std::vector<Moment> reader;
    // Of the last token: du, the same of its key, and the rest; `recalled` is R, and `difference` e.
    std::vector<Number> dWritten, dMappedKey, dKey, dValue, dDecay, recalled, difference;
    Number dStrength = 0;

    void begin(uint32_t b, uint32_t stateHead) {
        b_ = b, head_ = stateHead;
        const uint32_t keys = keysOf(a_, operands_, b);
        // As many states are kept as are computed again from each.
        segment_ = std::max(static_cast<uint32_t>(std::ceil(std::sqrt(static_cast<double>(keys)))), 1u);
        kept_.clear(), moments_.clear();
        Moment now{SequentialScan<Number>(a_, operands_), Companion(a_)};
        now.scan.begin(b, stateHead);
        now.companion.begin(now.scan);
        for (uint32_t t = 0; t < keys; ++t) {
            if (t % segment_ == 0) kept_.push_back(now);
            advance(now, t);
        }
        if (keys == 0) kept_.push_back(now);
        first_ = 0;
        recall(keys ? (keys - 1) / segment_ : 0, keys);
        dState.assign(uint64_t{a_.stateRows} * columns_, Number{0});
        if (g_.uses(VKATTN_D_STATE_OUT))
            for (uint32_t r = 0; r < a_.stateRows; ++r)
                for (uint32_t c = 0; c < columns_; ++c) dState[size_t{r} * columns_ + c] = element(VKATTN_D_STATE_OUT, head_, r, c);
    }
    // The scan behind the last token that was not taken back.
    [[nodiscard]] Moment &now() { return moments_.back(); }
    [[nodiscard]] const Moment &before() const { return moments_[moments_.size() - 2]; }

    // Takes row i of a head of out back.
    void row(uint32_t head, uint32_t i) {
        reader.clear();
        reader.push_back(now()); // that the key's map is as it was
        SequentialScan<Number> &scan = reader[0].scan;
        scan.read(head, i);
        given.assign(columns_, Number{0});
        const bool seen = !a_.hasFeatures() || scan.denominator != 0;
        for (uint32_t c = 0; c < a_.valueDim && seen; ++c) {
            const Number dOut = element(VKATTN_D_OUT, head, i, c);
            given[c] = a_.hasFeatures() ? dOut / scan.denominator : static_cast<Number>(a_.scale) * dOut;
            if (a_.hasFeatures()) given[a_.valueDim] -= given[c] * scan.out[c];
        }
        dMappedQuery.assign(a_.stateRows, Number{0});
        dQuery.assign(a_.keyDim, Number{0});
        if (!seen) return;
        for (uint32_t r = 0; r < a_.stateRows; ++r)
            for (uint32_t c = 0; c < columns_; ++c) {
                dMappedQuery[r] += scan.state[uint64_t{r} * a_.stateColumns + c] * given[c];
                dState[size_t{r} * columns_ + c] += scan.query[r] * given[c];
            }
        throughMap(scan, VKATTN_Q, scan.rawQuery, scan.query, dMappedQuery, dQuery);
    }
    // Takes the last token that was not taken back.
    void token() {
        const SequentialScan<Number> &scan = now().scan, &earlier = before().scan;
        recalled.resize(dState.size());
        for (uint32_t r = 0; r < a_.stateRows; ++r)
            for (uint32_t c = 0; c < columns_; ++c)
                recalled[size_t{r} * columns_ + c] = scan.kept[r] * earlier.state[uint64_t{r} * a_.stateColumns + c];
        dWritten.assign(a_.valueDim, Number{0});
        for (uint32_t r = 0; r < a_.stateRows; ++r)
            for (uint32_t c = 0; c < a_.valueDim; ++c) dWritten[c] += dState[size_t{r} * columns_ + c] * scan.key[r];
        dMappedKey.assign(a_.stateRows, Number{0});
        for (uint32_t r = 0; r < a_.stateRows; ++r)
            for (uint32_t c = 0; c < columns_; ++c)
                dMappedKey[r] += dState[size_t{r} * columns_ + c] * (c < a_.valueDim ? scan.written[c] : Number{1});
        dValue = dWritten;
        if (a_.isDelta()) takeDeltaBack(scan);
        dDecay.assign(a_.decaysKeyDims() ? a_.stateRows : 1, Number{0});
        for (uint32_t r = 0; r < a_.stateRows; ++r)
            for (uint32_t c = 0; c < columns_; ++c) {
                Number &each = dState[size_t{r} * columns_ + c];
                if (a_.isGated()) dDecay[a_.decaysKeyDims() ? r : 0] += each * recalled[size_t{r} * columns_ + c];
                each *= scan.kept[r];
            }
        dKey.assign(a_.keyDim, Number{0});
        throughMap(scan, VKATTN_K, scan.rawKey, scan.key, dMappedKey, dKey);
    }
    // Goes on to the token before; after all that is asked of this one.
    void back(uint32_t t) {
        if (t == first_ && t > 0)
            recall(t / segment_ - 1, t);
        else
            moments_.pop_back();
    }

  private:
    static void advance(Moment &moment, uint32_t t) {
        moment.scan.write(t);
        moment.companion.write(moment.scan, t);
    }
    // Makes the moments of a segment, up to that before token `end`.
    void recall(uint32_t segment, uint32_t end) {
        first_ = segment * segment_;
        moments_.clear();
        moments_.push_back(kept_[segment]);
        for (uint32_t t = first_; t < end; ++t) {
            moments_.push_back(moments_.back());
            advance(moments_.back(), t);
        }
    }
    [[nodiscard]] Number element(vkattn_role role, uint64_t head, uint64_t row, uint64_t column) const {
        const Tensor &t = g_.tensor(role);
        return static_cast<Number>(loadElement(operands_.data[role], t.dtype, t.index(b_, head, row, column)));
    }
    void takeDeltaBack(const SequentialScan<Number> &scan) {
        difference = scan.value;
        dStrength = 0;
        for (uint32_t c = 0; c < a_.valueDim; ++c) {
            Number read = 0;
            for (uint32_t r = 0; r < a_.stateRows; ++r) read += recalled[size_t{r} * columns_ + c] * scan.key[r];
            difference[c] -= read;
            dStrength += dWritten[c] * difference[c];
            dValue[c] = scan.strength * dWritten[c];
        }
        for (uint32_t r = 0; r < a_.stateRows; ++r)
            for (uint32_t c = 0; c < a_.valueDim; ++c) {
                dMappedKey[r] -= recalled[size_t{r} * columns_ + c] * dValue[c];
                dState[size_t{r} * columns_ + c] -= scan.key[r] * dValue[c];
            }
    }
    // From the gradient of what the map makes of a token to that of the token, x.
    void throughMap(const SequentialScan<Number> &scan, vkattn_role role, const std::vector<Number> &x, const std::vector<Number> &mapped,
                    const std::vector<Number> &dMapped, std::vector<Number> &to) const {
        const uint32_t m = a_.randomFeatures();
        for (uint32_t d = 0; d < a_.keyDim; ++d) {
            if (!a_.hasFeatures()) {
                to[d] = dMapped[d];
            } else if (a_.features == VKATTN_FEATURES_ELU1) {
                to[d] = x[d] > 0 ? dMapped[d] : std::exp(x[d]) * dMapped[d];
            } else if (a_.features == VKATTN_FEATURES_RELU && m == 0) {
                to[d] = x[d] > 0 ? dMapped[d] : Number{0};
            }
        }
        if (m == 0) return;
        const bool relu = a_.features == VKATTN_FEATURES_RELU;
        const Number root = relu ? 1 / std::sqrt(static_cast<Number>(m)) : scan.rootOfScale(role);
        for (uint32_t r = 0; r < a_.stateRows; ++r) {
            Number weight = dMapped[r];
            if (relu) {
                Number product = 0;
                for (uint32_t d = 0; d < a_.keyDim; ++d) product += scan.omega(r, d) * x[d];
                if (!(product > 0)) continue;
            } else {
                weight *= mapped[r];
            }
            // |q'|^2 / 2 cancels in a row of out.
            const Number own = relu || role == VKATTN_Q ? Number{0} : root, sign = r < m ? Number{1} : Number{-1};
            for (uint32_t d = 0; d < a_.keyDim; ++d) to[d] += root * weight * (sign * scan.omega(r % m, d) - own * x[d]);
        }
    }

    const LinearGradient &g_;
    const LinearAttention &a_;
    const Operands &operands_;
    const uint32_t columns_;
    uint32_t b_ = 0, head_ = 0, segment_ = 1, first_ = 0;
    std::vector<Moment> kept_, moments_;
};

} // namespace vkattn
