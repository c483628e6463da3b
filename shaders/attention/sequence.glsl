// Where a batch entry lies in memory, and how many tokens it has: lengths, and the sequences of
// ragged batches. Included after operands.glsl.
#include "attention/rule.glsl"

// Starts count tokens from where the operand's base points: 0 but in ragged batches, where all
// sequences lie in one tensor.
struct Sequence {
    uint queryStart, queryCount, keyStart, keyCount;
    uint prefix; // keys that no causal rule hides
    int shift;   // with offsets, i' - i
};

// Lengths are data on the device: clamped, never trusted. The table of ragged batches was clamped
// when sequences.comp wrote it. A shader that binds no lengths has batch entries of one extent.
Sequence sequenceOf(uint batchInChunk) {
    Sequence s = Sequence(0u, queryTokens, 0u, keyTokens, 0u, 0);
#ifdef VKATTN_LENGTHS_BOUND
    if ((flags & flagTable) != 0u) {
        const uint at = lengthsBase + batchInChunk * sequenceWords;
        s = Sequence(lengths[at], lengths[at + 1u], lengths[at + 2u], lengths[at + 3u], 0u, 0);
        if ((flags & flagOffsets) != 0u) s.shift = int(lengths[at + sequenceShift]);
        if (hasPrefix) s.prefix = lengths[at + sequencePrefix];
        if ((pairTerms & (termsOfRules | termsOfHooks | termPages)) != 0u) beginRules(at - lengths[at + sequenceHeader], lengths[at + sequenceEntry], s.keyStart);
        // Of pages the place of the first one.
        if ((flags & flagRagged) == 0u) s.keyStart = 0u;
    } else if ((flags & flagKeyLengths) != 0u) {
        s.keyCount = min(lengths[lengthsBase + batchInChunk], keyTokens);
    }
#endif
    return s;
}
// Rows of the chunk that the batch entry has; what lies past them is neither read nor written.
uint rowsOf(Sequence s) { return min(queries, max(s.queryCount, queryFirst) - queryFirst); }
// The same for the keys of the dispatch.
uint keysOf(Sequence s) { return min(keys, max(s.keyCount, keyFirst) - keyFirst); }

// The batch entry at hand. Keys count from its first; `keyLast` is the last key of the dispatch that may be
// read, and keyFirst the first. Where the entry has none of them nothing reads any.
uint batch;
Sequence seq;
int keyLast;
void beginSequence(uint batchInChunk) {
    batch = batchInChunk;
    seq = sequenceOf(batchInChunk);
    keyLast = max(int(min(keyFirst + keys, seq.keyCount)) - 1, int(keyFirst));
}
// The key that is read for one of a step. Steps are whole from key 0 on: a step may begin before the keys of
// the dispatch, where a segment begins inside of the step, and end behind them.
int heldKey(int key) { return clamp(key, int(keyFirst), keyLast); }
