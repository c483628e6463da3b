#include "core/linear_gradient/linear_gradient_plan.hpp"

#include "core/kernels/explain.hpp"
#include "core/linear/linear_form.hpp"
#include "core/plan/chunks.hpp"
#include "core/plan/tuning/compile_cost.hpp"
#include "core/tiles/passes.hpp"
#include "util/diagnostic.hpp"

#include <algorithm>
#include <cstdio>

namespace vkattn {
namespace {

// In messages.
constexpr TiledOperation gradientWords = {"the gradient of linear attention", false, "compute it on the CPU"};
// Rows of the state that a lane of the delta rules may have: all of them.
constexpr uint32_t mostDeltaRows = 256;

constexpr const LinearGradientPlan &planOf(const Schedule &schedule) {
    return static_cast<const LinearGradientPlan &>(schedule);
}

// What a lane of the heavier scan loads, stores, multiplies and adds for a chunk, after its loops are unrolled.
uint64_t compileOperationsOf(const LinearGradientPlan &plan) {
    const LinearGradientTile &tile = plan.tile;
    const auto cost = [&](uint64_t perBlock, uint64_t owned, uint64_t products, uint64_t ofState, uint64_t ofSlot) {
        const uint64_t c = tile.chunkTokens, accesses = products * c * perBlock / std::max(tile.shuffleLanes, 1u) +
                                                        ofState * perBlock * owned + ofSlot * c * owned + c * c;
        return products * c * perBlock * owned + 3 * c * c * owned + compileOperationsPerAccess * accesses;
    };
    const LinearAttention &a = plan.linear();
    return std::max(cost(tile.columnsPerBlock, tile.rowsPerLane, 2, a.isGated() ? 4 : 2, a.isGated() ? 10 : 6),
                    cost(tile.rowsPerBlock, tile.columnsPerLane, a.isDelta() ? 3 : 2, 2, a.isDelta() ? 6 : 3));
}

// Tiles were not timed on a GPU yet.
vkattn_result chooseTile(const Caps &caps, LinearGradientPlan &plan, vkattn_diagnostic *why) {
    const LinearAttention &a = plan.linear();
    LinearGradientTile &tile = plan.tile;
    const bool cpu = caps.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU;
    if (a.isDelta() && a.stateRows > mostDeltaRows)
        return refuse(gradientWords, "has a delta rule with more than 256 key dims, which one lane would have to hold", why);
    tile.lanes = std::min(cpu ? std::clamp(caps.subgroupSize, 4u, 16u) : 32u, caps.maxWorkgroupInvocations);
    tile.elementLanes = std::min(cpu ? tile.lanes : 64u, caps.maxWorkgroupInvocations);
    // What a lane loads of the side in registers is for all that it has of the other.
    const auto ownedPerLane = [&](uint32_t owned) { return owned > 2 * tile.lanes ? 4u : owned > tile.lanes ? 2u : 1u; };
    tile.rowsPerLane = ownedPerLane(a.stateRows), tile.columnsPerLane = ownedPerLane(a.valueDim);
    tile.shuffleLanes = cpu && shuffles(caps) ? std::min(caps.subgroupSize, 8u) : 0;
    constexpr uint32_t perBlock = 16, unit = 8; // whole runs of shuffled neighbours
    tile.columnsPerBlock = std::min(perBlock, roundUp(a.valueDim, unit));
    tile.rowsPerBlock = a.isDelta() ? roundUp(a.stateRows, unit) : std::min(perBlock, roundUp(a.stateRows, unit));
    if (a.isDelta() && !cpu) // the state in registers
        while (tile.columnsPerLane > 1 && tile.columnsPerLane * tile.rowsPerBlock > 128) tile.columnsPerLane /= 2;
    tile.chunkTokens = goesByTokens(a) ? 1 : cpu ? 8 : 4;
    // Loads are for all that a lane has of the other side; shorter chunks take more of them.
    const auto shrink = [](uint32_t &of, uint32_t least) { return of > least ? of /= 2, true : false; };
    while (compileOperationsOf(plan) > compileLimit(caps)) {
        const bool delta = a.isDelta();
        if (shrink(tile.rowsPerLane, 2) | shrink(tile.columnsPerLane, delta ? 1 : 2)) continue;
        if (shrink(tile.columnsPerBlock, 8) | (!delta && shrink(tile.rowsPerBlock, 8))) continue;
        if (!shrink(tile.chunkTokens, 1)) break;
    }
    // Blocks cover either side.
    plan.rowPitch = roundUp(a.stateRows, tile.rowsPerBlock), plan.columnPitch = roundUp(a.valueDim, tile.columnsPerBlock);
    plan.rowBlocks = plan.rowPitch / tile.rowsPerBlock, plan.columnBlocks = plan.columnPitch / tile.columnsPerBlock;
    return VKATTN_OK;
}

// The words of a chunk's block, and of the states of a unit. Returns false where their numbers would leave 32 bits.
bool layOut(LinearGradientPlan &plan) {
    const LinearAttention &a = plan.linear();
    const uint64_t c = plan.tile.chunkTokens, rows = c * plan.rowPitch, columns = c * plan.columnPitch, heads = plan.groupHeads();
    const uint64_t state = uint64_t{plan.rowPitch} * plan.columnPitch;
    uint64_t words = 0;
    bool fits = true;
    const auto place = [&](uint32_t name, bool there, uint64_t count) {
        plan.words[name] = static_cast<uint32_t>(words);
        words += there ? count : 0;
        fits = fits && words <= UINT32_MAX / 4;
    };
    const bool delta = a.isDelta(), mapped = a.hasFeatures();
    place(linearGradientKeys, true, rows);
    place(linearGradientRows, true, heads * rows);
    place(linearGradientFactors, a.isGated() || plan.rowFactors(), plan.rowFactors() ? rows : c);
    place(linearGradientValues, true, columns);
    place(linearGradientGiven, true, plan.readHeads() * columns);
    place(linearGradientStrengths, delta, c);
    place(linearGradientPairs, true, (heads + 1 + plan.readHeads()) * c * c);
    place(linearGradientKeysToEnd, plan.rowFactors(), rows);
    place(linearGradientRowsFromStart, plan.rowFactors(), plan.readHeads() * rows);
    place(linearGradientChunkFactors, plan.rowFactors(), plan.rowPitch);
    place(linearGradientInverses, mapped, heads * c);
    place(linearGradientOfDenominators, mapped, heads * c);
    place(linearGradientNormalizers, mapped, rows);
    place(linearGradientStates, a.isGated(), state);
    place(linearGradientReads, a.isGated(), uint64_t{plan.columnBlocks} * plan.readHeads() * rows);
    place(linearGradientDRows, true, uint64_t{plan.columnBlocks} * plan.readHeads() * rows);
    place(linearGradientDKeys, plan.needsRows(), plan.columnBlocks * rows);
    place(linearGradientDDecays, plan.needsRows() && a.isGated(), plan.columnBlocks * rows);
    place(linearGradientDValues, !delta && plan.needsColumns(), plan.rowBlocks * columns);
    place(linearGradientDifferences, delta, columns);
    place(linearGradientDStrengths, delta, columns);
    plan.words[linearGradientRowPitch] = plan.rowPitch, plan.words[linearGradientColumnPitch] = plan.columnPitch;
    plan.words[linearGradientBlockWords] = static_cast<uint32_t>(words);
    const Tensor &k = a.tensor(VKATTN_K);
    for (int axis = 0; axis < 4; ++axis)
        plan.words[linearGradientKeyStrides + axis] = k.extent[axis] == 1 && axis == 0 ? 0 : stride(k, axis);
    plan.words[linearGradientKeyStrides + 4] = std::max(k.extent[1], 1u);
    plan.outwardRecord = static_cast<uint32_t>(state * (delta ? 2 : 1) + 2ull * plan.rowPitch);
    plan.backRecord = static_cast<uint32_t>(state * 2 + 2ull * plan.rowPitch);
    return fits && 2 * state + 2ull * plan.rowPitch <= UINT32_MAX / 4;
}

// Bytes that the states of a unit take, kept before each span and behind the last.
uint64_t unitBytes(const LinearGradientPlan &plan, uint64_t spans) {
    return 4 * ((spans + 1) * plan.outwardRecord + plan.backRecord);
}

// Rounds of all loops of a lane of a scan for a chunk; where a loop is left counts as one more.
uint64_t roundsOfChunk(const LinearGradientPlan &plan) {
    return 3 + plan.readHeads() + (plan.linear().hasMaximum() ? plan.tile.chunkTokens * (2ull + plan.groupHeads()) : 0);
}
// Of a lane of the other stages, whatever a span is.
uint64_t roundsOfElement(const LinearGradientPlan &plan) {
    const LinearAttention &a = plan.linear();
    const uint64_t rows = (2ull + plan.columnBlocks) * (plan.rowPitch + 1) + plan.rowPitch + 1;
    uint64_t most = std::max<uint64_t>(rows, std::max(a.valueDim, a.keyDim) + 2ull);
    for (const LinearGradientOperand &each : linearGradientOperands()) {
        const Tensor &t = plan.gradient.tensor(each.role);
        if (!each.output || !each.layout || !t.present() || each.role == VKATTN_D_STATE_IN) continue;
        const uint64_t parts = uint64_t{plan.gradient.headsOf(each.role)} / t.extent[1] * (t.extent[0] < a.batch ? a.batch : 1);
        const uint64_t ofPart = 2 + std::max(plan.columnBlocks, plan.rowBlocks) + (a.randomFeatures() ? a.stateRows : 0);
        const uint64_t elements = a.randomFeatures() && each.role != VKATTN_D_V ? 1 : divideUp(t.extent[3], plan.tile.elementLanes);
        most = std::max(most, elements * (parts * ofPart + a.batch + 1));
    }
    return most;
}

bool sharesBatches(const LinearGradient &g) {
    for (const vkattn_role role : {VKATTN_D_DECAY, VKATTN_D_WRITE_STRENGTH})
        if (g.uses(role) && g.tensor(role).extent[0] < g.forward.batch) return true;
    return false;
}

// What is bound of an operand: so many batch entries of it.
struct BoundPart {
    const char *name = "";
    uint64_t bytes = 0;
};
BoundPart largestOperand(const LinearGradient &g, uint32_t batches) {
    BoundPart largest;
    const auto consider = [&](const char *name, const Tensor &t) {
        const uint32_t *e = t.extent;
        const uint64_t bytes = t.present() ? t.span({{}, {std::min(batches, e[0]), e[1], e[2], e[3]}}).size() : 0;
        if (bytes > largest.bytes) largest = {name, bytes};
    };
    for (const LinearOperand &each : linearOperands())
        if (each.layout && !each.output) consider(each.name, g.forward.tensor(each.role));
    for (const LinearGradientOperand &each : linearGradientOperands())
        if (each.layout) consider(each.name, g.tensor(each.role));
    return largest;
}

vkattn_result cut(const PlanLimits &limits, LinearGradientPlan &plan, vkattn_diagnostic *why) {
    const Caps &caps = limits.caps;
    const LinearGradient &g = plan.gradient;
    const LinearAttention &a = g.forward;
    const LinearGradientTile &tile = plan.tile;
    if (roundsOfElement(plan) > maxKeysPerLane)
        return refuse(gradientWords, "has more features, heads or batch entries that share an operand than one shader may loop over", why);
    const uint64_t ends = divideUp((plan.columnPitch + 2) * plan.rowPitch, tile.elementLanes);
    if (a.heads > caps.maxWorkgroupCount[1] || ends > caps.maxWorkgroupCount[0])
        return refuse(gradientWords, "has more heads, or a larger state, than the device has workgroups", why);
    const uint64_t environment = roundUpTo(4ull * linearGradientEnvironmentWords, plan.workspaceAlignment);
    const uint64_t blockBytes = 4ull * plan.words[linearGradientBlockWords];
    const auto bytes = [&](uint64_t batches, uint64_t spanChunks) {
        return environment + batches * a.stateHeads * (unitBytes(plan, ceilDiv(plan.chunks, spanChunks)) + spanChunks * blockBytes);
    };
    const auto operandsFit = [&](uint32_t batches) { return largestOperand(g, batches).bytes <= mostBindable(caps); };
    if (const auto [name, size] = largestOperand(g, 1); size > mostBindable(caps))
        return refuseOperand(gradientWords, "one batch entry", name, size, caps, why);
    // What one dispatch of a stage may have of chunks: workgroups, and rounds of loops.
    const uint64_t perChunk =
        std::max<uint64_t>(plan.readHeads() * uint64_t{tile.chunkTokens} * std::max({plan.rowPitch, plan.columnPitch, tile.elementLanes}),
                           (plan.groupHeads() + 1ull + plan.readHeads()) * tile.chunkTokens * tile.chunkTokens);
    const uint32_t most = largest(plan.chunks, [&](uint32_t n) {
        return n * roundsOfChunk(plan) <= maxKeysPerLane && ceilDiv(n * perChunk, tile.elementLanes) <= caps.maxWorkgroupCount[0];
    });
    if (most == 0) return refuse(gradientWords, "has a chunk that takes more than the device's limits allow", why);
    // The fewest spans within the cap; states that are kept grow as blocks shrink, and about the square root of the chunks is least.
    const auto leastBytes = [&](uint64_t batches, uint32_t &chunks) {
        uint64_t least = UINT64_MAX;
        for (uint64_t n = 1; n / 2 < most; n *= 2) {
            const auto each = static_cast<uint32_t>(std::min<uint64_t>(n, most));
            if (const uint64_t own = bytes(batches, each); own < least) least = own, chunks = each;
        }
        return least;
    };
    const uint64_t budget = std::min<uint64_t>(limits.maxWorkspaceBytes, mostBindable(caps));
    uint32_t leanest = 1;
    plan.batches = largest(std::min(a.batch, caps.maxWorkgroupCount[2]),
                           [&](uint32_t n) { return operandsFit(n) && leastBytes(n, leanest) <= budget; });
    plan.batches = std::max(plan.batches, 1u);
    if (sharesBatches(g) && plan.batches < a.batch) {
        plan.batches = a.batch;
        if (const auto [name, size] = largestOperand(g, a.batch); size > mostBindable(caps))
            return refuseOperand(gradientWords, "all batch entries, over which gradients are summed,", name, size, caps, why);
        if (a.batch > caps.maxWorkgroupCount[2])
            return fail(why, VKATTN_ERROR_UNSUPPORTED, "%s sums over %u batch entries; the device's maxComputeWorkGroupCount[2] is %u; %s",
                        gradientWords.name, a.batch, caps.maxWorkgroupCount[2], gradientWords.instead);
    }
    const uint64_t least = leastBytes(plan.batches, leanest);
    // The least may exceed the cap, but not what a binding holds.
    if (!bindable(caps, least)) return refuseWorkspace(gradientWords, least, caps, why);
    plan.spanChunks = leanest;
    for (uint32_t spans = 1; least <= budget && divideUp(plan.chunks, spans) > leanest; ++spans) {
        const uint32_t chunks = divideUp(plan.chunks, spans);
        if (chunks > most || bytes(plan.batches, chunks) > budget) continue;
        plan.spanChunks = chunks;
        break;
    }
    plan.spans = divideUp(plan.chunks, plan.spanChunks);
    plan.batchSteps = divideUp(a.batch, plan.batches);
    const uint64_t unit = unitBytes(plan, plan.spans), units = uint64_t{plan.batches} * a.stateHeads;
    if (unit > UINT32_MAX) return refuse(gradientWords, "needs more memory in one binding than the device has", why);
    plan.words[linearGradientUnitWords] = static_cast<uint32_t>(unit / 4);
    plan.words[linearGradientStatesAt] = static_cast<uint32_t>(environment / 4);
    plan.words[linearGradientBlocksAt] = static_cast<uint32_t>((environment + units * unit) / 4);
    plan.workspaceBytes = bytes(plan.batches, plan.spanChunks);
    plan.outwardStages = linear_gradient::stagesOf(plan, true).count;
    plan.backStages = linear_gradient::stagesOf(plan, false).count;
    return setDispatchCount(gradientWords, linear_gradient::setUpDispatches + static_cast<double>(plan.batchSteps) * plan.perStep(), plan,
                            why);
}

uint32_t boundOperands(const Schedule &schedule, BoundOperand *out) {
    const LinearGradient &g = planOf(schedule).gradient;
    uint32_t count = 0;
    for (const LinearOperand &each : linearOperands())
        if (!each.output && g.uses(each.role))
            out[count++] = {each.role, each.name, each.layout ? &g.tensor(each.role) : nullptr, g.bytesUsed(each.role), false};
    for (const LinearGradientOperand &each : linearGradientOperands())
        if (g.uses(each.role))
            out[count++] = {each.role, each.name, each.layout ? &g.tensor(each.role) : nullptr, g.bytesUsed(each.role), each.output};
    return count;
}

constexpr ScheduleType gradientSchedule = {
    .what = "operation",
    .operands = boundOperands,
    .inPlace = nullptr,
    .dispatch = [](const Schedule &schedule, uint32_t index) { return linear_gradient::dispatch(planOf(schedule), index); },
    .pipelines = [](const Schedule &schedule) { return linear_gradient::pipelines(planOf(schedule)); },
    .storageDescriptorCount =
        [](const Schedule &schedule) {
            if (schedule.dispatchCount == 0) return uint64_t{0};
            return uint64_t{linear_gradient::setUpDispatches} * plainSlots +
                   uint64_t{schedule.dispatchCount - linear_gradient::setUpDispatches} * operationSlots;
        },
    .slice = nullptr,
    .sliceOf = nullptr,
};

} // namespace

vkattn_result planLinearGradient(const LinearGradient &given, const PlanLimits &limits, LinearGradientPlan &out, vkattn_diagnostic *why) {
    const Caps &caps = limits.caps;
    out = LinearGradientPlan{};
    beginSchedule(out, gradientSchedule, "linear_gradient", "vkattn linear attention gradient", 1, caps);
    out.gradient = given;
    const LinearAttention &a = out.linear();
    if (caps.maxStorageBuffersPerStage < operationSlots)
        return fail(why, VKATTN_ERROR_UNSUPPORTED, "%s needs %u storage buffers a stage; the device has %u; %s", gradientWords.name,
                    operationSlots, caps.maxStorageBuffersPerStage, gradientWords.instead);
    out.form = linearFormOf(a);
    if (const auto r = chooseTile(caps, out, why)) return r;
    out.spans = 1;
    if (!given.hasWork()) return VKATTN_OK;
    const bool readsBehind = out.reads() && hasReadingRows(a);
    // Shorter chunks take less memory.
    for (uint32_t c = out.tile.chunkTokens;; c /= 2) {
        out.tile.chunkTokens = c;
        out.keyChunks = divideUp(a.keyTokens, c);
        // Without keys a chunk hands the state on.
        out.chunks = std::max(out.keyChunks + (readsBehind ? divideUp(a.queryTokens, c) : 0), 1u);
        vkattn_diagnostic *const told = c == 1 ? why : nullptr;
        const vkattn_result r =
            layOut(out) ? cut(limits, out, told) : refuse(gradientWords, "needs more memory in one binding than the device has", told);
        if (r == VKATTN_OK || c == 1) return r;
    }
}

void explainLinearGradient(const LinearGradientPlan &plan, const PlanLimits &limits, vkattn_explanation &out) {
    explainWhole(plan, limits, plan.dispatchCount ? linear_gradient::mainDispatch(plan) + 1 : 0, out);
    explainWorkspaceTraffic(plan, out);
    const bool chunked = plan.tile.chunkTokens > 1;
    out.form = chunked ? "chunks of tokens, rows and then columns of the state in lanes"
                       : "token by token, rows and then columns of the state in lanes";
    out.chunkCount = plan.dispatchCount ? plan.batchSteps * plan.spans : 0;
    out.rowsPerWorkgroup = plan.tile.lanes * plan.tile.rowsPerLane;
    out.keysPerStep = plan.tile.chunkTokens;
    out.flops = out.flopsFull = plan.gradient.flops();
    out.compileOperations = compileOperationsOf(plan);
    std::snprintf(out.choice, sizeof out.choice, "%s",
                  !chunked ? "the tokens are few, it was asked for, or longer chunks would take too long to compile"
                  : plan.spans > 1
                      ? "states are kept before each span of chunks and computed again on the way back, as the workspace allows"
                      : "the workspace takes all chunks at once: no state is computed twice");
}

} // namespace vkattn
