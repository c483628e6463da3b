#include "metrics/flicker.hpp"

#include "render/camera.hpp"

namespace denoise {
namespace {

// Metres by which a point may miss the surface that it lies on.
constexpr float surfaceTolerance = 5e-3f;

bool matte(const Material &material) {
    return material.finish == Finish::diffuse || material.finish == Finish::polished;
}

} // namespace

Image motionBetween(const Scene &before, const Scene &now, int width, int height) {
    const Camera cameraBefore(before, width, height), camera(now, width, height);
    const Intersector world(now), worldBefore(before);
    Image motion(width, height, 2);
    for (int y = 0; y < height; ++y) {
        for (int x = 0; x < width; ++x) {
            float *from = motion.at(x, y);
            from[0] = from[1] = -1;
            Hit hit, hitBefore;
            if (!world.intersect(camera.ray(x, y, {0.5f, 0.5f}), hit) || !matte(*hit.material)) continue;
            const Vec2 place = cameraBefore.project(hit.position);
            // Bilinear samples lie between centres of pixels.
            if (!(place.x >= 0.499f && place.y >= 0.499f && place.x <= static_cast<float>(width) - 0.499f &&
                  place.y <= static_cast<float>(height) - 0.499f))
                continue;
            const Vec3 way = hit.position - cameraBefore.position();
            const float distance = length(way);
            const bool met = worldBefore.intersect({cameraBefore.position(), way * (1 / distance)}, hitBefore);
            if (met && hitBefore.distance < distance - surfaceTolerance) continue;
            from[0] = place.x, from[1] = place.y;
        }
    }
    return motion;
}

double flicker(const Picture &before, const Picture &now, const Image &motion) {
    const auto level = [](const Picture &picture, int x, int y, int c) {
        x = std::clamp(x, 0, picture.width - 1), y = std::clamp(y, 0, picture.height - 1);
        return static_cast<double>(picture.rgb[3 * (static_cast<size_t>(y) * static_cast<size_t>(picture.width) + static_cast<size_t>(x)) +
                                               static_cast<size_t>(c)]);
    };
    double sum = 0;
    size_t pixels = 0;
    for (int y = 0; y < now.height; ++y) {
        for (int x = 0; x < now.width; ++x) {
            const float *from = motion.at(x, y);
            if (from[0] < 0) continue;
            ++pixels;
            const double left = static_cast<double>(from[0]) - 0.5, top = static_cast<double>(from[1]) - 0.5;
            const int column = static_cast<int>(std::floor(left)), row = static_cast<int>(std::floor(top));
            const double right = left - column, below = top - row; // shares of the next column and row
            for (int c = 0; c < 3; ++c) {
                const double upper = (1 - right) * level(before, column, row, c) + right * level(before, column + 1, row, c);
                const double lower = (1 - right) * level(before, column, row + 1, c) + right * level(before, column + 1, row + 1, c);
                sum += std::abs(level(now, x, y, c) - (1 - below) * upper - below * lower);
            }
        }
    }
    return pixels > 0 ? sum / (3 * static_cast<double>(pixels)) : 0;
}

} // namespace denoise
