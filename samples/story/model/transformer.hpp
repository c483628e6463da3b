// A Llama-like model on a device: weights, key-value caches and all that lies between stay there.
// One list computes the tokens of a prompt together; another, recorded once, computes a token with
// each replay.
#pragma once

#include "checkpoint.hpp"

#include <vkattn/list.hpp>

#include <optional>
#include <stdexcept>

namespace story {

// The device, or the CPU, could not compute.
class ComputeError : public std::runtime_error {
  public:
    ComputeError(vkattn_result code, const std::string &message) : std::runtime_error(message), result(code) {}
    vkattn_result result;
};

// How all steps so far compare with the oracle.
struct Verification {
    bool passed = true;
    uint64_t steps = 0, rows = 0;
    // The step with the largest error for its bound, or the first that failed.
    std::string worstStep, worstOperation; // "layer 2: keys", "projection"
    uint32_t worstPosition = 0;            // of the first token that was computed with it
    vkattn_verify_report worst{};
};

class Transformer {
  public:
    // `kept`: layers whose queries and keys can be asked for. `verify`: each step of each replay is
    // compared with the oracle. Throws ComputeError, as all calls here do.
    Transformer(vkattn::Runtime &runtime, const Checkpoint &checkpoint, const std::vector<uint32_t> &kept,
                const std::optional<vkattn_verify_options> &verify);

    // Computes the tokens behind those that were computed, and writes the logits of the last.
    void compute(std::span<const uint32_t> tokens, std::span<float> logits);
    [[nodiscard]] uint32_t computed() const { return computed_; } // tokens

    // What the last call took to make its list; 0 where there was one. Compiling at the first
    // submission, as software drivers do, is not in it.
    [[nodiscard]] double secondsOfRecording() const { return recordingSeconds_; }
    [[nodiscard]] const Verification &verification() const { return verification_; }

    // Rotated queries [heads, positions, dims of a head] and keys [kvHeads, ...] of all tokens so
    // far, of the n-th layer that is kept.
    [[nodiscard]] std::vector<float> queries(size_t n) const;
    [[nodiscard]] std::vector<float> keys(size_t n) const;

  private:
    struct Layer {
        vkattn::DeviceTensor attentionNorm, wq, wk, wv, wo, feedForwardNorm, w1, w2, w3;
        vkattn::DeviceTensor keys, values; // [kvHeads, positions, dims of a head]
        vkattn::DeviceTensor queries;      // of a layer that is kept: [heads, positions, dims of a head]
    };
    // A list that computes some tokens at once, and what goes in and out.
    struct Pass {
        vkattn::DeviceTensor tokens, logits;
        vkattn::OperationList list;
        std::vector<std::string> names{}; // of the steps
    };
    class Builder;

    [[nodiscard]] vkattn::DeviceTensor allocate(const vkattn_layout &layout) const;
    [[nodiscard]] vkattn::DeviceTensor upload(const vkattn_layout &layout, std::span<const float> numbers) const;
    [[nodiscard]] Pass build(uint32_t tokens) const;
    void replay(Pass &pass);
    void verify(Pass &pass);
    [[nodiscard]] std::vector<float> firstTokens(const vkattn::DeviceTensor &cache) const;

    vkattn::Runtime &runtime_;
    Shape shape_;
    std::vector<uint32_t> kept_;
    std::optional<vkattn_verify_options> verify_;
    std::vector<Layer> layers_;
    vkattn::DeviceTensor embedding_, finalNorm_, classifier_, cosines_, sines_;
    // Where the next token goes, and how many keys it sees: the device moves both on.
    vkattn::DeviceTensor start_, keyCount_;
    std::optional<Pass> one_; // a token
    uint32_t computed_ = 0;
    double recordingSeconds_ = 0;
    Verification verification_;
};

} // namespace story
