// Tokens of a grid with a bias by how far they lie apart in rows and in columns (Liu et al. 2021): words 0 and 1 have rows and
// columns of the grid, buffer 0 has for each head a table of 2 rows - 1 by 2 columns - 1. Built in: the same as a bias of every pair.
float vkattnScore(float score, uint batch, uint head, uint query, uint key) {
    const uint rows = vkattnWord(0u), columns = vkattnWord(1u), width = 2u * columns - 1u;
    const uint down = query / columns + rows - 1u - key / columns, across = query % columns + columns - 1u - key % columns;
    return score + vkattnBufferNumber(0u, (head * (2u * rows - 1u) + down) * width + across);
}
float vkattnScoreSlope(float score, uint batch, uint head, uint query, uint key) { return 1.0; }
