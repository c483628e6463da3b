// Attention of one unit of few rows that see the same keys, dims in lanes, for one Highway target.
//
// A new token's rows: one, or the query heads of a group. Nothing is computed often enough to be
// worth packing, the time is that of reading K and V, so both are read once, in order, for all
// rows.
#if defined(VKATTN_CPU_FEW_ROWS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef VKATTN_CPU_FEW_ROWS_INL_HPP
#undef VKATTN_CPU_FEW_ROWS_INL_HPP
#else
#define VKATTN_CPU_FEW_ROWS_INL_HPP
#endif

#include "cpu/attention.hpp"

#include "cpu/finish-inl.hpp"
#include "cpu/key_values-inl.hpp"
#include "cpu/pair_rules-inl.hpp"
#include "cpu/vectors-inl.hpp"

#include <hwy/cache_control.h>

HWY_BEFORE_NAMESPACE();
namespace vkattn {
namespace HWY_NAMESPACE {

const KernelShape &kernelShape();

// More rows than half a vector are better placed in lanes themselves.
constexpr uint32_t mostFewRows = static_cast<uint32_t>(lanes >= 4 ? lanes / 2 : 0);

#if HWY_TARGET != HWY_SCALAR // the scalar target has no lanes, and none of these operations
// Returns the sums of `lanes` vectors, one in each lane.
template <size_t count> HWY_INLINE Vector sumsOf(Vector *parts) {
    const Floats f;
    if constexpr (count == 1) {
        return parts[0];
    } else if constexpr (lanes > 8) {
        VKATTN_UNROLL for (size_t n = 0; n < count / 2; ++n) parts[n] =
            hn::Add(hn::ConcatEven(f, parts[2 * n + 1], parts[2 * n]), hn::ConcatOdd(f, parts[2 * n + 1], parts[2 * n]));
        return sumsOf<count / 2>(parts);
    } else { // half as many shuffles: those within blocks of four lanes first
        const hn::Repartition<double, Floats> pairs;
        Vector four[count / 4];
        VKATTN_UNROLL for (size_t n = 0; n < count / 4; ++n) {
            Vector *own = parts + 4 * n;
            const auto a = hn::BitCast(pairs, hn::Add(hn::InterleaveLower(f, own[0], own[1]), hn::InterleaveUpper(f, own[0], own[1])));
            const auto b = hn::BitCast(pairs, hn::Add(hn::InterleaveLower(f, own[2], own[3]), hn::InterleaveUpper(f, own[2], own[3])));
            four[n] = hn::Add(hn::BitCast(f, hn::InterleaveLower(pairs, a, b)), hn::BitCast(f, hn::InterleaveUpper(pairs, a, b)));
        }
        if constexpr (count == 4)
            return four[0];
        else
            return hn::Add(hn::ConcatLowerLower(f, four[1], four[0]), hn::ConcatUpperUpper(f, four[1], four[0]));
    }
}

// Rows of K or V that are read next, fetched line by line while the kernel computes with others.
// Arithmetic takes eight keys at once, which a processor's own prediction follows badly, and the
// prediction does not foresee the turn from K to V at all.
struct Ahead {
    const unsigned char *row; // the first row
    ptrdiff_t stride;         // bytes
    ptrdiff_t bytes;          // bytes of a row

    static constexpr ptrdiff_t line = 64;
};
struct AheadLines {
    const unsigned char *at, *end;
    ptrdiff_t skip, stride;

