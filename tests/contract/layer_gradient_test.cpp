// Gradients of layers (vkattn/layer_gradient.h): which descriptions are refused, with what reason, which
// steps a gradient needs, and what vkattnRecordLayerGradient records into a host's command buffer.
#include "layer_engine.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <gtest/gtest.h>

using namespace vkattn;
using namespace vkattn::test;

namespace {

constexpr vkattn_result ok = VKATTN_OK, invalid = VKATTN_ERROR_INVALID_ARGUMENT;

// 4 heads, 2 of keys and values, of 8 dims, over 6 tokens of 32, with every gradient.
struct FullGradient {
    vkattn_layer layer{};
    vkattn_problem options{};
    vkattn_layer_gradient gradient{};

    FullGradient() {
        layer.structSize = sizeof layer;
        layer.flags = VKATTN_LAYER_RESIDUAL | VKATTN_LAYER_KEEPS_STEPS;
        layer.heads = 4, layer.kvHeads = 2;
        layer.place = VKATTN_NORM_POST;
        layer.epsilon = 1e-5f;
        layer.x = layer.y = packed(VKATTN_F32, 2, 1, 6, 32);
        layer.wq = layer.wo = matrix(VKATTN_F32, 32, 32);
        layer.wk = layer.wv = matrix(VKATTN_F32, 16, 32);
        layer.bq = layer.bo = layer.gamma = layer.beta = vector(VKATTN_F32, 32);
        layer.bk = layer.bv = vector(VKATTN_F32, 16);
        options.structSize = sizeof options;
        askForAll();
    }
    FullGradient(const FullGradient &) = delete; // the gradient points at the layer
    FullGradient &operator=(const FullGradient &) = delete;

    void askForAll() {
        vkattn_layer_gradient &g = gradient;
        g = {};
        g.structSize = sizeof g;
        g.forward = &layer;
        g.dY = layer.y, g.dX = layer.x, g.dContext = layer.context;
        g.dWq = layer.wq, g.dWk = layer.wk, g.dWv = layer.wv, g.dWo = layer.wo;
        g.dBq = layer.bq, g.dBk = layer.bk, g.dBv = layer.bv, g.dBo = layer.bo;
        g.dGamma = layer.gamma, g.dBeta = layer.beta;
    }
    void askFor(vkattn_layout vkattn_layer_gradient::*one, const vkattn_layout &layout) {
        gradient = {};
        gradient.structSize = sizeof gradient;
        gradient.forward = &layer;
        gradient.dY = layer.y;
        gradient.*one = layout;
    }
    void pack() {
        layer.wk = layer.wv = layer.bk = layer.bv = {};
        layer.wq = matrix(VKATTN_F32, 64, 32), layer.bq = vector(VKATTN_F32, 64);
    }
};

// The step of that name; the plan has one.
const vkattn_layer_step &stepOf(const vkattn_layer_plan &plan, const std::string &name) {
    for (uint32_t n = 0; n < plan.stepCount; ++n)
        if (plan.steps[n].name == name) return plan.steps[n];
    ADD_FAILURE() << "no step " << name;
    return plan.steps[0];
}

} // namespace

TEST(LayerGradientPlan, listsTheStepsThatTheGradientsNeed) {
    FullGradient f;
    EXPECT_EQ(steps(f.gradient), "norm gradient | dwo dbo da | attention gradient | dwq dbq dwk dbk dwv dbv q dx | k dx | v dx");
    f.layer.cos = f.layer.sin = matrix(VKATTN_F32, 6, 4);
    f.layer.place = VKATTN_NORM_PRE;
    EXPECT_EQ(steps(f.gradient),
              "dwo dbo da | attention gradient | q rotary k rotary | dwq dbq dwk dbk dwv dbv q dx | k dx | v dx | norm gradient");
    f.pack();
    f.askForAll();
    EXPECT_EQ(steps(f.gradient), "dwo dbo da | attention gradient | qk rotary | dwq dbq qkv dx | norm gradient");
    f.layer.place = VKATTN_NORM_NONE, f.layer.gamma = f.layer.beta = f.layer.cos = f.layer.sin = {};
    f.askForAll();
    EXPECT_EQ(steps(f.gradient), "dwo dbo da | attention gradient | dwq dbq qkv dx");
}

