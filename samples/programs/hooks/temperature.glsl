// A temperature for each head: buffer 0 has what its scores are multiplied with. Built in: the same factors in q.
float vkattnScore(float score, uint batch, uint head, uint query, uint key) { return score * vkattnBufferNumber(0u, head); }
float vkattnScoreSlope(float score, uint batch, uint head, uint query, uint key) { return vkattnBufferNumber(0u, head); }
