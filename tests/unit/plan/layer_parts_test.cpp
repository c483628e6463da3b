// How layers are cut into parts: every query is computed once, on all that it sees.
#include "problem/layers/layer_parts.hpp"
#include "vkattn/vkattn.hpp"

#include <gtest/gtest.h>

using namespace vkattn;

namespace {

vkattn_layer layerOf(uint32_t batch, uint32_t tokens, const vkattn_problem *options = nullptr) {
    vkattn_layer l{};
    l.structSize = sizeof l;
    l.heads = 2;
    l.x = l.y = packed(VKATTN_F32, batch, 1, tokens, 16);
    l.wq = l.wk = l.wv = l.wo = matrix(VKATTN_F32, 16, 16);
    l.options = options;
    return l;
}

vkattn_layer_plan planned(LayerParts &parts, uint32_t part) {
    vkattn_layer_plan plan{};
    plan.structSize = sizeof plan;
    vkattn_diagnostic why{};
    EXPECT_EQ(parts.plan(part, plan, &why), VKATTN_OK) << why.message;
    return plan;
}

std::string namesOf(const vkattn_layer_plan &plan) {
    std::string all;
    for (uint32_t n = 0; n < plan.stepCount; ++n)
        all += std::string(n ? plan.steps[n].barrierBefore ? " | " : " " : "") + plan.steps[n].name;
    return all;
}

vkattn_problem optionsWith(uint32_t flags, std::initializer_list<vkattn_role> arrays = {}) {
    vkattn_problem options{};
    options.structSize = sizeof options;
    options.flags = flags;
    for (const vkattn_role role : arrays) options.presentRoles |= VKATTN_PRESENT(role);
    return options;
}

// Of an entry of 256 tokens.
constexpr uint64_t little = 50000;

} // namespace

TEST(LayerParts, aLayerThatFitsIsOne) {
    const vkattn_layer l = layerOf(6, 256);
    LayerParts parts(l, 1 << 30);
    EXPECT_EQ(parts.count(), 1u);
    EXPECT_EQ(namesOf(planned(parts, 0)), "q k v | attention | out");
    EXPECT_EQ(parts.skippedBytes(VKATTN_KEY_LENGTHS), 0u);
    const vkattn_layer none = layerOf(0, 256);
    EXPECT_EQ(LayerParts(none, 0).count(), 1u) << "no entries are one part";
}

TEST(LayerParts, dropoutKeepsALayerWhole) { // pairs draw by their place in the whole
    vkattn_problem options = optionsWith(0);
    options.dropout = 0.5;
    const vkattn_layer l = layerOf(6, 256, &options);
    LayerParts parts(l, little);
    EXPECT_EQ(parts.count(), 1u);
    options.dropout = 0;
    EXPECT_GT(LayerParts(l, little).count(), 1u);
}

// A part of a layer drops what the whole drops there.
TEST(LayerParts, outputDropoutCountsFromTheWhole) {
    vkattn_layer l = layerOf(5, 32);
    l.outputDropout = 0.5, l.outputDropoutSeed = 1;
    vkattn_layer_plan whole{};
    whole.structSize = sizeof whole;
    ASSERT_EQ(vkattnPlanLayer(&l, &whole, nullptr), VKATTN_OK);
    EXPECT_EQ(namesOf(whole), "q k v | attention | out | drop");
    LayerParts entries(l, whole.betweenBytes / 2);
    ASSERT_EQ(entries.count(), 3u);
    for (uint32_t part = 0; part < 3; ++part) {
        const vkattn_layer_plan plan = planned(entries, part);
        EXPECT_EQ(plan.drop.firstPlane, 2 * part);
        EXPECT_EQ(plan.drop.firstRow, 0u);
        EXPECT_EQ(plan.drop.x.extent[0], part < 2 ? 2u : 1u);
    }
    l.x = l.y = packed(VKATTN_F32, 2, 1, 256, 16);
    LayerParts tokens(l, little);
    const uint32_t partsOfEntry = tokens.count() / 2;
    ASSERT_GT(partsOfEntry, 1u);
    uint32_t row = 0;
    for (uint32_t part = 0; part < tokens.count(); ++part) {
        if (part % partsOfEntry == 0) row = 0;
        const vkattn_layer_plan plan = planned(tokens, part);
        EXPECT_EQ(plan.drop.firstPlane, part / partsOfEntry);
        EXPECT_EQ(plan.drop.firstRow, row);
        row += plan.drop.x.extent[2];
    }
    EXPECT_EQ(row, 256u);
}

TEST(LayerParts, entriesAreCutFirst) {
    const vkattn_problem options = optionsWith(0, {VKATTN_KEY_LENGTHS});
    const vkattn_layer l = layerOf(5, 32, &options);
    vkattn_layer_plan whole{};
    whole.structSize = sizeof whole;
    ASSERT_EQ(vkattnPlanLayer(&l, &whole, nullptr), VKATTN_OK);
    LayerParts parts(l, whole.betweenBytes / 2);
    ASSERT_EQ(parts.count(), 3u);
    for (uint32_t part = 0; part < 3; ++part) {
        const vkattn_layer_plan plan = planned(parts, part);
        EXPECT_EQ(plan.projections[0].x.extent[0], part < 2 ? 2u : 1u);
        EXPECT_EQ(plan.projections[0].x.offsetElems, part * 2u * 32 * 16);
        EXPECT_EQ(parts.skippedBytes(VKATTN_KEY_LENGTHS), 8 * part);
        EXPECT_EQ(parts.skippedBytes(VKATTN_SINKS), 0u);
        EXPECT_LE(plan.betweenBytes, whole.betweenBytes / 2);
    }
}

