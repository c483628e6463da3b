// The scan of one state head for a run of value dims, for one Highway target.
//
// With S the state before a chunk of tokens, and D_ij the decay from after token j to token i of the chunk, all
// rules come to the same products (vkattn/linear.h; Yang et al. 2024 for the delta rules):
//
//     out_i = (q_i decayed from the start)^T S + sum over j <= i of (q_i . k_j D_ij) u_j
//     S     = S decayed to the end + sum over j of (k_j D_end,j) u_j^T
//
// u_j is v_j, and for the delta rules the solution of a unit lower triangular system:
//
//     u_i + beta_i sum over j < i of (k_i . k_j D_ij) u_j = beta_i (v_i - (k_i decayed from the start)^T S)
//
// D_ij is computed for each pair, as the exponential of a sum of at most a chunk's numbers: no quotient of decays
// can overflow, and a row knows nothing of later tokens. FAVOR is the same with exponents in place of keys: a pair's
// product of features is the exponential of their sum, and the running maxima take the part of decays.
#if defined(VKATTN_CPU_LINEAR_SCAN_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef VKATTN_CPU_LINEAR_SCAN_INL_HPP
#undef VKATTN_CPU_LINEAR_SCAN_INL_HPP
#else
#define VKATTN_CPU_LINEAR_SCAN_INL_HPP
#endif

#include "cpu/linear/work.hpp"

#include <cmath>

#include "cpu/linear/features-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace vkattn {
namespace HWY_NAMESPACE {

class ScanOfHead {
  public:
    ScanOfHead(const LinearCall &call, const LinearUnit &unit, float *scratch)
        : call_(call), a_(call.a), unit_(unit), place_(call.a, call.columns), scratch_(scratch),
          map_(call.a, call.operands, place_, unit.b, unit.stateHead, scratch), rows_(call.a.stateRows), width_(place_.width),
          stride_(place_.stride), pitch_(place_.statePitch), state_(scratch + place_.state), maxima_(scratch + place_.maxima),
          keys_(scratch + place_.keys), queries_(scratch + place_.queries), values_(scratch + place_.values),
          results_(scratch + place_.results), factors_(scratch + place_.factors),
          written_(scratch + (call.a.isDelta() ? place_.written : place_.values)) {}

    void compute() {
        std::fill(scratch_ + place_.raw, scratch_ + place_.omega, 0.0f); // ends of rows too
        std::fill(scratch_ + place_.maxima, scratch_ + place_.total, 0.0f);
        map_.takeOmega();
        loadState();
        const uint32_t keys = keysOfEntry();
        const int64_t shift = a_.positionOfRow(keys);
        int64_t next = 0; // row
        if (a_.causal) next = std::clamp<int64_t>(-shift, 0, a_.queryTokens);
        if (keys == 0 && !a_.uses(VKATTN_STATE_IN)) next = a_.queryTokens;
        storeZeros(static_cast<uint32_t>(next));
        uint32_t snapshot = 0;
        for (uint32_t first = 0, count; first < keys; first += count) {
            count = call_.chunked ? std::min(linearChunk, keys - first) : 1;
            const bool keeps = snapshot < a_.snapshotCount();
            if (keeps) count = std::min(count, (snapshot + 1) * a_.snapshotTokens - first);
            const int64_t end = a_.causal ? std::clamp<int64_t>(first + count - shift, next, a_.queryTokens) : next;
            takeTokens(first, count);
            if (call_.chunked)
                takeChunk(first, count, static_cast<uint32_t>(next), static_cast<uint32_t>(end - next),
                          static_cast<uint32_t>(next + shift - first));
            else
                takeToken(static_cast<uint32_t>(next), static_cast<uint32_t>(end - next));
            next = end;
            if (keeps && first + count == (snapshot + 1) * a_.snapshotTokens) storeState(VKATTN_SNAPSHOTS, snapshot++);
        }
        for (; next < a_.queryTokens; next += linearChunk)
            readRows(static_cast<uint32_t>(next), static_cast<uint32_t>(std::min<int64_t>(linearChunk, a_.queryTokens - next)));
        for (; snapshot < a_.snapshotCount(); ++snapshot) storeState(VKATTN_SNAPSHOTS, snapshot);
        if (a_.uses(VKATTN_STATE_OUT)) storeState(VKATTN_STATE_OUT, 0);
    }

