// Hidden means unread (docs/numerics.md 3): NaN and infinity in K and V exactly where some rows see them and others do not.
#include "forms.hpp"

#include <cmath>
#include <limits>

using namespace vkattn;
using namespace vkattn::test;

namespace {

constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float infinity = std::numeric_limits<float>::infinity();

// Poisons one key: rows that do not see it must keep every bit, rows that see it must show it (where the device promises NaN at all).
void checkPoison(Runtime *runtime, const Case &c, bool inKeys, float value) {
    Random random = randomFor(c.name);
    const auto in = makeInstance(c, random);
    ASSERT_EQ(runtime->run(in->problem, in->operands).status, VKATTN_OK);
    const HostTensor clean = in->out, cleanLse = in->lse;
    const uint32_t tokens = in->k.layout.extent[2];
    for (uint32_t t = 0; t < tokens; t += 1 + t / 8) { // dense at the start, then every few keys
        HostTensor &poisoned = inKeys ? in->k : in->v;
        const HostTensor before = poisoned;
        const uint32_t dims = inKeys ? c.headDim : c.valueDim;
        for (uint32_t d = 0; d < dims; ++d) poisoned.set(0, 0, t, d, value);
        in->collectOperands();
        ASSERT_EQ(runtime->run(in->problem, in->operands).status, VKATTN_OK);
        for (uint32_t n = 0; n < c.batch * c.heads; ++n) {
            const uint32_t b = n / c.heads, h = n % c.heads;
            const Span &s = in->spans[b];
            for (uint32_t i = 0; i < s.queries; ++i) {
                const bool sees =
                    h < c.heads / c.kvHeads && t >= s.firstKey && t < s.firstKey + s.keys && in->visible(b, h, i, t - s.firstKey);
                const uint32_t row = s.firstQuery + i;
                for (uint32_t d = 0; d < c.valueDim; ++d) {
                    const float got = in->out.get(0, h, row, d), expected = clean.get(0, h, row, d);
                    if (!sees) {
                        EXPECT_EQ(got, expected) << c.name << " row " << row << " sees hidden key " << t;
                    } else if (runtime->device()->caps.floatControlsNan && (std::isnan(value) || !inKeys)) {
                        EXPECT_FALSE(std::isfinite(got)) << c.name << " row " << row << " misses visible key " << t;
                    }
                }
                if (!sees) {
                    EXPECT_EQ(in->lse.get(0, h, row, 0), cleanLse.get(0, h, row, 0)) << c.name << " row " << row;
                }
            }
        }
        poisoned = before;
    }
}

void checkAll(Runtime *runtime, Case c) {
    c.batch = 1, c.heads = c.kvHeads = 1, c.queryTokens = 40, c.keyTokens = 45, c.headDim = c.valueDim = 8, c.lse = true, c.poison = false;
    std::vector<Case> cases(10, c);
    cases[0].name = "causal", cases[0].causal = true;
    cases[1].name = "causalTopLeft", cases[1].causal = cases[1].topLeft = true;
    cases[2].name = "window", cases[2].window = true, cases[2].left = 3, cases[2].right = 2;
    cases[3].name = "mask", cases[3].maskBroadcast = 0;
    cases[4].name = "bias", cases[4].biasBroadcast = 0;
    cases[5].name = "lengths", cases[5].lengths = true;
    cases[6].name = "bitMask", cases[6].bitMaskBroadcast = 0;
    cases[7].name = "documents", cases[7].documents = Documents::random;
    cases[8].name = "ragged", cases[8].ragged = cases[8].causal = true, cases[8].batch = 4, cases[8].queryTokens = 12,
    cases[8].keyTokens = 15;
    // Few rows, heads of a group among them, which may share a tile.
    cases[9].name = "grouped", cases[9].causal = true, cases[9].heads = 6, cases[9].kvHeads = 2, cases[9].queryTokens = 5;
    for (Case &each : cases)
        for (const bool inKeys : {false, true})
            for (const float value : {nan, infinity}) checkPoison(runtime, each, inKeys, value);
}

} // namespace

class Hidden : public EveryForm {};
TEST_P(Hidden, poisonStaysInItsRows) {
    if (Runtime *on = runtime()) checkAll(on, taken({}));
}
TEST_P(Hidden, poisonStaysInItsRowsOfChunks) {
    if (Runtime *on = runtime(Room::tight)) checkAll(on, taken({}));
}
VKATTN_FORMS(Hidden);

TEST(HiddenOnWeakDevices, poisonStaysInItsRows) {
    Runtime *runtime = runtimeFor(Limits::weak);
    ASSERT_TRUE(runtime);
    Case c;
    c.kernel = VKATTN_KERNEL_STAGED;
    checkAll(runtime, c);
}
