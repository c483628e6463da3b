#version 450
// Random features of keys, or of query rows (vkattn/linear.h): of FAVOR their exponents, those of rows without
// |q'|^2 / 2. A workgroup takes the slots of a chunk and a tile of features, which lie in lanes.
//
// Defines: VKATTN_SUBGROUPS: neighbouring dims of a token come by one load and subgroup shuffles.
#define VKATTN_STAGE_LINEAR
#include "lib/platform.glsl"

#include "linear/chunk.glsl"

layout(constant_id = 9) const uint shuffleLanes = 4; // with VKATTN_SUBGROUPS

layout(set = 0, binding = slotLinearQ, std430) readonly buffer Q { uint q[]; };
layout(set = 0, binding = slotLinearK, std430) readonly buffer K { uint k[]; };
layout(set = 0, binding = slotLinearDecay, std430) readonly buffer Omega { uint omega[]; };

const uint featuresRelu = 1u, featuresFavor2 = 3u;
const uint features = form >> formLinearFeatures & 3u;
const bool ofRows = (form & formLinearOfRows) != 0u;

uint lane;
ChunkPlace chunk;
Place tokens;

bool isThere(uint slot) { return ofRows ? hasRow(chunk, slot) : hasToken(chunk, slot); }
uint tokenOf(uint slot) { return uint(ofRows ? rowOf(chunk, slot) : chunk.first + int(slot)); }
float element(uint slot, uint dim) {
    if (!isThere(slot) || dim >= keyDim) return 0.0;
    const uint at = tokens.at + tokenOf(slot) * tokens.token + dim * tokens.dim;
    if (ofRows) return LOAD_ELEMENT(q, qType, at);
    return LOAD_ELEMENT(k, kType, at);
}

float dots[chunkTokens], squares[chunkTokens];
void addDim(uint slot, float x, float weight) {
    dots[slot] = fma(x, weight, dots[slot]);
    squares[slot] = fma(x, x, squares[slot]);
}
// Omega x of the lane's feature, and |x|^2.
void multiply(uint omegaAt, uint omegaDim) {
    [[unroll]] for (uint s = 0u; s < chunkTokens; ++s) dots[s] = squares[s] = 0.0;
#ifdef VKATTN_SUBGROUPS
    [[dont_unroll]] for (uint d = 0u; d < keyDim; d += shuffleLanes) {
        float loaded[chunkTokens];
        [[unroll]] for (uint s = 0u; s < chunkTokens; ++s) loaded[s] = element(s, d + lane % shuffleLanes);
        [[unroll]] for (uint e = 0u; e < shuffleLanes; ++e) {
            const float weight = d + e < keyDim ? uintBitsToFloat(omega[omegaAt + min(d + e, keyDim - 1u) * omegaDim]) : 0.0;
            [[unroll]] for (uint s = 0u; s < chunkTokens; ++s) addDim(s, subgroupShuffle(loaded[s], e), weight);
        }
    }
#else
    [[dont_unroll]] for (uint d = 0u; d < keyDim; ++d) {
        const float weight = uintBitsToFloat(omega[omegaAt + d * omegaDim]);
        [[unroll]] for (uint s = 0u; s < chunkTokens; ++s) addDim(s, element(s, d), weight);
    }
#endif
}

void mapSlots(uint word, uint n, uint feature, uint row) {
    const uint m = features == featuresFavor2 ? rows / 2u : rows;
    const float root = sqrt(abs(scale)), factor = ofRows && scale < 0.0 ? -root : root;
    const Place place = placeOf(linearOmega, decayBase, stateHead, stateHeads); // shared by batch entries
    multiply(place.at + feature % m * place.token, place.dim);
    [[unroll]] for (uint s = 0u; s < chunkTokens; ++s) {
        float value = relu(dots[s] / sqrt(float(m)));
        if (features != featuresRelu) {
            const float exponent = feature >= m ? -factor * dots[s] : factor * dots[s];
            value = ofRows ? exponent : exponent - 0.5 * abs(scale) * squares[s];
        }
        if (row < rows && isThere(s)) workspace[arrayAt(chunk, word, n, s) + row] = floatBitsToUint(value);
    }
}

void main() {
    lane = gl_LocalInvocationID.x;
    beginUnit();
    const uint tiles = (rows + gl_WorkGroupSize.x - 1u) / gl_WorkGroupSize.x;
    const uint row = gl_WorkGroupID.x % tiles * gl_WorkGroupSize.x + lane, feature = min(row, rows - 1u);
    chunk = chunkOf(gl_WorkGroupID.x / tiles);
    if (ofRows) {
        [[dont_unroll]] for (uint n = 0u; n < groupHeads(); ++n) {
            tokens = placeOf(linearQ, qBase, headOfState(n), heads);
            mapSlots(linearRowMapAt, n, feature, row);
        }
    } else {
        tokens = placeOf(linearK, kBase, stateHead, stateHeads);
        mapSlots(linearKeyMapAt, 0u, feature, row);
    }
}
