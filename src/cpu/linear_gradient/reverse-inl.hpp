// The gradients of one state head, for one Highway target (vkattn/linear_gradient.h).
//
// The scan goes forward once and keeps a state now and then. On the way back the states of one segment of tokens after
// the other are computed again from the state before it, and lie side by side while the segment is taken back. Token by
// token: what a token needs of its state is the products of the state with a few vectors, which a chunk would
// not save, and every decay is a factor of its own, so that nothing can overflow that does not in the formulas.
#if defined(VKATTN_CPU_LINEAR_GRADIENT_REVERSE_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef VKATTN_CPU_LINEAR_GRADIENT_REVERSE_INL_HPP
#undef VKATTN_CPU_LINEAR_GRADIENT_REVERSE_INL_HPP
#else
#define VKATTN_CPU_LINEAR_GRADIENT_REVERSE_INL_HPP
#endif

#include "cpu/linear_gradient/work.hpp"

#include <cmath>

#include "cpu/linear/features-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace vkattn {
namespace HWY_NAMESPACE {

class GradientsOfHead {
  public:
    GradientsOfHead(const LinearGradientCall &call, uint32_t b, uint32_t stateHead, float *scratch)
        : call_(call), g_(call.g), a_(call.g.forward), b_(b), head_(stateHead), place_(a_), scratch_(scratch),
          keyMap_(a_, call.operands, place_, b, stateHead, scratch), queryMap_(a_, call.operands, place_.ofQuery, b, stateHead, scratch),
          rows_(a_.stateRows), width_(place_.width), stride_(place_.stride), dState_(scratch + place_.dState) {}

    void compute() {
        std::fill(scratch_, scratch_ + place_.keptMoments, 0.0f); // ends of rows too
        keyMap_.takeOmega();
        const uint32_t keys =
            a_.has(VKATTN_KEY_LENGTHS) ? std::min(call_.operands.word(VKATTN_KEY_LENGTHS, b_), a_.keyTokens) : a_.keyTokens;
        goForward(keys);
        if (g_.uses(VKATTN_D_STATE_OUT)) {
            StoredRows rows = storedRows(g_.tensor(VKATTN_D_STATE_OUT), call_.operands.data[VKATTN_D_STATE_OUT], b_, head_, 0);
            rows.dims = columns();
            copyRows(rows, rows_, dState_, stride_);
        }
        goBack(keys);
        for (uint32_t t = keys; t < a_.keyTokens; ++t) storeZerosOfToken(t);
        if (g_.uses(VKATTN_D_STATE_IN)) storeState();
    }

  private:
    // What the map and the columns of a state have beside them.
    [[nodiscard]] uint32_t columns() const { return a_.valueDim + (a_.hasFeatures() ? 1 : 0); }
    [[nodiscard]] float *part(size_t at) const { return scratch_ + at; }
    [[nodiscard]] float *moment(uint32_t n) const { return part(place_.moments) + n * place_.momentFloats; }
    [[nodiscard]] float *keptMoment(uint32_t n) const { return part(place_.keptMoments) + n * place_.momentFloats; }
    [[nodiscard]] float *maximaOf(float *moment) const { return moment + rows_ * stride_; }
    [[nodiscard]] float *keyOf(uint32_t n) const { return part(place_.keys) + n * width_; }
    [[nodiscard]] float *factorsOf(uint32_t n) const { return part(place_.factors) + n * width_; }
    [[nodiscard]] float *writtenOf(uint32_t n) const { return part(place_.written) + n * stride_; }
    [[nodiscard]] float *differenceOf(uint32_t n) const { return part(place_.differences) + n * stride_; }

