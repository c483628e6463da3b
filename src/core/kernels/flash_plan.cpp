// How the flash and decode kernels lay out a workgroup and cut a problem.
#include "core/kernels/coopmat.hpp"
#include "core/kernels/flash.hpp"
#include "core/kernels/grid_tiles.hpp"
#include "core/plan/chunks.hpp"
#include "core/plan/operands.hpp"
#include "core/plan/tuning/compile_cost.hpp"
#include "core/plan/tuning/table.hpp"
#include "lib/interop.h"

#include <cstdio>
#include <numeric>

namespace vkattn {
namespace {

using namespace interop;

bool isDecode(const Kernel &kernel) {
    return kernel.tiles == TileList::decode;
}

constexpr uint32_t most16Bits = 65535; // halves of push-constant words

uint32_t largestDim(const FlashTile (&tiles)[FlashTuning::maxTiles]) {
    uint32_t most = 0;
    for (const FlashTile &tile : tiles) most = std::max(most, tile.maxDim);
    return most;
}

// Neighbouring dims that a lane takes at a time. On GPUs lanes then read 16 bytes side by side; on
// CPU devices, where every load costs, all that a lane has: a run of 16-bit elements may take one
// word more than it fills.
uint32_t runOf(uint32_t dim, const FlashTile &tile, uint32_t dimsPerLane, vkattn_dtype dtype) {
    const bool all = tile.dimLanes == 1 || (tile.wholeRuns && dim % tile.dimLanes == 0);
    // A run of a block has one scale, and a run of 4-bit codes one half of their bytes.
    const uint32_t most = all && isBlockType(dtype) ? (dtype == VKATTN_Q8_0 ? 32 : 16) : dtype == VKATTN_F32 ? 4 : 8;
    if (all && !isBlockType(dtype)) return dimsPerLane;
    for (uint32_t run = most; run > 1; run /= 2)
        if (dim % run == 0 && dimsPerLane % run == 0) return run;
    return 1;
}
uint32_t dimsOfLane(const FlashTile &tile, uint32_t dim, uint32_t shuffleLanes) {
    if (tile.source == sourceShuffled) return roundUp(dim, shuffleLanes);
    const uint32_t multiple = dim % 4 == 0 ? 4 : dim % 2 == 0 ? 2 : 1;
    return tile.dimLanes == 1 ? dim : roundUp(static_cast<uint32_t>(ceilDiv(dim, tile.dimLanes)), multiple);
}

bool dimStridesAreOne(const Problem &p) {
    // Segments have the stride of the first.
    for (const vkattn_role role : {VKATTN_Q, VKATTN_K, VKATTN_V, VKATTN_OUT})
        if (!p.tensor(role).unitDims()) return false;
    return true;
}

// Everything but q, k, v and out with neighbouring dims needs options, and bindings past the
// fourth.
bool needsOptions(const Problem &p) {
    return pairTermsOf(p) || !dimStridesAreOne(p) || p.presentRoles || p.hasOffsets() || p.tensor(VKATTN_LSE).present() || p.goesOn();
}

// What combine.comp loops over for one row: twice over its parts, then once for every pair of dims
// that a lane has.
constexpr uint64_t combineIterations(uint64_t parts, uint32_t valueDim, uint32_t lanes) {
    const uint64_t pairs = ceilDiv(valueDim, 2ull * lanes);
    return parts * (2 + pairs) + pairs;
}

// Keys of one split, so that no lane of flash/lanes.comp loops more often than software drivers
// allow (maxKeysPerLane): whole tiles; 0 if none.
uint32_t mostSplitKeys(const Problem &p, const FlashTuning &tuning, const FlashShape &shape) {
    const FlashTile &tile = shape.tile;
    const uint64_t dims = uint64_t{shape.dimsPerLane} + shape.valueDimsPerLane;
    const uint64_t edges = tile.rolledEdges ? tile.rowsPerLane * (dims + shape.valueDimsPerLane) : 0;
    // Leaving a loop counts as a round of it. Where masks may leave nothing of a step, another loop
    // looks for the next that has something.
    const bool looksAhead = (shape.pairTerms & termsThatEmptySteps) != 0;
    // With rules, tiles in shared memory ask for themselves too.
    const SkipRounds skips = skipRounds(p, tile.rows());
    const uint64_t perStep = looksAhead ? 2 : 1;
    uint64_t perTile = perStep;
    // Its steps in up to two loops, the loads of K and V, and the loop over tiles.
    if (tile.source == sourceShared)
        perTile = tile.tileKeys / tile.step() * perStep + 6 + skips.perStretch +
                  ceilDiv(uint64_t{tile.tileKeys} * shape.dimsPerLane, tile.invocations()) +
                  ceilDiv(uint64_t{tile.tileKeys} * shape.valueDimsPerLane, tile.invocations());
    // With dropout steps come in runs of at most 32 or 128 keys, each with a loop that draws, 4 keys and
    // more a round, and with the ends of its loops over steps.
    uint64_t tilesPerRun = 1, perRun = perTile;
    if (p.drops()) {
        const uint64_t runSteps = std::max((tile.dimLanes > 1 ? 32 : 128) / tile.step(), 1u), runKeys = runSteps * tile.step();
        const uint64_t drawing = tile.step() > 32 ? tile.keysPerLane + 4 : runKeys / 4 + 6;
        if (tile.source != sourceShared) tilesPerRun = runSteps;
        const uint64_t runs = tile.source == sourceShared ? ceilDiv(tile.tileKeys, runKeys) : 1;
        perRun = tilesPerRun * perTile + runs * drawing;
    }
    const uint64_t other = edges + skips.of(0, 1) + skips.shortStretches * skips.perStretch;
    // For each key a part of the rounds of a long stretch.
    const uint64_t perRunOfStretches = perRun * leastStretch + skips.perStretch * tilesPerRun * tile.keyTile();
    const uint64_t tiles = other < maxKeysPerLane ? (maxKeysPerLane - other) * leastStretch / perRunOfStretches * tilesPerRun : 0;
    const uint64_t keys = std::min<uint64_t>(tiles * tile.keyTile(), std::max(tuning.maxSplitKeys, tile.keyTile()));
    // Of a window or a grid, a workgroup visits what its rows reach, in whole tiles, however long the
    // split is.
    const auto isShort = [&](uint64_t visited) { return tiles > 0 && visited + 2 * tile.keyTile() <= keys; };
    const bool window = p.left != openWindow && p.right != openWindow;
    if ((window && isShort(uint64_t{static_cast<uint32_t>(p.left)} + static_cast<uint32_t>(p.right) + tile.rows())) ||
        (gridAlone(p) && isShort(keysOfGridTile(p, shape))))
        return roundUp(std::max(p.keyTokens, 1u), tile.keyTile());
    return static_cast<uint32_t>(keys - keys % tile.keyTile());
}

struct FlashLimits {
    const Problem &p;
    const Caps &caps;
    const FlashShape &shape;
    uint32_t rowTile, keyTile, sliceKeys;
    bool alwaysParts;
    uint32_t headTile = shape.packed, sliceQueries = std::max(rowTile / shape.packed, 1u);

