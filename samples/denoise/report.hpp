// What the program says on standard output, and what it answers to checks.
#pragma once

#include "arguments.hpp"
#include "attention/tile_attention.hpp"
#include "picture/picture.hpp"
#include "render/path_tracer.hpp"

namespace denoise {

[[nodiscard]] std::string decibels(double value);

// Prints the device that computed, and whether the result was right. Returns the exit status.
[[nodiscard]] int reportAttention(const vkattn::Runtime &runtime, const AttentionReport &report);

// Prints what was gained over the noisy picture. Returns the exit status: whether --min-gain is met.
[[nodiscard]] int reportGain(const Arguments &arguments, double before, double after);

struct NamedPicture {
    const char *name;
    const Picture *picture;
};

// Writes a file into the folder of --out, and says so. Throws vkattn::program::Failure.
void save(const Arguments &arguments, const char *name, std::span<const uint8_t> bytes);
void savePictures(const Arguments &arguments, const std::vector<NamedPicture> &pictures);

// View rays for each light sample of a noisy picture.
constexpr int viewRaysPerSample = 4;

// How a picture and its reference are rendered. Their noise is independent of each other.
[[nodiscard]] RenderSettings noisySettingsOf(const Arguments &arguments, uint32_t seed);
[[nodiscard]] RenderSettings referenceSettingsOf(const Arguments &arguments, uint32_t seed);
// Says where a reference is too noisy to judge by.
void noteFewSamples(const Arguments &arguments);

} // namespace denoise
