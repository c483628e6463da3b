// Every rule of vkattn/linear_gradient.h is checked, and says what was wrong.
#include "small_gradient.hpp"

#include <functional>
#include <gtest/gtest.h>
#include <limits>

using namespace vkattn;
using namespace vkattn::test;

namespace {

SmallGradient gatedDelta() {
    SmallScan c(VKATTN_LINEAR_GATED_DELTA, 2, 6, 4, 3);
    c.addStates();
    return SmallGradient(c);
}
SmallGradient features() {
    return SmallGradient(SmallScan(VKATTN_LINEAR_FEATURES, 2, 6, 4, 3));
}
SmallGradient ofState() {
    SmallGradient g = gatedDelta();
    g.forward.linear.q = g.forward.linear.out = g.gradient.dOut = g.gradient.dQ = {};
    return g;
}

struct Refusal {
    const char *expected;
    SmallGradient (*make)();
    std::function<void(SmallGradient &)> spoil;
};

const Refusal refusals[] = {
    {"linear gradient: structSize is 0", gatedDelta, [](auto &g) { g.gradient.structSize = 0; }},
    {"newer", gatedDelta, [](auto &g) { g.gradient.structSize = sizeof g.gradient + 4; }},
    {"linear gradient.flags is 0x1, expected 0", gatedDelta, [](auto &g) { g.gradient.flags = 1; }},
    {"linear gradient.reserved is {0, 2}, expected 0", gatedDelta, [](auto &g) { g.gradient.reserved[1] = 2; }},
    {"linear gradient.lossScale is -1, expected a finite number above 0, or 0 for 1", gatedDelta,
     [](auto &g) { g.gradient.lossScale = -1; }},
    {"linear gradient.lossScale is inf", gatedDelta, [](auto &g) { g.gradient.lossScale = std::numeric_limits<float>::infinity(); }},
    {"linear gradient.presentRoles has bits 0x1, expected VKATTN_PRESENT(VKATTN_NONFINITE)", gatedDelta,
     [](auto &g) { g.gradient.presentRoles = VKATTN_PRESENT(VKATTN_KEY_LENGTHS); }},
    {"linear.rule is 9", gatedDelta, [](auto &g) { g.forward.linear.rule = static_cast<vkattn_linear_rule>(9); }},
    {"dOut has no layout, and linear gradient.forward has an out; give both or neither", features, [](auto &g) { g.gradient.dOut = {}; }},
    {"dOut has a layout, and linear gradient.forward has no out", ofState,
     [](auto &g) {
         g.add(VKATTN_D_OUT, {1, 2, 6, 3});
     }},
    {"dOut and dStateOut have no layout: give the gradient of what the loss depends on", ofState,
     [](auto &g) { g.gradient.dStateOut = {}; }},
    {"no gradient is asked for: give dQ, dK, dV, dDecay, dWriteStrength or dStateIn a layout", features,
     [](auto &g) { g.gradient.dQ = g.gradient.dK = g.gradient.dV = {}; }},
    {"dDecay has a layout, and linear gradient.forward has no decay", features,
     [](auto &g) {
         g.add(VKATTN_D_DECAY, {1, 2, 6, 1});
     }},
    {"dWriteStrength has a layout, and linear gradient.forward has no writeStrength", features,
     [](auto &g) {
         g.add(VKATTN_D_WRITE_STRENGTH, {1, 2, 6, 1});
     }},
    {"dStateIn has a layout, and linear gradient.forward has no stateIn", features,
     [](auto &g) {
         g.add(VKATTN_D_STATE_IN, {1, 2, 4, 4});
     }},
    {"dQ has a layout, and linear gradient.forward has no q", ofState,
     [](auto &g) {
         g.add(VKATTN_D_Q, {1, 2, 6, 4});
     }},
    {"dOut is [1, 2, 5, 3], expected [1, 2, 6, 3]", features,
     [](auto &g) {
         g.add(VKATTN_D_OUT, {1, 2, 5, 3});
     }},
    {"dStateOut is [1, 2, 4, 3], expected [1, 2, 4, 4]", features,
     [](auto &g) {
         g.add(VKATTN_D_STATE_OUT, {1, 2, 4, 3});
     }},
    {"dDecay is [1, 2, 6, 4], expected [1, 2, 6, 1]", gatedDelta,
     [](auto &g) {
         g.add(VKATTN_D_DECAY, {1, 2, 6, 4});
     }},
    {"dStateOut has dtype 1, expected VKATTN_F32", gatedDelta, [](auto &g) { g.gradient.dStateOut.dtype = VKATTN_F16; }},
    {"dStateIn has dtype 2, expected VKATTN_F32", gatedDelta, [](auto &g) { g.gradient.dStateIn.dtype = VKATTN_BF16; }},
    {"dK overlaps itself", gatedDelta, [](auto &g) { g.gradient.dK.strideElems[2] = 0; }},
};

} // namespace

