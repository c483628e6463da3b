// Plans of gradients without a device: every dispatch within the limits and within what is bound,
// every pipeline announced, and chunks in the order of rows, so that sums go on where they stopped.
#include "conform/cases/hooks/hooks.hpp"
#include "core/gradient/gradient_plan.hpp"
#include "core/kernels/flash.hpp"
#include "support/plan_checks.hpp"
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

// Of what matrix units take.
Asked ofHalves(Asked a, vkattn_dtype type = VKATTN_F16) {
    a.forward.q.dtype = a.forward.k.dtype = a.forward.v.dtype = a.gradient.dOut.dtype = type;
    return a;
}

std::vector<Asked> gradients() {
    std::vector<Asked> list;
    list.push_back(ask("plain", 2, 6, 2, 70, 90, 64, 48));
    list.push_back(ask("one query", 3, 4, 4, 1, 500, 16, 16));
    list.push_back(ofHalves(ask("halves", 2, 6, 2, 70, 90, 64, 48)));
    list.push_back(ofHalves(ask("halves with arrays", 2, 6, 2, 70, 90, 65, 33)));
    list.back().forward.softcap = 3;
    list.back().gradient.presentRoles =
        VKATTN_PRESENT(VKATTN_D_SCALE) | VKATTN_PRESENT(VKATTN_D_SOFTCAP) | VKATTN_PRESENT(VKATTN_NONFINITE);
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

// Of a device with matrix units too.
PlanLimits withMatrices(PlanLimits limits) {
    Caps &caps = limits.caps;
    caps.maxWorkgroupInvocations = caps.maxWorkgroupSize[0] = 1024;
    caps.maxSharedMemoryBytes = 49152;
    caps.fullSubgroups = 1;
    caps.minSubgroupSize = caps.maxSubgroupSize = 32;
    caps.maxWorkgroupSubgroups = 32;
    caps.matrixShapeCount = 1;
    caps.matrixShapes[0] = {16, 16, 16, VKATTN_F16};
    limits.tuning = flashTuning(caps);
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
            const std::pair<PlanLimits, const char *> devices[] = {{limitsOf(range, workspace), ""},
                                                                   {limitsOf(range, workspace, true), ", fused"},
                                                                   {withMatrices(limitsOf(range, workspace, true)), ", matrix units"}};
            for (const auto &[limits, device] : devices)
                for (const uint32_t slices : {0u, 3u, 64u}) {
                    a.forward.sliceCount = slices;
                    visit(planOf(a, limits), limits,
                          a.name + ", range " + std::to_string(range) + ", workspace " + std::to_string(workspace) + device + ", " +
                              std::to_string(slices) + " slices");
                }
        }
}

} // namespace

