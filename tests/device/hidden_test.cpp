// Hidden means unread (docs/numerics.md 3): NaN and infinity in K and V exactly where some rows see them and others do not.
#include "environment.hpp"

#include <cmath>
#include <limits>

using namespace vkattn;
using namespace vkattn::test;

namespace {

constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float infinity = std::numeric_limits<float>::infinity();

// Poisons one key: rows that do not see it must keep every bit, rows that see it must show it (where the device promises NaN at all).
void checkPoison(Limits limits, const Case &c, bool inKeys, float value) {
    Runtime *runtime = runtimeFor(limits);
    ASSERT_TRUE(runtime);
    Random random = randomFor(c.name);
    const auto in = makeInstance(c, random);
    ASSERT_EQ(runtime->run(in->problem, in->operands).status, VKATTN_OK);
    const HostTensor clean = in->out, cleanLse = in->lse;
    for (uint32_t j = 0; j < c.keyTokens; j += 1 + j / 8) { // dense at the start, then every few keys
        HostTensor &poisoned = inKeys ? in->k : in->v;
        const HostTensor before = poisoned;
        const uint32_t dims = inKeys ? c.headDim : c.valueDim;
        for (uint32_t d = 0; d < dims; ++d) poisoned.set(0, 0, j, d, value);
        in->collectOperands();
        ASSERT_EQ(runtime->run(in->problem, in->operands).status, VKATTN_OK);
        for (uint32_t i = 0; i < c.queryTokens; ++i) {
            const bool sees = in->visible(0, 0, i, j);
            for (uint32_t d = 0; d < c.valueDim; ++d) {
                const float got = in->out.get(0, 0, i, d), expected = clean.get(0, 0, i, d);
                if (!sees) {
                    EXPECT_EQ(got, expected) << c.name << " row " << i << " sees hidden key " << j;
                } else if (runtime->device()->caps.floatControlsNan && (std::isnan(value) || !inKeys)) {
                    EXPECT_FALSE(std::isfinite(got)) << c.name << " row " << i << " misses visible key " << j;
                }
            }
            if (!sees) {
                EXPECT_EQ(in->lse.get(0, 0, i, 0), cleanLse.get(0, 0, i, 0)) << c.name << " row " << i;
            }
        }
        poisoned = before;
    }
}

void checkAll(Limits limits) {
    Case c;
    c.batch = 1, c.heads = c.kvHeads = 1, c.queryTokens = 40, c.keyTokens = 45, c.headDim = 12, c.valueDim = 10, c.lse = true,
    c.poison = false;
    std::vector<Case> cases(6, c);
    cases[0].name = "causal", cases[0].causal = true;
    cases[1].name = "causalTopLeft", cases[1].causal = cases[1].topLeft = true;
    cases[2].name = "window", cases[2].window = true, cases[2].left = 3, cases[2].right = 2;
    cases[3].name = "mask", cases[3].maskBroadcast = 0;
    cases[4].name = "bias", cases[4].biasBroadcast = 0;
    cases[5].name = "lengths", cases[5].lengths = true;
    for (Case &each : cases)
        for (const bool inKeys : {false, true})
            for (const float value : {nan, infinity}) checkPoison(limits, each, inKeys, value);
}

} // namespace

TEST(Hidden, poisonStaysInItsRows) {
    checkAll(Limits::full);
}
TEST(Hidden, poisonStaysInItsRowsOnWeakDevices) {
    checkAll(Limits::weak);
}