    [[nodiscard]] uint64_t splits(const ChunkShape &s) const { return ceilDiv(s.keys, shape.splitKeys); }
    // Splits of neighbouring keys in memory.
    [[nodiscard]] uint64_t splitsOf(uint32_t keys, const ChunkShape &s) const {
        const uint64_t chunks = ceilDiv(std::max(keys, 1u), s.keys), last = std::max(keys, 1u) - (chunks - 1) * s.keys;
        return (chunks - 1) * splits(s) + ceilDiv(last, shape.splitKeys);
    }
    // Partial results of a row over all chunks of keys; 0 where the one dispatch writes the output.
    [[nodiscard]] uint64_t parts(const ChunkShape &s) const {
        uint64_t all = 0;
        for (uint32_t n = 0; n < p.segments.count; ++n) all += splitsOf(p.segmented() ? p.segments.keys(n) : p.keyTokens, s);
        if (p.goesOn()) return all * shape.tile.keyLanes + 1;
        return all == 1 && !alwaysParts && shape.tile.keyLanes == 1 ? 0 : all * shape.tile.keyLanes;
    }
    [[nodiscard]] bool keysFit(const ChunkShape &s) const { return splits(s) <= caps.maxWorkgroupCount[1]; }
    [[nodiscard]] bool rowsFit(const ChunkShape &s) const {
        return s.heads % shape.packed == 0 && s.heads <= most16Bits && parts(s) <= most16Bits &&
               combineIterations(parts(s), p.valueDim, shape.combineLanes) <= maxKeysPerLane &&
               ceilDiv(uint64_t{s.queries} * shape.packed, rowTile) <= caps.maxWorkgroupCount[0] &&
               (parts(s) == 0 || s.queries <= caps.maxWorkgroupCount[0]);
    }
    [[nodiscard]] uint64_t workspaceBytes(const ChunkShape &s) const {
        return parts(s) * s.batches * s.heads * s.queries * (uint64_t{p.valueDim} + partialWords) * 4;
    }
};

// One row of one head does not fit; the chunker has said why where a binding is too large, and
// cannot know of parts.
vkattn_result explainParts(const char *kernel, const FlashLimits &own, vkattn_diagnostic *why) {
    const ChunkShape row = {1, 1, 1, std::max(own.p.keyTokens, 1u)};
    if (own.parts(row) > most16Bits || combineIterations(own.parts(row), own.p.valueDim, own.shape.combineLanes) > maxKeysPerLane)
        return fail(why, VKATTN_ERROR_UNSUPPORTED,
                    "the %s kernel would have to merge %llu partial results for each row, too many for one "
                    "shader to loop over",
                    kernel, static_cast<unsigned long long>(own.parts(row)));
    return VKATTN_ERROR_UNSUPPORTED;
}

// Which keys share a split must not depend on segments where bits must not.
vkattn_result checkFixedSplits(const char *kernel, const Problem &p, const FlashShape &shape, vkattn_diagnostic *why) {
    for (uint32_t n = 1; p.deterministic && n < p.segments.count; ++n)
        if (p.segments.first[n] % shape.splitKeys)
            return fail(
                why, VKATTN_ERROR_UNSUPPORTED,
                "with VKATTN_DETERMINISTIC the %s kernel takes segments that begin at multiples of %u keys, and k%u begins at key %u; the "
                "staged kernel takes any",
                kernel, shape.splitKeys, n, p.segments.first[n]);
    return VKATTN_OK;
}

// Workgroups that fill the device.
uint64_t workgroupsWanted(const FlashTuning &tuning, const FlashShape &shape, bool decode) {
    if (decode) return tuning.decodeWorkgroups;
    if (!tuning.targetLanes) return tuning.targetWorkgroups;
    return ceilDiv(uint64_t{tuning.targetWorkgroups} * tuning.targetLanes, std::max(shape.tile.invocations(), tuning.targetLanes));
}

constexpr uint32_t rowsWithRoom = 4;

// Keys of a split: as many splits as give the device enough workgroups, none shorter than is worth
// a partial result, and no more than leave room for the partial results of several rows in a binding.
uint32_t chooseSplitKeys(const Problem &p, const PlanLimits &limits, const FlashShape &shape, uint32_t mostKeys, bool decode) {
    const FlashTuning &tuning = limits.tuning;
    const uint32_t tile = shape.tile.keyTile(), keys = std::max(p.keyTokens, 1u);
    if (p.deterministic) return std::min(roundUp(tuning.fixedSplitKeys, tile), mostKeys);
    const uint64_t workgroups = ceilDiv(uint64_t{p.queryTokens} * shape.packed, shape.tile.rows()) * (p.heads / shape.packed) * p.batch;
    const uint64_t wanted = ceilDiv(workgroupsWanted(tuning, shape, decode), std::max<uint64_t>(workgroups / p.slices, 1)),
                   bytes = 4 * (uint64_t{p.valueDim} + partialWords) * shape.packed * shape.tile.keyLanes * rowsWithRoom,
                   most = std::max<uint64_t>(std::min<uint64_t>(keys / tuning.minSplitKeys, limits.caps.maxStorageBufferRange / bytes), 1);
    const uint64_t splits = std::max<uint64_t>(std::min(wanted, most), ceilDiv(keys, mostKeys));
    return roundUp(static_cast<uint32_t>(ceilDiv(keys, splits)), tile);
}

// Rows whose partial results are in the workspace where there are more keys than a split may have.
constexpr uint64_t mostRowsAtOnce = 8192;

// Workspace for the partial results of the flash kernel, whose rows may be many: as many rows at a
// time as fill the device, or 1/128 of what K and V take, whichever is more. With rules most splits of
// a row see nothing, others fill the device, and dispatches are short: 1/8. Decode has few rows and
// keeps them together.
uint64_t partialResultsCap(const Problem &p, const FlashTuning &tuning, const FlashShape &shape, uint32_t mostKeys) {
    const uint64_t splits = p.rules.showRuns() ? ceilDiv(std::max(p.keyTokens, 1u), mostKeys) : 1;
    // Splits of choice are fewer than twice as many as fill the device.
    const uint64_t filled = workgroupsWanted(tuning, shape, false) * shape.tile.rows();
    const uint64_t rows = p.keyTokens <= mostKeys ? 2 * filled : std::min(filled, mostRowsAtOnce);
    const uint64_t filling = splits * rows * (uint64_t{p.valueDim} + partialWords) * 4;
    return std::max(filling, (p.bytesNeeded(VKATTN_K) + p.bytesNeeded(VKATTN_V)) / (splits > 1 ? 8 : 128));
}

vkattn_result checkTile(const char *kernel, const FlashTile &tile, const Problem &p, const FlashShape &shape, const Caps &caps,
                        vkattn_diagnostic *why) {
    const auto unsupported = VKATTN_ERROR_UNSUPPORTED;
    const uint32_t words =
        tile.sharedWords(shape.dimsPerLane * tile.dimLanes, shape.valuesInKeys ? 0 : shape.valueDimsPerLane * tile.dimLanes);
    if (tile.invocations() > caps.maxWorkgroupInvocations || tile.invocations() > caps.maxWorkgroupSize[0])
        return fail(why, unsupported, "the %s kernel's workgroup for head dim %u has %u invocations; the device takes %u", kernel,
                    p.headDim, tile.invocations(), std::min(caps.maxWorkgroupInvocations, caps.maxWorkgroupSize[0]));
    if (words * 4 > caps.maxSharedMemoryBytes)
        return fail(why, unsupported, "the %s kernel's workgroup for head dim %u needs %u bytes of shared memory; the device has %u",
                    kernel, p.headDim, words * 4, caps.maxSharedMemoryBytes);
    if (tile.source == sourceShuffled && caps.subgroupShuffle && (caps.subgroupSize < 4 || tile.invocations() % caps.subgroupSize))
        return fail(why, unsupported, "the %s kernel's tile for head dim %u has %u lanes, expected whole subgroups; the device's have %u",
                    kernel, p.headDim, tile.invocations(), caps.subgroupSize);
    if (tile.subgroups && (!caps.subgroupShuffle || caps.subgroupSize < tile.dimLanes))
        return fail(why, unsupported, "the %s kernel's tile for head dim %u shuffles among %u lanes; the device's subgroups have %u%s",
                    kernel, p.headDim, tile.dimLanes, caps.subgroupSize, caps.subgroupShuffle ? "" : " and no shuffle");
    return VKATTN_OK;
}

const char *formOf(const FlashTile &tile) {
    if (tile.dimLanes > 1 && tile.source == sourceShared) return "dims in lanes, K and V through shared memory";
    if (tile.dimLanes > 1) return tile.subgroups ? "dims in lanes, subgroup shuffles" : "dims in lanes, shared memory";
    if (tile.keyLanes > 1) return "keys in lanes";
    return tile.source == sourceShared     ? "rows in lanes, K and V through shared memory"
           : tile.source == sourceShuffled ? "rows in lanes, K and V through subgroup shuffles"
                                           : "rows in lanes";
}
unsigned long long rowsOfGroup(const Problem &p) {
    return uint64_t{p.queryTokens} * p.groupSize();
}
constexpr const char *withoutMatrixUnits = "it can run, but without the device's matrix units";

// How the lanes of shape.tile share the dims of the problem.
void layOutLanes(const Problem &p, const Caps &caps, FlashShape &shape) {
    const FlashTile &tile = shape.tile;
    shape.shuffleLanes = std::max(caps.subgroupSize, 4u);
    shape.dimsPerLane = dimsOfLane(tile, p.headDim, shape.shuffleLanes);
    shape.valueDimsPerLane = dimsOfLane(tile, p.valueDim, shape.shuffleLanes);
    // Of V through the subgroup's lanes, each lane loads another element than of K.
    shape.valuesInKeys = p.valuesInKeys && tile.source != sourceShuffled;
    if (shape.valuesInKeys) shape.dimsPerLane = std::max(shape.dimsPerLane, shape.valueDimsPerLane);
    shape.unpacksHalves = caps.exactHalves && (p.tensor(VKATTN_K).dtype == VKATTN_F16 || p.tensor(VKATTN_V).dtype == VKATTN_F16);
    shape.run = runOf(p.headDim, tile, shape.dimsPerLane, p.tensor(VKATTN_K).dtype);
    shape.valueRun = runOf(p.valueDim, tile, shape.valueDimsPerLane, p.tensor(VKATTN_V).dtype);
    // What a lane has loaded of K is what it needs of V where both go in the same runs.
    if (shape.valuesInKeys && tile.source == sourceDirect && tile.dimLanes > 1) {
        const uint32_t most = p.tensor(VKATTN_K).dtype == VKATTN_F32 ? 4 : 8;
        shape.run = shape.valueRun =
            std::gcd(std::gcd(p.headDim, p.valueDim), std::gcd(std::gcd(shape.dimsPerLane, shape.valueDimsPerLane), most));
    }
    shape.dimOrder = dimsInWords;
    for (uint32_t n = 0; n < p.segments.count; ++n)
        shape.dimOrder = std::min({shape.dimOrder, dimOrderOf(p.tensor(roleOfSegment(VKATTN_K, n)), shape.run),
                                   dimOrderOf(p.tensor(roleOfSegment(VKATTN_V, n)), shape.valueRun)});
}

// Where shape.tile fits the device.
vkattn_result takeTile(const Kernel &kernel, const Problem &p, const Caps &caps, FlashShape &shape, vkattn_diagnostic *why) {
    FlashTile &tile = shape.tile;
    const FlashTile whole = tile;
    // Rows that no query fills would be computed all the same.
    const uint64_t rows = p.deterministic ? 0 : uint64_t{p.queryTokens} * p.groupSize();
    // A power of two: problems of many sizes share pipelines.
    while (rows > 0 && tile.fewerRows && tile.rowLanes > 1 && tile.rowLanes / 2 * tile.rowsPerLane >= rows) tile.rowLanes /= 2;
    if (rows > 0 && isDecode(kernel))
        tile.rowsPerLane = static_cast<uint32_t>(std::min<uint64_t>(tile.rowsPerLane, ceilDiv(rows, tile.rowLanes)));
    return checkTile(kernel.name, whole, p, shape, caps, why);
}

// How lanes of flash/lanes.comp lie, from the table: its first tile for the dims that is not too
// slow to compile.
vkattn_result chooseTile(const Kernel &kernel, const Problem &p, const PlanLimits &limits, FlashShape &shape, vkattn_diagnostic *why) {
    const Caps &caps = limits.caps;
    const char *name = kernel.name;
    const auto &tiles = isDecode(kernel) ? limits.tuning.decode : limits.tuning.flash;
    const uint32_t dim = std::max(p.headDim, p.valueDim);
    uint64_t least = 0; // operations, of the tiles that are too slow to compile
    for (const FlashTile &tile : tiles) {
        if (dim < tile.minDim || tile.maxDim < dim) continue;
        // Fewer rows a lane before the table's next tile.
        for (uint32_t rows = tile.rowsPerLane; rows > 0; rows /= 2) {
            shape.tile = tile;
            shape.tile.rowsPerLane = rows;
            if (!tile.ofFile) takeRunsOfGrid(p, shape.tile);
            layOutLanes(p, caps, shape);
            shape.compileOperations =
                compileOperations(shape.tile, {shape.dimsPerLane, shape.valueDimsPerLane, shape.shuffleLanes, shape.valuesInKeys});
            if (tile.ofFile || shape.compileOperations <= compileLimit(caps)) return takeTile(kernel, p, caps, shape, why);
            least = least ? std::min(least, shape.compileOperations) : shape.compileOperations;
            if (!shape.passedOverOperations) shape.passedOverOperations = shape.compileOperations;
        }
    }
    if (!least)
        return fail(why, VKATTN_ERROR_UNSUPPORTED,
                    "the %s kernel takes head and value dims up to %u on this device, and this problem has %u", name, largestDim(tiles),
                    dim);
    return fail(why, VKATTN_ERROR_UNSUPPORTED,
                "the %s kernel's tiles for head dim %u take drivers of this device's type too long to compile: %llu operations and more, "
                "at most %llu",
                name, dim, static_cast<unsigned long long>(least), static_cast<unsigned long long>(compileLimit(caps)));
}

// `patches`: a tile may be a patch of a grid.
vkattn_result planTiles(const Kernel &kernel, const Problem &p, const PlanLimits &limits, bool patches, Plan &out, vkattn_diagnostic *why) {
    constexpr vkattn_result unsupported = VKATTN_ERROR_UNSUPPORTED;
    const char *name = kernel.name;
    const Caps &caps = limits.caps;
    const FlashTuning &tuning = limits.tuning;
    const bool matrices = kernel.onMatrixUnits(), options = matrices || needsOptions(p);
    // A split's partial results are merged by a dispatch of five storage buffers.
    if (caps.maxStorageBuffersPerStage < fullSlots && (options || isDecode(kernel) || p.deterministic))
        return fail(why, unsupported, "the %s kernel needs %u storage buffers a stage for this problem; the device has %u", name, fullSlots,
                    caps.maxStorageBuffersPerStage);

    out = Plan{};
    out.kernel = &kernel;
    out.problem = p;
    if (const auto r = startPlan(limits, out, why)) return r;
    FlashShape &shape = out.flash;
    if (const auto r = matrices ? coopmat::chooseMatrices(kernel, p, limits, shape, why) : chooseTile(kernel, p, limits, shape, why))
        return r;
    shape.pairTerms = pairTermsOf(p);
    shape.options = options;
    shape.combineLanes = tuning.combineLanes;
    if (p.queryTokens == 0) return VKATTN_OK; // nothing to write
    if (p.keyTokens == 0)
        return fail(why, unsupported, "the %s kernel has nothing to do without keys; the staged kernel writes the zeros", name);
    if (p.groupSize() > most16Bits)
        return fail(why, unsupported, "the %s kernel takes at most %u query heads a key head", name, most16Bits);

    if (patches) choosePatch(p, caps, shape);
    const uint32_t mostKeys = mostSplitKeys(p, tuning, shape);
    if (mostKeys == 0)
        return fail(why, unsupported, "the %s kernel's tile for head dim %u makes a lane loop more than %u times", name, p.headDim,
                    maxKeysPerLane);
    const bool merges = caps.maxStorageBuffersPerStage >= fullSlots;
    if (!merges && p.keyTokens > mostKeys)
        return fail(why, unsupported, "%u keys need more than one dispatch, whose results %u storage buffers a stage cannot merge",
                    p.keyTokens, caps.maxStorageBuffersPerStage);

    if (options && !flash::placeEnvironment(out, flash::environmentWordsOf(p), sizeof(Environment), caps))
        return fail(why, unsupported, "the %s kernel gathers the arrays over heads in its workspace; %u heads are too many for this device",
                    name, p.heads);
    ChunkShape chunk{};
    PlanLimits room = limits;
    if (!isDecode(kernel))
        room.maxWorkspaceBytes = std::min(room.maxWorkspaceBytes, out.setUpBytes + partialResultsCap(p, tuning, shape, mostKeys));
    // Packing heads keeps them together; where limits cut them apart, they go unpacked.
    const bool pack = p.groupSize() > 1 && (isDecode(kernel) || p.queryTokens < shape.tile.rows());
    for (shape.packed = pack ? p.groupSize() : 1;; shape.packed = 1) {
        shape.splitKeys = chooseSplitKeys(p, limits, shape, mostKeys, isDecode(kernel));
        if (!merges) shape.splitKeys = roundUp(std::max(p.keyTokens, 1u), shape.tile.keyTile());
        if (const auto r = checkFixedSplits(name, p, shape, why)) return r;
        const uint32_t keyTile = p.deterministic ? shape.splitKeys : shape.tile.keyTile();
        const uint32_t sliceKeys = !merges           ? p.keyTokens
                                   : p.deterministic ? shape.splitKeys
                                                     : roundUp(std::max(tuning.minSplitKeys, keyTile), keyTile);
        const FlashLimits own = {p, caps, shape, shape.tile.rows(), keyTile, sliceKeys, p.deterministic};
        Chunker chunker(p, room, own, out.setUpBytes);
        const bool fits = chunker.choose(chunk, shape.packed == 1 ? why : nullptr);
        if (!fits && shape.packed > 1) continue;
        if (!fits) return explainParts(name, own, why);
        shape.parts = static_cast<uint32_t>(own.parts(chunk));
        out.workspaceBytes = out.setUpBytes + own.workspaceBytes(chunk);
        break;
    }
    if (!merges && shape.parts)
        return fail(why, unsupported, "%u keys need more than one dispatch, whose results %u storage buffers a stage cannot merge",
                    p.keyTokens, caps.maxStorageBuffersPerStage);
    if (!keepsPatch(p, chunk, shape)) return planTiles(kernel, p, limits, false, out, why);
    setChunks(out, chunk);
    return setDispatchCount(out, flash::dispatchesPerRowChunk(out), why);
}

} // namespace

vkattn_result flash::supported(const Kernel &kernel, const PlanLimits &limits, vkattn_diagnostic *why) {
    const uint32_t buffers = limits.caps.maxStorageBuffersPerStage;
    const auto &tiles = isDecode(kernel) ? limits.tuning.decode : limits.tuning.flash;
    if (largestDim(tiles) == 0) return fail(why, VKATTN_ERROR_UNSUPPORTED, "no tile of the %s kernel fits the device", kernel.name);
    if (buffers >= fullSlots) return VKATTN_OK;
    if (isDecode(kernel))
        return fail(why, VKATTN_ERROR_UNSUPPORTED, "the decode kernel needs %u storage buffers a stage; the device has %u", fullSlots,
                    buffers);
    return fail(why, VKATTN_OK, "q, k, v and out alone: the device has %u storage buffers a stage, options take %u", buffers, fullSlots);
}

vkattn_result flash::makePlan(const Kernel &kernel, const Problem &p, const PlanLimits &limits, Plan &out, vkattn_diagnostic *why) {
    return planTiles(kernel, p, limits, true, out, why);
}

void flash::explain(const Plan &plan, vkattn_explanation &out) {
    const FlashShape &shape = plan.flash;
    out.form = formOf(shape.tile);
    out.rowsPerWorkgroup = shape.tile.rows();
    out.patchRows = shape.patchRows, out.patchColumns = shape.patchColumns;
    out.tilesInTurn = plan.orderForm != 0;
    out.unpacksHalves = shape.unpacksHalves;
    out.keysPerStep = shape.tile.step();
    out.packedHeads = shape.packed;
    out.compileOperations = shape.compileOperations;
    out.passedOverOperations = shape.passedOverOperations;
    out.splits = plan.problem.segmented() && plan.chunkKeys ? splitsBefore(plan, plan.keyChunks)
                 : shape.splitKeys                          ? std::max(divideUp(plan.problem.keyTokens, shape.splitKeys), 1u)
                                                            : 1;
    out.bytesRead += static_cast<double>(plan.workspaceBytes); // partial results
    out.bytesWritten += static_cast<double>(plan.workspaceBytes);
}

bool flash::suits(const Problem &, const FlashTuning &) {
    return true;
}

void flash::whyChosen(const Problem &p, const FlashTuning &tuning, char *text, size_t size) {
    std::snprintf(text, size, "%llu query rows share each key head, over %u: tiles of rows reuse every key they load", rowsOfGroup(p),
                  tuning.decodeRows);
}

const char *flash::whyNotChosen(const Plan &chosen, const FlashTuning &) {
    return chosen.kernel->onMatrixUnits() ? withoutMatrixUnits : "it can run, but too few query rows share a key to fill its tiles";
}

bool decode::suits(const Problem &p, const FlashTuning &tuning) {
    return rowsOfGroup(p) <= tuning.decodeRows;
}

void decode::whyChosen(const Problem &p, const FlashTuning &tuning, char *text, size_t size) {
    std::snprintf(text, size,
                  "%llu query rows share each key head, at most %u: lanes go along the keys, and the heads of a group are packed as rows",
                  rowsOfGroup(p), tuning.decodeRows);
}

const char *decode::whyNotChosen(const Plan &chosen, const FlashTuning &) {
    return chosen.kernel->onMatrixUnits() ? withoutMatrixUnits
                                          : "it can run, but so many query rows share a key that tiles of rows reuse it better";
}

} // namespace vkattn