    // The state before the first token.
    void loadState(float *to) const {
        std::fill(to, to + place_.momentFloats, 0.0f);
        float *const maxima = maximaOf(to);
        if (a_.hasMaximum()) std::fill(maxima, maxima + width_, minusInfinity);
        if (!a_.uses(VKATTN_STATE_IN)) return;
        const Tensor &t = a_.tensor(VKATTN_STATE_IN);
        const unsigned char *const from = call_.operands.data[VKATTN_STATE_IN];
        StoredRows rows = storedRows(t, from, b_, head_, 0);
        rows.dims = columns();
        copyRows(rows, rows_, to, stride_);
        for (uint32_t r = 0; a_.hasMaximum() && r < rows_; ++r)
            if (to[r * stride_ + a_.valueDim] != 0) maxima[r] = loadElement(from, t.dtype, t.index(b_, head_, r, a_.valueDim + 1));
    }
    void goForward(uint32_t keys) {
        float *const now = moment(0);
        loadState(now);
        for (uint32_t first = 0, n = 0; first < std::max(keys, 1u); first += place_.segment, ++n) {
            std::copy(now, now + place_.momentFloats, keptMoment(n));
            if (first + place_.segment >= keys) break; // the way back computes it again
            takeTokens(first, place_.segment);
            for (uint32_t t = 0; t < place_.segment; ++t) write(t, now, now);
        }
    }
    void goBack(uint32_t keys) {
        const int64_t shift = a_.positionOfRow(keys);
        int64_t row = int64_t{a_.queryTokens} - 1;
        const auto tokenOfRow = [&](int64_t i) { return a_.causal ? std::min(i + shift, int64_t{keys} - 1) : int64_t{keys} - 1; };
        for (uint32_t end = keys; end > 0;) {
            const uint32_t segment = (end - 1) / place_.segment, first = segment * place_.segment;
            std::copy(keptMoment(segment), keptMoment(segment) + place_.momentFloats, moment(0));
            takeTokens(first, end - first);
            for (uint32_t t = first; t < end; ++t) write(t - first, moment(t - first), moment(t - first + 1));
            for (uint32_t t = end; t-- > first;) {
                for (; row >= 0 && tokenOfRow(row) == t; --row) takeRowBack(static_cast<uint32_t>(row), moment(t - first + 1));
                takeTokenBack(t, t - first);
            }
            end = first;
        }
        for (; row >= 0; --row)
            if (keys == 0 && a_.uses(VKATTN_STATE_IN) && (!a_.causal || row + shift >= 0))
                takeRowBack(static_cast<uint32_t>(row), keptMoment(0));
            else
                storeZerosOfRow(static_cast<uint32_t>(row));
    }

    // Keys, or what features make of them; values; decays as factors; write strengths.
    void takeTokens(uint32_t first, uint32_t count) {
        const Floats f;
        keyMap_.mapKeys(a_.keyHead(VKATTN_K, head_), first, count, part(place_.keys), part(place_.slopes));
        std::fill(writtenOf(0), writtenOf(count), 0.0f); // the ends of rows take part in sums
        copyRows(storedRows(a_.tensor(VKATTN_V), call_.operands.data[VKATTN_V], b_, a_.keyHead(VKATTN_V, head_), first), count,
                 part(place_.written), stride_);
        for (uint32_t t = 0; a_.hasFeatures() && t < count; ++t) writtenOf(t)[a_.valueDim] = 1;
        for (uint32_t t = 0; a_.isDelta() && t < count; ++t) part(place_.strengths)[t] = elementOfToken(VKATTN_WRITE_STRENGTH, first + t);
        if (a_.decaysKeyDims())
            copyRows(storedRows(a_.tensor(VKATTN_DECAY), call_.operands.data[VKATTN_DECAY], b_, a_.keyHead(VKATTN_DECAY, head_), first),
                     count, part(place_.factors), width_);
        for (uint32_t t = 0; t < count; ++t) {
            float *const factors = factorsOf(t);
            if (!a_.decaysKeyDims()) std::fill(factors, factors + width_, a_.isGated() ? elementOfToken(VKATTN_DECAY, first + t) : 0.0f);
            forWidth(width_, [&](size_t r) HWY_ATTR { hn::Store(expOf(hn::Load(f, factors + r)), f, factors + r); });
        }
    }
    [[nodiscard]] float elementOfToken(vkattn_role role, uint32_t token) const {
        const Tensor &t = a_.tensor(role);
        return loadElement(call_.operands.data[role], t.dtype, t.index(b_, a_.keyHead(role, head_), token, 0));
    }
    // The n-th token of the segment changes a state, which may stay where it is.
    void write(uint32_t n, const float *from, float *to) {
        const Floats f;
        float *const key = keyOf(n), *const factors = factorsOf(n), *const written = writtenOf(n);
        if (a_.hasMaximum()) {
            const float *const before = from + rows_ * stride_;
            float *const maxima = maximaOf(to);
            forWidth(width_, [&](size_t r) HWY_ATTR {
                const auto was = hn::Load(f, before + r), own = hn::Load(f, key + r), now = largerOf(was, own);
                const Exponent relative(now);
                hn::Store(relative(was), f, factors + r);
                hn::Store(relative(own), f, key + r);
                hn::Store(now, f, maxima + r);
            });
        }
        if (a_.isDelta()) {
            float *const weights = part(place_.weights), *const read = part(place_.results), *const difference = differenceOf(n);
            forWidth(width_,
                     [&](size_t r) HWY_ATTR { hn::Store(hn::Mul(hn::Load(f, key + r), hn::Load(f, factors + r)), f, weights + r); });
            std::fill(read, read + stride_, 0.0f);
            addProduct({weights, width_, 1}, rows_, from, stride_, 1, stride_, read, stride_);
            const auto beta = hn::Set(f, part(place_.strengths)[n]);
            forWidth(stride_, [&](size_t c) HWY_ATTR {
                const auto e = hn::Sub(hn::Load(f, written + c), hn::Load(f, read + c));
                hn::Store(e, f, difference + c);
                hn::Store(hn::Mul(beta, e), f, written + c);
            });
        }
        for (uint32_t r = 0; r < rows_; ++r) {
            const auto factor = hn::Set(f, factors[r]), own = hn::Set(f, key[r]);
            const float *const was = from + r * stride_;
            float *const now = to + r * stride_;
            forWidth(stride_, [&](size_t c) HWY_ATTR {
                hn::Store(hn::MulAdd(own, hn::Load(f, written + c), hn::Mul(factor, hn::Load(f, was + c))), f, now + c);
            });
        }
    }

