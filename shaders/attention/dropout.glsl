// Which pairs dropout keeps (problem.h): a function of the pair's place in the problem, so that tiles,
// chunks, splits and slices drop the same pairs.
//
// Included after pair.glsl or what declares pairTerms, and sequence.glsl.
#include "lib/philox.glsl"

const bool drops = (pairTerms & termDropout) != 0u;

// Bits of four neighbouring keys, the first of them 4 * block, that a query of the chunk keeps.
uint keptOfBlock(uint head, uint query, uint block) {
    uint kept = 0xfu;
#ifdef VKATTN_DROPS
    const uint plane = planeFirst + batch * dropoutHeads + head; // batch entry * heads + head, of the problem
    const uvec4 words = philox(uvec4(block, queryFirst + query, plane, dropoutOffset), uvec2(dropoutSeedLow, dropoutSeedHigh));
    kept = (words.x > dropoutLast ? 1u : 0u) | (words.y > dropoutLast ? 2u : 0u) | (words.z > dropoutLast ? 4u : 0u) |
           (words.w > dropoutLast ? 8u : 0u);
#endif
    return kept;
}
