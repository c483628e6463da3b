// What is refused of a description of statistics, and what the message says.
#include "vkattn/cpu.h"
#include "vkattn/statistics.h"
#include "vkattn/vkattn.hpp"

#include <functional>
#include <gtest/gtest.h>
#include <limits>
#include <string>
#include <vector>

using namespace vkattn;

namespace {

struct StatisticsDescription {
    vkattn_problem p{};
    vkattn_attention_statistics s{};
    bool noAttention = false;

    StatisticsDescription() {
        p.structSize = sizeof p;
        p.q = packed(VKATTN_F32, 2, 4, 5, 8);
        p.k = packed(VKATTN_F32, 2, 2, 7, 8);
        s.structSize = sizeof s;
        s.statistics = packed(VKATTN_F32, 2, 4, 5, VKATTN_STATISTIC_COUNT);
        s.received = packed(VKATTN_F32, 2, 4, 7, 1);
        s.topWeights = packed(VKATTN_F32, 2, 4, 5, 3);
        s.topKeys = packed(VKATTN_BITS32, 2, 4, 5, 3);
    }
    vkattn_operation operation() {
        s.attention = noAttention ? nullptr : &p;
        vkattn_operation o{};
        o.kind = VKATTN_ATTENTION_STATISTICS;
        o.of.attentionStatistics = &s;
        return o;
    }
    vkattn_result validate(std::string &message) {
        const vkattn_operation o = operation();
        vkattn_diagnostic why{};
        const vkattn_result r = vkattnValidateOperation(&o, &why);
        message = why.message;
        uint64_t bytes = 0;
        EXPECT_EQ(vkattnCpuOperationWorkspace(&o, nullptr, &bytes, nullptr), r) << message;
        return r;
    }
};

struct WrongStatistics {
    const char *message; // a part of it
    std::function<void(StatisticsDescription &)> change;
};

} // namespace

TEST(StatisticsDescription, saysWhatIsWrong) {
    using Description = StatisticsDescription;
    std::string message;
    EXPECT_EQ(Description().validate(message), VKATTN_OK) << message;
    const WrongStatistics all[] = {
        {"statistics: structSize is 0", [](Description &d) { d.s.structSize = 0; }},
        {"statistics.attention is NULL", [](Description &d) { d.noAttention = true; }},
        {"statistics.attention: structSize is 3", [](Description &d) { d.p.structSize = 3; }},
        {"statistics.flags is 0x1, expected 0", [](Description &d) { d.s.flags = 1; }},
        {"statistics.reserved is 3, expected 0", [](Description &d) { d.s.reserved = 3; }},
        {"statistics.densityThreshold is 1, expected at least 0 and below 1", [](Description &d) { d.s.densityThreshold = 1; }},
        {"statistics.densityThreshold is -0.1", [](Description &d) { d.s.densityThreshold = -0.1f; }},
        {"statistics.densityThreshold is", [](Description &d) { d.s.densityThreshold = std::numeric_limits<float>::quiet_NaN(); }},
        {"no output is asked for", [](Description &d) { d.s.statistics = d.s.received = d.s.topWeights = d.s.topKeys = {}; }},
        {"topWeights has a layout, and topKeys has none", [](Description &d) { d.s.topKeys = {}; }},
        {"topKeys has a layout, and topWeights has none", [](Description &d) { d.s.topWeights = {}; }},
        {"topWeights has 17 columns, expected 1 to 16",
         [](Description &d) { d.s.topWeights = packed(VKATTN_F32, 2, 4, 5, 17), d.s.topKeys = packed(VKATTN_BITS32, 2, 4, 5, 17); }},
        {"topWeights has 0 columns, expected 1 to 16",
         [](Description &d) { d.s.topWeights = packed(VKATTN_F32, 2, 4, 5, 0), d.s.topKeys = packed(VKATTN_BITS32, 2, 4, 5, 0); }},
        {"topKeys", [](Description &d) { d.s.topKeys = packed(VKATTN_BITS32, 2, 4, 5, 4); }},
        {"topKeys has dtype", [](Description &d) { d.s.topKeys = packed(VKATTN_F32, 2, 4, 5, 3); }},
        {"statistics has dtype", [](Description &d) { d.s.statistics.dtype = VKATTN_F16; }},
        {"statistics", [](Description &d) { d.s.statistics = packed(VKATTN_F32, 2, 4, 5, 11); }},
        {"received", [](Description &d) { d.s.received = packed(VKATTN_F32, 2, 2, 7, 1); }},
        {"received", [](Description &d) { d.s.received = packed(VKATTN_F32, 2, 4, 5, 1); }},
        {"statistics overlaps itself", [](Description &d) { d.s.statistics.strideElems[2] = 1; }},
        {"q has no layout", [](Description &d) { d.p.q = {}; }},
        {"k has no layout", [](Description &d) { d.p.k = {}; }},
        {"", [](Description &d) { d.p.k = packed(VKATTN_F32, 2, 2, 7, 9); }}, // not the dims of q
        {"", [](Description &d) { d.p.k.extent[1] = d.p.k.extent[2] = 0xffffffff; }},
    };
    for (const WrongStatistics &wrong : all) {
        Description d;
        wrong.change(d);
        EXPECT_EQ(d.validate(message), VKATTN_ERROR_INVALID_ARGUMENT) << wrong.message;
        EXPECT_NE(message.find(wrong.message), std::string::npos) << "expected \"" << wrong.message << "\", got \"" << message << "\"";
    }
    vkattn_operation o{};
    o.kind = VKATTN_ATTENTION_STATISTICS;
    vkattn_diagnostic why{};
    EXPECT_EQ(vkattnValidateOperation(&o, &why), VKATTN_ERROR_INVALID_ARGUMENT);
    EXPECT_STREQ(why.message, "operation.of.attentionStatistics is NULL");
}

