#version 450
// Layer norm (Ba et al. 2016) and RMS norm (Zhang and Sennrich 2019) of x + residual. A workgroup
// takes a row. A lane owns pairs of neighbouring dims, the same ones in every
// pass, so that an output may be the memory of an input and 16-bit results fill words.
//
// Defines: VKATTN_PLAIN: gamma and beta are gathered in the workspace, and the sum is another
// dispatch's; the shader stays within the four storage buffers that Vulkan 1.0 guarantees.
#define VKATTN_STAGE_NORM
#include "lib/platform.glsl"

#include "lib/element.glsl"

layout(constant_id = constantElementTypes) const uint elementTypes = 0; // interop.h
layout(constant_id = constantForm) const uint form = 0;                 // interop.h
layout(constant_id = 8) const uint lanes = 64;                          // = workgroup size; sizes shared memory

const uint xType = elementTypes & 15u, yType = elementTypes >> typesOut & 15u, residualType = elementTypes >> typesResidual & 15u,
           gammaType = elementTypes >> typesGamma & 15u, betaType = elementTypes >> typesBeta & 15u,
           sumType = elementTypes >> typesSum & 15u;
const bool hasResidual = (form & formResidual) != 0u, hasGamma = (form & formGamma) != 0u, hasBeta = (form & formBeta) != 0u,
           hasSum = (form & formSum) != 0u, rms = (form & formRms) != 0u;

layout(set = 0, binding = slotX, std430) readonly buffer X { uint xWords[]; };
layout(set = 0, binding = slotY, std430) buffer Y { uint yWords[]; };
layout(set = 0, binding = slotResidual, std430) readonly buffer Residual { uint residualWords[]; };
#ifdef VKATTN_PLAIN
layout(set = 0, binding = slotParameters, std430) readonly buffer Parameters { float parameters[]; };
#else
layout(set = 0, binding = slotGamma, std430) readonly buffer Gamma { uint gammaWords[]; };
layout(set = 0, binding = slotBeta, std430) readonly buffer Beta { uint betaWords[]; };
layout(set = 0, binding = slotSum, std430) buffer Sum { uint sumWords[]; };
#endif

uint lane, xAt, yAt, residualAt, sumAt;

// A value as it is stored and loaded again.
float roundedTo(uint type, float value) { return type == elementF32 ? value : halfWidthToFloat(type, floatToHalfWidth(type, value)); }

float summand(uint dim) {
    const float x = LOAD_ELEMENT(xWords, xType, xAt + dim * xStrides.column);
    if (!hasResidual) return hasSum ? roundedTo(sumType, x) : x;
    const float s = x + LOAD_ELEMENT(residualWords, residualType, residualAt + dim * residualStrides.column);
    return hasSum ? roundedTo(sumType, s) : s;
}

#include "operations/moments.glsl"

float normed(uint dim, float s, Moments m) {
    float value = standardized(s, m);
#ifdef VKATTN_PLAIN
    if (hasGamma) value *= parameters[dim];
    if (hasBeta) value += parameters[dims + dim];
#else
    if (hasGamma) value *= LOAD_ELEMENT(gammaWords, gammaType, gammaBase + dim * gammaStride);
    if (hasBeta) value += LOAD_ELEMENT(betaWords, betaType, betaBase + dim * betaStride);
#endif
    return value;
}

void main() {
    lane = gl_LocalInvocationID.x;
    const uint row = gl_WorkGroupID.x, batch = gl_WorkGroupID.z / groups, group = gl_WorkGroupID.z % groups;
    xAt = xBase + batch * xStrides.batch + group * xStrides.group + row * xStrides.row;
    yAt = yBase + batch * yStrides.batch + group * yStrides.group + row * yStrides.row;
    residualAt = residualBase + batch * residualStrides.batch + group * residualStrides.group + row * residualStrides.row;
    sumAt = sumBase + batch * sumStrides.batch + group * sumStrides.group + row * sumStrides.row;

    const Moments m = momentsOfRow();
    [[dont_unroll]] for (uint pair = lane; 2u * pair < dims; pair += lanes) {
        const uint dim = 2u * pair;
        const bool both = dim + 1u < dims;
        const float first = summand(dim), second = both ? summand(dim + 1u) : 0.0;
        if (both) {
#ifndef VKATTN_PLAIN
            if (hasSum) STORE_ELEMENT_PAIR(sumWords, sumType, sumAt + dim * sumStrides.column, sumStrides.column, first, second)
#endif
            STORE_ELEMENT_PAIR(yWords, yType, yAt + dim * yStrides.column, yStrides.column, normed(dim, first, m),
                               normed(dim + 1u, second, m))
        } else {
#ifndef VKATTN_PLAIN
            if (hasSum) STORE_ELEMENT(sumWords, sumType, sumAt + dim * sumStrides.column, first)
#endif
            STORE_ELEMENT(yWords, yType, yAt + dim * yStrides.column, normed(dim, first, m))
        }
    }
}
