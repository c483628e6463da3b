// What both ways of linear attention share: the form, and the batch entry and state head of a workgroup.
// Included after the declaration of lengths[].
layout(constant_id = constantElementTypes) const uint elementTypes = 0; // interop.h
layout(constant_id = constantForm) const uint form = 0;                 // interop.h
layout(constant_id = 8) const uint chunkTokens = 1;                     // slots of a chunk

const bool isDelta = (form & formLinearDelta) != 0u, isGated = (form & formLinearGated) != 0u, decaysKeyDims = (form & formLinearKeyDims) != 0u,
           isMapped = (form & formLinearMapped) != 0u, hasMaximum = (form & formLinearMaximum) != 0u,
           isCausal = (form & formLinearCausal) != 0u, hasStateIn = (form & formLinearStateIn) != 0u;

layout(set = 0, binding = slotWorkspace, std430) buffer Workspace { uint workspace[]; };
float workspaceFloat(uint word) { return uintBitsToFloat(workspace[word]); }

// Of the batch entry and the state head.
uint entry, stateHead;
int keyCount, shift; // shift: from a row to its position
uint unit;           // among those of the dispatch
void beginEntry(uint b) {
    entry = b;
    keyCount = int(keyTokens);
    if ((form & formLinearLengths) != 0u) keyCount = int(min(lengths[lengthsBase + entry], keyTokens));
    shift = (form & formLinearTopLeft) != 0u ? 0 : keyCount - int(queryTokens);
}
void beginUnitOf(uint b, uint head) {
    stateHead = head;
    beginEntry(b);
    unit = entry * stateHeads + stateHead;
}
uint groupHeads() { return heads / stateHeads; }
// The n-th head of out that reads the state.
uint headOfState(uint n) { return (form & formLinearModulo) != 0u ? n * stateHeads + stateHead : stateHead * groupHeads() + n; }
// Of an operand with `own` heads, that of a head of a larger number.
uint mappedHead(uint head, uint count, uint own) { return (form & formLinearModulo) != 0u ? head % own : head / (count / own); }
