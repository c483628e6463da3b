// What the stages of linear attention share: which tokens and rows a chunk has, and where an operand and the
// chunk's block in the workspace lie.
#extension GL_KHR_shader_subgroup_basic : enable
#ifdef VKATTN_SUBGROUPS
#extension GL_KHR_shader_subgroup_shuffle : require
#endif
#include "lib/element.glsl"

layout(set = 0, binding = slotLinearLengths, std430) readonly buffer Lengths { uint lengths[]; };

#include "linear/unit.glsl"

const uint qType = elementTypes & 15u, outType = elementTypes >> typesOut & 15u, kType = elementTypes >> typesLinearK & 15u,
           vType = elementTypes >> typesLinearV & 15u, decayType = elementTypes >> typesLinearDecay & 15u,
           strengthType = elementTypes >> typesLinearStrength & 15u;
const bool isReading = (form & formLinearReading) != 0u, hasRows = (form & formLinearRows) != 0u,
           hasStateOut = (form & formLinearStateOut) != 0u, hasSnapshots = (form & formLinearSnapshots) != 0u;
// Keys and rows are arrays of the workspace, with decays or maxima worked in.
const bool inArrays = decaysKeyDims || hasMaximum;
// Random features are products with omega, which map.comp leaves in the workspace. The others are of one number each,
// and cost less where it is loaded than to be stored and loaded again.
// Bits of the form, as glslc's optimizer fails on constants made of the others ("ID has not been defined").
const bool isStored = (form & formLinearRandom) != 0u, isElu1 = (form & formLinearElu1) != 0u, isRelu = (form & formLinearRelu) != 0u;

void beginUnit() { beginUnitOf(gl_WorkGroupID.z, gl_WorkGroupID.y); }

// An operand: where its element of the unit's batch entry and a head is, and what lies between tokens and dims.
struct Place {
    uint at, token, dim;
};
// `head` of `count` heads is that of the larger number.
Place placeOf(uint operand, uint base, uint head, uint count) {
    const uint word = operand * linearOperandWords, own = workspace[word + 4u];
    return Place(base + entry * workspace[word] + mappedHead(head, count, own) * workspace[word + 1u], workspace[word + 2u], workspace[word + 3u]);
}

// Keys [first, first + tokens); of a reading chunk `first` is a row.
struct ChunkPlace {
    int first, tokens;
    uint at; // of its block
};
ChunkPlace chunkOf(uint local) {
    const uint chunk = chunkFirst + local, at = chunksBase + (unit * chunks + local) * chunkWords;
    if (isReading) return ChunkPlace(int(chunk * chunkTokens), 0, at);
    const uint snapshot = chunk / chunksPerSnapshot, within = (chunk - snapshot * chunksPerSnapshot) * chunkTokens;
    const int first = int(snapshot * snapshotTokens + within);
    return ChunkPlace(first, clamp(min(int(min(chunkTokens, snapshotTokens - within)), keyCount - first), 0, int(chunkTokens)), at);
}
// Whether a snapshot is taken behind a chunk of keys. The tokens behind the last snapshot may be as many chunks.
bool endsSnapshot(uint chunk) {
    const uint snapshot = chunk / chunksPerSnapshot;
    return hasSnapshots && chunk - snapshot * chunksPerSnapshot == chunksPerSnapshot - 1u && (snapshot + 1u) * snapshotTokens <= keyTokens;
}
bool hasToken(ChunkPlace c, uint slot) { return int(slot) < c.tokens; }
int rowOf(ChunkPlace c, uint slot) { return c.first + int(slot) - (isReading ? 0 : shift); }
// Reading chunks have the rows that no chunk of keys has.
bool hasRow(ChunkPlace c, uint slot) {
    const int row = rowOf(c, slot);
    if (!hasRows || row < 0 || row >= int(queryTokens)) return false;
    if (!isReading) return isCausal && hasToken(c, slot);
    return !isCausal || row + shift < 0 || row + shift >= keyCount;
}
// Of a row of a reading chunk.
bool seesNothing(int row) { return (isCausal && row + shift < 0) || (keyCount == 0 && !hasStateIn); }

// Words of a chunk's block.
uint fromStartAt(ChunkPlace c, uint slot) { return c.at + slot; }
uint toEndAt(ChunkPlace c, uint slot) { return c.at + chunkTokens + slot; }
uint strengthAt(ChunkPlace c, uint slot) { return c.at + 2u * chunkTokens + slot; }
uint keyPairAt(ChunkPlace c, uint slot, uint other) { return c.at + (3u + slot) * chunkTokens + other; }
uint rowPairAt(ChunkPlace c, uint n, uint slot, uint other) { return c.at + (3u + (1u + n) * chunkTokens + slot) * chunkTokens + other; }
uint rowFactorAt(ChunkPlace c, uint n, uint slot) { return c.at + readAt + n * chunkTokens + slot; }
// An array [slot][row] at a word of the environment, or [group][slot][row].
uint arrayAt(ChunkPlace c, uint word, uint n, uint slot) { return c.at + workspace[word] + (n * chunkTokens + slot) * rowPitch; }
uint keysToEnd(ChunkPlace c, uint slot) { return c.at + keysToEndAt + slot * rowPitch; }
// z before the chunk, and the maxima.
uint normAt(ChunkPlace c, uint which) { return c.at + workspace[linearNormAt] + which * rowPitch; }
// The state of the unit between dispatches: [row][column], then z and the maxima.
uint stateAt() { return stateBase + unit * (rows * columnPitch + 2u * rowPitch); }
uint stateNormAt(uint which) { return stateAt() + rows * columnPitch + which * rowPitch; }


float elu1(float x) {
    const float below = isNanBits(floatBitsToUint(x)) ? x : exp(x);
    return x > 0.0 ? x + 1.0 : below;
}
float relu(float x) { return (x < 0.0 ? 0.0 : x) + epsilon; } // a NaN stays
// Of an element of keys or queries as it was loaded.
float featureOf(float x) {
    float value = x;
    if (isElu1) value = elu1(x);
    if (isRelu) value = relu(x);
    return value;
}

// exp(x - m), where m may be that of no key yet.
float relativeTo(float m, float x) {
    if (isNanBits(floatBitsToUint(x))) return x;
    return floatBitsToUint(m) == minusInfinityBits ? 0.0 : exp(x - m);
}
// A running maximum takes no notice of a NaN: the sums beside it are NaN then.
float largerOf(float maximum, float x) { return x > maximum ? x : maximum; }
