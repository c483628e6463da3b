#include "core/tuning.hpp"

namespace vkattn {
namespace {

// CPU devices run a workgroup as SIMD subgroups of 4 to 16 lanes on one core: barriers cost, wide register blocks pay.
constexpr StagedTuning cpuClass = {
    .scores = {{8, 1, 4, 8}, {8, 1, 4, 1}},
    .values = {{8, 1, 4, 8}, {8, 1, 4, 1}},
    .fewRowsBelow = 4,
    .softmaxLanes = 8,
    .overlayLanes = 32,
    .overlayKeysPerLane = 8,
    .source = "placeholder",
};

constexpr StagedTuning gpuClass = {
    .scores = {{8, 8, 4, 4}, {64, 1, 1, 1}},
    .values = {{8, 8, 4, 4}, {16, 4, 4, 1}},
    .fewRowsBelow = 8,
    .softmaxLanes = 64,
    .overlayLanes = 64,
    .overlayKeysPerLane = 4,
    .source = "placeholder",
};

} // namespace

const StagedTuning &stagedTuning(const Caps &caps) { return caps.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU ? cpuClass : gpuClass; }

} // namespace vkattn
