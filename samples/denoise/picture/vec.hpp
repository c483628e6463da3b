// The three-vector that the renderer and the colour code share. Plain floats: the sample must build
// everywhere.
#pragma once

#include <algorithm>
#include <cmath>

namespace denoise {

constexpr float pi = 3.14159265358979f;

struct Vec2 {
    float x = 0, y = 0;
};

struct Vec3 {
    float x = 0, y = 0, z = 0;
};

constexpr Vec3 operator+(Vec3 a, Vec3 b) {
    return {a.x + b.x, a.y + b.y, a.z + b.z};
}
constexpr Vec3 operator-(Vec3 a, Vec3 b) {
    return {a.x - b.x, a.y - b.y, a.z - b.z};
}
constexpr Vec3 operator*(Vec3 a, Vec3 b) {
    return {a.x * b.x, a.y * b.y, a.z * b.z};
}
constexpr Vec3 operator*(Vec3 a, float s) {
    return {a.x * s, a.y * s, a.z * s};
}
constexpr Vec3 operator-(Vec3 a) {
    return {-a.x, -a.y, -a.z};
}
constexpr Vec3 &operator+=(Vec3 &a, Vec3 b) {
    return a = a + b;
}
constexpr Vec3 &operator*=(Vec3 &a, Vec3 b) {
    return a = a * b;
}

constexpr float dot(Vec3 a, Vec3 b) {
    return a.x * b.x + a.y * b.y + a.z * b.z;
}
constexpr Vec3 cross(Vec3 a, Vec3 b) {
    return {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
}
inline float length(Vec3 a) {
    return std::sqrt(dot(a, a));
}
inline Vec3 normalize(Vec3 a) {
    return a * (1.0f / length(a));
}
constexpr Vec3 mix(Vec3 a, Vec3 b, float t) {
    return a * (1 - t) + b * t;
}
constexpr Vec3 reflect(Vec3 direction, Vec3 normal) {
    return direction - normal * (2 * dot(direction, normal));
}
constexpr float maxComponent(Vec3 a) {
    return std::max(a.x, std::max(a.y, a.z));
}

// Rec. 709 weights: the primaries of sRGB.
constexpr float luminance(Vec3 rgb) {
    return 0.2126f * rgb.x + 0.7152f * rgb.y + 0.0722f * rgb.z;
}

} // namespace denoise
