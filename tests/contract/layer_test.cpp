// Layers (vkattn/layer.h): which descriptions are refused, with what reason, and what
// vkattnRecordLayer records into a host's command buffer.
#include "layer_engine.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <gtest/gtest.h>
#include <utility>

using namespace vkattn;
using namespace vkattn::test;

namespace {

constexpr vkattn_result ok = VKATTN_OK, invalid = VKATTN_ERROR_INVALID_ARGUMENT;

// 4 heads, 2 of keys and values, of 8 dims, over 6 tokens of 32: everything that a layer may have.
vkattn_layer fullLayer() {
    vkattn_layer l{};
    l.structSize = sizeof l;
    l.flags = VKATTN_LAYER_RESIDUAL;
    l.heads = 4, l.kvHeads = 2;
    l.place = VKATTN_NORM_POST;
    l.epsilon = 1e-5f;
    l.x = l.y = packed(VKATTN_F32, 2, 1, 6, 32);
    l.wq = l.wo = matrix(VKATTN_F32, 32, 32);
    l.wk = l.wv = matrix(VKATTN_F32, 16, 32);
    l.bq = l.bo = l.gamma = l.beta = vector(VKATTN_F32, 32);
    l.bk = l.bv = vector(VKATTN_F32, 16);
    return l;
}

} // namespace

TEST(LayerPlan, listsTheStepsThatTheLayerHas) {
    vkattn_layer l = fullLayer();
    EXPECT_EQ(steps(l), "q k v | attention | out | norm");
    l.place = VKATTN_NORM_PRE;
    EXPECT_EQ(steps(l), "norm | q k v | attention | out");
    l.place = VKATTN_NORM_NONE, l.gamma = l.beta = {};
    EXPECT_EQ(steps(l), "q k v | attention | out");
    l.context = packed(VKATTN_F32, 2, 1, 9, 32);
    EXPECT_EQ(steps(l), "q k v | attention | out");
    l.context = l.wk = l.wv = l.bk = l.bv = l.bq = {};
    l.wq = matrix(VKATTN_F32, 64, 32);
    EXPECT_EQ(steps(l), "qkv | attention | out");
    l.cos = l.sin = matrix(VKATTN_F32, 6, 4);
    EXPECT_EQ(steps(l), "qkv | qk rotary | attention | out");
    l = fullLayer();
    l.cos = l.sin = matrix(VKATTN_F32, 6, 4);
    EXPECT_EQ(steps(l), "q k v | q rotary k rotary | attention | out | norm");
}

// Both rotations take the layer's positions; of a packed product one turns the heads of Q and of K.
TEST(LayerPlan, turnsQueriesAndKeys) {
    vkattn_layer l = fullLayer();
    l.cos = l.sin = matrix(VKATTN_F32, 20, 3);
    l.pairs = VKATTN_PAIRS_INTERLEAVED;
    l.start = 5;
    vkattn_layer_plan plan;
    vkattn_diagnostic why{};
    ASSERT_EQ(planned(l, plan, why), ok) << why.message;
    for (const vkattn_rotary &rotary : plan.rotaries) {
        EXPECT_EQ(rotary.x.extent[1], &rotary == plan.rotaries ? 4u : 2u);
        EXPECT_EQ(rotary.pairs, VKATTN_PAIRS_INTERLEAVED);
        EXPECT_EQ(rotary.start, 5u);
        EXPECT_EQ(rotary.cos.extent[3], 3u);
    }
    l.start = 0, l.presentRoles = VKATTN_PRESENT(VKATTN_POSITIONS);
    l.wk = l.wv = l.bk = l.bv = l.bq = {}, l.wq = matrix(VKATTN_F32, 64, 32);
    ASSERT_EQ(planned(l, plan, why), ok) << why.message;
    EXPECT_EQ(plan.rotaries[0].x.extent[1], 6u);
    EXPECT_EQ(plan.rotaries[0].presentRoles, VKATTN_PRESENT(VKATTN_POSITIONS));
    EXPECT_EQ(plan.rotaries[1].x.extent[1], 0u);
}

