// The window that vkattn_problem has too: word 0 keys to each side.
bool vkattnVisible(uint batch, uint head, uint query, uint key) { return abs(int(key) - vkattnPosition(query)) <= int(vkattnWord(0u)); }
