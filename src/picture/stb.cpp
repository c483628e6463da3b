// The one place of the tool where stb is compiled, with our warnings off (src/CMakeLists.txt).
#include "picture/stb.hpp"

#define STB_IMAGE_WRITE_STATIC
#define STB_IMAGE_WRITE_IMPLEMENTATION
#include <stb_easy_font.h>
#include <stb_image_write.h>

#include <cstdlib>
#include <memory>
#include <new>

namespace vkattn::picture {
namespace {

struct Vertex { // of stb_easy_font
    float x, y, z;
    uint8_t colour[4];
};

} // namespace

std::vector<Dots> dotsOf(const std::string &ascii) {
    std::vector<Vertex> vertices(4 * 30 * (ascii.size() + 1)); // about 270 bytes a letter, says stb
    std::string text = ascii;
    const int quads = stb_easy_font_print(0, 0, text.data(), nullptr, vertices.data(), static_cast<int>(vertices.size() * sizeof(Vertex)));
    std::vector<Dots> dots;
    for (int n = 0; n < quads; n++) {
        const Vertex &from = vertices[4 * static_cast<size_t>(n)], &to = vertices[4 * static_cast<size_t>(n) + 2];
        dots.push_back(
            {static_cast<int>(from.x), static_cast<int>(from.y), static_cast<int>(to.x - from.x), static_cast<int>(to.y - from.y)});
    }
    return dots;
}

int widthOf(const std::string &ascii) {
    std::string text = ascii;
    return stb_easy_font_width(text.data());
}

std::string encodePng(int width, int height, const uint8_t *rgb) {
    std::string bytes;
    const auto append = [](void *context, void *data, int size) {
        static_cast<std::string *>(context)->append(static_cast<const char *>(data), static_cast<size_t>(size));
    };
    if (stbi_write_png_to_func(append, &bytes, width, height, 3, rgb, width * 3) == 0) throw std::bad_alloc();
    return bytes;
}

std::string zlibOf(const std::string &bytes) {
    std::string input = bytes;
    int size = 0;
    const std::unique_ptr<unsigned char, void (*)(void *)> packed(
        stbi_zlib_compress(reinterpret_cast<unsigned char *>(input.data()), static_cast<int>(input.size()), &size, 8), std::free);
    if (!packed) throw std::bad_alloc();
    return {reinterpret_cast<const char *>(packed.get()), static_cast<size_t>(size)};
}

} // namespace vkattn::picture
