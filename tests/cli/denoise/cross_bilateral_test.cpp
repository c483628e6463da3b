// The cross-bilateral filter and attention are one average where their tolerances are: two ways to
// compute it, apart from each other.
#include "attention/cross_bilateral.hpp"
#include "attention/tile_attention.hpp"

#include "support/seed.hpp"

#include <gtest/gtest.h>

namespace denoise {
namespace {

using vkattn::test::between;

Image drawn(vkattn::test::Random &random, int width, int height, int channels, double least, double most) {
    Image image(width, height, channels);
    for (float &value : image.data) value = static_cast<float>(least + (most - least) * between(random, 0, 1000) / 1000);
    return image;
}

TEST(CrossBilateral, isAttentionOverTheSameWindows) {
    vkattn::test::Random random = vkattn::test::randomFor("denoise.bilateral");
    vkattn::RuntimeOptions options;
    options.device = "cpu";
    const std::unique_ptr<vkattn::Runtime> runtime = vkattn::Runtime::open(options, nullptr, nullptr);
    ASSERT_NE(runtime, nullptr);
    for (const int step : {1, 2}) {
        const int width = static_cast<int>(between(random, 17, 40)), height = static_cast<int>(between(random, 17, 40));
        const int keyWidth = (width + step - 1) / step, keyHeight = (height + step - 1) / step;
        FilterHead head;
        head.step = step;
        head.pixelPrecision = 0.02f;
        head.queryFeatures = drawn(random, width, height, 4, -1, 1);
        head.precision = drawn(random, width, height, 2, 0.5, 4); // a tolerance for each pixel
        if (step > 1) head.keyFeatures = drawn(random, keyWidth, keyHeight, 4, -1, 1);
        head.values = drawn(random, keyWidth, keyHeight, 3, 0, 10);
        head.visible = drawn(random, keyWidth, keyHeight, 1, -1, 3);
        Image wanted(width, height, 1);
        std::fill(wanted.data.begin(), wanted.data.end(), 1.0f);
        std::vector<Image> filtered, attended;
        CrossBilateral bilateral(2);
        TileAttention attention(*runtime, 2, 1);
        ASSERT_TRUE(bilateral.run({head}, {1, 3}, wanted, {8, 16}, filtered));
        ASSERT_TRUE(attention.run({head}, {1, 3}, wanted, {8, 16}, attended)) << attention.error();
        ASSERT_EQ(filtered[0].data.size(), attended[0].data.size());
        for (size_t i = 0; i < filtered[0].data.size(); ++i) ASSERT_NEAR(filtered[0].data[i], attended[0].data[i], 1e-4) << "value " << i;
    }
}

} // namespace
} // namespace denoise
