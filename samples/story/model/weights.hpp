// The weights of a checkpoint on a device.
#pragma once

#include "checkpoint.hpp"

#include <vkattn/list.hpp>

#include <stdexcept>

namespace story {

// The device, or the CPU, could not compute.
class ComputeError : public std::runtime_error {
  public:
    ComputeError(vkattn_result code, const std::string &message) : std::runtime_error(message), result(code) {}
    vkattn_result result;
};

// Throws ComputeError, as the two below do.
void check(vkattn_result result, const std::string &why);
[[nodiscard]] vkattn::DeviceTensor allocate(vkattn::Runtime &runtime, const vkattn_layout &layout);
[[nodiscard]] vkattn::DeviceTensor upload(vkattn::Runtime &runtime, const vkattn_layout &layout, std::span<const float> numbers);

struct LayerWeights {
    vkattn::DeviceTensor attentionNorm, wq, wk, wv, wo, feedForwardNorm, w1, w2, w3;
};

struct Weights {
    // Throws ComputeError.
    Weights(vkattn::Runtime &runtime, const Checkpoint &checkpoint);

    std::vector<LayerWeights> layers;
    vkattn::DeviceTensor embedding, finalNorm, classifier;
    vkattn::DeviceTensor cosines, sines; // of rotary positions
};

} // namespace story
