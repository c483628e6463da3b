// A model of one attention layer on a device, and its training: weights, moments and all that lies
// between stay there. A list computes a step of training, another one evaluates.
//
//     h      = one-hot We^T             the embedding of symbols and of positions
//     q|k|v  = h Wqkv^T                 the attention layer: this line and the next two
//     a      = attention of q, k and v, causal
//     y      = a Wo^T + h
//     logits = y Wl^T + b
#pragma once

#include "copy_task.hpp"

#include <vkattn/list.hpp>

#include <optional>
#include <stdexcept>
#include <string>

namespace train {

// The device, or the CPU, could not compute.
class ComputeError : public std::runtime_error {
  public:
    ComputeError(vkattn_result code, const std::string &message) : std::runtime_error(message), result(code) {}
    vkattn_result result;
};

// Where a matrix or a vector lies among the weights.
struct WeightsPart {
    uint32_t at, rows, columns;
};
struct WeightsMap {
    explicit WeightsMap(const Shape &shape);
    WeightsPart embedding, queriesKeysValues, out, logits, bias;
    uint32_t count;
};

// All that training changes.
struct Weights {
    std::vector<float> weights, moments; // moments: all first, then all second ones
};
// Weights of a uniform distribution with a variance of 1 / inputs; the embedding's is 1/12. Biases and
// moments are 0.
[[nodiscard]] Weights initialWeights(const Shape &shape, uint64_t seed);

// Of the rows that have a target.
struct Figures {
    double loss = 0;     // mean, in nats a symbol
    double accuracy = 0; // the share of the rows whose largest logit is the target's
};

// How all steps so far compare with the oracle.
struct Verification {
    bool passed = true;
    uint64_t steps = 0, rows = 0;
    // The step with the largest error for its bound, or the first that failed.
    std::string worstStep, worstOperation; // "gradients of the attention layer", "attention gradient"
    uint32_t worstTrainingStep = 0;
    vkattn_verify_report worst{};
};

class Network {
  public:
    // `verify`: each step of each list is compared with the oracle. Throws ComputeError, as all calls
    // here do.
    Network(vkattn::Runtime &runtime, const Shape &shape, double dropout, uint64_t seed,
            const std::optional<vkattn_verify_options> &verify);

    void load(const Weights &from);
    [[nodiscard]] Weights read() const;

    // Computes a step, counted from 1, on a batch; the figures are those before it.
    [[nodiscard]] Figures train(const Batch &batch, uint32_t step);
    // Without dropout.
    [[nodiscard]] Figures evaluate(const Batch &batch);
    // What the model says to the last batch: a symbol for each row with a target, by sequence.
    [[nodiscard]] std::vector<uint32_t> answers() const;

    [[nodiscard]] const Verification &verification() const { return verification_; }

  private:
    struct Pass {
        vkattn::OperationList list;
        std::vector<std::string> names{}; // of the steps
    };
    class Builder;

    [[nodiscard]] vkattn::DeviceTensor allocate(const vkattn_layout &layout) const;
    // A part of the weights, or of what lies as they do.
    [[nodiscard]] vkattn::DeviceTensor part(const vkattn::DeviceTensor &all, const WeightsPart &part) const;
    // Rows as those of the sequences.
    [[nodiscard]] vkattn::DeviceTensor sequencesOf(const vkattn::DeviceTensor &rows) const;
    // The attention layer in a training step, counted from 1; step 0: without dropout.
    [[nodiscard]] vkattn::LayerOf layer(uint32_t step) const;
    [[nodiscard]] Pass build(bool learns, uint32_t step) const;
    [[nodiscard]] Figures compute(Pass &pass, const Batch &batch, uint32_t step);
    void verify(Pass &pass, uint32_t step);

    vkattn::Runtime &runtime_;
    Shape shape_;
    WeightsMap map_;
    double dropout_;
    uint64_t seed_;
    std::optional<vkattn_verify_options> verify_;
    vkattn::DeviceTensor weights_, moments_, gradients_, schedule_, ones_;
    vkattn::DeviceTensor tokens_, targets_, results_;
    vkattn::DeviceTensor oneHot_, embedded_, kept_, mixed_, logits_; // kept: what the layer keeps of its steps
    vkattn::DeviceTensor dLogits_, dMixed_, dEmbedded_;
    std::optional<Pass> learning_, evaluating_;
    Verification verification_;
};

} // namespace train
