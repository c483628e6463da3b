// The hooks of conform's program; hooks.cpp says the same for the processor. Of everything that a program may call, something
// comes in, and both buffers are read past their end.
float vkattnScore(float score, uint batch, uint head, uint query, uint key) {
    const float added = vkattnBufferNumber(0u, (key * 5u + query * 3u + head) % 61u);
    const float far = vkattnNumber(1u) * float(abs(int(key) - vkattnPosition(query)) % 17);
    return score - 0.25 * clamp(score, -8.0, 8.0) + added - far + 0.125 * float(batch & 1u);
}
float vkattnScoreSlope(float score, uint batch, uint head, uint query, uint key) { return abs(score) < 8.0 ? 0.75 : 1.0; }

bool vkattnVisible(uint batch, uint head, uint query, uint key) {
    if (key + 1u == vkattnKeyTokens() || vkattnBufferLength(1u) == 0u) return true;
    const uint word = vkattnBuffer(1u, (query * 7u + key / 3u + head * 5u + batch) % 47u);
    return (word >> ((key + vkattnWord(0u)) & 31u) & 1u) != 0u;
}

float vkattnProbability(float p, uint batch, uint head, uint query, uint key) {
    return p * (0.25 * float((key * 3u + query * 5u + head + batch) % 7u) - 0.375);
}

float vkattnRow(float score) { return 1.0 / (1.0 + exp(-score)); }
