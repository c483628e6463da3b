// A layer whole, on the device and on the CPU: drawn layers against a double-precision oracle of
// their own and step by step, recorded into a host's command buffer, and the identities of
// multi-head attention.
#include "conform/layers/layer_case.hpp"
#include "device/environment.hpp"
#include "device/host.hpp"
#include "device/lists.hpp"
#include "support/extent.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>

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
    const Draws draws(2, 200);
    for (int n = 0; draws.take(n); ++n) {
        const auto d = drawMultiHead(random, n == 0 ? MultiHeadParts::all : n == 1 ? MultiHeadParts::packed : MultiHeadParts::any);
        for (Runtime *runtime : {runtimeFor(Limits::full), runtimeFor(Limits::weak), cpu.get()}) {
            ASSERT_TRUE(runtime);
            ASSERT_EQ(computeAndJudge(*runtime, *d).wrong, "") << "layer " << n;
        }
    }
}

// On the device and the CPU: the mean of what the layer writes for each head.
TEST(Layer, averagedWeightsAreTheMeanOfTheHeads) {
    const auto cpu = cpuRuntime();
    Random random = randomFor("averaged weights");
    const uint32_t heads = between(random, 2, 40), tokens = between(random, 1, 30), pairs = tokens * tokens;
    const auto d = plainMultiHead(random, heads, 4, tokens);
    d->options.structSize = sizeof d->options;
    d->options.flags = VKATTN_CAUSAL;
    d->layer.options = &d->options;
    for (Runtime *runtime : {runtimeFor(Limits::full), cpu.get()}) {
        ASSERT_TRUE(runtime);
        std::vector<float> weights[2];
        for (const bool averaged : {false, true}) {
            d->layer.flags = averaged ? uint32_t{VKATTN_LAYER_AVERAGED_WEIGHTS} : 0;
            d->options.weights = packed(VKATTN_F32, 1, averaged ? 1 : heads, tokens, tokens);
            LayerOn on(*runtime, *d);
            const RunResult result = on.list.run();
            ASSERT_EQ(result.status, VKATTN_OK) << result.message;
            ASSERT_EQ(valuesOf(d->weights, weights[averaged]), VKATTN_OK);
        }
        for (uint32_t n = 0; n < pairs; ++n) {
            double mean = 0;
            for (uint32_t h = 0; h < heads; ++h) mean += static_cast<double>(weights[false][h * pairs + n]) / heads;
            ASSERT_NEAR(static_cast<double>(weights[true][n]), mean, 2e-6 * mean + 1e-30) << heads << " heads, pair " << n;
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
        SCOPED_TRACE(stored);
        expectVerified(on.list);
    }
}

namespace {

void forEachElement(const vkattn_layout &l, const std::function<void(size_t index, int64_t at)> &visit) {
    size_t index = 0;
    for (uint32_t b = 0; b < l.extent[0]; ++b)
        for (uint32_t h = 0; h < l.extent[1]; ++h)
            for (uint32_t t = 0; t < l.extent[2]; ++t)
                for (uint32_t d = 0; d < l.extent[3]; ++d)
                    visit(index++, static_cast<int64_t>(l.offsetElems) + b * l.strideElems[0] + h * l.strideElems[1] +
                                       t * l.strideElems[2] + d * l.strideElems[3]);
}

// A drawn layer in a host's own buffer, recorded into the host's command buffer.
class RecordedLayer {
  public:
    RecordedLayer(Host &host, const MultiHeadCase &layer) : host_(host), layer_(layer) {}

    // Returns what went wrong; empty: nothing.
    [[nodiscard]] std::string compute(std::vector<float> &y, uint32_t &dispatches) {
        vkattn_diagnostic why{};
        Context context;
        vkattn_requirements needs{};
        if (context.create(host_.host, &why) != VKATTN_OK || context.query(layer_.layer, needs, &why) != VKATTN_OK ||
            context.prewarm(layer_.layer, &why) != VKATTN_OK)
            return why.message;
        dispatches = needs.dispatchCount;
        for (const auto &[role, array] : layer_.arrays) place(role, array);
        place(VKATTN_POSITIONS, layer_.positions);
        place(VKATTN_STARTS, layer_.starts);
        place(VKATTN_KEY_LENGTHS, layer_.keyLengths);
        if (layer_.layer.options && layer_.options.weights.extent[0]) (void)room(VKATTN_WEIGHTS, bytesOf(layer_.options.weights));
        const vkattn_layout &out = layer_.layer.y;
        unsigned char *const written = room(VKATTN_Y, bytesOf(out));
        std::memset(written, canary, bytesOf(out));
        (void)room(VKATTN_WORKSPACE, needs.workspaceBytes);
        if (used_ > host_.bytes) return "the buffer is too small";
        Pool pool(host_.device, needs);
        if (context.record(layer_.layer, host_.commands, bindings_, pool.handle, &why) != VKATTN_OK) return why.message;
        if (!host_.submitAndWait()) return host_.why;
        std::vector<bool> touched(bytesOf(out));
        forEachElement(out, [&](size_t, int64_t at) {
            const size_t size = sizeOf(out.dtype);
            convert(out.dtype, written + static_cast<size_t>(at) * size, VKATTN_F32, &y.emplace_back());
            for (size_t n = 0; n < size; ++n) touched[static_cast<size_t>(at) * size + n] = true;
        });
        for (size_t n = 0; n < touched.size(); ++n)
            if (!touched[n] && written[n] != canary) return "a byte beside the elements of y was written";
        return {};
    }

  private:
    static constexpr unsigned char canary = 0xa5;
    struct Pool {
        Pool(VkDevice owner, const vkattn_requirements &needs)
            : device(owner), handle(makeDescriptorPool(device, needs.descriptorSetCount, needs.storageDescriptorCount)) {
            EXPECT_TRUE(handle || !needs.descriptorSetCount);
        }
        ~Pool() { vkDestroyDescriptorPool(device, handle, nullptr); }
        VkDevice device;
        VkDescriptorPool handle;
    };

    static size_t sizeOf(vkattn_dtype dtype) { return dtype == VKATTN_F32 ? 4 : 2; }
    static void convert(vkattn_dtype from, const void *data, vkattn_dtype to, void *into) {
        if (from == to)
            std::memcpy(into, data, sizeOf(to));
        else
            EXPECT_EQ(vkattnConvert(from, data, to, into, 1, nullptr), VKATTN_OK);
    }
    static size_t bytesOf(const vkattn_layout &layout) {
        int64_t last = 0;
        forEachElement(layout, [&](size_t, int64_t at) { last = std::max(last, at); });
        return (static_cast<size_t>(last) + 1) * sizeOf(layout.dtype);
    }
    // Storage is bound at multiples of 256 on every device.
    unsigned char *room(vkattn_role role, size_t bytes) {
        unsigned char *const at = host_.mapped + used_;
        bindings_.push_back({role, host_.buffer, used_, (bytes + 3) / 4 * 4});
        used_ += (bytes + 255) / 256 * 256;
        EXPECT_LE(used_, host_.bytes);
        return used_ <= host_.bytes ? at : host_.mapped;
    }
    void place(vkattn_role role, const LayerArray &array) {
        unsigned char *const to = room(role, bytesOf(array.layout));
        forEachElement(array.layout, [&](size_t index, int64_t at) {
            const size_t size = sizeOf(array.layout.dtype);
            convert(VKATTN_F32, &array.values[index], array.layout.dtype, to + static_cast<size_t>(at) * size);
        });
    }
    void place(vkattn_role role, const std::vector<uint32_t> &words) {
        if (words.empty()) return;
        std::memcpy(room(role, 4 * words.size()), words.data(), 4 * words.size());
    }

    Host &host_;
    const MultiHeadCase &layer_;
    std::vector<vkattn_binding> bindings_;
    VkDeviceSize used_ = 0;
};

} // namespace

// The elements that dropout drops are those of the whole, whichever parts compute them.
TEST(RecordLayer, dropsTheSameInParts) {
    Random random = randomFor("dropout in parts");
    const auto d = plainMultiHead(random, 2, 4, 130);
    d->draw(random, VKATTN_X, packed(VKATTN_F32, 3, 1, 130, 8));
    vkattn_layer &l = d->layer;
    l.y = l.x;
    l.outputDropout = 0.4, l.outputDropoutSeed = random(), l.outputDropoutOffset = 5;
    vkattn_layer_plan plan{};
    plan.structSize = sizeof plan;
    ASSERT_EQ(vkattnPlanLayer(&l, &plan, nullptr), VKATTN_OK);
    uint32_t dispatches[3] = {}, n = 0;
    for (const uint64_t limit : {uint64_t{0}, plan.betweenBytes, uint64_t{1}}) { // whole, of entries, of tokens
        Host host(HostOptions{});
        ASSERT_TRUE(host.ready) << host.why;
        host.host.maxWorkspaceBytes = limit;
        std::vector<float> y;
        ASSERT_EQ(RecordedLayer(host, *d).compute(y, dispatches[n++]), "");
        ASSERT_EQ(judge(*d, y), "") << "workspace " << limit;
        for (uint32_t at = 0; at < y.size(); ++at)
            ASSERT_EQ(y[at] != 0, vkattnDropoutKeeps(0.4, l.outputDropoutSeed, 5, at / 8 / 130, at / 8 % 130, at % 8) != 0)
                << "element " << at << ", workspace " << limit;
    }
    EXPECT_LT(dispatches[0], dispatches[1]);
    EXPECT_LT(dispatches[1], dispatches[2]);
}

// Recorded whole, and in parts of some entries and of some tokens, the layer is the oracle's.
TEST(RecordLayer, wholeAndInParts) {
    Random random = randomFor("recorded layers");
    int cut = 0;
    const Draws draws(2, 40);
    for (int n = 0; draws.take(n) || (cut == 0 && n < 40); ++n) { // not every layer has parts
        const auto d = drawMultiHead(random, n % 2 ? MultiHeadParts::any : MultiHeadParts::tall);
        vkattn_layer_plan plan{};
        plan.structSize = sizeof plan;
        ASSERT_EQ(vkattnPlanLayer(&d->layer, &plan, nullptr), VKATTN_OK);
        uint32_t dispatchesOfWhole = 0;
        for (const uint64_t limit : {uint64_t{0}, plan.betweenBytes / 2, uint64_t{1}}) {
            HostOptions options;
            options.askVkattn = n % 4 < 2;
            options.bytes = 16 << 20;
            Host host(options);
            ASSERT_TRUE(host.ready) << host.why;
            host.host.maxWorkspaceBytes = limit;
            std::vector<float> y;
            uint32_t dispatches = 0;
            ASSERT_EQ(RecordedLayer(host, *d).compute(y, dispatches), "") << d->text();
            ASSERT_EQ(judge(*d, y), "") << "layer " << n << ", workspace " << limit << "; " << d->text();
            if (limit == 0) dispatchesOfWhole = dispatches;
            cut += dispatches > dispatchesOfWhole;
        }
    }
    std::printf("%d layers were recorded in parts\n", cut);
    EXPECT_GT(cut, 0);
}
