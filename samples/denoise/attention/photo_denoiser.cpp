#include "attention/photo_denoiser.hpp"

#include <array>

namespace denoise {
namespace {

// Pixels are compared by their local jet: the brightness, slopes and curvatures of a small
// neighbourhood, and its colour. Eight numbers stand for the 75 of a 5x5 patch (Manzanera 2011,
// "Local jet based similarity for NL-means filtering").
struct Component {
    // The opponent colour, and how often it is differentiated along x and y.
    int colour, orderX, orderY;
};
constexpr std::array<Component, 8> jetComponents = {
    {{0, 0, 0}, {0, 1, 0}, {0, 0, 1}, {0, 2, 0}, {0, 1, 1}, {0, 0, 2}, {1, 0, 0}, {2, 0, 0}}};
constexpr float jetScale = 0.7f; // pixels: 5x5 in all

// The first pass compares noisy jets, the second the jets of what the first has found; both average
// the picture itself. Tolerances are in units of the noise; chosen by PSNR on two photographs and a
// rendering with noise of 8 to 20 levels of 255.
struct Pass {
    TileShape shape;
    float reachPixels, tolerance;
};
constexpr Pass passes[] = {{{8, 16}, 3.0f, 3.0f}, {{8, 24}, 4.0f, 2.5f}};

// Returns a Gaussian (Hermite) derivative.
std::vector<float> kernel(int order) {
    constexpr int radius = 2;
    std::vector<float> taps;
    float sum = 0, gaussianSum = 0;
    for (int i = -radius; i <= radius; ++i) {
        const float t = static_cast<float>(i) / jetScale, gaussian = std::exp(-0.5f * t * t);
        const float polynomial = order == 0 ? 1 : order == 1 ? -t : t * t - 1;
        taps.push_back(polynomial * gaussian);
        sum += taps.back();
        gaussianSum += gaussian;
    }
    for (float &tap : taps) {
        // A curvature must not see brightness, even where the kernel is truncated.
        if (order == 2) tap -= sum / static_cast<float>(taps.size());
        tap /= gaussianSum;
    }
    return taps;
}

float energy(const std::vector<float> &taps) {
    float sum = 0;
    for (const float tap : taps) sum += tap * tap;
    return sum;
}

Image convolve(const Image &image, const std::vector<float> &alongX, const std::vector<float> &alongY) {
    const int radius = static_cast<int>(alongX.size() / 2);
    // Coefficients from -radius to radius.
    const float *tapsX = alongX.data() + radius, *tapsY = alongY.data() + radius;
    Image half(image.width, image.height, 1), result = half;
    for (int y = 0; y < image.height; ++y)
        for (int x = 0; x < image.width; ++x)
            for (int i = -radius; i <= radius; ++i) *half.at(x, y) += tapsX[i] * *image.clamped(x + i, y);
    for (int y = 0; y < image.height; ++y)
        for (int x = 0; x < image.width; ++x)
            for (int i = -radius; i <= radius; ++i) *result.at(x, y) += tapsY[i] * *half.clamped(x, y + i);
    return result;
}

// Grey, red against blue, and green against both: the axes are orthonormal, so that noise stays as
// large and independent.
std::array<Image, 3> opponentColours(const Image &picture) {
    std::array<Image, 3> result;
    for (Image &plane : result) plane = Image(picture.width, picture.height, 1);
    for (int y = 0; y < picture.height; ++y) {
        for (int x = 0; x < picture.width; ++x) {
            const Vec3 c = picture.rgb(x, y);
            *result[0].at(x, y) = (c.x + c.y + c.z) / std::sqrt(3.0f);
            *result[1].at(x, y) = (c.x - c.z) / std::sqrt(2.0f);
            *result[2].at(x, y) = (c.x - 2 * c.y + c.z) / std::sqrt(6.0f);
        }
    }
    return result;
}

// Every component is scaled so that it carries as much noise as a pixel does.
Image localJet(const Image &picture) {
    Image jet(picture.width, picture.height, static_cast<int>(jetComponents.size()));
    const std::array<Image, 3> colours = opponentColours(picture);
    for (size_t i = 0; i < jetComponents.size(); ++i) {
        const Component &component = jetComponents[i];
        const std::vector<float> alongX = kernel(component.orderX), alongY = kernel(component.orderY);
        const Image response = convolve(colours[static_cast<size_t>(component.colour)], alongX, alongY);
        const float unit = 1 / std::sqrt(energy(alongX) * energy(alongY));
        for (int y = 0; y < picture.height; ++y)
            for (int x = 0; x < picture.width; ++x) jet.at(x, y)[i] = *response.at(x, y) * unit;
    }
    return jet;
}

// Returns the standard deviation that the median of |responses| of the noise filter tells, over
// every pixel of a rectangle; 0 where there are no pixels.
float noiseWithin(const Image &picture, int left, int top, int right, int bottom) {
    std::vector<float> responses;
    for (int y = std::max(top, 1); y < std::min(bottom, picture.height - 1); ++y) {
        for (int x = std::max(left, 1); x < std::min(right, picture.width - 1); ++x) {
            const auto green = [&](int dx, int dy) { return picture.at(x + dx, y + dy)[1]; };
            responses.push_back(std::abs(green(-1, -1) + green(1, -1) + green(-1, 1) + green(1, 1) + 4 * green(0, 0) -
                                         2 * (green(0, -1) + green(-1, 0) + green(1, 0) + green(0, 1))));
        }
    }
    if (responses.empty()) return 0;
    const auto middle = responses.begin() + static_cast<std::ptrdiff_t>(responses.size() / 2);
    std::nth_element(responses.begin(), middle, responses.end());
    return *middle / (0.6745f * 6); // the median of |N(0, 1)|, and the filter's gain
}

} // namespace

NoiseEstimate estimateNoise(const Image &picture) {
    // The side of a block; each block is judged with half of its neighbours.
    constexpr int side = 16;
    constexpr float quietest = 1.0f / 2048; // half a level: less cannot be told from rounding
    NoiseEstimate result;
    result.typical = std::max(quietest, noiseWithin(picture, 0, 0, picture.width, picture.height));
    Image blocks((picture.width + side - 1) / side, (picture.height + side - 1) / side, 1);
    for (int y = 0; y < blocks.height; ++y) {
        for (int x = 0; x < blocks.width; ++x) {
            const float local =
                noiseWithin(picture, x * side - side / 2, y * side - side / 2, (x + 1) * side + side / 2, (y + 1) * side + side / 2);
            *blocks.at(x, y) = std::clamp(local, 0.5f * result.typical, 3 * result.typical);
        }
    }
    // The value is bilinear between the middles of blocks: a step in the tolerance would be seen.
    result.local = Image(picture.width, picture.height, 1);
    for (int y = 0; y < picture.height; ++y) {
        for (int x = 0; x < picture.width; ++x) {
            const float fx = (static_cast<float>(x) + 0.5f) / side - 0.5f, fy = (static_cast<float>(y) + 0.5f) / side - 0.5f;
            const int ix = static_cast<int>(std::floor(fx)), iy = static_cast<int>(std::floor(fy));
            const float tx = fx - static_cast<float>(ix), ty = fy - static_cast<float>(iy);
            const float above = *blocks.clamped(ix, iy) * (1 - tx) + *blocks.clamped(ix + 1, iy) * tx;
            const float below = *blocks.clamped(ix, iy + 1) * (1 - tx) + *blocks.clamped(ix + 1, iy + 1) * tx;
            *result.local.at(x, y) = above * (1 - ty) + below * ty;
        }
    }
    return result;
}

bool denoisePhoto(const Image &picture, const NoiseEstimate &noise, float strength, TileAttention &attention, Image &out) {
    attention.expectRuns(static_cast<int>(std::size(passes)));
    out = picture;
    Image everywhere(picture.width, picture.height, 1);
    std::fill(everywhere.data.begin(), everywhere.data.end(), 1.0f);
    for (const Pass &pass : passes) {
        std::vector<FilterHead> heads(1);
        heads[0].pixelPrecision = 0.5f / (pass.reachPixels * pass.reachPixels);
        heads[0].queryFeatures = localJet(out);
        heads[0].precision = noise.local;
        for (float &value : heads[0].precision.data) {
            const float tolerance = pass.tolerance * strength * value;
            value = 0.5f / (tolerance * tolerance);
        }
        heads[0].values = picture;
        std::vector<Image> result;
        if (!attention.run(heads, {static_cast<int>(jetComponents.size())}, everywhere, pass.shape, result)) return false;
        out = std::move(result[0]);
    }
    return true;
}

} // namespace denoise
