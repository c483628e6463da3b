// Loads of every storage type as floats, exp2 and tanh, for one Highway target.
#if defined(VKATTN_CPU_VECTORS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef VKATTN_CPU_VECTORS_INL_HPP
#undef VKATTN_CPU_VECTORS_INL_HPP
#else
#define VKATTN_CPU_VECTORS_INL_HPP
#endif

#include "util/half.hpp"

#include <hwy/highway.h>

#include <limits>

// Loops over arrays of vectors must be unrolled as a whole: otherwise the arrays lie in memory.
#ifndef VKATTN_UNROLL
#define VKATTN_UNROLL HWY_UNROLL(16)
#endif

HWY_BEFORE_NAMESPACE();
namespace vkattn {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using Ints = hn::RebindToSigned<Floats>;
using Words = hn::RebindToUnsigned<Floats>;
using Vector = hn::Vec<Floats>;
using LaneMask = hn::Mask<Floats>;
constexpr size_t lanes = hn::MaxLanes(Floats());
constexpr float minusInfinity = -std::numeric_limits<float>::infinity();

// The storage types. They differ by type and not by width alone.
struct Half {
    uint16_t bits;
};
struct Bfloat16 {
    uint16_t bits;
};

// The accumulators must be enough to hide the latency of multiply-adds, and must leave registers
// for two operands.
constexpr size_t registers = HWY_ARCH_X86 && lanes < 16 ? 16 : 32;
template <size_t vectors> constexpr size_t blockSize = vectors == 1 || registers == 32 ? 12 : 6;

// Returns the size of the next block of `left` keys, dims or rows. There are four sizes, because
// each is compiled on its own. Small blocks are slow, so the last two blocks share what is left
// where they can.
template <size_t most> HWY_INLINE size_t nextBlock(size_t left) {
    constexpr size_t large = most * 2 / 3, small = most / 3;
    if (left >= most && (left == most || left > 2 * large)) return most;
    return left >= large ? large : left >= small ? small : 1;
}

HWY_INLINE Vector loadFloats(const float *from) {
    return hn::LoadU(Floats(), from);
}
HWY_INLINE Vector loadFloats(const Bfloat16 *from) {
    const hn::Rebind<uint16_t, Floats> narrow;
    const auto bits = hn::LoadU(narrow, reinterpret_cast<const uint16_t *>(from));
    return hn::BitCast(Floats(), hn::ShiftLeft<16>(hn::PromoteTo(Words(), bits)));
}
HWY_INLINE Vector loadFloats(const Half *from) {
#if (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2) || HWY_ARCH_ARM_A64
    const hn::Rebind<hwy::float16_t, Floats> narrow; // the processor has an instruction
    return hn::PromoteTo(Floats(), hn::LoadU(narrow, reinterpret_cast<const hwy::float16_t *>(from)));
#else
    // Exact for all 65536 halves: moved to a float's place, the bits are the value times 2^-112,
    // denormals included.
    const Floats f;
    const Words u;
    const hn::Rebind<uint16_t, Floats> narrow;
    const auto bits = hn::PromoteTo(u, hn::LoadU(narrow, reinterpret_cast<const uint16_t *>(from)));
    const auto magnitude = hn::ShiftLeft<13>(hn::And(bits, hn::Set(u, 0x7fffu)));
    const auto sign = hn::ShiftLeft<16>(hn::And(bits, hn::Set(u, 0x8000u)));
    const auto scaled = hn::BitCast(u, hn::Mul(hn::BitCast(f, magnitude), hn::Set(f, 0x1p112f)));
    const auto special = hn::Or(magnitude, hn::Set(u, 0x7f800000u)); // infinity or NaN
    const auto isSpecial = hn::Eq(hn::And(magnitude, hn::Set(u, 0x0f800000u)), hn::Set(u, 0x0f800000u));
    return hn::BitCast(f, hn::Or(sign, hn::IfThenElse(isSpecial, special, scaled)));
#endif
}
// These do what floatToHalf and floatToBfloat16 of util/half.hpp do.
HWY_INLINE void storeHalves(Vector x, uint16_t *to) {
#if (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2) || HWY_ARCH_ARM_A64
    const Floats f;
    const hn::Rebind<hwy::float16_t, Floats> narrow;
    const auto quiet = hn::CopySign(hn::Set(f, std::numeric_limits<float>::quiet_NaN()), x);
    hn::StoreU(hn::DemoteTo(narrow, hn::IfThenElse(hn::IsNaN(x), quiet, x)), narrow, reinterpret_cast<hwy::float16_t *>(to));
#else
    HWY_ALIGN float each[lanes];
    hn::Store(x, Floats(), each);
    for (size_t n = 0; n < lanes; ++n) to[n] = floatToHalf(each[n]);
#endif
}
HWY_INLINE void storeBfloat16(Vector x, uint16_t *to) {
    const Words u;
    const hn::Rebind<uint16_t, Floats> narrow;
    const auto bits = hn::BitCast(u, x);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(u, 1));
    const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(u, 0x7fffu))));
    const auto quiet = hn::Or(hn::And(hn::ShiftRight<16>(bits), hn::Set(u, 0x8000u)), hn::Set(u, 0x7fc0u));
    const auto narrowed = hn::IfThenElse(hn::RebindMask(u, hn::IsNaN(x)), quiet, rounded);
    hn::StoreU(hn::DemoteTo(narrow, hn::BitCast(Ints(), narrowed)), narrow, to);
}

