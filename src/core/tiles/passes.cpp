#include "core/tiles/passes.hpp"

#include "core/kernels/flash.hpp"
#include "core/plan/chunks.hpp"

#include <algorithm>

namespace vkattn {
namespace {

constexpr uint32_t most16Bits = 65535; // halves of push-constant words

bool onCpu(const Caps &caps) {
    return caps.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU;
}

uint32_t dimsOfLane(const PassTile &tile, uint32_t dim, uint32_t shuffleLanes) {
    if (tile.source == sourceShuffled) return roundUp(dim, shuffleLanes);
    return roundUp(divideUp(dim, tile.dimLanes), dim % 4 == 0 ? 4 : dim % 2 == 0 ? 2 : 1);
}

uint32_t runOf(const PassTile &tile, uint32_t dim, uint32_t dimsPerLane, vkattn_dtype dtype) {
    if (tile.dimLanes == 1) return dimsPerLane;
    for (uint32_t run = dtype == VKATTN_F32 ? 4 : 8; run > 1; run /= 2)
        if (dim % run == 0 && dimsPerLane % run == 0) return run;
    return 1;
}

} // namespace

PassTile tileFor(uint32_t dim, std::span<const PassTile> tiles) {
    for (const PassTile &each : tiles)
        if (dim <= each.maxDim) return each;
    return {};
}

PassTile cpuPassTile(const Caps &caps, uint32_t dims, uint32_t ownedPerLane, uint32_t stepItems, bool rolledEdges) {
    return {dims, 1, caps.subgroupSize, ownedPerLane, stepItems, sourceShuffled, 1, rolledEdges};
}

PassTile gpuPassTile(bool ownsKeys, uint32_t dim, uint32_t stepItems) {
    const PassTile tiles[] = {{64, 8, 8, ownsKeys ? 2u : 4u, stepItems, sourceDirect, 1, 0},
                              {128, 16, 4, ownsKeys ? 2u : 4u, stepItems, sourceDirect, 1, 0},
                              {256, 16, 4, ownsKeys ? 1u : 2u, stepItems, sourceDirect, 1, 0}};
    return tileFor(dim, tiles);
}

bool fits(const PassTile &tile, const Caps &caps) {
    return tile.invocations() <= caps.maxWorkgroupInvocations && tile.invocations() <= caps.maxWorkgroupSize[0];
}

bool shuffles(const Caps &caps) {
    if (!caps.subgroupShuffle) return false;
    return onCpu(caps) ? caps.subgroupSize >= 4 && caps.subgroupSize <= 16 : caps.subgroupSize >= 16;
}

uint32_t shuffleLanes(const Caps &caps) {
    return std::max(caps.subgroupSize, 4u);
}

PassingDims passingDims(const PassTile &tile, const Tensor &passing, uint32_t shuffleLanes) {
    const uint32_t dim = passing.extent[3], perLane = dimsOfLane(tile, dim, shuffleLanes), run = runOf(tile, dim, perLane, passing.dtype);
    return {perLane, run, dimOrderOf(passing, run)};
}

const char *formText(const PassTile &tile) {
    return tile.source == sourceShuffled ? "rows in lanes, then keys in lanes, subgroup shuffles" : "dims in lanes, subgroup shuffles";
}

void explainTile(const Plan &forward, const PassTile &tile, vkattn_explanation &out) {
    out.rowsPerWorkgroup = tile.owned();
    out.tilesInTurn = forward.orderForm != 0;
    out.keysPerStep = tile.stepItems;
}

vkattn_result refuse(const TiledOperation &of, const char *predicate, vkattn_diagnostic *why) {
    return fail(why, VKATTN_ERROR_UNSUPPORTED, "%s %s; %s", of.name, predicate, of.instead);
}

vkattn_result refuseOperand(const TiledOperation &of, const char *what, const char *operand, uint64_t bytes, const Caps &caps,
                            vkattn_diagnostic *why) {
    return fail(why, VKATTN_ERROR_UNSUPPORTED,
                "%s of %s spans %llu bytes in one binding, over the device's maxStorageBufferRange of %u; store it more densely, or %s",
                what, operand, static_cast<unsigned long long>(bytes), caps.maxStorageBufferRange, of.instead);
}

vkattn_result refuseWorkspace(const TiledOperation &of, uint64_t bytes, const Caps &caps, vkattn_diagnostic *why) {
    return fail(why, VKATTN_ERROR_UNSUPPORTED,
                "%s %s %llu bytes of workspace in one binding, over the device's maxStorageBufferRange of %u; %s", of.name,
                of.plural ? "need" : "needs", static_cast<unsigned long long>(bytes), caps.maxStorageBufferRange, of.instead);
}

vkattn_result checkBindings(const TiledOperation &of, const Problem &p, const Caps &caps, vkattn_diagnostic *why) {
    if (caps.maxStorageBuffersPerStage < gradientSlots)
        return fail(why, VKATTN_ERROR_UNSUPPORTED, "%s %s %u storage buffers a stage; the device has %u; %s", of.name,
                    of.plural ? "need" : "needs", gradientSlots, caps.maxStorageBuffersPerStage, of.instead);
    if (p.groupSize() > most16Bits)
        return fail(why, VKATTN_ERROR_UNSUPPORTED, "%s %s at most %u query heads a key head; %s", of.name, of.plural ? "take" : "takes",
                    most16Bits, of.instead);
    return VKATTN_OK;
}

vkattn_result setEnvironment(const TiledOperation &of, uint32_t words, Plan &forward, const Caps &caps, vkattn_diagnostic *why) {
    if (flash::placeEnvironment(forward, words, 4 * uint64_t{words}, caps)) return VKATTN_OK;
    return fail(why, VKATTN_ERROR_UNSUPPORTED, "%s %s the arrays over heads in the workspace; %u heads are too many for this device; %s",
                of.name, of.plural ? "gather" : "gathers", forward.problem.heads, of.instead);
}

vkattn_result setDispatchCount(const TiledOperation &of, double count, Schedule &plan, vkattn_diagnostic *why) {
    if (count > 1e9) return refuse(of, "would take over a billion dispatches to meet the device's limits", why);
    plan.dispatchCount = static_cast<uint32_t>(count);
    return VKATTN_OK;
}

GradientStrides passStrides(const Tensor &t) {
    return {stride(t, 0), stride(t, 1), stride(t, 2), flash::dimStride(t)};
}

uint64_t storageDescriptors(const Schedule &plan, uint64_t passes) {
    return passes * gradientSlots + (plan.dispatchCount - passes) * plainSlots;
}

} // namespace vkattn
