// Plans of linear attention without a device: every dispatch within the limits and within what is bound, every chunk
// once and in order, slices that share the chunks.
#include "conform/linear/linear_case.hpp"
#include "core/linear/linear_plan.hpp"
#include "support/drawn_caps.hpp"
#include "support/plan_checks.hpp"
#include "support/seed.hpp"
#include "vkattn/vkattn.hpp"

#include <cstring>
#include <gtest/gtest.h>

using namespace vkattn;
using namespace vkattn::conform;
using namespace vkattn::test;

namespace {

PlanLimits limitsOf(const vkattn_caps &caps, uint64_t workspace = uint64_t{1} << 26) {
    PlanLimits limits{caps, workspace, {}};
    limits.tuning = flashTuning(limits.caps);
    return limits;
}
vkattn_caps capsOf(uint32_t range, uint32_t buffers = 16) {
    vkattn_caps caps = minimumCaps();
    caps.maxStorageBufferRange = range;
    caps.maxStorageBuffersPerStage = buffers;
    return caps;
}

LinearPush pushOf(const Dispatch &d) {
    LinearPush push;
    std::memcpy(&push, d.pushWords, sizeof push);
    return push;
}

// Scans go over the chunks of keys, and then over reading chunks, each once and in order.
void expectChunksOnceAndInOrder(const LinearPlan &plan, const std::string &name) {
    uint32_t next[2] = {}, units = 0; // of batch entries and state heads
    for (uint32_t n = linear::setUpDispatches; n < plan.dispatchCount; ++n) {
        const Dispatch d = plan.type->dispatch(plan, n);
        EXPECT_TRUE(d.barrierBefore) << name;
        if (!infoOf(d.key.module).main) continue;
        const LinearPush push = pushOf(d);
        const bool reading = d.key.constants[constantForm] & formLinearReading;
        if (!reading && push.chunkFirst == 0) {
            next[0] = next[1] = 0;
            units += d.groups[1] * d.groups[2];
            EXPECT_EQ(push.stateHeads, d.groups[1]) << name;
            EXPECT_EQ(push.span & spanFirst, spanFirst) << name;
        }
        EXPECT_EQ(push.chunkFirst, next[reading]) << name;
        next[reading] += push.chunks;
        EXPECT_EQ((push.span & spanLast) != 0, !reading && next[0] == plan.keyChunks) << name;
        if (reading) {
            EXPECT_EQ(next[0], plan.keyChunks) << name;
        }
    }
    EXPECT_EQ(next[0], plan.keyChunks) << name;
    EXPECT_EQ(next[1], plan.rowChunks) << name;
    EXPECT_EQ(units, plan.linear.batch * plan.linear.stateHeads) << name;
}

vkattn_linear_attention plain(uint32_t batch, uint32_t heads, uint32_t tokens, uint32_t dims) {
    const vkattn_layout rows = packed(VKATTN_F32, batch, heads, tokens, dims);
    vkattn_linear_attention l = linearAttention(rows, rows, rows, rows);
    l.rule = VKATTN_LINEAR_PLAIN;
    return l;
}
vkattn_result makePlan(const vkattn_linear_attention &l, const PlanLimits &limits, LinearPlan &plan, vkattn_diagnostic &why) {
    LinearAttention form;
    if (const auto r = makeLinear(&l, form, &why)) return r;
    return planLinear(form, limits, plan, &why);
}

} // namespace

TEST(LinearPlan, goesOverEveryChunkOnceAndInOrder) {
    Random random = randomFor("plans of linear attention");
    uint32_t taken = 0, sliced = 0, refused = 0;
    for (int n = 0; n < 400; ++n) {
        LinearCase drawn = drawLinear(random);
        if (n % 3 == 0) drawn.linear.sliceCount = between(random, 2, 12);
        const PlanLimits limits = limitsOf(n % 2 ? randomCaps(random) : capsOf(n % 4 ? 1u << 27 : 1u << 16), random() % 2 ? 1 << 26 : 4096);
        LinearPlan plan{};
        vkattn_diagnostic why{};
        const std::string name = "case " + std::to_string(n) + ", " + drawn.text();
        const vkattn_result r = makePlan(drawn.linear, limits, plan, why);
        if (r == VKATTN_ERROR_UNSUPPORTED) {
            EXPECT_NE(std::string(why.message).find("compute it on the CPU"), std::string::npos) << why.message;
            ++refused;
            continue;
        }
        ASSERT_EQ(r, VKATTN_OK) << why.message << "; " << name;
        ++taken;
        ASSERT_NO_FATAL_FAILURE(expectWithinLimitsAndBindings(plan, limits, name));
        if (plan.dispatchCount) expectChunksOnceAndInOrder(plan, name);
        uint32_t withWork = 0;
        ASSERT_NO_FATAL_FAILURE(expectSlicesCoverOnceAndInOrder(plan, name, withWork));
        sliced += withWork > 1;
    }
    EXPECT_GT(taken, 200u);
    EXPECT_GT(sliced, 20u);
    std::printf("%u plans, %u in several slices; %u refused\n", taken, sliced, refused);
}

