// A Llama-like model on a device: weights, key-value caches and all that lies between stay there.
// One list computes the tokens of a prompt together; another, recorded once, computes a token with
// each replay.
#pragma once

#include "weights.hpp"

#include <optional>

namespace story {

// How all steps so far compare with the oracle.
struct Verification {
    bool passed = true;
    uint64_t steps = 0, rows = 0;
    // The step with the largest error for its bound, or the first that failed.
    std::string worstStep, worstOperation; // "layer 2: keys", "projection"
    uint32_t worstPosition = 0;            // of the first token that was computed with it
    vkattn_verify_report worst{};
};

// How far attention is from that over float32 keys and values, of the same queries, over all tokens so far.
struct CacheError {
    struct Sums {
        double squares = 0, ofDifferences = 0;
        // The root of the sum of squared differences, relative to that of the squares.
        [[nodiscard]] double relative() const;
    };
    std::vector<Sums> layers;
    [[nodiscard]] double relative() const; // of all layers
    [[nodiscard]] size_t worstLayer() const;
};

struct TransformerOptions {
    std::vector<uint32_t> kept{};                  // layers whose queries and keys can be asked for
    std::optional<vkattn_verify_options> verify{}; // each step of each replay is compared with the oracle
    // Of keys and values. Beside a smaller type than float32 there are caches of float32, and what attention makes
    // of them is compared.
    vkattn_dtype cacheType = VKATTN_F32;
    // Rows of a small type are rotated by a Hadamard matrix first, which spreads what is large in them (QuaRot, Ashkboos
    // et al. 2024); queries too, so that scores are as before, and the result once more.
    bool hadamard = false;
};

class Transformer {
  public:
    // Throws ComputeError, as all calls here do.
    Transformer(vkattn::Runtime &runtime, const Checkpoint &checkpoint, const TransformerOptions &options);

    // Computes the tokens behind those that were computed, and writes the logits of the last.
    void compute(std::span<const uint32_t> tokens, std::span<float> logits);
    [[nodiscard]] uint32_t computed() const { return computed_; } // tokens

    // What the last call took to make its list; 0 where there was one. Compiling at the first
    // submission, as software drivers do, is not in it.
    [[nodiscard]] double secondsOfRecording() const { return recordingSeconds_; }
    [[nodiscard]] const Verification &verification() const { return verification_; }

    [[nodiscard]] const CacheError &cacheError() const { return cacheError_; }
    [[nodiscard]] uint64_t bytesPerToken() const; // of the caches

    // Rotated queries [heads, positions, dims of a head] and keys [kvHeads, ...] of all tokens so
    // far, of the n-th layer that is kept. Keys are those before a cache of a small type rounds them.
    [[nodiscard]] std::vector<float> queries(size_t n) const;
    [[nodiscard]] std::vector<float> keys(size_t n) const;

  private:
    // Of a layer; [kvHeads, positions, dims of a head].
    struct Cache {
        vkattn::DeviceTensor keys, values;
        vkattn::DeviceTensor exactKeys, exactValues; // float32, beside a small type
        vkattn::DeviceTensor queries;                // of a layer that is kept: [heads, positions, dims of a head]
    };
    // A list that computes some tokens at once, and what goes in and out.
    struct Pass {
        vkattn::DeviceTensor tokens, logits;
        vkattn::OperationList list;
        std::vector<std::string> names{}; // of the steps
        // Beside a small type: what attention gives in each layer, of it and of float32.
        std::vector<vkattn::DeviceTensor> attended{}, exact{};
    };
    class Builder;

    [[nodiscard]] Pass build(uint32_t tokens);
    void replay(Pass &pass);
    void verify(Pass &pass);
    void measureCache(const Pass &pass);
    [[nodiscard]] std::vector<float> firstTokens(const vkattn::DeviceTensor &cache) const;

    vkattn::Runtime &runtime_;
    Shape shape_;
    TransformerOptions options_;
    Weights weights_;
    std::vector<Cache> caches_; // by layer
    // Where the next token goes, and how many keys it sees: the device moves both on.
    vkattn::DeviceTensor start_, keyCount_;
    std::optional<Pass> one_; // a token
    uint32_t computed_ = 0;
    double recordingSeconds_ = 0;
    Verification verification_;
    CacheError cacheError_;
};

} // namespace story
