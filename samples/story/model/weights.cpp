#include "weights.hpp"

namespace story {

using namespace vkattn;

constexpr double rotaryBase = 10000;

void check(vkattn_result result, const std::string &why) {
    if (result != VKATTN_OK) throw ComputeError(result, why);
}

DeviceTensor allocate(Runtime &runtime, const vkattn_layout &layout) {
    std::string why;
    const DeviceTensor tensor = runtime.allocate(layout, &why);
    if (!tensor) throw ComputeError(runtime.device() ? VKATTN_ERROR_OUT_OF_DEVICE_MEMORY : VKATTN_ERROR_OUT_OF_HOST_MEMORY, why);
    return tensor;
}

DeviceTensor upload(Runtime &runtime, const vkattn_layout &layout, std::span<const float> numbers) {
    const DeviceTensor tensor = allocate(runtime, layout);
    std::string why;
    check(tensor.upload(numbers.data(), numbers.size_bytes(), &why), why);
    return tensor;
}

Weights::Weights(Runtime &runtime, const Checkpoint &checkpoint) {
    const Shape &s = checkpoint.shape;
    const auto weights = [&](std::span<const float> all, uint32_t layer, uint32_t out, uint32_t in) {
        return upload(runtime, matrix(VKATTN_F32, out, in), checkpoint.of(all, layer));
    };
    for (uint32_t n = 0; n < s.layers; ++n) {
        LayerWeights &layer = layers.emplace_back();
        layer.attentionNorm = weights(checkpoint.attentionNorm, n, 1, s.dims);
        layer.wq = weights(checkpoint.wq, n, s.dims, s.dims);
        layer.wk = weights(checkpoint.wk, n, s.kvDims(), s.dims);
        layer.wv = weights(checkpoint.wv, n, s.kvDims(), s.dims);
        layer.wo = weights(checkpoint.wo, n, s.dims, s.dims);
        layer.feedForwardNorm = weights(checkpoint.feedForwardNorm, n, 1, s.dims);
        layer.w1 = weights(checkpoint.w1, n, s.hidden, s.dims);
        layer.w2 = weights(checkpoint.w2, n, s.dims, s.hidden);
        layer.w3 = weights(checkpoint.w3, n, s.hidden, s.dims);
    }
    embedding = upload(runtime, matrix(VKATTN_F32, s.vocabulary, s.dims), checkpoint.embedding);
    classifier = s.tied ? embedding : upload(runtime, embedding.layout(), checkpoint.classifier);
    finalNorm = upload(runtime, matrix(VKATTN_F32, 1, s.dims), checkpoint.finalNorm);
    const uint32_t columns = s.headDim() / 2;
    std::vector<float> cosineTable(size_t{s.positions} * columns), sineTable(cosineTable.size());
    vkattn_diagnostic why{};
    check(vkattnRotaryTable(s.positions, s.headDim(), rotaryBase, cosineTable.data(), sineTable.data(), &why), why.message);
    cosines = upload(runtime, matrix(VKATTN_F32, s.positions, columns), cosineTable);
    sines = upload(runtime, cosines.layout(), sineTable);
}

} // namespace story
