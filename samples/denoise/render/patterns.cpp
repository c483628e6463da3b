#include "render/patterns.hpp"

#include "render/sampler.hpp"

namespace denoise {
namespace {

float smoothNoise(float x, float y) {
    const float fx = std::floor(x), fy = std::floor(y);
    const auto corner = [&](int dx, int dy) {
        const auto ix = static_cast<uint32_t>(static_cast<int>(fx) + dx), iy = static_cast<uint32_t>(static_cast<int>(fy) + dy);
        return unitFloat(hash32(ix * 0x8da6b343u ^ iy * 0xd8163841u));
    };
    const auto ease = [](float t) { return t * t * (3 - 2 * t); };
    const float tx = ease(x - fx), ty = ease(y - fy);
    const float low = corner(0, 0) * (1 - tx) + corner(1, 0) * tx, high = corner(0, 1) * (1 - tx) + corner(1, 1) * tx;
    return low * (1 - ty) + high * ty;
}

// Boards along z, each with its own tint, grain and end joints.
Vec3 planks(Vec3 position, Vec3 colour) {
    constexpr float boardWidth = 0.26f, boardLength = 2.1f;
    const float board = std::floor(position.x / boardWidth);
    const float shift = unitFloat(hash32(static_cast<uint32_t>(static_cast<int>(board) + 1000)));
    const float along = position.z / boardLength + shift;
    const auto id = static_cast<uint32_t>(static_cast<int>(board) * 977 + static_cast<int>(std::floor(along)));
    const float tint = unitFloat(hash32(id + 5));
    const float across = position.x / boardWidth - board, end = along - std::floor(along);
    const float wave = smoothNoise(position.x * 9 + tint * 50, position.z * 1.4f);
    const float grain = 0.5f + 0.5f * std::sin(2 * pi * (position.x * 14 + wave * 2.5f + tint * 7));
    const bool gap = across < 0.025f || end < 0.004f;
    return colour * ((gap ? 0.35f : 1.0f) * (0.72f + 0.34f * tint) * (0.86f + 0.18f * grain));
}

// A framed print on the back wall: a low sun over water.
Vec3 poster(Vec3 local, Vec3 halfSize) {
    const float u = local.x / halfSize.x, v = local.y / halfSize.y; // -1 .. 1
    if (std::abs(u) > 0.93f || std::abs(v) > 0.95f) return {0.045f, 0.04f, 0.04f};
    if (std::abs(u) > 0.78f || std::abs(v) > 0.84f) return {0.82f, 0.80f, 0.74f};
    const float aspect = halfSize.y / halfSize.x;
    const float sunX = u - 0.12f, sunY = (v - 0.16f) * aspect;
    const float horizon = -0.12f;
    if (v > horizon) {
        if (sunX * sunX + sunY * sunY < 0.36f * 0.36f) return {0.86f, 0.27f, 0.07f};
        return mix({0.90f, 0.66f, 0.34f}, {0.80f, 0.50f, 0.36f}, (v - horizon) / (0.84f - horizon));
    }
    const float depth = (horizon - v) / (0.84f + horizon);
    const float wave = std::sin(u * 9 + std::sin(depth * 11) * 1.4f) * 0.035f + depth;
    const int band = static_cast<int>(wave * 5.0f);
    const Vec3 water[6] = {{0.55f, 0.55f, 0.45f}, {0.24f, 0.45f, 0.45f}, {0.13f, 0.34f, 0.38f},
                           {0.07f, 0.23f, 0.30f}, {0.04f, 0.15f, 0.22f}, {0.03f, 0.10f, 0.16f}};
    return water[std::clamp(band, 0, 5)];
}

} // namespace

Vec3 albedo(const Hit &hit) {
    switch (hit.material->pattern) {
    case Pattern::planks:
        return planks(hit.position, hit.material->colour);
    case Pattern::poster:
        return poster(hit.boxPosition, hit.boxHalfSize);
    case Pattern::plain:
        break;
    }
    return hit.material->colour;
}

} // namespace denoise
