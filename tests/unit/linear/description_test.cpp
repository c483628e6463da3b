// Every rule of vkattn/linear.h is checked, and says what was wrong.
#include "small_scan.hpp"
#include "vkattn/vkattn.hpp"

#include <cmath>
#include <functional>
#include <gtest/gtest.h>
#include <limits>

using namespace vkattn;
using namespace vkattn::test;

namespace {

SmallScan features() {
    SmallScan c(VKATTN_LINEAR_FEATURES, 2, 6, 4, 3);
    c.addStates();
    return c;
}
SmallScan favor() {
    SmallScan c(VKATTN_LINEAR_FEATURES, 2, 6, 4, 3);
    c.linear.features = VKATTN_FEATURES_FAVOR;
    c.add(VKATTN_OMEGA, 1, 2, 5, 4);
    c.addStates();
    return c;
}
SmallScan gated() {
    SmallScan c(VKATTN_LINEAR_GATED, 2, 6, 4, 3);
    c.addStates();
    return c;
}
SmallScan gatedDelta() {
    SmallScan c(VKATTN_LINEAR_GATED_DELTA, 2, 6, 4, 3);
    c.addStates();
    return c;
}

struct Refusal {
    const char *expected;
    SmallScan (*make)();
    std::function<void(SmallScan &)> spoil;
};

const Refusal refusals[] = {
    {"linear: structSize is 0", gated, [](auto &c) { c.linear.structSize = 0; }},
    {"newer", gated, [](auto &c) { c.linear.structSize = sizeof c.linear + 4; }},
    {"linear.flags is 0x4,", gated, [](auto &c) { c.linear.flags = VKATTN_WINDOW; }},
    {"linear.rule is 5, expected a vkattn_linear_rule", gated, [](auto &c) { c.linear.rule = static_cast<vkattn_linear_rule>(5); }},
    {"linear.features is 4, expected a vkattn_feature_map", features,
     [](auto &c) { c.linear.features = static_cast<vkattn_feature_map>(4); }},
    {"linear.features is 2 with the rule VKATTN_LINEAR_GATED, which has no feature map; leave it 0", gated,
     [](auto &c) { c.linear.features = VKATTN_FEATURES_FAVOR; }},
    {"linear.form is 3, expected a vkattn_linear_form", gated, [](auto &c) { c.linear.form = static_cast<vkattn_linear_form>(3); }},
    {"linear.headMapping is 2, expected a vkattn_head_mapping", gated,
     [](auto &c) { c.linear.headMapping = static_cast<vkattn_head_mapping>(2); }},
    {"linear.reserved is 1, expected 0", gated, [](auto &c) { c.linear.reserved = 1; }},
    {"linear.scale is 0.5, expected 0 without VKATTN_SCALE; set the flag", gated, [](auto &c) { c.linear.scale = 0.5f; }},
    {"linear.scale is inf, expected a finite number", gated,
     [](auto &c) {
         c.linear.flags = VKATTN_SCALE;
         c.linear.scale = std::numeric_limits<float>::infinity();
     }},
    {"linear.epsilon is 0.1, expected 0: only VKATTN_FEATURES_RELU adds it", features, [](auto &c) { c.linear.epsilon = 0.1f; }},
    {"linear.epsilon is -1, expected a finite number of at least 0", features,
     [](auto &c) {
         c.linear.features = VKATTN_FEATURES_RELU;
         c.linear.epsilon = -1;
     }},
    {"masks, windows, documents, sinks and ALiBi have no place in it; use vkattn_problem", features,
     [](auto &c) { c.linear.presentRoles = VKATTN_PRESENT(VKATTN_SINKS); }},
    {"k of the linear attention has no layout; it is required", gated, [](auto &c) { c.linear.k = {}; }},
    {"q has a layout, and out has none; give both, or neither", gated, [](auto &c) { c.linear.out = {}; }},
    {"no output is asked for", gated, [](auto &c) { c.linear.q = c.linear.out = c.linear.stateOut = {}; }},
    {"decay has no layout, and the rule VKATTN_LINEAR_GATED needs one", gated, [](auto &c) { c.linear.decay = {}; }},
    {"decay has a layout, and the rule VKATTN_LINEAR_FEATURES does not decay; take a gated rule", features,
     [](auto &c) { c.add(VKATTN_DECAY, 1, 2, 6, 1); }},
    {"writeStrength has no layout, and the rule VKATTN_LINEAR_GATED_DELTA needs one: beta of each token", gatedDelta,
     [](auto &c) { c.linear.writeStrength = {}; }},
    {"writeStrength has a layout, and the rule VKATTN_LINEAR_GATED has none", gated,
     [](auto &c) { c.add(VKATTN_WRITE_STRENGTH, 1, 2, 6, 1); }},
    {"omega has no layout, and VKATTN_FEATURES_FAVOR and FAVOR2 need one; vkattnRandomFeatures makes it", favor,
     [](auto &c) { c.linear.omega = {}; }},
    {"omega has a layout, and VKATTN_FEATURES_ELU1 has no random features", features, [](auto &c) { c.add(VKATTN_OMEGA, 1, 2, 5, 4); }},
    {"snapshotTokens is 3, and snapshots has no layout; give both or neither", gated, [](auto &c) { c.linear.snapshotTokens = 3; }},
    {"snapshotTokens is 0, and snapshots has a layout", gated, [](auto &c) { c.add(VKATTN_SNAPSHOTS, 1, 2, 4, 3); }},
    {"snapshots is [1, 2, 4, 3], expected [1, 2, 8, 3]", gated,
     [](auto &c) {
         c.linear.snapshotTokens = 3;
         c.add(VKATTN_SNAPSHOTS, 1, 2, 4, 3);
     }},
    {"only dimension 2 may be 0", gated, [](auto &c) { c.linear.k.extent[3] = 0; }},
    {"stateIn is [1, 2, 0, 3]; no dimension may be 0", gated, [](auto &c) { c.linear.stateIn.extent[2] = 0; }},
    {"q has dtype 3", gated, [](auto &c) { c.linear.q.dtype = VKATTN_BOOL8; }},
    {"stateIn has dtype 1, expected VKATTN_F32", gated, [](auto &c) { c.linear.stateIn.dtype = VKATTN_F16; }},
    {"out overlaps itself", gated, [](auto &c) { c.linear.out.strideElems[2] = 0; }},
    {"k has 2049 dims, expected at most 2048", gated, [](auto &c) { c.add(VKATTN_K, 1, 2, 6, 2049); }},
    {"v is [1, 2, 5, 3], expected [1, 2, 6, 3]", gated, [](auto &c) { c.add(VKATTN_V, 1, 2, 5, 3); }},
    {"q is [1, 2, 6, 5], expected [1, 2, 6, 4]", gated, [](auto &c) { c.add(VKATTN_Q, 1, 2, 6, 5); }},
    {"k has 2 heads, and v has 3: expected a divisor", gated, [](auto &c) { c.add(VKATTN_V, 1, 3, 6, 3); }},
    {"the state has 2 heads, and q has 3: expected a divisor", gated, [](auto &c) { c.add(VKATTN_Q, 1, 3, 6, 4); }},
    {"out is [1, 2, 6, 3], expected [1, 4, 6, 3]", gated, [](auto &c) { c.add(VKATTN_Q, 1, 4, 6, 4); }},
    {"decay is [1, 2, 6, 3], expected [1, 2, 6, 4] or 1 where it broadcasts", gated, [](auto &c) { c.add(VKATTN_DECAY, 1, 2, 6, 3); }},
    {"writeStrength is [1, 2, 6, 4], expected [1, 2, 6, 1]", gatedDelta, [](auto &c) { c.add(VKATTN_WRITE_STRENGTH, 1, 2, 6, 4); }},
    {"omega has 4097 rows, expected at most 4096", favor, [](auto &c) { c.add(VKATTN_OMEGA, 1, 2, 4097, 4); }},
    {"v has 2 heads, and omega has 3: expected a divisor", favor, [](auto &c) { c.add(VKATTN_OMEGA, 1, 3, 5, 4); }},
    {"out is [1, 2, 6, 3], expected [1, 4, 6, 3]", favor, [](auto &c) { c.add(VKATTN_OMEGA, 1, 4, 5, 4); }},
    {"omega is [1, 2, 5, 4], expected [1, 4, 5, 4] or 1 where it broadcasts", favor,
     [](auto &c) {
         for (const vkattn_role role : {VKATTN_K, VKATTN_Q}) c.add(role, 1, 4, 6, 4);
         c.add(VKATTN_OUT, 1, 4, 6, 3);
     }},
    {"stateOut is [1, 2, 4, 3], expected [1, 2, 5, 5]", favor, [](auto &c) { c.add(VKATTN_STATE_OUT, 1, 2, 4, 3); }},
    {"stateIn is [1, 2, 4, 5], expected [1, 2, 4, 4]", features, [](auto &c) { c.add(VKATTN_STATE_IN, 1, 2, 4, 5); }},
    {"batch 65536 x heads 65536, expected less than 2^32", gated,
     [](auto &c) {
         for (const vkattn_role role : {VKATTN_Q, VKATTN_K, VKATTN_V, VKATTN_OUT}) {
             vkattn_layout &l = c.layout(role);
             l.extent[0] = l.extent[1] = 65536;
             l.strideElems[1] = l.extent[2] * l.extent[3];
             l.strideElems[0] = 65536 * l.strideElems[1];
         }
     }},
};

} // namespace