// What drops adds X where no norm does.
TEST(LayerPlan, dropsTheOutputWhereAsked) {
    vkattn_layer l = fullLayer();
    l.outputDropout = 0.25, l.outputDropoutSeed = 1ull << 40, l.outputDropoutOffset = 9;
    vkattn_layer_plan plan;
    vkattn_diagnostic why{};
    for (const vkattn_norm_place place : {VKATTN_NORM_POST, VKATTN_NORM_NONE}) {
        const bool post = place == VKATTN_NORM_POST;
        l.place = place;
        if (!post) l.gamma = l.beta = {};
        EXPECT_EQ(steps(l), post ? "q k v | attention | out | drop | norm" : "q k v | attention | out | drop");
        ASSERT_EQ(planned(l, plan, why), ok) << why.message;
        EXPECT_EQ(plan.drop.probability, 0.25);
        EXPECT_EQ(plan.drop.seed, 1ull << 40);
        EXPECT_EQ(plan.drop.offset, 9u);
        EXPECT_EQ(plan.drop.residual.extent[3], post ? 0u : 32u);
        EXPECT_EQ(plan.projections[3].residual.extent[3], 0u);
        const vkattn_layer_step &drop = plan.steps[5];
        EXPECT_EQ(drop.operands[0].from, VKATTN_WORKSPACE);
        EXPECT_EQ(drop.operands[drop.operandCount - 1].role, VKATTN_Y);
        EXPECT_EQ(drop.operands[drop.operandCount - 1].from, post ? VKATTN_WORKSPACE : VKATTN_Y);
    }
    // Both dropouts, told apart by the seed or by the offset.
    vkattn_problem options{};
    options.structSize = sizeof options;
    options.dropout = 0.5, options.dropoutSeed = 1ull << 40, options.dropoutOffset = 8;
    l.options = &options;
    EXPECT_EQ(planned(l, plan, why), ok) << why.message;
    options.dropoutSeed = 0, options.dropoutOffset = 9;
    EXPECT_EQ(planned(l, plan, why), ok) << why.message;
}

TEST(LayerPlan, averagesWeightsWhereAsked) {
    vkattn_layer l = fullLayer();
    vkattn_problem options{};
    options.structSize = sizeof options;
    options.weights = packed(VKATTN_F16, 2, 1, 6, 6);
    l.options = &options;
    l.flags |= VKATTN_LAYER_AVERAGED_WEIGHTS;
    EXPECT_EQ(steps(l), "q k v | attention | weights out | norm");
    vkattn_layer_plan plan;
    vkattn_diagnostic why{};
    ASSERT_EQ(planned(l, plan, why), ok) << why.message;
    EXPECT_EQ(plan.attention.weights.extent[1], 4u);
    EXPECT_EQ(plan.attention.weights.dtype, VKATTN_F32);
    EXPECT_EQ(plan.mean.y.dtype, VKATTN_F16);
    const vkattn_layer_step &mean = plan.steps[4];
    EXPECT_EQ(mean.operands[0].from, VKATTN_WORKSPACE);
    EXPECT_EQ(mean.operands[1].from, VKATTN_WEIGHTS);

    const auto refused = [&](const char *expected) {
        EXPECT_EQ(planned(l, plan, why), invalid);
        EXPECT_NE(std::string(why.message).find(expected), std::string::npos) << why.message;
    };
    options.weights = packed(VKATTN_F16, 2, 4, 6, 6);
    refused("the layer's step 'weights': y is [2, 4, 6, 6], expected [2, 1, 6, 6]");
    options.weights = {};
    refused("the options have no weights: give options->weights as [batch, 1, tokens, key tokens], or clear the flag");
    l.options = nullptr;
    refused("the options have no weights");
    // A ragged batch: two sequences in one entry.
    l = fullLayer();
    l.flags |= VKATTN_LAYER_AVERAGED_WEIGHTS;
    l.x = l.y = packed(VKATTN_F32, 1, 1, 6, 32);
    options.sequences = 2, options.maxSeqQ = options.maxSeqK = 3;
    options.presentRoles = VKATTN_PRESENT(VKATTN_CU_SEQ_Q) | VKATTN_PRESENT(VKATTN_CU_SEQ_K);
    options.weights = packed(VKATTN_F32, 2, 1, 3, 3);
    l.options = &options;
    refused("in a ragged batch, whose pairs outside a sequence have no weights: take the weights of each head");
    // More numbers than 64 bits have room for.
    options = {};
    options.structSize = sizeof options;
    l.x = l.y = packed(VKATTN_F32, 1, 1, 1u << 25, 32);
    options.weights = packed(VKATTN_F32, 1, 1, 1u << 25, 1u << 25);
    refused("expected at most 2^50 numbers between its steps");
}

