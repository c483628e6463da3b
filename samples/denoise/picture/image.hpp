// Pixels as floats, channels innermost, rows from the top.
#pragma once

#include "picture/vec.hpp"

#include <cstddef>
#include <vector>

namespace denoise {

struct Image {
    int width = 0, height = 0, channels = 0;
    std::vector<float> data;

    Image() = default;
    Image(int imageWidth, int imageHeight, int imageChannels)
        : width(imageWidth), height(imageHeight), channels(imageChannels),
          data(static_cast<size_t>(imageWidth) * static_cast<size_t>(imageHeight) * static_cast<size_t>(imageChannels)) {}

    [[nodiscard]] float *at(int x, int y) { return data.data() + offset(x, y); }
    [[nodiscard]] const float *at(int x, int y) const { return data.data() + offset(x, y); }
    [[nodiscard]] const float *clamped(int x, int y) const { return at(std::clamp(x, 0, width - 1), std::clamp(y, 0, height - 1)); }
    [[nodiscard]] Vec3 rgb(int x, int y) const {
        const float *p = at(x, y);
        return {p[0], p[1], p[2]};
    }
    void setRgb(int x, int y, Vec3 c) {
        float *p = at(x, y);
        p[0] = c.x, p[1] = c.y, p[2] = c.z;
    }

  private:
    [[nodiscard]] size_t offset(int x, int y) const {
        return (static_cast<size_t>(y) * static_cast<size_t>(width) + static_cast<size_t>(x)) * static_cast<size_t>(channels);
    }
};

} // namespace denoise
