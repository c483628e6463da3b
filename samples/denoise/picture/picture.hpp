// Pictures as files: eight bits a channel, sRGB. Reading, writing, and the way from radiance to
// what a screen shows.
#pragma once

#include "picture/image.hpp"

#include <cstdint>
#include <filesystem>
#include <span>
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

// The same from the bytes of a file; `path` stands in messages.
[[nodiscard]] bool decodePicture(const std::filesystem::path &path, std::span<const uint8_t> bytes, Picture &out, std::string &why);

[[nodiscard]] std::vector<uint8_t> encodePng(const Picture &picture);

// Writes a file that appears whole or not at all, in the folder of --out. Throws
// vkattn::program::Failure.
void saveFile(const std::filesystem::path &path, std::span<const std::byte> bytes);

// Creates the folder where it is missing and tries to write into it: a fault is better known before
// rendering than after.
[[nodiscard]] bool prepareFolder(const std::filesystem::path &folder, std::string &why);

// Applies exposure, a filmic curve (Narkowicz's fit of ACES, 2015) and the sRGB transfer function.
[[nodiscard]] Picture toneMap(const Image &radiance);

[[nodiscard]] Image toImage(const Picture &picture); // channel values over 255
[[nodiscard]] Picture toPicture(const Image &image); // and back, clamped

} // namespace denoise
