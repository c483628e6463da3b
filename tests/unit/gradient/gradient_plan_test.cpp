// Plans of gradients without a device: every dispatch within the limits and within what is bound,
// every pipeline announced, and chunks in the order of rows, so that sums go on where they stopped.
#include "core/gradient/gradient_plan.hpp"
#include "vkattn/vkattn.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <gtest/gtest.h>
#include <map>

using namespace vkattn;

namespace {

struct Asked {
    std::string name;
    vkattn_problem forward{};
    vkattn_attention_gradient gradient{};
};

Asked ask(std::string name, uint32_t batch, uint32_t heads, uint32_t kvHeads, uint32_t queries, uint32_t keys, uint32_t headDim,
          uint32_t valueDim) {
    Asked a{std::move(name)};
    a.forward = problem(packed(VKATTN_F32, batch, heads, queries, headDim), packed(VKATTN_F32, batch, kvHeads, keys, headDim),
                        packed(VKATTN_F32, batch, kvHeads, keys, valueDim), packed(VKATTN_F32, batch, heads, queries, valueDim));
    a.forward.flags = VKATTN_ROW_STATISTICS;
    a.forward.lse = packed(VKATTN_F32, batch, heads, queries, 2);
    a.gradient = attentionGradient(a.forward, a.forward.out);
    a.gradient.dQ = a.forward.q, a.gradient.dK = a.forward.k, a.gradient.dV = a.forward.v;
    a.gradient.dK.dtype = a.gradient.dV.dtype = VKATTN_BF16;
    return a;
}
void addEverything(Asked &a, const uint32_t (&bias)[4]) {
    const uint32_t *const q = a.forward.q.extent, keys = a.forward.k.extent[2];
    a.forward.softcap = 3;
    a.forward.presentRoles = VKATTN_PRESENT(VKATTN_SINKS) | VKATTN_PRESENT(VKATTN_ALIBI_SLOPES);
    a.forward.bias = packed(VKATTN_F16, bias[0], bias[1], bias[2], bias[3]);
    a.gradient.dBias = a.forward.bias;
    a.gradient.dLse = packed(VKATTN_F32, q[0], q[1], q[2], 1);
    a.gradient.dWeights = packed(VKATTN_BF16, q[0], q[1], q[2], keys);
    a.gradient.presentRoles = VKATTN_PRESENT(VKATTN_D_SINKS) | VKATTN_PRESENT(VKATTN_D_SLOPES) | VKATTN_PRESENT(VKATTN_D_SCALE) |
                              VKATTN_PRESENT(VKATTN_D_SOFTCAP) | VKATTN_PRESENT(VKATTN_NONFINITE);
}

std::vector<Asked> gradients() {
    std::vector<Asked> list;
    list.push_back(ask("plain", 2, 6, 2, 70, 90, 64, 48));
    list.push_back(ask("one query", 3, 4, 4, 1, 500, 16, 16));
    list.push_back(ask("no queries", 2, 4, 2, 0, 30, 8, 8));
    list.push_back(ask("no keys", 2, 4, 2, 30, 0, 8, 8));
    for (const auto &bias : {std::array<uint32_t, 4>{2, 6, 70, 90}, {1, 6, 1, 90}, {2, 1, 70, 1}, {1, 1, 1, 1}}) {
        list.push_back(ask("everything, bias " + std::to_string(bias[0]) + std::to_string(bias[3]), 2, 6, 2, 70, 90, 65, 33));
        addEverything(list.back(), {bias[0], bias[1], bias[2], bias[3]});
    }
    list.push_back(ask("everything without queries", 2, 4, 2, 0, 30, 8, 8));
    addEverything(list.back(), {1, 4, 1, 30});
    list.push_back(ask("everything without keys", 2, 4, 2, 30, 0, 8, 8));
    addEverything(list.back(), {1, 4, 1, 1});
    for (Asked &a : list) a.gradient.forward = nullptr; // set where the copy has come to rest
    return list;
}

// `fused`: of a device that has what the tiled kernel needs.
PlanLimits limitsOf(uint32_t range, uint64_t workspace, bool fused = false) {
    PlanLimits limits{minimumCaps(), workspace, {}};
    limits.caps.maxStorageBufferRange = range;
    if (fused) {
        limits.caps.maxStorageBuffersPerStage = 16;
        limits.caps.subgroupSize = 32;
        limits.caps.subgroupShuffle = limits.caps.subgroupClustered = 1;
    }
    limits.tuning = flashTuning(limits.caps);
    return limits;
}

GradientPlan planOf(Asked &a, const PlanLimits &limits) {
    a.gradient.forward = &a.forward;
    Gradient gradient;
    vkattn_diagnostic why{};
    EXPECT_EQ(makeGradient(&a.gradient, gradient, &why), VKATTN_OK) << a.name << ": " << why.message;
    GradientPlan plan{};
    EXPECT_EQ(planGradient(gradient, limits, plan, &why), VKATTN_OK) << a.name << ": " << why.message;
    return plan;
}

template <class Visit> void eachPlan(const Visit &visit) {
    for (Asked &a : gradients())
        for (const auto &[range, workspace] :
             {std::pair{1u << 27, uint64_t{64} << 20}, {1u << 27, uint64_t{1} << 14}, {128u << 10, uint64_t{1} << 27}}) {
            for (const bool fused : {false, true}) {
                const PlanLimits limits = limitsOf(range, workspace, fused);
                const std::string name =
                    a.name + ", range " + std::to_string(range) + ", workspace " + std::to_string(workspace) + (fused ? ", fused" : "");
                visit(planOf(a, limits), limits, name);
            }
        }
}

} // namespace

