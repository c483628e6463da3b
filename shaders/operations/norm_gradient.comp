#version 450
// The gradient of a norm with respect to what the norm was taken of. A workgroup takes a row: its
// moments, as the norm itself takes them, then the means of g and of g * z, then dX. What the sums
// over rows need of a row, norm_gradient_columns.comp reads from the workspace.
#define VKATTN_STAGE_NORM_GRADIENT
#include "lib/platform.glsl"

#include "lib/element.glsl"

layout(constant_id = constantElementTypes) const uint elementTypes = 0; // interop.h
layout(constant_id = constantForm) const uint form = 0;                 // interop.h
layout(constant_id = 8) const uint lanes = 64;                          // = workgroup size; sizes shared memory

const uint xType = elementTypes & 15u, dXType = elementTypes >> typesOut & 15u, dYType = elementTypes >> typesDY & 15u;
const bool hasGamma = (form & formGamma) != 0u, rms = (form & formRms) != 0u, storesDX = (form & formDX) != 0u,
           storesFacts = (form & formFacts) != 0u;

layout(set = 0, binding = slotX, std430) readonly buffer X { uint xWords[]; };
layout(set = 0, binding = slotY, std430) buffer DX { uint dXWords[]; };
layout(set = 0, binding = slotDY, std430) readonly buffer DY { uint dYWords[]; };
layout(set = 0, binding = slotNormWorkspace, std430) buffer Workspace { float workspace[]; }; // gamma, and the facts of rows

uint lane, xAt, dXAt, dYAt;

float summand(uint dim) { return LOAD_ELEMENT(xWords, xType, xAt + dim * xStrides.column); }

#include "operations/moments.glsl"

// g, the gradient with respect to z.
float scaled(uint dim) {
    const float dY = LOAD_ELEMENT(dYWords, dYType, dYAt + dim * dYStrides.column);
    return hasGamma ? dY * workspace[gammaBase + dim] : dY;
}

// The sums over the row of g and of g * z.
vec2 gradientSums(Moments m) {
    vec2 sums = vec2(0.0);
    [[dont_unroll]] for (uint first = lane; 2u * first < dims; first += runPairs * lanes) {
        vec2 run = vec2(0.0);
        [[dont_unroll]] for (uint n = 0u; n < runPairs; ++n) {
            const uint dim = 2u * (first + n * lanes);
            if (dim >= dims) break;
            const bool both = dim + 1u < dims;
            const float a = scaled(dim), b = both ? scaled(dim + 1u) : 0.0;
            const float z = standardized(summand(dim), m), second = both ? standardized(summand(dim + 1u), m) : 0.0;
            run += vec2(a + b, fma(a, z, b * second));
        }
        sums += run;
    }
    return vec2(rms ? 0.0 : sumOverLanes(sums.x), sumOverLanes(sums.y));
}

float gradientAt(uint dim, Moments m, vec2 means) {
    return (scaled(dim) - means.x - standardized(summand(dim), m) * means.y) * m.factor;
}

void main() {
    lane = gl_LocalInvocationID.x;
    const uint row = gl_WorkGroupID.x, batch = gl_WorkGroupID.z / groups, group = gl_WorkGroupID.z % groups;
    xAt = xBase + batch * xStrides.batch + group * xStrides.group + row * xStrides.row;
    dXAt = dXBase + batch * dXStrides.batch + group * dXStrides.group + row * dXStrides.row;
    dYAt = dYBase + batch * dYStrides.batch + group * dYStrides.group + row * dYStrides.row;

    const Moments m = momentsOfRow();
    if (storesFacts && lane == 0u) {
        const uint at = factsBase + 3u * (gl_WorkGroupID.z * rows + row);
        workspace[at] = m.center;
        workspace[at + 1u] = m.rest;
        workspace[at + 2u] = m.factor;
    }
    if (!storesDX) return;
    const vec2 means = gradientSums(m) / float(dims);
    [[dont_unroll]] for (uint pair = lane; 2u * pair < dims; pair += lanes) {
        const uint dim = 2u * pair;
        if (dim + 1u < dims) {
            STORE_ELEMENT_PAIR(dXWords, dXType, dXAt + dim * dXStrides.column, dXStrides.column, gradientAt(dim, m, means),
                               gradientAt(dim + 1u, m, means))
        } else {
            STORE_ELEMENT(dXWords, dXType, dXAt + dim * dXStrides.column, gradientAt(dim, m, means))
        }
    }
}
