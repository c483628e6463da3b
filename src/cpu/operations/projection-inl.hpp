// A unit of a projection, for one Highway target.
//
// Tiles: columns of Y in lanes. W is packed so that a panel of columns lies together, an element of
// X is a broadcast, and so nothing of one row can reach another. Few rows: dims of `in` in lanes.
// The time is that of reading W, so W is read once, in order, where it lies.
#if defined(VKATTN_CPU_OPERATIONS_PROJECTION_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef VKATTN_CPU_OPERATIONS_PROJECTION_INL_HPP
#undef VKATTN_CPU_OPERATIONS_PROJECTION_INL_HPP
#else
#define VKATTN_CPU_OPERATIONS_PROJECTION_INL_HPP
#endif

#include "cpu/operations/work.hpp"

#include <algorithm>

#include "cpu/rows-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace vkattn {
namespace HWY_NAMESPACE {

class ProjectionUnit {
  public:
    static constexpr size_t vectors = 2, panel = vectors * lanes;

    HWY_INLINE ProjectionUnit(const OperationCall &call, uint64_t unit, float *scratch)
        : call_(call), o_(call.o), at_(call.o, call.tiling), scratch_(scratch) {
        const ProjectionTiling &t = call.tiling;
        const uint64_t block = unit % (t.rowBlocks * t.columnBlocks), entry = unit / (t.rowBlocks * t.columnBlocks);
        b_ = static_cast<uint32_t>(entry / o_.groups);
        g_ = static_cast<uint32_t>(entry % o_.groups);
        in_ = call.innerOf(b_);
        firstRow_ = static_cast<uint32_t>(block % t.rowBlocks * t.rows);
        firstColumn_ = static_cast<uint32_t>(block / t.rowBlocks * t.columns);
        rows_ = std::min(t.rows, o_.rows - firstRow_);
        columns_ = std::min(t.columns, o_.out - firstColumn_);
    }

    HWY_INLINE void project() {
        if (call_.tiling.fewRows)
            byType([&](auto *w) { projectFewRows(w); });
        else
            projectTiles();
        finish();
    }

  private:
    [[nodiscard]] HWY_INLINE float *x() const { return scratch_ + at_.x; }
    [[nodiscard]] HWY_INLINE float *sums() const { return scratch_ + at_.sums; }

    // Returns rows of X or W as they lie, from element `k` of `in` on.
    [[nodiscard]] HWY_INLINE StoredRows stored(vkattn_role role, uint64_t row, uint32_t k, uint32_t count) const {
        const Tensor &t = o_.tensor(role);
        StoredRows rows = storedRows(t, call_.read(role), b_, g_, row);
        rows.data += k * static_cast<ptrdiff_t>(t.stride[3]) * static_cast<ptrdiff_t>(elementBytes(t.dtype));
        rows.dims = count;
        return rows;
    }

    HWY_INLINE void projectTiles() {
        if (in_ == 0) std::fill(sums(), sums() + rows_ * at_.sumStride, 0.0f);
        for (uint32_t k = 0; k < in_; k += partOfIn) {
            const uint32_t part = std::min(partOfIn, in_ - k);
            packW(k, part);
            copyRows(stored(VKATTN_X, firstRow_, k, part), rows_, x(), at_.xStride);
            for (uint32_t r = 0; r < rows_;) {
                constexpr size_t most = blockSize<vectors>;
                const size_t count = nextBlock<most>(rows_ - r);
                if (count == most)
                    addTiles<most>(r, part, k == 0);
                else if (count == most * 2 / 3)
                    addTiles<most * 2 / 3>(r, part, k == 0);
                else if (count == most / 3)
                    addTiles<most / 3>(r, part, k == 0);
                else
                    addTiles<1>(r, part, k == 0);
                r += static_cast<uint32_t>(count);
            }
        }
    }

