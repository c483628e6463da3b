// llama2.c checkpoints of version 0: seven int32, then float32 arrays in a fixed order, all little
// endian.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace story {

struct Shape {
    uint32_t dims, hidden, layers, heads, kvHeads, vocabulary, positions;
    bool tied; // the classifier is the embedding table

    [[nodiscard]] uint32_t headDim() const { return dims / heads; }
    [[nodiscard]] uint32_t kvDims() const { return kvHeads * headDim(); }
};

// Weights of all layers, one behind the other; matrices are [out, in].
struct Checkpoint {
    Shape shape{};
    std::vector<float> numbers; // what the spans show
    std::span<const float> embedding, attentionNorm, wq, wk, wv, wo, feedForwardNorm, w1, w2, w3, finalNorm, classifier;

    // The part of a layer.
    [[nodiscard]] std::span<const float> of(std::span<const float> all, uint32_t layer) const {
        const size_t each = all.size() / shape.layers;
        return all.subspan(layer * each, each);
    }
};

// Nothing is read before the header fits the file's length. Throws Failure, which names the file.
[[nodiscard]] Checkpoint readCheckpoint(const std::string &path);

} // namespace story
