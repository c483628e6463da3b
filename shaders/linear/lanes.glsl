// Lanes of the scans of the state: columns, whose rows are all in registers of one lane, or runs of rows of several.
// Included after chunk.glsl.
layout(constant_id = 9) const uint columnLanes = 8;
layout(constant_id = 10) const uint rowLanes = 1;
layout(constant_id = 11) const uint rowsPerLane = 8;
layout(constant_id = 12) const uint columnsPerLane = 2; // pairs of neighbours
layout(constant_id = 13) const uint shuffleLanes = 4;   // with VKATTN_SUBGROUPS

layout(set = 0, binding = slotLinearQ, std430) readonly buffer Q { uint q[]; };
layout(set = 0, binding = slotLinearK, std430) readonly buffer K { uint k[]; };
layout(set = 0, binding = slotLinearV, std430) readonly buffer V { uint v[]; };
layout(set = 0, binding = slotLinearOut, std430) buffer Out { uint outWords[]; };
layout(set = 0, binding = slotLinearStateIn, std430) readonly buffer StateIn { uint stateIn[]; };
layout(set = 0, binding = slotLinearStateOut, std430) buffer StateOut { uint stateOut[]; };

const bool wholeRows = (form & formLinearWholeRows) != 0u, wholeColumns = (form & formLinearWholeColumns) != 0u;

uint lane, columnLane, rowLane, rowFirst, firstColumn;
void beginLanes() {
    lane = gl_LocalInvocationID.x;
    columnLane = lane % columnLanes;
    rowLane = lane / columnLanes;
    rowFirst = rowLane * rowsPerLane;
    firstColumn = gl_WorkGroupID.x * columnLanes * columnsPerLane;
}
uint columnOf(uint c) { return firstColumn + c / 2u * (2u * columnLanes) + 2u * columnLane + c % 2u; }
bool isColumn(uint c) { return wholeColumns || columnOf(c) < valueDim; }
bool isRow(uint row) { return wholeRows || row < rows; }

// Adds up numbers of the lanes of a column, in a fixed order. `partial` has `count` of each lane.
#define ADD_ROW_LANES(numbers, count)                                                                                                      \
    [[unroll]] for (uint n = 0u; n < count; ++n) partial[(n * rowLanes + rowLane) * columnLanes + columnLane] = numbers[n];                \
    barrier();                                                                                                                             \
    [[unroll]] for (uint n = 0u; n < count; ++n) numbers[n] = 0.0;                                                                         \
    [[dont_unroll]] for (uint other = 0u; other < rowLanes; ++other)                                                                       \
        [[unroll]] for (uint n = 0u; n < count; ++n) numbers[n] += partial[(n * rowLanes + other) * columnLanes + columnLane];
