// Pictures as files: eight bits a channel, sRGB. Reading, writing, comparing, and the way from
// radiance to what a screen shows.
#pragma once

#include "picture/image.hpp"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace denoise {

struct Picture {
    int width = 0, height = 0;
    std::vector<uint8_t> rgb;

    Picture() = default;
    Picture(int pictureWidth, int pictureHeight)
        : width(pictureWidth), height(pictureHeight), rgb(static_cast<size_t>(pictureWidth) * static_cast<size_t>(pictureHeight) * 3) {}
};

constexpr int64_t maxPicturePixels = 16'000'000;

// Loads PNG, JPEG, BMP, TGA, GIF, PSD and PNM. Returns false where that fails; `why` says what was
// wrong with the file and what to do.
[[nodiscard]] bool loadPicture(const std::filesystem::path &path, Picture &out, std::string &why);

// Writes a file beside the target and renames it, so that no half-written file is ever seen under
// the name.
[[nodiscard]] bool savePng(const std::filesystem::path &path, const Picture &picture, std::string &why);

// Creates the folder where it is missing and tries to write into it: a fault is better known before
// rendering than after.
[[nodiscard]] bool prepareFolder(const std::filesystem::path &folder, std::string &why);

// Applies exposure, a filmic curve (Narkowicz's fit of ACES, 2015) and the sRGB transfer function.
[[nodiscard]] Picture toneMap(const Image &radiance);

[[nodiscard]] Image toImage(const Picture &picture); // channel values over 255
[[nodiscard]] Picture toPicture(const Image &image); // and back, clamped

// Returns the peak signal-to-noise ratio in decibels, over all channels; infinite for equal
// pictures.
[[nodiscard]] double psnr(const Picture &a, const Picture &b);

} // namespace denoise