// 64k tokens in slices: each has no more planned work than its share.
TEST(LinearPlan, slicesShareTheTokens) {
    const PlanLimits limits = limitsOf(strongCaps(), uint64_t{1} << 28);
    for (const uint32_t slices : {2u, 7u, 64u, 500u}) {
        vkattn_linear_attention l = plain(1, 2, 65536, 64);
        l.sliceCount = slices;
        LinearPlan plan{};
        vkattn_diagnostic why{};
        ASSERT_EQ(makePlan(l, limits, plan, why), VKATTN_OK) << why.message;
        EXPECT_GE(mostSlices(plan, limits), slices);
        EXPECT_LE(largestShare(sliceUnits(plan)), 1.02 / slices + 8.0 / 65536);
    }
}

TEST(LinearPlan, saysWhatADeviceCannotDo) {
    LinearPlan plan{};
    vkattn_diagnostic why{};
    EXPECT_EQ(makePlan(plain(1, 1, 9, 9), limitsOf(capsOf(1u << 27, 4)), plan, why), VKATTN_ERROR_UNSUPPORTED);
    EXPECT_STREQ(why.message, "linear attention needs 11 storage buffers a stage; the device has 4; compute it on the CPU");
    EXPECT_EQ(makePlan(plain(1, 1, 4000, 64), limitsOf(capsOf(1u << 16)), plan, why), VKATTN_ERROR_UNSUPPORTED);
    EXPECT_NE(std::string(why.message).find("one state head of "), std::string::npos) << why.message;
}

// Heads that no binding holds together, or more of them than a dispatch has workgroups for, take steps of their own.
TEST(LinearPlan, cutsHeadsWhereABatchEntryIsTooLarge) {
    LinearPlan plan{};
    vkattn_diagnostic why{};
    ASSERT_EQ(makePlan(plain(2, 8, 65536, 64), limitsOf(capsOf(1u << 27)), plan, why), VKATTN_OK)
        << why.message; // 2^27 bytes, and where they begin
    EXPECT_EQ(plan.headParts, 2u);
    EXPECT_EQ(plan.steps, 4u);
    vkattn_linear_attention grouped = plain(1, 8, 65536, 64);
    grouped.k = grouped.v = packed(VKATTN_F32, 1, 2, 65536, 64);
    ASSERT_EQ(makePlan(grouped, limitsOf(capsOf(1u << 27)), plan, why), VKATTN_OK) << why.message;
    EXPECT_EQ(plan.headParts, 2u);
    grouped.headMapping = VKATTN_HEADS_MODULO; // heads of a part would lie apart
    EXPECT_EQ(makePlan(grouped, limitsOf(capsOf(1u << 27)), plan, why), VKATTN_ERROR_UNSUPPORTED);
    ASSERT_EQ(makePlan(plain(1, 70000, 1, 1), limitsOf(capsOf(1u << 27)), plan, why), VKATTN_OK) << why.message;
    EXPECT_EQ(plan.headParts, 2u);
}

TEST(LinearPlan, isExplained) {
    const vkattn_linear_attention l = plain(2, 3, 1000, 32);
    const PlanLimits limits = limitsOf(strongCaps());
    vkattn_explanation e{};
    vkattn_diagnostic why{};
    ASSERT_EQ(explain(limits.caps, operation(l), e, planOptions(0), &why), VKATTN_OK) << why.message;
    EXPECT_STREQ(e.kernelName, "linear");
    EXPECT_NE(std::string(e.form).find("chunks of tokens"), std::string::npos);
    EXPECT_GT(e.keysPerStep, 1u);
    EXPECT_EQ(e.bytesWritten - static_cast<double>(e.workspaceBytes), 4.0 * 2 * 3 * 1000 * 32);
    const vkattn_linear_attention few = plain(2, 3, 3, 32);
    ASSERT_EQ(explain(limits.caps, operation(few), e, planOptions(0), &why), VKATTN_OK) << why.message;
    EXPECT_NE(std::string(e.form).find("token by token"), std::string::npos);
    EXPECT_EQ(e.keysPerStep, 1u);
}

// A single token has a dispatch and a reason of its own, where nothing but its row reads the state.
TEST(LinearPlan, takesASingleTokenInOneDispatch) {
    const PlanLimits limits = limitsOf(strongCaps());
    vkattn_explanation e{};
    vkattn_diagnostic why{};
    const auto isSingle = [&](const vkattn_linear_attention &l) {
        EXPECT_EQ(explain(limits.caps, operation(l), e, planOptions(0), &why), VKATTN_OK) << why.message;
        const bool single = std::string(e.form).find("one token") != std::string::npos;
        EXPECT_EQ(single, e.dispatchCount == linear::setUpDispatches + 1);
        EXPECT_EQ(single, std::string(e.choice).find("of one token") != std::string::npos);
        return single;
    };
    vkattn_linear_attention token = plain(2, 3, 1, 32);
    EXPECT_TRUE(isSingle(token));
    token.form = VKATTN_LINEAR_FORM_CHUNKED;
    EXPECT_FALSE(isSingle(token));
    token.form = VKATTN_LINEAR_FORM_RECURRENT;
    EXPECT_TRUE(isSingle(token));
    token.presentRoles = VKATTN_PRESENT(VKATTN_KEY_LENGTHS);
    EXPECT_FALSE(isSingle(token));
}
