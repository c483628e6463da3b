// The steps of a list that every pass through the model has, whatever lies in its caches. A row is a token: those of
// a batch entry one after the other.
#pragma once

#include "weights.hpp"

namespace story {

class LayerSteps {
  public:
    LayerSteps(vkattn::Runtime &runtime, const Shape &shape, const Weights &weights, vkattn::OperationList &list, uint32_t batch,
               uint32_t tokens);

    // The hidden state, and what attention takes and gives.
    [[nodiscard]] const vkattn::DeviceTensor &x() const { return x_; }
    [[nodiscard]] vkattn::DeviceTensor queries() const { return headsOf(q_, shape_.heads, shape_.headDim()); }
    [[nodiscard]] vkattn::DeviceTensor keys() const { return headsOf(k_, shape_.kvHeads, shape_.headDim()); }
    [[nodiscard]] vkattn::DeviceTensor values() const { return headsOf(v_, shape_.kvHeads, shape_.headDim()); }
    // A tensor of a row for each token, and its heads [batch, heads, tokens, dims].
    [[nodiscard]] vkattn::DeviceTensor rows(uint32_t dims) const;
    [[nodiscard]] vkattn::DeviceTensor headsOf(const vkattn::DeviceTensor &rows, uint32_t heads, uint32_t dims) const;

    // All that follow append steps, and throw ComputeError.
    void addEmbedding(const vkattn::DeviceTensor &tokens);
    // Queries, keys and values of the normalised state; rotary is left to the caller, who knows where keys go.
    void addProjections(uint32_t layer);
    void addRotary(const char *name, const vkattn::DeviceTensor &from, const vkattn::DeviceTensor &to, const vkattn::DeviceTensor &start,
                   uint32_t flags = 0);
    // What attention has made of the rows goes back into the state, and through the feed-forward part of the layer.
    void addOutput(uint32_t layer, const vkattn::DeviceTensor &attended);
    // The logits behind `row` of the state, which is overwritten.
    void addLogits(const vkattn::DeviceTensor &row, const vkattn::DeviceTensor &logits);
    template <class Operation> void add(const char *name, const Operation &operation) {
        std::string why;
        note(name, list_.add(operation, &why), why);
    }
    void note(const char *name, vkattn_result result, const std::string &why);

    // Of the steps so far: "layer 2: keys".
    [[nodiscard]] const std::vector<std::string> &names() const { return names_; }

  private:
    void addNorm(const char *name, const vkattn::DeviceTensor &from, const vkattn::DeviceTensor &to, const vkattn::DeviceTensor &gamma);

    vkattn::Runtime &runtime_;
    const Shape &shape_;
    const Weights &weights_;
    vkattn::OperationList &list_;
    uint32_t batch_, tokens_;
    vkattn::DeviceTensor x_, normed_, q_, k_, v_, gate_, up_;
    std::string where_;
    std::vector<std::string> names_;
};

} // namespace story