  private:
    [[nodiscard]] uint32_t keysOfEntry() const {
        return a_.has(VKATTN_KEY_LENGTHS) ? std::min(call_.operands.word(VKATTN_KEY_LENGTHS, unit_.b), a_.keyTokens) : a_.keyTokens;
    }
    [[nodiscard]] float *tokenOf(float *part, uint32_t token) const { return part + token * width_; }

    // The state.
    void loadState() {
        std::fill(state_, state_ + rows_ * pitch_, 0.0f);
        if (a_.uses(VKATTN_STATE_IN)) {
            StoredRows rows = storedRows(a_.tensor(VKATTN_STATE_IN), call_.operands.data[VKATTN_STATE_IN], unit_.b, unit_.stateHead, 0);
            rows.data += static_cast<ptrdiff_t>(unit_.firstColumn) * rows.dimStride * ptrdiff_t{sizeof(float)};
            rows.dims = unit_.columns;
            copyRows(rows, rows_, state_, pitch_);
        }
        const float *normalizer = call_.normalizers;
        if (normalizer) {
            normalizer += (uint64_t{unit_.b} * a_.stateHeads + unit_.stateHead) * 2 * rows_;
            for (uint32_t r = 0; r < rows_; ++r) state_[r * pitch_ + unit_.columns] = normalizer[r];
        }
        if (!a_.hasMaximum()) return;
        for (size_t r = 0; r < width_; ++r)
            maxima_[r] = normalizer && r < rows_ && normalizer[r] != 0 ? normalizer[rows_ + r] : minusInfinity;
    }
    void storeState(vkattn_role role, uint32_t snapshot) {
        const Tensor &t = a_.tensor(role);
        unsigned char *const to = call_.operands.data[role];
        for (uint32_t r = 0; r < rows_; ++r) {
            const uint64_t row = uint64_t{snapshot} * rows_ + r;
            const float *const from = state_ + r * pitch_;
            storeRow(t, to, t.index(unit_.b, unit_.stateHead, row, unit_.firstColumn), from, unit_.columns);
            if (!a_.hasFeatures() || unit_.firstColumn != 0) continue;
            const float ends[2] = {from[unit_.columns], maxima_[r] == minusInfinity ? 0 : maxima_[r]};
            for (uint32_t c = a_.valueDim; c < a_.stateColumns; ++c)
                storeElement(to, t.dtype, t.index(unit_.b, unit_.stateHead, row, c), ends[c - a_.valueDim]);
        }
    }

    // Tokens first to first + count - 1: keys, or what features make of them; values; decays and write strengths.
    void takeTokens(uint32_t first, uint32_t count) {
        map_.mapKeys(a_.keyHead(VKATTN_K, unit_.stateHead), first, count, keys_);
        StoredRows rows =
            storedRows(a_.tensor(VKATTN_V), call_.operands.data[VKATTN_V], unit_.b, a_.keyHead(VKATTN_V, unit_.stateHead), first);
        rows.data += static_cast<ptrdiff_t>(unit_.firstColumn) * rows.dimStride * static_cast<ptrdiff_t>(elementBytes(rows.dtype));
        rows.dims = unit_.columns;
        copyRows(rows, count, values_, stride_);
        for (uint32_t t = 0; a_.hasFeatures() && t < count; ++t) values_[t * stride_ + unit_.columns] = 1;
        if (a_.isDelta()) loadOfTokens(VKATTN_WRITE_STRENGTH, first, count, strengths_);
        if (!a_.isGated()) return;
        if (a_.decaysKeyDims())
            copyRows(storedRows(a_.tensor(VKATTN_DECAY), call_.operands.data[VKATTN_DECAY], unit_.b,
                                a_.keyHead(VKATTN_DECAY, unit_.stateHead), first),
                     count, scratch_ + place_.decays, width_);
        else
            loadOfTokens(VKATTN_DECAY, first, count, decays_);
    }
    // A number of each token.
    void loadOfTokens(vkattn_role role, uint32_t first, uint32_t count, float *to) const {
        const Tensor &t = a_.tensor(role);
        const unsigned char *const data = call_.operands.data[role];
        uint64_t at = t.index(unit_.b, a_.keyHead(role, unit_.stateHead), first, 0);
        for (uint32_t n = 0; n < count; ++n, at += static_cast<uint64_t>(t.stride[2])) to[n] = loadElement(data, t.dtype, at);
    }