    // Packs the unit's part of W as [panel of columns][k][column]. Columns past the end are 0.
    HWY_INLINE void packW(uint32_t k, uint32_t part) {
        float *to = scratch_ + at_.w;
        for (uint32_t c = 0; c < columns_; c += panel, to += size_t{part} * panel) {
            const auto count = static_cast<uint32_t>(std::min<size_t>(panel, columns_ - c));
            const StoredRows rows = stored(VKATTN_W, uint64_t{firstColumn_} + c, k, part);
            if (count == panel && rows.rowStride == 1 && rows.dimStride != 1)
                packAcross(rows, to);
            else
                packAlong(rows, count, to);
        }
    }
    // For a matrix [in, out]: neighbouring columns lie together.
    static HWY_INLINE void packAcross(const StoredRows &rows, float *to) {
        rows.byType([&](auto *from) {
            for (uint32_t k = 0; k < rows.dims; ++k, from += rows.dimStride, to += panel)
                VKATTN_UNROLL for (size_t v = 0; v < vectors; ++v) hn::Store(loadFloats(from + v * lanes), Floats(), to + v * lanes);
        });
    }
    HWY_INLINE void packAlong(StoredRows rows, uint32_t count, float *to) {
        if (count < panel) std::fill(to, to + size_t{rows.dims} * panel, 0.0f);
        const bool floats = rows.dtype == VKATTN_F32 && rows.dimStride == 1;
        const ptrdiff_t rowBytes = rows.rowStride * static_cast<ptrdiff_t>(elementBytes(rows.dtype));
        for (uint32_t c = 0; c < count; c += 4, rows.data += 4 * rowBytes) {
            const uint32_t four = std::min(4u, count - c);
            float *staging = scratch_ + at_.staging;
            const float *from[4];
            for (uint32_t n = 0; n < 4; ++n)
                from[n] = floats && n < four ? reinterpret_cast<const float *>(rows.data + n * rowBytes) : staging + n * partOfIn;
            if (!floats) copyRows(rows, four, staging, partOfIn);
            if (four == 4 && lanes > 1) {
                transposeFour(from, rows.dims, to + c, panel);
            } else {
                for (uint32_t n = 0; n < four; ++n)
                    for (uint32_t k = 0; k < rows.dims; ++k) to[k * panel + c + n] = from[n][k];
            }
        }
    }

    // Adds the products of one part of `in` for `count` rows and all columns.
    template <size_t count> HWY_INLINE void addTiles(uint32_t row, uint32_t part, bool first) {
        const float *w = scratch_ + at_.w;
        for (uint32_t c = 0; c < columns_; c += panel, w += size_t{part} * panel)
            addTile<count>(x() + row * at_.xStride, w, part, sums() + row * at_.sumStride + c, first);
    }
    template <size_t count>
    HWY_INLINE void addTile(const float *HWY_RESTRICT x, const float *HWY_RESTRICT w, uint32_t part, float *HWY_RESTRICT to, bool first) {
        const Floats f;
        const size_t stride = at_.xStride;
        Vector sum[count][vectors];
        VKATTN_UNROLL for (size_t r = 0; r < count; ++r) {
            VKATTN_UNROLL for (size_t v = 0; v < vectors; ++v) sum[r][v] = hn::Zero(f);
        }
        HWY_UNROLL(4) for (uint32_t k = 0; k < part; ++k, w += panel) {
            Vector column[vectors];
            VKATTN_UNROLL for (size_t v = 0; v < vectors; ++v) column[v] = hn::Load(f, w + v * lanes);
            VKATTN_UNROLL for (size_t r = 0; r < count; ++r) {
                const auto value = hn::Set(f, x[r * stride + k]);
                VKATTN_UNROLL for (size_t v = 0; v < vectors; ++v) sum[r][v] = hn::MulAdd(value, column[v], sum[r][v]);
            }
        }
        VKATTN_UNROLL for (size_t r = 0; r < count; ++r) {
            VKATTN_UNROLL for (size_t v = 0; v < vectors; ++v) {
                float *at = to + r * at_.sumStride + v * lanes;
                hn::Store(first ? sum[r][v] : hn::Add(hn::Load(f, at), sum[r][v]), f, at);
            }
        }
    }

    template <class Visit> HWY_INLINE void byType(const Visit &visit) { stored(VKATTN_W, firstColumn_, 0, o_.inner).byType(visit); }

