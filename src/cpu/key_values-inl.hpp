// Rows of K and V as the fallback reads them, for one Highway target. No other file of the fallback
// knows where keys and values lie. The oracle has a reader of its own (oracle/row.hpp).
#if defined(VKATTN_CPU_KEY_VALUES_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef VKATTN_CPU_KEY_VALUES_INL_HPP
#undef VKATTN_CPU_KEY_VALUES_INL_HPP
#else
#define VKATTN_CPU_KEY_VALUES_INL_HPP
#endif

#include "cpu/attention.hpp"

#include "cpu/rows-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace vkattn {
namespace HWY_NAMESPACE {

// Returns the keys or values (`role`) of a sequence's key/value head, from key `begin` on, up to the end of the piece of
// memory that the key lies in, which is there.
HWY_INLINE StoredRows rowsOf(const Call &call, vkattn_role role, const Sequence &s, uint32_t head, uint32_t begin) {
    if (call.p.paged())
        return storedRows(call.p.tensor(role), call.operands.data[call.p.memoryOf(role)],
                          Pages{call.p, call.operands, s.batch}.pageOf(begin), head, begin % call.p.pageTokens);
    if (call.p.segmented()) {
        const uint32_t segment = call.p.segments.of(begin);
        const vkattn_role own = roleOfSegment(role, segment);
        return storedRows(call.p.tensor(own), call.operands.data[own], s.batch, head, begin - call.p.segments.first[segment]);
    }
    return storedRows(call.p.tensor(role), call.operands.data[call.p.memoryOf(role)], s.batch, head, s.key(begin));
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

// Returns the first `count` rows for a tile: the stored rows themselves, or a copy. A copy is worth
// its time where several panels use the rows.
inline TileRows tileRows(const StoredRows &rows, uint32_t count, bool reused, float *copy) {
    if (areFloats(rows) && !reused) return whereTheyLie(rows);
    const size_t stride = packedStride(rows.dims);
    copyRows(rows, count, copy, stride);
    return {copy, static_cast<ptrdiff_t>(stride)};
}

// Returns the keys or values [begin, end) of pages or segments for a tile. Those of absent pages, which no row sees, are
// 0.
inline TileRows tileOfPieces(const Call &call, vkattn_role role, const Sequence &s, uint32_t head, uint32_t begin, uint32_t end,
                             bool reused, float *copy) {
    const Pieces pieces{call.p, call.operands, s.batch};
    const uint32_t dims = call.p.tensor(role).extent[3];
    if (end <= pieces.endOfPiece(begin) && !pieces.isAbsent(begin))
        return tileRows(rowsOf(call, role, s, head, begin), end - begin, reused, copy);
    const size_t stride = packedStride(dims);
    float *to = copy;
    for (uint32_t key = begin; key < end;) {
        const uint32_t count = std::min(pieces.endOfPiece(key), end) - key;
        if (pieces.isAbsent(key))
            std::fill_n(to, count * stride, 0.0f);
        else
            copyRows(rowsOf(call, role, s, head, key), count, to, stride);
        key += count, to += count * stride;
    }
    return {copy, static_cast<ptrdiff_t>(stride)};
}

} // namespace HWY_NAMESPACE
} // namespace vkattn
HWY_AFTER_NAMESPACE();
#endif
