// The small types of caches: their conversions, and attention on the CPU over what they hold.
#include "conform/cases/case_text.hpp"
#include "support/extent.hpp"
#include "support/keys/small_cache.hpp"
#include "support/seed.hpp"
#include "unit/cpu/cpu_runs.hpp"

#include <vkattn/gradient.h>
#include <vkattn/operations.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

using namespace vkattn;
using namespace vkattn::conform;
using namespace vkattn::test;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

struct FloatType {
    vkattn_dtype dtype;
    int exponentBits, bias;
    float largest;
};
constexpr FloatType floatTypes[] = {{VKATTN_FP8_E4M3, 4, 7, 448}, {VKATTN_FP8_E5M2, 5, 15, 57344}};

// From the tables of OCP's 8-bit Floating Point Specification, revision 1.0.
float valueOf(const FloatType &type, int code) {
    const int mantissaBits = 7 - type.exponentBits, exponent = (code & 127) >> mantissaBits, mantissa = code & ((1 << mantissaBits) - 1);
    float value = exponent ? std::ldexp(1.0f + std::ldexp(static_cast<float>(mantissa), -mantissaBits), exponent - type.bias)
                           : std::ldexp(static_cast<float>(mantissa), 1 - type.bias - mantissaBits);
    if (type.dtype == VKATTN_FP8_E4M3 && (code & 127) == 127) value = nan;
    if (type.dtype == VKATTN_FP8_E5M2 && exponent == 31) value = mantissa ? nan : infinity;
    return code & 128 ? -value : value;
}
float widened(vkattn_dtype dtype, int code) {
    const auto byte = static_cast<unsigned char>(code);
    float value = 0;
    EXPECT_EQ(vkattnConvert(dtype, &byte, VKATTN_F32, &value, 1, nullptr), VKATTN_OK);
    return value;
}
int narrowed(vkattn_dtype dtype, float value) {
    unsigned char byte = 0;
    EXPECT_EQ(vkattnConvert(VKATTN_F32, &value, dtype, &byte, 1, nullptr), VKATTN_OK);
    return byte;
}

TEST(SmallTypes, everyFloatHasItsValueAndComesBack) {
    for (const FloatType &type : floatTypes)
        for (int code = 0; code < 256; ++code) {
            const float expected = valueOf(type, code), got = widened(type.dtype, code);
            if (std::isnan(expected)) {
                EXPECT_TRUE(std::isnan(got)) << code;
                EXPECT_TRUE(std::isnan(valueOf(type, narrowed(type.dtype, got)))) << code;
                continue;
            }
            EXPECT_EQ(got, expected) << code;
            EXPECT_EQ(std::signbit(got), (code & 128) != 0) << code;
            EXPECT_EQ(narrowed(type.dtype, expected), code) << code;
        }
}

TEST(SmallTypes, floatsRoundToNearestEvenAndStayFinite) {
    for (const FloatType &type : floatTypes) {
        int last = 0;
        while (valueOf(type, last + 1) <= type.largest) ++last;
        EXPECT_EQ(valueOf(type, last), type.largest);
        for (int code = 0; code < last; ++code)
            for (const int sign : {0, 128}) {
                const float middle = (valueOf(type, code) + valueOf(type, code + 1)) / 2, s = sign ? -1.0f : 1.0f;
                EXPECT_EQ(narrowed(type.dtype, s * middle), sign | (code % 2 ? code + 1 : code)) << code;
                EXPECT_EQ(narrowed(type.dtype, s * std::nextafter(middle, 0.0f)), sign | code) << code;
                EXPECT_EQ(narrowed(type.dtype, s * std::nextafter(middle, infinity)), sign | (code + 1)) << code;
            }
        for (const float large : {type.largest * 1.01f, type.largest * 1.5f, type.largest * 1000, 3e38f}) {
            EXPECT_EQ(narrowed(type.dtype, large), last) << large;
            EXPECT_EQ(narrowed(type.dtype, -large), 128 | last) << large;
        }
        EXPECT_EQ(narrowed(type.dtype, 1e-40f), 0);
        EXPECT_EQ(narrowed(type.dtype, -0.0f), 128);
        EXPECT_FALSE(std::isfinite(valueOf(type, narrowed(type.dtype, infinity))));
        EXPECT_FALSE(std::isfinite(valueOf(type, narrowed(type.dtype, -infinity))));
    }
}