    // Row i of each head of out that reads the state.
    void takeRowBack(uint32_t i, float *state) {
        for (uint32_t n = 0; n < a_.heads / a_.stateHeads; ++n) {
            const uint32_t head = a_.headOfState(head_, n);
            float *const query = part(place_.query), *const given = part(place_.given), *const weights = part(place_.weights);
            queryMap_.mapQueries(a_.queryHead(head), i, 1, query, part(place_.querySlopes));
            std::fill(given, given + stride_, 0.0f);
            copyRows(storedRows(g_.tensor(VKATTN_D_OUT), call_.operands.data[VKATTN_D_OUT], b_, head, i), 1, given, stride_);
            if (!makeGiven(query, given, state)) {
                emit(VKATTN_D_Q, head, i, part(place_.zeros), a_.keyDim);
                continue;
            }
            const Floats f;
            for (uint32_t r = 0; r < rows_; ++r) {
                const float *const row = state + r * stride_;
                float *const dRow = dState_ + r * stride_;
                const auto factor = hn::Set(f, query[r]);
                auto sum = hn::Zero(f);
                forWidth(stride_, [&](size_t c) HWY_ATTR {
                    const auto x = hn::Load(f, given + c);
                    sum = hn::MulAdd(hn::Load(f, row + c), x, sum);
                    hn::Store(hn::MulAdd(factor, x, hn::Load(f, dRow + c)), f, dRow + c);
                });
                weights[r] = hn::GetLane(hn::SumOfLanes(f, sum));
            }
            if (g_.uses(VKATTN_D_Q)) emit(VKATTN_D_Q, head, i, throughMap(queryMap_, 0, false, query, part(place_.querySlopes)), a_.keyDim);
        }
    }
    // dOut as the state and the row's features meet it. Returns false where the row's denominator is 0.
    bool makeGiven(float *query, float *given, float *state) {
        const Floats f;
        if (!a_.hasFeatures()) {
            const auto scale = hn::Set(f, a_.scale);
            forWidth(stride_, [&](size_t c) HWY_ATTR { hn::Store(hn::Mul(scale, hn::Load(f, given + c)), f, given + c); });
            return true;
        }
        if (a_.hasMaximum()) {
            subtractMost(query, maximaOf(state), width_);
            featuresOfQuery(query, maximaOf(state), width_, query);
        }
        float *const out = part(place_.results);
        std::fill(out, out + stride_, 0.0f);
        addProduct({query, width_, 1}, rows_, state, stride_, 1, stride_, out, stride_);
        const float denominator = out[a_.valueDim];
        if (denominator == 0) return false;
        given[a_.valueDim] = out[a_.valueDim] = 0;
        const auto divisor = hn::Set(f, denominator);
        forWidth(stride_, [&](size_t c) HWY_ATTR {
            hn::Store(hn::Div(hn::Load(f, given + c), divisor), f, given + c);
            hn::Store(hn::Div(hn::Load(f, out + c), divisor), f, out + c);
        });
        given[a_.valueDim] = -dotOf(given, out, stride_);
        return true;
    }

