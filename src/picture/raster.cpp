#include "picture/raster.hpp"

#include "picture/stb.hpp"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>

namespace vkattn::picture {
namespace {

// A line of ASCII, of what came as UTF-8.
std::string asciiOf(std::string_view text) {
    std::string line;
    for (const char letter : text) {
        const auto byte = static_cast<uint8_t>(letter);
        if ((byte & 0xc0) == 0x80) continue; // the rest of a character
        line += byte >= 0x20 && byte < 0x7f ? letter : '?';
    }
    return line;
}

} // namespace

Raster::Raster(int pictureWidth, int pictureHeight, Rgb background) : width(pictureWidth), height(pictureHeight) {
    rgb.resize(static_cast<size_t>(width) * static_cast<size_t>(height) * 3);
    fill(0, 0, width, height, background);
}

void Raster::set(int x, int y, Rgb colour) {
    if (x < 0 || y < 0 || x >= width || y >= height) return;
    const size_t at = (static_cast<size_t>(y) * static_cast<size_t>(width) + static_cast<size_t>(x)) * 3;
    rgb[at] = colour.red, rgb[at + 1] = colour.green, rgb[at + 2] = colour.blue;
}

void Raster::fill(int left, int top, int fillWidth, int fillHeight, Rgb colour) {
    for (int y = std::max(top, 0); y < std::min(top + fillHeight, height); y++)
        for (int x = std::max(left, 0); x < std::min(left + fillWidth, width); x++) set(x, y, colour);
}

void Raster::write(int left, int top, int scale, std::string_view text, Rgb colour) {
    for (const Dots &dots : dotsOf(asciiOf(text)))
        fill(left + dots.left * scale, top + dots.top * scale, dots.width * scale, dots.height * scale, colour);
}

void Raster::writeTurned(int left, int bottom, int scale, std::string_view text, Rgb colour) {
    for (const Dots &dots : dotsOf(asciiOf(text)))
        fill(left + dots.top * scale, bottom - (dots.left + dots.width) * scale, dots.height * scale, dots.width * scale, colour);
}

int textWidth(std::string_view text, int scale) {
    return widthOf(asciiOf(text)) * scale;
}

std::string pngOf(const Raster &raster) {
    return encodePng(raster.width, raster.height, raster.rgb.data());
}

std::string deflated(const std::string &bytes) {
    return zlibOf(bytes);
}

} // namespace vkattn::picture
