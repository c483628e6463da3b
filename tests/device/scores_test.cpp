// Scores of any size: what is exact of them, and what stays finite.
#include "environment.hpp"

#include "conform/cases/case_text.hpp"

using namespace vkattn;
using namespace vkattn::conform;
using namespace vkattn::test;

// Scores that grow from key to key by less than a weight may grow in f16, and by as much as floats of their size are apart: a maximum that
// is not taken on leaves weights above the largest f16.
TEST(ScoresOnDevice, largeOnesKeepWeightsFinite) {
    Runtime *const runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    Random random = randomFor("large scores");
    int computed = 0;
    for (const vkattn_kernel kernel : KernelList())
        for (const float apart : {1.0f, 2.0f, 4.0f}) {
            Case c;
            c.kernel = kernel, c.batch = 1, c.heads = c.kvHeads = 2, c.queryTokens = 33, c.keyTokens = 130, c.headDim = c.valueDim = 16;
            c.q = c.k = c.v = c.out = VKATTN_F16;
            c.biasBroadcast = 0, c.poison = false;
            const std::unique_ptr<CaseData> data = makeCaseData(c, random);
            const uint32_t *const extent = data->problem.bias.extent;
            for (uint32_t b = 0; b < extent[0]; ++b)
                for (uint32_t h = 0; h < extent[1]; ++h)
                    for (uint32_t i = 0; i < extent[2]; ++i)
                        for (uint32_t j = 0; j < extent[3]; ++j)
                            data->bias.set(b, h, i, j, 0x1p23f * apart + apart * static_cast<float>(j / 7));
            const Ran ran = runAndVerify(*runtime, *data);
            if (ran.result.status == VKATTN_ERROR_UNSUPPORTED) continue;
            ASSERT_EQ(ran.wrong, "") << apart << " apart: " << caseText(c);
            ++computed;
        }
    EXPECT_GT(computed, 0);
}
