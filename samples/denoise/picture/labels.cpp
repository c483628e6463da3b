#include "picture/labels.hpp"

#include <string_view>

namespace denoise {
namespace {

constexpr int glyphWidth = 5, glyphHeight = 8, advance = glyphWidth + 1;
constexpr uint8_t background = 20, ink = 225;

// Five columns a glyph, the lowest bit on top: the letters of text displays.
constexpr std::string_view glyphNames = "-./0123456789Babcdefghijklmnopqrstuvwxyz";
constexpr uint8_t glyphs[][glyphWidth] = {
    {0x08, 0x08, 0x08, 0x08, 0x08}, {0x00, 0x60, 0x60, 0x00, 0x00}, {0x20, 0x10, 0x08, 0x04, 0x02}, {0x3E, 0x51, 0x49, 0x45, 0x3E},
    {0x00, 0x42, 0x7F, 0x40, 0x00}, {0x42, 0x61, 0x51, 0x49, 0x46}, {0x21, 0x41, 0x45, 0x4B, 0x31}, {0x18, 0x14, 0x12, 0x7F, 0x10},
    {0x27, 0x45, 0x45, 0x45, 0x39}, {0x3C, 0x4A, 0x49, 0x49, 0x30}, {0x01, 0x71, 0x09, 0x05, 0x03}, {0x36, 0x49, 0x49, 0x49, 0x36},
    {0x06, 0x49, 0x49, 0x29, 0x1E}, {0x7F, 0x49, 0x49, 0x49, 0x36}, {0x20, 0x54, 0x54, 0x54, 0x78}, {0x7F, 0x48, 0x44, 0x44, 0x38},
    {0x38, 0x44, 0x44, 0x44, 0x20}, {0x38, 0x44, 0x44, 0x48, 0x7F}, {0x38, 0x54, 0x54, 0x54, 0x18}, {0x08, 0x7E, 0x09, 0x01, 0x02},
    {0x18, 0xA4, 0xA4, 0xA4, 0x7C}, {0x7F, 0x08, 0x04, 0x04, 0x78}, {0x00, 0x44, 0x7D, 0x40, 0x00}, {0x40, 0x80, 0x84, 0x7D, 0x00},
    {0x7F, 0x10, 0x28, 0x44, 0x00}, {0x00, 0x41, 0x7F, 0x40, 0x00}, {0x7C, 0x04, 0x18, 0x04, 0x78}, {0x7C, 0x08, 0x04, 0x04, 0x78},
    {0x38, 0x44, 0x44, 0x44, 0x38}, {0xFC, 0x24, 0x24, 0x24, 0x18}, {0x18, 0x24, 0x24, 0x18, 0xFC}, {0x7C, 0x08, 0x04, 0x04, 0x08},
    {0x48, 0x54, 0x54, 0x54, 0x20}, {0x04, 0x3F, 0x44, 0x40, 0x20}, {0x3C, 0x40, 0x40, 0x20, 0x7C}, {0x1C, 0x20, 0x40, 0x20, 0x1C},
    {0x3C, 0x40, 0x30, 0x40, 0x3C}, {0x44, 0x28, 0x10, 0x28, 0x44}, {0x1C, 0xA0, 0xA0, 0xA0, 0x7C}, {0x44, 0x64, 0x54, 0x4C, 0x44},
};
static_assert(std::size(glyphs) == glyphNames.size());

void fill(Picture &picture, int left, int top, int side) {
    for (int y = std::max(top, 0); y < std::min(top + side, picture.height); ++y)
        for (int x = std::max(left, 0); x < std::min(left + side, picture.width); ++x)
            std::fill_n(picture.rgb.begin() + 3 * (static_cast<std::ptrdiff_t>(y) * picture.width + x), 3, ink);
}

void write(Picture &picture, int left, int top, int scale, const std::string &text) {
    for (const char letter : text) {
        const size_t glyph = glyphNames.find(letter);
        for (int column = 0; glyph != std::string_view::npos && column < glyphWidth; ++column)
            for (int row = 0; row < glyphHeight; ++row)
                if ((glyphs[glyph][column] >> row & 1) != 0) fill(picture, left + column * scale, top + row * scale, scale);
        left += advance * scale;
    }
}

} // namespace

Picture sideBySide(const std::vector<Panel> &panels) {
    const int width = panels[0].picture->width, height = panels[0].picture->height;
    size_t longest = 1;
    for (const Panel &panel : panels) longest = std::max(longest, panel.caption.size());
    const int scale = std::clamp(width / static_cast<int>(longest * advance), 1, 8);
    const int strip = (glyphHeight + 6) * scale, gap = 2 * scale;

    const int count = static_cast<int>(panels.size());
    Picture result(count * width + (count - 1) * gap, height + strip);
    std::fill(result.rgb.begin(), result.rgb.end(), background);
    for (int i = 0; i < count; ++i) {
        const Picture &picture = *panels[static_cast<size_t>(i)].picture;
        const int left = i * (width + gap);
        for (int y = 0; y < height; ++y)
            std::copy_n(picture.rgb.begin() + static_cast<std::ptrdiff_t>(y) * width * 3, width * 3,
                        result.rgb.begin() + 3 * (static_cast<std::ptrdiff_t>(y) * result.width + left));
        const std::string &caption = panels[static_cast<size_t>(i)].caption;
        const int textWidth = (static_cast<int>(caption.size()) * advance - 1) * scale;
        write(result, left + (width - textWidth) / 2, height + 3 * scale, scale, caption);
    }
    return result;
}

Picture stacked(const std::vector<Picture> &pictures) {
    Picture result;
    for (const Picture &picture : pictures) {
        result.width = picture.width;
        result.height += picture.height;
        result.rgb.insert(result.rgb.end(), picture.rgb.begin(), picture.rgb.end());
    }
    return result;
}

Picture halfAndHalf(const Picture &left, const Picture &right) {
    Picture result = right;
    const std::ptrdiff_t rowBytes = std::ptrdiff_t{3} * right.width, leftBytes = std::ptrdiff_t{3} * (right.width / 2);
    for (std::ptrdiff_t y = 0; y < right.height; ++y) {
        std::copy_n(left.rgb.begin() + y * rowBytes, leftBytes, result.rgb.begin() + y * rowBytes);
        std::fill_n(result.rgb.begin() + y * rowBytes + leftBytes, 3, ink);
    }
    return result;
}

Picture smaller(const Picture &picture, int width) {
    const int step = (picture.width + width - 1) / width;
    Picture result(picture.width / step, picture.height / step);
    for (int y = 0; y < result.height; ++y) {
        for (int x = 0; x < result.width; ++x) {
            for (int c = 0; c < 3; ++c) {
                int sum = 0;
                for (int i = 0; i < step * step; ++i)
                    sum += picture.rgb[3 * (static_cast<size_t>(y * step + i / step) * static_cast<size_t>(picture.width) +
                                            static_cast<size_t>(x * step + i % step)) +
                                       static_cast<size_t>(c)];
                result.rgb[3 * (static_cast<size_t>(y) * static_cast<size_t>(result.width) + static_cast<size_t>(x)) +
                           static_cast<size_t>(c)] = static_cast<uint8_t>((sum + step * step / 2) / (step * step));
            }
        }
    }
    return result;
}

Picture fewerLevels(const Picture &picture) {
    Picture result = picture;
    for (uint8_t &value : result.rgb) value = static_cast<uint8_t>(((value * 63 + 127) / 255 * 255 + 31) / 63);
    return result;
}

} // namespace denoise
