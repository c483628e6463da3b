// Several documents in one sequence, none of which sees another: buffer 0 has the document of each token. Built in:
// VKATTN_DOC_IDS_Q and VKATTN_DOC_IDS_K.
bool vkattnVisible(uint batch, uint head, uint query, uint key) {
    const uint token = batch * vkattnKeyTokens();
    return vkattnBuffer(0u, token + query) == vkattnBuffer(0u, token + key);
}
