// What lanes.comp and matrices.comp share: which rows and keys a workgroup has, where a row's operands lie, and what an option adds to
// a score or hides. Included after the bindings, element.glsl, math.glsl and sequence.glsl.

uint headCount() { return headsAndPacked & 0xffffu; }
uint packedHeads() { return headsAndPacked >> 16; }
uint groupSize() { return groupAndPhase & 0xffffu; }
uint headPhase() { return groupAndPhase >> 16; }

// Whether keys may be hidden otherwise than by position: then no step is free of tests.
const bool anyPairHidden = (pairTerms & (termBias | termMask | termBitMask | termDocuments)) != 0u;
const float lowest = -3.40282346638528859812e38; // -FLT_MAX: above no finite score, so that the maximum of finite scores is exact

uint batch, headFirst, headDim, valueDim;
uint rowCount, tileRow, tileRowEnd; // rows there are; those of the workgroup
uint qDim, kDim, vDim, oDim;
uint kAt, vAt; // of key 0 of the sequence
Sequence seq;
int splitBegin, splitEnd; // keys of the split, from key 0 of the sequence
int keyLast;              // the last key that may be read

// Of workgroup x * y * z: row tiles, splits, batch * heads. False where it has no rows: said at the end, because returning early took 24
// registers more on NVK.
bool beginTile(uint tileRows) {
    const uint headGroups = headCount() / packedHeads();
    batch = gl_WorkGroupID.z / headGroups;
    headFirst = gl_WorkGroupID.z % headGroups * packedHeads();
    headDim = dims & 0xffffu;
    valueDim = dims >> 16;
    qDim = kDim = vDim = oDim = 1u;
#ifdef VKATTN_OPTIONS
    qDim = options.qDim, kDim = options.kDim, vDim = options.vDim, oDim = options.oDim;
#endif
    seq = sequenceOf(batch);
    rowCount = rowsOf(seq) * packedHeads();
    tileRow = gl_WorkGroupID.x * tileRows;
    tileRowEnd = min(tileRow + tileRows, rowCount);

    const uint kvHead = (headPhase() + headFirst) / groupSize();
    // Keys count from the sequence's first; the bases are those of its key keyFirst.
    kAt = kBase + batch * kBatch + kvHead * kHead + (seq.keyStart - keyFirst) * kToken;
    vAt = vBase + batch * vBatch + kvHead * vHead + (seq.keyStart - keyFirst) * vToken;

    splitBegin = int(keyFirst + gl_WorkGroupID.y * splitKeys);
    splitEnd = int(min(min(uint(splitBegin) + splitKeys, keyFirst + keys), seq.keyCount));
    keyLast = max(int(min(keyFirst + keys, seq.keyCount)) - 1, 0);
    return tileRow < rowCount;
}

// A packed row is query * packedHeads + head of the group.
uint headOf(uint row) { return headFirst + row % packedHeads(); }
uint queryOf(uint row) { return row / packedHeads(); }

uint queryAt(uint row) { return qBase + batch * qBatch + headOf(row) * qHead + (seq.queryStart + queryOf(row)) * qToken; }
uint keyAt(int key) { return kAt + uint(min(key, keyLast)) * kToken; }
uint valueAt(int key) { return vAt + uint(min(key, keyLast)) * vToken; }
uint outputAt(uint row) { return oBase + batch * oBatch + headOf(row) * oHead + (seq.queryStart + queryOf(row)) * oToken; }
// Word of the partial result of a row in its part-th split or key lane.
uint partialAt(uint row, uint part) {
    const uint parts = partsAndFirst & 0xffffu;
    return ((gl_WorkGroupID.z * packedHeads() * queries + row) * parts + (partsAndFirst >> 16) + part) * (valueDim + partialWords);
}

#ifdef VKATTN_OPTIONS
uint documentOf(uint row) {
    return (pairTerms & termDocuments) != 0u ? idsQ[options.idsQBase + batch * options.idsQBatch + seq.queryStart + queryOf(row)] : 0u;
}
float slopeOf(uint row) {
    return (pairTerms & termAlibi) != 0u ? uintBitsToFloat(slopes[options.slopesBase + headOf(row)]) : 0.0;
}
// The bias of a pair. `query` of the chunk; a key that exists.
float biasOf(uint head, uint query, int key) {
    return LOAD_ELEMENT(bias, options.biasType,
                        options.biasBase + batch * options.biasBatch + head * options.biasHead + query * options.biasQuery +
                            (uint(key) - keyFirst) * options.biasKey);
}
// Whether masks, documents and bias leave the pair visible; `added`: its bias.
bool termsShow(uint head, uint query, uint document, int key, inout float added) {
    const uint held = uint(key) - keyFirst; // counted as the bindings do
    bool seen = true;
    if ((pairTerms & termMask) != 0u) {
        const uint at = options.maskBase + batch * options.maskBatch + head * options.maskHead + query * options.maskQuery + held * options.maskKey;
        seen = seen && (mask[at >> 2] >> ((at & 3u) << 3) & 0xffu) != 0u;
    }
    if ((pairTerms & termBitMask) != 0u) {
        const uint bit = held + options.maskPhase;
        const uint at =
            options.maskBase + batch * options.maskBatch + head * options.maskHead + query * options.maskQuery + (bit >> 5) * options.maskKey;
        seen = seen && (mask[at] >> (bit & 31u) & 1u) != 0u;
    }
    if ((pairTerms & termDocuments) != 0u) seen = seen && idsK[options.idsKBase + batch * options.idsKBatch + seq.keyStart + held] == document;
    if ((pairTerms & termBias) != 0u) {
        added = biasOf(head, query, key);
        seen = seen && floatBitsToUint(added) != minusInfinityBits;
    }
    return seen;
}
// A scaled score with everything that options add to it. `distance`: key minus aligned position.
float withTerms(float score, float added, float slope, int distance) {
    if ((pairTerms & termSoftcap) != 0u) {
        const float softcap = uintBitsToFloat(options.softcap);
        score = softcap * stableTanh(score / softcap);
    }
    if ((pairTerms & termBias) != 0u) score += added;
    if ((pairTerms & termAlibi) != 0u) score -= slope * abs(float(distance));
    return score;
}
#endif

// What a visible score counts for in a row's worst score: the largest |score| in bits, -infinity as 1.
uint worstOf(float score) {
    const uint bits = floatBitsToUint(score);
    return bits == minusInfinityBits ? 1u : bits & 0x7fffffffu;
}

// The sink's bits of a row, and its log-sum-exp where it is wanted.
uint sinkOf(uint row) {
#ifdef VKATTN_OPTIONS
    if ((flags & flagSinks) != 0u) return sinks[options.sinksBase + headOf(row)];
#endif
    return minusInfinityBits;
}
void storeLse(uint row, uint bits) {
#ifdef VKATTN_OPTIONS
    if ((flags & flagLse) != 0u)
        lse[options.lseBase + batch * options.lseBatch + headOf(row) * options.lseHead + (seq.queryStart + queryOf(row)) * options.lseToken] = bits;
#endif
}
