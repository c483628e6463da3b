// A soft relative position: up to word 0 for keys far behind, as much less for keys far ahead, and half of it word 1 tokens away
// or so. Built in: the same as a bias of every pair.
float vkattnScore(float score, uint batch, uint head, uint query, uint key) {
    const float far = float(vkattnPosition(query) - int(key)) / vkattnNumber(1u), e = exp(-2.0 * abs(far));
    return score + vkattnNumber(0u) * sign(far) * (1.0 - e) / (1.0 + e);
}
float vkattnScoreSlope(float score, uint batch, uint head, uint query, uint key) { return 1.0; }
