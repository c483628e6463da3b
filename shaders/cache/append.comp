#version 450
// Appends tokens to a cache: copies them to where the cache ends, converted to the cache's type. An
// invocation copies two neighbouring dims of a token; of a small type four, or a block, and a workgroup a row that has one scale.
#define VKATTN_STAGE_APPEND
#include "lib/platform.glsl"

#include "operations/tokens.glsl"
#include "lib/small_types.glsl"

layout(set = 0, binding = slotAppendStarts, std430) readonly buffer Starts { uint starts[]; };
layout(set = 0, binding = slotPageTable, std430) readonly buffer PageTable { uint pageTable[]; };

const bool ring = (form & formRing) != 0u, paged = (form & formPages) != 0u;

// What the arrays hold is never trusted: a token without a place is not written, and no sum wraps.
void findPlace(uint token, uint startOfBatch) {
    beginToken(token, startOfBatch);
    if (ring) {
        const uint row = rowFirst + token, first = hasStarts ? startOfBatch : start;
        // Of more tokens than the cache has room for, the last ones stay. As i32 a start from 2^31 on is negative.
        tokenHasPlace = first < 0x80000000u && allRows - row <= cacheRows;
        place = (first % cacheRows + row % cacheRows) % cacheRows;
    }
    uint entry = batch, entryRow = place;
    if (paged) {
        const uint known = tokenHasPlace ? place : 0u;
        // A negative page is a large one, and one before this dispatch's pages is, too.
        entry = pageTable[tableBase + batch * tablePages + known / pageTokens] - pageFirst;
        entryRow = known % pageTokens;
        tokenHasPlace = tokenHasPlace && entry < pages;
    }
    yAt = yBase + entry * yStrides.batch + gl_WorkGroupID.z % groups * yStrides.group + entryRow * yStrides.row;
}

// Parts of words: the rest may be another invocation's, or memory that is not ours.
void storePart(uint word, uint shift, uint mask, uint bits) {
    atomicAnd(yWords[word], ~(mask << shift));
    atomicOr(yWords[word], bits << shift);
}
void storeByte(uint at, uint code) { storePart(at >> 2, (at & 3u) << 3, 0xffu, code); }
void storeHalf(uint at, uint bits) { storePart(at >> 1, (at & 1u) << 4, 0xffffu, bits); }
// Four bytes from byte `at` on, of which `count` are there.
void storeBytes(uint at, uint codes, uint count) {
    if (count == 4u && (at & 3u) == 0u)
        yWords[at >> 2] = codes;
    else
        for (uint n = 0u; n < count; ++n) storeByte(at + n, codes >> (8u * n) & 0xffu);
}

void storeFp8(uint dim) {
    if (dim >= dims) return;
    const uint count = min(dims - dim, 4u);
    uint codes = 0u;
    for (uint n = 0u; n < count; ++n) codes |= floatToFp8(yType, loadX(dim + n)) << (8u * n);
    if (yStrides.column == 1u)
        storeBytes(yAt + dim, codes, count);
    else
        for (uint n = 0u; n < count; ++n) storeByte(yAt + (dim + n) * yStrides.column, codes >> (8u * n) & 0xffu);
}

// The nearest code, even where two are as near. A scale of 0 or of no number: 0.
uint codeOf(float value, float scale, float least, float most) {
    if (scale == 0.0 || !isFiniteBits(floatBitsToUint(scale))) return 0u;
    return uint(int(clamp(roundEven(value / scale), least, most)));
}

void storeBlock(uint block) {
    const uint first = 32u * block;
    if (first >= dims) return;
    const uint count = min(dims - first, 32u);
    float extreme = 0.0;
    bool finite = true;
    for (uint n = 0u; n < count; ++n) {
        const float value = loadX(first + n);
        finite = finite && isFiniteBits(floatBitsToUint(value));
        extreme = abs(value) > abs(extreme) ? value : extreme;
    }
    const bool bytes = yType == elementQ8;
    const float scale = !finite ? uintBitsToFloat(canonicalNanBits) : bytes ? abs(extreme) / 127.0 : extreme / -8.0;
    const uint at = yAt + block * (bytes ? 17u : 9u);
    storeHalf(at, finite ? floatToHalf(scale) : 0x7e00u);
    for (uint n = 0u; n < (bytes ? 16u : 8u); ++n) {
        uint two = 0u;
        for (uint e = 2u * n; e < 2u * n + 2u; ++e) {
            const float value = e < count ? loadX(first + e) : 0.0;
            uint code = codeOf(value, scale, bytes ? -127.0 : -8.0, bytes ? 127.0 : 7.0) & 0xffu;
            if (!bytes) {
                const float other = e + 16u < count ? loadX(first + e + 16u) : 0.0;
                code = (code + 8u & 15u) | (codeOf(other, scale, -8.0, 7.0) + 8u & 15u) << 4;
            }
            two |= code << (8u * (e & 1u));
        }
        storeHalf(at + 1u + n, two);
    }
}

// Bits of magnitudes are in the order of these, and those of what is not finite are the largest.
shared uint largestBits;
void storeRow() {
    if (gl_LocalInvocationIndex == 0u) largestBits = 0u;
    barrier();
    uint own = 0u;
    for (uint d = gl_LocalInvocationIndex; d < dims; d += gl_WorkGroupSize.x) own = max(own, floatBitsToUint(loadX(d)) & 0x7fffffffu);
    atomicMax(largestBits, own);
    barrier();
    const bool finite = largestBits < 0x7f800000u;
    const float scale = finite ? uintBitsToFloat(largestBits) / 127.0 : uintBitsToFloat(canonicalNanBits);
    if (gl_LocalInvocationIndex == 0u) yWords[yAt >> 2] = finite ? floatBitsToUint(scale) : canonicalNanBits;
    for (uint d = 4u * gl_LocalInvocationIndex; d < dims; d += 4u * gl_WorkGroupSize.x) {
        const uint count = min(dims - d, 4u);
        uint codes = 0u;
        for (uint n = 0u; n < count; ++n) codes |= (codeOf(loadX(d + n), scale, -127.0, 127.0) & 0xffu) << (8u * n);
        storeBytes(yAt + 4u + d, codes, count);
    }
}

void main() {
    const uint dim = 2u * gl_GlobalInvocationID.x;
    batch = gl_WorkGroupID.z / groups;
    findPlace(gl_WorkGroupID.y, hasStarts ? starts[startsBase + batch] : 0u);
    if (IS_SMALL(yType)) {
        if (!tokenHasPlace) return; // the whole workgroup
        if (yType == elementInt8)
            storeRow();
        else if (yType >= elementQ8)
            storeBlock(gl_GlobalInvocationID.x);
        else
            storeFp8(4u * gl_GlobalInvocationID.x);
        return;
    }
    if (dim >= dims || !tokenHasPlace) return;
    if (dim + 1u < dims)
        storeNeighbours(dim, loadX(dim), loadX(dim + 1u));
    else
        storeY(dim, loadX(dim));
}