TEST(LayerGradientPlan, givesAContextItsOwn) {
    FullGradient f;
    f.layer.place = VKATTN_NORM_NONE, f.layer.gamma = f.layer.beta = {};
    f.layer.context = packed(VKATTN_F32, 2, 1, 9, 32);
    f.askForAll();
    EXPECT_EQ(steps(f.gradient), "dwo dbo da | attention gradient | dwq dbq dwk dbk dwv dbv q dx k dcontext | v dcontext");
    f.askFor(&vkattn_layer_gradient::dContext, f.layer.context);
    EXPECT_EQ(steps(f.gradient), "da | attention gradient | k dcontext | v dcontext");
}

// What nobody asks for is left out, of attention too.
TEST(LayerGradientPlan, leavesOutWhatNobodyNeeds) {
    using G = vkattn_layer_gradient;
    FullGradient f;
    f.askFor(&G::dBeta, f.layer.beta);
    EXPECT_EQ(steps(f.gradient), "norm gradient");
    f.askFor(&G::dWo, f.layer.wo);
    EXPECT_EQ(steps(f.gradient), "norm gradient | dwo");
    f.askFor(&G::dWv, f.layer.wv);
    EXPECT_EQ(steps(f.gradient), "norm gradient | da | attention gradient | dwv");
    vkattn_layer_plan plan;
    vkattn_diagnostic why{};
    ASSERT_EQ(planned(f.gradient, plan, why), ok) << why.message;
    EXPECT_EQ(plan.attentionGradient.dQ.extent[0] + plan.attentionGradient.dK.extent[0], 0u);
    EXPECT_EQ(plan.attentionGradient.dV.extent[1], 2u);
    f.layer.place = VKATTN_NORM_PRE;
    f.askFor(&G::dGamma, f.layer.gamma);
    EXPECT_EQ(steps(f.gradient), "da | attention gradient | q dx | k dx | v dx | norm gradient");
    ASSERT_EQ(planned(f.gradient, plan, why), ok) << why.message;
    EXPECT_EQ(plan.normGradients[0].residual.extent[0], 0u) << "without dX";
    f.layer.options = &f.options;
    f.options.presentRoles = VKATTN_PRESENT(VKATTN_SINKS);
    f.options.bias = packed(VKATTN_F32, 1, 4, 6, 6);
    f.askFor(&G::dBias, f.options.bias);
    f.gradient.presentRoles = VKATTN_PRESENT(VKATTN_D_SINKS) | VKATTN_PRESENT(VKATTN_D_SCALE);
    EXPECT_EQ(steps(f.gradient), "da | attention gradient");
    ASSERT_EQ(planned(f.gradient, plan, why), ok) << why.message;
    const vkattn_layer_step &attention = stepOf(plan, "attention gradient");
    for (const vkattn_role role : {VKATTN_D_BIAS, VKATTN_D_SINKS, VKATTN_D_SCALE, VKATTN_SINKS, VKATTN_BIAS})
        EXPECT_TRUE(std::any_of(attention.operands, attention.operands + attention.operandCount, [&](const auto &each) {
            return each.role == role && each.from == role;
        })) << role;
}

// Strides of the host's that are not those of one matrix are copied once for all products.
TEST(LayerGradientPlan, copiesWhatIsNoMatrix) {
    FullGradient f;
    f.layer.place = VKATTN_NORM_NONE, f.layer.gamma = f.layer.beta = {};
    f.askForAll();
    f.layer.x.strideElems[0] = 8 * 32;
    f.gradient.dY.strideElems[0] = 7 * 32;
    EXPECT_EQ(steps(f.gradient), "dy | dwo dbo da | attention gradient x | dwq dbq dwk dbk dwv dbv q dx | k dx | v dx");
    f.layer.x = f.layer.y = f.gradient.dX = f.gradient.dY = packed(VKATTN_F32, 1, 1, 6, 32); // one entry has any stride
    f.layer.x.strideElems[0] = 5, f.layer.x.strideElems[2] = 40;
    EXPECT_EQ(steps(f.gradient), "dwo dbo da | attention gradient | dwq dbq dwk dbk dwv dbv q dx | k dx | v dx");
    f.layer.x = f.layer.y = f.gradient.dX = f.gradient.dY = packed(VKATTN_F32, 6, 1, 1, 32);
    f.layer.x.strideElems[0] = 40; // one token has that of its entry
    vkattn_layer_plan plan;
    vkattn_diagnostic why{};
    ASSERT_EQ(planned(f.gradient, plan, why), ok) << why.message;
    EXPECT_EQ(stepOf(plan, "dwq").operation.of.projection->w.strideElems[3], 40);
    EXPECT_EQ(stepOf(plan, "dwq").operation.of.projection->w.extent[3], 6u);
}