    AheadLines(const Ahead &rows, size_t first)
        : at(rows.row + static_cast<ptrdiff_t>(first) * rows.stride), end(at + rows.bytes), skip(rows.stride - rows.bytes),
          stride(rows.stride) {}
    HWY_INLINE void fetch() {
        hwy::Prefetch(at);
        at += Ahead::line;
        if (at < end) return;
        at = end + skip;
        end += stride;
    }
};

// Computes to[row][key] = scale * query[row] . keys[key] for `rows` rows and `lanes` keys, whose dims are whole steps of
// `vectors` vectors, and fetches as much of `ahead`.
template <size_t rows, size_t vectors, class Pointer>
HWY_INLINE void dotsOfKeys(const float *query, Pointer keys, ptrdiff_t stride, size_t dims, float scale, AheadLines &ahead, float *to,
                           size_t toStride) {
    const Floats f;
    // keys: sums enough to hide the latency of multiply-adds
    constexpr size_t together = std::min(8 / rows, lanes);
    constexpr size_t bytes = together * vectors * lanes * bitsOfElement<Pointer> / 8;
    Vector parts[rows][lanes];
    VKATTN_UNROLL for (size_t first = 0; first < lanes; first += together, keys = ofRow(keys, static_cast<ptrdiff_t>(together) * stride)) {
        Vector sum[rows][together];
        VKATTN_UNROLL for (size_t r = 0; r < rows; ++r) {
            VKATTN_UNROLL for (size_t n = 0; n < together; ++n) sum[r][n] = hn::Zero(f);
        }
        for (size_t d = 0; d < dims; d += vectors * lanes) {
            if (bytes >= Ahead::line || d * (bytes / (vectors * lanes)) % Ahead::line == 0)
                VKATTN_UNROLL for (size_t at = 0; at < bytes; at += Ahead::line) ahead.fetch();
            Vector q[rows][vectors];
            VKATTN_UNROLL for (size_t r = 0; r < rows; ++r) {
                VKATTN_UNROLL for (size_t v = 0; v < vectors; ++v) q[r][v] = hn::Load(f, query + r * dims + d + v * lanes);
            }
            VKATTN_UNROLL for (size_t n = 0; n < together; ++n) {
                Vector k[vectors];
                loadVectors<vectors>(ofRow(keys, static_cast<ptrdiff_t>(n) * stride) + static_cast<ptrdiff_t>(d), k);
                VKATTN_UNROLL for (size_t v = 0; v < vectors; ++v) {
                    VKATTN_UNROLL for (size_t r = 0; r < rows; ++r) sum[r][n] = hn::MulAdd(k[v], q[r][v], sum[r][n]);
                }
            }
        }
        VKATTN_UNROLL for (size_t r = 0; r < rows; ++r) {
            VKATTN_UNROLL for (size_t n = 0; n < together; ++n) parts[r][first + n] = sum[r][n];
        }
    }
    VKATTN_UNROLL for (size_t r = 0; r < rows; ++r) hn::Store(hn::Mul(sumsOf<lanes>(parts[r]), hn::Set(f, scale)), f, to + r * toStride);
}

// Computes out[row][dim] += sum_key weights[row][key] values[key][dim] for `rows` rows and
// `vectors` vectors of dims.
template <size_t rows, size_t vectors, class Pointer>
HWY_INLINE void addValues(Pointer values, ptrdiff_t stride, size_t keys, const float *weights, size_t weightStride, float *out, size_t dims,
                          Ahead ahead) {
    const Floats f;
    constexpr size_t bytes = vectors * lanes * bitsOfElement<Pointer> / 8; // bytes of a key
    constexpr size_t together = std::min(vectors, loadedTogether<Pointer>);
    Vector sum[rows][vectors];
    VKATTN_UNROLL for (size_t r = 0; r < rows; ++r) {
        VKATTN_UNROLL for (size_t v = 0; v < vectors; ++v) sum[r][v] = hn::Load(f, out + r * dims + v * lanes);
    }
    for (size_t key = 0; key < keys; ++key, values = ofRow(values, stride), ahead.row += ahead.stride) {
        VKATTN_UNROLL for (size_t at = 0; at < bytes; at += Ahead::line) hwy::Prefetch(ahead.row + at);
        Vector w[rows];
        VKATTN_UNROLL for (size_t r = 0; r < rows; ++r) w[r] = hn::Set(f, weights[r * weightStride + key]);
        VKATTN_UNROLL for (size_t v = 0; v < vectors; v += together) {
            Vector x[together];
            loadVectors<together>(values + static_cast<ptrdiff_t>(v * lanes), x);
            VKATTN_UNROLL for (size_t n = 0; n < together; ++n) {
                VKATTN_UNROLL for (size_t r = 0; r < rows; ++r) sum[r][v + n] = hn::MulAdd(w[r], x[n], sum[r][v + n]);
            }
        }
    }
    VKATTN_UNROLL for (size_t r = 0; r < rows; ++r) {
        VKATTN_UNROLL for (size_t v = 0; v < vectors; ++v) hn::Store(sum[r][v], f, out + r * dims + v * lanes);
    }
}
template <size_t rows, class Pointer>
HWY_INLINE void addValuesOfRows(Pointer values, ptrdiff_t stride, size_t keys, const float *weights, size_t weightStride, float *out,
                                size_t dims, Ahead ahead) {
    constexpr size_t vectors = 8 / rows; // eight sums in all
    size_t d = 0;
    const auto add = [&]<size_t count>() {
        addValues<rows, count>(values + static_cast<ptrdiff_t>(d), stride, keys, weights, weightStride, out + d, dims, ahead);
        d += count * lanes;
        ahead.row += count * lanes * bitsOfElement<Pointer> / 8;
    };
    if constexpr (rows == 1)
        // Long rows of V are read in one go.
        while (d + 2 * vectors * lanes <= dims) add.template operator()<2 * vectors>();
    while (d + vectors * lanes <= dims) add.template operator()<vectors>();
    if constexpr (vectors > 4)
        if (d + 4 * lanes <= dims) add.template operator()<4>();
    if constexpr (vectors > 2)
        if (d + 2 * lanes <= dims) add.template operator()<2>();
    while (d < dims) add.template operator()<1>();
}

class FewRowsAttention {
  public:
    FewRowsAttention(const Call &call, const Unit &unit, float *scratch)
        : call_(call), p_(call.p), unit_(unit), at_(scratchLayout(p_, call.tiling, kernelShape())), scratch_(scratch) {}

