#include "attention/features.hpp"

namespace denoise {
namespace {

// light below this is all the same to the guide: black on the screen
constexpr float darkest = 0.02f;

// The change of depth from a pixel to the next on the same surface. Along each axis the smaller
// difference to the two neighbours counts, since the larger belongs to an edge where they differ.
// Of both axes the larger one counts.
float depthSlope(const Layer &layer, int x, int y) {
    const float here = *layer.depth.at(x, y), none = 1e30f;
    const auto difference = [&](int nx, int ny) {
        if (nx < 0 || ny < 0 || nx >= layer.depth.width || ny >= layer.depth.height || *layer.coverage.at(nx, ny) <= 0) return none;
        return std::abs(*layer.depth.at(nx, ny) - here);
    };
    const float alongX = std::min(difference(x - 1, y), difference(x + 1, y)),
                alongY = std::min(difference(x, y - 1), difference(x, y + 1));
    return std::max(alongX < none ? alongX : 0, alongY < none ? alongY : 0);
}

} // namespace

Geometry geometryFeatures(const Layer &layer, float reachPixels, float normalTolerance) {
    const int width = layer.depth.width, height = layer.depth.height;
    Geometry result{Image(width, height, 4), Image(width, height, 2)};
    for (int y = 0; y < height; ++y) {
        for (int x = 0; x < width; ++x) {
            const float depth = layer.depth.at(x, y)[0], depthVariance = layer.depth.at(x, y)[1];
            const Vec3 normal = layer.normal.rgb(x, y);
            float *feature = result.features.at(x, y), *precision = result.precision.at(x, y);
            feature[0] = depth, feature[1] = normal.x, feature[2] = normal.y, feature[3] = normal.z;
            // A tilted surface changes depth all along the reach. Depths that differ by less than
            // 0.2% count as one surface in any case.
            const float slope = 0.8f * reachPixels * depthSlope(layer, x, y) + 0.002f * depth;
            // An edge pixel holds two surfaces in shares a and 1 - a, and so a variance of a (1 -
            // a) D^2 where they differ by D. Taken as tolerance it makes the pixel weigh both sides
            // about as a to 1 - a, as it should.
            precision[0] = 0.5f / (slope * slope + depthVariance + 1e-8f);
            precision[1] = 0.5f / (normalTolerance * normalTolerance + std::max(0.0f, 1 - dot(normal, normal)));
        }
    }
    return result;
}

Geometry evenGeometryFeatures(const Layer &layer, float depthTolerance, float normalTolerance) {
    const int width = layer.depth.width, height = layer.depth.height;
    Geometry result{Image(width, height, 4),
                    join(evenPrecision(width, height, depthTolerance), evenPrecision(width, height, normalTolerance))};
    for (int y = 0; y < height; ++y) {
        for (int x = 0; x < width; ++x) {
            const Vec3 normal = layer.normal.rgb(x, y);
            float *feature = result.features.at(x, y);
            feature[0] = std::log(std::max(layer.depth.at(x, y)[0], 1e-3f));
            feature[1] = normal.x, feature[2] = normal.y, feature[3] = normal.z;
        }
    }
    return result;
}

Image evenPrecision(int width, int height, float tolerance) {
    Image result(width, height, 1);
    std::fill(result.data.begin(), result.data.end(), 0.5f / (tolerance * tolerance));
    return result;
}

Image guideFeatures(const Image &light) {
    Image result(light.width, light.height, 2);
    for (int y = 0; y < light.height; ++y) {
        for (int x = 0; x < light.width; ++x) {
            const Vec3 rgb = light.rgb(x, y);
            const float brightness = darkest + luminance(rgb);
            result.at(x, y)[0] = std::log(brightness);
            result.at(x, y)[1] = 0.5f * (rgb.x - rgb.z) / brightness;
        }
    }
    return result;
}

Image guidePrecision(const Image &light, float share, float noiseTolerance, float floor) {
    Image result(light.width, light.height, 1);
    for (int y = 0; y < light.height; ++y) {
        for (int x = 0; x < light.width; ++x) {
            // Of the logarithm of brightness.
            const float slope = 1 / (darkest + luminance(light.rgb(x, y)));
            const float variance = share * light.at(x, y)[3] * slope * slope;
            *result.at(x, y) = 0.5f / (noiseTolerance * noiseTolerance * variance + floor * floor);
        }
    }
    return result;
}

Image join(const Image &a, const Image &b) {
    Image result(a.width, a.height, a.channels + b.channels);
    for (int y = 0; y < a.height; ++y)
        for (int x = 0; x < a.width; ++x)
            std::copy(b.at(x, y), b.at(x, y) + b.channels, std::copy(a.at(x, y), a.at(x, y) + a.channels, result.at(x, y)));
    return result;
}

Image channel(const Image &image, int index) {
    Image result(image.width, image.height, 1);
    for (int y = 0; y < image.height; ++y)
        for (int x = 0; x < image.width; ++x) *result.at(x, y) = image.at(x, y)[index];
    return result;
}

Image shrink(const Image &image, const Image &weight, int step) {
    Image result((image.width + step - 1) / step, (image.height + step - 1) / step, image.channels), total = shrinkWeight(weight, step);
    for (int y = 0; y < image.height; ++y) {
        for (int x = 0; x < image.width; ++x) {
            const float sum = *total.at(x / step, y / step);
            for (int c = 0; c < image.channels && sum > 0; ++c)
                result.at(x / step, y / step)[c] += image.at(x, y)[c] * *weight.at(x, y) / sum;
        }
    }
    return result;
}

Image shrinkWeight(const Image &weight, int step) {
    Image result((weight.width + step - 1) / step, (weight.height + step - 1) / step, 1);
    for (int y = 0; y < weight.height; ++y)
        for (int x = 0; x < weight.width; ++x) *result.at(x / step, y / step) += *weight.at(x, y);
    return result;
}

} // namespace denoise
