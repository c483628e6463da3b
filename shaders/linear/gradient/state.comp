#version 450
// The states at the ends: stateIn and dStateOut as scans have them, in rows and in columns, and dStateIn as it is
// stored. A lane has an element; columns behind those of values are z and the maxima.
#define VKATTN_STAGE_LINEAR_GRADIENT
#include "lib/platform.glsl"

#include "linear/gradient/chunk.glsl"
#include "linear/gradient/output.glsl"

layout(set = 0, binding = slotLinearSource, std430) readonly buffer Source { uint source[]; };

void main() {
    beginUnit();
    const uint index = gl_GlobalInvocationID.x, row = index % rowPitch, column = index / rowPitch;
    if (column >= columnPitch + 2u) return;
    const bool isMaximum = column == columnPitch + 1u, isNorm = column >= columnPitch;
    const uint from = statesAt() + stateFrom, stored = isNorm ? valueDim + (column - columnPitch) : column;
    const bool there = row < rows && (isMaximum ? hasMaximum : isNorm ? isMapped : column < valueDim);
    const uint head = entry * batchStride + stateHead * headStride + row * tokenStride;
    if (what == linearStateStore) {
        if (there) storeGradient(gradientBase + head + stored * dimStride, isMaximum ? 0.0 : workspaceFloat(from + column * rowPitch + row));
        return;
    }
    float value = isMaximum ? uintBitsToFloat(minusInfinityBits) : 0.0;
    if (there && what == linearStateLoad) {
        const uint at = sourceBase + head;
        // Where z is 0 the maximum counts for nothing.
        const bool counts = !isMaximum || uintBitsToFloat(source[at + valueDim * dimStride]) != 0.0;
        if (counts) value = uintBitsToFloat(source[at + stored * dimStride]);
    }
    store(from + column * rowPitch + row, value);
    // The way out has columns for the delta rules alone.
    if (!isNorm && (isDelta || !isOutward)) store(columnsOfState(from) + row * columnPitch + column, value);
}