    // A token on its own, and the rows that read after it.
    void takeToken(uint32_t row, uint32_t rowCount) {
        const Floats f;
        if (a_.hasMaximum()) {
            forWidth(width_, [&](size_t r) HWY_ATTR {
                const auto before = hn::Load(f, maxima_ + r), key = hn::Load(f, keys_ + r), now = largerOf(before, key);
                const Exponent relative(now);
                hn::Store(relative(before), f, factors_ + r);
                hn::Store(relative(key), f, keys_ + r);
                hn::Store(now, f, maxima_ + r);
            });
            scaleState();
        } else if (a_.isGated()) {
            const float *const each = a_.decaysKeyDims() ? scratch_ + place_.decays : nullptr;
            const auto all = hn::Set(f, decays_[0]);
            forWidth(width_, [&](size_t r) HWY_ATTR { hn::Store(expOf(each ? hn::Load(f, each + r) : all), f, factors_ + r); });
            scaleState();
        }
        if (a_.isDelta()) {
            std::fill(results_, results_ + stride_, 0.0f);
            addProduct({keys_, width_, 1}, rows_, state_, pitch_, 1, stride_, results_, stride_);
            writeDifference(0);
        }
        addProduct({keys_, 1, width_}, 1, written_, stride_, rows_, stride_, state_, pitch_);
        for (; rowCount; --rowCount) readRows(row++, 1);
    }
    void scaleState() {
        const Floats f;
        for (uint32_t r = 0; r < rows_; ++r) {
            float *const row = state_ + r * pitch_;
            const auto factor = hn::Set(f, factors_[r]);
            forWidth(stride_, [&](size_t c) HWY_ATTR { hn::Store(hn::Mul(factor, hn::Load(f, row + c)), f, row + c); });
        }
    }
    // u = beta (v - what results has).
    void writeDifference(uint32_t t) {
        const Floats f;
        const auto beta = hn::Set(f, strengths_[t]);
        forWidth(stride_, [&](size_t c) HWY_ATTR {
            const auto difference = hn::Sub(hn::Load(f, values_ + t * stride_ + c), hn::Load(f, results_ + t * stride_ + c));
            hn::Store(hn::Mul(beta, difference), f, written_ + t * stride_ + c);
        });
    }