TEST(GradientPlan, dispatchesStayWithinLimitsAndBindings) {
    eachPlan([](const GradientPlan &plan, const PlanLimits &limits, const std::string &name) {
        BoundOperand bound[maxBoundOperands];
        const uint32_t count = plan.type->operands(plan, bound);
        const PipelineSet announced = plan.type->pipelines(plan);
        uint64_t descriptors = 0;
        for (uint32_t n = 0; n < plan.dispatchCount; ++n) {
            Dispatch d = plan.type->dispatch(plan, n);
            ASSERT_TRUE(announced.contains(d.key)) << name << ", dispatch " << n << ": " << infoOf(d.key.module).name;
            descriptors += d.operandCount;
            for (int axis = 0; axis < 3; ++axis) {
                EXPECT_GT(d.groups[axis], 0u) << name << ": " << infoOf(d.key.module).name;
                EXPECT_LE(d.groups[axis], limits.caps.maxWorkgroupCount[axis]) << name;
            }
            EXPECT_LE(d.key.constants[0], limits.caps.maxWorkgroupInvocations);
            ASSERT_EQ(d.operandCount, infoOf(d.key.module).slots);
            EXPECT_LE(d.operandCount, limits.caps.maxStorageBuffersPerStage);
            for (uint32_t o = 0; o < d.operandCount; ++o) {
                const Operand &operand = d.operands[o];
                ByteRange all{0, plan.workspaceBytes};
                bool output = true;
                if (operand.role != VKATTN_WORKSPACE) {
                    const auto *const found =
                        std::find_if(bound, bound + count, [&](const BoundOperand &b) { return b.role == operand.role; });
                    ASSERT_NE(found, bound + count) << name << ", role " << operand.role << " in " << infoOf(d.key.module).name;
                    all = found->bytes, output = found->output;
                    EXPECT_GT(all.size(), 0u) << name << ", role " << operand.role << " is empty";
                }
                EXPECT_GE(operand.beginBytes, all.begin) << name << ", role " << operand.role << " in " << infoOf(d.key.module).name;
                EXPECT_LE(operand.endBytes, all.end) << name << ", role " << operand.role << " in " << infoOf(d.key.module).name;
                EXPECT_TRUE(output || !operand.writes) << name << ", role " << operand.role;
                const DescriptorRange range = placeOperand(operand, 0, descriptorAlignment(limits.caps), d.pushWords);
                EXPECT_LE(range.size, limits.caps.maxStorageBufferRange) << name << ", role " << operand.role;
                EXPECT_TRUE(operand.basePushWord == noPushWord || operand.basePushWord * 4 < d.pushBytes) << name;
            }
        }
        EXPECT_EQ(descriptors, plan.type->storageDescriptorCount(plan)) << name;
        EXPECT_LT(announced.size(), PipelineSet::capacity) << name;
    });
}

// So that a sum over rows goes on from chunk to chunk in the order that it has in one chunk.
TEST(GradientPlan, chunksAreRunsOfRows) {
    uint32_t cut = 0;
    eachPlan([&](const GradientPlan &plan, const PlanLimits &, const std::string &name) {
        const Problem &p = plan.problem();
        uint64_t next = 0; // row in the order of batch, head and query
        for (uint32_t n = 0; n < plan.rowChunks(); ++n) {
            const Chunk c = rowsOfChunk(plan.forward, n);
            EXPECT_EQ((uint64_t{c.batchFirst} * p.heads + c.headFirst) * p.queryTokens + c.queryFirst, next) << name << ", chunk " << n;
            EXPECT_TRUE(c.batches <= 1 || c.heads == p.heads) << name;
            EXPECT_TRUE(uint64_t{c.batches} * c.heads <= 1 || c.queries == p.queryTokens) << name;
            next += uint64_t{c.batches} * c.heads * c.queries;
        }
        EXPECT_EQ(next, uint64_t{p.batch} * p.heads * p.queryTokens) << name;
        cut += plan.rowChunks() > 1;
    });
    EXPECT_GT(cut, 10u);
}