TEST(LayerParts, tokensOfAnEntryShareItsKeys) {
    vkattn_problem options = optionsWith(VKATTN_CAUSAL, {VKATTN_DOC_IDS_Q, VKATTN_DOC_IDS_K});
    options.bias = packed(VKATTN_F32, 1, 2, 256, 256);
    vkattn_layer l = layerOf(2, 256, &options);
    l.cos = l.sin = matrix(VKATTN_F32, 300, 4);
    l.start = 7;
    LayerParts parts(l, little);
    ASSERT_EQ(parts.count(), 4u);
    const uint64_t keys = planned(parts, 0).attention.k.offsetElems;
    for (uint32_t part = 0; part < 4; ++part) {
        const vkattn_layer_plan plan = planned(parts, part);
        const uint32_t first = part % 2 * 128;
        EXPECT_EQ(namesOf(plan), part % 2 ? "q | q rotary | attention | out" : "k v | k rotary q | q rotary | attention | out");
        EXPECT_EQ(plan.attention.q.extent[2], 128u);
        EXPECT_EQ(plan.attention.k.offsetElems, keys) << "the entry's keys stay where they are";
        EXPECT_EQ(plan.attention.k.extent[2], first + 128) << "of causal queries";
        EXPECT_EQ(plan.attention.bias.offsetElems, first * 256u);
        EXPECT_EQ(plan.attention.bias.extent[3], first + 128);
        EXPECT_EQ(plan.rotaries[part % 2 ? 0 : 1].start, 7 + first);
        EXPECT_EQ(parts.skippedBytes(VKATTN_DOC_IDS_Q), 4u * (part / 2 * 256 + first));
        EXPECT_EQ(parts.skippedBytes(VKATTN_DOC_IDS_K), 4u * (part / 2 * 256));
        EXPECT_LE(plan.betweenBytes, little);
    }
}

// An array of positions is bound from the cut's first token on, and no start goes with it.
TEST(LayerParts, positionsOfAnArrayAreTheCutsOwn) {
    vkattn_layer l = layerOf(1, 256);
    l.cos = l.sin = matrix(VKATTN_F32, 300, 4);
    l.presentRoles = VKATTN_PRESENT(VKATTN_POSITIONS);
    LayerParts parts(l, little);
    ASSERT_EQ(parts.count(), 2u);
    for (uint32_t part = 0; part < 2; ++part) {
        const vkattn_layer_plan plan = planned(parts, part);
        EXPECT_EQ(plan.rotaries[0].start, 0u);
        EXPECT_EQ(parts.skippedBytes(VKATTN_POSITIONS), 4u * 128 * part);
    }
}

// Aligned at the first key, the last query of a cut sees the key of its own number.
TEST(LayerParts, alignmentIsKept) {
    for (const uint32_t flags : {0, int{VKATTN_ALIGN_TOP_LEFT}}) {
        const vkattn_problem options = optionsWith(VKATTN_CAUSAL | flags);
        vkattn_layer l = layerOf(1, 128, &options);
        l.context = packed(VKATTN_F32, 1, 1, 200, 16);
        LayerParts parts(l, 1);
        ASSERT_EQ(parts.count(), 2u);
        const vkattn_layer_plan plan = planned(parts, 0);
        EXPECT_EQ(plan.attention.k.extent[2], flags ? 64u : 136u);
        EXPECT_EQ(plan.attention.flags, uint32_t{VKATTN_CAUSAL});
    }
}

TEST(LayerParts, tokensStayTogetherWhereACutWouldShow) {
    const auto countOf = [](const vkattn_problem &options, uint32_t keys = 256, uint32_t layerRoles = 0) {
        vkattn_layer l = layerOf(1, 256, &options);
        if (keys != 256) l.context = packed(VKATTN_F32, 1, 1, keys, 16);
        if (layerRoles) l.cos = l.sin = matrix(VKATTN_F32, 300, 4), l.presentRoles = layerRoles;
        return LayerParts(l, little).count();
    };
    EXPECT_EQ(countOf(optionsWith(0)), 2u);
    EXPECT_EQ(countOf(optionsWith(0), 256, VKATTN_PRESENT(VKATTN_POSITIONS)), 2u);
    EXPECT_EQ(countOf(optionsWith(0), 256, VKATTN_PRESENT(VKATTN_STARTS)), 1u) << "starts are by entry";
    EXPECT_EQ(countOf(optionsWith(0, {VKATTN_KEY_LENGTHS})), 2u);
    EXPECT_EQ(countOf(optionsWith(VKATTN_CAUSAL, {VKATTN_KEY_LENGTHS})), 1u) << "the last key is on the device";
    EXPECT_EQ(countOf(optionsWith(VKATTN_CAUSAL, {VKATTN_ALIBI_SLOPES})), 2u);
    EXPECT_EQ(countOf(optionsWith(0, {VKATTN_ALIBI_SLOPES})), 1u) << "keys behind the cut count from its end";
    EXPECT_EQ(countOf(optionsWith(VKATTN_CAUSAL), 255), 1u) << "the first query sees no key";
    vkattn_problem options = optionsWith(VKATTN_WINDOW);
    options.windowLeft = options.windowRight = 5;
    EXPECT_EQ(countOf(options), 1u);
    options.flags |= VKATTN_CAUSAL;
    EXPECT_EQ(countOf(options), 2u) << "nothing behind the query is seen";
    options = optionsWith(VKATTN_CAUSAL);
    options.weights = packed(VKATTN_F32, 1, 2, 256, 256);
    EXPECT_EQ(countOf(options), 1u) << "weights of hidden keys are written";
}
