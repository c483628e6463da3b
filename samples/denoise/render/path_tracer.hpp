// A small path tracer (Kajiya 1986) that also writes the facts that a denoiser wants to know of
// each pixel.
#pragma once

#include "picture/image.hpp"
#include "render/scene.hpp"

#include <functional>

namespace denoise {

// The first matte surface along the view ray: seen directly, in a mirror or through glass. Its
// light is stored without its colour, so that texture is never filtered: radiance = reflectance *
// (direct + indirect).
struct Layer {
    // Rgb: the albedo, times the share that mirrors, glass and varnish on the way let through.
    Image reflectance;
    Image direct, indirect; // rgb: light from the lamp, and light by way of other surfaces
    // 2 channels: variance of the pixel's mean luminance, of direct and of indirect
    Image noise;
    // 2 channels: length of the way from the camera, by all mirrors, and its variance within the
    // pixel
    Image depth;
    Image normal;   // xyz, shorter than 1 where samples differ
    Image coverage; // 1 channel: the share of view rays that met such a surface
    // 1 channel: the share of light samples that met such a surface. Where the share is 0, direct
    // and indirect are unknown.
    Image lit;

    Layer() = default;
    Layer(int width, int height);
};

struct Frame {
    Image colour;   // rgb: emission + the sum over both layers of reflectance * (direct + indirect)
    Image emission; // rgb: lamp and environment, which carry no noise
    Layer base;     // what the ray meets, through glass and by mirrors
    Layer gloss;    // the part that glass and varnish reflect on top; zero elsewhere
};

struct RenderSettings {
    int width = 0, height = 0;
    int samples = 1; // light samples per pixel
    // View rays per light sample. Surfaces are looked at more often than lit, as in multisample
    // anti-aliasing: one ray is cheap beside the many that a path takes.
    int viewRays = 1;
    uint32_t seed = 0;
    unsigned threads = 1;
    std::function<void()> rowDone; // called from the rendering threads
};

[[nodiscard]] Frame render(const Scene &scene, const RenderSettings &settings);

} // namespace denoise