TEST(GradientPlan, dispatchesStayWithinLimitsAndBindings) {
    eachPlan([](const GradientPlan &plan, const PlanLimits &limits, const std::string &name) {
        ASSERT_NO_FATAL_FAILURE(expectWithinLimitsAndBindings(plan, limits, name));
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
    EXPECT_GT(cut, 30u);
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

// Every dispatch is in one slice, in order, and the whole workspace is kept between slices.
TEST(GradientPlan, slicesCoverThePlanOnceAndInOrder) {
    uint32_t busy = 0;
    eachPlan([&](const GradientPlan &plan, const PlanLimits &limits, const std::string &name) {
        uint32_t withWork = 0;
        ASSERT_NO_FATAL_FAILURE(expectSlicesCoverOnceAndInOrder(plan, name, withWork));
        EXPECT_LE(withWork, mostSlices(plan, limits)) << name;
        EXPECT_EQ(persistentWorkspaceBytes(plan), plan.slices > 1 ? plan.workspaceBytes : 0) << name;
        busy += plan.slices > 1 && withWork == plan.slices ? 1 : 0;
    });
    EXPECT_GT(busy, 40u);
}

// No slice has much more than its share, whether heads are cut or, where there is one, what a pass owns.
TEST(GradientPlan, slicesAreNearlyEven) {
    const auto largest = [](Asked a, const PlanLimits &limits, uint32_t slices) {
        a.forward.sliceCount = slices;
        const GradientPlan plan = planOf(a, limits);
        EXPECT_GE(mostSlices(plan, limits), 2 * slices) << a.name;
        vkattn_explanation explanation;
        explainGradient(plan, limits, explanation);
        EXPECT_EQ(explanation.sliceCount, slices);
        EXPECT_DOUBLE_EQ(explanation.largestSlice, largestShare(sliceUnits(plan)));
        return explanation.largestSlice * slices;
    };
    for (const bool causal : {false, true})
        for (const uint32_t heads : {1u, 8u})
            for (const uint32_t slices : {2u, 5u, 16u}) {
                Asked a = ask(std::to_string(heads) + " heads", 1, heads, heads, 2048, 2048, 64, 64);
                if (causal) a.forward.flags |= VKATTN_CAUSAL;
                EXPECT_LE(largest(a, limitsOf(1u << 30, 1u << 28), slices), causal ? 2.05 : 1.5) << a.name << slices;
                EXPECT_LE(largest(a, limitsOf(1u << 30, 1u << 28, true), slices), causal ? 2.05 : 1.5) << a.name << slices;
                EXPECT_LE(largest(ofHalves(a), withMatrices(limitsOf(1u << 30, 1u << 28, true)), slices), causal ? 2.05 : 1.5)
                    << a.name << slices;
            }
    // As many as anyone asks for: no overflow, no hang.
    for (const bool fused : {false, true}) {
        Asked many = ask("many", 2, 6, 2, 70, 90, 64, 48);
        many.forward.sliceCount = UINT32_MAX;
        const PlanLimits limits = limitsOf(1u << 27, 1u << 26, fused);
        const GradientPlan plan = planOf(many, limits);
        EXPECT_GT(mostSlices(plan, limits), 4u);
        EXPECT_EQ(plan.dispatchesOfSlice(UINT32_MAX - 1).last, plan.dispatchCount);
    }
}

// The parts of a pass own all rows, and all keys, once.
TEST(GradientPlan, partsOfAPassOwnEverythingOnce) {
    uint32_t cut = 0;
    eachPlan([&](const GradientPlan &plan, const PlanLimits &, const std::string &name) {
        uint32_t next = 0;
        Module last = Module::rowFacts;
        for (uint32_t n = 0; n < plan.dispatchCount; ++n) {
            const Dispatch d = plan.type->dispatch(plan, n);
            const bool rows = d.key.module == Module::gradientRows || d.key.module == Module::gradientRowsCoopmatF16;
            const bool keys = d.key.module == Module::gradientKeys || d.key.module == Module::gradientKeysCoopmatF16;
            if (!rows && !keys) continue;
            GradientPush push;
            std::memcpy(&push, d.pushWords, sizeof push);
            EXPECT_TRUE(d.barrierBefore) << name << ": dQ, dK and dV may be columns of one matrix";
            if (push.ownedFirst == 0) next = 0; // another pass
            EXPECT_TRUE(push.ownedFirst == 0 || d.key.module == last) << name;
            last = d.key.module;
            EXPECT_EQ(push.ownedFirst, next) << name;
            const PassTile &tile = keys ? plan.tiles.keys.tile : plan.tiles.rows.tile;
            next += d.groups[0] * tile.owned();
            const uint32_t all = keys ? push.keys : push.queries;
            const bool goesOn = next < all && n + 1 < plan.dispatchCount && plan.type->dispatch(plan, n + 1).key.module == d.key.module;
            EXPECT_TRUE(goesOn || (next >= all && next < all + tile.owned())) << name << ": " << next << " of " << all;
            cut += push.ownedFirst > 0 ? 1 : 0;
        }
    });
    EXPECT_GT(cut, 20u);
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
    PlanLimits narrow = older;
    narrow.caps.subgroupSize = 4;
    const Asked small = ask("small", 2, 6, 2, 70, 90, 64, 48), large = ask("large", 1, 1, 1, 8, 8, 257, 8);
    EXPECT_EQ(chosen(small, plain), VKATTN_GRADIENT_STAGED);
    EXPECT_EQ(chosen(small, fused), VKATTN_GRADIENT_TILES);
    EXPECT_EQ(chosen(small, cpu), VKATTN_GRADIENT_TILES);
    EXPECT_EQ(chosen(small, older), VKATTN_GRADIENT_TILES);
    EXPECT_EQ(chosen(small, narrow), VKATTN_GRADIENT_STAGED);
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

// The staged kernel asks hooks of scores and probabilities where P and dS are made: they take neither
// dispatches nor memory of their own. Tiles leave these problems to AUTO for dBias and dWeights.
TEST(GradientPlan, hooksOfScoresAreAskedWherePIsMade) {
    using conform::Hooks;
    constexpr uint32_t score = termScoreHook, probability = termProbabilityHook;
    const PlanLimits limits = limitsOf(1u << 27, 1u << 26, true);
    const auto asked = [](Hooks hooks) {
        Asked a = ask("hooks", 2, 6, 2, 70, 90, 65, 33);
        addEverything(a, {2, 6, 70, 90});
        a.forward.program = conform::programOf(hooks);
        if (a.forward.program) a.forward.programBufferWords[0] = conform::hookNumbers;
        return a;
    };
    Asked none = asked(Hooks::none);
    const GradientPlan plain = planOf(none, limits);
    for (const auto &[hooks, hides, ofDeltas] : {std::tuple{Hooks::visible, true, 0u},
                                                 {Hooks::score, false, score},
                                                 {Hooks::both, true, score},
                                                 {Hooks::probability, false, probability},
                                                 {Hooks::all, true, score | probability}}) {
        Asked a = asked(hooks);
        const GradientPlan plan = planOf(a, limits);
        ASSERT_EQ(plan.kernel->id, VKATTN_GRADIENT_STAGED);
        ASSERT_NO_FATAL_FAILURE(expectWithinLimitsAndBindings(plan, limits, a.name));
        EXPECT_EQ(plan.at.end - plan.at.scores, plain.at.end - plain.at.scores);
        EXPECT_EQ(plan.dispatchCount - plan.forward.setUpDispatches,
                  plain.dispatchCount - plain.forward.setUpDispatches + (hides ? plan.rowChunks() * plan.forward.keyChunks : 0));
        uint32_t hiding = 0;
        for (uint32_t n = 0; n < plan.dispatchCount; ++n) {
            const PipelineKey key = plan.type->dispatch(plan, n).key;
            const uint32_t terms = key.constants[constantPairTerms] & termsOfHooks;
            if (key.module == Module::pairs && terms) ++hiding;
            EXPECT_EQ(terms, key.module == Module::pairDeltas       ? ofDeltas
                             : key.module == Module::pairs && terms ? uint32_t{termVisibleHook}
                                                                    : 0u);
            EXPECT_EQ(key.program != nullptr, terms != 0) << infoOf(key.module).name;
        }
        EXPECT_EQ(hiding, hides ? plan.rowChunks() * plan.forward.keyChunks : 0);
    }
}

// What of a workgroup shaders/gradient/matrices.glsl relies on, written down a second time.
void expectWhatTheShaderNeeds(const GradientPlan &plan, const Caps &caps) {
    for (const GradientPass *pass : {&plan.tiles.rows, &plan.tiles.keys}) {
        const MatrixShape &m = pass->matrix;
        const uint32_t rows = m.m * m.rowBlocks, parts = std::max(m.subgroupLanes / rows, 1u);
        EXPECT_EQ(m.tileKeys % (8 * parts), 0u);
        EXPECT_EQ(m.tileKeys % m.n + m.tileKeys % m.k + m.paddedDim % m.n + m.paddedDim % m.k + m.paddedValueDim % m.n +
                      m.paddedValueDim % m.k,
                  0u);
        EXPECT_LE(m.n / 4, m.tileKeys / 8); // room for a wide matrix behind dz
        EXPECT_GE(m.paddedDim, plan.problem().headDim);
        EXPECT_GE(m.paddedValueDim, plan.problem().valueDim);
        EXPECT_LE(pass->tile.invocations(), caps.maxWorkgroupInvocations);
        EXPECT_EQ(pass->tile.owned(), m.subgroups * rows);
        const uint32_t owned = m.ownedShared ? pass->tile.owned() : 0;
        const uint32_t pieces =
            (m.tileKeys + owned) * (m.paddedDim / 8 + m.paddedValueDim / 8 + 3) + m.subgroups * rows * (m.tileKeys / 2 + 1);
        EXPECT_LE(pieces * 16, caps.maxSharedMemoryBytes);
    }
}

// AUTO takes matrix units where the forward pass would, and what is asked for by name is refused with
// the reason.
TEST(GradientPlan, matricesAreTakenWhereForwardTakesThem) {
    if (!shaderFor(Module::gradientRowsCoopmatF16).built()) GTEST_SKIP() << "the shader compiler lacked GL_KHR_cooperative_matrix";
    const PlanLimits limits = withMatrices(limitsOf(1u << 27, 1u << 26, true));
    const auto chosen = [](Asked a, const PlanLimits &by) { return planOf(a, by).kernel->id; };
    const Asked halves = ofHalves(ask("halves", 2, 6, 2, 70, 90, 64, 48)), few = ofHalves(ask("few", 1, 2, 2, 4, 90, 64, 64));
    EXPECT_EQ(chosen(halves, limits), VKATTN_GRADIENT_COOPMAT);
    EXPECT_EQ(chosen(few, limits), VKATTN_GRADIENT_TILES);
    EXPECT_EQ(chosen(ask("f32", 2, 6, 2, 70, 90, 64, 48), limits), VKATTN_GRADIENT_TILES);
    for (const bool slow : {false, true}) {
        PlanLimits judged = limits;
        (slow ? judged.caps.slowKernels : judged.caps.wrongKernels) = 1u << VKATTN_KERNEL_FLASH_COOPMAT;
        EXPECT_EQ(chosen(halves, judged), VKATTN_GRADIENT_TILES) << slow;
    }
    PlanLimits cpu = limits;
    cpu.caps.deviceType = VK_PHYSICAL_DEVICE_TYPE_CPU;
    cpu.caps.subgroupSize = 8;
    cpu.tuning = flashTuning(cpu.caps);
    EXPECT_EQ(chosen(halves, cpu), VKATTN_GRADIENT_TILES); // loops of its driver

    const auto planned = [](Asked a, const PlanLimits &by) {
        a.gradient.kernel = VKATTN_GRADIENT_COOPMAT;
        return planOf(a, by);
    };
    uint32_t shapes = 0;
    for (const uint32_t dim : {1u, 8u, 40u, 64u, 100u, 128u})
        for (const uint32_t lanes : {8u, 16u, 32u, 64u})
            for (const vkattn_matrix_shape &shape :
                 {vkattn_matrix_shape{8, 8, 8, VKATTN_F16}, {16, 8, 16, VKATTN_F16}, {16, 16, 32, VKATTN_F16}}) {
                if (shape.m == 8 && lanes == 64) continue; // 8 lanes would share a row of 8 items each
                PlanLimits other = limits;
                other.caps.subgroupSize = other.caps.minSubgroupSize = other.caps.maxSubgroupSize = lanes;
                other.caps.matrixShapes[0] = shape;
                other.caps.maxSharedMemoryBytes = 65536;
                expectWhatTheShaderNeeds(planned(ofHalves(ask("dims", 1, 2, 1, 70, 90, dim, dim)), other), other.caps);
                ++shapes;
            }
    EXPECT_EQ(shapes, 66u);
    const GradientPlan plan = planned(halves, limits);
    EXPECT_EQ(plan.rounding().unit, 0x1p-11f);
    EXPECT_EQ(plan.rounding().floor, 0x1p-36f);
    vkattn_explanation explanation;
    explainGradient(plan, limits, explanation);
    EXPECT_STREQ(explanation.kernelName, "coopmat gradient");
    EXPECT_NE(std::string(explanation.form).find("matrix units"), std::string::npos);
    EXPECT_EQ(explanation.probabilityUnit, 0x1p-11f);
    PlanLimits large = limits;
    large.caps.maxSharedMemoryBytes = 49152; // operands and sums of more than 64 dims do not fit registers
    for (const uint32_t dim : {64u, 65u, 128u, 129u}) {
        explainGradient(planned(ofHalves(ask("dims", 1, 2, 1, 70, 90, dim, 8)), large), large, explanation);
        EXPECT_EQ(std::string(explanation.form).find("shared memory") != std::string::npos, dim > 64 && dim <= 128) << dim;
    }

    const auto refused = [](Asked a, const PlanLimits &by) {
        a.gradient.forward = &a.forward;
        a.gradient.kernel = VKATTN_GRADIENT_COOPMAT;
        Gradient gradient;
        GradientPlan out{};
        vkattn_diagnostic why{};
        EXPECT_EQ(makeGradient(&a.gradient, gradient, &why), VKATTN_OK) << why.message;
        EXPECT_EQ(planGradient(gradient, by, out, &why), VKATTN_ERROR_UNSUPPORTED);
        return std::string(why.message);
    };
    const auto contains = [](const std::string &text, const char *part) { return text.find(part) != std::string::npos; };
    Asked mixed = halves;
    mixed.gradient.dOut.dtype = VKATTN_F32;
    EXPECT_TRUE(contains(refused(mixed, limits), "all f16 or all bf16"));
    EXPECT_TRUE(contains(refused(ofHalves(halves, VKATTN_BF16), limits), "bf16"));
    EXPECT_TRUE(contains(refused(ofHalves(ask("large", 1, 1, 1, 8, 8, 257, 8)), limits), "up to 256"));
    EXPECT_TRUE(contains(refused(halves, limitsOf(1u << 27, 1u << 26, true)), "no matrix units"));
    PlanLimits small = limits;
    small.caps.maxSharedMemoryBytes = 4096;
    EXPECT_TRUE(contains(refused(halves, small), "shared memory"));
    PlanLimits wrong = limits;
    wrong.caps.wrongKernels = 1u << VKATTN_KERNEL_FLASH_COOPMAT;
    EXPECT_TRUE(contains(refused(halves, wrong), "self-test"));
    EXPECT_TRUE(contains(refused(ofHalves(ask("many rows", 1, 64, 1, 32768, 8, 8, 8)), limits), "would loop"));
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
