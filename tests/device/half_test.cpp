// The shaders' f16 and bf16 conversions, all 65536 values one way and the roundings around each of
// them the other, through one-key attention: with a single key the weight is exactly 1 and the
// output is V.
#include "environment.hpp"

#include <bit>
#include <cmath>
#include <cstring>

using namespace vkattn;
using namespace vkattn::test;

namespace {

// [32, 1, 1, 2048] tensors hold 65536 values.
std::unique_ptr<test::CaseData> oneKey(vkattn_dtype v, vkattn_dtype out) {
    Case c;
    c.batch = 32, c.heads = c.kvHeads = 1, c.queryTokens = c.keyTokens = 1, c.headDim = 1, c.valueDim = 2048, c.v = v, c.out = out,
    c.poison = false;
    Random random(1);
    auto in = makeCaseData(c, random);
    return in;
}

// Every value of a 16-bit dtype, by the test's own conversion, which is not the library's.
void expectEveryValueRead(vkattn_dtype dtype) {
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    const auto in = oneKey(dtype, VKATTN_F32);
    for (uint32_t bits = 0; bits < 65536; ++bits) {
        const auto word = static_cast<uint16_t>(bits);
        std::memcpy(in->v.data() + 2 * bits, &word, 2);
    }
    ASSERT_EQ(runtime->run(in->problem, in->operands).status, VKATTN_OK);
    for (uint32_t bits = 0; bits < 65536; ++bits) {
        const float expected = in->v.get(bits / 2048, 0, 0, bits % 2048), got = in->out.get(bits / 2048, 0, 0, bits % 2048);
        if (std::isnan(expected)) EXPECT_TRUE(std::isnan(got) || !runtime->device()->caps.floatControlsNan) << bits;
        // Denormals of f32, which of the two only bf16 has, may be flushed.
        else if (std::fpclassify(expected) == FP_SUBNORMAL)
            EXPECT_TRUE(got == expected || got == 0) << bits;
        else
            EXPECT_EQ(got, expected) << bits;
    }
}

} // namespace

TEST(HalfOnDevice, everyHalfIsReadExactly) {
    expectEveryValueRead(VKATTN_F16);
}
TEST(HalfOnDevice, everyBf16IsReadExactly) {
    expectEveryValueRead(VKATTN_BF16);
}

// The inputs from f32 are the two neighbours of every bf16 and the middles between them; the inputs
// from bf16 are all values, NaN and infinity included. Denormals are left out: a device may flush
// them before they are rounded.
TEST(HalfOnDevice, everyBf16IsRoundedToNearestEven) {
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    const auto in = oneKey(VKATTN_F32, VKATTN_BF16);
    Random random = randomFor("bf16 rounding");
    const uint32_t low[] = {0, 1, 0x7fff, 0x8000, 0x8001, 0xffff, 0};
    for (const uint32_t &added : low) {
        const bool anything = &added == &low[6];
        for (uint32_t n = 0; n < 65536; ++n) {
            const auto value = std::bit_cast<float>(n << 16 | (anything ? static_cast<uint32_t>(random()) & 0xffffu : added));
            in->v.set(n / 2048, 0, 0, n % 2048, std::fpclassify(value) == FP_SUBNORMAL ? 0.0f : value);
        }
        ASSERT_EQ(runtime->run(in->problem, in->operands).status, VKATTN_OK);
        for (uint32_t n = 0; n < 65536; ++n) {
            const float value = in->v.get(n / 2048, 0, 0, n % 2048), got = in->out.get(n / 2048, 0, 0, n % 2048);
            if (std::isnan(value)) {
                uint16_t bits;
                std::memcpy(&bits, in->out.data() + 2 * n, 2);
                EXPECT_TRUE((bits & 0x7fffu) == 0x7fc0u || !runtime->device()->caps.floatControlsNan) << bits;
                continue;
            }
            // Exact in double: the nearer of the two neighbours, the even one in the middle; what
            // would be 2^128 is infinity.
            const double exact = static_cast<double>(value), down = static_cast<double>(std::bit_cast<float>(n << 16));
            const double up =
                (n & 0x7fffu) == 0x7f7fu ? std::copysign(0x1p128, exact) : static_cast<double>(std::bit_cast<float>((n + 1) << 16));
            const double toDown = std::abs(exact - down), toUp = std::abs(up - exact);
            double nearest = value == 0 || toDown < toUp || (toDown == toUp && n % 2 == 0) ? down : up;
            if (value == 0) nearest = 0;
            if (std::isinf(value)) nearest = exact;
            if (std::abs(nearest) == 0x1p128) nearest = std::copysign(HUGE_VAL, exact);
            EXPECT_EQ(static_cast<double>(got), nearest) << std::hexfloat << value;
        }
    }
}

TEST(HalfOnDevice, everyRoundingIsToNearestEven) {
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    const auto in = oneKey(VKATTN_F32, VKATTN_F16);
    Random random = randomFor("rounding");
    const auto exact = oneKey(VKATTN_F16, VKATTN_F32); // its v: where to read the value of a half
    for (int round = 0; round < 4; ++round) {
        for (uint32_t n = 0; n < 65536; ++n) {
            const auto half = static_cast<uint16_t>(n & 0x8000u ? 0x8000u | n % 0x7c00 : n % 0x7c00),
                       next = static_cast<uint16_t>(half + 1);
            std::memcpy(exact->v.data(), &half, 2);
            const float low = exact->v.get(0, 0, 0, 0);
            std::memcpy(exact->v.data(), &next, 2);
            const float high = (half & 0x7fff) == 0x7bff ? (half & 0x8000 ? -65536.0f : 65536.0f) : exact->v.get(0, 0, 0, 0);
            // The middle between two neighbours, just below, just above, and anything.
            auto bits = std::bit_cast<uint32_t>((low + high) / 2);
            bits = round == 3 ? static_cast<uint32_t>(random()) : bits + static_cast<uint32_t>(round) - 1;
            const float value = std::bit_cast<float>(bits);
            in->v.set(n / 2048, 0, 0, n % 2048, std::isnan(value) ? 1.0f : value);
        }
        ASSERT_EQ(runtime->run(in->problem, in->operands).status, VKATTN_OK);
        HostTensor rounded = in->out; // the test's own conversion, which is not the library's
        for (uint32_t n = 0; n < 65536; ++n) {
            const float value = in->v.get(n / 2048, 0, 0, n % 2048);
            rounded.set(n / 2048, 0, 0, n % 2048, value);
            EXPECT_EQ(in->out.get(n / 2048, 0, 0, n % 2048), rounded.get(n / 2048, 0, 0, n % 2048)) << std::hexfloat << value;
        }
    }
}
