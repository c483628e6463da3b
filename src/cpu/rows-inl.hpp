// Rows of tensors, read as floats and stored from floats, for one Highway target.
#if defined(VKATTN_CPU_ROWS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef VKATTN_CPU_ROWS_INL_HPP
#undef VKATTN_CPU_ROWS_INL_HPP
#else
#define VKATTN_CPU_ROWS_INL_HPP
#endif

#include "cpu/operands.hpp"

#include "cpu/small_types-inl.hpp"
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

    // Calls visit(pointer to the first element) with the elements' type, which is none of the small ones.
    template <class Visit> HWY_INLINE void byType(const Visit &visit) const {
        if (dtype == VKATTN_F32)
            visit(reinterpret_cast<const float *>(data));
        else if (dtype == VKATTN_F16)
            visit(reinterpret_cast<const Half *>(data));
        else
            visit(reinterpret_cast<const Bfloat16 *>(data));
    }
    // The same with any type that K and V may have: visit(pointer, or what stands for one).
    template <class Visit> HWY_INLINE void byCacheType(const Visit &visit) const {
        if (dtype == VKATTN_FP8_E4M3)
            visit(E4m3{data});
        else if (dtype == VKATTN_FP8_E5M2)
            visit(E5m2{data});
        else if (dtype == VKATTN_Q8_0)
            visit(Q8{data});
        else if (dtype == VKATTN_Q4_0)
            visit(Q4{data});
        else if (dtype == VKATTN_INT8)
            visit(Int8{data});
        else
            byType(visit);
    }
};

// Returns the row of `token` and the rows after it.
HWY_INLINE StoredRows storedRows(const Tensor &t, const unsigned char *data, uint64_t batch, uint64_t head, uint64_t token) {
    return {data + bytesBefore(t.dtype, t.index(batch, head, token, 0)), t.dtype, t.extent[3], static_cast<ptrdiff_t>(t.stride[2]),
            t.unitDims() ? 1 : static_cast<ptrdiff_t>(t.stride[3])};
}

// Copies the first `count` rows as floats, `toStride` apart.
inline void copyRows(const StoredRows &rows, uint32_t count, float *to, size_t toStride) {
    rows.byCacheType([&](auto from) {
        for (uint32_t n = 0; n < count; ++n, from = ofRow(from, rows.rowStride), to += toStride) {
            uint32_t d = 0;
            if (rows.dimStride == 1)
                for (; d + lanes <= rows.dims; d += static_cast<uint32_t>(lanes)) hn::StoreU(loadFloats(from + d), Floats(), to + d);
            for (; d < rows.dims; ++d) to[d] = loadFloat(from + static_cast<ptrdiff_t>(d) * rows.dimStride);
        }
    });
}

// Stores a vector of floats as `dtype`, from element `at` of `data` on.
HWY_INLINE void storeFloats(Vector x, unsigned char *data, vkattn_dtype dtype, uint64_t at) {
    if (dtype == VKATTN_F32)
        hn::StoreU(x, Floats(), reinterpret_cast<float *>(data) + at);
    else if (dtype == VKATTN_F16)
        storeHalves(x, reinterpret_cast<uint16_t *>(data) + at);
    else
        storeBfloat16(x, reinterpret_cast<uint16_t *>(data) + at);
}

// Stores `count` floats as elements of `t`, from the element with index `at` on along dimension 3; of a small type a
// whole row, or neighbours.
inline void storeRow(const Tensor &t, unsigned char *data, uint64_t at, const float *from, uint32_t count) {
    if (isSmallType(t.dtype)) {
        if (hasScales(t.dtype) || t.unitDims()) return storeSmallRow(t.dtype, from, count, data + bytesBefore(t.dtype, at));
        for (uint32_t d = 0; d < count; ++d) storeSmallRow(t.dtype, from + d, 1, data + at + d * static_cast<uint64_t>(t.stride[3]));
        return;
    }
    uint32_t d = 0;
    if (t.unitDims())
        for (; d + lanes <= count; d += static_cast<uint32_t>(lanes)) storeFloats(loadFloats(from + d), data, t.dtype, at + d);
    for (; d < count; ++d) storeElement(data, t.dtype, at + d * static_cast<uint64_t>(t.stride[3]), from[d]);
}

} // namespace HWY_NAMESPACE
} // namespace vkattn
HWY_AFTER_NAMESPACE();
#endif
