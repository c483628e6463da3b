// The camera move: a slow sway through the studio, the same for every size and count of frames.
#pragma once

#include "render/scene.hpp"

namespace denoise {

// After so many frames, two seconds, the camera is where it began.
constexpr int framesOfMove = 60, framesPerSecond = 30;

// Returns the scene as the camera sees it in a frame of the move.
[[nodiscard]] Scene sceneAt(const Scene &scene, int frame);

} // namespace denoise