TEST(LinearDescription, isCheckedAndSaysWhatIsWrong) {
    for (const Refusal &each : refusals) {
        SmallScan c = each.make();
        vkattn_operation o = c.operation();
        vkattn_diagnostic why{};
        ASSERT_EQ(vkattnValidateOperation(&o, &why), VKATTN_OK) << why.message << " before: " << each.expected;
        each.spoil(c);
        o = c.operation();
        EXPECT_EQ(vkattnValidateOperation(&o, &why), VKATTN_ERROR_INVALID_ARGUMENT) << each.expected;
        EXPECT_NE(std::string(why.message).find(each.expected), std::string::npos) << why.message << "\nexpected: " << each.expected;
        EXPECT_EQ(vkattnOperationBytes(&o, VKATTN_K), 0u);
        EXPECT_EQ(vkattnOperandUses(&o, nullptr, 0), 0u);
        EXPECT_EQ(vkattnValidateOperation(&o, nullptr), VKATTN_ERROR_INVALID_ARGUMENT);
    }
    vkattn_operation o{};
    o.kind = VKATTN_LINEAR_ATTENTION;
    vkattn_diagnostic why{};
    EXPECT_EQ(vkattnValidateOperation(&o, &why), VKATTN_ERROR_INVALID_ARGUMENT);
    EXPECT_STREQ(why.message, "operation.of.linearAttention is NULL");
    EXPECT_STREQ(vkattnOperationName(VKATTN_LINEAR_ATTENTION), "linear attention");
}