// The formulas of docs/cache.md, in another order: scale, codes, what they stand for. `count` elements of which the last block may be
// short.
struct Quantized {
    std::vector<float> values;
    std::vector<int> codes;
    std::vector<float> scales; // as they are stored
};
float halfOf(float value) {
    uint16_t half = 0;
    float back = 0;
    EXPECT_EQ(vkattnConvert(VKATTN_F32, &value, VKATTN_F16, &half, 1, nullptr), VKATTN_OK);
    EXPECT_EQ(vkattnConvert(VKATTN_F16, &half, VKATTN_F32, &back, 1, nullptr), VKATTN_OK);
    return back;
}
Quantized quantized(vkattn_dtype dtype, const std::vector<float> &from) {
    Quantized q;
    const size_t block = dtype == VKATTN_INT8 ? from.size() : 32;
    for (size_t at = 0; at < from.size(); at += block) {
        float most = 0;
        for (size_t n = at; n < std::min(from.size(), at + block); ++n)
            if (std::fabs(from[n]) > std::fabs(most)) most = from[n];
        const float scale = dtype == VKATTN_Q4_0 ? most / -8 : std::fabs(most) / 127, stored = dtype == VKATTN_INT8 ? scale : halfOf(scale);
        q.scales.push_back(stored);
        for (size_t n = at; n < std::min(from.size(), at + block); ++n) {
            float code = scale == 0 ? 0 : std::nearbyint(from[n] / scale);
            if (dtype == VKATTN_Q4_0) code = std::min(code, 7.0f);
            q.codes.push_back(static_cast<int>(code));
            q.values.push_back(stored * code);
        }
    }
    return q;
}

TEST(SmallTypes, blocksHoldScalesAndCodes) {
    Random random = randomFor("blocks");
    for (const vkattn_dtype dtype : {VKATTN_Q8_0, VKATTN_Q4_0, VKATTN_INT8})
        for (const size_t count : {1u, 7u, 31u, 32u, 33u, 64u, 80u, 1024u, 1057u, 2048u})
            for (const float size : {1.0f, 1e-3f, 3e4f, 0.0f}) {
                std::vector<float> from(count);
                for (float &x : from) x = size * (static_cast<float>(random() % 20001) / 10000 - 1);
                const Quantized expected = quantized(dtype, from);
                const size_t blocks = dtype == VKATTN_INT8 ? 1 : (count + 31) / 32, blockBytes = dtype == VKATTN_Q8_0   ? 34
                                                                                                 : dtype == VKATTN_Q4_0 ? 18
                                                                                                                        : 4 + count;
                std::vector<unsigned char> bytes(blocks * blockBytes + 2, 0xa5);
                ASSERT_EQ(vkattnConvert(VKATTN_F32, from.data(), dtype, bytes.data() + 1, count, nullptr), VKATTN_OK);
                EXPECT_EQ(bytes.front(), 0xa5);
                EXPECT_EQ(bytes.back(), 0xa5);
                for (size_t n = 0; n < blocks * 32 && dtype != VKATTN_INT8; ++n) {
                    const unsigned char *block = bytes.data() + 1 + n / 32 * blockBytes;
                    const size_t inBlock = n % 32;
                    const int code = dtype == VKATTN_Q8_0 ? static_cast<signed char>(block[2 + inBlock])
                                     : inBlock < 16       ? block[2 + inBlock] % 16 - 8
                                                          : block[2 + inBlock - 16] / 16 - 8;
                    ASSERT_EQ(code, n < count ? expected.codes[n] : 0) << n << " of " << count;
                }
                std::vector<float> back(count);
                ASSERT_EQ(vkattnConvert(dtype, bytes.data() + 1, VKATTN_F32, back.data(), count, nullptr), VKATTN_OK);
                ASSERT_EQ(back, expected.values) << count;
            }
}

// A block of which an element is not finite is none of numbers, and its neighbours are as ever.
TEST(SmallTypes, whatIsNotFiniteStaysInItsBlock) {
    for (const vkattn_dtype dtype : {VKATTN_Q8_0, VKATTN_Q4_0, VKATTN_INT8})
        for (const float bad : {nan, infinity, -infinity}) {
            std::vector<float> from(96, 0.5f), back(96);
            from[40] = bad;
            std::vector<unsigned char> bytes(3 * 34);
            ASSERT_EQ(vkattnConvert(VKATTN_F32, from.data(), dtype, bytes.data(), 96, nullptr), VKATTN_OK);
            ASSERT_EQ(vkattnConvert(dtype, bytes.data(), VKATTN_F32, back.data(), 96, nullptr), VKATTN_OK);
            for (size_t n = 0; n < 96; ++n) EXPECT_EQ(std::isfinite(back[n]), dtype != VKATTN_INT8 && n / 32 != 1) << n;
        }
}

