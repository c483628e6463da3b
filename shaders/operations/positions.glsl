// The row of the tables of rotary embedding that a token takes. Positions that a device array holds
// are never trusted: a position past the table counts as the table's last row.
#include "operations/starts.glsl"

const bool hasPositions = (form & formPositions) != 0u;

layout(set = 0, binding = slotCos, std430) readonly buffer Cos { float cosines[]; };
layout(set = 0, binding = slotSin, std430) readonly buffer Sin { float sines[]; };

// `given` is the entry of the array of positions, and `startOfBatch` that of the array of starts; 0
// where there is none.
uint tableRowOf(uint token, uint given, uint startOfBatch) {
    const uint first = min(hasStarts ? startOfBatch : start, positions); // no sum wraps: neither is over 2^30
    return min(hasPositions ? given : first + rowFirst + token, positions - 1u);
}
