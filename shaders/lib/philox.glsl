// Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011):
// 128 random bits as a pure function of a counter and a key. src/util/philox.hpp computes the same.
#ifndef VKATTN_PHILOX_GLSL_
#define VKATTN_PHILOX_GLSL_
uvec4 philox(uvec4 counter, uvec2 key) {
    [[unroll]] for (uint round = 0u; round < 10u; ++round) {
        uint firstHigh, firstLow, secondHigh, secondLow;
        umulExtended(0xd2511f53u, counter.x, firstHigh, firstLow);
        umulExtended(0xcd9e8d57u, counter.z, secondHigh, secondLow);
        counter = uvec4(secondHigh ^ counter.y ^ key.x, secondLow, firstHigh ^ counter.w ^ key.y, firstLow);
        key += uvec2(0x9e3779b9u, 0xbb67ae85u);
    }
    return counter;
}
#endif
