#version 450
// Random features of keys, or of query rows (vkattn/linear.h): of FAVOR their exponents, those of rows without
// |q'|^2 / 2. A product with omega: a workgroup takes the slots of some chunks and a tile of features, which lie in
// lanes, several to a lane. What a software driver pays for are loads, of which an element of omega serves all slots, and
// one of a token all features of the lanes.
//
// Defines: VKATTN_SUBGROUPS: neighbouring dims of a token come by one load and subgroup shuffles.
#define VKATTN_STAGE_LINEAR
#include "lib/platform.glsl"

#include "linear/chunk.glsl"

layout(constant_id = 9) const uint shuffleLanes = 4; // with VKATTN_SUBGROUPS
layout(constant_id = 10) const uint mapSlots = 1;    // those of whole chunks
layout(constant_id = 11) const uint mapFeatures = 1; // of a lane

layout(set = 0, binding = slotLinearQ, std430) readonly buffer Q { uint q[]; };
layout(set = 0, binding = slotLinearK, std430) readonly buffer K { uint k[]; };
layout(set = 0, binding = slotLinearDecay, std430) readonly buffer Omega { uint omega[]; };

const uint featuresRelu = 1u, featuresFavor2 = 3u;
const uint features = form >> formLinearFeatures & 3u;
const bool ofRows = (form & formLinearOfRows) != 0u, isBothSigns = features == featuresFavor2;

uint lane;
Place tokens;
// Of a slot: whether its token or row is there, where dim 0 of the token lies, and where its features go.
bool isThere[mapSlots];
uint from[mapSlots], to[mapSlots];

void findSlots(uint firstChunk, uint word, uint n) {
    [[unroll]] for (uint s = 0u; s < mapSlots; ++s) {
        const uint local = firstChunk + s / chunkTokens, slot = s % chunkTokens;
        const ChunkPlace chunk = chunkOf(min(local, chunks - 1u));
        isThere[s] = local < chunks;
        if (ofRows)
            isThere[s] = isThere[s] && hasRow(chunk, slot);
        else
            isThere[s] = isThere[s] && hasToken(chunk, slot);
        const uint token = uint(ofRows ? rowOf(chunk, slot) : chunk.first + int(slot));
        from[s] = tokens.at + (isThere[s] ? token * tokens.token : 0u); // the first token where there is none
        to[s] = arrayAt(chunk, word, n, slot);
    }
}
// By selection: a branch for each load would cost more.
float element(uint slot, uint dim) {
    const uint at = from[slot] + min(dim, keyDim - 1u) * tokens.dim;
    const float x = ofRows ? LOAD_ELEMENT(q, qType, at) : LOAD_ELEMENT(k, kType, at);
    return isThere[slot] && dim < keyDim ? x : 0.0;
}

float dots[mapSlots * mapFeatures], squares[mapSlots];
uint omegaAt[mapFeatures], omegaDim;

