// The dispatches of the flash and decode kernels. Ragged batches begin with the dispatch that reads where the sequences lie. Then, for each
// chunk of rows and each chunk of its keys: the options (where there are any) | flash; after the last chunk of keys, where rows have
// partial results: | combine. A barrier stands at every bar, and before whatever overwrites options or partial results that an earlier
// dispatch reads.
#include "core/kernels/flash.hpp"

#include "core/kernels/coopmat.hpp"
#include "core/plan/operands.hpp"

#include <algorithm>

namespace vkattn {
namespace {

// Where things lie in the workspace: the table of sequences, the options, the partial results.
Operand optionsOperand(const Plan &plan, bool writes) {
    return {VKATTN_WORKSPACE, plan.tableBytes, plan.tableBytes + sizeof(FlashOptions), plan.tableBytes, noPushWord, 4, writes};
}
Operand partialsOperand(const Plan &plan, bool writes) {
    const uint64_t begin = plan.tableBytes + plan.flash.optionsBytes;
    return {VKATTN_WORKSPACE, begin, plan.workspaceBytes, begin, noPushWord, 4, writes};
}

constexpr size_t given(size_t member) {
    return offsetof(OptionsPush, given) + member;
}

constexpr uint32_t firstOptionSlot = slotLse;

// The operands of the bindings from firstOptionSlot on. Their bases go into the options, which another dispatch writes: in the flash
// dispatch they have none.
void addOptionOperands(const Plan &plan, const Chunk &c, const Operand &other, Operand *operands) {
    const Problem &p = plan.problem;
    std::fill_n(operands, fullSlots - firstOptionSlot, standIn(other));
    const auto at = [&](uint32_t slot) -> Operand & { return operands[slot - firstOptionSlot]; };
    if (p.tensor(VKATTN_LSE).present() && plan.flash.parts == 0)
        at(slotLse) = rowsOperand(p, VKATTN_LSE, c, given(offsetof(FlashOptions, lseBase)));
    for (const PairTermOperand &each : pairTermOperands)
        if (p.uses(each.role)) at(each.slot) = chunkOperand(p, each.role, c, given(each.layout + offsetof(PairLayout, base)));
    if (p.has(VKATTN_SINKS)) at(slotSinks) = chunkOperand(p, VKATTN_SINKS, c, given(offsetof(FlashOptions, sinksBase)));
}

void makeOptions(const Plan &plan, const Chunk &c, Dispatch &d) {
    const Problem &p = plan.problem;
    OptionsPush push{};
    FlashOptions &o = push.given;
    const auto dimStride = [&](vkattn_role role) { return p.tensor(role).extent[3] > 1 ? stride(p.tensor(role), 3) : 1u; };
    o.qDim = dimStride(VKATTN_Q), o.kDim = dimStride(VKATTN_K), o.vDim = dimStride(VKATTN_V), o.oDim = dimStride(VKATTN_OUT);
    o.softcap = p.softcap;
    o.biasType = elementType(p, VKATTN_BIAS);
    const Tensor &lse = p.tensor(VKATTN_LSE);
    o.lseBatch = stride(lse, 0), o.lseHead = stride(lse, 1), o.lseToken = stride(lse, 2);
    setPush(d, push);
    for (const PairTermOperand &each : pairTermOperands) {
        if (!p.uses(each.role)) continue;
        const PairLayout layout = pairLayout(p, each.role);
        std::memcpy(d.pushWords + given(each.layout) / 4, &layout, each.layoutBytes);
    }
    d.operands[slotWorkspace] = optionsOperand(plan, true);
    d.operands[1] = d.operands[2] = d.operands[3] = standIn(d.operands[0]);
    d.key = pipelineKey(Module::options, 1, {});
    d.groups[0] = d.groups[1] = d.groups[2] = 1;
    d.unboundCount = fullSlots - firstOptionSlot;
    addOptionOperands(plan, c, d.operands[0], d.operands + d.operandCount);
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
    const Tensor &q = p.tensor(VKATTN_Q), &k = p.tensor(VKATTN_K), &v = p.tensor(VKATTN_V), &out = p.tensor(VKATTN_OUT);
    FlashPush push{};
    setPosition(push, plan, c);
    push.flags |= (shape.parts ? flagPartial : 0) | (p.tensor(VKATTN_LSE).present() ? flagLse : 0) | (p.has(VKATTN_SINKS) ? flagSinks : 0) |
                  (p.deterministic && p.left != openWindow ? flagFixedOrder : 0);
    push.queries = c.queries;
    push.keyFirst = c.keyFirst;
    push.keys = c.keys;
    push.splitKeys = shape.splitKeys;
    push.headsAndPacked = c.heads | shape.packed << 16;
    push.groupAndPhase = p.groupSize() | c.headFirst % p.groupSize() << 16;
    push.partsAndFirst = shape.parts | keyChunk * divideUp(plan.chunkKeys, shape.splitKeys) * tile.keyLanes << 16;
    push.dims = p.headDim | p.valueDim << 16;
    push.scale = p.scale;
    push.qBatch = stride(q, 0), push.qHead = stride(q, 1), push.qToken = stride(q, 2);
    push.kBatch = stride(k, 0), push.kHead = stride(k, 1), push.kToken = stride(k, 2);
    push.vBatch = stride(v, 0), push.vHead = stride(v, 1), push.vToken = stride(v, 2);
    push.oBatch = stride(out, 0), push.oHead = stride(out, 1), push.oToken = stride(out, 2);
    setPush(d, push);
    d.operands[slotQ] = rowsOperand(p, VKATTN_Q, c, offsetof(FlashPush, qBase));
    d.operands[slotK] = keysOperand(p, VKATTN_K, c, offsetof(FlashPush, kBase));
    d.operands[slotV] = keysOperand(p, VKATTN_V, c, offsetof(FlashPush, vBase));
    d.operands[slotOut] = shape.parts ? partialsOperand(plan, true) : rowsOperand(p, VKATTN_OUT, c, offsetof(FlashPush, oBase));
    if (shape.options) {
        d.operands[slotOptions] = optionsOperand(plan, false);
        d.operands[slotLengths] = lengthsOperand(plan, c, offsetof(FlashPush, lengthsBase), d.operands[0]);
        addOptionOperands(plan, c, d.operands[slotQ], d.operands + firstOptionSlot);
        for (uint32_t n = firstOptionSlot; n < fullSlots; ++n) d.operands[n].basePushWord = noPushWord;
    }
    d.groups[0] = divideUp(c.queries * shape.packed, tile.rows());
    d.groups[1] = divideUp(c.keys, shape.splitKeys);
    d.groups[2] = c.batches * (c.heads / shape.packed);
    if (plan.kernel->onMatrixUnits()) {
        d.key = coopmat::pipelineKey(plan);
        return;
    }
    const bool exact = tile.dimLanes * shape.dimsPerLane == p.headDim && tile.dimLanes * shape.valueDimsPerLane == p.valueDim;
    d.key = pipelineKey(flashModule(plan), tile.invocations(),
                        {.kvFormat = kvFormat(p, shape.dimOrder),
                         .pairTerms = shape.pairTerms,
                         .elementTypes = elementType(p, VKATTN_Q) | elementType(p, VKATTN_OUT) << typesOut,
                         .form = (exact ? formExactDims : 0) | (tile.rolledEdges ? formRolledEdges : 0) | tile.source << formSource},
                        {tile.dimLanes, tile.keyLanes, tile.rowLanes, tile.rowsPerLane, tile.keysPerLane, shape.dimsPerLane,
                         shape.valueDimsPerLane, tile.tileKeys, shuffleLanes, shape.run, shape.valueRun});
}

void makeCombine(const Plan &plan, const Chunk &c, Dispatch &d) {
    const Problem &p = plan.problem;
    const Tensor &out = p.tensor(VKATTN_OUT), &lse = p.tensor(VKATTN_LSE);
    CombinePush push{};
    setPosition(push, plan, c);
    push.flags |= (lse.present() ? flagLse : 0) | (p.has(VKATTN_SINKS) ? flagSinks : 0);
    push.heads = c.heads;
    push.queries = c.queries;
    push.packed = plan.flash.packed;
    push.parts = plan.flash.parts;
    push.valueDim = p.valueDim;
    push.oBatch = stride(out, 0), push.oHead = stride(out, 1), push.oToken = stride(out, 2);
    push.oDim = out.extent[3] > 1 ? stride(out, 3) : 1;
    push.lseBatch = stride(lse, 0), push.lseHead = stride(lse, 1), push.lseToken = stride(lse, 2);
    setPush(d, push);
    const Operand partials = partialsOperand(plan, false);
    std::fill_n(d.operands, fullSlots, standIn(partials));
    d.operands[slotPartials] = partials;
    d.operands[slotOut] = rowsOperand(p, VKATTN_OUT, c, offsetof(CombinePush, oBase));
    d.operands[slotLengths] = lengthsOperand(plan, c, offsetof(CombinePush, lengthsBase), partials);
    if (lse.present()) d.operands[slotLse] = rowsOperand(p, VKATTN_LSE, c, offsetof(CombinePush, lseBase));
    if (p.has(VKATTN_SINKS)) d.operands[slotSinks] = headsOperand(VKATTN_SINKS, c, offsetof(CombinePush, sinksBase));
    d.key = pipelineKey(Module::combine, plan.flash.combineLanes, {.elementTypes = elementType(p, VKATTN_OUT) << typesOut});
    d.groups[0] = c.queries;
    d.groups[1] = 1;
    d.groups[2] = c.batches * c.heads;
}

} // namespace

uint32_t flash::dispatchesPerKeyChunk(const Plan &plan) {
    return plan.flash.options ? 2 : 1;
}

uint32_t flash::dispatchesPerRowChunk(const Plan &plan) {
    return plan.keyChunks * dispatchesPerKeyChunk(plan) + (plan.flash.parts ? 1 : 0);
}

Dispatch flash::dispatch(const Plan &plan, uint32_t index) {
    const Problem &p = plan.problem;
    const FlashShape &shape = plan.flash;
    Dispatch d;
    d.operandCount = plainSlots;
    const uint32_t setUp = plan.setUpDispatches();
    if (index < setUp) {
        makeSequences(plan, d);
        return d;
    }
    const uint32_t perRowChunk = dispatchesPerRowChunk(plan), perKeyChunk = dispatchesPerKeyChunk(plan);
    const uint32_t rowChunk = (index - setUp) / perRowChunk, stepOfChunk = (index - setUp) % perRowChunk;
    Chunk c = rowsOfChunk(plan, rowChunk);
    if (stepOfChunk == plan.keyChunks * perKeyChunk) {
        makeCombine(plan, c, d);
        d.operandCount = fullSlots;
        d.barrierBefore = true;
        return d;
    }
    const uint32_t keyChunk = stepOfChunk / perKeyChunk;
    c.keyFirst = keyChunk * plan.chunkKeys;
    c.keys = std::min(plan.chunkKeys, p.keyTokens - c.keyFirst);
    if (shape.options && stepOfChunk % 2 == 0) {
        makeOptions(plan, c, d);
        d.barrierBefore = index > setUp;
        return d;
    }
    d.operandCount = infoOf(flashModule(plan)).slots;
    makeFlash(plan, c, keyChunk, shape.shuffleLanes, d);
    // Rows of different chunks may lie among each other in memory.
    d.barrierBefore = shape.options || setUp > 0 || (keyChunk == 0 && rowChunk > 0);
    return d;
}

} // namespace vkattn