// Computes to[column * toStride + row] = from[row][column] for 4 rows and `columns` columns.
HWY_INLINE void transposeFour(const float *const from[4], size_t columns, float *HWY_RESTRICT to, size_t toStride) {
    size_t c = 0;
#if HWY_TARGET != HWY_SCALAR
    const hn::FixedTag<float, 4> f;
    const hn::FixedTag<double, 2> pairs;
    for (; c + 4 <= columns; c += 4) {
        const auto r0 = hn::LoadU(f, from[0] + c), r1 = hn::LoadU(f, from[1] + c), r2 = hn::LoadU(f, from[2] + c),
                   r3 = hn::LoadU(f, from[3] + c);
        const auto low01 = hn::BitCast(pairs, hn::InterleaveLower(f, r0, r1)), low23 = hn::BitCast(pairs, hn::InterleaveLower(f, r2, r3));
        const auto high01 = hn::BitCast(pairs, hn::InterleaveUpper(f, r0, r1)), high23 = hn::BitCast(pairs, hn::InterleaveUpper(f, r2, r3));
        float *at = to + c * toStride;
        hn::StoreU(hn::BitCast(f, hn::InterleaveLower(pairs, low01, low23)), f, at);
        hn::StoreU(hn::BitCast(f, hn::InterleaveUpper(pairs, low01, low23)), f, at + toStride);
        hn::StoreU(hn::BitCast(f, hn::InterleaveLower(pairs, high01, high23)), f, at + 2 * toStride);
        hn::StoreU(hn::BitCast(f, hn::InterleaveUpper(pairs, high01, high23)), f, at + 3 * toStride);
    }
#endif
    for (; c < columns; ++c)
        for (size_t r = 0; r < 4; ++r) to[c * toStride + r] = from[r][c];
}

HWY_INLINE float loadFloat(const float *from) {
    return *from;
}
HWY_INLINE float loadFloat(const Half *from) {
    return halfToFloat(from->bits);
}
HWY_INLINE float loadFloat(const Bfloat16 *from) {
    return bfloat16ToFloat(from->bits);
}

// Returns 2^x for x <= 64. Below 2^-126.5 the result is 0; NaN stays NaN, and 2^0 is exactly 1. The
// polynomial's own error is 9e-9, and the whole is within 1.5 ulp. Terms are added in pairs: the
// latency of a chain of six is more than a processor's queues can hide.
HWY_INLINE Vector exp2Of(Vector x) {
    const Floats f;
    // Adding 1.5 * 2^23 rounds to a whole number, which then stands in the lowest bits. Adding 127
    // more makes the number an exponent, and -127 becomes 0.
    const auto magic = hn::Set(f, 0x1.8p23f + 127);
    const auto least = hn::Set(f, -127.0f);
    x = hn::IfThenElse(hn::Lt(x, least), least, x); // Max would lose a NaN on some targets
    const auto shifted = hn::Add(x, magic);
    const auto rest = hn::Sub(x, hn::Sub(shifted, magic));
    const auto square = hn::Mul(rest, rest);
    const auto low = hn::MulAdd(rest, hn::Set(f, 0x1.62e430p-1f), hn::Set(f, 1.0f));
    const auto middle = hn::MulAdd(rest, hn::Set(f, 0x1.c6af6cp-5f), hn::Set(f, 0x1.ebfbe0p-3f));
    const auto high = hn::MulAdd(rest, hn::Set(f, 0x1.5f0890p-10f), hn::Set(f, 0x1.3b2a54p-7f));
    const auto upper = hn::MulAdd(square, hn::Set(f, 0x1.44138ap-13f), high);
    const auto y = hn::MulAdd(hn::MulAdd(square, upper, middle), square, low);
    return hn::Mul(y, hn::BitCast(f, hn::ShiftLeft<23>(hn::BitCast(Words(), shifted))));
}
constexpr float log2e = 1.44269504088896341f;

// An odd polynomial near 0 keeps the digits of small scores under a large softcap. Elsewhere tanh
// is computed by exp2.
HWY_INLINE Vector tanhOf(Vector x) {
    const Floats f;
    const auto magnitude = hn::Abs(x);
    const auto square = hn::Mul(x, x);
    auto small = hn::Set(f, -5.70498872745e-3f); // Cephes, tanhf: 1 ulp below 0.625
    small = hn::MulAdd(small, square, hn::Set(f, 2.06390887954e-2f));
    small = hn::MulAdd(small, square, hn::Set(f, -5.37397155531e-2f));
    small = hn::MulAdd(small, square, hn::Set(f, 1.33314422036e-1f));
    small = hn::MulAdd(small, square, hn::Set(f, -3.33332819422e-1f));
    small = hn::MulAdd(hn::Mul(small, square), x, x);
    const auto far = hn::Set(f, 10.0f); // tanh is 1 above 10; a NaN stays
    const auto near = hn::IfThenElse(hn::Gt(magnitude, far), far, magnitude);
    const auto power = exp2Of(hn::Mul(near, hn::Set(f, 2 * log2e)));
    const auto one = hn::Set(f, 1.0f);
    const auto large = hn::CopySign(hn::Sub(one, hn::Div(hn::Set(f, 2.0f), hn::Add(power, one))), x);
    return hn::IfThenElse(hn::Lt(magnitude, hn::Set(f, 0.625f)), small, large);
}

HWY_INLINE LaneMask isMinusInfinity(Vector x) {
    return hn::Eq(x, hn::Set(Floats(), minusInfinity));
}
// Returns exp(x - maximum); 0 for minus infinity, also where the maximum is minus infinity.
struct Exponent {
    Vector maximum;
    explicit HWY_INLINE Exponent(Vector m) : maximum(hn::IfThenZeroElse(isMinusInfinity(m), m)) {}
    HWY_INLINE Vector operator()(Vector x) const { return exp2Of(hn::Mul(hn::Sub(x, maximum), hn::Set(Floats(), log2e))); }
};

} // namespace HWY_NAMESPACE
} // namespace vkattn
HWY_AFTER_NAMESPACE();
#endif
