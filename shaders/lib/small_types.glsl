#ifndef VKATTN_SMALL_TYPES_GLSL_
#define VKATTN_SMALL_TYPES_GLSL_
// Elements of 8-bit floats, of ggml's blocks and of rows of bytes with a scale (interop.h) in storage buffers of 32-bit words. The twin of
// src/util/small_types.hpp; compared over all codes in tests/device/half_test.cpp.
// Places of blocks count 16 bits, the unit that divides both blocks, all others bytes, from where a row begins. `type` is a specialization constant.
#include "lib/half.glsl"

#define IS_SMALL(type) ((type) >= elementFp8E4M3)

float e4m3ToFloat(uint code) {
    const uint rest = (code & 0x7fu) << 20;
    // As in half.glsl: a denormal, whose exponent is 0, came out as 2^-7 (1 + m) in place of 2^-6 m.
    float magnitude = uintBitsToFloat(rest + 0x3c000000u);
    magnitude += min(magnitude - uintBitsToFloat(0x3c800000u), 0.0); // 2^-6
    const uint notANumber = rest == 0x07f00000u ? 0x7fc00000u : 0u;
    return uintBitsToFloat(floatBitsToUint(magnitude) | notANumber | (code & 0x80u) << 24);
}
float smallFloat(uint type, uint code) { return type == elementFp8E4M3 ? e4m3ToFloat(code) : halfToFloat(code << 8); }

// Where the block of a dim begins, and the byte of its code. The block of bytes is the row.
uint blockAt(uint type, uint row, uint dim) { return type == elementInt8 ? row : row + (dim >> 5) * (type == elementQ8 ? 17u : 9u); }
uint codeAt(uint type, uint block, uint dim) {
    return type == elementInt8 ? block + 4u + dim : 2u * block + 2u + (dim & (type == elementQ8 ? 31u : 15u));
}
// Of the byte that holds it, moved to the lowest bits.
float codeValue(uint type, uint dim, uint code) {
    return type == elementQ4 ? float(int(code >> ((dim & 16u) >> 2) & 15u) - 8) : float(bitfieldExtract(int(code), 0, 8));
}

// Rounds to nearest even; what is too large but finite becomes the largest number.
uint floatToSmallFloat(float value, uint mantissaBits, int bias, uint largest, uint infinite) {
    const uint bits = floatBitsToUint(value), magnitude = bits & 0x7fffffffu, sign = bits >> 24 & 0x80u;
    if (magnitude > 0x7f800000u) return sign | 0x7fu;
    if (magnitude == 0x7f800000u) return sign | infinite;
    const int exponent = int(magnitude >> 23) - 127, least = 1 - bias;
    const uint shift = 23u - mantissaBits + uint(max(least - exponent, 0)); // of a denormal more bits are lost
    if (shift > 25u || magnitude < 0x00800000u) return sign;
    const uint kept = (magnitude & 0x7fffffu) | 0x800000u, remainder = kept & ((1u << shift) - 1u), halfway = 1u << (shift - 1u);
    uint code = kept >> shift;
    if (remainder > halfway || (remainder == halfway && (code & 1u) != 0u)) ++code; // may carry into the exponent
    code += uint(max(exponent - least, 0)) << mantissaBits;
    return sign | min(code, largest);
}
uint floatToFp8(uint type, float value) {
    return type == elementFp8E4M3 ? floatToSmallFloat(value, 3u, 7, 0x7eu, 0x7fu) : floatToSmallFloat(value, 2u, 15, 0x7bu, 0x7cu);
}

#define SMALL_BYTE(words, at) ((words)[(at) >> 2] >> (((at)&3u) << 3) & 0xffu)
#define BLOCK_SCALE(words, type, block)                                                                                                    \
    ((type) == elementInt8 ? uintBitsToFloat((words)[(block) >> 2]) : halfToFloat((words)[(block) >> 1] >> (((block)&1u) << 4) & 0xffffu))
#define LOAD_SMALL(words, type, row, dim, stride)                                                                                          \
    ((type) >= elementQ8 ? BLOCK_SCALE(words, type, blockAt(type, row, dim)) *                                                                   \
                               codeValue(type, dim, SMALL_BYTE(words, codeAt(type, blockAt(type, row, dim), dim)))                        \
                         : smallFloat(type, SMALL_BYTE(words, (row) + (dim) * (stride))))

// `count` neighbours from `dim` on into an array: a multiple of 4 that divides the block, and dim is one of count's. The words
// that hold their bytes are loaded once; where the run may begin inside a word, one word more, and never one that holds
// nothing of the run. `inWords`: it begins at a word.
#define LOAD_SMALL_RUN(out, words, type, row, dim, count, inWords)                                                                         \
    {                                                                                                                                      \
        const uint block_ = blockAt(type, row, dim), byte_ = (type) >= elementQ8 ? codeAt(type, block_, dim) : (row) + (dim);              \
        const float scale_ = (type) >= elementQ8 ? BLOCK_SCALE(words, type, block_) : 1.0;                                                       \
        const uint shift_ = (inWords) ? 0u : (byte_ & 3u) << 3;                                                                            \
        uint word_[(count) / 4u + 1u];                                                                                                     \
        [[unroll]] for (uint e_ = 0u; e_ < (count) / 4u + ((inWords) ? 0u : 1u); ++e_)                                                     \
            word_[e_] = words[min((byte_ >> 2) + e_, (byte_ + (count)-1u) >> 2)];                                                          \
        [[unroll]] for (uint e_ = 0u; e_ < (count); ++e_) {                                                                                \
            /* In two steps: a shift by 32 is undefined. */                                                                                \
            const uint bytes_ =                                                                                                            \
                (inWords) ? word_[e_ / 4u] : word_[e_ / 4u] >> shift_ | (word_[e_ / 4u + 1u] << (31u - shift_)) << 1;                      \
            const uint code_ = bytes_ >> (e_ % 4u * 8u) & 0xffu;                                                                           \
            out[e_] = (type) >= elementQ8 ? scale_ * codeValue(type, dim, code_) : smallFloat(type, code_);                               \
        }                                                                                                                                  \
    }
#endif
