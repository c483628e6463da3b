#include "measure/gradient.hpp"

namespace vkattn::bench {
namespace {

constexpr PassShape table[] = {
    {"train-d64", 8, 2048, 64, VKATTN_F32, false},
    {"train-d64-causal", 8, 2048, 64, VKATTN_F32, true},
    {"train-d128", 8, 2048, 128, VKATTN_F32, false},
    {"train-d64-f16", 8, 2048, 64, VKATTN_F16, false},
};
constexpr double dropoutProbability = 0.1;

struct Tensors {
    DeviceTensor q, k, v, out, lse, dOut, dQ, dK, dV;
    std::string why;

    Tensors(Runtime &runtime, const PassShape &shape, uint64_t seed) {
        if (!makeInputs(runtime, shape, seed, {&q, &k, &v, &dOut}, why)) return;
        for (DeviceTensor *each : {&out, &dQ, &dK, &dV}) {
            *each = runtime.allocate(shape.layout(), &why);
            if (!*each) return;
        }
        lse = runtime.allocate(packed(VKATTN_F32, 1, shape.heads, shape.tokens, 2), &why);
    }

    [[nodiscard]] AttentionOf attention(const PassShape &shape, double dropout) const {
        AttentionOf a{q, k, v, out, lse};
        a.options = problem({}, {}, {}, {});
        a.options.flags |= VKATTN_ROW_STATISTICS | (shape.causal ? VKATTN_CAUSAL : 0);
        a.options.dropout = dropout;
        a.options.dropoutSeed = dropout != 0 ? 1 : 0;
        return a;
    }
};

std::vector<PassTime> measureGradient(Runtime &runtime, const PassShape &shape, const MeasureOptions &options, std::string &failure) {
    const Tensors tensors(runtime, shape, options.seed);
    failure = tensors.why;
    if (!failure.empty()) return {};
    Passes passes(runtime);
    const double flops = shape.forwardFlops();
    // The forward pass is the last of a round: out and lse are its own when the backward passes read them.
    passes.add("forward dropout", tensors.attention(shape, dropoutProbability), flops);
    passes.add("forward", tensors.attention(shape, 0), flops);
    AttentionGradientOf gradient{tensors.attention(shape, 0), tensors.dOut};
    gradient.dQ = tensors.dQ;
    gradient.dK = tensors.dK;
    gradient.dV = tensors.dV;
    struct Choice {
        const char *name;
        vkattn_gradient_kernel kernel;
    };
    constexpr Choice ofDevices[] = {{"backward staged", VKATTN_GRADIENT_STAGED},
                                    {"backward tiles", VKATTN_GRADIENT_TILES},
                                    {"backward coopmat", VKATTN_GRADIENT_COOPMAT}};
    constexpr Choice ofCpu[] = {{"backward", VKATTN_GRADIENT_AUTO}};
    for (const Choice &each : runtime.device() ? std::span<const Choice>(ofDevices) : std::span<const Choice>(ofCpu)) {
        gradient.kernel = each.kernel;
        passes.add(each.name, gradient, 2.5 * flops);
    }
    std::vector<PassTime> times = passes.measure(options, 1);
    std::swap(times[0], times[1]);
    return times;
}

} // namespace

PassTable gradientPasses() {
    return {table, measureGradient};
}

} // namespace vkattn::bench