// What a chunk leaves for the next one lies where that one looks, and elsewhere than what the chunk
// itself goes on with.
TEST(GradientPlan, sumsOfKeysWaitInTwoPlacesInTurn) {
    uint32_t seen = 0;
    eachPlan([&](const GradientPlan &plan, const PlanLimits &, const std::string &name) {
        if (plan.rowChunks() < 2 || plan.at.keySums == plan.at.end) return;
        std::map<vkattn_role, uint32_t> waiting;
        std::map<vkattn_role, uint32_t> chunkOf;
        for (uint32_t n = 0; n < plan.dispatchCount; ++n) {
            const Dispatch d = plan.type->dispatch(plan, n);
            if (d.key.module != Module::columns) continue;
            ColumnsPush push;
            std::memcpy(&push, d.pushWords, sizeof push);
            if (push.keyFirst != 0) continue; // one dispatch for each chunk of rows
            const vkattn_role role = d.operands[slotSecond].role;
            EXPECT_NE(push.sumsFrom, push.sumsTo) << name;
            EXPECT_TRUE(chunkOf[role]++ == 0 || push.sumsFrom == waiting[role]) << name;
            waiting[role] = push.sumsTo;
            ++seen;
        }
    });
    EXPECT_GT(seen, 10u);
}

// AUTO takes tiles where the device has what they need and the problem asks for nothing that they lack,
// and what is asked for by name is refused with the reason.
TEST(GradientPlan, tilesAreTakenWhereTheyCan) {
    const auto chosen = [](Asked a, const PlanLimits &limits) { return planOf(a, limits).kernel->id; };
    const PlanLimits plain = limitsOf(1u << 27, 1u << 26), fused = limitsOf(1u << 27, 1u << 26, true);
    PlanLimits cpu = fused;
    cpu.caps.deviceType = VK_PHYSICAL_DEVICE_TYPE_CPU;
    cpu.caps.subgroupSize = 8;
    PlanLimits older = cpu;
    older.caps.subgroupClustered = 0;
    const Asked small = ask("small", 2, 6, 2, 70, 90, 64, 48), large = ask("large", 1, 1, 1, 8, 8, 257, 8);
    EXPECT_EQ(chosen(small, plain), VKATTN_GRADIENT_STAGED);
    EXPECT_EQ(chosen(small, fused), VKATTN_GRADIENT_TILES);
    EXPECT_EQ(chosen(small, cpu), VKATTN_GRADIENT_TILES);
    EXPECT_EQ(chosen(small, older), VKATTN_GRADIENT_STAGED);
    EXPECT_EQ(chosen(large, fused), VKATTN_GRADIENT_STAGED);

    const auto refused = [](Asked a, const PlanLimits &limits) {
        a.gradient.forward = &a.forward;
        a.gradient.kernel = VKATTN_GRADIENT_TILES;
        Gradient gradient;
        GradientPlan plan{};
        vkattn_diagnostic why{};
        EXPECT_EQ(makeGradient(&a.gradient, gradient, &why), VKATTN_OK) << why.message;
        EXPECT_EQ(planGradient(gradient, limits, plan, &why), VKATTN_ERROR_UNSUPPORTED);
        return std::string(why.message);
    };
    EXPECT_NE(refused(small, plain).find("14 storage buffers"), std::string::npos);
    EXPECT_NE(refused(large, fused).find("up to 256"), std::string::npos);
    EXPECT_NE(refused(ask("no keys", 1, 1, 1, 8, 0, 8, 8), fused).find("needs queries and keys"), std::string::npos);
    EXPECT_NE(refused(ask("many rows", 1, 64, 1, 4096, 8, 8, 8), fused).find("would loop"), std::string::npos);
    Asked weights = ask("weights", 1, 1, 1, 8, 8, 8, 8), bias = weights;
    weights.gradient.dWeights = packed(VKATTN_F32, 1, 1, 8, 8);
    bias.forward.bias = bias.gradient.dBias = packed(VKATTN_F32, 1, 1, 8, 8);
    EXPECT_NE(refused(weights, fused).find("dWeights"), std::string::npos);
    EXPECT_NE(refused(bias, fused).find("dBias"), std::string::npos);
    EXPECT_NE(refused(small, limitsOf(1u << 27, 1u << 10, true)).find("workspace of 1024 bytes"), std::string::npos);
}

TEST(GradientPlan, saysWhichKernelsThereAre) {
    Asked a = ask("plain", 1, 1, 1, 4, 4, 8, 8);
    a.gradient.forward = &a.forward;
    a.gradient.kernel = static_cast<vkattn_gradient_kernel>(VKATTN_GRADIENT_COOPMAT);
    Gradient gradient;
    ASSERT_EQ(makeGradient(&a.gradient, gradient, nullptr), VKATTN_OK);
    GradientPlan plan{};
    vkattn_diagnostic why{};
    EXPECT_EQ(planGradient(gradient, limitsOf(1u << 27, 1u << 26), plan, &why), VKATTN_ERROR_UNSUPPORTED);
    EXPECT_NE(std::string(why.message).find("VKATTN_GRADIENT_STAGED"), std::string::npos) << why.message;
}
