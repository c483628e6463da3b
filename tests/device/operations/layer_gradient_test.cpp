// Gradients of layers whole, on the device and on the CPU: drawn ones step by step against the oracle and
// whole against central differences of formulas in double precision, recorded into a host's command
// buffer, and described by their tensors.
#include "conform/layers/layer_gradient_case.hpp"
#include "device/environment.hpp"
#include "device/host.hpp"
#include "support/extent.hpp"

#include <algorithm>
#include <cstring>

using namespace vkattn;
using namespace vkattn::test;

namespace {

std::unique_ptr<Runtime> cpuRuntime() {
    RuntimeOptions options;
    options.device = "cpu";
    return Runtime::open(options, nullptr, nullptr);
}

// 3 heads of 4 dims over 7 tokens, causal, with a bias on every product and a norm.
std::unique_ptr<LayerGradientCase> smallGradient(Random &random, vkattn_norm_place place) {
    auto layer = plainMultiHead(random, 3, 4, 7);
    for (const vkattn_role role : {VKATTN_BQ, VKATTN_BK, VKATTN_BV, VKATTN_BO}) layer->draw(random, role, vector(VKATTN_F32, 12));
    if (place != VKATTN_NORM_NONE)
        for (const vkattn_role role : {VKATTN_GAMMA, VKATTN_BETA}) layer->draw(random, role, vector(VKATTN_F32, 12));
    layer->layer.flags = VKATTN_LAYER_RESIDUAL;
    layer->layer.place = place;
    layer->layer.epsilon = 1e-5f;
    layer->options.structSize = sizeof layer->options;
    layer->options.flags = VKATTN_CAUSAL;
    layer->layer.options = &layer->options;
    return wholeLayerGradient(random, std::move(layer));
}

std::vector<std::vector<float>> read(const LayerGradientCase &layer) {
    std::vector<std::vector<float>> all(layer.written.size());
    for (size_t n = 0; n < all.size(); ++n) EXPECT_EQ(valuesOf(layer.written[n], all[n]), VKATTN_OK);
    return all;
}

} // namespace

TEST(LayerGradient, drawnGradientsAreThoseOfTheOracle) {
    const auto cpu = cpuRuntime();
    Random random = randomFor("layer gradients");
    const Draws draws(2, 100);
    for (int n = 0; draws.take(n); ++n) {
        const auto d = drawLayerGradient(random, n == 0 ? MultiHeadParts::all : n == 1 ? MultiHeadParts::packed : MultiHeadParts::any);
        for (Runtime *runtime : {runtimeFor(Limits::full), runtimeFor(Limits::weak), cpu.get()}) {
            ASSERT_TRUE(runtime);
            ASSERT_EQ(computeAndJudge(*runtime, *d, random).wrong, "") << "gradient " << n;
        }
    }
}

// On the CPU, which compiles nothing: many small ones of every kind.
TEST(LayerGradient, manyOnTheCpu) {
    const auto cpu = cpuRuntime();
    Random random = randomFor("layer gradients on the CPU");
    const Draws draws(40, 2000);
    for (int n = 0; draws.take(n); ++n) {
        const auto d = drawLayerGradient(random);
        ASSERT_EQ(computeAndJudge(*cpu, *d, random).wrong, "") << "gradient " << n;
    }
}

// The narrow types between the steps, one of them or both, with bounds as wide as their roundings: of 4000 layers of each
// the worst needed 0.0035 and 0.073.
TEST(LayerGradient, storesBetweenStepsInAnyType) {
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    Random random = randomFor("stored gradients");
    const bool f16 = random() % 2 == 0;
    for (const vkattn_dtype stored : {VKATTN_F16, VKATTN_BF16}) {
        if (!fullExtent() && f16 != (stored == VKATTN_F16)) continue;
        const auto d = smallGradient(random, stored == VKATTN_F16 ? VKATTN_NORM_POST : VKATTN_NORM_PRE);
        d->forward->layer.stored = d->gradient.stored = stored;
        ASSERT_EQ(computeAndJudge(*runtime, *d, random).wrong, "");
        EXPECT_EQ(d->judge(read(*d), stored == VKATTN_F16 ? 0.01 : 0.2, random), "") << "stored " << stored;
    }
}

