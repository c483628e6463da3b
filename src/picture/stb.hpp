// What is used of stb, behind functions: its headers compile with warnings.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace vkattn::picture {

// A rectangle of a letter.
struct Dots {
    int left, top, width, height;
};
[[nodiscard]] std::vector<Dots> dotsOf(const std::string &ascii);
[[nodiscard]] int widthOf(const std::string &ascii);

// Throw std::bad_alloc.
[[nodiscard]] std::string encodePng(int width, int height, const uint8_t *rgb);
[[nodiscard]] std::string zlibOf(const std::string &bytes);

} // namespace vkattn::picture
