// Latent layers (vkattn/latent_layer.h) on lists, in both forms, beside their formulas: the naive
// ones, in double precision, whichever form computes.
#include "conform/layers/layer_case.hpp"
#include "device/environment.hpp"
#include "support/extent.hpp"

#include <cmath>
#include <gtest/gtest.h>

using namespace vkattn;
using namespace vkattn::test;

namespace {

DeviceTensor wordsOf(Runtime &runtime, uint32_t count, uint32_t value) {
    DeviceTensor made = runtime.allocate(words(count));
    const std::vector<uint32_t> values(count, value);
    EXPECT_EQ(made.upload(values.data(), 4 * values.size()), VKATTN_OK);
    return made;
}

} // namespace

TEST(LatentLayer, bothFormsAreTheFormulas) {
    RuntimeOptions onCpu;
    onCpu.device = "cpu";
    const auto cpu = Runtime::open(onCpu, nullptr, nullptr);
    Random random = randomFor("latent layers");
    const Draws draws(1, 100);
    for (int n = 0; draws.take(n); ++n) {
        const auto d = drawLatent(random, n == 0);
        for (const vkattn_latent_form form : {VKATTN_LATENT_ABSORBED, VKATTN_LATENT_NAIVE})
            for (Runtime *runtime : {runtimeFor(Limits::full), fullExtent() ? runtimeFor(Limits::weak) : nullptr, cpu.get()}) {
                if (!runtime) continue;
                SCOPED_TRACE("layer " + std::to_string(n) + ", form " + std::to_string(form));
                d->form = form;
                ASSERT_EQ(computeAndJudge(*runtime, *d).wrong, "");
            }
    }
}

// The sizes of DeepSeek-V3 but for the number of heads and the model: head dim 576, value dim 512.
TEST(LatentLayer, hasTheDimsOfDeepSeek) {
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    Random random = randomFor("DeepSeek");
    LatentCase d;
    d.tokens = 2, d.model = 24, d.queryLatent = 40, d.latent = 512, d.out = 24, d.past = 30, d.cacheTokens = 40;
    d.heads = 4, d.nope = 128, d.rope = 64, d.value = 128;
    d.fill(random);
    EXPECT_EQ(computeAndJudge(*runtime, d).wrong, "");
    if (!fullExtent()) return;
    d.form = VKATTN_LATENT_NAIVE;
    EXPECT_EQ(computeAndJudge(*runtime, d).wrong, "");
    d.form = VKATTN_LATENT_ABSORBED, d.stored = VKATTN_BF16;
    EXPECT_EQ(computeAndJudge(*runtime, d).wrong, "");
}

// Tokens one at a time through the cache give what they give at once.
TEST(LatentLayer, decodesFromItsCache) {
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    Random random = randomFor("latent decode");
    LatentCase d;
    d.tokens = 6, d.model = 20, d.latent = 16, d.out = 20, d.cacheTokens = 6, d.heads = 3, d.nope = 8, d.rope = 4, d.value = 8;
    d.fill(random);
    LatentLayerOf whole = d.on(*runtime, nullptr);
    OperationList prefill = runtime->list();
    std::string why;
    ASSERT_EQ(prefill.add(whole, &why), VKATTN_OK) << why;
    ASSERT_EQ(prefill.run().status, VKATTN_OK);
    std::vector<float> expected(uint64_t{d.tokens} * d.out);
    ASSERT_EQ(whole.y.download(expected.data(), 4 * expected.size()), VKATTN_OK);

    LatentLayerOf one = d.on(*runtime, nullptr);
    const DeviceTensor all = one.x;
    one.x = runtime->allocate(packed(VKATTN_F32, 1, 1, 1, d.model));
    one.y = runtime->allocate(packed(VKATTN_F32, 1, 1, 1, d.out));
    one.starts = wordsOf(*runtime, 1, 0);
    one.attention.keyLengths = wordsOf(*runtime, 1, 1);
    OperationList decode = runtime->list();
    ASSERT_EQ(decode.add(one, &why), VKATTN_OK) << why;
    ASSERT_EQ(decode.add(AdvanceOf{one.starts, one.starts}, &why), VKATTN_OK) << why;
    ASSERT_EQ(decode.add(AdvanceOf{one.attention.keyLengths, one.attention.keyLengths}, &why), VKATTN_OK) << why;
    for (uint32_t t = 0; t < d.tokens; ++t) {
        ASSERT_EQ(one.x.upload(d.arrays[VKATTN_X].values.data() + t * d.model, 4 * d.model), VKATTN_OK);
        ASSERT_EQ(decode.run().status, VKATTN_OK);
        std::vector<float> y(d.out);
        ASSERT_EQ(one.y.download(y.data(), 4 * y.size()), VKATTN_OK);
        for (uint32_t n = 0; n < d.out; ++n) ASSERT_NEAR(y[n], expected[t * d.out + n], 1e-4f * (1 + std::abs(y[n]))) << "token " << t;
    }
}
