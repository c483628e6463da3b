#include "core/visible_blocks/visible_blocks_plan.hpp"

#include "core/kernels/explain.hpp"
#include "core/kernels/flash.hpp"
#include "core/plan/chunks.hpp"
#include "core/plan/tuning/table.hpp"
#include "core/shaders/shaders.hpp"
#include "core/tiles/passes.hpp"
#include "util/diagnostic.hpp"

#include <algorithm>
#include <cstdio>

namespace vkattn {
namespace {

// In messages.
constexpr TiledOperation blocksWords = {"lists of visible blocks", true, "compute them on the CPU"};

// A CPU's vector has keys of a query side by side, and goes on with the next ones: what a query knows is found once
// for all of them.
uint32_t lanesOf(const Caps &caps) {
    return caps.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU ? std::clamp(caps.subgroupSize, 4u, 64u) : 64u;
}

constexpr const VisibleBlocksPlan &planOf(const Schedule &schedule) {
    return static_cast<const VisibleBlocksPlan &>(schedule);
}

uint32_t queriesOfBlock(const VisibleBlocks &v) {
    return std::min(v.lists.blocks.queries, std::max(v.attention.queryTokens, 1u));
}
uint32_t keysOfBlock(const VisibleBlocks &v) {
    return std::min(v.lists.blocks.keys, std::max(v.attention.keyTokens, 1u));
}
// Rows of blocks from one batch entry or head to the next. The only one has none behind it.
uint64_t rowsOfEntry(const VisibleBlocks &v) {
    return uint64_t{v.lists.blocks.heads} * v.lists.blockRows;
}
uint64_t rowsOfHead(const VisibleBlocks &v) {
    return v.lists.blockRows;
}
bool hasIndices(vkattn_role role) {
    return role == VKATTN_BLOCK_INDICES || role == VKATTN_FULL_BLOCK_INDICES;
}

// The rows of a list that a chunk writes, from the first to the last; what lies between them is of other chunks.
struct ListRows {
    uint64_t first, end;
};
ListRows listRows(const VisibleBlocks &v, const Chunk &c) {
    const uint64_t first = c.batchFirst * rowsOfEntry(v) + c.headFirst * rowsOfHead(v) + c.queryFirst / queriesOfBlock(v);
    return {first, first + (c.batches - 1) * rowsOfEntry(v) + (c.heads - 1) * rowsOfHead(v) + ceilDiv(c.queries, queriesOfBlock(v))};
}
uint64_t wordsOfRow(const VisibleBlocks &v, vkattn_role role) {
    return hasIndices(role) ? v.lists.blocks.entries : 1;
}

// Rounds of all loops of a lane that goes over so many keys: a query a round, and for each the keys of a block. Where
// a loop is left counts as one more.
uint64_t roundsOf(const VisibleBlocks &v, uint32_t lanes, uint64_t keys) {
    const uint64_t ofBlock = uint64_t{queriesOfBlock(v)} * (2 + ceilDiv(keysOfBlock(v), lanes));
    return ceilDiv(keys, keysOfBlock(v)) * (ofBlock + 2) + skipRounds(v.attention, queriesOfBlock(v)).of(keys, keysOfBlock(v));
}

struct BlocksLimits {
    const VisibleBlocksPlan &plan;
    const Caps &caps;
    const VisibleBlocks &v = plan.blocks;
    uint32_t rowTile = queriesOfBlock(v), keyTile = keysOfBlock(v), headTile = 1, sliceQueries = rowTile, sliceKeys = keyTile;