    // What the rows of a state have in common at a token, and what each leaves: the gradients of the key's map and of
    // the decay.
    struct TokenRows {
        const float *key, *factors, *written, *dValue, *before;
        float *weights, *dDecays;
    };
    template <bool delta, bool gated> void takeRowsOfToken(const TokenRows &token) {
        const Floats f;
        for (uint32_t r = 0; r < rows_; ++r) {
            const float *const was = token.before + r * stride_;
            float *const dRow = dState_ + r * stride_;
            const auto factor = hn::Set(f, token.factors[r]), own = hn::Set(f, token.key[r]);
            auto sum = hn::Zero(f), sumOfR = sum, decay = sum;
            for (size_t c = 0; c < stride_; c += lanes) {
                auto d = hn::Load(f, dRow + c);
                sum = hn::MulAdd(d, hn::Load(f, token.written + c), sum);
                if constexpr (delta) {
                    const auto dV = hn::Load(f, token.dValue + c);
                    sumOfR = hn::MulAdd(hn::Mul(factor, hn::Load(f, was + c)), dV, sumOfR);
                    d = hn::NegMulAdd(own, dV, d);
                }
                if constexpr (gated) decay = hn::MulAdd(d, hn::Mul(factor, hn::Load(f, was + c)), decay);
                hn::Store(hn::Mul(factor, d), f, dRow + c);
            }
            token.weights[r] = hn::GetLane(hn::SumOfLanes(f, delta ? hn::Sub(sum, sumOfR) : sum));
            if constexpr (gated) token.dDecays[r] = hn::GetLane(hn::SumOfLanes(f, decay));
        }
    }
    void takeTokenBack(uint32_t t, uint32_t n) {
        const Floats f;
        const float *const key = keyOf(n), *const factors = factorsOf(n), *const written = writtenOf(n), *const before = moment(n);
        float *const dWritten = part(place_.dWritten), *const weights = part(place_.weights), *const dDecays = part(place_.dDecays);
        const float *dValue = dWritten;
        std::fill(dWritten, dWritten + stride_, 0.0f);
        addProduct({key, width_, 1}, rows_, dState_, stride_, 1, stride_, dWritten, stride_);
        if (a_.isDelta()) {
            const float dStrength = dotOf(dWritten, differenceOf(n), stride_);
            emit(VKATTN_D_WRITE_STRENGTH, head_, t, &dStrength, 1);
            float *const scaled = part(place_.dValue);
            const auto beta = hn::Set(f, part(place_.strengths)[n]);
            forWidth(stride_, [&](size_t c) HWY_ATTR { hn::Store(hn::Mul(beta, hn::Load(f, dWritten + c)), f, scaled + c); });
            dValue = scaled;
        }
        emit(VKATTN_D_V, head_, t, dValue, a_.valueDim);
        const TokenRows rows = {key, factors, written, dValue, before, weights, dDecays};
        if (a_.isDelta())
            a_.isGated() ? takeRowsOfToken<true, true>(rows) : takeRowsOfToken<true, false>(rows);
        else
            a_.isGated() ? takeRowsOfToken<false, true>(rows) : takeRowsOfToken<false, false>(rows);
        if (a_.decaysKeyDims()) {
            emit(VKATTN_D_DECAY, head_, t, dDecays, a_.keyDim);
        } else if (a_.isGated()) {
            const float all = sumOfVectors(width_, [&](size_t r) HWY_ATTR { return hn::Load(f, dDecays + r); });
            emit(VKATTN_D_DECAY, head_, t, &all, 1);
        }
        if (g_.uses(VKATTN_D_K)) emit(VKATTN_D_K, head_, t, throughMap(keyMap_, n, true, key, part(place_.slopes) + n * width_), a_.keyDim);
    }