// The parameters that the paper's layer has: 4 * 512^2 + 4 * 512 of matrices and biases, 1024 of the
// norm; and its work, 8 n D^2 + 4 n^2 D.
TEST(LayerPlan, countsWhatThePaperCounts) {
    vkattn_layer l = fullLayer();
    l.heads = l.kvHeads = 8;
    l.x = l.y = packed(VKATTN_F32, 1, 1, 1024, 512);
    l.wq = l.wk = l.wv = l.wo = matrix(VKATTN_F32, 512, 512);
    l.bq = l.bk = l.bv = l.bo = l.gamma = l.beta = vector(VKATTN_F32, 512);
    uint64_t parameters = 0;
    for (const vkattn_layout *each : {&l.wq, &l.wk, &l.wv, &l.wo, &l.bq, &l.bk, &l.bv, &l.bo, &l.gamma, &l.beta})
        parameters += uint64_t{each->extent[2]} * each->extent[3];
    EXPECT_EQ(parameters, 1050624u + 1024u);
    vkattn_layer_plan plan;
    vkattn_diagnostic why{};
    ASSERT_EQ(planned(l, plan, why), ok) << why.message;
    vkattn_caps caps{};
    caps.structSize = sizeof caps;
    ASSERT_EQ(vkattnMinimumCaps(&caps, nullptr), ok);
    double products = 0;
    for (uint32_t n = 0; n < plan.stepCount; ++n) {
        vkattn_explanation explanation{};
        explanation.structSize = sizeof explanation;
        ASSERT_EQ(vkattnExplainOperation(&caps, nullptr, &plan.steps[n].operation, &explanation, &why), ok) << why.message;
        if (plan.steps[n].operation.kind != VKATTN_NORM) products += explanation.flops;
    }
    const double expected = 8.0 * 1024 * 512 * 512 + 4.0 * 1024 * 1024 * 512;
    EXPECT_NEAR(products / expected, 1, 1e-3); // and the biases
}

// Norm, Q, K, V, A and the statistics of rows; the sum of a post-norm takes the place of what is summed up.
TEST(LayerPlan, keepsTheStepsThatABackwardPassReads) {
    vkattn_layer l = fullLayer();
    vkattn_layer_plan plan;
    vkattn_diagnostic why{};
    ASSERT_EQ(planned(l, plan, why), ok) << why.message;
    EXPECT_EQ(plan.keptBytes, 0u);
    l.flags |= VKATTN_LAYER_KEEPS_STEPS;
    EXPECT_EQ(steps(l), "q k v | attention | out | norm");
    ASSERT_EQ(planned(l, plan, why), ok) << why.message;
    EXPECT_EQ(plan.betweenBytes, 0u);
    EXPECT_EQ(plan.keptBytes, 4u * 12 * (32 + 16 + 16 + 32 + 32) + 512) << "Q, K, V, A, X + Y, and two numbers for each row and head";
    EXPECT_TRUE(plan.attention.flags & VKATTN_ROW_STATISTICS);
    EXPECT_EQ(plan.attention.lse.extent[3], 2u);
    EXPECT_EQ(plan.norms[0].sum.offsetElems, plan.norms[0].x.offsetElems);
    for (uint32_t n = 0; n < plan.stepCount; ++n)
        for (uint32_t o = 0; o < plan.steps[n].operandCount; ++o) EXPECT_NE(plan.steps[n].operands[o].from, VKATTN_WORKSPACE);
    l.place = VKATTN_NORM_PRE;
    ASSERT_EQ(planned(l, plan, why), ok) << why.message;
    EXPECT_EQ(plan.keptBytes, 4u * 12 * (32 + 32 + 16 + 16 + 32) + 512) << "norm(X) in the place of X + Y";
    EXPECT_EQ(plan.norms[0].sum.extent[0], 0u);
}

