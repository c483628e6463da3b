#include "tool/tune/tune_candidates.hpp"

#include "tool/options/names.hpp"

#include <algorithm>
#include <cmath>

namespace vkattn::tool {
namespace {

// TuneTile::source, as docs/tuning.md numbers them.
constexpr uint32_t direct = 0, shared = 1, shuffled = 2;
// rowsPerLane * keysPerLane, the reader's limit
constexpr uint32_t mostScoresPerLane = 32;

// K and V of a tile of keys, in half of what Vulkan guarantees at least.
uint32_t sharedTileKeys(uint32_t dim, uint32_t keysPerLane) {
    constexpr uint32_t floats = 16384 / 4;
    return std::max(floats / (2 * dim) / keysPerLane, 1u) * keysPerLane;
}

// Software devices: a workgroup is SIMD lanes on one core. Rows (decode: keys) in lanes.
void addCpuTiles(const vkattn_caps &caps, const TuneCase &of, std::vector<TuneTile> &tiles) {
    // Newer compilers, which keep arrays in memory well.
    const uint32_t rolled = caps.subgroupClustered;
    for (const uint32_t rows : {1u, 2u, 4u, 8u})
        for (const uint32_t keys : {1u, 2u, 4u}) {
            if (of.kernel == VKATTN_KERNEL_DECODE) {
                for (const uint32_t lanes : {8u, 16u})
                    tiles.push_back({.keyLanes = lanes, .rowsPerLane = rows, .keysPerLane = keys, .rolledEdges = rolled});
                continue;
            }
            if (caps.subgroupShuffle && caps.subgroupSize >= 4 && caps.subgroupSize <= 16)
                tiles.push_back({.rowLanes = caps.subgroupSize,
                                 .rowsPerLane = rows,
                                 .keysPerLane = keys,
                                 .source = shuffled,
                                 .subgroups = 1,
                                 .rolledEdges = rolled});
            tiles.push_back({.rowLanes = 32,
                             .rowsPerLane = rows,
                             .keysPerLane = keys,
                             .source = shared,
                             .tileKeys = sharedTileKeys(of.maxDim, keys),
                             .rolledEdges = rolled});
            tiles.push_back({.rowLanes = 8, .rowsPerLane = rows, .keysPerLane = keys, .source = direct, .rolledEdges = rolled});
        }
}

// Everything else: lanes share the dims of a row, so that their loads lie side by side and q and
// the output fit registers.
void addGpuTiles(const vkattn_caps &caps, const TuneCase &of, std::vector<TuneTile> &tiles) {
    const bool decode = of.kernel == VKATTN_KERNEL_DECODE;
    for (const uint32_t dimLanes : {4u, 8u, 16u, 32u})
        for (const uint32_t rows : {1u, 2u, 4u, 8u})
            for (const uint32_t keys : {1u, 2u, 4u, 8u})
                for (const uint32_t invocations : {64u, 128u, 256u}) {
                    const uint32_t others = invocations / dimLanes;
                    if (dimLanes * 2 > of.maxDim) continue;
                    tiles.push_back({.dimLanes = dimLanes,
                                     .keyLanes = decode ? others : 1,
                                     .rowLanes = decode ? 1 : others,
                                     .rowsPerLane = rows,
                                     .keysPerLane = keys,
                                     .source = direct,
                                     .subgroups = caps.subgroupShuffle && caps.subgroupSize >= dimLanes ? 1u : 0u});
                }
}

bool fits(const vkattn_caps &caps, const TuneCase &of, const TuneTile &tile) {
    const uint32_t words = tile.source == shared                      ? tile.tileKeys * 2 * of.maxDim
                           : tile.dimLanes > 1 && tile.subgroups == 0 ? tile.invocations() * tile.rowsPerLane * tile.keysPerLane
                                                                      : 0;
    return tile.invocations() <= std::min(caps.maxWorkgroupInvocations, caps.maxWorkgroupSize[0]) &&
           uint64_t{words} * 4 <= caps.maxSharedMemoryBytes && tile.rowsPerLane * tile.keysPerLane <= mostScoresPerLane;
}

// Factors of two away from what tends to be good: registers (CPU: a core's nearest cache) well used
// and not exceeded.
double distance(const vkattn_caps &caps, const TuneCase &of, const TuneTile &tile) {
    const auto octaves = [](double value, double good) { return std::abs(std::log2(value / good)); };
    // Of q, and as many sums.
    const double floats = static_cast<double>(tile.rowsPerLane) * of.maxDim / tile.dimLanes;
    const bool cpu = caps.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU;
    if (cpu) return octaves(floats, 256) + 0.5 * octaves(tile.keysPerLane, 2) + 0.1 * (tile.source == direct && tile.keyLanes == 1);
    return octaves(floats, 32) + 0.5 * octaves(tile.keysPerLane, 4) + 0.5 * octaves(tile.invocations(), 64);
}

} // namespace

std::string TuneCase::text() const {
    return std::string(vkattnKernelName(kernel)) + ", dims " + std::to_string(minDim) + " to " + std::to_string(maxDim);
}

std::string TuneTile::text() const {
    std::string text;
    const auto add = [&](const char *name, uint32_t value, uint32_t absent) {
        if (value == absent) return;
        if (!text.empty()) text += ' ';
        text.append(name).append("=").append(std::to_string(value));
    };
    add("dimLanes", dimLanes, 1), add("keyLanes", keyLanes, 1), add("rowLanes", rowLanes, 1);
    add("rowsPerLane", rowsPerLane, 0), add("keysPerLane", keysPerLane, 0);
    add("source", source, 0), add("tileKeys", tileKeys, 1), add("subgroups", subgroups, 0), add("rolledEdges", rolledEdges, 0);
    return text;
}

std::string rateText(const TuneCase &of, double gflops) {
    const auto mflops = static_cast<uint64_t>(std::clamp(std::round(gflops * 1000), 1.0, 2e9));
    return std::string("rate ") + vkattnKernelName(of.kernel) + " minDim=" + std::to_string(of.minDim) +
           " maxDim=" + std::to_string(of.maxDim) + " mflops=" + std::to_string(mflops);
}

std::string rowText(const TuneCase &of, const TuneTile &tile) {
    return std::string(vkattnKernelName(of.kernel)) + " minDim=" + std::to_string(of.minDim) + " maxDim=" + std::to_string(of.maxDim) +
           " " + tile.text();
}

std::vector<TuneTile> tuneCandidates(const vkattn_caps &caps, const TuneCase &of) {
    std::vector<TuneTile> tiles;
    if (caps.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU)
        addCpuTiles(caps, of, tiles);
    else
        addGpuTiles(caps, of, tiles);
    tiles.erase(std::remove_if(tiles.begin(), tiles.end(), [&](const TuneTile &tile) { return !fits(caps, of, tile); }), tiles.end());
    std::stable_sort(tiles.begin(), tiles.end(),
                     [&](const TuneTile &a, const TuneTile &b) { return distance(caps, of, a) < distance(caps, of, b); });
    return tiles;
}

} // namespace vkattn::tool