    template <class Element> HWY_INLINE void projectFewRows(const Element *w) {
        if (in_ > 0) copyRows(stored(VKATTN_X, firstRow_, 0, in_), rows_, x(), at_.xStride);
        // Lanes past the end are 0 * 0.
        for (uint32_t r = 0; r < rows_; ++r) std::fill(x() + r * at_.xStride + in_, x() + (r + 1) * at_.xStride, 0.0f);
        // As many columns at a time as there are registers for their sums.
        switch (rows_) {
        case 1:
            return projectRows<1, 8>(w);
        case 2:
            return projectRows<2, 4>(w);
        case 3:
            return projectRows < 3, registers == 32 ? 4 : 2 > (w);
        case 4:
            return projectRows < 4, registers == 32 ? 4 : 2 > (w);
        case 5:
            return projectRows < 5, registers == 32 ? 2 : 1 > (w);
        case 6:
            return projectRows < 6, registers == 32 ? 2 : 1 > (w);
        case 7:
            return projectRows < 7, registers == 32 ? 2 : 1 > (w);
        default:
            static_assert(mostProjectedFewRows == 8);
            return projectRows < 8, registers == 32 ? 2 : 1 > (w);
        }
    }
    // Every element is one chain of additions in each lane, whatever columns are beside it.
    template <size_t count, size_t columns, class Element> HWY_INLINE void projectRows(const Element *w) {
        const auto stride = static_cast<ptrdiff_t>(o_.tensor(VKATTN_W).stride[2]);
        uint32_t c = 0;
        for (; c + columns <= columns_; c += columns, w += static_cast<ptrdiff_t>(columns) * stride) dots<count, columns>(w, stride, c);
        for (; c < columns_; ++c, w += stride) dots<count, 1>(w, stride, c);
    }
    template <size_t count, size_t columns, class Element> HWY_INLINE void dots(const Element *w, ptrdiff_t stride, uint32_t c) {
        const Floats f;
        Vector sum[columns][count];
        VKATTN_UNROLL for (size_t n = 0; n < columns; ++n) {
            VKATTN_UNROLL for (size_t r = 0; r < count; ++r) sum[n][r] = hn::Zero(f);
        }
        const size_t in = in_;
        const auto add = [&](size_t k, const Vector(&values)[columns]) HWY_ATTR {
            VKATTN_UNROLL for (size_t r = 0; r < count; ++r) {
                const auto own = hn::LoadU(f, x() + r * at_.xStride + k);
                VKATTN_UNROLL for (size_t n = 0; n < columns; ++n) sum[n][r] = hn::MulAdd(own, values[n], sum[n][r]);
            }
        };
        size_t k = 0;
        for (; k + lanes <= in; k += lanes) {
            Vector values[columns];
            VKATTN_UNROLL for (size_t n = 0; n < columns; ++n) values[n] = loadFloats(w + static_cast<ptrdiff_t>(n) * stride + k);
            add(k, values);
        }
        if (k < in) {
            Vector values[columns];
            VKATTN_UNROLL for (size_t n = 0; n < columns; ++n) {
                HWY_ALIGN float rest[lanes] = {};
                for (size_t d = k; d < in; ++d) rest[d - k] = loadFloat(w + static_cast<ptrdiff_t>(n) * stride + d);
                values[n] = hn::Load(f, rest);
            }
            add(k, values);
        }
        VKATTN_UNROLL for (size_t n = 0; n < columns; ++n) {
            VKATTN_UNROLL for (size_t r = 0; r < count; ++r) sums()[r * at_.sumStride + c + n] = hn::GetLane(hn::SumOfLanes(f, sum[n][r]));
        }
    }

    // Adds bias and residual, and writes Y.
    HWY_INLINE void finish() {
        const Tensor &y = o_.tensor(VKATTN_Y);
        const bool biased = o_.tensor(VKATTN_BIAS).present(), added = o_.tensor(VKATTN_RESIDUAL).present();
        float *const bias = scratch_ + at_.bias, *const row = scratch_ + at_.row;
        if (biased) copyPart(VKATTN_BIAS, 0, bias);
        for (uint32_t r = 0; r < rows_; ++r) {
            float *const sum = sums() + r * at_.sumStride;
            if (biased) addTo(sum, bias);
            if (added) {
                copyPart(VKATTN_RESIDUAL, uint64_t{firstRow_} + r, row);
                addTo(sum, row);
            }
            storeRow(y, call_.write(VKATTN_Y), y.index(b_, g_, uint64_t{firstRow_} + r, firstColumn_), sum, columns_);
        }
    }
    HWY_INLINE void copyPart(vkattn_role role, uint64_t row, float *to) const {
        copyRows(stored(role, row, firstColumn_, columns_), 1, to, 0);
    }
    HWY_INLINE void addTo(float *sum, const float *values) const {
        const Floats f;
        uint32_t c = 0;
        for (; c + lanes <= columns_; c += static_cast<uint32_t>(lanes))
            hn::Store(hn::Add(hn::Load(f, sum + c), hn::Load(f, values + c)), f, sum + c);
        for (; c < columns_; ++c) sum[c] += values[c];
    }

    const OperationCall &call_;
    const Operation &o_;
    const ProjectionScratch at_;
    float *scratch_;
    uint32_t b_ = 0, g_ = 0, firstRow_ = 0, firstColumn_ = 0, rows_ = 0, columns_ = 0;
    uint32_t in_ = 0; // the inner dims that count
};

} // namespace HWY_NAMESPACE
} // namespace vkattn
HWY_AFTER_NAMESPACE();
#endif
