// A picture of eight bits a channel, text in it, and its PNG.
#pragma once

#include "picture/colours.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace vkattn::picture {

struct Raster {
    Raster(int pictureWidth, int pictureHeight, Rgb background);
    int width, height;
    std::vector<uint8_t> rgb;

    void set(int x, int y, Rgb colour); // outside: nothing
    void fill(int left, int top, int fillWidth, int fillHeight, Rgb colour);
    // The upper left corner of the text; each dot of the font has `scale` pixels. Turned text runs
    // upwards from its lower left corner. Characters beyond ASCII become '?'.
    void write(int left, int top, int scale, std::string_view text, Rgb colour);
    void writeTurned(int left, int bottom, int scale, std::string_view text, Rgb colour);
};

inline constexpr int textHeight = 9; // dots, below the line included
[[nodiscard]] int textWidth(std::string_view text, int scale);

// The bytes of a PNG: the same for the same picture.
[[nodiscard]] std::string pngOf(const Raster &raster);

// zlib's format, in few bytes.
[[nodiscard]] std::string deflated(const std::string &bytes);

} // namespace vkattn::picture
