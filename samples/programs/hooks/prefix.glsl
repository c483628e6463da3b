// Causal but for a prefix, which every query sees: word 0 has its length. Built in: VKATTN_CAUSAL with
// VKATTN_PREFIX_LENGTHS.
bool vkattnVisible(uint batch, uint head, uint query, uint key) { return int(key) <= vkattnPosition(query) || key < vkattnWord(0u); }
