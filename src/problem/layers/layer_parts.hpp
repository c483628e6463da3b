// A layer in parts that are computed one after the other, so that what lies between its steps fits
// a workspace: some batch entries at a time, or some tokens of one entry.
#pragma once

#include "vkattn/layer.h"

namespace vkattn {

// Some query tokens of a layer, which see the first `keys` keys. K and V of all keys are made by the
// cut of token 0, and lie at the same place of the workspace for the others. No tokens: the layer is
// whole, or some entries of a whole. Dropout draws by the place of entry and token in the whole.
struct TokenCut {
    uint32_t firstToken = 0, tokens = 0, keys = 0, firstEntry = 0;
};
// As vkattnPlanLayer. The layer's options are those of the cut.
[[nodiscard]] vkattn_result planTokens(const vkattn_layer &layer, const TokenCut &cut, vkattn_layer_plan &plan, vkattn_diagnostic *why);

class LayerParts {
  public:
    // The layer is one that vkattnPlanLayer takes; the layer and its options must outlive the parts.
    // What lies between the steps of a part takes at most `bytes`, where that can be.
    LayerParts(const vkattn_layer &layer, uint64_t bytes);
    LayerParts(const LayerParts &) = delete; // the layer of a part points at its options
    LayerParts &operator=(const LayerParts &) = delete;

    [[nodiscard]] uint32_t count() const;
    [[nodiscard]] vkattn_result plan(uint32_t part, vkattn_layer_plan &plan, vkattn_diagnostic *why);
    // Returns how many bytes of a small array lie before those of the part that was planned last.
    // Tensors have them in their layouts.
    [[nodiscard]] uint64_t skippedBytes(vkattn_role role) const;

  private:
    [[nodiscard]] bool canCutTokens() const;
    [[nodiscard]] uint64_t bytesOfFirst();
    void take(uint32_t firstEntry, uint32_t entries, const TokenCut &cut);

    const vkattn_layer *whole_;
    vkattn_problem options_; // of the whole layer
    uint32_t batch_, tokens_, keys_;
    uint32_t entriesOfPart_, tokensOfPart_; // the last part in each direction may have fewer
    // The part that was planned last.
    vkattn_layer part_;
    vkattn_problem partOptions_;
    uint32_t firstEntry_ = 0, firstToken_ = 0;
};

} // namespace vkattn
