#include "core/plan/tuning/tuning.hpp"

#include "lib/interop.h"

#include <algorithm>

namespace vkattn {
namespace {

// CPU devices run a workgroup as SIMD subgroups of 4 to 16 lanes on one core: barriers cost, and so
// does every load (a gather with a bounds check), so that wide register blocks pay. Measured
// 2026-11-21 on lavapipe 22.3.6, 2 cores of an AMD EPYC with 256-bit vectors, f32, 8 heads, 1024 x
// 1024 tokens, head dim 64, whole staged path: blocks of 4x4 6.2 GFLOP/s, 4x8 8.3, 8x8 12.2, 8x12
// 13.5 (twice the compile time); multiply and add in place of fma() 6.1; softmax with 64 lanes 2.6,
// 32 lanes 3.8, 8 lanes 8 and more.
constexpr StagedTuning cpuClass = {
    .scores = {{1, 8, 8, 8}, {8, 1, 4, 1}},
    .values = {{8, 1, 8, 8}, {8, 1, 4, 1}, {1, 8, 4, 8}},
    .fewRowsBelow = 4,
    .narrowUpTo = 8,
    .softmaxLanes = {8, 128},
    .pairLanes = 32,
    .pairKeysPerLane = 8,
    .sequenceLanes = 64,
};

// Devices of every other type: neighbouring lanes on neighbouring addresses, 16 accumulators a
// lane. Within the 128 invocations that Vulkan 1.0 guarantees. Not timed on a GPU yet.
constexpr StagedTuning gpuClass = {
    .scores = {{8, 8, 4, 4}, {64, 1, 1, 1}},
    .values = {{8, 8, 4, 4}, {16, 4, 4, 1}, {1, 64, 4, 2}},
    .fewRowsBelow = 8,
    .narrowUpTo = 8,
    .softmaxLanes = {64, 128},
    .pairLanes = 64,
    .pairKeysPerLane = 4,
    .sequenceLanes = 128,
};

using namespace interop;

// Rows of lanes: rowLanes lanes hold rowsPerLane query rows each, with q and the output of all
// their dims. Measured on lavapipe, 2 cores of an AMD EPYC, see docs/performance.md. rowsPerLane *
// dims is kept near 256: then q and sums take 16 KiB of a 32 KiB cache.
constexpr FlashTile rowsInLanes(uint32_t maxDim, uint32_t lanes, uint32_t rows, uint32_t keys, uint32_t source, uint32_t tileKeys,
                                uint32_t subgroups, uint32_t rolled) {
    return {maxDim, 1, 1, lanes, rows, keys, source, tileKeys, subgroups, 0, rolled};
}

// Dims of 4 rows in the lanes of a subgroup: a lane has so few dims that it compiles soon. With
// rolled edges Mesa 26 is 30 times slower.
FlashTile dimsInLanes(uint32_t maxDim, const Caps &caps) {
    return {maxDim, caps.subgroupSize, 1, 1, 4, 1, sourceDirect, 1, 1, 1, 0};
}

// The same for the absorbed form of multi-head latent attention, head dim 576 and up to 128 query
// heads on a key head: one after the other, the subgroups of a workgroup find the keys of a split
// in the core's cache.
FlashTile latentRows(const Caps &caps) {
    FlashTile tile = dimsInLanes(576, caps);
    tile.rowLanes = std::max(
        std::min({128 / tile.rowsPerLane, caps.maxWorkgroupInvocations / tile.dimLanes, caps.maxWorkgroupSize[0] / tile.dimLanes}), 1u);
    tile.fewerRows = true;
    return tile;
}

FlashTuning cpuFlash(const Caps &caps) {
    FlashTuning t{};
    // Clustered subgroup operations: Mesa 23 and later, whose compiler keeps arrays in memory well
    // and compiles long unrolled loops in a fraction of the time. Two keys a step let their chains of
    // multiply-adds overlap: 8 lanes reach 0.9 of the peak at head dim 64.
    if (caps.subgroupClustered && caps.subgroupShuffle) {
        t.flash[0] = rowsInLanes(32, caps.subgroupSize, 8, 2, sourceShuffled, 1, 1, 0);
        t.flash[1] = rowsInLanes(64, caps.subgroupSize, 4, 2, sourceShuffled, 1, 1, 0);
        t.flash[2] = rowsInLanes(128, caps.subgroupSize, 4, 2, sourceShuffled, 1, 1, 0);
        t.flash[3] = rowsInLanes(256, caps.subgroupSize, 2, 4, sourceShuffled, 1, 1, 0);
        t.flash[4] = rowsInLanes(512, caps.subgroupSize, 1, 4, sourceShuffled, 1, 1, 0);
        t.flash[5] = dimsInLanes(512, caps);
        t.flash[6] = latentRows(caps);
    } else if (caps.subgroupClustered) {
        t.flash[0] = rowsInLanes(32, 32, 8, 1, sourceShared, 32, 0, 1);
        t.flash[1] = rowsInLanes(64, 32, 4, 1, sourceShared, 32, 0, 1);
        t.flash[2] = rowsInLanes(128, 32, 2, 1, sourceShared, 16, 0, 1);
        t.flash[3] = rowsInLanes(256, 32, 1, 1, sourceShared, 8, 0, 1);
        t.flash[4] = rowsInLanes(512, 32, 1, 1, sourceShared, 4, 0, 1);
    } else if (caps.subgroupShuffle) {
        t.flash[0] = rowsInLanes(32, caps.subgroupSize, 8, 1, sourceShuffled, 1, 1, 0);
        t.flash[1] = rowsInLanes(64, caps.subgroupSize, 4, 1, sourceShuffled, 1, 1, 0);
        t.flash[2] = rowsInLanes(128, caps.subgroupSize, 1, 1, sourceShuffled, 1, 1, 0);
        t.flash[3] = rowsInLanes(256, caps.subgroupSize, 1, 1, sourceShuffled, 1, 1, 0);
        t.flash[4] = rowsInLanes(512, caps.subgroupSize, 1, 1, sourceShuffled, 1, 1, 0);
        t.flash[5] = dimsInLanes(512, caps);
        t.flash[6] = latentRows(caps);
    } else {
        t.flash[0] = rowsInLanes(64, 8, 4, 1, sourceDirect, 1, 0, 0);
        t.flash[1] = rowsInLanes(128, 8, 2, 1, sourceDirect, 1, 0, 0);
        // No row above: a lane that loads more dims by itself takes Mesa 22 long to compile (58 s
        // at 256). staged takes them.
    }
    // What a CPU device calls matrix units is loops of its driver: for whoever asks, never by AUTO.
    t.matrix[0] = {256, 2, 1, 16};
    t.matrix[1] = {256, 2, 1, 32}; // where matrices are larger than 8 x 8
    t.matrixRows = 0;
    const uint32_t lanes = caps.subgroupShuffle ? caps.subgroupSize : 1;
    t.decode[0] = {64, std::min(lanes, 4u), std::max(lanes / 4, 1u), 1, 4, 1, sourceDirect, 1, caps.subgroupShuffle, 1, 0};
    t.decode[1] = {caps.subgroupShuffle ? 512u : 128u, lanes, 1, 1, 4, 1, sourceDirect, 1, caps.subgroupShuffle, 1, 0};
    if (caps.subgroupShuffle) t.decode[2] = latentRows(caps);
    t.targetWorkgroups = t.decodeWorkgroups = 16;
    t.targetLanes = 0;
    t.minSplitKeys = 512;
    t.maxSplitKeys = 32768;
    t.fixedSplitKeys = 1024;
    t.decodeRows = 16;
    t.combineLanes = 8;
    return t;
}

// A lane has 32 dims of two rows, or 64 of one, and K and V come through shared memory, where all lanes
// of a row read the same 16 bytes. Measured 2026-11-26 on an H200, 16 heads, batch 2, 8192 tokens, ms:
// head dim 64, two lanes of two rows 20.8, a lane a row 22.7, and from memory 8 rows and 2 keys shared by
// 8 lanes 45.9, 4 rows and 4 keys by 8 lanes 59.6; head dim 128, four lanes of two rows 79.2, of four rows
// 117, two lanes of a row 84.4. For discrete devices with subgroups of 32 lanes, as that one has: compilers
// give these tiles 170 to 190 registers for NVIDIA (NVK) and all 256 of a lane for AMD's GPUs, whose
// subgroups have 64 (bench/results/compile), and nobody has timed them there.
FlashTile rowsThroughShared(uint32_t maxDim, uint32_t dimLanes, uint32_t rows, uint32_t tileKeys) {
    return {maxDim, dimLanes, 1, 128 / dimLanes, rows, 4, sourceShared, tileKeys, dimLanes > 1, 0, 0, 1, true};
}
FlashTile rowsThroughShared(uint32_t maxDim, bool shuffles) {
    if (maxDim <= 64) return shuffles ? rowsThroughShared(64, 2, 2, 32) : rowsThroughShared(64, 1, 1, 32);
    return maxDim <= 128 ? rowsThroughShared(128, 4, 2, 32) : rowsThroughShared(256, 4, 1, 16);
}

// Where that does not fit 8 or 16 lanes share a row's dims; each loads runs of 4 neighbours, so that 8
// lanes read 128 neighbouring bytes. 4 rows and 4 keys a lane keep registers near 100 at head dim 64 and
// 128 (docs/performance.md has what vendors' compilers say).
FlashTuning gpuFlash(const Caps &caps) {
    FlashTuning t{};
    const uint32_t shuffles = caps.subgroupShuffle && caps.subgroupSize >= 16 ? 1 : 0;
    uint32_t n = 0;
    if (caps.deviceType == VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU && caps.subgroupSize == 32) {
        for (const uint32_t maxDim : {64u, 128u, 256u}) {
            const FlashTile tile = rowsThroughShared(maxDim, shuffles != 0);
            constexpr uint32_t other = 16; // bytes of shared memory beside K and V
            if (4 * tile.sharedWords(maxDim, maxDim) + other <= caps.maxSharedMemoryBytes && (shuffles || tile.dimLanes == 1))
                t.flash[n++] = tile;
        }
    }
    t.flash[n++] = {64, 8, 1, 8, 4, 4, sourceDirect, 1, shuffles, 0, 0};
    t.flash[n++] = {128, 16, 1, 4, 4, 4, sourceDirect, 1, shuffles, 0, 0};
    t.flash[n++] = {256, 16, 1, 4, 2, 2, sourceDirect, 1, shuffles, 0, 0};
    t.flash[n++] = {512, 16, 1, 4, 1, 2, sourceDirect, 1, shuffles, 0, 0};
    t.flash[n++] = {576, 16, 1, 8, 1, 2, sourceDirect, 1, shuffles, 0, 0};
    t.decode[0] = {64, 8, 8, 1, 4, 4, sourceDirect, 1, shuffles, 0, 0};
    t.decode[1] = {128, 16, 4, 1, 4, 4, sourceDirect, 1, shuffles, 0, 0};
    t.decode[2] = {256, 16, 4, 1, 2, 2, sourceDirect, 1, shuffles, 0, 0};
    t.decode[3] = {512, 16, 4, 1, 1, 2, sourceDirect, 1, shuffles, 0, 0};
    t.decode[4] = {576, 16, 4, 1, 1, 2, sourceDirect, 1, shuffles, 0, 0};
    // Subgroups of 16 rows share K and V. Measured 2026-11-26 on an H200, 16 heads, batch 2, 8192 tokens,
    // ms of flash_coopmat and flash_coopmat2: head dim 64, 4 subgroups 8.2 and 8.9, of 32 rows 10.1 and
    // 13.1; head dim 128, 8 subgroups 11.2 and 11.3, 4 subgroups 18.9 and 18.3. Of two tiles for the same
    // dims the second is for devices with fewer invocations or 32 KiB of shared memory. Registers:
    // bench/results/compile.
    t.matrix[0] = {64, 4, 1, 32};
    t.matrix[1] = {128, 8, 1, 32};
    t.matrix[2] = {128, 4, 1, 32};
    t.matrix[3] = {256, 4, 1, 32};
    t.matrix[4] = {256, 2, 1, 32};
    t.matrix[5] = {256, 4, 1, 16};
    t.matrix[6] = {256, 2, 1, 16};
    // One query of 8 heads a key head, 32,768 keys, batch 8, on an H200: decode 0.61 ms, flash_coopmat 2.2.
    t.matrixRows = 16;
    // An H200 runs 1,056 workgroups of two subgroups at a time: with 256 decode waited for memory. Others
    // have more to do for what they load.
    t.targetWorkgroups = 512;
    t.decodeWorkgroups = 1024;
    t.targetLanes = 64;
    t.minSplitKeys = 256;
    t.maxSplitKeys = 32768;
    t.fixedSplitKeys = 1024;
    t.decodeRows = 16;
    t.combineLanes = 32;
    return t;
}

} // namespace

FlashTuning flashTuning(const Caps &caps) {
    return caps.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU ? cpuFlash(caps) : gpuFlash(caps);
}

uint32_t FlashTuning::rate(TileList list, uint32_t dim) const {
    if (list == TileList::none) return 0;
    for (const Rate &each : list == TileList::decode ? decodeRates : list == TileList::flash ? flashRates : matrixRates)
        if (each.minDim <= dim && dim <= each.maxDim) return each.mflops;
    return 0;
}

uint32_t tileOrder(const Caps &caps) {
    return caps.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU ? interop::formInTurn : 0;
}

const StagedTuning &stagedTuning(const Caps &caps) {
    return caps.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU ? cpuClass : gpuClass;
}

} // namespace vkattn