TEST(LinearDescription, listsItsOperands) {
    SmallScan c = favor();
    c.linear.presentRoles = VKATTN_PRESENT(VKATTN_KEY_LENGTHS);
    const vkattn_operation o = c.operation();
    vkattn_operand_use uses[VKATTN_ROLE_LIMIT];
    const uint32_t count = vkattnOperandUses(&o, uses, VKATTN_ROLE_LIMIT);
    EXPECT_EQ(count, 8u);
    for (uint32_t n = 0; n < count; ++n) {
        EXPECT_EQ(uses[n].endBytes, vkattnOperationBytes(&o, uses[n].role));
        EXPECT_EQ(uses[n].writes != 0, uses[n].role == VKATTN_OUT || uses[n].role == VKATTN_STATE_OUT) << uses[n].role;
    }
    EXPECT_EQ(vkattnOperationBytes(&o, VKATTN_STATE_IN), 4u * 2 * 5 * 5);
    EXPECT_EQ(vkattnOperationBytes(&o, VKATTN_KEY_LENGTHS), 4u);
    EXPECT_EQ(vkattnOperationBytes(&o, VKATTN_DECAY), 0u);
}

// What an old caller's shorter struct lacks counts as zero.
TEST(LinearDescription, takesShorterStructs) {
    SmallScan c = gated();
    c.linear.sliceCount = 3, c.linear.reserved = 7;
    c.linear.structSize = offsetof(vkattn_linear_attention, sliceCount);
    const vkattn_operation o = c.operation();
    EXPECT_EQ(vkattnValidateOperation(&o, nullptr), VKATTN_OK);
}

