// Which refusals `vkattn conform` accepts where bindings are small, beside those that the planner makes. No device.
#include "conform/cases/gradient_case.hpp"
#include "conform/cases/operation_case.hpp"
#include "conform/kinds/kinds.hpp"
#include "conform/linear/linear_gradient_case.hpp"
#include "conform/statistics/statistics_case.hpp"
#include "conform/visible_blocks/visible_blocks_case.hpp"
#include "support/seed.hpp"

#include <gtest/gtest.h>

using namespace vkattn;
using namespace vkattn::conform;

namespace {

vkattn_caps capsOf(Limits limits) {
    vkattn_caps caps{};
    caps.structSize = sizeof caps;
    EXPECT_EQ(vkattnMinimumCaps(&caps, nullptr), VKATTN_OK);
    if (!areMinimum(limits)) caps.maxStorageBuffersPerStage = 16;
    if (makeChunks(limits)) caps.maxStorageBufferRange = bindingBytesOfChunks;
    return caps;
}

// Returns the words of the planner's refusal; empty: it takes the operation.
std::string refusalOf(const vkattn_operation &operation, Limits limits = Limits::tight) {
    const vkattn_caps caps = capsOf(limits);
    vkattn_plan_options options{};
    options.structSize = sizeof options;
    if (makeChunks(limits)) options.maxWorkspaceBytes = workspaceBytesOfChunks;
    vkattn_explanation out{};
    out.structSize = sizeof out;
    vkattn_diagnostic why{};
    return vkattnExplainOperation(&caps, &options, &operation, &out, &why) == VKATTN_ERROR_UNSUPPORTED ? why.message : "";
}

// Returns whether the planner refuses for want of room, where a part of the case must be over a binding.
template <class Drawn> bool refuses(const vkattn_operation &operation, const Drawn &drawn, const std::string &text) {
    const std::string words = refusalOf(operation);
    if (!isForRoom(Limits::tight, words)) return false;
    EXPECT_TRUE(isOverBindings(Limits::tight, drawn)) << words << "; " << text;
    EXPECT_FALSE(isOverBindings(Limits::full, drawn));
    return true;
}
// Returns whether the planner refuses; it does so for want of room alone.
bool refusesForRoom(const vkattn_operation &operation, const std::string &text) {
    const std::string words = refusalOf(operation);
    EXPECT_TRUE(words.empty() || isForRoom(Limits::tight, words)) << words << "; " << text;
    for (const Limits limits : {Limits::full, Limits::weak}) {
        const std::string others = refusalOf(operation, limits);
        EXPECT_TRUE(others.empty() || isForBuffers(limits, capsOf(limits), 16, others)) << others << "; " << text;
    }
    return !words.empty();
}

// Draws cases until the planner refuses one, and no fewer than these.
template <class Next> void expectRefusalsToBeAccepted(int least, const Next &next) {
    Random random(test::seed());
    int refused = 0;
    for (int n = 0; (n < least || (!refused && n < 50 * least)) && !testing::Test::HasFailure(); ++n) refused += next(random);
    EXPECT_GT(refused, 0) << "too few cases";
}

TEST(RoomTest, attentionIsRefusedOnlyWhereAPartIsOverABinding) {
    expectRefusalsToBeAccepted(1000, [](Random &random) {
        Case c = randomCase(random, 5);
        c.kernel = VKATTN_KERNEL_STAGED;
        const auto in = makeCaseData(c, random);
        return refuses(vkattn::operation(in->problem), *in, c.name);
    });
}

TEST(RoomTest, statisticsAreRefusedOnlyWhereAPartIsOverABinding) {
    expectRefusalsToBeAccepted(200, [](Random &random) {
        // Of others one in 20000 is refused.
        Case c = randomCase(random, 5);
        while (!c.ragged || c.batch * c.keyTokens * c.headDim < 20000) c = randomCase(random, 5);
        const StatisticsCase s = drawStatistics(random, c, drawStatisticsOptions(random));
        return refuses(s.operation(), s, s.text());
    });
}

TEST(RoomTest, gradientsAreRefusedOnlyWhereAPartIsOverABinding) {
    expectRefusalsToBeAccepted(1000, [](Random &random) {
        GradientOptions options;
        options.most = 5;
        GradientCase g = drawGradient(random, options);
        return refuses(g.operation(), g, g.text());
    });
}

TEST(RoomTest, linearAttentionIsRefusedForWantOfRoomAlone) {
    expectRefusalsToBeAccepted(1000, [](Random &random) {
        LinearCase c = drawLinear(random);
        return refusesForRoom(c.operation(), c.text());
    });
}

TEST(RoomTest, gradientsOfLinearAttentionAreRefusedForWantOfRoomAlone) {
    expectRefusalsToBeAccepted(1000, [](Random &random) {
        LinearGradientCase c = drawLinearGradient(random);
        return refusesForRoom(c.operation(), c.text());
    });
}

TEST(RoomTest, listsOfBlocksAreRefusedForWantOfRoomAlone) {
    expectRefusalsToBeAccepted(1000, [](Random &random) {
        const VisibleBlocksCase c = drawVisibleBlocks(random, randomCase(random, 5));
        return refusesForRoom(c.operation(), c.text());
    });
}

TEST(RoomTest, operationsAreRefusedForWantOfRoomAlone) {
    int n = 0;
    expectRefusalsToBeAccepted(2000, [&](Random &random) {
        OperationCase c = drawOperation(random, otherKind(n++));
        // A routine that matrix units or subgroups are for.
        if (c.kind == VKATTN_PROJECTION) c.projection.kernel = VKATTN_PROJECTION_AUTO;
        return refusesForRoom(c.operation(), c.text());
    });
}

} // namespace