// Of one dim, the elements of omega that the lane's features have.
void loadWeights(uint dim, out float weights[mapFeatures]) {
    [[unroll]] for (uint f = 0u; f < mapFeatures; ++f) {
        const float weight = uintBitsToFloat(omega[omegaAt[f] + min(dim, keyDim - 1u) * omegaDim]);
        weights[f] = dim < keyDim ? weight : 0.0;
    }
}
void addDim(uint slot, float x, const float weights[mapFeatures]) {
    [[unroll]] for (uint f = 0u; f < mapFeatures; ++f) dots[slot * mapFeatures + f] = fma(x, weights[f], dots[slot * mapFeatures + f]);
}
// Omega x of the lane's features, and |x|^2, which FAVOR's keys ask for.
void multiply() {
    const bool ofSquares = !ofRows && features != featuresRelu;
    [[unroll]] for (uint s = 0u; s < mapSlots; ++s) squares[s] = 0.0;
    [[unroll]] for (uint n = 0u; n < mapSlots * mapFeatures; ++n) dots[n] = 0.0;
    float weights[mapFeatures];
#ifdef VKATTN_SUBGROUPS
    [[dont_unroll]] for (uint d = 0u; d < keyDim; d += shuffleLanes) {
        float loaded[mapSlots];
        [[unroll]] for (uint s = 0u; s < mapSlots; ++s) loaded[s] = element(s, d + lane % shuffleLanes);
        if (ofSquares)
            [[unroll]] for (uint s = 0u; s < mapSlots; ++s) squares[s] = fma(loaded[s], loaded[s], squares[s]);
        [[unroll]] for (uint e = 0u; e < shuffleLanes; ++e) {
            loadWeights(d + e, weights);
            [[unroll]] for (uint s = 0u; s < mapSlots; ++s) addDim(s, subgroupShuffle(loaded[s], e), weights);
        }
    }
    // Each lane has those of its own dims.
    if (ofSquares)
        [[unroll]] for (uint apart = 1u; apart < shuffleLanes; apart *= 2u)
            [[unroll]] for (uint s = 0u; s < mapSlots; ++s) squares[s] += subgroupShuffleXor(squares[s], apart);
#else
    [[dont_unroll]] for (uint d = 0u; d < keyDim; ++d) {
        loadWeights(d, weights);
        [[unroll]] for (uint s = 0u; s < mapSlots; ++s) {
            const float x = element(s, d);
            if (ofSquares) squares[s] = fma(x, x, squares[s]);
            addDim(s, x, weights);
        }
    }
#endif
}

void store(uint slot, uint row, float value) { workspace[to[slot] + row] = floatBitsToUint(value); }

void mapSlotsOf(uint firstFeature) {
    const uint m = isBothSigns ? rows / 2u : rows;
    const float root = sqrt(abs(scale)), factor = ofRows && scale < 0.0 ? -root : root;
    const Place place = placeOf(linearOmega, decayBase, stateHead, stateHeads); // shared by batch entries
    omegaDim = place.dim;
    [[unroll]] for (uint f = 0u; f < mapFeatures; ++f)
        omegaAt[f] = place.at + min(firstFeature + f * gl_WorkGroupSize.x, m - 1u) * place.token;
    multiply();
    [[unroll]] for (uint f = 0u; f < mapFeatures; ++f) {
        const uint feature = firstFeature + f * gl_WorkGroupSize.x;
        if (feature >= m) continue;
        [[unroll]] for (uint s = 0u; s < mapSlots; ++s) {
            if (!isThere[s]) continue;
            const float dot = dots[s * mapFeatures + f], exponent = factor * dot, halfSquare = ofRows ? 0.0 : 0.5 * abs(scale) * squares[s];
            store(s, feature, features == featuresRelu ? relu(dot / sqrt(float(m))) : exponent - halfSquare);
            if (isBothSigns) store(s, m + feature, -exponent - halfSquare);
        }
    }
}

void main() {
    lane = gl_LocalInvocationID.x;
    beginUnit();
    const uint m = isBothSigns ? rows / 2u : rows, ofTile = gl_WorkGroupSize.x * mapFeatures;
    const uint tiles = (m + ofTile - 1u) / ofTile;
    const uint firstFeature = gl_WorkGroupID.x % tiles * ofTile + lane, firstChunk = gl_WorkGroupID.x / tiles * (mapSlots / chunkTokens);
    if (ofRows) {
        [[dont_unroll]] for (uint n = 0u; n < groupHeads(); ++n) {
            tokens = placeOf(linearQ, qBase, headOfState(n), heads);
            findSlots(firstChunk, linearRowMapAt, n);
            mapSlotsOf(firstFeature);
        }
    } else {
        tokens = placeOf(linearK, kBase, stateHead, stateHeads);
        findSlots(firstChunk, linearKeyMapAt, 0u);
        mapSlotsOf(firstFeature);
    }
}
