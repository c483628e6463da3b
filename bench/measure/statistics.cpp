#include "measure/statistics.hpp"

namespace vkattn::bench {
namespace {

constexpr PassShape table[] = {
    {"inspect-d64", 8, 2048, 64, VKATTN_F32, false},
    {"inspect-d64-causal", 8, 2048, 64, VKATTN_F32, true},
    {"inspect-d128", 8, 2048, 128, VKATTN_F32, false},
    {"inspect-d64-f16", 8, 2048, 64, VKATTN_F16, false},
};
constexpr uint32_t topKeys = 8;
constexpr float densityThreshold = 0.1f;

std::vector<PassTime> measureStatistics(Runtime &runtime, const PassShape &shape, const MeasureOptions &options, std::string &failure) {
    AttentionOf attention{};
    if (!makeInputs(runtime, shape, options.seed, {&attention.q, &attention.k, &attention.v}, failure)) return {};
    const auto allocate = [&](vkattn_dtype dtype, uint32_t dims) {
        return runtime.allocate(packed(dtype, 1, shape.heads, shape.tokens, dims), &failure);
    };
    attention.out = runtime.allocate(shape.layout(), &failure);
    const DeviceTensor columns = allocate(VKATTN_F32, VKATTN_STATISTIC_COUNT), received = allocate(VKATTN_F32, 1);
    const DeviceTensor topWeights = allocate(VKATTN_F32, topKeys), topKeysOf = allocate(VKATTN_BITS32, topKeys);
    if (!attention.out || !columns || !received || !topWeights || !topKeysOf) return {};
    attention.options = problem({}, {}, {}, {});
    attention.options.flags |= shape.causal ? VKATTN_CAUSAL : 0;

    Passes passes(runtime);
    const double flops = shape.forwardFlops(), product = flops / 2;
    passes.add("forward", attention, flops);
    AttentionStatisticsOf statistics{attention, columns};
    passes.add("columns", statistics, product);
    statistics.received = received;
    passes.add("columns and received", statistics, 2 * product);
    statistics.topWeights = topWeights;
    statistics.topKeys = topKeysOf;
    passes.add("and 8 top keys", statistics, 2 * product);
    statistics.densityThreshold = densityThreshold;
    passes.add("and the density", statistics, 2 * product); // of a list of 10 keys: no products of its own
    return passes.measure(options, 0);
}

} // namespace

PassTable statisticsPasses() {
    return {table, measureStatistics};
}

} // namespace vkattn::bench