TEST(LayerGradientPlan, refusesWhatIsNoGradient) {
    static FullGradient f;
    static vkattn_layer layer;
    static vkattn_problem options;
    layer = f.layer;
    // Changes a copy of the layer.
    const auto with = [](vkattn_layer_gradient &g, const auto &change) {
        layer = f.layer;
        options = {}, options.structSize = sizeof options;
        change(layer);
        g.forward = &layer;
    };
    const WrongLayer<vkattn_layer_gradient> wrong[] = {
        {"gradient: structSize", [](auto &g) { g.structSize = 0; }},
        {"gradient: structSize is 12", [](auto &g) { g.structSize = offsetof(vkattn_layer_gradient, forward) + 4; }}, // half a pointer
        {"gradient.flags is 0x1", [](auto &g) { g.flags = 1; }},
        {"gradient.reserved is 1", [](auto &g) { g.reserved = 1; }},
        {"gradient.forward is NULL", [](auto &g) { g.forward = nullptr; }},
        {"layer.heads is 0", [&](auto &g) { with(g, [](auto &l) { l.heads = 0; }); }},
        {"no VKATTN_LAYER_KEEPS_STEPS", [&](auto &g) { with(g, [](auto &l) { l.flags = VKATTN_LAYER_RESIDUAL; }); }},
        {"separate the sequences by documents",
         [&](auto &g) {
             with(g, [](auto &l) {
                 l.x = l.y = packed(VKATTN_F32, 1, 1, 6, 32), l.options = &options, options.sequences = 2,
                 options.maxSeqQ = options.maxSeqK = 3;
                 options.presentRoles = VKATTN_PRESENT(VKATTN_CU_SEQ_Q) | VKATTN_PRESENT(VKATTN_CU_SEQ_K);
             });
         }},
        {"gradient.stored is 3", [](auto &g) { g.stored = VKATTN_BOOL8; }},
        {"gradient.presentRoles has bits 0x2000", [](auto &g) { g.presentRoles = VKATTN_PRESENT(VKATTN_NONFINITE); }},
        {"gradient.dY has no layout", [](auto &g) { g.dY = {}; }},
        {"gradient.dY is [2, 1, 6, 31], expected the extents of the layer's y, [2, 1, 6, 32]",
         [](auto &g) { g.dY = packed(VKATTN_F32, 2, 1, 6, 31); }},
        {"gradient.dWk is [1, 1, 32, 32], expected the extents of the layer's wk", [](auto &g) { g.dWk = g.dWq; }},
        {"gradient.dContext has a layout, and the layer has no context", [](auto &g) { g.dContext = g.dX; }},
        {"gradient.dBo has a layout, and the layer has no bo", [&](auto &g) { with(g, [](auto &l) { l.bo = {}; }); }},
        {"gradient.dBias has a layout, and the layer has no bias", [](auto &g) { g.dBias = packed(VKATTN_F32, 1, 1, 6, 6); }},
        {"no gradient is asked for", [](auto &g) { g = {}, g.structSize = sizeof g, g.forward = &f.layer, g.dY = f.layer.y; }},
        {"the layer has no tokens",
         [&](auto &g) { with(g, [](auto &l) { l.x = l.y = packed(VKATTN_F32, 2, 1, 0, 32); }), g.dX = g.dY = layer.x; }},
        {"sums up at most 524288",
         [&](auto &g) { with(g, [](auto &l) { l.x = l.y = packed(VKATTN_F32, 2, 1, (1u << 18) + 1, 32); }), g.dX = g.dY = layer.x; }},
        {"the layer's step 'attention gradient': dSinks", [](auto &g) { g.presentRoles = VKATTN_PRESENT(VKATTN_D_SINKS); }},
        {"the layer's step 'attention gradient': gradient.kernel is 9", [](auto &g) { g.kernel = static_cast<vkattn_gradient_kernel>(9); }},
        {"the layer's step 'dwq': y overlaps itself", [](auto &g) { g.dWq.strideElems[2] = 0; }},
    };
    expectRefused<vkattn_layer_gradient>(f.gradient, wrong);
    vkattn_layer_plan plan{};
    vkattn_diagnostic why{};
    EXPECT_EQ(vkattnPlanLayerGradient(nullptr, &plan, &why), invalid);
    EXPECT_STREQ(why.message, "gradient is NULL");
    EXPECT_EQ(vkattnPlanLayerGradient(&f.gradient, nullptr, &why), invalid);
    EXPECT_EQ(vkattnPlanLayerGradient(&f.gradient, &plan, &why), invalid);
    EXPECT_NE(std::string(why.message).find("plan: structSize"), std::string::npos) << why.message;
}

