// How much each key's value counts, behind the softmax: buffer 0 has a factor for each key. Built in: the same factors in V.
float vkattnProbability(float p, uint batch, uint head, uint query, uint key) { return p * vkattnBufferNumber(0u, key); }
