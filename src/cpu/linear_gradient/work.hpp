// The structures that the parts of the gradients of linear attention on the CPU share: one call cut into units of work,
// and the scratch memory that a thread computes a unit in.
//
// A unit is the whole way of a state head, forward and back: rows of a state meet in the gradient of a value, and its
// columns in that of a key. Where several heads add to one gradient each leaves its part, and a second phase adds the
// parts up.
#pragma once

#include "cpu/linear/work.hpp"
#include "problem/linear/linear_gradient.hpp"

#include <atomic>
#include <cmath>

namespace vkattn {

// The gradients that are stored row by row, other than dStateIn.
inline constexpr vkattn_role linearGradients[] = {VKATTN_D_Q, VKATTN_D_K, VKATTN_D_V, VKATTN_D_DECAY, VKATTN_D_WRITE_STRENGTH};
// Rows of a gradient that a unit of the second phase adds up.
inline constexpr uint32_t linearSumRows = 64;

struct LinearGradientCall {
    const LinearGradient &g;
    const Operands &operands;
    // Of gradients that several heads add to, by the order of linearGradients: [batch][heads][row][dim]; otherwise NULL.
    float *parts[std::size(linearGradients)];
    std::atomic<uint32_t> *nonfinite;
};

// Scratch memory of one thread, in floats from its start. Rows of features are `width` apart, and those of values
// `stride`. A moment is a state and its running maxima.
struct LinearGradientScratch : FeatureScratch {
    uint32_t segment; // tokens whose states are there at a time, and about as many states are kept
    size_t stride, dimWidth, momentFloats;
    FeatureScratch ofQuery;
    size_t query, querySlopes, weights, dDecays; // [row]
    size_t given, results, dWritten, dValue;     // [column]
    size_t dims, zeros, scaled;                  // [dim], and as many as any row has
    size_t keys, factors, slopes;                // [token][row]
    size_t written, differences;                 // [token][column]
    size_t strengths;                            // [token]
    size_t dState, keptMoments, moments;         // [row][column], [moment]
    size_t total;

    explicit LinearGradientScratch(const LinearAttention &a) : LinearGradientScratch(a, ScratchParts()) {}

  private:
    static uint32_t segmentOf(const LinearAttention &a) {
        return std::max(static_cast<uint32_t>(std::ceil(std::sqrt(static_cast<double>(a.keyTokens)))), 1u);
    }
    LinearGradientScratch(const LinearAttention &a, ScratchParts parts)
        : FeatureScratch(a, segmentOf(a), parts), segment(segmentOf(a)), ofQuery(static_cast<const FeatureScratch &>(*this)) {
        stride = wholeLines(a.valueDim + (a.hasFeatures() ? 1 : 0));
        dimWidth = wholeLines(a.keyDim);
        momentFloats = a.stateRows * stride + width;
        const auto place = [&](size_t &at, size_t floats) { parts.place(at, floats); };
        for (size_t *each : {&query, &querySlopes, &weights, &dDecays}) place(*each, width);
        for (size_t *each : {&given, &results, &dWritten, &dValue}) place(*each, stride);
        place(ofQuery.raw, dimWidth);
        place(dims, dimWidth);
        for (size_t *each : {&zeros, &scaled}) place(*each, std::max({width, stride, dimWidth}));
        for (size_t *each : {&keys, &factors, &slopes}) place(*each, segment * width);
        for (size_t *each : {&written, &differences}) place(*each, segment * stride);
        place(strengths, segment);
        place(dState, a.stateRows * stride);
        place(keptMoments, ceilDivide(std::max(a.keyTokens, 1u), segment) * momentFloats);
        place(moments, (size_t{segment} + 1) * momentFloats);
        total = parts.total();
    }
};

// The kernels of one target.
struct LinearGradientKernels {
    const char *target; // Highway's name
    void (*head)(const LinearGradientCall &, uint32_t b, uint32_t stateHead, float *scratch);
};
// Returns the kernels of the best target that this processor has.
[[nodiscard]] const LinearGradientKernels &linearGradientKernels();

} // namespace vkattn
