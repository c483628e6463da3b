#version 450
// The gradients of gamma and beta: the sums of blocks of rows, added up in their order, to those of the
// boxes before. An invocation takes two neighbouring columns. Every box stores the gradients, and the
// last one stores them whole.
#define VKATTN_STAGE_NORM_GRADIENT_SUM
#include "lib/platform.glsl"

#include "lib/element.glsl"

layout(constant_id = constantElementTypes) const uint elementTypes = 0; // interop.h
layout(constant_id = constantForm) const uint form = 0;                 // interop.h
const uint dGammaType = elementTypes & 15u, dBetaType = elementTypes >> typesOut & 15u;
const bool hasDGamma = (form & formGamma) != 0u, hasDBeta = (form & formBeta) != 0u;

layout(set = 0, binding = slotDGamma, std430) buffer DGamma { uint dGammaWords[]; };
layout(set = 0, binding = slotDBeta, std430) buffer DBeta { uint dBetaWords[]; };
layout(set = 0, binding = slotBlocks, std430) readonly buffer Blocks { float partial[]; };
layout(set = 0, binding = slotTotals, std430) buffer Totals { float totals[]; };

// One loop for both columns: Mesa 22's software driver leaves a shader after 65,535 iterations.
void main() {
    const uint column = 2u * gl_GlobalInvocationID.x;
    if (column >= dims) return;
    const bool both = column + 1u < dims;
    // Of dY * z in x, and of dY in y.
    const uint at = totalsBase + column, next = both ? 1u : 0u;
    vec2 first = vec2(0.0), second = vec2(0.0);
    if (firstBox == 0u) {
        first = vec2(totals[at], totals[at + dims]);
        second = vec2(totals[at + next], totals[at + dims + next]);
    }
    [[dont_unroll]] for (uint block = 0u; block < blocks; ++block) {
        const uint from = partialBase + 2u * block * dims + column;
        first += vec2(partial[from], partial[from + dims]);
        second += vec2(partial[from + next], partial[from + dims + next]);
    }
    totals[at] = first.x;
    totals[at + dims] = first.y;
    if (both) {
        totals[at + 1u] = second.x;
        totals[at + dims + 1u] = second.y;
    }
    if (both) {
        if (hasDGamma) STORE_ELEMENT_PAIR(dGammaWords, dGammaType, dGammaBase + column * dGammaStride, dGammaStride, first.x, second.x)
        if (hasDBeta) STORE_ELEMENT_PAIR(dBetaWords, dBetaType, dBetaBase + column * dBetaStride, dBetaStride, first.y, second.y)
    } else {
        if (hasDGamma) STORE_ELEMENT(dGammaWords, dGammaType, dGammaBase + column * dGammaStride, first.x)
        if (hasDBeta) STORE_ELEMENT(dBetaWords, dBetaType, dBetaBase + column * dBetaStride, first.y)
    }
}