TEST(LayerPlan, refusesWhatIsNoLayer) {
    static vkattn_problem options;
    const WrongLayer<vkattn_layer> wrong[] = {
        {"structSize", [](vkattn_layer &l) { l.structSize = 0; }},
        {"flags is 0x8", [](vkattn_layer &l) { l.flags = 8; }},
        {"keeps the statistics of the rows in its place",
         [](vkattn_layer &l) {
             options = {}, options.structSize = sizeof options, options.lse = packed(VKATTN_F32, 2, 4, 6, 1), l.options = &options;
             l.flags |= VKATTN_LAYER_KEEPS_STEPS;
         }},
        {"heads is 0", [](vkattn_layer &l) { l.heads = 0; }},
        {"heads is 1048577", [](vkattn_layer &l) { l.heads = l.kvHeads = 1048577; }},
        {"at most 2^50 numbers",
         [](vkattn_layer &l) {
             l.x = l.y = {VKATTN_F32, {1u << 22, 1, 1u << 26, 32}, {0, 0, 0, 1}, 0};
         }}, // found by fuzzing: overflow
        {"expected a divisor of heads, 4", [](vkattn_layer &l) { l.kvHeads = 3; }},
        {"no vkattn_norm_place", [](vkattn_layer &l) { l.place = static_cast<vkattn_norm_place>(7); }},
        {"gamma or beta and no norm", [](vkattn_layer &l) { l.place = VKATTN_NORM_NONE; }},
        {"layer.stored is 3", [](vkattn_layer &l) { l.stored = VKATTN_BOOL8; }},
        {"has wk and not wv", [](vkattn_layer &l) { l.wv = {}; }},
        {"has wv and not wk", [](vkattn_layer &l) { l.wk = {}; }},
        {"a context and one packed matrix", [](vkattn_layer &l) { l.wk = l.wv = l.bk = l.bv = {}, l.context = l.x; }},
        {"the biases of all three are bq", [](vkattn_layer &l) { l.wk = l.wv = {}, l.wq = matrix(VKATTN_F32, 64, 32); }},
        {"layer.x has extent 2", [](vkattn_layer &l) { l.x = packed(VKATTN_F32, 1, 2, 6, 32); }},
        {"the batch of x", [](vkattn_layer &l) { l.context = packed(VKATTN_F32, 1, 1, 6, 32); }},
        {"layer.wo is [2, 1", [](vkattn_layer &l) { l.wo = packed(VKATTN_F32, 2, 1, 32, 32); }},
        {"wq has 30 rows, expected a multiple of 4", [](vkattn_layer &l) { l.wq = matrix(VKATTN_F32, 30, 32); }},
        {"wk has 12 rows, expected kvHeads * head dim = 2 * 8", [](vkattn_layer &l) { l.wk = matrix(VKATTN_F32, 12, 32); }},
        {"wv has 15 rows, expected a multiple of kvHeads, 2", [](vkattn_layer &l) { l.wv = matrix(VKATTN_F32, 15, 32); }},
        {"wo has 31 columns", [](vkattn_layer &l) { l.wo = matrix(VKATTN_F32, 32, 31); }},
        {"the residual adds x", [](vkattn_layer &l) { l.wo = matrix(VKATTN_F32, 16, 32); }},
        {"step 'q'", [](vkattn_layer &l) { l.wq = matrix(VKATTN_F32, 32, 31); }},
        {"step 'k'", [](vkattn_layer &l) { l.bk = vector(VKATTN_F32, 15); }},
        {"step 'norm'", [](vkattn_layer &l) { l.gamma = vector(VKATTN_F32, 31); }},
        {"step 'norm'", [](vkattn_layer &l) { l.epsilon = -1; }},
        {"step 'norm'", [](vkattn_layer &l) { l.y = packed(VKATTN_F32, 2, 1, 6, 31); }},
        {"layer has sin and not cos", [](vkattn_layer &l) { l.sin = matrix(VKATTN_F32, 6, 4); }},
        {"layer has cos and not sin", [](vkattn_layer &l) { l.cos = matrix(VKATTN_F32, 6, 4); }},
        {"positions (start 1, presentRoles 0x0) and no cos", [](vkattn_layer &l) { l.start = 1; }},
        {"and no cos", [](vkattn_layer &l) { l.presentRoles = VKATTN_PRESENT(VKATTN_STARTS); }},
        {"a context and cos", [](vkattn_layer &l) { l.cos = l.sin = matrix(VKATTN_F32, 6, 4), l.context = l.x; }},
        {"layer.outputDropout is 1.5, expected a probability from 0 to 1", [](vkattn_layer &l) { l.outputDropout = 1.5; }},
        {"layer.outputDropout is nan", [](vkattn_layer &l) { l.outputDropout = std::nan(""); }},
        {"outputDropoutSeed 7 and outputDropoutOffset 0 without outputDropout", [](vkattn_layer &l) { l.outputDropoutSeed = 7; }},
        {"outputDropoutSeed 0 and outputDropoutOffset 7 without outputDropout", [](vkattn_layer &l) { l.outputDropoutOffset = 7; }},
        {"are those of the options' dropout: each call site has an offset of its own",
         [](vkattn_layer &l) {
             options = {}, options.structSize = sizeof options, l.options = &options;
             options.dropout = l.outputDropout = 0.5, options.dropoutOffset = l.outputDropoutOffset = 3;
         }},
        {"step 'q rotary'", [](vkattn_layer &l) { l.cos = l.sin = matrix(VKATTN_F32, 6, 5); }},
        {"step 'q rotary'",
         [](vkattn_layer &l) { l.cos = l.sin = matrix(VKATTN_F32, 6, 4), l.presentRoles = VKATTN_PRESENT(VKATTN_KEY_LENGTHS); }},
        {"step 'q rotary'",
         [](vkattn_layer &l) { l.cos = l.sin = matrix(VKATTN_F32, 6, 4), l.pairs = static_cast<vkattn_rotary_pairs>(2); }},
        {"layer.options: structSize", [](vkattn_layer &l) { options = {}, l.options = &options; }},
        {"layer.options.flags has VKATTN_VALUES_IN_KEYS, expected it clear",
         [](vkattn_layer &l) {
             options = {}, options.structSize = sizeof options, options.flags = VKATTN_VALUES_IN_KEYS, l.options = &options;
         }},
        {"layer.options.sliceCount is 2",
         [](vkattn_layer &l) { options = {}, options.structSize = sizeof options, options.sliceCount = 2, l.options = &options; }},
        {"step 'attention'",
         [](vkattn_layer &l) { options = {}, options.structSize = sizeof options, options.softcap = -1, l.options = &options; }},
    };
    expectRefused<vkattn_layer>(fullLayer(), wrong);
    vkattn_layer_plan plan{};
    vkattn_diagnostic why{};
    const vkattn_layer l = fullLayer();
    EXPECT_EQ(vkattnPlanLayer(nullptr, &plan, &why), invalid);
    EXPECT_EQ(vkattnPlanLayer(&l, nullptr, &why), invalid);
    EXPECT_EQ(vkattnPlanLayer(&l, &plan, &why), invalid);
    EXPECT_NE(std::string(why.message).find("plan: structSize"), std::string::npos) << why.message;
}

