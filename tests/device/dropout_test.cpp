// Dropout on the device: every kernel, chunk and slice keeps the pairs that vkattnDropoutKeeps names,
// and numbers that another program computed.
#include "environment.hpp"
#include "support/extent.hpp"

#include <cmath>
#include <cstring>
#include <limits>
#include <string>

using namespace vkattn;
using namespace vkattn::conform;
using namespace vkattn::test;

namespace {

constexpr vkattn_kernel kernelsOfFloats[] = {VKATTN_KERNEL_STAGED, VKATTN_KERNEL_FLASH, VKATTN_KERNEL_DECODE};

// More than are drawn together. Tests share the shape, and with it pipelines.
constexpr uint32_t keys = 37;

struct Attention {
    vkattn_problem p{};
    std::vector<float> q, k, v, out, lse, slopes, sinks;

    Attention(uint32_t batch, uint32_t heads, uint32_t kvHeads, uint32_t queries, uint32_t keyTokens, uint32_t dim, uint32_t valueDim) {
        p.structSize = sizeof p;
        const auto make = [](std::vector<float> &data, uint32_t b, uint32_t h, uint32_t t, uint32_t d) {
            data.assign(size_t{b} * h * t * d, 77.0f);
            return packed(VKATTN_F32, b, h, t, d);
        };
        p.q = make(q, batch, heads, queries, dim);
        p.k = make(k, batch, kvHeads, keyTokens, dim);
        p.v = make(v, batch, kvHeads, keyTokens, valueDim);
        p.out = make(out, batch, heads, queries, valueDim);
        p.lse = make(lse, batch, heads, queries, 1);
        for (size_t n = 0; n < q.size(); ++n) q[n] = 0.1f * static_cast<float>(n % 7) - 0.3f;
        for (size_t n = 0; n < k.size(); ++n) k[n] = 0.1f * static_cast<float>(n % 5) - 0.2f;
        // The output is the weights after dropout.
        for (size_t n = 0; n < v.size(); ++n) v[n] = n / valueDim % keyTokens == n % valueDim;
    }
    void run(Limits limits) {
        Runtime *const runtime = runtimeFor(limits);
        ASSERT_TRUE(runtime);
        run(*runtime);
    }
    void run(Runtime &runtime) {
        std::vector<vkattn_operand_memory> operands;
        const auto add = [&](vkattn_role role, std::vector<float> &data) {
            if (!data.empty()) operands.push_back({role, data.data(), data.size() * 4});
        };
        add(VKATTN_Q, q), add(VKATTN_K, k), add(VKATTN_V, v), add(VKATTN_OUT, out), add(VKATTN_LSE, lse);
        add(VKATTN_ALIBI_SLOPES, slopes), add(VKATTN_SINKS, sinks);
        const RunResult result = runtime.run(p, operands);
        ASSERT_EQ(result.status, VKATTN_OK) << result.message;
        EXPECT_EQ(result.fallbackReason, "");
    }
};

} // namespace

// Chunks and slices cut heads, queries and keys; rows of a group are packed.
TEST(DropoutOnDevice, everyKernelKeepsTheSamePairs) {
    for (const vkattn_kernel kernel : kernelsOfFloats)
        for (const Limits limits : {Limits::full, Limits::tight})
            for (const uint32_t queries : {3u, 150u}) {
                Attention a(3, 6, 2, queries, keys, 8, keys);
                a.p.kernel = kernel;
                a.p.sliceCount = limits == Limits::tight ? 3 : 0;
                a.p.dropout = 0.3, a.p.dropoutSeed = 0xfedcba9876543210ull, a.p.dropoutOffset = 5;
                ASSERT_NO_FATAL_FAILURE(a.run(limits));
                for (uint32_t n = 0; n < a.out.size(); ++n)
                    ASSERT_EQ(a.out[n] != 0, vkattnDropoutKeeps(0.3, a.p.dropoutSeed, 5, n / keys / queries, n / keys % queries, n % keys))
                        << vkattnKernelName(kernel) << ", " << limitsName(limits) << ", head " << n / keys / queries << ", query "
                        << n / keys % queries << ", key " << n % keys;
            }
}