TEST(LinearDescription, namesLayersOfTheLiterature) {
    uint32_t count = 0;
    const vkattn_linear_preset *const presets = vkattnLinearPresets(&count);
    EXPECT_EQ(vkattnLinearPresets(nullptr), presets);
    ASSERT_GE(count, 9u);
    for (const char *name : {"RetNet", "GLA", "DeltaNet", "Gated DeltaNet", "KDA", "lightning attention", "Mamba-2", "Performer"})
        EXPECT_TRUE(std::any_of(presets, presets + count, [&](const auto &each) { return std::string(each.name) == name; })) << name;
    Random random = randomFor("named layers");
    for (uint32_t n = 0; n < count; ++n) {
        const vkattn_linear_preset &preset = presets[n];
        EXPECT_TRUE(preset.paper && preset.inputs);
        SmallScan c(preset.rule, 2, 20, 4, 3);
        c.linear.features = preset.features;
        if (preset.rule == VKATTN_LINEAR_FEATURES) c.linear.flags |= VKATTN_CAUSAL;
        if (preset.scale > 0) c.linear.flags |= VKATTN_SCALE, c.linear.scale = preset.scale;
        if (preset.decaysKeyDims) c.add(VKATTN_DECAY, 1, 2, 20, 4);
        if (preset.features != VKATTN_FEATURES_ELU1) {
            std::vector<float> &omega = c.add(VKATTN_OMEGA, 1, 1, 8, 4);
            ASSERT_EQ(vkattnRandomFeatures(8, 4, VKATTN_LENGTHS_CHI, 1, 0, omega.data(), nullptr), VKATTN_OK);
        }
        c.draw(random, 0.5f);
        c.run();
        EXPECT_EQ(c.wrong(), "") << preset.name;
    }
}

// A device of Vulkan 1.0's least limits has too few storage buffers: every call says so, and names the CPU.
TEST(LinearDescription, isRefusedByTheLeastDevices) {
    SmallScan c = gated();
    const vkattn_operation o = c.operation();
    vkattn_caps caps{};
    caps.structSize = sizeof caps;
    ASSERT_EQ(vkattnMinimumCaps(&caps, nullptr), VKATTN_OK);
    vkattn_diagnostic why{};
    vkattn_explanation explanation{};
    EXPECT_EQ(vkattn::explain(caps, o, explanation, planOptions(0), &why), VKATTN_ERROR_UNSUPPORTED);
    EXPECT_STREQ(why.message, "linear attention needs 11 storage buffers a stage; the device has 4; compute it on the CPU");
    vkattn_dispatch_list list{};
    list.structSize = sizeof list;
    EXPECT_EQ(vkattnListOperation(&caps, nullptr, &o, nullptr, 0, &list, &why), VKATTN_ERROR_UNSUPPORTED);
    caps.maxStorageBuffersPerStage = 11;
    EXPECT_EQ(vkattn::explain(caps, o, explanation, planOptions(0), &why), VKATTN_OK) << why.message;
    EXPECT_STREQ(explanation.kernelName, "linear");
}
