// list.hpp as hosts use it; compiled at each language level (tests/headers.cmake).
#include <vkattn/list.hpp>

vkattn_result decode(vkattn::Runtime &runtime) {
    const vkattn::DeviceTensor x = runtime.allocate(vkattn::matrix(VKATTN_F32, 2, 8)),
                               w = runtime.allocate(vkattn::matrix(VKATTN_F32, 8, 8)),
                               y = runtime.allocate(vkattn::packed(VKATTN_F32, 1, 1, 2, 8)), starts = runtime.allocate(vkattn::words(1));
    vkattn::OperationList list = runtime.list();
    std::string why;
    if (list.add(vkattn::ProjectionOf{x, w, y}, &why) != VKATTN_OK) return VKATTN_ERROR_INVALID_ARGUMENT;
    vkattn::AttentionOf attention{y, y, y, x};
    attention.options.flags = VKATTN_CAUSAL;
    if (list.add(attention, &why) != VKATTN_OK || list.add(vkattn::AdvanceOf{starts, starts, 1, 100}, &why) != VKATTN_OK ||
        list.record(&why) != VKATTN_OK)
        return VKATTN_ERROR_INVALID_ARGUMENT;
    for (int token = 0; token < 100; ++token)
        if (const vkattn_result r = list.submit(&why)) return r;
    return list.wait(&why);
}

// The README's layer.
int layerOfTheReadme(uint32_t batch, uint32_t tokens, uint32_t model, const std::vector<float> &input, std::vector<float> &output) {
    const auto runtime = vkattn::Runtime::open({}, nullptr, nullptr); // a Vulkan device, or the CPU
    const auto matrix = [&] { return runtime->allocate(vkattn::matrix(VKATTN_F32, model, model)); };
    const auto x = runtime->allocate(vkattn::packed(VKATTN_F32, batch, 1, tokens, model)), z = runtime->allocate(x.layout());
    vkattn::LayerOf layer{x, matrix(), matrix(), matrix(), matrix(), z}; // W_Q, W_K, W_V, W_O: upload yours
    layer.heads = 8, layer.place = VKATTN_NORM_POST, layer.residual = true;
    layer.attention.options.flags = VKATTN_CAUSAL;
    vkattn::OperationList list = runtime->list();
    if (list.add(layer) != VKATTN_OK || x.upload(input.data(), 4 * input.size()) != VKATTN_OK) return 1;
    if (list.run().status != VKATTN_OK || z.download(output.data(), 4 * output.size()) != VKATTN_OK) return 1;
    return 0;
}