TEST(RecordLayer, recordsWhatItsNeedsSay) {
    for (const bool pushDescriptors : {true, false}) {
        LayerEngine<vkattn_layer> e(fullLayer(), pushDescriptors);
        const vkattn_requirements needs = e.needs();
        FakePool pool(needs.descriptorSetCount, needs.storageDescriptorCount);
        EXPECT_EQ(needs.descriptorSetCount, pushDescriptors ? 0 : needs.dispatchCount);
        expectRecordedAsNeeded(e, "vkattnPrewarmLayer", pool.handle());
        if (HasFatalFailure()) return;
        uint32_t barriers = 0;
        for (const FakeDispatch &dispatch : e.commands.dispatches) barriers += dispatch.barriers;
        EXPECT_GE(barriers, 3u) << "before attention, out and norm";
        EXPECT_EQ(e.commands.dispatches[1].barriers + e.commands.dispatches[2].barriers, 0u) << "K and V wait for nothing";
        EXPECT_EQ(pool.taken, needs.descriptorSetCount);
    }
}

// Entries first, then the tokens of one: what the parts need together stays below the limit.
TEST(RecordLayer, isCutBelowTheLimit) {
    vkattn_layer l = fullLayer();
    l.x = l.y = packed(VKATTN_F32, 4, 1, 96, 32);
    LayerEngine<vkattn_layer> whole(l);
    const vkattn_requirements uncut = whole.needs();
    uint64_t dispatches = uncut.dispatchCount;
    for (const uint32_t share : {2, 3}) { // an entry in a part, and 64 tokens of one
        const uint64_t limit = uncut.workspaceBytes / share;
        LayerEngine<vkattn_layer> e(l, true, limit);
        const vkattn_requirements needs = e.needs();
        EXPECT_LE(needs.workspaceBytes, limit);
        EXPECT_GT(needs.dispatchCount, dispatches) << "of " << limit << " bytes";
        dispatches = needs.dispatchCount;
        expectRecordedAsNeeded(e, "vkattnPrewarmLayer");
        if (HasFatalFailure()) return;
        const std::vector<FakeDispatch> &recorded = e.commands.dispatches;
        for (size_t n = recorded.size() / 4; n < recorded.size(); n += recorded.size() / 4)
            EXPECT_GT(recorded[n].barriers, 0u) << "parts share the workspace";
    }
}

