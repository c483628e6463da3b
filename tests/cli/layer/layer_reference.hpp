// A layer in double, straight from the formulas of layer.h, with the distance that correct results
// may have. Shares nothing with the library.
#pragma once

#include "cli/run/reference.hpp"

// The largest relative rounding error of a type.
inline constexpr double float32Unit = 0x1p-24, float16Unit = 0x1p-11, bfloat16Unit = 0x1p-8;

struct LayerParameters {
    Array wq, wk, wv, wo; // [out, in]
    std::optional<Array> bq, bk, bv, bo, gamma, beta;
};

enum class NormPlace { none, post, pre };

struct RotaryReference {
    bool interleaved = false;
    size_t dims = 2, start = 0; // of each head; of the first token
    double base = 10000;
};

struct LayerReference {
    size_t heads = 1, kvHeads = 1;
    NormPlace norm = NormPlace::none;
    bool residual = false;
    double epsilon = 1e-5;
    double outputDropout = 0;        // with the attention's seed, and its offset with the highest bit flipped
    double storedUnit = float32Unit; // of what lies between the steps
    double outUnit = float32Unit;
    LayerParameters parameters;
    Array x;                      // [batch, token, model]
    std::optional<Array> context; // likewise
    std::optional<RotaryReference> rotary;
    ReferenceOptions attention;
};

// Values, and the standard deviation of the rounding errors that each has collected, to first
// order.
struct Measured {
    Array values;
    std::vector<double> deviation;
};

struct LayerExpectation {
    // [batch, token, out], [batch, head, query], [batch, head, query, key]
    Measured out, lse, weights;
};

[[nodiscard]] LayerExpectation referenceLayer(const LayerReference &layer);
