// Latent layers (vkattn/latent_layer.h): which descriptions are refused, with what reason, which
// steps and barriers a layer has, and what vkattnRecordLatentLayer records.
#include "layer_engine.hpp"

#include <cmath>

using namespace vkattn;
using namespace vkattn::test;

namespace {

constexpr vkattn_result ok = VKATTN_OK, invalid = VKATTN_ERROR_INVALID_ARGUMENT;

// 4 heads of 8 + 4 dims and 6 of values, latents of 16 and 20, over 5 tokens of 24 and a cache of 9.
vkattn_latent_layer fullLayer() {
    vkattn_latent_layer l{};
    l.structSize = sizeof l;
    l.flags = VKATTN_LAYER_RESIDUAL;
    l.heads = 4, l.nope = 8, l.rope = 4, l.value = 6;
    l.epsilon = 1e-6f;
    l.pairs = VKATTN_PAIRS_INTERLEAVED;
    l.presentRoles = VKATTN_PRESENT(VKATTN_STARTS);
    l.x = l.y = packed(VKATTN_F32, 2, 1, 5, 24);
    l.wdq = matrix(VKATTN_F32, 20, 24);
    l.gammaQ = vector(VKATTN_F32, 20);
    l.wuq = matrix(VKATTN_F32, 4 * 12, 20);
    l.wdkv = matrix(VKATTN_F32, 16 + 4, 24);
    l.gamma = vector(VKATTN_F32, 16);
    l.wukv = matrix(VKATTN_F32, 4 * 14, 16);
    l.wo = matrix(VKATTN_F32, 24, 4 * 6);
    l.cos = l.sin = matrix(VKATTN_F32, 32, 2);
    l.cache = packed(VKATTN_F32, 2, 1, 9, 20);
    return l;
}

} // namespace

// Columns of the same rows share a range of bytes, and wait for each other.
TEST(LatentLayerPlan, listsTheStepsOfBothForms) {
    vkattn_latent_layer l = fullLayer();
    l.form = VKATTN_LATENT_ABSORBED;
    EXPECT_EQ(steps(l), "dq dkv | q norm kv norm | append | k rotary uq | absorb | q rotary | attention | v | out");
    l.form = VKATTN_LATENT_NAIVE;
    EXPECT_EQ(steps(l), "dq dkv | q norm kv norm | append | k rotary uq | uk uv | spread q rotary | attention | out");
    l.cache = l.wdq = l.gammaQ = {};
    l.wuq = matrix(VKATTN_F32, 4 * 12, 24);
    EXPECT_EQ(steps(l), "dkv | kv norm | k rotary uq | uk uv | spread q rotary | attention | out");
}

// One token takes the absorbed form, and many tokens without a cache the naive one: as the header
// counts.
TEST(LatentLayerPlan, takesTheFormWithLessWork) {
    vkattn_latent_layer l = fullLayer();
    EXPECT_NE(steps(l).find("absorb"), std::string::npos);
    l.heads = 128, l.nope = 128, l.rope = 64, l.value = 128;
    l.wuq = matrix(VKATTN_F32, 128 * 192, 20), l.wdkv = matrix(VKATTN_F32, 576, 24), l.gamma = vector(VKATTN_F32, 512);
    l.wukv = matrix(VKATTN_F32, 128 * 256, 512), l.wo = matrix(VKATTN_F32, 24, 128 * 128), l.cos = l.sin = matrix(VKATTN_F32, 32, 32);
    const auto has = [&](uint32_t tokens, uint32_t keys) {
        l.x = l.y = packed(VKATTN_F32, 1, 1, tokens, 24);
        l.cache = packed(VKATTN_F32, 1, 1, keys, 576);
        return steps(l).find("absorb") != std::string::npos;
    };
    EXPECT_TRUE(has(1, 4096));
    EXPECT_FALSE(has(4096, 4096));
    // n m (1088 - 320) = (m - n) 512 * 256: at m = 4096 n is 163.8
    EXPECT_TRUE(has(163, 4096));
    EXPECT_FALSE(has(164, 4096));
}

