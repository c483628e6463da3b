// Where the scene is looked at from: pixels to rays, and points back to pixels.
#pragma once

#include "render/intersector.hpp"

namespace denoise {

class Camera {
  public:
    Camera(const Scene &scene, int width, int height) : position_(scene.cameraPosition), width_(width), height_(height) {
        forward_ = normalize(scene.cameraTarget - scene.cameraPosition);
        right_ = normalize(cross(forward_, {0, 1, 0}));
        up_ = cross(right_, forward_);
        scale_ = 2 * std::tan(0.5f * scene.verticalFieldOfView) / static_cast<float>(height);
    }

    // Returns the ray through a place within a pixel, whose upper left corner is {0, 0}.
    [[nodiscard]] Ray ray(int x, int y, Vec2 within) const {
        const float px = (static_cast<float>(x) + within.x - 0.5f * static_cast<float>(width_)) * scale_;
        const float py = (0.5f * static_cast<float>(height_) - static_cast<float>(y) - within.y) * scale_;
        return {position_, normalize(forward_ + right_ * px + up_ * py)};
    }

    // Returns where a point before the camera appears, in pixels from the picture's upper left
    // corner; centres of pixels are halves.
    [[nodiscard]] Vec2 project(Vec3 point) const {
        const Vec3 offset = point - position_;
        const float perPixel = 1 / (scale_ * dot(offset, forward_));
        return {0.5f * static_cast<float>(width_) + dot(offset, right_) * perPixel,
                0.5f * static_cast<float>(height_) - dot(offset, up_) * perPixel};
    }

    [[nodiscard]] Vec3 position() const { return position_; }

  private:
    Vec3 position_, forward_, right_, up_;
    int width_, height_;
    float scale_;
};

} // namespace denoise