    // Returns whether a unit may be computed here. The answer is the same for every way to cut a
    // problem.
    static bool fits(const Call &call, const Sequence &s) {
        const Problem &p = call.p;
        const Tensor &k = p.tensor(VKATTN_K), &v = p.tensor(VKATTN_V);
        const bool sameKeys = s.queries == 1 || p.sameReach();
        return uint64_t{s.queries} * p.groupSize() <= mostFewRows && sameKeys && isPlain(p) && !p.drops() && !p.writesPairs() &&
               k.unitDims() && v.unitDims() && p.headDim % lanes == 0 && p.valueDim % lanes == 0;
    }

    void attend() {
        loadQueries();
        const RowPlace place = placeOf(p_, *unit_.s, unit_.kvHead, 0);
        const uint32_t begin = std::max(place.begin, unit_.keyBegin), end = std::min(place.end, unit_.keyEnd);
        const Pieces pieces{p_, call_.operands, unit_.s->batch};
        for (uint32_t from = begin, to; from < end; from = to) {
            to = std::min(from + blockKeys, end);
            if (p_.paged()) to = std::min(to, pieces.endOfPiece(from)); // rows of a block lie at one distance
            // Which keys share a block does not depend on segments, so that bits do not.
            const bool copied = p_.segmented() && pieces.endOfPiece(from) < to;
            const StoredRows keys = copied ? copyOf(VKATTN_K, from, to, part(at_.keys)) : rows(VKATTN_K, from),
                             values = copied ? copyOf(VKATTN_V, from, to, part(at_.values)) : rows(VKATTN_V, from),
                             next = rows(VKATTN_K, to < end ? to : from);
            keys.byCacheType([&](auto own) { score(own, keys.rowStride, to - from, ahead(values)); });
            weigh(to - from);
            values.byCacheType([&](auto own) { add(own, values.rowStride, to - from, ahead(next)); });
        }
        finish(begin < end);
    }

  private:
    static constexpr uint32_t blockKeys = fewRowsKeys;

    float *part(size_t at) const { return scratch_ + at; }
    float *query(uint32_t row) const { return part(at_.query) + size_t{row} * p_.headDim; }
    float *out(uint32_t row) const { return part(at_.out) + size_t{row} * p_.valueDim; }
    float *weights(uint32_t row) { return weights_ + size_t{row} * blockKeys; }

    void loadQueries() {
        const Tensor &t = p_.tensor(VKATTN_Q);
        const uint64_t step = static_cast<uint64_t>(t.stride[3]);
        for (uint32_t r = 0; r < unit_.rows; ++r) {
            const RowPlace place = placeOf(p_, *unit_.s, unit_.kvHead, r);
            uint64_t at = t.index(unit_.s->batch, place.head, unit_.s->query(place.query), 0);
            for (uint32_t d = 0; d < p_.headDim; ++d, at += step) query(r)[d] = loadElement(call_.operands.data[VKATTN_Q], t.dtype, at);
            std::fill(out(r), out(r) + p_.valueDim, 0.0f);
            maximum_[r] = minusInfinity;
            sum_[r] = 0;
        }
    }

    StoredRows rows(vkattn_role role, uint32_t j) const { return rowsOf(call_, role, *unit_.s, unit_.kvHead, j); }

    StoredRows copyOf(vkattn_role role, uint32_t begin, uint32_t end, float *copy) const {
        const TileRows tile = tileOfPieces(call_, role, *unit_.s, unit_.kvHead, begin, end, true, copy);
        return {reinterpret_cast<const unsigned char *>(tile.data), VKATTN_F32, p_.tensor(role).extent[3], tile.stride, 1};
    }

    static Ahead ahead(const StoredRows &rows) {
        const auto block = static_cast<ptrdiff_t>(elementsOfBlock(rows.dtype)), size = static_cast<ptrdiff_t>(bytesOfBlock(rows.dtype));
        const ptrdiff_t stride = rows.rowStride / block * size, bytes = (static_cast<ptrdiff_t>(rows.dims) + block - 1) / block * size +
                                                                        static_cast<ptrdiff_t>(bytesBeforeRow(rows.dtype));
        return {rows.data, stride, stride == bytes ? bytes * blockKeys : bytes};
    }

