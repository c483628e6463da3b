// Row statistics where scores are large, on every kernel: equal scores have weights of exactly
// 1 / keys, which the log-sum-exp alone does not give back.
#include "device/environment.hpp"

#include <cmath>

using namespace vkattn;
using namespace vkattn::test;

namespace {

struct EqualScores {
    vkattn_kernel kernel;
    vkattn_dtype dtype;
    uint32_t keys;
    float query, key, bias; // score: query * key + bias
};

// Returns false where the device has no such kernel.
bool check(const EqualScores &c) {
    constexpr uint32_t dim = 16, queries = 3;
    const auto elements = [&](uint32_t rows, float first) {
        HostTensor t;
        t.make(packed(c.dtype, 1, 1, rows, dim), size_t{rows} * dim * (c.dtype == VKATTN_F32 ? 4 : 2), 0);
        for (uint32_t row = 0; row < rows; ++row) t.set(0, 0, row, 0, first);
        return t;
    };
    HostTensor q = elements(queries, c.query), k = elements(c.keys, c.key), v = elements(c.keys, 1), out = elements(queries, 77);
    std::vector<float> bias(size_t{queries} * c.keys, c.bias), statistics(size_t{queries} * 2, 77.0f);
    vkattn_problem p{};
    p.structSize = sizeof p;
    p.flags = VKATTN_SCALE | VKATTN_ROW_STATISTICS;
    p.scale = 1;
    p.kernel = c.kernel;
    p.q = q.layout, p.k = k.layout, p.v = v.layout, p.out = out.layout;
    p.lse = packed(VKATTN_F32, 1, 1, queries, 2);
    p.bias = packed(VKATTN_F32, 1, 1, queries, c.keys);
    const vkattn_operand_memory operands[] = {{VKATTN_Q, q.data(), q.bytes()},
                                              {VKATTN_K, k.data(), k.bytes()},
                                              {VKATTN_V, v.data(), v.bytes()},
                                              {VKATTN_OUT, out.data(), out.bytes()},
                                              {VKATTN_BIAS, bias.data(), bias.size() * 4},
                                              {VKATTN_LSE, statistics.data(), statistics.size() * 4}};
    const RunResult result = runtimeFor(Limits::full)->run(p, operands);
    if (result.status == VKATTN_ERROR_UNSUPPORTED || !result.fallbackReason.empty()) return false;
    EXPECT_EQ(result.status, VKATTN_OK) << result.message;
    const float score = c.query * c.key + c.bias;
    for (uint32_t i = 0; i < queries; ++i) {
        EXPECT_EQ(statistics[2 * i], score) << vkattnKernelName(c.kernel);
        EXPECT_EQ(statistics[2 * i + 1], static_cast<float>(c.keys)) << vkattnKernelName(c.kernel) << " " << score;
        EXPECT_FLOAT_EQ(std::exp(score - statistics[2 * i]) / statistics[2 * i + 1], 1.0f / static_cast<float>(c.keys));
    }
    return true;
}

} // namespace

TEST(RowStatistics, ofLargeEqualScores) {
    ASSERT_TRUE(runtimeFor(Limits::full));
    uint32_t checked = 0;
    for (const vkattn_kernel kernel : KernelList()) {
        const vkattn_dtype dtype = vkattnKernelTraits(kernel) & VKATTN_KERNEL_TRAIT_MATRIX_UNITS ? VKATTN_F16 : VKATTN_F32;
        for (const uint32_t keys : {100u, 5000u}) {
            if (!check({kernel, dtype, keys, 1000, 1000, 0})) continue;
            EXPECT_TRUE(check({kernel, dtype, keys, 0, 0, -1e9f}));
            ++checked;
        }
    }
    EXPECT_GE(checked, 2u); // staged takes everything
}
