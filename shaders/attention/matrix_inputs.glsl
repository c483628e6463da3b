// K and V as inputs of matrices: of the inputs' own 16-bit type, or of an 8-bit float type, every number of
// which is one of f16 and of bf16 too: nothing is rounded.
//
// Included after key_value.glsl and matrix_lanes.glsl. Defines: VKATTN_FP8_INPUTS: K and V may be of an
// 8-bit type. `wholeWords`: dims are neighbours that fill words, of Q too.
#ifdef VKATTN_FP8_INPUTS
uint inputsOfFp8(uint type, uint codes) { // two codes, in the lowest bits
#ifndef VKATTN_BF16
    if (type == elementFp8E5M2) return (codes & 0xffu) << 8 | (codes & 0xff00u) << 16; // the upper byte of f16
#endif
    return packInputs(smallFloat(type, codes & 0xffu), smallFloat(type, codes >> 8 & 0xffu));
}
uvec2 inputsOfWord(uint type, uint codes) { return uvec2(inputsOfFp8(type, codes), inputsOfFp8(type, codes >> 16)); }

// The codes of four neighbours from a multiple of 4 on, the lowest bits first; past the end 0, which is the
// number 0 in both types.
#define FP8_CODE(words, at, dim, stride, count) ((dim) < (count) ? SMALL_BYTE(words, (at) + (dim) * (stride)) : 0u)
#define FP8_WORD(words, at, dim, stride, count)                                                                                            \
    (wholeWords ? ((dim) < (count) ? (words)[(at) + (dim) >> 2] : 0u)                                                                      \
                : FP8_CODE(words, at, dim, stride, count) | FP8_CODE(words, at, (dim) + 1u, stride, count) << 8 |                          \
                      FP8_CODE(words, at, (dim) + 2u, stride, count) << 16 | FP8_CODE(words, at, (dim) + 3u, stride, count) << 24)
#define FP8_EIGHT(words, type, at, dim, stride, count)                                                                                     \
    uvec4(inputsOfWord(type, FP8_WORD(words, at, dim, stride, count)), inputsOfWord(type, FP8_WORD(words, at, (dim) + 4u, stride, count)))
#define EIGHT_INPUTS(bits, words, type, at, dim, stride, count)                                                                            \
    if (IS_SMALL(type))                                                                                                                    \
        bits = FP8_EIGHT(words, type, at, dim, stride, count);                                                                             \
    else                                                                                                                                   \
        bits = EIGHT_BITS(words, at, dim, stride, count);
#else
#define EIGHT_INPUTS(bits, words, type, at, dim, stride, count) bits = EIGHT_BITS(words, at, dim, stride, count);
#endif

// Bits of eight inputs, from a multiple of 8 on; 0 past the end.
uvec4 keyEight(KeyValueRow row, uint dim) {
    uvec4 bits;
    EIGHT_INPUTS(bits, k, kType, row.at, dim, kDim, headDim)
    return bits;
}
uvec4 valueEight(KeyValueRow row, uint dim) {
    uvec4 bits;
    EIGHT_INPUTS(bits, v, vType, row.at, dim, vDim, valueDim)
    return bits;
}
// Of one input.
uint valueBits(KeyValueRow row, uint dim) {
    uint bits;
#ifdef VKATTN_FP8_INPUTS
    if (IS_SMALL(vType))
        bits = inputsOfFp8(vType, SMALL_BYTE(v, row.at + dim * vDim)) & 0xffffu;
    else
#endif
        bits = ELEMENT_BITS(v, row.at + dim * vDim);
    return bits;
}
