// A host that records operations on a Vulkan that computes nothing: every operation once, right in all.
#pragma once

#include "support/vulkan/fake_vulkan.hpp"
#include "vkattn/vkattn.hpp"

#include <gtest/gtest.h>
#include <vector>

namespace vkattn::test {

inline const auto operandBuffer = reinterpret_cast<VkBuffer>(uintptr_t{0x1000}),
                  otherOperandBuffer = reinterpret_cast<VkBuffer>(uintptr_t{0x2000});

inline vkattn_caps minimumCapsOfOperations() {
    vkattn_caps caps{};
    caps.structSize = sizeof caps;
    EXPECT_EQ(vkattnMinimumCaps(&caps, nullptr), VKATTN_OK);
    return caps;
}

// An engine that does everything right until a row of the table changes something. Every operand
// takes 512 bytes or fewer, and each role has 4096 of its own.
struct OperationEngine {
    static constexpr uint64_t room = 4096;
    FakeVulkan vulkan;
    Context context;
    vkattn_caps weak = minimumCapsOfOperations();
    const vkattn_caps *limit = nullptr;
    vkattn_projection projection;
    vkattn_norm norm;
    vkattn_rotary rotary;
    vkattn_append append;
    vkattn_advance advance;
    vkattn_mean mean;
    vkattn_merge merge;
    vkattn_hadamard hadamard;
    vkattn_keep keep;
    vkattn_norm_gradient normGradient;
    vkattn_drop drop;
    vkattn_problem attention;
    vkattn_problem forward;
    vkattn_attention_gradient gradient;
    vkattn_attention_statistics statistics;
    vkattn_operation operation{};
    std::vector<vkattn_binding> bindings;
    FakeCommands commands;
    vkattn_diagnostic why{};

    OperationEngine() {
        const vkattn_layout rows = matrix(VKATTN_F32, 8, 16), row = vector(VKATTN_F32, 16), table = matrix(VKATTN_F32, 4, 8);
        projection = vkattn::projection(rows, matrix(VKATTN_F32, 16, 16), rows);
        projection.bias = row;
        projection.residual = rows;
        norm = layerNorm(rows, rows);
        norm.residual = norm.sum = rows;
        norm.gamma = norm.beta = row;
        rotary = vkattn::rotary(rows, table, table, rows);
        append = vkattn::append(rows, rows);
        append.presentRoles = VKATTN_PRESENT(VKATTN_STARTS);
        advance = vkattn::advance(vector(VKATTN_BITS32, 128), vector(VKATTN_BITS32, 128));
        mean = vkattn::mean(packed(VKATTN_F32, 1, 4, 4, 8), matrix(VKATTN_F32, 4, 8));
        merge = vkattn::merge(2, packed(VKATTN_F32, 2, 1, 4, 16), packed(VKATTN_F32, 2, 1, 4, 1), matrix(VKATTN_F32, 4, 16));
        merge.lse = matrix(VKATTN_F32, 4, 1);
        hadamard = vkattn::hadamard(rows, rows);
        keep = vkattn::keep(0.5, 1, 2, 40, matrix(VKATTN_BITS32, 64, 2));
        normGradient = vkattn::normGradient(VKATTN_LAYER_NORM, rows, {}, rows, rows);
        drop = vkattn::drop(0.5, 1, 2, rows, rows);
        drop.residual = rows;
        attention = problem(rows, rows, rows, rows);
        forward = attention;
        forward.flags = VKATTN_ROW_STATISTICS;
        forward.lse = matrix(VKATTN_F32, 8, 2);
        gradient = attentionGradient(forward, rows);
        gradient.dQ = gradient.dK = gradient.dV = rows;
        statistics = attentionStatistics(attention);
        statistics.statistics = matrix(VKATTN_F32, 8, VKATTN_STATISTIC_COUNT);
        statistics.received = matrix(VKATTN_F32, 8, 1);
        statistics.topWeights = matrix(VKATTN_F32, 8, 3);
        statistics.topKeys = matrix(VKATTN_BITS32, 8, 3);
    }

    // Binds every role of the operation apart from the others.
    void choose(const vkattn_operation &chosen) {
        operation = chosen;
        bindings.clear();
        for (uint32_t n = 0; n < VKATTN_ROLE_LIMIT; ++n)
            if (const uint64_t bytes = vkattnOperationBytes(&operation, static_cast<vkattn_role>(n)))
                bindings.push_back({static_cast<vkattn_role>(n), operandBuffer, room * n, bytes});
    }
    vkattn_binding &of(vkattn_role role) {
        for (vkattn_binding &binding : bindings)
            if (binding.role == role) return binding;
        ADD_FAILURE() << "role " << role << " is not bound";
        return bindings[0];
    }
    vkattn_result create() {
        vkattn_host host = vulkan.host();
        host.capsLimit = limit;
        return context.create(host, &why);
    }
    vkattn_context created() {
        EXPECT_EQ(create(), VKATTN_OK) << why.message;
        return context.handle();
    }
    vkattn_result record() {
        if (!context.handle())
            if (const auto r = create()) return r;
        if (const auto r = context.prewarm({&operation, 1}, &why)) return r;
        why = {};
        return context.record(operation, commands.handle(), bindings, VK_NULL_HANDLE, &why);
    }
    // The workspace; by default of a device that has four buffers.
    uint64_t bindWorkspace(bool fourBuffers = true) {
        if (fourBuffers) limit = &weak;
        weak.pushDescriptors = 1;
        EXPECT_EQ(create(), VKATTN_OK) << why.message;
        vkattn_requirements needs{};
        EXPECT_EQ(context.query(operation, needs, &why), VKATTN_OK) << why.message;
        EXPECT_GT(needs.workspaceBytes, 0u);
        bindings.push_back({VKATTN_WORKSPACE, operandBuffer, room * VKATTN_WORKSPACE, needs.workspaceBytes});
        return needs.workspaceBytes;
    }
    // Binds one role to the memory of another.
    vkattn_result recordOnto(vkattn_role role, vkattn_role memory, uint64_t bytesBehind = 0) {
        of(role).offset = of(memory).offset + bytesBehind;
        return record();
    }
};

} // namespace vkattn::test
