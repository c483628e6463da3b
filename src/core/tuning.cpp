#include "core/tuning.hpp"

namespace vkattn {
namespace {

// CPU devices run a workgroup as SIMD subgroups of 4 to 16 lanes on one core: barriers cost, and so does every load (a gather with a bounds
// check), so that wide register blocks pay. Measured 2026-11-21 on lavapipe 22.3.6, 2 cores of an AMD EPYC with 256-bit vectors, f32, 8
// heads, 1024 x 1024 tokens, head dim 64, whole staged path: blocks of 4x4 6.2 GFLOP/s, 4x8 8.3, 8x8 12.2, 8x12 13.5 (twice the compile
// time); multiply and add in place of fma() 6.1; softmax with 64 lanes 2.6, 32 lanes 3.8, 8 lanes 8 and more.
constexpr StagedTuning cpuClass = {
    .scores = {{1, 8, 8, 8}, {8, 1, 4, 1}},
    .values = {{8, 1, 8, 8}, {8, 1, 4, 1}, {1, 8, 4, 8}},
    .fewRowsBelow = 4,
    .narrowUpTo = 8,
    .softmaxLanes = {8, 128},
    .overlayLanes = 32,
    .overlayKeysPerLane = 8,
    .sequenceLanes = 64,
};

// Devices of every other type: neighbouring lanes on neighbouring addresses, 16 accumulators a lane. Within the 128 invocations that Vulkan
// 1.0 guarantees. Not timed on a GPU yet.
constexpr StagedTuning gpuClass = {
    .scores = {{8, 8, 4, 4}, {64, 1, 1, 1}},
    .values = {{8, 8, 4, 4}, {16, 4, 4, 1}, {1, 64, 4, 2}},
    .fewRowsBelow = 8,
    .narrowUpTo = 8,
    .softmaxLanes = {64, 128},
    .overlayLanes = 64,
    .overlayKeysPerLane = 4,
    .sequenceLanes = 128,
};

} // namespace

const StagedTuning &stagedTuning(const Caps &caps) {
    return caps.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU ? cpuClass : gpuClass;
}

} // namespace vkattn
