#include "core/plan/tuning/compile_cost.hpp"

#include "lib/interop.h"

#include <algorithm>

namespace vkattn {

using namespace interop;

uint64_t compileOperations(const FlashTile &tile, const LaneDims &dims) {
    constexpr uint64_t access = compileOperationsPerAccess;
    // q and sums
    const uint64_t both = uint64_t{dims.head} + dims.value, floats = tile.rowsPerLane * both;
    const uint64_t multiplyAdds = floats * tile.keysPerLane;
    uint64_t loads = tile.keysPerLane * (dims.valuesInKeys ? dims.head : both) * access;
    if (tile.source == sourceShared) loads = tile.keysPerLane * both * compileOperationsPerSharedLoad;
    // Shuffles from constant lanes cost next to nothing.
    if (tile.source == sourceShuffled) loads = loads / dims.shuffleLanes;
    const uint64_t accesses = std::min(dims.head, edgeDims) + std::min(dims.value, edgeDims);
    // A select for every float.
    const uint64_t edges = tile.rolledEdges ? 2 * access : accesses * access + floats;
    // Past 512 floats a lane compile times are out of all proportion: for 512 (head dim 256) Mesa
    // 22 takes 1.7 s and Mesa 26 2.7 s, for 1024 over 74 s and 13 s.
    constexpr uint64_t proportionate = 512;
    const uint64_t excess = std::max<uint64_t>((floats + proportionate - 1) / proportionate, 1), all = 2 * (multiplyAdds + loads) + edges;
    // Whole steps keep the tiles of before. Between them the cost grows evenly: 544 floats, head dim
    // 576 and value dim 512 without loads of V, take little longer than 512.
    if (dims.valuesInKeys && floats > proportionate) return all * floats * floats / (proportionate * proportionate);
    return all * excess * excess;
}

uint64_t compileOperations(const StagedTuning &tuning) {
    uint64_t most = 0;
    const auto count = [&](const TileShape &tile) {
        most = std::max(most, uint64_t{tile.perLaneX} * tile.perLaneY + (tile.perLaneX + tile.perLaneY) * compileOperationsPerAccess);
    };
    for (const TileShape &tile : tuning.scores) count(tile);
    for (const TileShape &tile : tuning.values) count(tile);
    return most;
}

// Measured in bench/results/compile-times: 5,000 operations take Mesa 22's lavapipe under 5 s. Mesa 26, which
// has clustered operations, takes under 2 s for what counts as 90,000, with every option
// (bench/results/kernels/2026-11-26-flash-tiles.csv): what is past 512 floats a lane does not hurt it any more.
// Compilers of GPUs unroll no more than the tiles of GPUs have, a tenth of that at most dims;
// theirs is a bound for tables to come.
uint64_t compileLimit(const Caps &caps) {
    if (caps.deviceType != VK_PHYSICAL_DEVICE_TYPE_CPU) return 20000;
    return caps.subgroupClustered ? 90000 : 5000;
}

} // namespace vkattn
