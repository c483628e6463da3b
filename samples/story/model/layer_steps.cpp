#include "layer_steps.hpp"

#include "shader_steps.hpp"

namespace story {

using namespace vkattn;

constexpr float epsilon = 1e-5f;

LayerSteps::LayerSteps(Runtime &runtime, const Shape &shape, const Weights &weights, OperationList &list, uint32_t batch, uint32_t tokens)
    : runtime_(runtime), shape_(shape), weights_(weights), list_(list), batch_(batch), tokens_(tokens) {
    x_ = rows(shape.dims), normed_ = rows(shape.dims), q_ = rows(shape.dims);
    k_ = rows(shape.kvDims()), v_ = rows(shape.kvDims()), gate_ = rows(shape.hidden), up_ = rows(shape.hidden);
}

DeviceTensor LayerSteps::rows(uint32_t dims) const {
    return allocate(runtime_, matrix(VKATTN_F32, batch_ * tokens_, dims));
}
DeviceTensor LayerSteps::headsOf(const DeviceTensor &rows, uint32_t heads, uint32_t dims) const {
    return rows.view(packedTokenMajor(VKATTN_F32, batch_, heads, tokens_, dims));
}

void LayerSteps::note(const char *name, vkattn_result result, const std::string &why) {
    check(result, where_ + name + ": " + why);
    names_.push_back(where_ + name);
}

void LayerSteps::addNorm(const char *name, const DeviceTensor &from, const DeviceTensor &to, const DeviceTensor &gamma) {
    NormOf norm{VKATTN_RMS_NORM, from, to, gamma};
    norm.epsilon = epsilon;
    add(name, norm);
}

void LayerSteps::addEmbedding(const DeviceTensor &tokens) {
    std::string why;
    note("embedding", story::addEmbedding(list_, tokens, weights_.embedding, x_, &why), why);
}

void LayerSteps::addProjections(uint32_t layer) {
    const LayerWeights &own = weights_.layers[layer];
    where_ = "layer " + std::to_string(layer) + ": ";
    addNorm("attention norm", x_, normed_, own.attentionNorm);
    add("queries", ProjectionOf{normed_, own.wq, q_});
    add("keys", ProjectionOf{normed_, own.wk, k_});
    add("values", ProjectionOf{normed_, own.wv, v_});
}

void LayerSteps::addRotary(const char *name, const DeviceTensor &from, const DeviceTensor &to, const DeviceTensor &start, uint32_t flags) {
    RotaryOf turn{from, weights_.cosines, weights_.sines, to, {}, start, VKATTN_PAIRS_INTERLEAVED};
    turn.flags = flags;
    add(name, turn);
}

void LayerSteps::addOutput(uint32_t layer, const DeviceTensor &attended) {
    const LayerWeights &own = weights_.layers[layer];
    ProjectionOf out{attended, own.wo, x_};
    out.residual = x_;
    add("attention output", out);
    addNorm("feed-forward norm", x_, normed_, own.feedForwardNorm);
    add("gate", ProjectionOf{normed_, own.w1, gate_});
    add("up", ProjectionOf{normed_, own.w3, up_});
    std::string why;
    note("swiglu", addSwiGlu(list_, gate_, up_, &why), why);
    ProjectionOf down{gate_, own.w2, x_};
    down.residual = x_;
    add("down", down);
    where_.clear();
}

void LayerSteps::addLogits(const DeviceTensor &row, const DeviceTensor &logits) {
    addNorm("final norm", row, row, weights_.finalNorm);
    add("logits", ProjectionOf{row, weights_.classifier, logits});
}

} // namespace story
