// The scene of the README. It has details that a denoiser must keep (grain of wood, sharp edges,
// soft shadows, reflections) beside noise that it must clean (indirect light in the corners,
// penumbras).
#include "render/scene.hpp"

namespace denoise {

Scene studioScene() {
    constexpr float degree = pi / 180;
    Scene scene;
    scene.roomMin = {-2.3f, 0.0f, -1.9f};
    scene.roomMax = {2.3f, 2.75f, 5.6f};
    scene.left = {Finish::diffuse, {0.66f, 0.17f, 0.10f}};
    scene.right = {Finish::diffuse, {0.07f, 0.31f, 0.36f}};
    scene.floor = {Finish::polished, {0.58f, 0.36f, 0.20f}, Pattern::planks};
    scene.ceiling = {Finish::diffuse, {0.78f, 0.77f, 0.74f}};
    scene.back = {Finish::diffuse, {0.74f, 0.71f, 0.65f}};
    scene.lamp = {{-0.75f, 2.74f, 1.0f}, 0.5f, 0.4f, {Finish::emitter, {36.0f, 31.0f, 24.5f}}};
    scene.environmentBelow = {0.12f, 0.15f, 0.20f};
    scene.environmentAbove = {0.22f, 0.27f, 0.36f};

    scene.boxes = {
        {{-1.05f, 0.72f, -0.75f}, {0.42f, 0.72f, 0.42f}, 24 * degree, {Finish::diffuse, {0.76f, 0.73f, 0.68f}}},
        {{1.28f, 0.22f, 0.55f}, {0.40f, 0.22f, 0.36f}, -20 * degree, {Finish::diffuse, {0.80f, 0.78f, 0.74f}}},
        {{0.35f, 1.62f, -1.88f}, {0.52f, 0.66f, 0.02f}, 0 * degree, {Finish::diffuse, {}, Pattern::poster}},
    };
    scene.spheres = {
        {{0.28f, 0.62f, -0.62f}, 0.62f, {Finish::mirror, {0.95f, 0.72f, 0.52f}}},
        {{-0.52f, 0.40f, 0.85f}, 0.40f, {Finish::glass, {0.94f, 0.98f, 0.97f}}},
        {{1.24f, 0.68f, 0.55f}, 0.24f, {Finish::diffuse, {0.84f, 0.56f, 0.07f}}},
        {{-1.05f, 1.66f, -0.75f}, 0.22f, {Finish::diffuse, {0.10f, 0.22f, 0.52f}}},
        {{0.42f, 0.17f, 1.05f}, 0.17f, {Finish::diffuse, {0.80f, 0.24f, 0.22f}}},
        {{-1.42f, 0.15f, 0.62f}, 0.15f, {Finish::diffuse, {0.22f, 0.55f, 0.28f}}},
    };
    scene.cameraPosition = {0.0f, 1.38f, 5.55f};
    scene.cameraTarget = {0.0f, 0.98f, 0.0f};
    scene.verticalFieldOfView = 28.5f * degree;
    return scene;
}

} // namespace denoise
