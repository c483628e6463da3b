// The world as a description: a room that opens towards the camera, with boxes, spheres and one
// rectangular lamp.
#pragma once

#include "picture/vec.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace denoise {

enum class Finish : uint8_t {
    diffuse,
    polished, // diffuse under a clear coat, as varnished wood
    mirror,   // colour tints the reflection
    glass,    // colour tints what passes through a whole sphere
    emitter,  // colour is the radiance
};

enum class Pattern : uint8_t { plain, planks, poster };

struct Material {
    Finish finish = Finish::diffuse;
    Vec3 colour;
    Pattern pattern = Pattern::plain;
};

struct Sphere {
    Vec3 centre;
    float radius = 1;
    Material material;
};

struct Box { // turned by yaw about the vertical axis
    Vec3 centre, halfSize;
    float yaw = 0; // radians
    Material material;
};

struct Lamp { // a rectangle just below the ceiling, facing down
    Vec3 centre;
    float halfWidth = 0, halfDepth = 0;
    Material material;
    [[nodiscard]] float area() const { return 4 * halfWidth * halfDepth; }
};

constexpr size_t maxSpheres = 8, maxBoxes = 4; // the intersector ignores more

struct Scene {
    // The face towards +z is open: rays that leave through it see the environment.
    Vec3 roomMin, roomMax;
    Material left, right, floor, ceiling, back;
    Lamp lamp;
    std::vector<Sphere> spheres;
    std::vector<Box> boxes;
    // Radiance from straight down and straight up, blended between.
    Vec3 environmentBelow, environmentAbove;
    Vec3 cameraPosition, cameraTarget;
    float verticalFieldOfView = 0.6f; // radians
};

// Returns the scene of the README's picture.
[[nodiscard]] Scene studioScene();

} // namespace denoise
