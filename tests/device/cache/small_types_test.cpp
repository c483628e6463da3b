// Keys and values of small types on a device: every code, read exactly, and drawn problems of every kernel.
#include "device/environment.hpp"
#include "device/lists.hpp"

#include "conform/cases/case_text.hpp"
#include "support/extent.hpp"
#include "support/keys/small_cache.hpp"
#include "vkattn/list.hpp"

#include <cmath>
#include <cstring>

using namespace vkattn;
using namespace vkattn::test;

namespace {

constexpr vkattn_dtype smallTypes[] = {VKATTN_FP8_E4M3, VKATTN_FP8_E5M2, VKATTN_Q8_0, VKATTN_Q4_0, VKATTN_INT8};

bool same(float got, float expected, bool promisesNan) {
    return std::isnan(expected) ? std::isnan(got) || !promisesNan : got == expected;
}

// One key: its weight is 1, and the result is V. The log-sum-exp is its score, and of a query that is 1 in
// one dim the score is that dim of K.
void expectEveryCodeRead(vkattn_dtype dtype) {
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    Random random = randomFor(dtypeNameOf(dtype));
    Case c;
    c.batch = 8, c.heads = c.kvHeads = 4, c.queryTokens = 64, c.keyTokens = 1, c.headDim = c.valueDim = 64, c.k = c.v = dtype, c.lse = true,
    c.poison = false, c.scale = 1.0f;
    const auto in = makeCaseData(c, random);
    for (HostTensor *const t : {&in->k, &in->v})
        for (uint64_t n = 0; n < t->bytes(); ++n) t->data()[n] = static_cast<unsigned char>(n % 256 + n / 256);
    const auto scale = [&](HostTensor &t) { // finite ones of every size
        const uint64_t step = dtype == VKATTN_Q8_0 ? 34 : dtype == VKATTN_Q4_0 ? 18 : dtype == VKATTN_INT8 ? 68 : 0;
        for (uint64_t n = 0; step && n < t.bytes(); n += step) {
            const float value = std::ldexp(1.0f + static_cast<float>(random() % 1024) / 1024, static_cast<int>(random() % 20) - 12);
            uint16_t half = 0;
            ASSERT_EQ(vkattnConvert(VKATTN_F32, &value, VKATTN_F16, &half, 1, nullptr), VKATTN_OK);
            if (dtype == VKATTN_INT8)
                std::memcpy(t.data() + n, &value, 4);
            else
                std::memcpy(t.data() + n, &half, 2);
        }
    };
    scale(in->k), scale(in->v);
    for (uint32_t b = 0; b < 8; ++b)
        for (uint32_t h = 0; h < 4; ++h)
            for (uint32_t i = 0; i < 64; ++i)
                for (uint32_t d = 0; d < 64; ++d) in->q.set(b, h, i, d, i == d ? 1.0f : 0.0f);
    const RunResult result = runtime->run(in->problem, in->operands);
    ASSERT_EQ(result.status, VKATTN_OK) << result.message;
    const bool promisesNan = runtime->device()->caps.floatControlsNan;
    for (uint32_t b = 0; b < 8; ++b)
        for (uint32_t h = 0; h < 4; ++h) {
            bool finite = true; // 0 * infinity is NaN, whichever dim the query asks for
            for (uint32_t d = 0; d < 64; ++d) finite = finite && std::isfinite(in->k.get(b, h, 0, d));
            for (uint32_t d = 0; d < 64; ++d) {
                if (finite) {
                    ASSERT_TRUE(same(in->out.get(b, h, 0, d), in->v.get(b, h, 0, d), promisesNan)) << b << " " << h << " " << d;
                    ASSERT_EQ(in->lse.get(b, h, d, 0), in->k.get(b, h, 0, d)) << b << " " << h << " " << d;
                }
            }
        }
}

} // namespace

TEST(SmallTypesOnDevice, everyCodeIsReadExactly) {
    for (const vkattn_dtype dtype : smallTypes) expectEveryCodeRead(dtype);
}

