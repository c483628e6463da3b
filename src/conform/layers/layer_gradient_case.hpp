// Gradients of layers whole (vkattn/layer_gradient.h), drawn, and what they are compared with: central
// differences of the layer's formulas in double precision, apart from every operation of the library.
#pragma once

#include "conform/layers/layer_case.hpp"

namespace vkattn::conform {

struct LayerGradientCase {
    std::unique_ptr<MultiHeadCase> forward; // keeps its steps
    vkattn_layer_gradient gradient{};
    LayerArray dY;
    std::vector<DeviceTensor> written; // that the list writes to which the case was added last, as roles()

    // The gradients that are asked for.
    [[nodiscard]] std::vector<vkattn_role> roles() const;
    [[nodiscard]] vkattn_layout &layout(vkattn_role role);
    // Asks for the gradient with respect to an input of the layer, in its own extents.
    void ask(Random &random, vkattn_role input, vkattn_dtype dtype);
    void drawDY(Random &random, vkattn_dtype dtype);
    // Appends the layer and its gradient to the list, on new tensors with the case's data.
    [[nodiscard]] vkattn_result addTo(Runtime &runtime, OperationList &list, std::string *why);
    // Compares gradients, as roles(), with differences of the loss sum of dY * Z: some elements of each,
    // drawn, and a direction. `tolerance` is relative to the largest element of the gradient. Returns
    // what is wrong first; empty: nothing.
    [[nodiscard]] std::string judge(const std::vector<std::vector<float>> &gradients, double tolerance, Random &random) const;
    [[nodiscard]] std::string text() const;
};

// `parts` as of the layer: what is f32 there is f32 here. Dropout, a softcap and a scale are drawn too.
[[nodiscard]] std::unique_ptr<LayerGradientCase> drawLayerGradient(Random &random, MultiHeadParts parts = MultiHeadParts::any);
// Of a layer that is there, with every gradient that it has: f32, dense.
[[nodiscard]] std::unique_ptr<LayerGradientCase> wholeLayerGradient(Random &random, std::unique_ptr<MultiHeadCase> layer);

// Computes the layer and its gradient step by step, each compared with the oracle on the inputs that it
// had; compares the gradients with differences where nothing between the steps is narrower than f32; and
// computes all as one list, which must leave the same bits.
[[nodiscard]] LayerOutcome computeAndJudge(Runtime &runtime, LayerGradientCase &layer, Random &random);

} // namespace vkattn::conform
