// What the plans of linear attention and of its backward pass find in a description alike.
#pragma once

#include "core/plan/operands.hpp"
#include "problem/linear/linear.hpp"

namespace vkattn {

// Of shaders/lib/linear.h, without what only one of the two ways has.
[[nodiscard]] inline uint32_t linearFormOf(const LinearAttention &a) {
    return (a.isDelta() ? formLinearDelta : 0) | (a.isGated() && !a.decaysKeyDims() ? formLinearGated : 0) |
           (a.decaysKeyDims() ? formLinearKeyDims : 0) | (a.hasFeatures() ? formLinearMapped : 0) |
           (a.hasMaximum() ? formLinearMaximum : 0) | (a.causal ? formLinearCausal : 0) | (a.topLeft ? formLinearTopLeft : 0) |
           (a.mapping == VKATTN_HEADS_MODULO ? formLinearModulo : 0) | (a.has(VKATTN_KEY_LENGTHS) ? formLinearLengths : 0) |
           (a.uses(VKATTN_STATE_IN) ? formLinearStateIn : 0) | static_cast<uint32_t>(a.features) << formLinearFeatures |
           (a.randomFeatures() ? formLinearRandom : 0);
}

// From so many keys on AUTO takes chunks.
constexpr uint32_t fewestChunkedKeys = 8;
[[nodiscard]] inline bool goesByTokens(const LinearAttention &a) {
    return a.form == VKATTN_LINEAR_FORM_RECURRENT || (a.form == VKATTN_LINEAR_FORM_AUTO && a.keyTokens < fewestChunkedKeys);
}

// Whether some row of those that there are may see all keys, or nothing: no chunk of keys has the row.
[[nodiscard]] inline bool hasReadingRows(const LinearAttention &a) {
    return !a.causal || a.has(VKATTN_KEY_LENGTHS) || a.queryTokens > a.keyTokens;
}

// The scale of rows of out: of features without a maximum it would cancel.
[[nodiscard]] inline float scaleOfRows(const LinearAttention &a) {
    return a.hasFeatures() && !a.hasMaximum() ? 1.0f : a.scale;
}

} // namespace vkattn