// The same bits as the description with the layouts of the tensors; and a layer without gradients leaves
// the bits that it leaves with them.
TEST(LayerGradient, isDescribedByItsTensors) {
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    Random random = randomFor("described gradients");
    const auto d = smallGradient(random, VKATTN_NORM_PRE);
    OperationList described = runtime->list();
    std::string why;
    ASSERT_EQ(d->addTo(*runtime, described, &why), VKATTN_OK) << why;
    ASSERT_EQ(described.run().status, VKATTN_OK);
    const std::vector<std::vector<float>> expected = read(*d);

    const auto tensor = [&](vkattn_role role) { return tensorOf(*runtime, d->forward->arrays.at(role), &why); };
    LayerOf layer{tensor(VKATTN_X),  tensor(VKATTN_WQ), tensor(VKATTN_WK),
                  tensor(VKATTN_WV), tensor(VKATTN_WO), runtime->allocate(d->forward->layer.y)};
    layer.bq = tensor(VKATTN_BQ), layer.bk = tensor(VKATTN_BK), layer.bv = tensor(VKATTN_BV), layer.bo = tensor(VKATTN_BO);
    layer.gamma = tensor(VKATTN_GAMMA), layer.beta = tensor(VKATTN_BETA);
    layer.heads = 3, layer.place = VKATTN_NORM_PRE, layer.residual = true;
    layer.attention.options.flags = VKATTN_CAUSAL;
    std::vector<float> plain, kept;
    OperationList alone = runtime->list();
    ASSERT_EQ(alone.add(layer, &why), VKATTN_OK) << why;
    ASSERT_EQ(alone.run().status, VKATTN_OK);
    ASSERT_EQ(valuesOf(layer.y, plain), VKATTN_OK);

    layer.kept = runtime->allocateKept(layer, &why);
    ASSERT_TRUE(layer.kept) << why;
    OperationList list = runtime->list();
    LayerGradientOf gradient{layer, tensorOf(*runtime, d->dY)};
    std::vector<DeviceTensor> all;
    for (const vkattn_role role : d->roles()) all.push_back(runtime->allocate(d->layout(role)));
    DeviceTensor *const fields[] = {&gradient.dX,  &gradient.dWq, &gradient.dWk, &gradient.dWv,    &gradient.dWo,  &gradient.dBq,
                                    &gradient.dBk, &gradient.dBv, &gradient.dBo, &gradient.dGamma, &gradient.dBeta};
    ASSERT_EQ(all.size(), std::size(fields));
    for (size_t n = 0; n < all.size(); ++n) *fields[n] = all[n];
    ASSERT_EQ(list.add(layer, &why), VKATTN_OK) << why;
    ASSERT_EQ(list.add(gradient, &why), VKATTN_OK) << why;
    ASSERT_EQ(list.run().status, VKATTN_OK);
    for (size_t n = 0; n < all.size(); ++n) {
        std::vector<float> got;
        ASSERT_EQ(valuesOf(all[n], got), VKATTN_OK);
        EXPECT_EQ(got, expected[n]) << "role " << d->roles()[n];
    }
    ASSERT_EQ(valuesOf(layer.y, kept), VKATTN_OK);
    EXPECT_EQ(kept, plain);
    gradient.forward.kept = {};
    EXPECT_EQ(list.add(gradient, &why), VKATTN_ERROR_INVALID_ARGUMENT);
    EXPECT_NE(why.find("forward.kept is no tensor"), std::string::npos) << why;
    layer.heads = 5;
    EXPECT_FALSE(runtime->allocateKept(layer, &why));
    EXPECT_NE(why.find("heads"), std::string::npos) << why;
}

namespace {

// A gradient in a host's own buffer; the layer and the gradient are recorded one behind the other. All
// tensors are f32, dense.
class RecordedGradient {
  public:
    RecordedGradient(Host &host, LayerGradientCase &layer) : host_(host), layer_(layer) { layer.gradient.forward = &layer.forward->layer; }

