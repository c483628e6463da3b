// The hooks of a program (problem.h), and what its text may call. The text is a file of the host's: vkattn::Program
// and vkattn_compile_program (CMake) give the compiler its place, and define VKATTN_HOOK_SCORE and so on for each hook that the
// text has.
//
// Included by pair.glsl, after sequence.glsl and reach.glsl.

// Word n of the problem's 16; of what lies outside the last one.
uint vkattnWord(uint n) { return rule.words[min(n, programWordCount - 1u) / 4u][min(n, programWordCount - 1u) % 4u]; }
float vkattnNumber(uint n) { return uintBitsToFloat(vkattnWord(n)); }
// Words of a buffer; 0 where the problem has none.
uint vkattnBufferLength(uint buffer_) { return rule.sizes[min(buffer_, programBufferCount - 1u)]; }
// A word of a buffer: the last one for what lies outside, and 0 where there is none.
uint vkattnBuffer(uint buffer_, uint n) {
    const uint words = vkattnBufferLength(buffer_);
    // What is read where there is nothing is a word of the table.
    const uint word = lengths[rule.places[min(buffer_, programBufferCount - 1u)] + min(n, max(words, 1u) - 1u)];
    return words == 0u ? 0u : word;
}
float vkattnBufferNumber(uint buffer_, uint n) { return uintBitsToFloat(vkattnBuffer(buffer_, n)); }
// i', where query i stands among the keys; and the tokens of the batch entry.
int vkattnPosition(uint query) { return alignedPosition(query - queryFirst); }
uint vkattnQueryTokens() { return seq.queryCount; }
uint vkattnKeyTokens() { return seq.keyCount; }

#ifdef VKATTN_HOOK_SCORE
float vkattnScore(float score, uint batch, uint head, uint query, uint key);
#endif
#ifdef VKATTN_HOOK_SCORE_SLOPE
float vkattnScoreSlope(float score, uint batch, uint head, uint query, uint key);
#endif
#ifdef VKATTN_HOOK_VISIBLE
bool vkattnVisible(uint batch, uint head, uint query, uint key);
#endif
#ifdef VKATTN_HOOK_ROW
float vkattnRow(float score);
#endif
#ifdef VKATTN_HOOK_PROBABILITY
float vkattnProbability(float p, uint batch, uint head, uint query, uint key);
#endif

#include "vkattn_program.glsl"
