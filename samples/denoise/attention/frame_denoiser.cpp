#include "attention/frame_denoiser.hpp"

#include "attention/features.hpp"

namespace denoise {
namespace {

// The work of one head in one pass.
struct HeadSettings {
    int step;              // see AttentionHead
    float reachPixels;     // standard deviation of the weights over the distance in pixels
    float normalTolerance; // indirect light changes slowly as a surface turns, direct light faster
    float noiseTolerance;  // see guidePrecision; no part in a pass without guide
    float guideFloor;
};

struct Pass {
    TileShape shape;
    bool guided; // compares the light that the pass before has found, besides the geometry
    HeadSettings direct, indirect;
};

// Two heads, for two kinds of light have two scales: the lamp's has sharp shadows and looks near
// and closely; light by way of other surfaces is smooth but far noisier, and averages over blocks
// of pixels and three times as far.
//
// The first pass cannot tell a shadow from noise, and so stays near: what it finds is blurred, but
// clean enough to tell that to the second, and so on (Rousselle, Knaus and Zwicker 2012 do the same
// with a second filtering). Every pass averages the rendered light itself, never the result of the
// one before, so no blur adds up. Tolerances were chosen by PSNR and by eye at 4 samples a pixel; a
// factor of 1.5 on any one of them costs 0.22 dB at most.
constexpr Pass passes[] = {
    {{8, 16}, false, {1, 1.2f, 0.15f, 0, 0}, {1, 2.0f, 0.4f, 0, 0}},
    {{8, 16}, true, {1, 2.5f, 0.15f, 3, 0.03f}, {2, 5.0f, 0.4f, 4, 0.04f}},
    {{8, 24}, true, {1, 3.0f, 0.15f, 2, 0.03f}, {2, 8.0f, 0.4f, 4, 0.04f}},
};

// Returns the share of the variance that an average over a Gaussian neighbourhood leaves.
constexpr float remainingNoise(float reachPixels) {
    return 1 / (4 * pi * reachPixels * reachPixels);
}

AttentionHead makeHead(const Layer &layer, const Image &light, const HeadSettings &settings, const Image *guide, float guideReach) {
    Geometry geometry = geometryFeatures(layer, settings.reachPixels, settings.normalTolerance);
    AttentionHead head;
    head.step = settings.step;
    head.pixelPrecision = 0.5f / (settings.reachPixels * settings.reachPixels);
    head.queryFeatures = std::move(geometry.features);
    head.precision = std::move(geometry.precision);
    if (guide != nullptr) {
        head.queryFeatures = join(head.queryFeatures, guideFeatures(*guide));
        head.precision =
            join(head.precision, guidePrecision(*guide, remainingNoise(guideReach), settings.noiseTolerance, settings.guideFloor));
    }
    if (settings.step > 1) head.keyFeatures = shrink(head.queryFeatures, layer.lit, settings.step);
    head.values = shrink(light, layer.lit, settings.step);
    head.visible = shrinkWeight(layer.lit, settings.step);
    return head;
}

bool denoiseLayer(const Layer &layer, TileAttention &attention, Image &direct, Image &indirect) {
    // The fourth value is the variance: the weights that average the light also average what is
    // known of its noise.
    const Image directLight = join(layer.direct, channel(layer.noise, 0)), indirectLight = join(layer.indirect, channel(layer.noise, 1));
    std::vector<Image> light(2); // direct and indirect, as the last pass has found them
    const Pass *before = nullptr;
    for (const Pass &pass : passes) {
        const Image *guides[2] = {pass.guided ? &light[0] : nullptr, pass.guided ? &light[1] : nullptr};
        const float reaches[2] = {before != nullptr ? before->direct.reachPixels : 0, before != nullptr ? before->indirect.reachPixels : 0};
        const std::vector<AttentionHead> heads = {makeHead(layer, directLight, pass.direct, guides[0], reaches[0]),
                                                  makeHead(layer, indirectLight, pass.indirect, guides[1], reaches[1])};
        const std::vector<int> groups = pass.guided ? std::vector<int>{1, 3, 2} : std::vector<int>{1, 3};
        if (!attention.run(heads, groups, layer.coverage, pass.shape, light)) return false;
        before = &pass;
    }
    direct = std::move(light[0]);
    indirect = std::move(light[1]);
    return true;
}

} // namespace

bool denoiseFrame(const Frame &frame, TileAttention &attention, Image &out) {
    attention.expectRuns(2 * static_cast<int>(std::size(passes)));
    out = frame.emission;
    for (const Layer *layer : {&frame.base, &frame.gloss}) {
        Image direct, indirect;
        if (!denoiseLayer(*layer, attention, direct, indirect)) return false;
        for (int y = 0; y < out.height; ++y)
            for (int x = 0; x < out.width; ++x)
                out.setRgb(x, y, out.rgb(x, y) + layer->reflectance.rgb(x, y) * (direct.rgb(x, y) + indirect.rgb(x, y)));
    }
    return true;
}

} // namespace denoise
