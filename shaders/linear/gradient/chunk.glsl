// What the stages of the backward pass of linear attention share: which tokens and rows a chunk has, and where its
// block in the workspace lies.
#include "lib/element.glsl"

layout(set = 0, binding = slotLinearGradientLengths, std430) readonly buffer Lengths { uint lengths[]; };

#include "linear/unit.glsl"

layout(constant_id = 9) const uint rowBlocks = 1; // of the rows of the state
layout(constant_id = 10) const uint columnBlocks = 1;

const uint sourceType = elementTypes & 15u, gradientType = elementTypes >> typesOut & 15u;
const bool isOutward = (form & formLinearOutward) != 0u;
// A factor for each row of the state, of decays or of maxima; dDecay needs the states.
const bool hasRowFactors = decaysKeyDims || hasMaximum, needsStates = isGated || decaysKeyDims;

void store(uint word, float value) { workspace[word] = floatBitsToUint(value); }

uint rowPitch, columnPitch;
void beginUnit() {
    beginUnitOf(gl_WorkGroupID.z, gl_WorkGroupID.y);
    rowPitch = workspace[linearGradientRowPitch];
    columnPitch = workspace[linearGradientColumnPitch];
}
uint kindOfGiven() { return groupHeads() + 1u; }

// Keys from `first` on, or rows.
struct ChunkPlace {
    int first;
    bool isReading;
    uint at; // of its block
};
ChunkPlace chunkOf(uint local) {
    const uint chunk = chunkFirst + local;
    const bool reading = chunk >= keyChunks;
    return ChunkPlace(int((reading ? chunk - keyChunks : chunk) * chunkTokens), reading,
                      workspace[linearGradientBlocksAt] + (unit * spanChunks + local) * workspace[linearGradientBlockWords]);
}
bool hasToken(ChunkPlace c, uint slot) { return !c.isReading && c.first + int(slot) < keyCount; }
int rowOf(ChunkPlace c, uint slot) { return c.first + int(slot) - (c.isReading ? 0 : shift); }
// Reading chunks have the rows that no chunk of keys has.
bool hasRow(ChunkPlace c, uint slot) {
    const int row = rowOf(c, slot);
    if (row < 0 || row >= int(queryTokens)) return false;
    if (!c.isReading) return isCausal && hasToken(c, slot);
    return !isCausal || row + shift < 0 || row + shift >= keyCount;
}
// Whether a row that is there sees anything.
bool sees(int row) { return (!isCausal || row + shift >= 0) && (keyCount > 0 || hasStateIn); }

uint arrayAt(ChunkPlace c, uint name) { return c.at + workspace[name]; }
// A product of slots of a chunk.
uint pairsAt(ChunkPlace c, uint kind) { return arrayAt(c, linearGradientPairs) + kind * (chunkTokens * chunkTokens); }
// The states of the unit: [column][row], then z and the maxima [row], then of delta rules [row][column].
uint statesAt() { return workspace[linearGradientStatesAt] + unit * workspace[linearGradientUnitWords]; }
uint normOfState(uint state, uint which) { return state + (columnPitch + which) * rowPitch; }
uint columnsOfState(uint state) { return state + (columnPitch + 2u) * rowPitch; }