    // From the gradients of what the map makes of a token, `weights`, to those of the token.
    const float *throughMap(const FeatureMap &map, uint32_t token, bool ofKey, const float *mapped, const float *slopes) {
        const Floats f;
        float *const weights = part(place_.weights), *const to = part(place_.dims);
        if (!a_.hasFeatures()) return weights;
        const float *const factors = a_.hasMaximum() ? mapped : slopes;
        // A feature of RELU that is off takes no part, whatever its gradient is.
        const bool selects = a_.features == VKATTN_FEATURES_RELU;
        for (uint32_t r = 0; r < rows_; ++r) weights[r] = selects && factors[r] == 0 ? 0 : weights[r] * factors[r];
        const uint32_t m = a_.randomFeatures();
        if (m == 0) return weights;
        float all = 0;
        if (a_.hasMaximum() && ofKey) all = sumOfVectors(width_, [&](size_t r) HWY_ATTR { return hn::Load(f, weights + r); });
        for (uint32_t r = 0; r + m < rows_; ++r) weights[r] -= weights[m + r], weights[m + r] = 0; // FAVOR2: -omega
        const float root = a_.hasMaximum() ? map.rootOfScale(ofKey) : 1 / std::sqrt(static_cast<float>(m));
        for (uint32_t d = 0; d < a_.keyDim; ++d) {
            const float product = dotOf(weights, map.omegaOf(d), place_.omegaWidth);
            to[d] = root * (a_.hasMaximum() && ofKey ? product - all * map.scaled(token)[d] : product);
        }
        std::fill(weights, weights + width_, 0.0f);
        return to;
    }

    void emit(vkattn_role role, uint32_t head, uint32_t row, const float *from, uint32_t count) {
        if (!g_.uses(role)) return;
        const Tensor &t = g_.tensor(role);
        for (size_t n = 0; n < std::size(linearGradients); ++n)
            if (linearGradients[n] == role && call_.parts[n]) {
                const uint64_t place = (uint64_t{b_} * g_.headsOf(role) + head) * t.extent[2] + row;
                std::copy_n(from, count, call_.parts[n] + place * t.extent[3]);
                return;
            }
        storeScaled(role, a_.mappedHead(head, g_.headsOf(role), t.extent[1]), row, from, count);
    }
    // Stores a row of a gradient, divided by the loss scale, and notes where it is not finite.
    void storeScaled(vkattn_role role, uint32_t head, uint32_t row, const float *from, uint32_t count) {
        const Tensor &t = g_.tensor(role);
        unsigned char *const to = call_.operands.data[role];
        const uint64_t at = t.index(b_, head, row, 0);
        if (g_.lossScale != 1) {
            float *const scaled = part(place_.scaled);
            for (uint32_t d = 0; d < count; ++d) scaled[d] = from[d] / g_.lossScale;
            from = scaled;
        }
        storeRow(t, to, at, from, count);
        bool finite = true;
        for (uint32_t d = 0; d < count && g_.has(VKATTN_NONFINITE); ++d)
            finite = finite && std::isfinite(loadElement(to, t.dtype, at + d * static_cast<uint64_t>(t.stride[3])));
        if (!finite) call_.nonfinite->store(1, std::memory_order_relaxed);
    }
    void storeZerosOfRow(uint32_t i) {
        for (uint32_t n = 0; n < a_.heads / a_.stateHeads; ++n)
            emit(VKATTN_D_Q, a_.headOfState(head_, n), i, part(place_.zeros), a_.keyDim);
    }
    void storeZerosOfToken(uint32_t t) {
        for (const vkattn_role role : linearGradients)
            if (role != VKATTN_D_Q) emit(role, head_, t, part(place_.zeros), g_.tensor(role).extent[3]);
    }
    void storeState() {
        for (uint32_t r = 0; r < rows_; ++r) {
            storeScaled(VKATTN_D_STATE_IN, head_, r, dState_ + r * stride_, columns());
            const Tensor &t = g_.tensor(VKATTN_D_STATE_IN);
            if (a_.hasMaximum()) storeElement(call_.operands.data[VKATTN_D_STATE_IN], t.dtype, t.index(b_, head_, r, columns()), 0);
        }
    }

    const LinearGradientCall &call_;
    const LinearGradient &g_;
    const LinearAttention &a_;
    const uint32_t b_, head_;
    const LinearGradientScratch place_;
    float *const scratch_;
    const FeatureMap keyMap_, queryMap_;
    const uint32_t rows_;
    const size_t width_, stride_;
    float *const dState_;
};

} // namespace HWY_NAMESPACE
} // namespace vkattn
HWY_AFTER_NAMESPACE();
#endif
