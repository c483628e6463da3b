// PSNR and SSIM of pictures.
#include "metrics/similarity.hpp"

#include "support/seed.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace denoise {
namespace {

using vkattn::test::between;

Picture drawnPicture(vkattn::test::Random &random, uint32_t least, uint32_t most) {
    const auto side = [&] { return static_cast<int>(between(random, ssimWindow, 40)); };
    const int width = side(), height = side();
    Picture picture(width, height);
    for (uint8_t &value : picture.rgb) value = static_cast<uint8_t>(between(random, least, most));
    return picture;
}

Picture evenPicture(int width, int height, uint8_t value) {
    Picture picture(width, height);
    std::fill(picture.rgb.begin(), picture.rgb.end(), value);
    return picture;
}

// The formula once more, window by window, in two dimensions.
double plainSsim(const Picture &a, const Picture &b) {
    const auto luma = [](const Picture &picture, int x, int y) {
        const uint8_t *p = picture.rgb.data() + 3 * (static_cast<size_t>(y) * static_cast<size_t>(picture.width) + static_cast<size_t>(x));
        return 0.299 * p[0] + 0.587 * p[1] + 0.114 * p[2];
    };
    const double c1 = 6.5025, c2 = 58.5225;
    double total = 0;
    int windows = 0;
    for (int top = 0; top + 11 <= a.height; ++top) {
        for (int left = 0; left + 11 <= a.width; ++left, ++windows) {
            double weights = 0, ma = 0, mb = 0, va = 0, vb = 0, covariance = 0;
            const auto each = [&](const auto &visit) {
                for (int i = 0; i < 121; ++i) {
                    const int dx = i % 11 - 5, dy = i / 11 - 5;
                    visit(std::exp(-(dx * dx + dy * dy) / 4.5), luma(a, left + 5 + dx, top + 5 + dy), luma(b, left + 5 + dx, top + 5 + dy));
                }
            };
            each([&](double w, double x, double y) { weights += w, ma += w * x, mb += w * y; });
            ma /= weights, mb /= weights;
            each([&](double w, double x, double y) {
                va += w * (x - ma) * (x - ma) / weights, vb += w * (y - mb) * (y - mb) / weights;
                covariance += w * (x - ma) * (y - mb) / weights;
            });
            total += (2 * ma * mb + c1) * (2 * covariance + c2) / ((ma * ma + mb * mb + c1) * (va + vb + c2));
        }
    }
    return total / windows;
}

TEST(Similarity, equalPicturesAreAlikeWithoutBound) {
    vkattn::test::Random random = vkattn::test::randomFor("similarity.equal");
    const Picture picture = drawnPicture(random, 0, 255);
    EXPECT_NEAR(ssim(picture, picture), 1, 1e-12);
    EXPECT_EQ(psnr(picture, picture), std::numeric_limits<double>::infinity());
}

// Where nothing varies only the means are left, and SSIM is their term alone.
TEST(Similarity, ofEvenPicturesIsTheTermOfMeans) {
    const double c1 = 6.5025, expected = (2 * 100.0 * 150 + c1) / (100.0 * 100 + 150.0 * 150 + c1);
    EXPECT_NEAR(ssim(evenPicture(11, 11, 100), evenPicture(11, 11, 150)), expected, 1e-9);
    EXPECT_NEAR(psnr(evenPicture(11, 11, 100), evenPicture(11, 11, 150)), 20 * std::log10(255.0 / 50), 1e-9);
}

// A shift leaves variances and covariance as they are.
TEST(Similarity, ofAShiftedPictureIsTheTermOfMeans) {
    vkattn::test::Random random = vkattn::test::randomFor("similarity.shift");
    const Picture picture = drawnPicture(random, 0, 200);
    Picture shifted = picture;
    for (uint8_t &value : shifted.rgb) value = static_cast<uint8_t>(value + 55);
    EXPECT_NEAR(psnr(picture, shifted), 20 * std::log10(255.0 / 55), 1e-9);
    const double found = ssim(picture, shifted);
    EXPECT_LT(found, 1);
    EXPECT_NEAR(found, plainSsim(picture, shifted), 1e-9);
    // The term of means is least where the means are: 0 against 55.
    EXPECT_GT(found, 6.5025 / (55.0 * 55 + 6.5025));
}

TEST(Similarity, isTheFormulaWindowByWindow) {
    vkattn::test::Random random = vkattn::test::randomFor("similarity.plain");
    const Picture a = drawnPicture(random, 0, 255);
    Picture b = a;
    for (uint8_t &value : b.rgb) value = static_cast<uint8_t>(std::min<uint32_t>(255, value + between(random, 0, 60)));
    EXPECT_NEAR(ssim(a, b), plainSsim(a, b), 1e-9);
    EXPECT_DOUBLE_EQ(ssim(a, b), ssim(b, a));
}

// structural_similarity of scikit-image 0.19.3 with gaussian_weights, sigma 1.5 and
// use_sample_covariance off, the mean over windows within the picture; PSNR from NumPy.
TEST(Similarity, isThatOfAnotherLibrary) {
    Picture a(24, 17), b(24, 17);
    for (int y = 0; y < 17; ++y) {
        for (int x = 0; x < 24; ++x) {
            for (int c = 0; c < 3; ++c) {
                const int value = x * x * 7 + y * 13 + c * 50 + x * y * 3;
                const auto at = static_cast<size_t>(3 * (24 * y + x) + c);
                a.rgb[at] = static_cast<uint8_t>(value % 256);
                b.rgb[at] = static_cast<uint8_t>((value + (x * 5 + y * 11 + c * 17) % 40) % 256);
            }
        }
    }
    EXPECT_NEAR(ssim(a, b), 0.728856305, 1e-6);
    EXPECT_NEAR(psnr(a, b), 12.253550934, 1e-6);
}

// Negatives of each other: what varies together varies against each other.
TEST(Similarity, ofNegativesIsBelowZero) {
    vkattn::test::Random random = vkattn::test::randomFor("similarity.negative");
    const Picture picture = drawnPicture(random, 0, 255);
    Picture negative = picture;
    for (uint8_t &value : negative.rgb) value = static_cast<uint8_t>(255 - value);
    EXPECT_LT(ssim(picture, negative), 0);
}

} // namespace
} // namespace denoise