    // A chunk from token `first` on, and the rows that read within it: `rowCount` rows from `row` on, the first at token `offset`.
    void takeChunk(uint32_t first, uint32_t count, uint32_t row, uint32_t rowCount, uint32_t offset) {
        if (a_.hasMaximum())
            runMaxima(count);
        else if (a_.isGated() && !a_.decaysKeyDims())
            computePairDecays(count);
        if (arePlainPairs()) layKeysAcross();
        RowsAhead keys = rowsAhead(VKATTN_K, a_.keyHead(VKATTN_K, unit_.stateHead), first + count, 0, a_.keyDim);
        RowsAhead values = rowsAhead(VKATTN_V, a_.keyHead(VKATTN_V, unit_.stateHead), first + count, unit_.firstColumn, unit_.columns);
        if (a_.isDelta()) solve(count, {&keys, 1});
        for (uint32_t n = 0; rowCount && n < a_.heads / a_.stateHeads; ++n) {
            const uint32_t head = a_.headOfState(unit_.stateHead, n);
            map_.mapQueries(a_.queryHead(head), row, rowCount, tokenOf(queries_, offset));
            if (a_.hasMaximum())
                for (uint32_t i = offset; i < offset + rowCount; ++i) subtractMost(tokenOf(queries_, i), runningAt(i), width_);
            computePairs(queries_, offset, offset + rowCount, scratch_ + place_.pairsOfQueries);
            float *const ofState = scratch_ + place_.keysOfState;
            decayFromStart(queries_, offset, offset + rowCount, ofState);
            std::fill(results_, results_ + linearChunk * stride_, 0.0f);
            addProduct({tokenOf(ofState, offset), width_, 1}, rows_, state_, pitch_, rowCount, stride_, results_ + offset * stride_,
                       stride_, nullptr, {&values, 1});
            for (uint32_t i = offset; i < offset + rowCount; ++i)
                addProduct({scratch_ + place_.pairsOfQueries + i * linearChunk, linearChunk, 1}, i + 1, written_, stride_, 1, stride_,
                           results_ + i * stride_, stride_);
            finishRows(head, row, rowCount, results_ + offset * stride_);
        }
        decayToEnd(count);
        RowsAhead rows[2];
        if (const uint32_t next = row + rowCount; a_.uses(VKATTN_OUT)) {
            const uint32_t head = a_.headOfState(unit_.stateHead, 0);
            rows[0] = rowsAhead(VKATTN_Q, a_.queryHead(head), next, 0, a_.keyDim);
            rows[1] = rowsAhead(VKATTN_OUT, head, next, unit_.firstColumn, unit_.columns);
        }
        addProduct({scratch_ + place_.keysToEnd, 1, width_}, count, written_, stride_, rows_, stride_, state_, pitch_,
                   a_.hasMaximum() || a_.isGated() ? factors_ : nullptr, rows);
    }
    // What the next chunk loads or stores of one of its operands: of dims that are neighbours.
    [[nodiscard]] RowsAhead rowsAhead(vkattn_role role, uint32_t head, uint32_t first, uint32_t dim, uint32_t dims) const {
        const Tensor &t = a_.tensor(role);
        if (!t.unitDims() || first >= t.extent[2]) return {};
        const unsigned char *const data = call_.operands.data[role] + t.index(unit_.b, head, first, dim) * elementBytes(t.dtype);
        return {data, static_cast<ptrdiff_t>(t.stride[2]) * static_cast<ptrdiff_t>(elementBytes(t.dtype)),
                std::min(linearChunk, t.extent[2] - first), (dims * elementBytes(t.dtype) + RowsAhead::line - 1) / RowsAhead::line};
    }
    [[nodiscard]] const float *runningAt(uint32_t t) const { return scratch_ + place_.running + t * width_; }
    void runMaxima(uint32_t count) {
        const Floats f;
        for (uint32_t t = 0; t < count; ++t) {
            const float *const before = t ? runningAt(t - 1) : maxima_;
            float *const now = scratch_ + place_.running + t * width_;
            forWidth(width_, [&](size_t r) HWY_ATTR {
                hn::Store(largerOf(hn::Load(f, before + r), hn::Load(f, keys_ + t * width_ + r)), f, now + r);
            });
        }
    }
    // exp of the sum of the decays of tokens j + 1 to i.
    void computePairDecays(uint32_t count) {
        for (uint32_t i = 0; i < count; ++i) {
            float *const row = scratch_ + place_.pairDecays + i * linearChunk;
            float sum = 0;
            for (uint32_t j = i + 1; j-- > 0; sum += decays_[j]) row[j] = sum;
            fromStart_[i] = sum;
        }
        // Not row by row: a vector that was just stored number by number is slow to load.
        exponentials(scratch_ + place_.pairDecays, size_t{count} * linearChunk);
        exponentials(fromStart_, linearChunk);
    }
    void exponentials(float *numbers, size_t count) const {
        const Floats f;
        for (size_t n = 0; n < count; n += lanes) hn::StoreU(expOf(hn::LoadU(f, numbers + n)), f, numbers + n);
    }
    // Products that no decay and no maximum of a key dim comes between: of whole rows with all keys of the chunk.
    [[nodiscard]] bool arePlainPairs() const { return !a_.hasMaximum() && !a_.decaysKeyDims(); }
    // Tokens past the last one hold what was there; no row reads them.
    void layKeysAcross() {
        float *const across = scratch_ + place_.keysAcross;
        for (uint32_t t = 0; t < linearChunk; t += 4) {
            const float *const four[] = {keys_ + t * width_, keys_ + (t + 1) * width_, keys_ + (t + 2) * width_, keys_ + (t + 3) * width_};
            transposeFour(four, width_, across + t, linearChunk);
        }
    }
    // Products of rows begin to end - 1 of `left` with the keys up to each row.
    void computePairs(const float *left, uint32_t begin, uint32_t end, float *pairs) {
        const Floats f;
        if (arePlainPairs()) {
            float *const first = pairs + begin * linearChunk;
            std::fill(first, pairs + end * linearChunk, 0.0f);
            addProduct({left + begin * width_, width_, 1}, width_, scratch_ + place_.keysAcross, linearChunk, end - begin, linearChunk,
                       first, linearChunk);
            for (size_t n = begin * linearChunk; a_.isGated() && n < end * linearChunk; n += lanes)
                hn::Store(hn::Mul(hn::Load(f, pairs + n), hn::Load(f, scratch_ + place_.pairDecays + n)), f, pairs + n);
            return;
        }
        for (uint32_t i = begin; i < end; ++i) {
            const float *const own = left + i * width_;
            float *const row = pairs + i * linearChunk;
            float *const sum = scratch_ + place_.weighted; // of the decays of each key dim
            if (a_.decaysKeyDims()) std::fill(sum, sum + width_, 0.0f);
            for (uint32_t j = i + 1; j-- > 0;) {
                const float *const key = keys_ + j * width_;
                if (a_.hasMaximum()) {
                    row[j] = sumOfVectors(width_, [&](size_t r) HWY_ATTR {
                        return exp2Of(hn::Mul(hn::Add(hn::Load(f, own + r), hn::Load(f, key + r)), hn::Set(f, log2e)));
                    });
                } else {
                    row[j] = sumOfVectors(width_, [&](size_t r) HWY_ATTR {
                        const auto decay = hn::Load(f, sum + r), product = hn::Mul(hn::Load(f, own + r), hn::Load(f, key + r));
                        hn::Store(hn::Add(decay, hn::Load(f, scratch_ + place_.decays + j * width_ + r)), f, sum + r);
                        return hn::Mul(product, expOf(decay));
                    });
                }
            }
        }
    }
    // Rows begin to end - 1 of `left` as they meet the state before the chunk.
    void decayFromStart(const float *left, uint32_t begin, uint32_t end, float *to) {
        const Floats f;
        float *const sum = scratch_ + place_.weighted;
        if (a_.decaysKeyDims()) std::fill(sum, sum + width_, 0.0f);
        for (uint32_t i = 0; i < end; ++i) {
            const float *const own = left + i * width_, *const decays = scratch_ + place_.decays + i * width_;
            float *const row = to + i * width_;
            if (a_.decaysKeyDims())
                forWidth(width_, [&](size_t r) HWY_ATTR { hn::Store(hn::Add(hn::Load(f, sum + r), hn::Load(f, decays + r)), f, sum + r); });
            if (i < begin) continue;
            if (a_.hasMaximum())
                featuresOfQuery(own, maxima_, width_, row);
            else if (a_.decaysKeyDims())
                forWidth(width_,
                         [&](size_t r) HWY_ATTR { hn::Store(hn::Mul(hn::Load(f, own + r), expOf(hn::Load(f, sum + r))), f, row + r); });
            else
                scaleTo(own, a_.isGated() ? fromStart_[i] : 1.0f, row);
        }
    }
    void scaleTo(const float *from, float factor, float *to) const {
        const Floats f;
        const auto each = hn::Set(f, factor);
        forWidth(width_, [&](size_t r) HWY_ATTR { hn::Store(hn::Mul(each, hn::Load(f, from + r)), f, to + r); });
    }
    // Keys as the state after the chunk has them, and what the state before is multiplied by.
    void decayToEnd(uint32_t count) {
        const Floats f;
        float *const toEnd = scratch_ + place_.keysToEnd, *const sum = scratch_ + place_.weighted;
        if (a_.hasMaximum()) {
            forWidth(width_, [&](size_t r) HWY_ATTR {
                const auto now = hn::Load(f, runningAt(count - 1) + r);
                const Exponent relative(now);
                hn::Store(relative(hn::Load(f, maxima_ + r)), f, factors_ + r);
                for (uint32_t t = 0; t < count; ++t) hn::Store(relative(hn::Load(f, keys_ + t * width_ + r)), f, toEnd + t * width_ + r);
                hn::Store(now, f, maxima_ + r);
            });
        } else if (a_.decaysKeyDims()) {
            std::fill(sum, sum + width_, 0.0f);
            for (uint32_t t = count; t-- > 0;)
                forWidth(width_, [&](size_t r) HWY_ATTR {
                    const auto decay = hn::Load(f, sum + r);
                    hn::Store(hn::Mul(hn::Load(f, keys_ + t * width_ + r), expOf(decay)), f, toEnd + t * width_ + r);
                    hn::Store(hn::Add(decay, hn::Load(f, scratch_ + place_.decays + t * width_ + r)), f, sum + r);
                });
            forWidth(width_, [&](size_t r) HWY_ATTR { hn::Store(expOf(hn::Load(f, sum + r)), f, factors_ + r); });
        } else {
            const float *const last = scratch_ + place_.pairDecays + (count - 1) * linearChunk;
            for (uint32_t t = 0; t < count; ++t) scaleTo(keys_ + t * width_, a_.isGated() ? last[t] : 1.0f, toEnd + t * width_);
            if (a_.isGated()) std::fill(factors_, factors_ + width_, fromStart_[count - 1]);
        }
    }
    // The values that the delta rules write, by forward substitution.
    void solve(uint32_t count, std::span<RowsAhead> ahead) {
        float *const pairs = scratch_ + place_.pairsOfKeys, *const ofState = scratch_ + place_.keysOfState;
        computePairs(keys_, 0, count, pairs);
        decayFromStart(keys_, 0, count, ofState);
        std::fill(results_, results_ + count * stride_, 0.0f);
        addProduct({ofState, width_, 1}, rows_, state_, pitch_, count, stride_, results_, stride_, nullptr, ahead);
        for (uint32_t i = 0; i < count; ++i) {
            if (i) addProduct({pairs + i * linearChunk, linearChunk, 1}, i, written_, stride_, 1, stride_, results_ + i * stride_, stride_);
            writeDifference(i);
        }
    }

