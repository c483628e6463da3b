// Which refusals `vkattn conform` accepts where bindings are small, beside those that the planner makes. No device.
#include "conform/cases/gradient_case.hpp"
#include "conform/kinds/kinds.hpp"
#include "conform/statistics/statistics_case.hpp"
#include "support/seed.hpp"

#include <gtest/gtest.h>

using namespace vkattn;
using namespace vkattn::conform;

namespace {

vkattn_caps smallBindings() {
    vkattn_caps caps{};
    caps.structSize = sizeof caps;
    EXPECT_EQ(vkattnMinimumCaps(&caps, nullptr), VKATTN_OK);
    caps.maxStorageBuffersPerStage = 16;
    caps.maxStorageBufferRange = bindingBytesOfChunks;
    return caps;
}

// Returns whether the planner refuses for want of room, where conform must accept that.
template <class Drawn> bool refuses(const vkattn_operation &operation, const Drawn &drawn, const std::string &text) {
    static const vkattn_caps caps = smallBindings();
    vkattn_plan_options options{};
    options.structSize = sizeof options;
    options.maxWorkspaceBytes = 16384;
    vkattn_explanation out{};
    out.structSize = sizeof out;
    vkattn_diagnostic why{};
    const vkattn_result result = vkattnExplainOperation(&caps, &options, &operation, &out, &why);
    const bool forRoom = result == VKATTN_ERROR_UNSUPPORTED && std::string(why.message).find("maxStorageBufferRange") != std::string::npos;
    if (forRoom) {
        EXPECT_TRUE(isOverBindings(Limits::tight, drawn)) << why.message << "; " << text;
        EXPECT_FALSE(isOverBindings(Limits::full, drawn));
    }
    return forRoom;
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

} // namespace