    [[nodiscard]] bool keysFit(const ChunkShape &s) const { return roundsOf(v, plan.lanes, s.keys) <= maxKeysPerLane; }
    [[nodiscard]] bool rowsFit(const ChunkShape &s) const {
        const ListRows rows = listRows(v, {0, s.batches, 0, s.heads, 0, s.queries, 0, s.keys});
        return ceilDiv(s.queries, rowTile) <= caps.maxWorkgroupCount[0] &&
               bindable(caps, 4 * rows.end * std::max(v.lists.blocks.entries, 1u));
    }
    [[nodiscard]] uint64_t workspaceBytes(const ChunkShape &) const { return 0; }
};

uint32_t boundOperands(const Schedule &schedule, BoundOperand *out) {
    const VisibleBlocks &v = planOf(schedule).blocks;
    uint32_t count = 0;
    for (const OperandRule &rule : operandTable)
        if (v.uses(rule.role))
            out[count++] = {rule.role, rule.name, rule.layout ? &v.tensor(rule.role) : nullptr, v.bytesUsed(rule.role),
                            v.writes(rule.role)};
    return count;
}

Environment environmentOf(const Problem &p) {
    Environment e{};
    setReach(e, p);
    flash::setOptionWords(e, p);
    return e;
}

// Where the push constants have the base of an operand of a pair term.
size_t baseOf(uint32_t slot) {
    switch (slot) {
    case slotBias:
        return offsetof(VisibleBlocksPush, biasBase);
    case slotMask:
        return offsetof(VisibleBlocksPush, maskBase);
    case slotIdsQ:
        return offsetof(VisibleBlocksPush, idsQBase);
    default:
        return offsetof(VisibleBlocksPush, idsKBase);
    }
}

struct ListSlot {
    vkattn_role role;
    uint32_t slot;
    size_t base;
};
constexpr ListSlot listSlots[] = {
    {VKATTN_BLOCK_COUNTS, slotBlockCounts, offsetof(VisibleBlocksPush, countsBase)},
    {VKATTN_BLOCK_INDICES, slotBlockIndices, offsetof(VisibleBlocksPush, indicesBase)},
    {VKATTN_FULL_BLOCK_COUNTS, slotFullBlockCounts, offsetof(VisibleBlocksPush, fullCountsBase)},
    {VKATTN_FULL_BLOCK_INDICES, slotFullBlockIndices, offsetof(VisibleBlocksPush, fullIndicesBase)},
};

void makeChunk(const VisibleBlocksPlan &plan, const Chunk &c, bool first, Dispatch &d) {
    const VisibleBlocks &v = plan.blocks;
    const Problem &p = plan.problem();
    VisibleBlocksPush push{};
    push.queryFirst = c.queryFirst, push.queries = c.queries;
    push.keyFirst = c.keyFirst, push.keys = c.keys;
    push.headFirst = c.headFirst, push.heads = c.heads;
    push.blockQueries = queriesOfBlock(v), push.blockKeys = keysOfBlock(v);
    push.entries = v.lists.blocks.entries;
    push.rowsOfEntry = static_cast<uint32_t>(rowsOfEntry(v)), push.rowsOfHead = static_cast<uint32_t>(rowsOfHead(v));
    push.order = (first ? orderFirst : 0) | (v.full() ? listsFull : 0);
    setPush(d, push);

    d.operandCount = fullSlots;
    const Operand environment = flash::environmentOperand(plan.forward, sizeof(Environment), false);
    std::fill(d.operands, d.operands + fullSlots, standIn(environment));
    d.operands[slotEnvironment] = environment;
    d.operands[slotLengths] = lengthsOperand(plan.forward, c, offsetof(VisibleBlocksPush, lengthsBase), environment);
    for (const PairTermOperand &each : pairTermOperands)
        if (c.keys && each.slot != noSlot && p.uses(each.role)) d.operands[each.slot] = chunkOperand(p, each.role, c, baseOf(each.slot));
    const ListRows rows = listRows(v, c);
    for (const ListSlot &each : listSlots) {
        // Shaders write these bindings, and a validation layer cannot see that this dispatch does not.
        const uint64_t words = v.writes(each.role) ? wordsOfRow(v, each.role) : 0;
        Operand list = arrayOperand(each.role, rows.first * words, (rows.end - rows.first) * words, rows.first * words, each.base);
        list.writes = true;
        d.operands[each.slot] = words ? list : standIn(d.operands[slotBlockCounts]);
    }
    d.groups[0] = static_cast<uint32_t>(ceilDiv(c.queries, queriesOfBlock(v)));
    d.groups[1] = 1;
    d.groups[2] = c.batches * c.heads;
    d.key = pipelineKey(Module::visibleBlocks, plan.lanes, {.pairTerms = plan.pairTerms}, {plan.lanes});
}

Dispatch dispatchOf(const VisibleBlocksPlan &plan, uint32_t index) {
    Dispatch d;
    d.operandCount = plainSlots;
    const Plan &forward = plan.forward;
    if (index < forward.setUpDispatches) {
        const auto environment = flash::wordsOf<environmentWords>(environmentOf(plan.problem()));
        const std::span<const uint32_t> words = environment;
        flash::makeSetUp(forward, sizeof(Environment), words.first(flash::environmentWordsOf(plan.problem())), Module::environment, index,
                         d);
        return d;
    }
    const uint32_t chunk = index - forward.setUpDispatches, keyChunk = chunk % forward.keyChunks;
    Chunk c = rowsOfChunk(forward, chunk / forward.keyChunks);
    c.keyFirst = keyChunk * forward.chunkKeys;
    c.keys = std::min(forward.chunkKeys, plan.problem().keyTokens - c.keyFirst);
    makeChunk(plan, c, keyChunk == 0, d);
    d.barrierBefore = true; // chunks of keys go on with lists, and bindings of chunks may overlap
    return d;
}

Dispatch dispatchWithProgramOf(const Schedule &schedule, uint32_t index) {
    const VisibleBlocksPlan &plan = planOf(schedule);
    return dispatchWithProgram(plan.problem(), [&] { return dispatchOf(plan, index); });
}

PipelineSet pipelinesOf(const Schedule &schedule) {
    const VisibleBlocksPlan &plan = planOf(schedule);
    PipelineSet set;
    if (plan.dispatchCount == 0) return set;
    // The dispatches behind the set-up are alike.
    for (uint32_t n = 0; n <= plan.forward.setUpDispatches; ++n) set.add(dispatchWithProgramOf(plan, n).key);
    return set;
}

constexpr ScheduleType blocksSchedule = {
    .what = "operation",
    .operands = boundOperands,
    .inPlace = nullptr,
    .dispatch = dispatchWithProgramOf,
    .pipelines = pipelinesOf,
    .storageDescriptorCount =
        [](const Schedule &schedule) {
            const uint32_t setUp = planOf(schedule).forward.setUpDispatches;
            if (schedule.dispatchCount == 0) return uint64_t{0};
            return uint64_t{setUp} * plainSlots + uint64_t{schedule.dispatchCount - setUp} * fullSlots;
        },
    .slice = nullptr,
    .sliceOf = nullptr,
};

} // namespace

vkattn_result planVisibleBlocks(const VisibleBlocks &given, const PlanLimits &limits, VisibleBlocksPlan &out, vkattn_diagnostic *why) {
    const Caps &caps = limits.caps;
    out = VisibleBlocksPlan{};
    beginSchedule(out, blocksSchedule, "visible blocks", "vkattn visible blocks", 1, caps);
    out.blocks = given;
    Plan &forward = out.forward;
    forward.problem = given.attention;
    const Problem &p = forward.problem;
    if (caps.maxStorageBuffersPerStage < fullSlots)
        return fail(why, VKATTN_ERROR_UNSUPPORTED, "%s need %u storage buffers a stage; the device has %u; %s", blocksWords.name, fullSlots,
                    caps.maxStorageBuffersPerStage, blocksWords.instead);
    out.lanes = lanesOf(caps);
    if (caps.maxWorkgroupInvocations < out.lanes || caps.maxWorkgroupSize[0] < out.lanes)
        return refuse(blocksWords, "need larger workgroups than the device has", why);
    out.pairTerms = pairTermsOf(p);
    if (p.queryTokens == 0) return VKATTN_OK; // nothing to write
    if (roundsOf(given, out.lanes, keysOfBlock(given)) > maxKeysPerLane)
        return fail(why, VKATTN_ERROR_UNSUPPORTED,
                    "blocks of %u x %u pairs take more rounds of a loop than one dispatch may have; make blocks smaller",
                    queriesOfBlock(given), keysOfBlock(given));
    if (const auto r = startPlan(limits, forward, why)) return r;
    if (!flash::placeEnvironment(forward, flash::environmentWordsOf(p), sizeof(Environment), caps))
        return refuse(blocksWords, "need more memory in one binding than the device has", why);

    const BlocksLimits own = {out, caps};
    Chunker chunker(p, limits, own, forward.setUpBytes);
    ChunkShape shape{};
    if (!chunker.choose(shape, why)) return VKATTN_ERROR_UNSUPPORTED;
    if (shape.queries < queriesOfBlock(given))
        return fail(why, VKATTN_ERROR_UNSUPPORTED,
                    "a row of blocks of %u queries is more than the device binds at a time; make blocks smaller", queriesOfBlock(given));
    setChunks(forward, shape);
    out.workspaceBytes = forward.setUpBytes;
    const double count = static_cast<double>(forward.chunkCount()) + forward.setUpDispatches;
    if (const auto r = setDispatchCount(blocksWords, count, out, why)) return r;
    return checkProgram(p, pipelinesOf(out), out.kernelName, why);
}

void explainVisibleBlocks(const VisibleBlocksPlan &plan, const PlanLimits &limits, vkattn_explanation &out) {
    explainWhole(plan, limits, plan.forward, out);
    out.form = "keys of a block in lanes";
    out.chunkCount = plan.dispatchCount ? plan.forward.chunkCount() : 0;
    out.rowsPerWorkgroup = queriesOfBlock(plan.blocks);
    out.keysPerStep = keysOfBlock(plan.blocks);
    std::snprintf(out.choice, sizeof out.choice, "it asks for every pair of a block that position and rules do not rule out");
}

} // namespace vkattn