TEST(LinearGradientDescription, isCheckedAndSaysWhatIsWrong) {
    for (const Refusal &each : refusals) {
        SmallGradient g = each.make();
        vkattn_operation o = g.operation();
        vkattn_diagnostic why{};
        ASSERT_EQ(vkattnValidateOperation(&o, &why), VKATTN_OK) << why.message << " before: " << each.expected;
        each.spoil(g);
        o = g.operation();
        EXPECT_EQ(vkattnValidateOperation(&o, &why), VKATTN_ERROR_INVALID_ARGUMENT) << each.expected;
        EXPECT_NE(std::string(why.message).find(each.expected), std::string::npos) << why.message << "\nexpected: " << each.expected;
        EXPECT_EQ(vkattnOperationBytes(&o, VKATTN_K), 0u);
        EXPECT_EQ(vkattnOperandUses(&o, nullptr, 0), 0u);
    }
    vkattn_diagnostic why{};
    SmallGradient g = features();
    vkattn_operation o = g.operation();
    g.gradient.forward = nullptr;
    EXPECT_EQ(vkattnValidateOperation(&o, &why), VKATTN_ERROR_INVALID_ARGUMENT);
    EXPECT_STREQ(why.message, "linear gradient.forward is NULL");
    o.of.linearGradient = nullptr;
    EXPECT_EQ(vkattnValidateOperation(&o, &why), VKATTN_ERROR_INVALID_ARGUMENT);
    EXPECT_STREQ(why.message, "operation.of.linearGradient is NULL");
    EXPECT_STREQ(vkattnOperationName(VKATTN_LINEAR_ATTENTION_GRADIENT), "linear attention gradient");
}

// Nothing that the forward pass has written is bound.
TEST(LinearGradientDescription, listsItsOperands) {
    SmallGradient g = gatedDelta();
    g.gradient.presentRoles = VKATTN_PRESENT(VKATTN_NONFINITE);
    const vkattn_operation o = g.operation();
    vkattn_operand_use uses[VKATTN_ROLE_LIMIT];
    const uint32_t count = vkattnOperandUses(&o, uses, VKATTN_ROLE_LIMIT);
    EXPECT_EQ(count, 6u + 2 + 6 + 1);
    for (uint32_t n = 0; n < count; ++n) {
        const vkattn_role role = uses[n].role;
        EXPECT_EQ(uses[n].endBytes, vkattnOperationBytes(&o, role));
        const bool written =
            (role >= VKATTN_D_Q && role <= VKATTN_D_V) || (role >= VKATTN_D_DECAY && role <= VKATTN_D_STATE_IN) || role == VKATTN_NONFINITE;
        EXPECT_EQ(uses[n].writes != 0, written) << role;
        EXPECT_TRUE(role != VKATTN_OUT && role != VKATTN_STATE_OUT);
    }
}

// What an old caller's shorter struct lacks counts as zero.
TEST(LinearGradientDescription, takesShorterStructs) {
    SmallGradient g = gatedDelta();
    g.gradient.lossScale = -1, g.gradient.presentRoles = 7;
    g.gradient.structSize = offsetof(vkattn_linear_gradient, presentRoles);
    const vkattn_operation o = g.operation();
    EXPECT_EQ(vkattnValidateOperation(&o, nullptr), VKATTN_OK);
}
