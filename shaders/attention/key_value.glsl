// Where K and V come from. No other shader reads their elements: a type, a scale, a page table or a
// rotation has its lines here. Keys count from the first of the batch entry; keys before the first and
// past the last one that may be read repeat these.
//
// Included after operands.glsl and sequence.glsl. Dims: `exactDims` tells that no dim past the end
// is asked for; else such dims are 0 in K and V, because 0 * garbage could be NaN.
#include "lib/element.glsl"
#include "lib/small_types.glsl"

layout(constant_id = constantKvFormat) const uint kvFormat = 0; // interop.h
const uint kType = kvFormat & 15u, vType = kvFormat >> formatVType & 15u, dimOrder = kvFormat >> formatDimOrder & 3u;
const bool valuesInKeys = (kvFormat >> formatValuesInKeys & 1u) != 0u;
const bool exactHalves = (kvFormat >> formatExactHalves & 1u) != 0u;

float storedHalfWidth(uint type, uint bits) {
    return exactHalves && type == elementF16 ? unpackHalf2x16(bits).x : halfWidthToFloat(type, bits);
}
#define LOAD_STORED(words, type, index)                                                                                                    \
    ((type) == elementF32 ? uintBitsToFloat(words[index]) : storedHalfWidth(type, ELEMENT_BITS(words, index)))

struct KeyValueRow {
    uint at; // element of dim 0
};

uint kAt, vAt; // of key 0 of the batch entry; with pages, of token 0 of page 0

// Where a key's row begins. A key of an absent page, which is hidden, has page 0.
uint keyAt(uint base, uint byPage, uint byToken, int key) {
    const int held = heldKey(key);
#ifdef VKATTN_LENGTHS_BOUND
    if (hasPages) {
        const int place = quotientOf(held, rule.pageTokens, rule.perPageToken);
        const uint page = lengths[rule.pagesAt + uint(place)];
        return base + (page < rule.poolPages ? page : 0u) * byPage + uint(held - place * rule.pageTokens) * byToken;
    }
#endif
    return base + uint(held) * byToken;
}

#ifndef VKATTN_STAGE_VALUES
void beginKeys(uint kvHead) { kAt = kBase + kvHead * kHead + (hasPages ? 0u : batch * kBatch + (seq.keyStart - keyFirst) * kToken); }
KeyValueRow keyRow(int key) { return KeyValueRow(keyAt(kAt, kBatch, kToken, key)); }
float keyElement(KeyValueRow row, uint dim) {
    if (!exactDims && dim >= headDim) return 0.0;
    return IS_SMALL(kType) ? LOAD_SMALL(k, kType, row.at, dim, kDim) : LOAD_STORED(k, kType, row.at + dim * kDim);
}
#endif

#if !defined(VKATTN_STAGE_SCORES) && !defined(VKATTN_STAGE_STATISTICS)
void beginValues(uint kvHead) { vAt = vBase + kvHead * vHead + (hasPages ? 0u : batch * vBatch + (seq.keyStart - keyFirst) * vToken); }
KeyValueRow valueRow(int key) { return KeyValueRow(keyAt(vAt, vBatch, vToken, key)); }
float valueElement(KeyValueRow row, uint dim) {
    if (!exactDims && dim >= valueDim) return 0.0;
    return IS_SMALL(vType) ? LOAD_SMALL(v, vType, row.at, dim, vDim) : LOAD_STORED(v, vType, row.at + dim * vDim);
}
#endif

// Two neighbours from an even dim on, where they fill a word.
const bool keysInWords = kType != elementF32 && kType < elementFp8E4M3 && dimOrder == dimsInWords && exactDims;
const bool valuesInWords = vType != elementF32 && vType < elementFp8E4M3 && dimOrder == dimsInWords && exactDims;
vec2 halfWidthPair(uint type, uint word) {
    if (exactHalves && type == elementF16) return unpackHalf2x16(word);
    return vec2(storedHalfWidth(type, word & 0xffffu), storedHalfWidth(type, word >> 16));
}
#define KEY_PAIR(row, dim) halfWidthPair(kType, k[((row).at + (dim)) >> 1])
#define VALUE_PAIR(row, dim) halfWidthPair(vType, v[((row).at + (dim)) >> 1])

// `count` neighbours from `dim` on into an array. Two 16-bit elements come with one load; where the
// run may begin in the middle of a word, one word more is loaded, and never one that holds nothing
// of the run. Small types: lib/small_types.glsl.
#define LOAD_RUN(out, words, type, row, dim, count, element)                                                                               \
    if ((type) == elementF32 || dimOrder == dimsApart || !exactDims || (count) < 4u) {                                                     \
        [[unroll]] for (uint e_ = 0u; e_ < (count); ++e_) out[e_] = element(row, (dim) + e_);                                              \
    } else if (IS_SMALL(type)) {                                                                                                            \
        LOAD_SMALL_RUN(out, words, type, (row).at, dim, count, dimOrder == dimsInWords && (type) != elementQ8 && (type) != elementQ4)                              \
    } else if (dimOrder == dimsInWords) {                                                                                                  \
        uint word_[((count) + 1u) / 2u];                                                                                                   \
        [[unroll]] for (uint e_ = 0u; e_ < (count) / 2u; ++e_) word_[e_] = words[((row).at + (dim) >> 1) + e_];                            \
        [[unroll]] for (uint e_ = 0u; e_ < (count); ++e_)                                                                                  \
            out[e_] = storedHalfWidth(type, (e_ & 1u) == 0u ? word_[e_ / 2u] & 0xffffu : word_[e_ / 2u] >> 16);                           \
    } else {                                                                                                                               \
        const uint first_ = (row).at + (dim), odd_ = first_ & 1u;                                                                          \
        uint word_[(count) / 2u + 1u];                                                                                                     \
        [[unroll]] for (uint e_ = 0u; e_ <= (count) / 2u; ++e_) word_[e_] = words[min((first_ >> 1) + e_, (first_ + (count)-1u) >> 1)];    \
        [[unroll]] for (uint e_ = 0u; e_ < (count); ++e_)                                                                                  \
            out[e_] = storedHalfWidth(type, (e_ & 1u) == 0u ? word_[e_ / 2u] >> (odd_ << 4) & 0xffffu                                     \
                                             : odd_ != 0u    ? word_[e_ / 2u + 1u] & 0xffffu                                               \
                                                             : word_[e_ / 2u] >> 16);                                                      \
    }
#define KEY_RUN(out, row, dim, count) LOAD_RUN(out, k, kType, row, dim, count, keyElement)
#define VALUE_RUN(out, row, dim, count) LOAD_RUN(out, v, vType, row, dim, count, valueElement)
