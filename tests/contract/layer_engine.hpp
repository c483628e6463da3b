// What the tests of layers of both kinds share: their plans, and an engine that records them.
#pragma once

#include "support/fake_vulkan.hpp"
#include "vkattn/vkattn.hpp"

#include <gtest/gtest.h>
#include <string>
#include <utility>
#include <vector>

namespace vkattn::test {

inline const auto layerBuffer = reinterpret_cast<VkBuffer>(uintptr_t{0x1000}),
                  layerWorkspace = reinterpret_cast<VkBuffer>(uintptr_t{0x2000});

inline vkattn_result planned(const vkattn_layer &layer, vkattn_layer_plan &plan, vkattn_diagnostic &why) {
    plan = {};
    plan.structSize = sizeof plan;
    why = {};
    return vkattnPlanLayer(&layer, &plan, &why);
}
inline vkattn_result planned(const vkattn_latent_layer &layer, vkattn_layer_plan &plan, vkattn_diagnostic &why) {
    plan = {};
    plan.structSize = sizeof plan;
    why = {};
    return vkattnPlanLatentLayer(&layer, &plan, &why);
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

// An engine with memory for every role.
template <class Layer> struct LayerEngine {
    static constexpr uint64_t room = 1 << 16;
    FakeVulkan vulkan;
    Context context;
    Layer layer;
    std::vector<vkattn_binding> bindings;
    FakeCommands commands;
    vkattn_diagnostic why{};

    explicit LayerEngine(const Layer &given, bool pushDescriptors = true) : layer(given) {
        vulkan.pushDescriptors = pushDescriptors;
        EXPECT_EQ(context.create(vulkan.host(), &why), VKATTN_OK) << why.message;
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

} // namespace vkattn::test
