// The dispatches of the flash and decode kernels. Once a plan: ragged batches read where the
// sequences lie; plans with options write the environment. Then, for each chunk of rows: | flash
// for each chunk of its keys, and what rows go on from; where rows have partial results: | combine. A barrier stands at every
// bar that another dispatch comes before.
#include "core/kernels/flash.hpp"

#include "core/kernels/coopmat.hpp"
#include "core/kernels/grid_tiles.hpp"
#include "core/plan/chunks.hpp"
#include "core/plan/operands.hpp"
#include "core/plan/prior.hpp"
#include "core/plan/tuning/table.hpp"

#include <algorithm>

namespace vkattn {
namespace {

// Lanes of a workgroup that gathers what heads have.
constexpr uint32_t environmentLanes = 64;

static_assert(sizeof(Environment) == 4 * environmentWords);
static_assert(offsetof(FlashPush, oBase) == offsetof(FlashPlainPush, oBase), "both forms begin alike");

// Where things lie in the workspace: the table of sequences, the environment, the partial results.
Operand ownEnvironment(const Plan &plan, bool writes) {
    return flash::environmentOperand(plan, sizeof(Environment), writes);
}
Operand partialsOperand(const Plan &plan, bool writes) {
    return {VKATTN_WORKSPACE, plan.setUpBytes, plan.workspaceBytes, plan.setUpBytes, noPushWord, 4, writes};
}

// Words that are the same in all flash dispatches of a plan: of the environment, or of the push
// constants of the form without.
template <class Words> void setPlanWords(Words &words, const Plan &plan) {
    const Problem &p = plan.problem;
    // Kernels take what no pair test is needed for before the rest: out of order where it does not begin the
    // reach. Which steps these are depends on what shares a tile, and on what rules name.
    const bool takesOutOfOrder = p.left != openWindow || p.rules.showRuns();
    const Tensor &out = p.tensor(VKATTN_OUT);
    setReach(words, p);
    words.flags |= (plan.flash.parts ? flagPartial : 0) | (p.tensor(VKATTN_LSE).present() ? flagLse : 0) |
                   (p.rowStatistics ? flagRowStatistics : 0) | (p.has(VKATTN_SINKS) ? flagSinks : 0) |
                   (p.deterministic && takesOutOfOrder ? flagFixedOrder : 0);
    words.splitKeys = plan.flash.splitKeys;
    words.dims = p.headDim | p.valueDim << 16;
    words.oBatch = stride(out, 0), words.oHead = stride(out, 1), words.oToken = stride(out, 2);
}

Environment environmentOf(const Plan &plan) {
    const Problem &p = plan.problem;
    Environment e{};
    setPlanWords(e, plan);
    flash::setOptionWords(e, p);
    e.oDim = flash::dimStride(p.tensor(VKATTN_OUT));
    const Tensor &lse = p.tensor(VKATTN_LSE);
    e.lseBatch = stride(lse, 0), e.lseHead = stride(lse, 1), e.lseToken = stride(lse, 2);
    return e;
}

Module flashModule(const Plan &plan) {
    if (plan.kernel->onMatrixUnits()) return coopmat::pipelineKey(plan).module;
    const bool subgroups = plan.flash.tile.subgroups != 0;
    return plan.flash.options ? subgroups ? Module::flashSubgroups : Module::flash
           : subgroups        ? Module::flashPlainSubgroups
                              : Module::flashPlain;
}

void makeFlash(const Plan &plan, const Chunk &c, uint32_t keyChunk, uint32_t shuffleLanes, Dispatch &d) {
    const Problem &p = plan.problem;
    const FlashShape &shape = plan.flash;
    const FlashTile &tile = shape.tile;
    const Tensor &q = p.tensor(VKATTN_Q), &k = p.tensor(p.roleAt(VKATTN_K, c.keyFirst)), &v = p.tensor(p.roleAt(VKATTN_V, c.keyFirst));
    const auto setChunkWords = [&](auto &push) {
        push.queryFirst = c.queryFirst;
        push.queries = c.queries;
        push.keyFirst = c.keyFirst;
        push.keys = c.keys;
        push.headsAndPacked = c.heads | shape.packed << 16;
        push.groupAndPhase = p.groupSize() | c.headFirst % p.groupSize() << 16;
        push.partsAndFirst = shape.parts | (flash::splitsBefore(plan, keyChunk) * tile.keyLanes + (p.goesOn() ? 1 : 0)) << 16;
        push.scale = p.scale;
        push.qBatch = stride(q, 0), push.qHead = stride(q, 1), push.qToken = stride(q, 2);
        push.kBatch = stride(k, 0), push.kHead = stride(k, 1), push.kToken = stride(k, 2);
        push.vBatch = stride(v, 0), push.vHead = stride(v, 1), push.vToken = stride(v, 2);
    };
    d.operands[slotQ] = rowsOperand(p, VKATTN_Q, c, offsetof(FlashPush, qBase));
    d.operands[slotK] = keysOperand(p, VKATTN_K, c, offsetof(FlashPush, kBase));
    d.operands[slotV] = keysOperand(p, VKATTN_V, c, offsetof(FlashPush, vBase));
    d.operands[slotOut] = shape.parts ? partialsOperand(plan, true) : rowsOperand(p, VKATTN_OUT, c, offsetof(FlashPush, oBase));
    if (shape.options) {
        FlashPush push{};
        setChunkWords(push);
        push.lseEntry = stride(p.tensor(VKATTN_LSE), 3);
        push.headFirst = c.headFirst;
        push.planeFirst = planeFirst(p, c);
        setPush(d, push);
        std::fill(d.operands + slotEnvironment, d.operands + fullSlots, standIn(d.operands[slotQ]));
        // Shaders write this binding, and a validation layer cannot see that this dispatch does
        // not.
        d.operands[slotLse] = standIn(d.operands[slotOut]);
        d.operands[slotEnvironment] = ownEnvironment(plan, false);
        d.operands[slotLengths] = lengthsOperand(plan, c, offsetof(FlashPush, lengthsBase), d.operands[slotQ]);
        if (p.tensor(VKATTN_LSE).present() && shape.parts == 0)
            d.operands[slotLse] = rowsOperand(p, VKATTN_LSE, c, offsetof(FlashPush, lseBase));
        for (const PairTermOperand &each : pairTermOperands)
            if (each.slot != noSlot && p.uses(each.role)) d.operands[each.slot] = chunkOperand(p, each.role, c, each.base);
    } else {
        FlashPlainPush push{};
        setChunkWords(push);
        setPlanWords(push, plan);
        setPush(d, push);
    }
    d.groups[0] = tilesOfRows(plan, c);
    d.groups[1] = divideUp(c.keys, shape.splitKeys);
    d.groups[2] = c.batches * (c.heads / shape.packed);
    if (plan.kernel->onMatrixUnits()) {
        d.key = coopmat::pipelineKey(plan);
        return;
    }
    const bool exact = tile.dimLanes * shape.dimsPerLane == p.headDim && tile.dimLanes * shape.valueDimsPerLane == p.valueDim;
    d.key = pipelineKey(flashModule(plan), tile.invocations(),
                        {.kvFormat = kvFormat(p, shape.dimOrder) | (shape.valuesInKeys ? 1u << formatValuesInKeys : 0) |
                                     (shape.unpacksHalves ? 1u << formatExactHalves : 0),
                         .pairTerms = shape.pairTerms,
                         .elementTypes = elementType(p, VKATTN_Q) | elementType(p, VKATTN_OUT) << typesOut,
                         .form = (exact ? formExactDims : 0) | (tile.rolledEdges ? formRolledEdges : 0) | tile.source << formSource |
                                 (namesRunsOfGrid(plan) ? formBoxRuns : 0) | plan.orderForm},
                        {tile.dimLanes, tile.keyLanes, tile.rowLanes, tile.rowsPerLane, tile.keysPerLane, shape.dimsPerLane,
                         shape.valueDimsPerLane, tile.tileKeys, shuffleLanes, shape.run, shape.valueRun});
}

void makeCombine(const Plan &plan, const Chunk &c, Dispatch &d) {
    const Problem &p = plan.problem;
    const Tensor &out = p.tensor(VKATTN_OUT), &lse = p.tensor(VKATTN_LSE);
    CombinePush push{};
    setPosition(push, plan, c);
    push.flags |= (lse.present() ? flagLse : 0) | (p.rowStatistics ? flagRowStatistics : 0) | (p.has(VKATTN_SINKS) ? flagSinks : 0);
    push.heads = c.heads;
    push.queries = c.queries;
    push.packed = plan.flash.packed;
    push.headFirst = c.headFirst;
    push.keptFactor = p.drops() ? static_cast<float>(dropoutFactor(p.dropoutThreshold)) : 1.0f;
    push.parts = plan.flash.parts;
    push.valueDim = p.valueDim;
    push.oBatch = stride(out, 0), push.oHead = stride(out, 1), push.oToken = stride(out, 2);
    push.oDim = out.extent[3] > 1 ? stride(out, 3) : 1;
    push.lseBatch = stride(lse, 0), push.lseHead = stride(lse, 1), push.lseToken = stride(lse, 2), push.lseEntry = stride(lse, 3);
    setPush(d, push);
    const Operand partials = partialsOperand(plan, false);
    std::fill_n(d.operands, fullSlots, standIn(partials));
    d.operands[slotPartials] = partials;
    d.operands[slotOut] = rowsOperand(p, VKATTN_OUT, c, offsetof(CombinePush, oBase));
    d.operands[slotLengths] = lengthsOperand(plan, c, offsetof(CombinePush, lengthsBase), partials);
    if (lse.present()) d.operands[slotLse] = rowsOperand(p, VKATTN_LSE, c, offsetof(CombinePush, lseBase));
    if (p.has(VKATTN_SINKS)) d.operands[slotEnvironment] = ownEnvironment(plan, false);
    d.key = pipelineKey(Module::combine, plan.flash.combineLanes,
                        {.pairTerms = pairTermsOf(p) & termRowHook, .elementTypes = elementType(p, VKATTN_OUT) << typesOut});
    d.groups[0] = c.queries;
    d.groups[1] = 1;
    d.groups[2] = c.batches * c.heads;
}

// The number-th of the dispatches that write the environment.
void makeEnvironment(const Problem &p, const Operand &whole, std::span<const uint32_t> words, Module module, uint32_t number, Dispatch &d) {
    flash::makeWords(whole, words, module, number, d);
    if (!hasHeadArrays(p)) return;
    // An array that the problem has stands in for those that the problem lacks: the shader reads
    // all of them, and nobody uses what it reads of the others.
    Operand other = standIn(whole);
    for (const HeadArray &each : headArrays)
        if (p.has(each.role)) other = standIn(arrayOperand(each.role, 0, p.heads, 0, each.base));
    std::fill(d.operands + slotFirst, d.operands + plainSlots, other);
    for (const HeadArray &each : headArrays)
        if (p.has(each.role)) d.operands[each.slot] = arrayOperand(each.role, 0, p.heads, 0, each.base);
    if (number > 0) return;
    d.pushWords[offsetof(EnvironmentPush, heads) / 4] = p.heads;
    d.groups[0] = divideUp(p.heads, environmentLanes);
}

} // namespace

void flash::makeWords(const Operand &whole, std::span<const uint32_t> words, Module module, uint32_t number, Dispatch &d) {
    const uint32_t first = number * environmentWordsAtOnce;
    const uint32_t count = std::min(static_cast<uint32_t>(words.size()) - first, environmentWordsAtOnce);
    EnvironmentPush push{};
    push.firstAndCount = first | count << 16;
    std::copy_n(words.data() + first, count, push.given);
    setPush(d, push);
    d.operandCount = plainSlots;
    d.operands[slotWorkspace] = whole;
    std::fill(d.operands + slotFirst, d.operands + plainSlots, standIn(whole));
    d.key = pipelineKey(module, environmentLanes, {});
    d.groups[0] = d.groups[1] = d.groups[2] = 1;
}

uint32_t flash::environmentWordsOf(const Problem &p) {
    return p.drops() ? environmentWords : environmentWords - dropoutWords;
}

uint64_t flash::environmentBytes(const Problem &p, uint64_t ownBytes) {
    return ownBytes + (hasHeadArrays(p) ? sizeof(HeadFacts) * uint64_t{p.heads} : 0);
}

bool flash::placeEnvironment(Plan &plan, uint32_t words, uint64_t ownBytes, const Caps &caps) {
    const Problem &p = plan.problem;
    const uint64_t bytes = environmentBytes(p, ownBytes);
    // One dispatch gathers what all heads have.
    if (!bindable(caps, bytes) || (hasHeadArrays(p) && divideUp(p.heads, environmentLanes) > caps.maxWorkgroupCount[0])) return false;
    plan.setUpDispatches += divideUp(words, environmentWordsAtOnce);
    plan.setUpBytes = plan.tableBytes + roundUpTo(bytes, plan.workspaceAlignment);
    return true;
}

Operand flash::environmentOperand(const Plan &plan, uint64_t ownBytes, bool writes) {
    const uint64_t begin = plan.tableBytes;
    return {VKATTN_WORKSPACE, begin, begin + environmentBytes(plan.problem, ownBytes), begin, noPushWord, 4, writes};
}

uint32_t flash::dimStride(const Tensor &t) {
    return t.extent[3] > 1 ? stride(t, 3) : 1u;
}

void flash::setOptionWords(Environment &e, const Problem &p) {
    e.flags |= elementType(p, VKATTN_BIAS) << flagsBiasType;
    e.qDim = dimStride(p.tensor(VKATTN_Q)), e.kDim = dimStride(p.tensor(VKATTN_K)), e.vDim = dimStride(p.tensor(VKATTN_V));
    e.softcap = p.softcap;
    for (const PairTermOperand &each : pairTermOperands) {
        if (!p.uses(each.role)) continue;
        const PairStrides strides = pairStrides(p, each.role);
        std::memcpy(reinterpret_cast<unsigned char *>(&e) + each.strides, &strides, each.strideBytes);
    }
    setDropout(e, p);
}

void flash::makeSetUp(const Plan &plan, uint64_t ownBytes, std::span<const uint32_t> words, Module module, uint32_t index, Dispatch &d) {
    const uint32_t tables = tableDispatches(plan.problem);
    d.operandCount = plainSlots;
    if (index < tables) {
        makeTable(plan, index, d);
        return;
    }
    makeEnvironment(plan.problem, environmentOperand(plan, ownBytes, true), words, module, index - tables, d);
    d.barrierBefore = index > tables; // of one range, which several dispatches write
}

uint32_t flash::splitsBefore(const Plan &plan, uint32_t keyChunk) {
    const uint32_t perChunk = divideUp(plan.chunkKeys, plan.flash.splitKeys);
    if (!plan.problem.segmented()) return keyChunk * perChunk;
    uint32_t splits = 0;
    Chunk c{};
    for (uint32_t n = 0; n < keyChunk; ++n) {
        selectKeys(plan, n, c);
        splits += divideUp(c.keys, plan.flash.splitKeys);
    }
    return splits;
}

uint32_t flash::dispatchesPerRowChunk(const Plan &plan) {
    return plan.keyChunks + (plan.problem.goesOn() ? 1 : 0) + (plan.flash.parts ? 1 : 0);
}

Dispatch flash::dispatch(const Plan &plan, uint32_t index) {
    const Problem &p = plan.problem;
    Dispatch d;
    d.operandCount = plainSlots;
    const uint32_t setUp = plan.setUpDispatches;
    if (index < setUp) {
        const auto environment = wordsOf<environmentWords>(environmentOf(plan));
        const std::span<const uint32_t> words = environment;
        makeSetUp(plan, sizeof(Environment), words.first(environmentWordsOf(p)), Module::environment, index, d);
        return d;
    }
    const uint32_t perRowChunk = dispatchesPerRowChunk(plan);
    const uint32_t rowChunk = (index - setUp) / perRowChunk, keyChunk = (index - setUp) % perRowChunk;
    Chunk c = rowsOfChunk(plan, rowChunk);
    if (keyChunk == plan.keyChunks && p.goesOn()) {
        makePrior(plan, c, formPriorPart, partialsOperand(plan, true), d);
        return d;
    }
    if (keyChunk >= plan.keyChunks) {
        makeCombine(plan, c, d);
        d.operandCount = fullSlots;
        d.barrierBefore = true;
        return d;
    }
    selectKeys(plan, keyChunk, c);
    d.operandCount = infoOf(flashModule(plan)).slots;
    makeFlash(plan, c, keyChunk, plan.flash.shuffleLanes, d);
    // Chunks of keys have partial results of their own. Rows of different chunks may lie among each
    // other in memory.
    d.barrierBefore = keyChunk == 0 && index > 0;
    return d;
}

} // namespace vkattn
