#include "core/linear/linear_plan.hpp"

#include "core/kernels/explain.hpp"
#include "core/linear/linear_form.hpp"
#include "core/plan/chunks.hpp"
#include "core/plan/tuning/compile_cost.hpp"
#include "core/tiles/passes.hpp"
#include "util/diagnostic.hpp"

#include <algorithm>
#include <bit>
#include <cstdio>

namespace vkattn {
namespace {

// In messages.
constexpr TiledOperation linearWords = {"linear attention", false, "compute it on the CPU"};
// More tokens than there are, without snapshots.
constexpr uint32_t noSnapshots = 1u << 30;

constexpr const LinearPlan &planOf(const Schedule &schedule) {
    return static_cast<const LinearPlan &>(schedule);
}

bool onCpu(const Caps &caps) {
    return caps.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU;
}

// What a lane multiplies and adds for a chunk, after its loops are unrolled.
uint64_t compileOperationsOf(const LinearPlan &plan) {
    const LinearTile &tile = plan.tile;
    if (plan.singleToken()) {
        const uint64_t block = uint64_t{tile.blockRows} * tile.columnsPerLane; // loaded twice, stored once
        return block * (5 + 3 * compileOperationsPerAccess) +
               4ull * compileOperationsPerAccess * divideUp(tile.blockRows, std::max(tile.shuffleLanes, 1u));
    }
    const uint64_t product = uint64_t{tile.chunkTokens} * tile.rowsPerLane * tile.columnsPerLane;
    const uint64_t pairs = uint64_t{tile.chunkTokens} * tile.chunkTokens * tile.columnsPerLane;
    return product * (plan.linear.isDelta() ? 3 : 2) + pairs +
           compileOperationsPerAccess * tile.chunkTokens *
               (2ull * tile.columnsPerLane + 3 * divideUp(tile.rowsPerLane, std::max(tile.shuffleLanes, 1u)));
}

// One token of a recurrent rule that nothing but its own row reads after: of it token.comp needs no products beforehand.
bool isSingleToken(const LinearAttention &a) {
    return a.keyTokens == 1 && a.form != VKATTN_LINEAR_FORM_CHUNKED && !a.hasFeatures() && !a.has(VKATTN_KEY_LENGTHS) &&
           a.snapshotCount() == 0 && (!a.uses(VKATTN_OUT) || (a.queryTokens == 1 && a.heads == a.stateHeads));
}

// A software driver's loads and stores are what a token costs, and not its multiply-adds; a GPU keeps a lane's rows in registers.
vkattn_result chooseTokenTile(const Caps &caps, LinearPlan &plan, vkattn_diagnostic *why) {
    const LinearAttention &a = plan.linear;
    LinearTile &tile = plan.tile;
    const uint32_t mostColumns = onCpu(caps) ? 4 : 2;
    tile.chunkTokens = tile.blockTokens = 1;
    tile.featureLanes = tile.prepareLanes = 1; // of stages that there are not
    tile.shuffleLanes = onCpu(caps) && shuffles(caps) ? caps.subgroupSize : 0;
    tile.columnLanes = onCpu(caps) ? std::clamp(caps.subgroupSize, 4u, 16u) : 16u;
    tile.columnsPerLane = mostColumns;
    while (tile.columnsPerLane > 2 && tile.columnsPerLane * tile.columnLanes > a.valueDim) tile.columnsPerLane /= 2;
    tile.blockRows = onCpu(caps) ? std::max(tile.shuffleLanes, 8u) : 32u;
    const uint32_t blocks = divideUp(a.stateRows, tile.blockRows),
                   mostLanes = std::min(caps.maxWorkgroupInvocations, caps.maxWorkgroupSize[0]);
    tile.rowLanes = onCpu(caps) ? 1 : std::clamp(mostLanes / tile.columnLanes, 1u, std::min(blocks, 16u));
    tile.rowsPerLane = divideUp(blocks, tile.rowLanes) * tile.blockRows;
    if (tile.lanes() > mostLanes) return refuse(linearWords, "has lanes for no column of a state", why);
    return VKATTN_OK;
}

// A product with omega: each load of omega serves all slots of the workgroup, and each of a token all features of a lane.
// 16 slots and 4 features are 64 sums in registers.
void chooseMapTile(const LinearAttention &a, LinearTile &tile) {
    constexpr uint32_t mostSlots = 16, mostFeatures = 4;
    const uint32_t tokens = std::max({a.keyTokens, a.queryTokens, 1u});
    tile.mapChunks = std::max(std::min(mostSlots, tokens) / tile.chunkTokens, 1u);
    tile.mapFeatures = std::clamp(divideUp(a.randomFeatures(), tile.featureLanes), 1u, mostFeatures);
}

// Tiles were not timed on a GPU yet.
vkattn_result chooseTile(const Caps &caps, LinearPlan &plan, vkattn_diagnostic *why) {
    const LinearAttention &a = plan.linear;
    LinearTile &tile = plan.tile;
    if (isSingleToken(a)) return chooseTokenTile(caps, plan, why);
    const bool shuffled = onCpu(caps) && shuffles(caps);
    tile.shuffleLanes = shuffled ? caps.subgroupSize : 0;
    tile.columnLanes = onCpu(caps) ? std::clamp(caps.subgroupSize, 4u, 16u) : 16u;
    // What keys and queries are loaded for is a lane's columns: 8 of them took 0.65 of the time of 4, of which loads were half
    // (4,096 tokens, 8 heads of 64, Mesa 26 and 22, 2026-11-26).
    const uint32_t mostColumns = onCpu(caps) ? 8 : 4,
                   mostElements = onCpu(caps) ? 512 : 128; // of the state, in a first-level cache or registers
    tile.columnsPerLane = mostColumns;
    while (tile.columnsPerLane > 2 &&
           (tile.columnsPerLane * tile.columnLanes > a.valueDim || tile.columnsPerLane * a.stateRows > mostElements))
        tile.columnsPerLane /= 2;
    const uint32_t mostRows = mostElements / std::max(tile.columnsPerLane, 4u);
    const uint32_t unit = std::max(tile.shuffleLanes, 8u);
    tile.rowLanes = divideUp(a.stateRows, mostRows);
    tile.rowsPerLane = roundUp(divideUp(a.stateRows, tile.rowLanes), unit);
    const bool few = goesByTokens(a);
    tile.pairsShuffle = caps.subgroupShuffle && caps.subgroupSize >= 4;
    tile.chunkTokens = few ? 1 : tile.pairsShuffle ? std::min(std::bit_floor(caps.subgroupSize), 8u) : 4;
    tile.blockTokens = std::min(tile.chunkTokens, 2u);
    const auto partials = [&] { return 4ull * tile.chunkTokens * tile.columnsPerLane * tile.lanes(); };
    while (tile.chunkTokens > 1 &&
           (compileOperationsOf(plan) > compileLimit(caps) || (tile.rowLanes > 1 && partials() > caps.maxSharedMemoryBytes))) {
        tile.chunkTokens /= 2;
        tile.blockTokens = std::min(tile.chunkTokens, 2u);
    }
    const uint64_t edges = 2ull * compileOperationsPerAccess * tile.rowsPerLane * tile.columnsPerLane;
    tile.edgeRows = compileOperationsOf(plan) + edges <= compileLimit(caps) ? tile.rowsPerLane : 8u;
    tile.wholeSubgroups = tile.pairsShuffle && onCpu(caps) && tile.chunkTokens == caps.subgroupSize; // whose size does not vary
    tile.featureLanes = onCpu(caps) ? tile.columnLanes : 64;
    tile.prepareLanes = onCpu(caps) ? std::max(tile.chunkTokens, tile.columnLanes) : 64;
    chooseMapTile(a, tile);
    if (tile.rowLanes > 1 && partials() > caps.maxSharedMemoryBytes)
        return refuse(linearWords, "has a state of more rows than the device's shared memory takes", why);
    const uint32_t most = std::max({tile.lanes(), tile.featureLanes, tile.prepareLanes});
    if (most > caps.maxWorkgroupInvocations || most > caps.maxWorkgroupSize[0])
        return refuse(linearWords, "has a state of more rows than the device's workgroups have lanes for", why);
    return VKATTN_OK;
}

uint32_t formOf(const LinearAttention &a) {
    return linearFormOf(a) | (a.uses(VKATTN_STATE_OUT) ? formLinearStateOut : 0) | (a.snapshotCount() ? formLinearSnapshots : 0) |
           (a.uses(VKATTN_OUT) && a.queryTokens ? formLinearRows : 0) |
           (a.hasFeatures() && a.features == VKATTN_FEATURES_ELU1 ? formLinearElu1 : 0) |
           (a.hasFeatures() && a.features == VKATTN_FEATURES_RELU && !a.randomFeatures() ? formLinearRelu : 0);
}

void layOutBlock(LinearPlan &plan) {
    const LinearAttention &a = plan.linear;
    const uint32_t c = plan.tile.chunkTokens, group = plan.groupHeads(), slots = c * plan.rowPitch;
    uint32_t words = 3 * c + c * c + group * c * c; // three factors of slots, pairs of keys and of rows
    const auto place = [&](uint32_t &at, bool there, uint32_t count) {
        at = words;
        words += there ? count : 0;
    };
    LinearBlock &block = plan.block;
    if (plan.singleToken()) return;
    place(block.read, true, group * c);
    place(block.factors, plan.inArrays(), plan.rowPitch);
    place(block.keysToEnd, plan.inArrays(), slots);
    place(block.keys, plan.inArrays() && a.isDelta(), slots);
    place(block.rows, plan.inArrays(), group * slots);
    place(block.keyMap, plan.storesFeatures(), slots);
    place(block.rowMap, plan.storesFeatures(), group * slots);
    place(block.norm, plan.mapped(), 2 * plan.rowPitch);
    block.words = words;
}

// Rounds of all loops of a lane, of the stage that has most for a chunk; where a loop is left counts as one more.
uint64_t roundsOfChunk(const LinearPlan &plan) {
    const LinearTile &tile = plan.tile;
    if (plan.singleToken()) return 2 + 2ull * (tile.rowsPerLane / tile.blockRows + 1) + tile.rowLanes;
    const uint64_t product = tile.rowLanes > 1 ? tile.rowLanes + 1 : 0, edges = tile.rowsPerLane / tile.edgeRows + 1;
    return 3 + product + plan.groupHeads() * (3 + product + tile.chunkTokens) + (plan.linear.snapshotCount() ? edges : 0);
}
uint64_t roundsOfPrepare(const LinearPlan &plan) {
    if (plan.singleToken()) return 0;
    return uint64_t{plan.linear.stateRows + 1} * (3 + 4ull * plan.groupHeads());
}

uint64_t chunkBytes(const LinearPlan &plan, uint64_t batches) {
    return plan.singleToken() ? 0 : 4 * batches * plan.headsOfPart() * plan.block.words;
}

// What a dispatch binds of an operand: of so many batch entries some of the heads.
uint64_t boundBytes(const Tensor &t, uint32_t batches, const linear::HeadRange &heads) {
    return t.span({{}, {batches, heads.count, t.extent[2], t.extent[3]}}).size();
}
// Whether each operand of so many batch entries fits a binding, and a dispatch takes the heads, cut into parts of these.
bool operandsFit(const LinearPlan &plan, const Caps &caps, uint32_t batches, uint32_t parts) {
    const LinearAttention &a = plan.linear;
    if (a.stateHeads % parts || a.heads % parts || a.stateHeads / parts > caps.maxWorkgroupCount[1]) return false;
    for (const LinearOperand &each : linearOperands()) {
        const Tensor &t = a.tensor(each.role);
        if (!each.layout || !t.present()) continue;
        const linear::HeadRange heads = linear::headsOfPart(a, t.extent[1], 0, parts);
        if (heads.count == 0 || !bindable(caps, boundBytes(t, batches, heads))) return false;
    }
    return true;
}
vkattn_result refuseOperands(const LinearAttention &a, const Caps &caps, vkattn_diagnostic *why) {
    bool apart = true; // whether the heads of each operand can be cut
    for (const LinearOperand &each : linearOperands())
        if (const Tensor &t = a.tensor(each.role); each.layout && t.present())
            apart = apart && linear::headsOfPart(a, t.extent[1], 0, a.stateHeads).count != 0;
    for (const LinearOperand &each : linearOperands())
        if (const Tensor &t = a.tensor(each.role); each.layout && t.present())
            if (const uint64_t bytes = boundBytes(t, 1, linear::headsOfPart(a, t.extent[1], 0, apart ? a.stateHeads : 1));
                !bindable(caps, bytes))
                return refuseOperand(linearWords, apart ? "one state head" : "one batch entry, whose heads this mapping keeps together,",
                                     each.name, bytes, caps, why);
    return refuse(linearWords, "has more heads than the device has workgroups, and this mapping keeps them together", why);
}

vkattn_result cut(const PlanLimits &limits, LinearPlan &plan, vkattn_diagnostic *why) {
    const Caps &caps = limits.caps;
    const LinearAttention &a = plan.linear;
    if (roundsOfPrepare(plan) > maxKeysPerLane)
        return refuse(linearWords, "has more features, or more heads of out to a state, than one shader may loop over", why);
    if (divideUp(a.valueDim, plan.tile.columns()) > caps.maxWorkgroupCount[0])
        return refuse(linearWords, "has more value dims than the device has workgroups", why);
    const uint64_t budget = std::min<uint64_t>(limits.maxWorkspaceBytes, mostBindable(caps));
    const auto bytes = [&](uint64_t batches, uint64_t chunks) {
        return plan.stateBegin + roundUpTo(linear::stateBytes(plan, batches), plan.workspaceAlignment) + chunks * chunkBytes(plan, batches);
    };
    // As few parts of heads as it takes for one batch entry.
    while (plan.headParts <= a.stateHeads && !operandsFit(plan, caps, 1, plan.headParts)) ++plan.headParts;
    if (plan.headParts > a.stateHeads) return refuseOperands(a, caps, why);
    // A span of a chunk or two is not worth its dispatches: one batch entry may exceed the cap, but not what a binding holds.
    const uint32_t all = std::max(plan.keyChunks, plan.rowChunks), few = std::min(all, 16u);
    plan.batches = largest(std::min(a.batch, caps.maxWorkgroupCount[2]),
                           [&](uint32_t n) { return operandsFit(plan, caps, n, plan.headParts) && bytes(n, few) <= budget; });
    plan.batches = std::max(plan.batches, 1u);
    if (!bindable(caps, bytes(1, 1))) return refuseWorkspace(linearWords, bytes(1, 1), caps, why);
    const uint32_t ofFeatures = divideUp(a.stateRows, plan.tile.featureLanes);
    uint32_t most = all;
    if (plan.slices > 1) most = std::max(divideUp(plan.keyChunks + plan.rowChunks, plan.slices), 1u);
    plan.spanChunks = largest(most, [&](uint32_t n) {
        return bytes(plan.batches, n) <= std::max(budget, std::min(bytes(plan.batches, few), mostBindable(caps))) &&
               n * roundsOfChunk(plan) <= maxKeysPerLane && uint64_t{n} * ofFeatures <= caps.maxWorkgroupCount[0];
    });
    if (plan.spanChunks == 0) return refuse(linearWords, "has a chunk that takes more than the device's limits allow", why);
    // As many spans for one slice as for another.
    if (plan.slices > 1 && plan.spanChunks < most)
        plan.spanChunks = divideUp(all, std::min(roundUp(divideUp(all, plan.spanChunks), std::min(plan.slices, all)), all));
    plan.keySpans = divideUp(plan.keyChunks, plan.spanChunks);
    plan.rowSpans = divideUp(plan.rowChunks, plan.spanChunks);
    plan.steps = divideUp(a.batch, plan.batches) * plan.headParts;
    plan.chunksBegin = bytes(plan.batches, 0);
    plan.workspaceBytes = bytes(plan.batches, std::min(plan.spanChunks, all));
    return setDispatchCount(linearWords, linear::setUpDispatches + static_cast<double>(plan.steps) * plan.perStep(), plan, why);
}

uint32_t boundOperands(const Schedule &schedule, BoundOperand *out) {
    const LinearAttention &a = planOf(schedule).linear;
    uint32_t count = 0;
    for (const LinearOperand &each : linearOperands())
        if (a.uses(each.role))
            out[count++] = {each.role, each.name, each.layout ? &a.tensor(each.role) : nullptr, a.bytesUsed(each.role), each.output};
    return count;
}

constexpr ScheduleType linearSchedule = {
    .what = "operation",
    .operands = boundOperands,
    .inPlace = [](const Schedule &schedule, vkattn_role output,
                  vkattn_role input) { return planOf(schedule).linear.inPlace(output, input); },
    .dispatch = [](const Schedule &schedule, uint32_t index) { return linear::dispatch(planOf(schedule), index); },
    .pipelines = [](const Schedule &schedule) { return linear::pipelines(planOf(schedule)); },
    .storageDescriptorCount =
        [](const Schedule &schedule) {
            if (schedule.dispatchCount == 0) return uint64_t{0};
            return uint64_t{linear::setUpDispatches} * plainSlots + uint64_t{schedule.dispatchCount - linear::setUpDispatches} * fullSlots;
        },
    .slice = [](const Schedule &schedule, uint32_t index) { return dispatchesOfSlice(sliceUnits(planOf(schedule)), index); },
    .sliceOf = [](const Schedule &schedule, uint32_t dispatch) { return sliceOfDispatch(sliceUnits(planOf(schedule)), dispatch); },
};

// Chunks before a span: one takes as long as another.
double workBeforeSpan(const Schedule &schedule, uint32_t span) {
    const LinearPlan &plan = planOf(schedule);
    const uint32_t within = span % plan.spans(), ofKeys = std::min(within, plan.keySpans);
    const uint64_t chunks = std::min<uint64_t>(uint64_t{ofKeys} * plan.spanChunks, plan.keyChunks) +
                            std::min<uint64_t>(uint64_t{within - ofKeys} * plan.spanChunks, plan.rowChunks);
    return static_cast<double>(span / plan.spans()) * (plan.keyChunks + plan.rowChunks) + static_cast<double>(chunks);
}
uint32_t firstDispatchOfSpan(const Schedule &schedule, uint32_t span) {
    return linear::firstDispatch(planOf(schedule), span);
}

} // namespace

linear::HeadRange linear::headsOfPart(const LinearAttention &a, uint32_t own, uint32_t part, uint32_t parts) {
    if (parts == 1 || own <= 1) return {0, own};
    if (a.mapping == VKATTN_HEADS_MODULO && (own != a.stateHeads || a.heads != a.stateHeads)) return {0, 0};
    if (own % parts == 0) return {own / parts * part, own / parts};
    // Several parts share a head.
    return parts % own == 0 ? HeadRange{part / (parts / own), 1} : HeadRange{0, 0};
}

uint64_t linear::stateBytes(const LinearPlan &plan, uint64_t batches) {
    if (plan.singleToken()) return 0;
    return 4 * batches * plan.headsOfPart() * (uint64_t{plan.linear.stateRows} * plan.columnPitch + 2ull * plan.rowPitch);
}

vkattn_result planLinear(const LinearAttention &given, const PlanLimits &limits, LinearPlan &out, vkattn_diagnostic *why) {
    const Caps &caps = limits.caps;
    out = LinearPlan{};
    beginSchedule(out, linearSchedule, "linear", "vkattn linear attention", given.slices, caps);
    out.linear = given;
    out.headParts = 1;
    const LinearAttention &a = out.linear;
    if (caps.maxStorageBuffersPerStage < fullSlots)
        return fail(why, VKATTN_ERROR_UNSUPPORTED, "%s needs %u storage buffers a stage; the device has %u; %s", linearWords.name,
                    fullSlots, caps.maxStorageBuffersPerStage, linearWords.instead);
    out.form = formOf(a);
    out.rowPitch = roundUp(a.stateRows, 4), out.columnPitch = roundUp(a.valueDim, 4);
    if (const auto r = chooseTile(caps, out, why)) return r;
    layOutBlock(out);
    const bool rows = out.form & formLinearRows;
    if (!rows && !a.uses(VKATTN_STATE_OUT) && a.snapshotCount() == 0) return VKATTN_OK; // nothing to write

    const uint32_t c = out.tile.chunkTokens;
    out.snapshotTokens = a.snapshotCount() ? a.snapshotTokens : noSnapshots;
    out.chunksPerSnapshot = divideUp(out.snapshotTokens, c);
    // Without keys a chunk hands the state on.
    out.keyChunks = std::max(a.keyTokens / out.snapshotTokens * out.chunksPerSnapshot + divideUp(a.keyTokens % out.snapshotTokens, c), 1u);
    out.rowChunks = rows && hasReadingRows(a) ? divideUp(a.queryTokens, c) : 0;
    out.stateBegin = roundUpTo(4ull * linearEnvironmentWords, out.workspaceAlignment);
    return cut(limits, out, why);
}

SliceUnits sliceUnits(const LinearPlan &plan) {
    return {plan, plan.dispatchCount ? plan.steps * plan.spans() : 0, workBeforeSpan, firstDispatchOfSpan};
}

uint32_t mostSlices(const LinearPlan &plan, const PlanLimits &limits) {
    LinearAttention linear = plan.linear;
    return mostSlicesWith(plan, [&](uint32_t slices, LinearPlan &finest) {
        linear.slices = slices;
        return planLinear(linear, limits, finest, nullptr);
    });
}

void explainLinear(const LinearPlan &plan, const PlanLimits &limits, vkattn_explanation &out) {
    explainWhole(plan, limits, linear::setUpDispatches + plan.spanOfKeys(), out);
    explainSlices(plan, limits, out);
    if (!plan.dispatchCount) out.largestSlice = 1;
    explainWorkspaceTraffic(plan, out);
    const bool chunked = plan.tile.chunkTokens > 1;
    out.form = plan.singleToken() ? "one token, columns of the state in lanes"
               : chunked          ? "chunks of tokens, columns of the state in lanes"
                                  : "token by token, columns of the state in lanes";
    out.chunkCount = plan.dispatchCount ? plan.steps * plan.spans() : 0;
    out.rowsPerWorkgroup = plan.tile.columns();
    out.keysPerStep = plan.tile.chunkTokens;
    out.flops = out.flopsFull = plan.linear.flops();
    out.compileOperations = compileOperationsOf(plan);
    std::snprintf(out.choice, sizeof out.choice, "%s",
                  plan.singleToken() ? "of one token the state is read and written as it lies, in one dispatch"
                  : chunked          ? "with so many tokens, products of chunks cost less than reading and writing the state for each token"
                                     : "the tokens are few, or it was asked for");
}

} // namespace vkattn
