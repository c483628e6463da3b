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
// The fused kernels have two ways to unpack halves of K and V. Of a key with one dim that is not 0 the lse is its score.
TEST(HalfOnDevice, everyHalfIsReadExactlyByTheFusedKernels) {
    for (const bool tested : {true, false}) {
        RuntimeOptions options;
        options.allowFallback = false;
        options.testHalves = tested;
        std::string why;
        const auto runtime = Runtime::open(options, nullptr, &why);
        ASSERT_TRUE(runtime) << why;
        const bool nan = runtime->device()->caps.floatControlsNan != 0;
        for (const vkattn_kernel kernel : {VKATTN_KERNEL_DECODE, VKATTN_KERNEL_FLASH})
            for (const Style style : {Style::packed, Style::dimMajor}) { // in words, and one at a time
                Case c;
                c.batch = 8192, c.heads = c.kvHeads = 8, c.queryTokens = c.keyTokens = 1, c.headDim = c.valueDim = 8;
                c.k = c.v = VKATTN_F16, c.kStyle = c.vStyle = style, c.lse = true, c.poison = false, c.kernel = kernel, c.scale = 1.0f;
                Random random(1);
                const auto in = makeCaseData(c, random);
                const auto at = [](const HostTensor &t, uint32_t b, uint32_t h, uint32_t d) {
                    const int64_t *stride = t.layout.strideElems;
                    return 2 * (t.layout.offsetElems + b * static_cast<uint64_t>(stride[0]) + h * static_cast<uint64_t>(stride[1]) +
                                d * static_cast<uint64_t>(stride[3]));
                };
                for (uint32_t n = 0; n < 65536; ++n)
                    for (uint32_t d = 0; d < 8; ++d) {
                        const auto value = static_cast<uint16_t>(n * 8 + d), key = static_cast<uint16_t>(d == n % 8 ? n : 0);
                        std::memcpy(in->v.data() + at(in->v, n / 8, n % 8, d), &value, 2);
                        std::memcpy(in->k.data() + at(in->k, n / 8, n % 8, d), &key, 2);
                        in->q.set(n / 8, n % 8, 0, d, 1);
                    }
                const RunResult result = runtime->run(in->problem, in->operands);
                ASSERT_EQ(result.status, VKATTN_OK) << result.message;
                for (uint32_t n = 0; n < 65536; ++n) {
                    const float key = in->k.get(n / 8, n % 8, 0, n % 8), score = in->lse.get(n / 8, n % 8, 0, 0);
                    if (!std::isfinite(key)) { // weights of such a row are not finite either
                        EXPECT_TRUE(!std::isfinite(score) || !nan) << n;
                        continue;
                    }
                    ASSERT_NEAR(score, key, 1e-6f * std::abs(key)) << result.kernel << " " << tested << " " << n;
                    for (uint32_t d = 0; d < 8; ++d) {
                        const float expected = in->v.get(n / 8, n % 8, 0, d), got = in->out.get(n / 8, n % 8, 0, d);
                        if (std::isnan(expected))
                            ASSERT_TRUE(std::isnan(got) || !nan) << result.kernel << " " << tested << " " << n << " " << d;
                        else
                            ASSERT_EQ(got, expected) << result.kernel << " " << tested << " " << n << " " << d;
                    }
                }
            }
    }
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