    // Returns what went wrong; empty: nothing.
    [[nodiscard]] std::string compute(std::vector<std::vector<float>> &gradients) {
        vkattn_diagnostic why{};
        Context context;
        vkattn_requirements forward{}, backward{};
        const vkattn_layer &layer = layer_.forward->layer;
        if (context.create(host_.host, &why) != VKATTN_OK || context.query(layer, forward, &why) != VKATTN_OK ||
            context.query(layer_.gradient, backward, &why) != VKATTN_OK || context.prewarm(layer, &why) != VKATTN_OK ||
            context.prewarm(layer_.gradient, &why) != VKATTN_OK)
            return why.message;
        vkattn_layer_plan plan{}, gradientPlan{};
        plan.structSize = gradientPlan.structSize = sizeof plan;
        if (vkattnPlanLayer(&layer, &plan, &why) != VKATTN_OK ||
            vkattnPlanLayerGradient(&layer_.gradient, &gradientPlan, &why) != VKATTN_OK)
            return why.message;
        for (const auto &[role, array] : layer_.forward->arrays) place(role, array.values);
        place(VKATTN_D_Y, layer_.dY.values);
        (void)room(VKATTN_Y, 4 * layer_.dY.values.size());
        (void)room(VKATTN_KEPT, plan.keptBytes);
        (void)room(VKATTN_WORKSPACE, std::max({forward.workspaceBytes, backward.workspaceBytes, uint64_t{4}}));
        std::vector<const float *> results;
        for (const vkattn_role role : layer_.roles()) {
            const uint32_t *const e = layer_.layout(role).extent;
            const size_t count = size_t{e[0]} * e[1] * e[2] * e[3];
            results.push_back(reinterpret_cast<const float *>(room(role, 4 * count)));
            gradients.emplace_back(count);
        }
        if (used_ > host_.bytes) return "the buffer is too small";
        const VkDescriptorPool pools[] = {poolOf(forward), poolOf(backward)};
        vkattn_result result = context.record(layer, host_.commands, of(plan), pools[0], &why);
        VkMemoryBarrier barrier{};
        barrier.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
        barrier.srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT;
        barrier.dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT;
        vkCmdPipelineBarrier(host_.commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, 0, 1, &barrier, 0,
                             nullptr, 0, nullptr);
        if (result == VKATTN_OK) result = context.record(layer_.gradient, host_.commands, of(gradientPlan), pools[1], &why);
        const bool done = result == VKATTN_OK && host_.submitAndWait();
        for (const VkDescriptorPool pool : pools) vkDestroyDescriptorPool(host_.device, pool, nullptr);
        if (result != VKATTN_OK) return why.message;
        if (!done) return host_.why;
        for (size_t n = 0; n < results.size(); ++n) std::memcpy(gradients[n].data(), results[n], 4 * gradients[n].size());
        return {};
    }

  private:
    [[nodiscard]] VkDescriptorPool poolOf(const vkattn_requirements &needs) const {
        return makeDescriptorPool(host_.device, needs.descriptorSetCount, needs.storageDescriptorCount);
    }
    // The bindings that a plan has.
    [[nodiscard]] std::vector<vkattn_binding> of(const vkattn_layer_plan &plan) const {
        std::vector<vkattn_binding> some;
        for (const vkattn_binding &each : bindings_) {
            bool used = each.role == VKATTN_WORKSPACE;
            for (uint32_t n = 0; n < plan.stepCount; ++n)
                for (uint32_t o = 0; o < plan.steps[n].operandCount; ++o) used = used || plan.steps[n].operands[o].from == each.role;
            if (used) some.push_back(each);
        }
        return some;
    }
    // Storage is bound at multiples of 256 on every device.
    unsigned char *room(vkattn_role role, size_t bytes) {
        unsigned char *const at = host_.mapped + used_;
        bindings_.push_back({role, host_.buffer, used_, bytes});
        used_ += (bytes + 255) / 256 * 256;
        EXPECT_LE(used_, host_.bytes);
        return used_ <= host_.bytes ? at : host_.mapped;
    }
    void place(vkattn_role role, const std::vector<float> &values) {
        std::memcpy(room(role, 4 * values.size()), values.data(), 4 * values.size());
    }

    Host &host_;
    LayerGradientCase &layer_;
    std::vector<vkattn_binding> bindings_;
    VkDeviceSize used_ = 0;
};

} // namespace

TEST(RecordLayerGradient, isThatOfDifferences) {
    Random random = randomFor("recorded gradients");
    const uint64_t one = random() % 3;
    for (const vkattn_norm_place place : {VKATTN_NORM_NONE, VKATTN_NORM_POST, VKATTN_NORM_PRE}) {
        if (!fullExtent() && one != static_cast<uint64_t>(place)) continue;
        const auto d = smallGradient(random, place);
        HostOptions options;
        options.askVkattn = place != VKATTN_NORM_POST;
        options.bytes = 16 << 20;
        Host host(options);
        ASSERT_TRUE(host.ready) << host.why;
        std::vector<std::vector<float>> gradients;
        ASSERT_EQ(RecordedGradient(host, *d).compute(gradients), "");
        EXPECT_EQ(d->judge(gradients, 2e-3, random), "") << "place " << place;
    }
}
