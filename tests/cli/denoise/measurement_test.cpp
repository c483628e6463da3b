// Means, medians, the report of a camera move, and the search for tolerances.
#include "sequence/measurement.hpp"
#include "sequence/tolerance_search.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace denoise {
namespace {

std::vector<FrameFigures> withTimes(std::initializer_list<double> milliseconds) {
    std::vector<FrameFigures> frames;
    for (const double each : milliseconds) frames.emplace_back().filterMilliseconds = each;
    return frames;
}

TEST(Measurement, mediansAreInTheMiddleAndMeansOverWhatIsThere) {
    EXPECT_EQ(median(withTimes({9, 1, 5}), &FrameFigures::filterMilliseconds), 5);
    EXPECT_EQ(median(withTimes({9, 1, 5, 7}), &FrameFigures::filterMilliseconds), 6);
    EXPECT_EQ(mean(withTimes({9, 1, 5, 7}), &FrameFigures::filterMilliseconds), 5.5);
    std::vector<FrameFigures> frames = withTimes({1, 2});
    EXPECT_FALSE(mean(frames, &FrameFigures::flicker));
    EXPECT_FALSE(median({}, &FrameFigures::filterMilliseconds));
    frames[1].flicker = 3; // the first frame has none
    EXPECT_EQ(mean(frames, &FrameFigures::flicker), 3);
}

TEST(Measurement, theFirstFrameIsNotTimedWhereThereAreOthers) {
    EXPECT_NE(table({{"attention", withTimes({1000, 2, 4})}}).find(" 3.0 "), std::string::npos);
    EXPECT_NE(table({{"attention", withTimes({1000})}}).find(" 1000.0 "), std::string::npos);
}

TEST(Measurement, aLineForEachFrameAndMethod) {
    std::vector<MethodFigures> methods = {{"noisy", withTimes({1.5})}, {"attention", withTimes({2})}};
    methods[1].frames[0].psnr = 37.25;
    EXPECT_EQ(csv(methods), "frame,method,attention_ms,denoiser_ms,frame_ms,psnr_db,ssim,flicker_levels\n"
                            "0,noisy,,1.500,,,,\n0,attention,,2.000,,37.2500,,\n");
}

// The best tolerances are known here; a search by factors of 1.2 ends within such a factor.
TEST(ToleranceSearch, findsTheBest) {
    const auto score = [](const FrameFilter &filter) {
        const auto off = [](float value, double best) { return std::pow(std::log(static_cast<double>(value) / best), 2); };
        const FilterPass &last = filter.passes.back();
        return -off(last.direct.reachPixels, 7) - off(last.indirect.normalTolerance, 0.05) - off(last.direct.guideFloor, 0.3);
    };
    double highest = -1e9;
    size_t steps = 0;
    const FrameFilter start = bilateralFilter();
    const FrameFilter best = searchTolerances(start, score, [&](const SearchStep &step) {
        EXPECT_GT(step.score, highest);
        highest = step.score, ++steps;
    });
    EXPECT_GT(steps, 3u);
    EXPECT_NEAR(std::log(best.passes.back().direct.reachPixels / 7.0f), 0, std::log(1.2f));
    EXPECT_NEAR(std::log(best.passes.back().indirect.normalTolerance / 0.05f), 0, std::log(1.2f));
    EXPECT_NEAR(std::log(best.passes.back().direct.guideFloor / 0.3f), 0, std::log(1.2f));
    // What does not matter stays, and passes keep their ratios.
    EXPECT_EQ(best.passes.back().indirect.reachPixels, start.passes.back().indirect.reachPixels);
    EXPECT_NEAR(best.passes[0].direct.reachPixels / best.passes[1].direct.reachPixels,
                start.passes[0].direct.reachPixels / start.passes[1].direct.reachPixels, 1e-5);
}

} // namespace
} // namespace denoise