    template <class Pointer> void score(Pointer keys, ptrdiff_t stride, uint32_t count, const Ahead &values) {
        uint32_t r = 0;
        for (; r + 4 <= unit_.rows; r += 4) scoreRows<4>(r, keys, stride, count, values);
        for (; r + 2 <= unit_.rows; r += 2) scoreRows<2>(r, keys, stride, count, values);
        if (r < unit_.rows) scoreRows<1>(r, keys, stride, count, values);
    }
    template <size_t rows, class Pointer>
    HWY_INLINE void scoreRows(uint32_t row, Pointer keys, ptrdiff_t stride, uint32_t count, const Ahead &values) {
        const Floats f;
        const size_t dims = p_.headDim;
        float *to = weights(row);
        AheadLines lines(values, 0);
        uint32_t j = 0;
        const auto inSteps = [&]<size_t vectors>() {
            for (; j + lanes <= count; j += static_cast<uint32_t>(lanes), keys = ofRow(keys, static_cast<ptrdiff_t>(lanes) * stride))
                dotsOfKeys<rows, vectors>(query(row), keys, stride, dims, p_.scale, lines, to + j, blockKeys);
        };
        constexpr size_t vectors = loadedTogether<Pointer>;
        if (vectors > 1 && dims % (vectors * lanes) == 0)
            inSteps.template operator()<vectors>();
        else
            inSteps.template operator()<1>();
        for (; j < count; ++j, keys = ofRow(keys, stride))
            for (size_t r = 0; r < rows; ++r) {
                auto sum = hn::Zero(f);
                const float *own = query(row) + r * dims;
                for (size_t d = 0; d < dims; d += lanes)
                    sum = hn::MulAdd(loadFloats(keys + static_cast<ptrdiff_t>(d)), hn::Load(f, own + d), sum);
                to[r * blockKeys + j] = hn::GetLane(hn::SumOfLanes(f, sum)) * p_.scale;
            }
        for (; j % lanes; ++j)
            for (size_t r = 0; r < rows; ++r) to[r * blockKeys + j] = minusInfinity;
    }

    void weigh(uint32_t count) {
        const Floats f;
        for (uint32_t r = 0; r < unit_.rows; ++r) {
            float *scores = weights(r);
            auto top = hn::Load(f, scores);
            for (uint32_t j = static_cast<uint32_t>(lanes); j < count; j += static_cast<uint32_t>(lanes))
                top = hn::Max(top, hn::Load(f, scores + j));
            const auto before = hn::Set(f, maximum_[r]);
            const auto now = hn::Max(before, hn::MaxOfLanes(f, top));
            const Exponent weight(now);
            auto added = hn::Zero(f);
            for (uint32_t j = 0; j < count; j += static_cast<uint32_t>(lanes)) {
                const auto w = weight(hn::Load(f, scores + j));
                hn::Store(w, f, scores + j);
                added = hn::Add(added, w);
            }
            const auto factor = weight(before);
            maximum_[r] = hn::GetLane(now);
            sum_[r] = sum_[r] * hn::GetLane(factor) + hn::GetLane(hn::SumOfLanes(f, added));
            if (hn::GetLane(factor) == 1) continue;
            for (size_t d = 0; d < p_.valueDim; d += lanes) hn::Store(hn::Mul(hn::Load(f, out(r) + d), factor), f, out(r) + d);
        }
    }

    template <class Pointer> void add(Pointer values, ptrdiff_t stride, uint32_t count, const Ahead &keys) {
        const size_t dims = p_.valueDim;
        uint32_t r = 0;
        for (; r + 4 <= unit_.rows; r += 4) addValuesOfRows<4>(values, stride, count, weights(r), blockKeys, out(r), dims, keys);
        for (; r + 2 <= unit_.rows; r += 2) addValuesOfRows<2>(values, stride, count, weights(r), blockKeys, out(r), dims, keys);
        if (r < unit_.rows) addValuesOfRows<1>(values, stride, count, weights(r), blockKeys, out(r), dims, keys);
    }

    void finish(bool seen) {
        const uint32_t dims = p_.valueDim;
        for (uint32_t r = 0; r < unit_.rows; ++r) {
            if (unit_.partial) {
                float *to = unit_.partial + r * call_.partialFloats();
                std::copy(out(r), out(r) + dims, to);
                to[dims] = maximum_[r];
                to[dims + 1] = sum_[r];
                to[dims + 2] = seen ? 1.0f : 0.0f;
            } else {
                finishRow(call_, *unit_.s, placeOf(p_, *unit_.s, unit_.kvHead, r), out(r), maximum_[r], sum_[r], seen);
            }
        }
    }

    const Call &call_;
    const Problem &p_;
    const Unit &unit_;
    const ScratchLayout at_;
    float *scratch_;
    float maximum_[mostFewRows], sum_[mostFewRows];
    alignas(64) float weights_[mostFewRows * blockKeys];
};
#endif

} // namespace HWY_NAMESPACE
} // namespace vkattn
HWY_AFTER_NAMESPACE();
#endif