TEST(StatisticsDescription, whatTheForwardPassAddsCountsForNothing) {
    StatisticsDescription d;
    d.p.v = packed(VKATTN_F16, 2, 2, 7, 6);
    d.p.out = packed(VKATTN_F32, 2, 4, 5, 6);
    d.p.lse = packed(VKATTN_F32, 2, 4, 5, 2);
    d.p.weights = packed(VKATTN_F32, 2, 4, 5, 7);
    d.p.scores = d.p.weights;
    d.p.flags = VKATTN_ROW_STATISTICS | VKATTN_WEIGHTS_DROPPED;
    d.p.presentRoles = VKATTN_PRESENT(VKATTN_SINKS);
    d.p.dropout = 0.5f;
    std::string message;
    EXPECT_EQ(d.validate(message), VKATTN_OK) << message;
    const vkattn_operation o = d.operation();
    for (const vkattn_role role : {VKATTN_V, VKATTN_OUT, VKATTN_LSE, VKATTN_WEIGHTS, VKATTN_SCORES, VKATTN_SINKS})
        EXPECT_EQ(vkattnOperationBytes(&o, role), 0u) << role;
    EXPECT_EQ(vkattnOperationBytes(&o, VKATTN_Q), 4u * 2 * 4 * 5 * 8);
    EXPECT_EQ(vkattnOperationBytes(&o, VKATTN_RECEIVED), 4u * 2 * 4 * 7);
}

TEST(StatisticsDescription, operandsAreScoresAndOutputs) {
    StatisticsDescription d;
    const vkattn_operation o = d.operation();
    std::vector<vkattn_operand_use> uses(vkattnOperandUses(&o, nullptr, 0));
    ASSERT_EQ(vkattnOperandUses(&o, uses.data(), static_cast<uint32_t>(uses.size())), 6u);
    std::vector<std::vector<float>> memory;
    std::vector<vkattn_operand_memory> operands;
    for (const vkattn_operand_use &use : uses) {
        EXPECT_EQ(use.writes == 0, use.role == VKATTN_Q || use.role == VKATTN_K);
        memory.emplace_back(use.endBytes / 4, 0.0f);
        operands.push_back({use.role, memory.back().data(), use.endBytes});
    }
    const auto check = [&] {
        vkattn_diagnostic why{};
        const vkattn_result r = vkattnCpuCheckOperation(&o, operands.data(), static_cast<uint32_t>(operands.size()), &why);
        EXPECT_EQ(r, vkattnCpuOracleOperation(&o, operands.data(), static_cast<uint32_t>(operands.size()), nullptr));
        vkattn_verify_report report{};
        EXPECT_EQ(r, vkattnCpuVerifyOperation(&o, operands.data(), static_cast<uint32_t>(operands.size()), nullptr, &report, nullptr));
        return r == VKATTN_OK ? std::string() : std::string(why.message);
    };
    EXPECT_EQ(check(), "");
    operands.push_back({VKATTN_V, memory[0].data(), 4});
    EXPECT_NE(check().find("which the statistics operation does not use"), std::string::npos) << check();
    operands.pop_back();
    const vkattn_operand_memory last = operands.back();
    operands.pop_back();
    EXPECT_NE(check().find("is missing: the statistics operation uses it"), std::string::npos) << check();
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
    EXPECT_EQ(vkattnCpuVerifyOperation(&o, operands.data(), static_cast<uint32_t>(operands.size()), nullptr, nullptr, &why),
              VKATTN_ERROR_INVALID_ARGUMENT);
    EXPECT_STREQ(why.message, "report is NULL");
}