TEST(RecordLayer, isWholeWhereItKeepsItsSteps) {
    vkattn_layer l = fullLayer();
    l.x = l.y = packed(VKATTN_F32, 4, 1, 24, 32);
    l.flags |= VKATTN_LAYER_KEEPS_STEPS;
    LayerEngine<vkattn_layer> whole(l), limited(l, true, 4096);
    EXPECT_EQ(limited.needs().dispatchCount, whole.needs().dispatchCount);
    expectRecordedAsNeeded(limited, "vkattnPrewarmLayer");
}

TEST(RecordLayer, refusesBindingsThatDoNotFit) {
    struct Wrong {
        const char *words;
        std::function<void(LayerEngine<vkattn_layer> &)> make;
    };
    const Wrong wrong[] = {
        {"role 48 is not bound: the layer's step 'q' uses it",
         [](LayerEngine<vkattn_layer> &e) {
             e.bindings.erase(std::find_if(e.bindings.begin(), e.bindings.end(), [](const auto &each) { return each.role == VKATTN_WQ; }));
         }},
        {"is bound twice", [](LayerEngine<vkattn_layer> &e) { e.bindings.push_back(e.of(VKATTN_X)); }},
        {"which the layer does not use",
         [](LayerEngine<vkattn_layer> &e) {
             e.bindings.push_back({VKATTN_CONTEXT, layerBuffer, 0, 4096});
         }},
        {"the workspace has", [](LayerEngine<vkattn_layer> &e) { e.of(VKATTN_WORKSPACE).size -= 4; }},
        {"the layer's step 'k'", [](LayerEngine<vkattn_layer> &e) { e.of(VKATTN_WK).size = 16; }},
        {"the layer's step 'norm'", [](LayerEngine<vkattn_layer> &e) { e.of(VKATTN_Y).offset = e.of(VKATTN_GAMMA).offset; }},
    };
    for (const Wrong &each : wrong) {
        LayerEngine<vkattn_layer> e(fullLayer());
        ASSERT_EQ(e.context.prewarm(e.layer, &e.why), ok);
        each.make(e);
        EXPECT_EQ(e.record(), invalid) << each.words;
        EXPECT_NE(std::string(e.why.message).find(each.words), std::string::npos) << "expected \"" << each.words << "\": " << e.why.message;
    }
    LayerEngine<vkattn_layer> e(fullLayer());
    vkattn_record record{};
    record.structSize = sizeof record;
    EXPECT_EQ(vkattnRecordLayer(e.context.handle(), &e.layer, &record, &e.why), invalid);
    EXPECT_NE(std::string(e.why.message).find("commandBuffer"), std::string::npos) << e.why.message;
    record.commandBuffer = e.commands.handle();
    record.sliceIndex = 1;
    EXPECT_EQ(vkattnRecordLayer(e.context.handle(), &e.layer, &record, &e.why), invalid);
    EXPECT_NE(std::string(e.why.message).find("one slice"), std::string::npos) << e.why.message;
    EXPECT_EQ(vkattnRecordLayer(nullptr, &e.layer, &record, &e.why), invalid);
    vkattn_requirements needs{};
    EXPECT_EQ(vkattnQueryLayer(e.context.handle(), &e.layer, &needs, &e.why), invalid) << "structSize is not set";
    EXPECT_EQ(vkattnPrewarmLayer(e.context.handle(), nullptr, &e.why), invalid);
    EXPECT_TRUE(e.commands.dispatches.empty());
}
