// Loads of the small types of caches as floats, for one Highway target.
#if defined(VKATTN_CPU_SMALL_TYPES_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef VKATTN_CPU_SMALL_TYPES_INL_HPP
#undef VKATTN_CPU_SMALL_TYPES_INL_HPP
#else
#define VKATTN_CPU_SMALL_TYPES_INL_HPP
#endif

#include "problem/tensor.hpp"
#include "util/small_types.hpp"

#include "cpu/vectors-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace vkattn {
namespace HWY_NAMESPACE {

static_assert(lanes <= blockElements / 2, "a vector lies in one half of a block");

// What a pointer is to an element that has bytes of its own: it counts elements from the beginning of a row.
template <vkattn_dtype type> struct SmallElement {
    const unsigned char *row;
    ptrdiff_t at = 0;

    [[nodiscard]] HWY_INLINE SmallElement operator+(ptrdiff_t elements) const { return {row, at + elements}; }
    HWY_INLINE SmallElement &operator+=(ptrdiff_t elements) {
        at += elements;
        return *this;
    }
    // The block of the element, and the element's number there.
    [[nodiscard]] HWY_INLINE const unsigned char *block() const { return row + (at >> 5) * static_cast<ptrdiff_t>(bytesOfBlock(type)); }
    [[nodiscard]] HWY_INLINE uint32_t inBlock() const { return static_cast<uint32_t>(at & 31); }
};
using E4m3 = SmallElement<VKATTN_FP8_E4M3>;
using E5m2 = SmallElement<VKATTN_FP8_E5M2>;
using Q8 = SmallElement<VKATTN_Q8_0>;
using Q4 = SmallElement<VKATTN_Q4_0>;
using Int8 = SmallElement<VKATTN_INT8>;

// Returns the same dim of the row that begins so many elements later.
template <class Pointer> HWY_INLINE Pointer ofRow(Pointer from, ptrdiff_t elements) {
    return from + elements;
}
template <> HWY_INLINE Int8 ofRow(Int8 from, ptrdiff_t elements) {
    return {from.row + elements, from.at}; // its scale lies where its row begins
}
// Rows are whole blocks. Where `at` is that of the dims alone, the places of blocks are found once for all rows of a loop.
template <> HWY_INLINE Q8 ofRow(Q8 from, ptrdiff_t elements) {
    return {from.row + elements / ptrdiff_t{blockElements} * ptrdiff_t{q8BlockBytes}, from.at};
}
template <> HWY_INLINE Q4 ofRow(Q4 from, ptrdiff_t elements) {
    return {from.row + elements / ptrdiff_t{blockElements} * ptrdiff_t{q4BlockBytes}, from.at};
}

// Bits of an element that tell how much of memory a loop takes at a time.
template <class Pointer> constexpr size_t bitsOfElement = 8 * sizeof(*Pointer());
template <vkattn_dtype type> constexpr size_t bitsOfElement<SmallElement<type>> = type == VKATTN_Q4_0 ? 4 : 8;

HWY_INLINE float loadFloat(E4m3 from) {
    return e4m3ToFloat(from.row[from.at]);
}
HWY_INLINE float loadFloat(E5m2 from) {
    return e5m2ToFloat(from.row[from.at]);
}
HWY_INLINE float loadFloat(Q8 from) {
    return q8Element(from.block(), from.inBlock());
}
HWY_INLINE float loadFloat(Q4 from) {
    return q4Element(from.block(), from.inBlock());
}
HWY_INLINE float loadFloat(Int8 from) {
    return int8Element(from.row, static_cast<uint32_t>(from.at));
}

// Of bits that each lie in 16 bits.
HWY_INLINE Vector fromHalves(hn::Vec<hn::Rebind<uint16_t, Floats>> bits) {
#if (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2) || HWY_ARCH_ARM_A64
    return hn::PromoteTo(Floats(), hn::BitCast(hn::Rebind<hwy::float16_t, Floats>(), bits)); // the processor has an instruction
#else
    HWY_ALIGN uint16_t each[lanes];
    hn::Store(bits, hn::Rebind<uint16_t, Floats>(), each);
    return loadFloats(reinterpret_cast<const Half *>(each));
#endif
}
HWY_INLINE Vector loadFloats(E5m2 from) {
    const hn::Rebind<uint16_t, Floats> wide;
    return fromHalves(hn::ShiftLeft<8>(hn::PromoteTo(wide, hn::LoadU(hn::Rebind<uint8_t, Floats>(), from.row + from.at))));
}
// Returns as bits of binary16 the numbers of `Wide`'s lanes, times 2^-8. That is exact, denormals included. A denormal f32 would cost a
// hundred cycles.
template <class Wide> HWY_INLINE hn::Vec<Wide> halvesOf(Wide wide, E4m3 from) {
    const hn::RebindToSigned<Wide> i;
    const auto codes = hn::LoadU(hn::Rebind<int8_t, Wide>(), reinterpret_cast<const int8_t *>(from.row + from.at));
    const auto bits = hn::BitCast(wide, hn::ShiftLeft<7>(hn::PromoteTo(i, codes))); // bits 14 and 15 are the sign
    // Of all magnitudes only that of NaN is above 0x3f00, by 0x80.
    const auto aboveAll = hn::SaturatedSub(hn::And(bits, hn::Set(wide, 0x3f80)), hn::Set(wide, 0x3f00));
    return hn::Or(hn::And(bits, hn::Set(wide, 0xbf80)), hn::ShiftLeft<7>(aboveAll)); // with the exponent of NaN
}
HWY_INLINE Vector loadFloats(E4m3 from) {
    return hn::Mul(fromHalves(halvesOf(hn::Rebind<uint16_t, Floats>(), from)), hn::Set(Floats(), 256.0f));
}

HWY_INLINE Vector scaledCodes(const unsigned char *codes, Vector scale) {
    const auto bytes = hn::LoadU(hn::Rebind<int8_t, Floats>(), reinterpret_cast<const int8_t *>(codes));
    return hn::Mul(hn::ConvertTo(Floats(), hn::PromoteTo(Ints(), bytes)), scale);
}
HWY_INLINE Vector loadFloats(Int8 from) {
    return scaledCodes(from.row + int8ScaleBytes + from.at, hn::Set(Floats(), int8Scale(from.row)));
}
HWY_INLINE Vector scaleOfBlock(const unsigned char *block) {
    uint16_t half;
    std::memcpy(&half, block, 2);
    return fromHalves(hn::Set(hn::Rebind<uint16_t, Floats>(), half));
}
HWY_INLINE Vector scaledNibbles(hn::Vec<Ints> codes, Vector scale) {
    return hn::Mul(hn::ConvertTo(Floats(), hn::Sub(codes, hn::Set(Ints(), 8))), scale);
}
// Of blocks: `from` is a whole number of vectors into the row.
HWY_INLINE Vector loadFloats(Q8 from) {
    return scaledCodes(from.block() + 2 + from.inBlock(), scaleOfBlock(from.block()));
}
HWY_INLINE Vector loadFloats(Q4 from) {
    const Ints i;
    const auto bytes = hn::PromoteTo(i, hn::LoadU(hn::Rebind<uint8_t, Floats>(), from.block() + 2 + from.inBlock() % 16));
    const auto codes = from.inBlock() < 16 ? hn::And(bytes, hn::Set(i, 15)) : hn::ShiftRight<4>(bytes);
    return scaledNibbles(codes, scaleOfBlock(from.block()));
}

// How many neighbouring vectors are best loaded together: those of a block share its scale.
template <class Pointer> constexpr size_t loadedTogether = 1;
#if HWY_TARGET != HWY_SCALAR
template <> constexpr size_t loadedTogether<E4m3> = 2;
template <> constexpr size_t loadedTogether<Q8> = 2;
template <> constexpr size_t loadedTogether<Q4> = 2;
#endif

// Loads `count` neighbouring vectors: 1, or loadedTogether, from a multiple of so many into the row.
template <size_t count, class Pointer> HWY_INLINE void loadVectors(Pointer from, Vector *to) {
    VKATTN_UNROLL for (size_t v = 0; v < count; ++v) to[v] = loadFloats(from + static_cast<ptrdiff_t>(v * lanes));
}
#if HWY_TARGET != HWY_SCALAR
template <> HWY_INLINE void loadVectors<2>(E4m3 from, Vector *to) {
    const hn::Repartition<uint16_t, Floats> wide;
    const auto halves = halvesOf(wide, from);
    to[0] = hn::Mul(fromHalves(hn::LowerHalf(halves)), hn::Set(Floats(), 256.0f));
    to[1] = hn::Mul(fromHalves(hn::UpperHalf(hn::Half<decltype(wide)>(), halves)), hn::Set(Floats(), 256.0f));
}
template <> HWY_INLINE void loadVectors<2>(Q8 from, Vector *to) {
    const unsigned char *const codes = from.block() + 2 + from.inBlock();
    const Vector scale = scaleOfBlock(from.block());
    to[0] = scaledCodes(codes, scale);
    to[1] = scaledCodes(codes + lanes, scale);
}
template <> HWY_INLINE void loadVectors<2>(Q4 from, Vector *to) {
    const Ints i;
    const auto bytes = [&](size_t first) { return hn::PromoteTo(i, hn::LoadU(hn::Rebind<uint8_t, Floats>(), from.block() + 2 + first)); };
    const Vector scale = scaleOfBlock(from.block());
    if constexpr (lanes == 16) { // a pair is a block, and a vector holds what its 16 codes stand for
        const Vector numbers = hn::Mul(hn::Sub(hn::Iota(Floats(), 0), hn::Set(Floats(), 8.0f)), scale);
        const auto both = bytes(0);
        to[0] = hn::TableLookupLanes(numbers, hn::IndicesFromVec(Floats(), hn::And(both, hn::Set(i, 15))));
        to[1] = hn::TableLookupLanes(numbers, hn::IndicesFromVec(Floats(), hn::ShiftRight<4>(both)));
    } else {
        const bool upper = from.inBlock() >= 16;
        VKATTN_UNROLL for (size_t v = 0; v < 2; ++v) {
            const auto both = bytes(from.inBlock() % 16 + v * lanes);
            to[v] = scaledNibbles(upper ? hn::ShiftRight<4>(both) : hn::And(both, hn::Set(i, 15)), scale);
        }
    }
}
#endif

} // namespace HWY_NAMESPACE
} // namespace vkattn
HWY_AFTER_NAMESPACE();
#endif
