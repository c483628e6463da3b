#include "attention/frame_denoiser.hpp"

#include "attention/features.hpp"

namespace denoise {
namespace {

// Returns the share of the variance that an average over a Gaussian neighbourhood leaves.
constexpr float remainingNoise(float reachPixels) {
    return 1 / (4 * pi * reachPixels * reachPixels);
}

FilterHead makeHead(const Layer &layer, const Image &light, const HeadSettings &settings, bool tolerancesOfPixels, const Image *guide,
                    float guideReach) {
    Geometry geometry = tolerancesOfPixels ? geometryFeatures(layer, settings.reachPixels, settings.normalTolerance)
                                           : evenGeometryFeatures(layer, settings.depthTolerance, settings.normalTolerance);
    FilterHead head;
    head.step = settings.step;
    head.pixelPrecision = 0.5f / (settings.reachPixels * settings.reachPixels);
    head.queryFeatures = std::move(geometry.features);
    head.precision = std::move(geometry.precision);
    if (guide != nullptr) {
        head.queryFeatures = join(head.queryFeatures, guideFeatures(*guide));
        head.precision = join(head.precision, tolerancesOfPixels ? guidePrecision(*guide, remainingNoise(guideReach),
                                                                                  settings.noiseTolerance, settings.guideFloor)
                                                                 : evenPrecision(guide->width, guide->height, settings.guideFloor));
    }
    if (settings.step > 1) head.keyFeatures = shrink(head.queryFeatures, layer.lit, settings.step);
    head.values = shrink(light, layer.lit, settings.step);
    head.visible = shrinkWeight(layer.lit, settings.step);
    return head;
}

bool denoiseLayer(const Layer &layer, const FrameFilter &settings, WindowFilter &filter, Image &direct, Image &indirect) {
    // The fourth value is the variance: the weights that average the light also average what is
    // known of its noise.
    const Image directLight = join(layer.direct, channel(layer.noise, 0)), indirectLight = join(layer.indirect, channel(layer.noise, 1));
    std::vector<Image> light(2); // direct and indirect, as the last pass has found them
    const FilterPass *before = nullptr;
    for (const FilterPass &pass : settings.passes) {
        const Image *guides[2] = {pass.guided ? &light[0] : nullptr, pass.guided ? &light[1] : nullptr};
        const float reaches[2] = {before != nullptr ? before->direct.reachPixels : 0, before != nullptr ? before->indirect.reachPixels : 0};
        const std::vector<FilterHead> heads = {
            makeHead(layer, directLight, pass.direct, settings.tolerancesOfPixels, guides[0], reaches[0]),
            makeHead(layer, indirectLight, pass.indirect, settings.tolerancesOfPixels, guides[1], reaches[1])};
        const std::vector<int> groups = pass.guided ? std::vector<int>{1, 3, 2} : std::vector<int>{1, 3};
        if (!filter.run(heads, groups, layer.coverage, pass.shape, light)) return false;
        before = &pass;
    }
    direct = std::move(light[0]);
    indirect = std::move(light[1]);
    return true;
}

} // namespace

// Two heads, for two kinds of light have two scales: the lamp's has sharp shadows and looks near
// and closely; light by way of other surfaces is smooth but far noisier, and averages over blocks
// of pixels and three times as far.
//
// The first pass cannot tell a shadow from noise, and so stays near: what it finds is blurred, but
// clean enough to tell that to the second, and so on (Rousselle, Knaus and Zwicker 2012 do the same
// with a second filtering). Every pass averages the rendered light itself, never the result of the
// one before, so no blur adds up. Tolerances were chosen by PSNR and by eye at 4 samples a pixel; a
// factor of 1.5 on any one of them costs 0.22 dB at most.
FrameFilter attentionFilter() {
    return {true,
            {{{8, 16}, false, {1, 1.2f, 0.15f, 0, 0, 0}, {1, 2.0f, 0.4f, 0, 0, 0}},
             {{8, 16}, true, {1, 2.5f, 0.15f, 3, 0.03f, 0}, {2, 5.0f, 0.4f, 4, 0.04f, 0}},
             {{8, 24}, true, {1, 3.0f, 0.15f, 2, 0.03f, 0}, {2, 8.0f, 0.4f, 4, 0.04f, 0}}}};
}

// Tolerances of both bilateral filters: the best that `denoise --frames 3 --size 192x128 --search` found
// on 2026-11-25. Those of attention are not of a search.
FrameFilter bilateralFilter() {
    return {false,
            {{{8, 16}, false, {1, 0.6f, 0.214f, 0, 0, 0.0128f}, {1, 1.4f, 0.571f, 0, 0, 0.0214f}},
             {{8, 16}, true, {1, 1.25f, 0.214f, 0, 0.4f, 0.0128f}, {2, 3.5f, 0.571f, 0, 0.2f, 0.0214f}},
             {{8, 24}, true, {1, 1.5f, 0.214f, 0, 0.4f, 0.0128f}, {2, 5.6f, 0.571f, 0, 0.2f, 0.0214f}}}};
}

FrameFilter plainBilateralFilter() {
    return {false, {{{8, 24}, false, {1, 0.5f, 0.6f, 0, 0, 0.24f}, {2, 3.5f, 0.286f, 0, 0, 0.015f}}}};
}

int runsOfFrame(const FrameFilter &settings) {
    return 2 * static_cast<int>(settings.passes.size()); // of two layers
}

bool denoiseFrame(const Frame &frame, const FrameFilter &settings, WindowFilter &filter, Image &out) {
    out = frame.emission;
    for (const Layer *layer : {&frame.base, &frame.gloss}) {
        Image direct, indirect;
        if (!denoiseLayer(*layer, settings, filter, direct, indirect)) return false;
        for (int y = 0; y < out.height; ++y)
            for (int x = 0; x < out.width; ++x)
                out.setRgb(x, y, out.rgb(x, y) + layer->reflectance.rgb(x, y) * (direct.rgb(x, y) + indirect.rgb(x, y)));
    }
    return true;
}

} // namespace denoise
