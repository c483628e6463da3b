// ALiBi (Press et al. 2021): buffer 0 has the slope of each head. Built in: VKATTN_ALIBI_SLOPES.
float vkattnScore(float score, uint batch, uint head, uint query, uint key) {
    return score - vkattnBufferNumber(0u, head) * abs(float(int(key) - vkattnPosition(query)));
}
float vkattnScoreSlope(float score, uint batch, uint head, uint query, uint key) { return 1.0; }
