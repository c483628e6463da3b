#version 450
// Attention over parts of the keys, put together by their log-sum-exps. A workgroup takes a row. A lane owns pairs
// of neighbouring dims, so that the output may be the memory of the first part and 16-bit results fill words.
#define VKATTN_STAGE_MERGE
#include "lib/platform.glsl"

#include "lib/element.glsl"
#include "lib/math.glsl"

layout(constant_id = constantElementTypes) const uint elementTypes = 0; // interop.h
layout(constant_id = constantForm) const uint form = 0;                 // interop.h
layout(constant_id = 8) const uint lanes = 64;                          // = workgroup size
const uint xType = elementTypes & 15u, yType = elementTypes >> typesOut & 15u;
const bool storesLse = (form & formLse) != 0u;

layout(set = 0, binding = slotX, std430) readonly buffer X { uint xWords[]; };
layout(set = 0, binding = slotY, std430) buffer Y { uint yWords[]; };
layout(set = 0, binding = slotPartLse, std430) readonly buffer PartLse { uint partLse[]; };
layout(set = 0, binding = slotMergedLse, std430) buffer MergedLse { uint mergedLse[]; };

// exp(lse - maximum) of each part; less than 0: the part is ignored.
shared float weights[mostParts];

uint xAt, partLseAt;
bool seesSomething, isNumber;
float maximum, sum;

// Every lane finds the same. Integer tests: an lse of NaN or infinity makes the row NaN on every driver.
void weighParts(uint lane) {
    seesSomething = false, isNumber = true;
    maximum = lowest;
    [[dont_unroll]] for (uint part = 0u; part < parts; ++part) {
        const uint bits = partLse[partLseAt + part * partLsePart];
        seesSomething = seesSomething || bits != minusInfinityBits;
        isNumber = isNumber && (isFiniteBits(bits) || bits == minusInfinityBits);
        if (isFiniteBits(bits)) maximum = max(maximum, uintBitsToFloat(bits));
    }
    [[dont_unroll]] for (uint part = lane; part < parts; part += lanes) {
        const uint bits = partLse[partLseAt + part * partLsePart];
        weights[part] = bits == minusInfinityBits ? -1.0 : expDifference(uintBitsToFloat(bits), maximum);
    }
    // What is stored below may be the memory of the first part's lse.
    barrier();
    sum = 0.0;
    [[dont_unroll]] for (uint part = 0u; part < parts; ++part) sum += max(weights[part], 0.0);
}

float loadX(uint part, uint dim) { return LOAD_ELEMENT(xWords, xType, xAt + part * xPart + dim * xStrides.column); }

// Parts are multiplied with their share of the sum, so that the sum of finite parts stays finite.
vec2 merged(uint dim, uint second) {
    const uint parts_ = parts, runParts = 4u;
    const float factor = 1.0 / sum;
    vec2 result = vec2(0.0);
    [[dont_unroll]] for (uint first = 0u; first < parts_; first += runParts) {
        // Unrolled: Mesa 22's software driver silently leaves a shader after 65,535 iterations of all its loops
        // together.
        [[unroll]] for (uint n = 0u; n < runParts; ++n) {
            const uint part = min(first + n, parts_ - 1u);
            const float share = weights[part] * factor;
            const vec2 with = vec2(fma(share, loadX(part, dim), result.x), fma(share, loadX(part, second), result.y));
            result = first + n < parts_ && share >= 0.0 ? with : result;
        }
    }
    return result;
}

void main() {
    const uint lane = gl_LocalInvocationID.x;
    const uint row = gl_WorkGroupID.x, batch = gl_WorkGroupID.z / groups, group = gl_WorkGroupID.z % groups;
    xAt = xBase + batch * xStrides.batch + group * xStrides.group + row * xStrides.row;
    partLseAt = partLseBase + batch * partLseStrides.batch + group * partLseStrides.group + row * partLseStrides.row;
    const uint yAt = yBase + batch * yStrides.batch + group * yStrides.group + row * yStrides.row;
    weighParts(lane);
    const float nan = uintBitsToFloat(canonicalNanBits);
    [[dont_unroll]] for (uint pair = lane; 2u * pair < dims; pair += lanes) {
        const uint dim = 2u * pair;
        const bool both = dim + 1u < dims;
        const vec2 result = merged(dim, both ? dim + 1u : dim);
        const vec2 value = !isNumber ? vec2(nan) : seesSomething ? result : vec2(0.0);
        if (both) {
            STORE_ELEMENT_PAIR(yWords, yType, yAt + dim * yStrides.column, yStrides.column, value.x, value.y)
        } else {
            STORE_ELEMENT(yWords, yType, yAt + dim * yStrides.column, value.x)
        }
    }
    if (storesLse && lane == 0u)
        mergedLse[lseBase + batch * lseStrides.batch + group * lseStrides.group + row * lseStrides.row] =
            !isNumber ? canonicalNanBits : seesSomething ? floatBitsToUint(maximum + log(sum)) : minusInfinityBits;
}
