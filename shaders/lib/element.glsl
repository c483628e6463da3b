// Elements of f32 and f16 tensors in storage buffers of 32-bit words: no 16-bit storage feature is needed.
#include "half.glsl"

#define LOAD_ELEMENT(words, isHalf, index)                                                                                                 \
    ((isHalf) ? halfToFloat((words[(index) >> 1] >> (((index)&1u) << 4)) & 0xffffu) : uintBitsToFloat(words[index]))

// The word of a half may be shared with an element of another invocation, another dispatch, or memory that is not ours: two atomics
// replace our half and keep the other.
#define STORE_ELEMENT(words, isHalf, index, value)                                                                                         \
    {                                                                                                                                      \
        const uint at_ = (index);                                                                                                          \
        if (isHalf) {                                                                                                                      \
            const uint shift_ = (at_ & 1u) << 4;                                                                                           \
            atomicAnd(words[at_ >> 1], ~(0xffffu << shift_));                                                                              \
            atomicOr(words[at_ >> 1], floatToHalf(value) << shift_);                                                                       \
        } else {                                                                                                                           \
            words[at_] = floatBitsToUint(value);                                                                                           \
        }                                                                                                                                  \
    }

// Two elements `stride` apart that this invocation owns: one plain store where they fill a word.
#define STORE_ELEMENT_PAIR(words, isHalf, index, stride, first, second)                                                                    \
    {                                                                                                                                      \
        const uint pairAt_ = (index);                                                                                                      \
        if ((isHalf) && (stride) == 1u && (pairAt_ & 1u) == 0u) {                                                                          \
            words[pairAt_ >> 1] = floatToHalf(first) | floatToHalf(second) << 16;                                                          \
        } else {                                                                                                                           \
            STORE_ELEMENT(words, isHalf, pairAt_, first)                                                                                   \
            STORE_ELEMENT(words, isHalf, pairAt_ + (stride), second)                                                                       \
        }                                                                                                                                  \
    }