// Whatever the CPU reads where caches lie, it computes with the numbers that they stand for: the same bits.
TEST(SmallTypes, attentionIsThatOfWhatTheyHold) {
    Random random = randomFor("small caches");
    const Draws draws{80, 400};
    for (int n = 0; draws.take(n); ++n) {
        Case c = drawSmallCache(random, 3);
        if (n % 3 == 0) { // few rows, with dims in lanes
            c = {};
            const Case types = drawSmallCache(random, 0);
            c.k = types.k, c.v = types.v, c.queryTokens = 1, c.heads = 4, c.kvHeads = n % 2 ? 4 : 1,
            c.headDim = c.valueDim = n % 4 ? 64 : 32, c.keyTokens = 200;
        }
        const std::unique_ptr<CaseData> data = makeCaseData(c, random);
        const vkattn_operation attention = operation(data->problem);
        runOnCpu(attention, data->operands, 2, caseText(c));
        const vkattn_verify_report report = verifiedOnCpu(attention, data->operands, caseText(c));
        ASSERT_TRUE(report.passed) << caseText(c) << ": " << report.worstGot << ", expected " << report.worstExpected;
        const Outputs small = data->outputs();
        const DequantizedProblem exact(*data);
        runOnCpu(operation(exact.problem), exact.operands, 2, caseText(c));
        ASSERT_EQ(std::memcmp(small.out.data(), data->out.data(), data->out.bytes()), 0) << caseText(c);
    }
}

std::string refusal(vkattn_problem p) {
    vkattn_diagnostic why{};
    EXPECT_EQ(vkattnValidateProblem(&p, &why), VKATTN_ERROR_INVALID_ARGUMENT);
    return why.message;
}
bool contains(const std::string &text, const char *part) {
    return text.find(part) != std::string::npos;
}

TEST(SmallTypes, layoutsThatCannotBeAreRefused) {
    const auto halves = [](uint32_t dim) { return packed(VKATTN_F16, 1, 2, 8, dim); };
    for (const vkattn_dtype dtype : {VKATTN_Q8_0, VKATTN_Q4_0, VKATTN_INT8, VKATTN_FP8_E4M3, VKATTN_FP8_E5M2}) {
        const auto small = [&](uint32_t dim) { return packed(dtype, 1, 2, 8, dim); };
        vkattn_problem p = problem(halves(40), small(40), small(40), halves(40));
        vkattn_diagnostic why{};
        EXPECT_EQ(vkattnValidateProblem(&p, &why), VKATTN_OK) << why.message;
        EXPECT_EQ(vkattnOperandBytes(&p, VKATTN_K), dtype == VKATTN_Q8_0   ? 16u * 2 * 34
                                                    : dtype == VKATTN_Q4_0 ? 16u * 2 * 18
                                                    : dtype == VKATTN_INT8 ? 16u * 44
                                                                           : 16u * 40);
        vkattn_problem q = p;
        q.q.dtype = dtype;
        EXPECT_TRUE(contains(refusal(q), "q has dtype")) << refusal(q);
        if (dtype == VKATTN_FP8_E4M3 || dtype == VKATTN_FP8_E5M2) continue;
        vkattn_problem apart = p;
        apart.k.strideElems[3] = 2;
        EXPECT_TRUE(contains(refusal(apart), "between dims, expected 1")) << refusal(apart);
        vkattn_problem unaligned = p;
        unaligned.v.strideElems[2] += 1;
        EXPECT_TRUE(contains(refusal(unaligned), "pad the rows")) << refusal(unaligned);
        unaligned = p;
        unaligned.k.offsetElems = 2;
        EXPECT_TRUE(contains(refusal(unaligned), "offsetElems 2")) << refusal(unaligned);
    }
    vkattn_problem forward = problem(halves(32), packed(VKATTN_Q8_0, 1, 2, 8, 32), halves(32), halves(32));
    forward.lse = packed(VKATTN_F32, 1, 2, 8, 1);
    vkattn_attention_gradient backward{};
    backward.structSize = sizeof backward;
    backward.forward = &forward;
    backward.dOut = backward.dQ = halves(32);
    vkattn_diagnostic why{};
    const vkattn_operation asked = operation(backward);
    EXPECT_EQ(vkattnValidateOperation(&asked, &why), VKATTN_ERROR_INVALID_ARGUMENT);
    EXPECT_TRUE(contains(why.message, "k of forward is VKATTN_Q8_0; gradients take")) << why.message;
}

TEST(SmallTypes, conversionsThatCannotBeAreRefused) {
    float values[4] = {};
    unsigned char bytes[64] = {};
    vkattn_diagnostic why{};
    EXPECT_EQ(vkattnConvert(VKATTN_F16, bytes, VKATTN_Q8_0, bytes + 32, 4, &why), VKATTN_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(vkattnConvert(VKATTN_F32, values, VKATTN_DTYPE_MAX, bytes, 4, &why), VKATTN_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(vkattnConvert(VKATTN_F32, values, VKATTN_INT8, nullptr, 4, &why), VKATTN_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(vkattnConvert(VKATTN_F32, bytes, VKATTN_Q8_0, bytes + 15, 4, &why), VKATTN_ERROR_INVALID_ARGUMENT);
    EXPECT_TRUE(contains(why.message, "overlap")) << why.message;
    EXPECT_EQ(vkattnConvert(VKATTN_F32, bytes, VKATTN_Q8_0, bytes + 16, 4, &why), VKATTN_OK);
}

} // namespace