    // Rows of out that read the state as it is.
    void readRows(uint32_t row, uint32_t count) {
        for (uint32_t n = 0; a_.uses(VKATTN_OUT) && n < a_.heads / a_.stateHeads; ++n) {
            const uint32_t head = a_.headOfState(unit_.stateHead, n);
            map_.mapQueries(a_.queryHead(head), row, count, queries_);
            for (uint32_t i = 0; a_.hasMaximum() && i < count; ++i) {
                subtractMost(tokenOf(queries_, i), maxima_, width_);
                featuresOfQuery(tokenOf(queries_, i), maxima_, width_, tokenOf(queries_, i));
            }
            std::fill(results_, results_ + count * stride_, 0.0f);
            addProduct({queries_, width_, 1}, rows_, state_, pitch_, count, stride_, results_, stride_);
            finishRows(head, row, count, results_);
        }
    }
    void finishRows(uint32_t head, uint32_t row, uint32_t count, float *results) {
        const Floats f;
        const Tensor &t = a_.tensor(VKATTN_OUT);
        for (uint32_t i = 0; i < count; ++i) {
            float *const own = results + i * stride_;
            const float sum = own[unit_.columns]; // of features
            const auto factor = hn::Set(f, a_.hasFeatures() ? sum : a_.scale);
            const auto zero = hn::Zero(f);
            forWidth(stride_, [&](size_t c) HWY_ATTR {
                const auto x = hn::Load(f, own + c);
                // Without a sum the row is 0, but for values that are NaN or infinite.
                hn::Store(!a_.hasFeatures() ? hn::Mul(factor, x) : sum == 0 ? hn::MulAdd(x, zero, zero) : hn::Div(x, factor), f, own + c);
            });
            storeRow(t, call_.operands.data[VKATTN_OUT], t.index(unit_.b, head, row + i, unit_.firstColumn), own, unit_.columns);
        }
    }
    // Rows 0 to count - 1, which see nothing.
    void storeZeros(uint32_t count) {
        std::fill(results_, results_ + stride_, 0.0f);
        const Tensor &t = a_.tensor(VKATTN_OUT);
        for (uint32_t n = 0; count && n < a_.heads / a_.stateHeads; ++n)
            for (uint32_t i = 0; i < count; ++i)
                storeRow(t, call_.operands.data[VKATTN_OUT], t.index(unit_.b, a_.headOfState(unit_.stateHead, n), i, unit_.firstColumn),
                         results_, unit_.columns);
    }

    const LinearCall &call_;
    const LinearAttention &a_;
    const LinearUnit &unit_;
    const LinearScratch place_;
    float *const scratch_;
    const FeatureMap map_;
    const uint32_t rows_;
    const size_t width_, stride_, pitch_;
    float *const state_, *const maxima_, *const keys_, *const queries_, *const values_, *const results_, *const factors_, *const written_;
    float decays_[linearChunk] = {}, strengths_[linearChunk] = {}, fromStart_[linearChunk] = {};
};

} // namespace HWY_NAMESPACE
} // namespace vkattn
HWY_AFTER_NAMESPACE();
#endif
