// What the tests of layers of both kinds and of gradients share: their plans, and an engine that records them.
#pragma once

#include "support/heap_count.hpp"
#include "support/vulkan/fake_vulkan.hpp"
#include "vkattn/vkattn.hpp"

#include <functional>
#include <gtest/gtest.h>
#include <string>
#include <utility>
#include <vector>

namespace vkattn::test {

inline const auto layerBuffer = reinterpret_cast<VkBuffer>(uintptr_t{0x1000}),
                  layerWorkspace = reinterpret_cast<VkBuffer>(uintptr_t{0x2000});

inline vkattn_result planLayer(const vkattn_layer &layer, vkattn_layer_plan &plan, vkattn_diagnostic &why) {
    return vkattnPlanLayer(&layer, &plan, &why);
}
inline vkattn_result planLayer(const vkattn_latent_layer &layer, vkattn_layer_plan &plan, vkattn_diagnostic &why) {
    return vkattnPlanLatentLayer(&layer, &plan, &why);
}
inline vkattn_result planLayer(const vkattn_layer_gradient &gradient, vkattn_layer_plan &plan, vkattn_diagnostic &why) {
    return vkattnPlanLayerGradient(&gradient, &plan, &why);
}
template <class Layer> vkattn_result planned(const Layer &layer, vkattn_layer_plan &plan, vkattn_diagnostic &why) {
    plan = {};
    plan.structSize = sizeof plan;
    why = {};
    return planLayer(layer, plan, why);
}

// The steps' names, with a bar where a barrier is; or the reason why there is no plan.
template <class Layer> std::string steps(const Layer &layer) {
    vkattn_layer_plan plan;
    vkattn_diagnostic why{};
    if (planned(layer, plan, why) != VKATTN_OK) return why.message;
    std::string all;
    for (uint32_t n = 0; n < plan.stepCount; ++n)
        all += std::string(n ? plan.steps[n].barrierBefore ? " | " : " " : "") + plan.steps[n].name;
    return all;
}

// What makes a layer wrong, and words of the reason that it is then refused with.
template <class Layer> struct WrongLayer {
    const char *words;
    std::function<void(Layer &)> make;
};
template <class Layer> void expectRefused(const Layer &right, span<const WrongLayer<Layer>> wrong) {
    for (const WrongLayer<Layer> &each : wrong) {
        Layer l = right;
        each.make(l);
        vkattn_layer_plan plan;
        vkattn_diagnostic why{};
        EXPECT_EQ(planned(l, plan, why), VKATTN_ERROR_INVALID_ARGUMENT) << each.words;
        EXPECT_NE(std::string(why.message).find(each.words), std::string::npos) << "expected \"" << each.words << "\": " << why.message;
        EXPECT_EQ(plan.stepCount, 0u) << "the plan is written only on success";
    }
}

// An engine with memory for every role.
template <class Layer> struct LayerEngine {
    static constexpr uint64_t room = 1 << 16;
    FakeVulkan vulkan;
    Context context;
    Layer layer;
    std::vector<vkattn_binding> bindings;
    FakeCommands commands;
    vkattn_diagnostic why{};

    explicit LayerEngine(const Layer &given, bool pushDescriptors = true, uint64_t maxWorkspaceBytes = 0) : layer(given) {
        vulkan.pushDescriptors = pushDescriptors;
        vkattn_host host = vulkan.host();
        host.maxWorkspaceBytes = maxWorkspaceBytes;
        EXPECT_EQ(context.create(host, &why), VKATTN_OK) << why.message;
        bind();
    }
    void bind() {
        bindings.clear();
        vkattn_layer_plan plan;
        ASSERT_EQ(planned(layer, plan, why), VKATTN_OK) << why.message;
        bool bound[VKATTN_ROLE_LIMIT] = {};
        for (uint32_t n = 0; n < plan.stepCount; ++n)
            for (uint32_t o = 0; o < plan.steps[n].operandCount; ++o)
                if (const vkattn_role role = plan.steps[n].operands[o].from; role != VKATTN_WORKSPACE && !std::exchange(bound[role], true))
                    bindings.push_back({role, layerBuffer, room * role, room});
        bindings.push_back({VKATTN_WORKSPACE, layerWorkspace, 0, needs().workspaceBytes});
    }
    [[nodiscard]] vkattn_requirements needs() {
        vkattn_requirements out{};
        EXPECT_EQ(context.query(layer, out, &why), VKATTN_OK) << why.message;
        return out;
    }
    vkattn_binding &of(vkattn_role role) {
        for (vkattn_binding &binding : bindings)
            if (binding.role == role) return binding;
        ADD_FAILURE() << "role " << role << " is not bound";
        return bindings[0];
    }
    vkattn_result record(VkDescriptorPool pool = VK_NULL_HANDLE) {
        why = {};
        return context.record(layer, commands.handle(), bindings, pool, &why);
    }
};

// Nothing is recorded before the pipelines are compiled, and then what the needs say, without a heap
// allocation.
template <class Layer>
void expectRecordedAsNeeded(LayerEngine<Layer> &e, const char *nameOfPrewarm, VkDescriptorPool pool = VK_NULL_HANDLE) {
    const vkattn_requirements needs = e.needs();
    ASSERT_EQ(e.record(pool), VKATTN_NOT_READY) << e.why.message;
    EXPECT_NE(std::string(e.why.message).find(nameOfPrewarm), std::string::npos) << e.why.message;
    EXPECT_TRUE(e.commands.dispatches.empty());
    ASSERT_EQ(e.context.prewarm(e.layer, &e.why), VKATTN_OK) << e.why.message;
    e.commands.dispatches.reserve(needs.dispatchCount);
    const uint64_t before = heapAllocations();
    const vkattn_result result = e.record(pool);
    const uint64_t taken = heapAllocations() - before;
    EXPECT_EQ(result, VKATTN_OK) << e.why.message;
    if (countsHeap()) {
        EXPECT_EQ(taken, 0u) << "recording takes nothing from the heap";
    }
    EXPECT_EQ(e.commands.dispatches.size(), needs.dispatchCount);
    EXPECT_EQ(e.commands.error, nullptr) << e.commands.error;
}

} // namespace vkattn::test
