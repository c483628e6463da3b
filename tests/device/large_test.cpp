// Tensors past maxStorageBufferRange (128 MiB on some drivers), and views of one buffer.
#include "forms.hpp"

#include <cmath>

using namespace vkattn;
using namespace vkattn::test;

// One head whose K alone is 146 MiB: keys must be cut into chunks, partial outputs added up in fp32.
TEST(Large, oneHeadPast128MiB) {
    Runtime *runtime = runtimeFor(Limits::weak);
    ASSERT_TRUE(runtime);
    Case c;
    c.name = "large", c.kernel = VKATTN_KERNEL_STAGED;
    c.batch = 1, c.heads = c.kvHeads = 1, c.queryTokens = 3, c.keyTokens = 300000, c.headDim = 128, c.valueDim = 128, c.lse = true,
    c.causal = true;
    c.poison = false;
    Random random = randomFor(c.name);
    const auto in = makeInstance(c, random);
    EXPECT_GT(in->k.bytes(), 1ull << 27);
    // A needle in the last chunk: what a lost chunk would take away.
    for (uint32_t d = 0; d < 128; ++d) in->k.set(0, 0, 299000, d, in->q.get(0, 0, 1, d));
    in->collectOperands();
    const RunResult result = runtime->run(in->problem, in->operands);
    ASSERT_EQ(result.status, VKATTN_OK) << result.message;
    EXPECT_GT(result.dispatchCount, 3u);
    EXPECT_EQ(runAndCheck(*runtime, *in), "");
    Runtime *full = runtimeFor(Limits::full); // the weak device has too few bindings to merge partial results
    ASSERT_TRUE(full);
    in->problem.kernel = VKATTN_KERNEL_DECODE;
    EXPECT_EQ(runAndCheck(*full, *in), "");
}

// Long rows: lavapipe leaves a shader after 65,535 loop iterations, and only needles in the far keys tell.
TEST(Large, longRows) {
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    for (const uint32_t keys : {65537u, 131073u, 479999u, 600001u})
        for (const uint32_t needle : {0u, keys / 2, keys - 1}) {
            Case c;
            c.name = "long" + std::to_string(keys), c.kernel = VKATTN_KERNEL_STAGED;
            c.batch = 1, c.heads = c.kvHeads = 1, c.queryTokens = 2, c.keyTokens = keys, c.headDim = c.valueDim = 3, c.lse = true,
            c.poison = false;
            c.data = Data::needle, c.needle = needle, c.weights = keys < 500000;
            Random random = randomFor(c.name);
            const auto in = makeInstance(c, random);
            EXPECT_EQ(runAndCheck(*runtime, *in), "") << keys << " keys, needle " << needle;
        }
}

// The same of the fused kernels, by form; with splits and key lanes the combining shader loops as well.
class LargeOf : public EveryForm {};
TEST_P(LargeOf, longRows) {
    if (form().kernel == VKATTN_KERNEL_STAGED) GTEST_SKIP() << "Large.longRows";
    Runtime *on = runtime();
    if (!on) return;
    enum Kind { plain, masked, fixedSplits };
    for (const uint32_t keys : {70001u, 400001u})
        for (const Kind kind : {plain, masked, fixedSplits}) {
            const bool manyRows = keys < 100000; // so many that keys need not be split to fill the device: splits are long
            if (kind == (manyRows ? fixedSplits : masked)) continue;
            Case c = taken({});
            c.name = "longFused" + std::to_string(keys), c.deterministic = kind == fixedSplits;
            c.batch = 1, c.heads = c.kvHeads = manyRows ? 16 : 1, c.queryTokens = manyRows ? 1 : 2;
            c.keyTokens = keys, c.headDim = c.valueDim = 8, c.poison = false, c.data = Data::needle, c.needle = keys - 1;
            if (kind == masked) c.maskBroadcast = 1 | 2 | 4; // each step is looked at before it is taken
            Random random = randomFor(c.name);
            const auto in = makeInstance(c, random);
            for (uint32_t key = 0; kind == masked && key < keys; ++key) in->mask.set(0, 0, 0, key, key + 1 == keys || key % 64 != 5);
            in->collectOperands();
            EXPECT_EQ(runAndCheck(*on, *in), "") << keys << (kind == masked ? " masked" : c.deterministic ? " deterministic" : "");
        }
}
VKATTN_FORMS(LargeOf);

// A long context of a usual model. Its splits are as long as a shader may loop over.
TEST(Large, decodeOf131072Keys) {
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    Case c;
    c.name = "decode131072", c.kernel = VKATTN_KERNEL_DECODE, c.batch = 1, c.heads = 8, c.kvHeads = 2, c.queryTokens = 1,
    c.keyTokens = 131072, c.headDim = c.valueDim = 64, c.poison = false, c.k = c.v = VKATTN_F16;
    Random random = randomFor(c.name);
    const auto in = makeInstance(c, random);
    EXPECT_EQ(runAndCheck(*runtime, *in), "");
}
TEST(Large, manyHeadsPast128MiB) {
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    Case c;
    c.name = "manyHeadsLarge", c.kernel = VKATTN_KERNEL_STAGED;
    c.batch = 40, c.heads = 20, c.kvHeads = 20, c.queryTokens = 1, c.keyTokens = 700, c.headDim = c.valueDim = 64, c.poison = false;
    c.kStyle = c.vStyle = Style::tokenMajor;
    Random random = randomFor(c.name);
    const auto in = makeInstance(c, random);
    EXPECT_GT(in->k.bytes(), 1ull << 27);
    EXPECT_EQ(runAndCheck(*runtime, *in), "");
}

// Stride 0: all heads read the same keys, all batch entries the same query.
TEST(Views, inputsMayShareMemory) {
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    Case c;
    c.name = "shared";
    c.poison = false, c.lse = true;
    Random random = randomFor(c.name);
    const auto in = makeInstance(c, random);
    for (vkattn_layout *layout : {&in->problem.k, &in->problem.v}) layout->strideElems[1] = 0;
    in->problem.q.strideElems[0] = 0;
    EXPECT_EQ(runAndCheck(*runtime, *in), "");
    for (uint32_t d = 0; d < c.valueDim; ++d) EXPECT_TRUE(std::isfinite(in->out.get(1, 1, 3, d)));
}

TEST(Views, valuesAreASliceOfKeys) {
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    for (const vkattn_dtype dtype : {VKATTN_F32, VKATTN_F16}) {
        Case c;
        c.name = "view";
        c.headDim = 24, c.valueDim = 16, c.k = c.v = dtype, c.poison = false;
        Random random = randomFor(c.name);
        const auto in = makeInstance(c, random);
        in->problem.v = in->problem.k;
        in->problem.v.extent[3] = 16;
        in->problem.v.offsetElems = 7; // odd: halves of other words
        in->v = in->k;
        in->v.layout = in->problem.v;
        in->collectOperands();
        for (vkattn_operand_memory &operand : in->operands)
            if (operand.role == VKATTN_V) operand.data = in->k.data(), operand.bytes = in->k.bytes();
        EXPECT_EQ(runAndCheck(*runtime, *in), "");
    }
}
