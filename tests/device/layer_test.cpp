// A layer whole, on the device and on the CPU: drawn layers against a double-precision oracle of
// their own and step by step, recorded into a host's command buffer, and the identities of
// multi-head attention.
#include "conform/layers/layer_case.hpp"
#include "environment.hpp"
#include "host.hpp"
#include "support/extent.hpp"

#include <cmath>

using namespace vkattn;
using namespace vkattn::test;

namespace {

// The layer on a Runtime.
struct LayerOn {
    OperationList list;
    DeviceTensor y;

    LayerOn(Runtime &runtime, LayerCase &layer) : list(runtime.list()) {
        std::string why;
        EXPECT_EQ(layer.addTo(runtime, list, y, &why), VKATTN_OK) << why;
    }
    [[nodiscard]] std::vector<float> output() const {
        std::vector<float> values;
        EXPECT_EQ(valuesOf(y, values), VKATTN_OK);
        return values;
    }
};

std::unique_ptr<Runtime> cpuRuntime() {
    RuntimeOptions options;
    options.device = "cpu";
    return Runtime::open(options, nullptr, nullptr);
}

std::vector<float> computed(Runtime &runtime, LayerCase &layer) {
    LayerOn on(runtime, layer);
    const RunResult result = on.list.run();
    EXPECT_EQ(result.status, VKATTN_OK) << result.message;
    return on.output();
}

} // namespace

TEST(Layer, drawnLayersAreThoseOfTheOracle) {
    const auto cpu = cpuRuntime();
    Random random = randomFor("layers");
    for (int n = 0; n < (fullExtent() ? 200 : 2); ++n) {
        const auto d = drawMultiHead(random, n == 0 ? MultiHeadParts::all : n == 1 ? MultiHeadParts::packed : MultiHeadParts::any);
        for (Runtime *runtime : {runtimeFor(Limits::full), runtimeFor(Limits::weak), cpu.get()}) {
            ASSERT_TRUE(runtime);
            LayerOn on(*runtime, *d);
            std::vector<StepCheck> checks;
            std::string why;
            ASSERT_EQ(on.list.verify(checks, nullptr, &why), VKATTN_OK) << why;
            for (const StepCheck &check : checks)
                EXPECT_TRUE(check.report.passed) << "layer " << n << ", " << check.operation << "; " << d->text();
            const std::vector<float> stepped = on.output();
            EXPECT_EQ(judge(*d, stepped), "") << d->text();
            const RunResult result = on.list.run();
            ASSERT_EQ(result.status, VKATTN_OK) << result.message;
            ASSERT_EQ(on.output(), stepped) << "layer " << n << ": the list leaves what its steps leave";
            if (HasFailure()) return;
        }
    }
}

// The identity in place of all matrices: the layer is attention alone.
TEST(Layer, identityMatricesLeaveAttention) {
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    Random random = randomFor("identity");
    const auto d = plainMultiHead(random, 3, 8, 11);
    for (const vkattn_role role : {VKATTN_WQ, VKATTN_WK, VKATTN_WV, VKATTN_WO})
        for (size_t n = 0; n < d->arrays[role].values.size(); ++n) d->arrays[role].values[n] = n / 24 == n % 24 ? 1.0f : 0.0f;
    const vkattn_layout heads = packedTokenMajor(VKATTN_F32, 1, 3, 11, 8);
    const vkattn_problem attention = problem(heads, heads, heads, heads);
    std::vector<float> &x = d->arrays[VKATTN_X].values, alone(x.size());
    const vkattn_operand_memory memory[] = {{VKATTN_Q, x.data(), 4 * x.size()},
                                            {VKATTN_K, x.data(), 4 * x.size()},
                                            {VKATTN_V, x.data(), 4 * x.size()},
                                            {VKATTN_OUT, alone.data(), 4 * x.size()}};
    ASSERT_EQ(runtime->run(attention, memory).status, VKATTN_OK);
    EXPECT_EQ(computed(*runtime, *d), alone);
}

// Permuted tokens permute the rows; heads with block-diagonal matrices are layers of one head.
TEST(Layer, identitiesOfHeadsAndTokensHold) {
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    Random random = randomFor("heads and tokens");
    constexpr uint32_t heads = 4, dim = 8, model = heads * dim, tokens = 9;
    const auto d = plainMultiHead(random, heads, dim, tokens);
    const std::vector<float> straight = computed(*runtime, *d);
    std::vector<float> &x = d->arrays[VKATTN_X].values, given = x;
    for (uint32_t t = 0; t < tokens; ++t) std::copy_n(given.begin() + t * model, model, x.begin() + (t * 4 + 1) % tokens * model);
    const std::vector<float> permuted = computed(*runtime, *d);
    for (uint32_t t = 0; t < tokens; ++t)
        for (uint32_t o = 0; o < model; ++o)
            ASSERT_NEAR(permuted[(t * 4 + 1) % tokens * model + o], straight[t * model + o],
                        1e-4f * (1 + std::abs(straight[t * model + o])));

    x = given;
    for (const vkattn_role role : {VKATTN_WQ, VKATTN_WK, VKATTN_WV, VKATTN_WO})
        for (size_t n = 0; n < d->arrays[role].values.size(); ++n)
            if (n / model / dim != n % model / dim) d->arrays[role].values[n] = 0;
    const std::vector<float> together = computed(*runtime, *d);
    for (uint32_t h = 0; h < heads; ++h) {
        const auto one = plainMultiHead(random, 1, dim, tokens);
        for (uint32_t t = 0; t < tokens; ++t)
            std::copy_n(given.begin() + t * model + h * dim, dim, one->arrays[VKATTN_X].values.begin() + t * dim);
        for (const vkattn_role role : {VKATTN_WQ, VKATTN_WK, VKATTN_WV, VKATTN_WO})
            for (uint32_t n = 0; n < dim * dim; ++n)
                one->arrays[role].values[n] = d->arrays[role].values[(h * dim + n / dim) * model + h * dim + n % dim];
        const std::vector<float> alone = computed(*runtime, *one);
        for (uint32_t t = 0; t < tokens; ++t)
            for (uint32_t o = 0; o < dim; ++o)
                ASSERT_NEAR(together[t * model + h * dim + o], alone[t * dim + o], 1e-4f * (1 + std::abs(alone[t * dim + o])));
    }
}

// The narrow types between the steps; drawn layers have f32. A plain layer has few pipelines.
TEST(Layer, storesBetweenStepsInAnyType) {
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    Random random = randomFor("stored");
    for (const vkattn_dtype stored : {VKATTN_F16, VKATTN_BF16}) {
        const auto d = plainMultiHead(random, 3, 8, 11);
        d->layer.stored = stored;
        LayerOn on(*runtime, *d);
        std::vector<StepCheck> checks;
        std::string why;
        ASSERT_EQ(on.list.verify(checks, nullptr, &why), VKATTN_OK) << why;
        for (const StepCheck &check : checks) EXPECT_TRUE(check.report.passed) << check.operation << " with type " << stored;
    }
}
