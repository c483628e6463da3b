// Rows of q, as key_value.glsl has those of k and v, for passes over tiles.
//
// Included after key_value.glsl.
struct RowAt {
    uint at; // element of dim 0
};
uint headCount() { return headsAndPacked & 0xffffu; }
uint groupSize() { return groupAndPhase & 0xffffu; }
uint rowCount; // of the batch entry at hand
uint qAt;      // of row 0 of the head at hand
void beginQueries(uint head) { qAt = qBase + batch * qBatch + head * qHead + seq.queryStart * qToken; }
uint heldRow(int row) { return min(uint(row), rowCount - 1u); }
RowAt queryRow(int row) { return RowAt(qAt + heldRow(row) * qToken); }
float queryElement(RowAt row, uint dim) {
    if (!exactDims && dim >= headDim) return 0.0;
    return LOAD_ELEMENT(q, qType, row.at + dim * qDim);
}
