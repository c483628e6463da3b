#ifndef VKATTN_ELEMENT_GLSL_
#define VKATTN_ELEMENT_GLSL_
// Elements of f32, f16 and bf16 tensors in storage buffers of 32-bit words: no 16-bit storage
// feature is needed. `type` is elementF32, elementF16 or elementBf16 (interop.h), a specialization
// constant.
#include "lib/half.glsl"
#include "lib/bfloat16.glsl"

float halfWidthToFloat(uint type, uint bits) { return type == elementF16 ? halfToFloat(bits) : bfloat16ToFloat(bits); }
uint floatToHalfWidth(uint type, float value) { return type == elementF16 ? floatToHalf(value) : floatToBfloat16(value); }

#define LOAD_ELEMENT(words, type, index)                                                                                                   \
    ((type) == elementF32 ? uintBitsToFloat(words[index])                                                                                  \
                          : halfWidthToFloat(type, (words[(index) >> 1] >> (((index)&1u) << 4)) & 0xffffu))

// Bits of a 16-bit element, of two neighbours from an even dim on, and of eight; 0 past the end.
// Where the constant wholeWords is true, two neighbours fill a word.
#define ELEMENT_BITS(words, at) ((words)[(at) >> 1] >> (((at)&1u) << 4) & 0xffffu)
#define PAIR_BITS(words, at, dim, stride, count)                                                                                           \
    (wholeWords ? ((dim) < (count) ? (words)[(at) + (dim) >> 1] : 0u)                                                                      \
                : ((dim) < (count) ? ELEMENT_BITS(words, (at) + (dim) * (stride)) : 0u) |                                                  \
                      ((dim) + 1u < (count) ? ELEMENT_BITS(words, (at) + ((dim) + 1u) * (stride)) << 16 : 0u))
#define EIGHT_BITS(words, at, dim, stride, count)                                                                                          \
    uvec4(PAIR_BITS(words, at, dim, stride, count), PAIR_BITS(words, at, (dim) + 2u, stride, count),                                       \
          PAIR_BITS(words, at, (dim) + 4u, stride, count), PAIR_BITS(words, at, (dim) + 6u, stride, count))

// The word of a 16-bit element may be shared with an element of another invocation, another
// dispatch, or memory that is not ours: two atomics replace our half and keep the other. The value may
// be made of the element itself, and so is there before our half is cleared.
#define STORE_ELEMENT(words, type, index, value)                                                                                           \
    {                                                                                                                                      \
        const uint at_ = (index);                                                                                                          \
        if ((type) != elementF32) {                                                                                                        \
            const uint shift_ = (at_ & 1u) << 4;                                                                                           \
            const uint half_ = floatToHalfWidth(type, value);                                                                              \
            atomicAnd(words[at_ >> 1], ~(0xffffu << shift_));                                                                              \
            atomicOr(words[at_ >> 1], half_ << shift_);                                                                                    \
        } else {                                                                                                                           \
            words[at_] = floatBitsToUint(value);                                                                                           \
        }                                                                                                                                  \
    }

// Two elements `stride` apart that this invocation owns: one plain store where they fill a word.
#define STORE_ELEMENT_PAIR(words, type, index, stride, first, second)                                                                      \
    {                                                                                                                                      \
        const uint pairAt_ = (index);                                                                                                      \
        if ((type) != elementF32 && (stride) == 1u && (pairAt_ & 1u) == 0u) {                                                              \
            words[pairAt_ >> 1] = floatToHalfWidth(type, first) | floatToHalfWidth(type, second) << 16;                                        \
        } else {                                                                                                                           \
            STORE_ELEMENT(words, type, pairAt_, first)                                                                                     \
            STORE_ELEMENT(words, type, pairAt_ + (stride), second)                                                                         \
        }                                                                                                                                  \
    }
#endif
