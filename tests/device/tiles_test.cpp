// The built-in tiles, which take seconds to compile on CPU devices: a few pipelines that cover dims, dtypes and options once each. What
// they compute is that of the small tiles of other tests; here it is the table that is checked, and what a compiler makes of large tiles.
#include "environment.hpp"

using namespace vkattn;
using namespace vkattn::test;

TEST(BuiltInTiles, computeACoveringSet) {
    // Tiles as the device's own table has them; optionsFor(Limits::full) names none.
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    Case base;
    base.batch = 1, base.heads = 4, base.kvHeads = 2, base.queryTokens = 70, base.keyTokens = 150;
    std::vector<Case> cases;
    const auto add = [&](const char *name, vkattn_kernel kernel, uint32_t dim, vkattn_dtype dtype) -> Case & {
        Case c = base;
        c.name = name, c.kernel = kernel, c.headDim = c.valueDim = dim;
        c.q = c.k = c.v = c.out = dtype;
        if (kernel == VKATTN_KERNEL_DECODE) c.queryTokens = 1, c.keyTokens = 1300;
        cases.push_back(c);
        return cases.back();
    };
    add("plain64", VKATTN_KERNEL_FLASH, 64, VKATTN_F32);
    add("causal64", VKATTN_KERNEL_FLASH, 64, VKATTN_F32).causal = true; // the same pipeline
    add("half64", VKATTN_KERNEL_FLASH, 64, VKATTN_F16).causal = true;
    add("plain128", VKATTN_KERNEL_FLASH, 128, VKATTN_F32).causal = true;
    add("bias64", VKATTN_KERNEL_FLASH, 64, VKATTN_F32).biasBroadcast = 0;
    add("plain512", VKATTN_KERNEL_FLASH, 512, VKATTN_F32);
    add("decode512", VKATTN_KERNEL_DECODE, 512, VKATTN_F32);
    add("decode64", VKATTN_KERNEL_DECODE, 64, VKATTN_F32);
    add("decodeHalf128", VKATTN_KERNEL_DECODE, 128, VKATTN_F16).lse = true;
    for (const Case &c : cases) {
        Random own = randomFor(c.name);
        const auto in = makeInstance(c, own);
        EXPECT_EQ(runAndCheck(*runtime, *in), "") << c.name;
    }
}
