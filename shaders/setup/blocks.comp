#version 450
// Set-up of blocks of pairs: a bit for each column of blocks of a row, set where the block is listed. The
// arrays are data and are never trusted: what names no block is ignored. A workgroup has one row at a time;
// bits are set by atomics, so that neither the order of a list nor what it repeats matters.
#define VKATTN_STAGE_BLOCKS
#include "lib/platform.glsl"

layout(constant_id = 8) const uint lanes = 64; // = workgroup size

#include "attention/operands.glsl"
#include "lib/philox.glsl"

void show(uint rowAt, uint column) {
    if (column < columns) atomicOr(table[rowAt + (column >> 5)], 1u << (column & 31u));
}

// Bytes of a mask, 32 in a word.
uint wordOfMask(uint row, uint word) {
    uint bits = 0u;
    const uint begin = row * columns + word * 32u, count = min(columns - word * 32u, 32u);
    for (uint n = 0u; n < count; ++n) {
        const uint at = firstBase + begin + n;
        bits |= (first[at >> 2] >> ((at & 3u) << 3) & 0xffu) != 0u ? 1u << n : 0u;
    }
    return bits;
}

// Columns that are drawn from: 1 to columns - 2, without those of the neighbours [low, high].
uint low, high;
uint columnOf(uint candidate) { return candidate + 1u < low ? candidate + 1u : candidate + 1u + (high - low + 1u); }
uint movedFrom[mostRandomBlocks], movedTo[mostRandomBlocks];
uint candidateAt(uint at, uint moves) {
    for (uint n = moves; n > 0u; --n)
        if (movedFrom[n - 1u] == at) return movedTo[n - 1u];
    return at;
}
void drawBlocks(uint rowAt, uint head, uint row, uint count) {
    for (uint draw = 0u; draw < random; ++draw) {
        const uvec4 words = philox(uvec4(draw, row, head, 0u), uvec2(seedLow, seedHigh));
        uint above, below;
        umulExtended(words.x, count - draw, above, below);
        const uint drawn = draw + above, taken = candidateAt(drawn, draw), moved = candidateAt(draw, draw);
        movedFrom[draw] = drawn;
        movedTo[draw] = moved;
        show(rowAt, columnOf(taken));
    }
}

void main() {
    const uint lane = gl_LocalInvocationID.x;
    for (uint item = gl_WorkGroupID.x; item < rows * planes; item += gl_NumWorkGroups.x) {
        const uint row = item % rows, plane = item / rows, rowAt = place + item * rowWords;
        bool all = false; // BigBird: rows that see all
        uint count = 0u;
        if (kind == blocksOfBigBird) {
            all = row == 0u || row + 1u == columns;
            if (!all) {
                low = max(row - 1u, 1u);
                high = min(row + 1u, columns - 2u);
                count = columns - 2u - (high - low + 1u);
                all = count <= random;
            }
        }
        if (add == 0u)
            for (uint word = lane; word < rowWords; word += lanes) {
                uint bits = all ? 0xffffffffu : 0u;
                if (kind == blocksOfMask) bits = wordOfMask(item, word);
                table[rowAt + word] = bits;
            }
        memoryBarrierBuffer();
        barrier();
        if (kind == blocksOfLists) {
            const uint at = firstBase + plane * (rows + 1u) + row;
            const uint begin = min(first[at], entries), end = min(first[at + 1u], entries);
            for (uint n = begin + lane; n < end; n += lanes) show(rowAt, second[secondBase + n]);
        } else if (kind == blocksOfIndices) {
            const uint listed = min(first[firstBase + item], entries);
            for (uint n = lane; n < listed; n += lanes) show(rowAt, second[secondBase + item * entries + n]);
        } else if (kind == blocksOfBigBird && !all && lane == 0u) {
            show(rowAt, 0u);
            show(rowAt, columns - 1u);
            for (uint column = low; column <= high; ++column) show(rowAt, column);
            drawBlocks(rowAt, plane, row, count);
        }
    }
}
