// What is refused of a gradient's description, and what the message says.
#include "vkattn/cpu.h"
#include "vkattn/gradient.h"
#include "vkattn/vkattn.hpp"

#include <functional>
#include <gtest/gtest.h>
#include <limits>
#include <string>
#include <vector>

using namespace vkattn;

namespace {

struct Description {
    vkattn_problem p{};
    vkattn_attention_gradient g{};

    Description() {
        p.structSize = sizeof p;
        p.flags = VKATTN_ROW_STATISTICS;
        p.q = packed(VKATTN_F32, 2, 4, 5, 8);
        p.k = packed(VKATTN_F32, 2, 2, 7, 8);
        p.v = packed(VKATTN_F32, 2, 2, 7, 6);
        p.out = packed(VKATTN_F32, 2, 4, 5, 6);
        p.lse = packed(VKATTN_F32, 2, 4, 5, 2);
        g.structSize = sizeof g;
        g.dOut = p.out;
        g.dQ = p.q;
    }
    vkattn_result validate(std::string &message) {
        vkattn_operation o{};
        o.kind = VKATTN_ATTENTION_GRADIENT;
        o.of.attentionGradient = &g;
        if (!noForward) g.forward = &p;
        vkattn_diagnostic why{};
        const vkattn_result r = vkattnValidateOperation(&o, &why);
        message = why.message;
        uint64_t bytes = 0;
        EXPECT_EQ(vkattnCpuOperationWorkspace(&o, nullptr, &bytes, nullptr), r) << message;
        return r;
    }
    bool noForward = false;
};

struct Wrong {
    const char *message; // a part of it
    std::function<void(Description &)> change;
};

} // namespace

TEST(GradientDescription, saysWhatIsWrong) {
    std::string message;
    EXPECT_EQ(Description().validate(message), VKATTN_OK) << message;
    const Wrong all[] = {
        {"gradient.forward is NULL", [](Description &d) { d.noForward = true; }},
        {"gradient.flags is 0x1, expected 0", [](Description &d) { d.g.flags = 1; }},
        {"gradient.reserved is 3, expected 0", [](Description &d) { d.g.reserved = 3; }},
        {"gradient.kernel is 9", [](Description &d) { d.g.kernel = static_cast<vkattn_gradient_kernel>(9); }},
        {"gradient.lossScale is -2", [](Description &d) { d.g.lossScale = -2; }},
        {"gradient.lossScale is inf", [](Description &d) { d.g.lossScale = std::numeric_limits<float>::infinity(); }},
        {"no VKATTN_ROW_STATISTICS", [](Description &d) { d.p.flags = 0, d.p.lse = packed(VKATTN_F32, 2, 4, 5, 1); }},
        {"VKATTN_VALUES_IN_KEYS", [](Description &d) { d.p.flags |= VKATTN_VALUES_IN_KEYS, d.p.v = {}; }},
        {"dOut has no layout", [](Description &d) { d.g.dOut = {}; }},
        {"dOut", [](Description &d) { d.g.dOut = packed(VKATTN_F32, 2, 4, 5, 8); }},
        {"dK", [](Description &d) { d.g.dK = packed(VKATTN_F32, 2, 4, 7, 8); }},
        {"dLse", [](Description &d) { d.g.dLse = packed(VKATTN_F16, 2, 4, 5, 1); }},
        {"dWeights", [](Description &d) { d.g.dWeights = packed(VKATTN_F32, 2, 4, 5, 6); }},
        {"dBias has a layout, and gradient.forward has no bias", [](Description &d) { d.g.dBias = packed(VKATTN_F32, 2, 4, 5, 7); }},
        {"no gradient is asked for", [](Description &d) { d.g.dQ = {}; }},
        {"no gradient is asked for", [](Description &d) { d.g.dQ = {}, d.g.presentRoles = VKATTN_PRESENT(VKATTN_NONFINITE); }},
        {"gradient.presentRoles has bits", [](Description &d) { d.g.presentRoles = VKATTN_PRESENT(VKATTN_SINKS); }},
        {"gradient.forward has no sinks", [](Description &d) { d.g.presentRoles = VKATTN_PRESENT(VKATTN_D_SINKS); }},
        {"gradient.forward has no ALiBi slopes", [](Description &d) { d.g.presentRoles = VKATTN_PRESENT(VKATTN_D_SLOPES); }},
        {"gradient.forward has no softcap", [](Description &d) { d.g.presentRoles = VKATTN_PRESENT(VKATTN_D_SOFTCAP); }},
    };
    for (const Wrong &wrong : all) {
        Description d;
        wrong.change(d);
        EXPECT_EQ(d.validate(message), VKATTN_ERROR_INVALID_ARGUMENT) << wrong.message;
        EXPECT_NE(message.find(wrong.message), std::string::npos) << "expected \"" << wrong.message << "\", got \"" << message << "\"";
    }
}

TEST(GradientDescription, operandsAreThoseOfBothPasses) {
    Description d;
    d.g.forward = &d.p;
    d.p.weights = packed(VKATTN_F32, 2, 4, 5, 7);
    vkattn_operation o{};
    o.kind = VKATTN_ATTENTION_GRADIENT;
    o.of.attentionGradient = &d.g;
    std::vector<vkattn_operand_use> uses(vkattnOperandUses(&o, nullptr, 0));
    ASSERT_EQ(vkattnOperandUses(&o, uses.data(), static_cast<uint32_t>(uses.size())), uses.size());
    std::vector<std::vector<float>> memory;
    std::vector<vkattn_operand_memory> operands;
    for (const vkattn_operand_use &use : uses) {
        EXPECT_EQ(use.writes != 0, use.role == VKATTN_D_Q);
        EXPECT_NE(use.role, VKATTN_WEIGHTS);
        memory.emplace_back(use.endBytes / 4, 0.0f);
        operands.push_back({use.role, memory.back().data(), use.endBytes});
    }
    const auto check = [&] {
        vkattn_diagnostic why{};
        const vkattn_result r = vkattnCpuCheckOperation(&o, operands.data(), static_cast<uint32_t>(operands.size()), &why);
        const vkattn_result oracle = vkattnCpuOracleOperation(&o, operands.data(), static_cast<uint32_t>(operands.size()), nullptr);
        EXPECT_EQ(r, oracle);
        return r == VKATTN_OK ? std::string() : std::string(why.message);
    };
    EXPECT_EQ(check(), "");
    operands.push_back({VKATTN_WEIGHTS, memory[0].data(), 4});
    EXPECT_NE(check().find("which the gradient does not use"), std::string::npos);
    operands.pop_back();
    const vkattn_operand_memory last = operands.back();
    operands.pop_back();
    EXPECT_NE(check().find("is missing: the gradient uses it"), std::string::npos);
    operands.push_back(last);
    operands.back().bytes -= 1;
    EXPECT_NE(check().find("expected at least"), std::string::npos);
    operands.back().bytes += 1;

    uint64_t bytes = 0;
    ASSERT_EQ(vkattnCpuOperationWorkspace(&o, nullptr, &bytes, nullptr), VKATTN_OK);
    std::vector<unsigned char> workspace(bytes);
    vkattn_diagnostic why{};
    EXPECT_EQ(
        vkattnCpuRunOperation(nullptr, &o, operands.data(), static_cast<uint32_t>(operands.size()), workspace.data(), bytes - 1, &why),
        VKATTN_ERROR_INVALID_ARGUMENT);
    EXPECT_NE(std::string(why.message).find("vkattnCpuOperationWorkspace says how many"), std::string::npos) << why.message;
}
