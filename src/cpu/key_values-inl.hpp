// Rows of K and V as the fallback reads them, for one Highway target. No other file of the fallback
// knows where keys and values lie or how their elements are stored; queries are read by the same
// functions. The oracle has a reader of its own (row.hpp).
#if defined(VKATTN_CPU_KEY_VALUES_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef VKATTN_CPU_KEY_VALUES_INL_HPP
#undef VKATTN_CPU_KEY_VALUES_INL_HPP
#else
#define VKATTN_CPU_KEY_VALUES_INL_HPP
#endif

#include "cpu/attention.hpp"

#include "cpu/vectors-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace vkattn {
namespace HWY_NAMESPACE {

// Neighbouring rows of one head as they are stored. Strides count elements.
struct StoredRows {
    const unsigned char *data; // first element of the first row
    vkattn_dtype dtype;
    uint32_t dims;
    ptrdiff_t rowStride, dimStride; // dimStride is 1 where there is only one dim

    // Calls visit(pointer to the first element) with the elements' type.
    template <class Visit> HWY_INLINE void byType(const Visit &visit) const {
        if (dtype == VKATTN_F32)
            visit(reinterpret_cast<const float *>(data));
        else if (dtype == VKATTN_F16)
            visit(reinterpret_cast<const Half *>(data));
        else
            visit(reinterpret_cast<const Bfloat16 *>(data));
    }
};

// Returns the row of `token` and the rows after it.
HWY_INLINE StoredRows storedRows(const Tensor &t, const unsigned char *data, uint64_t batch, uint64_t head, uint64_t token) {
    return {data + static_cast<ptrdiff_t>(t.index(batch, head, token, 0)) * static_cast<ptrdiff_t>(elementBytes(t.dtype)), t.dtype,
            t.extent[3], static_cast<ptrdiff_t>(t.stride[2]), t.unitDims() ? 1 : static_cast<ptrdiff_t>(t.stride[3])};
}

// Returns the keys or values (`role`) of a sequence's key/value head, from key `begin` on.
HWY_INLINE StoredRows rowsOf(const Call &call, vkattn_role role, const Sequence &s, uint32_t head, uint32_t begin) {
    return storedRows(call.p.tensor(role), call.operands.data[role], s.batch, head, s.key(begin));
}

// Rows of floats that lie `stride` apart.
struct TileRows {
    const float *data;
    ptrdiff_t stride;
    [[nodiscard]] HWY_INLINE const float *row(size_t n) const { return data + static_cast<ptrdiff_t>(n) * stride; }
    [[nodiscard]] HWY_INLINE TileRows from(size_t n) const { return {row(n), stride}; }
};

HWY_INLINE bool areFloats(const StoredRows &rows) {
    return rows.dtype == VKATTN_F32 && rows.dimStride == 1;
}
HWY_INLINE TileRows whereTheyLie(const StoredRows &rows) {
    return {reinterpret_cast<const float *>(rows.data), rows.rowStride};
}

// Copies the first `count` rows as floats, `toStride` apart.
inline void copyRows(const StoredRows &rows, uint32_t count, float *to, size_t toStride) {
    rows.byType([&](auto *from) {
        for (uint32_t n = 0; n < count; ++n, from += rows.rowStride, to += toStride) {
            uint32_t d = 0;
            if (rows.dimStride == 1)
                for (; d + lanes <= rows.dims; d += static_cast<uint32_t>(lanes)) hn::StoreU(loadFloats(from + d), Floats(), to + d);
            for (; d < rows.dims; ++d) to[d] = loadFloat(from + static_cast<ptrdiff_t>(d) * rows.dimStride);
        }
    });
}

// Returns the first `count` rows for a tile: the stored rows themselves, or a copy. A copy is worth
// its time where several panels use the rows.
inline TileRows tileRows(const StoredRows &rows, uint32_t count, bool reused, float *copy) {
    if (areFloats(rows) && !reused) return whereTheyLie(rows);
    const size_t stride = packedStride(rows.dims);
    copyRows(rows, count, copy, stride);
    return {copy, static_cast<ptrdiff_t>(stride)};
}

} // namespace HWY_NAMESPACE
} // namespace vkattn
HWY_AFTER_NAMESPACE();
#endif