TEST(SmallTypesOnDevice, attentionIsThatOfWhatTheyHold) {
    for (const Limits limits : {Limits::full, Limits::tight}) {
        Runtime *runtime = runtimeFor(limits);
        ASSERT_TRUE(runtime);
        Random random = randomFor(limits == Limits::full ? "small caches" : "small caches under tight limits");
        const Draws draws{limits == Limits::full ? 8 : 3, 60};
        int computed = 0, refused = 0;
        for (int n = 0; draws.take(n); ++n) {
            Case c = drawSmallCache(random, 2);
            c.headDim = n % 2 ? 16 : 64, c.valueDim = c.headDim; // few pipelines
            for (const vkattn_kernel kernel : KernelList()) {
                Case own = c;
                own.kernel = kernel;
                if (kernel >= VKATTN_KERNEL_FLASH_COOPMAT) {
                    own.q = own.out = VKATTN_F16;
                    if (own.headDim == 16) own.headDim = own.valueDim = 20; // matrices are larger
                }
                const std::unique_ptr<CaseData> data = makeCaseData(own, random);
                const Ran ran = runAndVerify(*runtime, *data);
                if (ran.result.status == VKATTN_ERROR_UNSUPPORTED) {
                    ++refused;
                    continue;
                }
                ASSERT_EQ(ran.wrong, "") << caseText(own);
                ++computed;
            }
        }
        EXPECT_GT(computed, 0);
        std::printf("%d problems with small types, %d that a kernel does not take\n", computed, refused);
    }
}

// Behind the last dim of a row lies another row, in which hidden keys have NaN: where matrices are larger than the dims, and 0 * NaN is
// NaN.
TEST(SmallTypesOnDevice, dimsBehindTheLastAreNone) {
    Runtime *const runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    Random random = randomFor("dims of small types");
    for (const vkattn_kernel kernel : KernelList())
        for (const vkattn_dtype type : {VKATTN_FP8_E4M3, VKATTN_FP8_E5M2}) {
            Case c;
            c.kernel = kernel, c.batch = 6, c.heads = c.kvHeads = 2, c.queryTokens = 20, c.keyTokens = 30, c.headDim = c.valueDim = 20;
            c.q = c.out = VKATTN_F16, c.k = c.v = type, c.lengths = true;
            const std::unique_ptr<CaseData> data = makeCaseData(c, random);
            const Ran ran = runAndVerify(*runtime, *data);
            if (ran.result.status != VKATTN_ERROR_UNSUPPORTED) {
                ASSERT_EQ(ran.wrong, "") << caseText(c);
            }
        }
}

// A cache of two layouts, filled up by the host and then on the device, is what attention reads.
TEST(SmallTypesOnDevice, listsAppendToCachesThatAttentionReads) {
    Runtime *const runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    Random random = randomFor("lists of small caches");
    constexpr uint32_t heads = 3, dims = 40, capacity = 12, held = 7;
    for (const vkattn_dtype dtype : smallTypes)
        for (const bool tokenMajor : {false, true}) {
            SCOPED_TRACE(dtypeNameOf(dtype));
            const vkattn_layout row = packed(VKATTN_F32, 1, heads, 1, dims);
            const DeviceTensor cache =
                runtime->allocate(tokenMajor ? packedTokenMajor(dtype, 1, heads, capacity, dims) : packed(dtype, 1, heads, capacity, dims));
            const DeviceTensor q = runtime->allocate(row), added = runtime->allocate(row), out = runtime->allocate(row);
            ASSERT_TRUE(cache && q && added && out);
            std::vector<float> known(heads * held * dims), token(heads * dims), query(heads * dims);
            for (std::vector<float> *const each : {&known, &token, &query})
                for (float &x : *each) x = static_cast<float>(random() % 2001) / 1000 - 1;
            const auto rowSize = static_cast<size_t>(rowBytes(dtype, dims));
            std::vector<unsigned char> bytes(heads * held * rowSize), back(bytes.size());
            for (size_t n = 0; n < heads * held; ++n)
                ASSERT_EQ(vkattnConvert(VKATTN_F32, known.data() + n * dims, dtype, bytes.data() + n * rowSize, dims, nullptr), VKATTN_OK);
            std::string why;
            const DeviceTensor first = cache.part(2, 0, held);
            ASSERT_EQ(first.upload(bytes.data(), bytes.size(), &why), VKATTN_OK) << why;
            ASSERT_EQ(first.download(back.data(), back.size(), &why), VKATTN_OK) << why;
            EXPECT_EQ(back, bytes);
            ASSERT_EQ(q.upload(query.data(), 4 * query.size(), &why), VKATTN_OK);
            ASSERT_EQ(added.upload(token.data(), 4 * token.size(), &why), VKATTN_OK);
            OperationList list = runtime->list();
            ASSERT_EQ(list.add(AppendOf{added, cache, {}, held}, &why), VKATTN_OK) << why;
            const DeviceTensor read = cache.part(2, 0, held + 1);
            ASSERT_EQ(list.add(AttentionOf{q, read, read, out}, &why), VKATTN_OK) << why;
            ASSERT_EQ(list.run().status, VKATTN_OK);
            vkattn_verify_options all{};
            all.structSize = sizeof all, all.allRows = 1;
            expectVerified(list, &all);
            // Other rows are as they were.
            ASSERT_EQ(first.download(back.data(), back.size(), &why), VKATTN_OK) << why;
            EXPECT_EQ(back, bytes);
        }
}