// A value that is not finite reaches the rows that keep its key, and no other row: neither of its own
// tile of keys nor of the tiles after it. Layouts differ in where lanes take values from.
TEST(DropoutOnDevice, valuesThatAreNotFiniteReachWhatKeepsThem) {
    Random random = randomFor("layouts of values that are not finite");
    for (const TestLayout &layout : testLayouts()) {
        if (layout.onMatrixUnits()) continue; // takes no float32
        if (!isDrawn(random, 3)) continue;
        std::string why;
        Runtime *const runtime = bench().runtime(layout, Limits::full, why);
        if (!runtime) std::printf("%s: %s\n", layout.name, why.c_str());
        ASSERT_TRUE(runtime || layout.subgroups) << why;
        if (!runtime) continue;
        for (const uint32_t key : {0u, 17u, keys - 1}) {
            Attention a(1, 2, 2, 150, keys, 8, 8);
            a.p.kernel = layout.kernel;
            a.p.dropout = 0.4, a.p.dropoutSeed = 77;
            a.v[size_t{key} * 8 + 3] = std::numeric_limits<float>::quiet_NaN();
            a.v[size_t{keys + key} * 8 + 3] = std::numeric_limits<float>::infinity();
            ASSERT_NO_FATAL_FAILURE(a.run(*runtime)) << layout.name;
            for (uint32_t n = 0; n < a.out.size(); ++n) {
                const uint32_t head = n / 8 / 150, query = n / 8 % 150, dim = n % 8;
                const float x = a.out[n];
                const bool special = dim == 3 && vkattnDropoutKeeps(0.4, 77, 0, head, query, key);
                const bool right = special ? (head ? std::isinf(x) : std::isnan(x))
                                           : std::isfinite(x) && (x != 0) == vkattnDropoutKeeps(0.4, 77, 0, head, query, dim);
                ASSERT_TRUE(right) << layout.name << ", key " << key << ", head " << head << ", query " << query << ", dim " << dim << ": "
                                   << x;
            }
        }
    }
}

TEST(DropoutOnDevice, goldenOutputs) {
    for (const vkattn_kernel kernel : kernelsOfFloats) {
        Attention a(1, 2, 1, 2, 3, 2, 2);
        const auto fill = [](std::vector<float> &data, int start) {
            for (size_t n = 0; n < data.size(); ++n)
                data[n] = static_cast<float>((37 * (start + static_cast<int>(n)) + 11) % 29 - 14) / 10.0f;
        };
        fill(a.q, 0), fill(a.k, 100), fill(a.v, 200);
        a.p.kernel = kernel;
        a.p.flags = VKATTN_CAUSAL | VKATTN_SCALE;
        a.p.scale = 0.5f, a.p.softcap = 1.5f;
        a.slopes = {0.25f, -0.5f}, a.sinks = {0.3f, -1.0f};
        a.p.presentRoles = VKATTN_PRESENT(VKATTN_ALIBI_SLOPES) | VKATTN_PRESENT(VKATTN_SINKS);
        a.p.dropout = 0.5, a.p.dropoutSeed = 42, a.p.dropoutOffset = 7;
        ASSERT_NO_FATAL_FAILURE(a.run(Limits::full));
        constexpr float out[] = {0, 0, 0.2934372f, 1.1433636f, 0, 0, 0.4252872f, 1.1057468f};
        constexpr float lse[] = {1.1366070f, 1.4160793f, 1.1123959f, 1.6462315f};
        for (size_t n = 0; n < a.out.size(); ++n) EXPECT_NEAR(a.out[n], out[n], 2e-6f) << vkattnKernelName(kernel) << " " << n;
        for (size_t n = 0; n < a.lse.size(); ++n) EXPECT_NEAR(a.lse[n], lse[n], 2e-6f) << vkattnKernelName(kernel) << " " << n;
    }
}

TEST(DropoutOnDevice, zeroIsNoneAndOneIsNothing) {
    for (const vkattn_kernel kernel : kernelsOfFloats) {
        Attention a(3, 6, 2, 150, keys, 8, keys);
        a.p.kernel = kernel;
        ASSERT_NO_FATAL_FAILURE(a.run(Limits::full));
        const std::vector<float> out = a.out;
        a.p.dropout = 0x1p-34, a.p.dropoutSeed = 9; // rounds to a threshold of 0
        ASSERT_NO_FATAL_FAILURE(a.run(Limits::full));
        EXPECT_EQ(std::memcmp(out.data(), a.out.data(), out.size() * 4), 0) << vkattnKernelName(kernel);
        a.p.dropout = 1;
        a.v.assign(a.v.size(), std::numeric_limits<float>::quiet_NaN()); // all of it unread
        ASSERT_NO_FATAL_FAILURE(a.run(Limits::full));
        for (const float x : a.out) ASSERT_EQ(x, 0) << vkattnKernelName(kernel);
    }
}