TEST(LatentLayerPlan, refusesWhatIsNoLayer) {
    static vkattn_problem options;
    const WrongLayer<vkattn_latent_layer> wrong[] = {
        {"structSize", [](auto &l) { l.structSize = 0; }},
        {"flags is 0x2", [](auto &l) { l.flags = 2; }},
        {"heads is 0", [](auto &l) { l.heads = 0; }},
        {"heads is 1048577", [](auto &l) { l.heads = 1048577; }},
        {"nope is 0", [](auto &l) { l.nope = 0; }},
        {"rope 3 and", [](auto &l) { l.rope = 3; }},
        {"value 0, expected", [](auto &l) { l.value = 0; }},
        {"no vkattn_latent_form", [](auto &l) { l.form = static_cast<vkattn_latent_form>(3); }},
        {"layer.stored is 3", [](auto &l) { l.stored = VKATTN_BOOL8; }},
        {"arrays of the attention are in its options", [](auto &l) { l.presentRoles |= VKATTN_PRESENT(VKATTN_KEY_LENGTHS); }},
        {"gammaQ and no wdq", [](auto &l) { l.wdq = {}; }},
        {"layer.x has extent 2", [](auto &l) { l.x = packed(VKATTN_F32, 1, 2, 5, 24); }},
        {"layer.wo is [2, 1", [](auto &l) { l.wo = packed(VKATTN_F32, 2, 1, 24, 24); }},
        {"layer.wdkv has 4 rows", [](auto &l) { l.wdkv = matrix(VKATTN_F32, 4, 24); }},
        {"layer.wuq has 47 rows, expected heads * (nope + rope) = 48", [](auto &l) { l.wuq = matrix(VKATTN_F32, 47, 20); }},
        {"layer.wukv has 55 rows, expected heads * (nope + value) = 56", [](auto &l) { l.wukv = matrix(VKATTN_F32, 55, 16); }},
        {"layer.wo has 23 columns, expected heads * value = 24", [](auto &l) { l.wo = matrix(VKATTN_F32, 24, 23); }},
        {"layer.wukv has a stride of 0", [](auto &l) { l.wukv.strideElems[2] = 0; }},
        {"layer.wukv has strides or an offset that no memory has", // found by fuzzing: overflow
         [](auto &l) { l.wukv.strideElems[2] = INT64_MIN; }},
        {"layer.wukv has strides", [](auto &l) { l.wukv.offsetElems = UINT64_MAX; }},
        {"layer.cache has strides", [](auto &l) { l.cache.strideElems[3] = INT64_MAX; }},
        {"layer.cache is [2, 1, 9, 19]", [](auto &l) { l.cache = packed(VKATTN_F32, 2, 1, 9, 19); }},
        {"at most 2^50 numbers", [](auto &l) { l.x = l.y = packed(VKATTN_F32, 1u << 20, 1, 1u << 28, 24), l.cache = {}; }},
        {"step 'dq'", [](auto &l) { l.wdq = matrix(VKATTN_F32, 20, 23); }},
        {"step 'q norm'", [](auto &l) { l.gammaQ = vector(VKATTN_F32, 19); }},
        {"step 'dkv'", [](auto &l) { l.wdkv = matrix(VKATTN_F32, 20, 23); }},
        {"step 'kv norm'", [](auto &l) { l.gamma = vector(VKATTN_F32, 15); }},
        {"step 'k rotary'", [](auto &l) { l.cos = matrix(VKATTN_F32, 32, 3); }},
        {"step 'out'", [](auto &l) { l.wo = matrix(VKATTN_F32, 23, 24); }},
        {"layer.options.sliceCount is 2",
         [](auto &l) { options = {}, options.structSize = sizeof options, options.sliceCount = 2, l.options = &options; }},
        {"step 'attention'",
         [](auto &l) { options = {}, options.structSize = sizeof options, options.softcap = -1, l.options = &options; }},
    };
    expectRefused<vkattn_latent_layer>(fullLayer(), wrong);
    EXPECT_EQ(vkattnPlanLatentLayer(nullptr, nullptr, nullptr), invalid);
}

// The attention's own scale, and the host's where there is one.
TEST(LatentLayerPlan, scalesByTheDimsOfTheFormula) {
    vkattn_latent_layer l = fullLayer();
    vkattn_layer_plan plan;
    vkattn_diagnostic why{};
    for (const vkattn_latent_form form : {VKATTN_LATENT_ABSORBED, VKATTN_LATENT_NAIVE}) {
        l.form = form;
        l.options = nullptr;
        ASSERT_EQ(planned(l, plan, why), ok) << why.message;
        EXPECT_TRUE(plan.attention.flags & VKATTN_SCALE);
        EXPECT_FLOAT_EQ(plan.attention.scale, 1 / std::sqrt(12.0f));
        vkattn_problem options{};
        options.structSize = sizeof options, options.flags = VKATTN_SCALE, options.scale = 0.75f;
        l.options = &options;
        ASSERT_EQ(planned(l, plan, why), ok) << why.message;
        EXPECT_EQ(plan.attention.scale, 0.75f);
    }
}

TEST(RecordLatentLayer, recordsWhatItsNeedsSay) {
    for (const vkattn_latent_form form : {VKATTN_LATENT_ABSORBED, VKATTN_LATENT_NAIVE}) {
        vkattn_latent_layer layer = fullLayer();
        layer.form = form;
        LayerEngine<vkattn_latent_layer> e(layer);
        expectRecordedAsNeeded(e, "vkattnPrewarmLatentLayer");
        if (HasFatalFailure()) return;
        e.of(VKATTN_CACHE).size = 16;
        EXPECT_EQ(e.record(), invalid);
        EXPECT_NE(std::string(e.why.message).find("the layer's step 'append'"), std::string::npos) << e.why.message;
    }
}
