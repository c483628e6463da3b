#include "sequence/camera_move.hpp"

namespace denoise {

Scene sceneAt(const Scene &scene, int frame) {
    const float angle = 2 * pi * static_cast<float>(frame % framesOfMove) / framesOfMove;
    Scene moved = scene;
    // The room ends just behind the camera: it can only come nearer.
    moved.cameraPosition += Vec3{0.55f * std::sin(angle), 0.1f * std::sin(2 * angle), -0.25f * (1 - std::cos(angle))};
    moved.cameraTarget += Vec3{0.12f * std::sin(angle), 0, 0};
    return moved;
}

} // namespace denoise