TEST(RecordLayerGradient, recordsWhatItsNeedsSay) {
    for (const bool pushDescriptors : {true, false}) {
        FullGradient f;
        LayerEngine<vkattn_layer_gradient> e(f.gradient, pushDescriptors);
        const vkattn_requirements needs = e.needs();
        FakePool pool(needs.descriptorSetCount, needs.storageDescriptorCount);
        EXPECT_EQ(needs.descriptorSetCount, pushDescriptors ? 0 : needs.dispatchCount);
        EXPECT_EQ(needs.kernel, VKATTN_KERNEL_AUTO);
        EXPECT_EQ(needs.probabilityUnit, 0.0f);
        expectRecordedAsNeeded(e, "vkattnPrewarmLayerGradient", pool.handle());
        if (HasFatalFailure()) return;
        uint32_t barriers = 0;
        for (const FakeDispatch &dispatch : e.commands.dispatches) barriers += dispatch.barriers;
        EXPECT_GE(barriers, 6u);
        EXPECT_EQ(pool.taken, needs.descriptorSetCount);
    }
}

TEST(RecordLayerGradient, refusesBindingsThatDoNotFit) {
    struct Wrong {
        const char *words;
        std::function<void(LayerEngine<vkattn_layer_gradient> &)> make;
    };
    const auto without = [](LayerEngine<vkattn_layer_gradient> &e, vkattn_role role) {
        e.bindings.erase(std::find_if(e.bindings.begin(), e.bindings.end(), [&](const auto &each) { return each.role == role; }));
    };
    const Wrong wrong[] = {
        {"role 65 is not bound: the layer's step 'norm gradient' uses it", [&](auto &e) { without(e, VKATTN_KEPT); }},
        {"role 67 is not bound: the layer's step 'dwq' uses it", [&](auto &e) { without(e, VKATTN_D_WQ); }},
        {"role 64 is not bound", [&](auto &e) { without(e, VKATTN_WORKSPACE); }},
        {"which the layer does not use",
         [](auto &e) {
             e.bindings.push_back({VKATTN_Y, layerBuffer, 0, 4096});
         }},
        {"the workspace has", [](auto &e) { e.of(VKATTN_WORKSPACE).size -= 4; }},
        {"the layer's step 'dwk'", [](auto &e) { e.of(VKATTN_D_WK).size = 16; }},
        {"the layer's step 'dwv'", [](auto &e) { e.of(VKATTN_D_WV).offset = e.of(VKATTN_X).offset; }},
    };
    for (const Wrong &each : wrong) {
        FullGradient f;
        LayerEngine<vkattn_layer_gradient> e(f.gradient);
        ASSERT_EQ(e.context.prewarm(e.layer, &e.why), ok);
        each.make(e);
        EXPECT_EQ(e.record(), invalid) << each.words;
        EXPECT_NE(std::string(e.why.message).find(each.words), std::string::npos) << "expected \"" << each.words << "\": " << e.why.message;
    }
    // A gradient of one step with a workspace of its own.
    FullGradient f;
    f.askFor(&vkattn_layer_gradient::dBeta, f.layer.beta);
    LayerEngine<vkattn_layer_gradient> e(f.gradient);
    ASSERT_EQ(e.context.prewarm(e.layer, &e.why), ok);
    without(e, VKATTN_WORKSPACE);
    EXPECT_EQ(e.record(), invalid);
    EXPECT_NE(std::string(e.why.message).find("role 64 is not bound: the layer needs a workspace"), std::string::npos) << e.why.message;
    vkattn_requirements needs{};
    EXPECT_EQ(vkattnQueryLayerGradient(e.context.handle(), &e.layer, &needs, &e.why), invalid) << "structSize is not set";
    EXPECT_EQ(vkattnPrewarmLayerGradient(e.context.handle(), nullptr, &e.why), invalid);
    EXPECT_EQ(vkattnRecordLayerGradient(nullptr, &e.layer, nullptr, &e.why), invalid);
    EXPECT_TRUE(e.commands.dispatches.empty());
}
