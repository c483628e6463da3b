// Small products of matrices in scratch memory, for one Highway target. Sums run in the order of their terms.
#if defined(VKATTN_CPU_LINEAR_PRODUCTS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef VKATTN_CPU_LINEAR_PRODUCTS_INL_HPP
#undef VKATTN_CPU_LINEAR_PRODUCTS_INL_HPP
#else
#define VKATTN_CPU_LINEAR_PRODUCTS_INL_HPP
#endif

#include "cpu/rows-inl.hpp"

#include <hwy/cache_control.h>
#include <span>

HWY_BEFORE_NAMESPACE();
namespace vkattn {
namespace HWY_NAMESPACE {

// A matrix whose element (i, n) lies at i * row + n * inner.
struct LeftMatrix {
    const float *data;
    size_t row, inner;
};

// Rows that are loaded after a product: the product fetches them into the cache meanwhile, some lines after each of its blocks.
struct RowsAhead {
    static constexpr size_t line = 64;
    const unsigned char *row = nullptr;
    ptrdiff_t step = 0;         // bytes from a row to the next
    size_t rows = 0, lines = 0; // of a row
    size_t next = 0;            // line of the row

    HWY_INLINE void fetch(size_t count) {
        for (; count && rows; --count) {
            hwy::Prefetch(row + next * line);
            if (++next < lines) continue;
            next = 0, row += step, --rows;
        }
    }
};

// Adds rows x vectors of a b to `to`, whose rows are first multiplied by `factors`; NULL: they are not.
template <size_t rows, size_t vectors>
HWY_INLINE void addBlock(const LeftMatrix &a, size_t inner, const float *HWY_RESTRICT b, size_t bStride, float *HWY_RESTRICT to,
                         size_t toStride, const float *factors) {
    const Floats f;
    Vector sum[rows][vectors];
    VKATTN_UNROLL for (size_t i = 0; i < rows; ++i) VKATTN_UNROLL for (size_t v = 0; v < vectors; ++v) sum[i][v] =
        hn::Load(f, to + i * toStride + v * lanes);
    if (factors) VKATTN_UNROLL for (size_t i = 0; i < rows; ++i) {
            const auto factor = hn::Set(f, factors[i]);
            VKATTN_UNROLL for (size_t v = 0; v < vectors; ++v) sum[i][v] = hn::Mul(factor, sum[i][v]);
        }
    const float *left = a.data;
    for (size_t n = 0; n < inner; ++n, left += a.inner, b += bStride) {
        Vector right[vectors];
        VKATTN_UNROLL for (size_t v = 0; v < vectors; ++v) right[v] = hn::Load(f, b + v * lanes);
        VKATTN_UNROLL for (size_t i = 0; i < rows; ++i) {
            const auto factor = hn::Set(f, left[i * a.row]);
            VKATTN_UNROLL for (size_t v = 0; v < vectors; ++v) sum[i][v] = hn::MulAdd(factor, right[v], sum[i][v]);
        }
    }
    VKATTN_UNROLL for (size_t i = 0; i < rows; ++i) VKATTN_UNROLL for (size_t v = 0; v < vectors; ++v)
        hn::Store(sum[i][v], f, to + i * toStride + v * lanes);
}

// Several rows at a time, and what is left one by one; after each of the former, what comes after the product is fetched.
template <size_t most, size_t vectors, class Fetch>
HWY_INLINE void addColumns(const LeftMatrix &a, size_t inner, const float *b, size_t bStride, size_t rows, float *to, size_t toStride,
                           const float *factors, const Fetch &fetch) {
    const auto factorsFrom = [&](size_t i) { return factors ? factors + i : nullptr; };
    size_t i = 0;
    for (; i + most <= rows; i += most) {
        addBlock<most, vectors>({a.data + i * a.row, a.row, a.inner}, inner, b, bStride, to + i * toStride, toStride, factorsFrom(i));
        fetch();
    }
    for (; i < rows; ++i)
        addBlock<1, vectors>({a.data + i * a.row, a.row, a.inner}, inner, b, bStride, to + i * toStride, toStride, factorsFrom(i));
}

// Adds a b to `to`: `rows` rows of a, `inner` terms, and so many columns, whole cache lines. `factors`: what the rows of `to` are
// multiplied by before; NULL: nothing. Rows of `ahead` are fetched meanwhile.
inline void addProduct(const LeftMatrix &a, size_t inner, const float *b, size_t bStride, size_t rows, size_t columns, float *to,
                       size_t toStride, const float *factors = nullptr, std::span<RowsAhead> ahead = {}) {
    constexpr size_t most = registers == 32 ? 4 : 2;
    const size_t blocks = std::max<size_t>(rows / most * (columns / (4 * lanes)), 1);
    size_t lines = 0; // of all, a block
    for (const RowsAhead &each : ahead) lines = std::max(lines, (each.rows * each.lines + blocks - 1) / blocks);
    const auto fetch = [&] {
        for (RowsAhead &each : ahead) each.fetch(lines);
    };
    size_t c = 0;
    // A row by itself needs as many sums as hide the latency of a multiply-add.
    for (; rows < most && c + 8 * lanes <= columns; c += 8 * lanes)
        addColumns<1, 8>(a, inner, b + c, bStride, rows, to + c, toStride, factors, fetch);
    for (; c + 4 * lanes <= columns; c += 4 * lanes) addColumns<most, 4>(a, inner, b + c, bStride, rows, to + c, toStride, factors, fetch);
    for (; c < columns; c += lanes) addColumns<8, 1>(a, inner, b + c, bStride, rows, to + c, toStride, factors, fetch);
}

// Returns the sum of term(n) over the vectors of a row of whole cache lines.
template <class Term> HWY_INLINE float sumOfVectors(size_t width, const Term &term) {
    const Floats f;
    auto even = hn::Zero(f), odd = even;
    size_t n = 0;
    for (; n + 2 * lanes <= width; n += 2 * lanes) even = hn::Add(even, term(n)), odd = hn::Add(odd, term(n + lanes));
    if (n < width) even = hn::Add(even, term(n));
    return hn::GetLane(hn::SumOfLanes(f, hn::Add(even, odd)));
}
HWY_INLINE float dotOf(const float *a, const float *b, size_t width) {
    const Floats f;
    auto even = hn::Zero(f), odd = even;
    size_t n = 0;
    for (; n + 2 * lanes <= width; n += 2 * lanes) {
        even = hn::MulAdd(hn::Load(f, a + n), hn::Load(f, b + n), even);
        odd = hn::MulAdd(hn::Load(f, a + n + lanes), hn::Load(f, b + n + lanes), odd);
    }
    if (n < width) even = hn::MulAdd(hn::Load(f, a + n), hn::Load(f, b + n), even);
    return hn::GetLane(hn::SumOfLanes(f, hn::Add(even, odd)));
}

// Calls visit(n) for the vectors of a row of whole cache lines.
template <class Visit> HWY_INLINE void forWidth(size_t width, const Visit &visit) {
    for (size_t n = 0; n < width; n += lanes) visit(n);
}

// Returns exp(x) for any x: infinity above the range of floats, 0 below it.
HWY_INLINE Vector expOf(Vector x) {
    const Floats f;
    const auto scaled = hn::Mul(x, hn::Set(f, log2e)), most = hn::Set(f, 126.0f);
    const auto large = hn::Gt(scaled, most);
    // Beyond the range of exp2Of in two steps: the power of the rest is 1 to 4, or more than what makes infinity.
    const auto rest = hn::IfThenElseZero(large, hn::Min(hn::Sub(scaled, most), hn::Set(f, 4.0f)));
    const auto power = exp2Of(hn::IfThenElse(large, hn::Set(f, 60.0f), scaled));
    return hn::IfThenElse(large, hn::Mul(hn::Mul(power, exp2Of(hn::Add(rest, hn::Set(f, 60.0f)))), hn::Set(f, 64.0f)), power);
}

} // namespace HWY_NAMESPACE
} // namespace vkattn
HWY_AFTER_NAMESPACE();
#endif
