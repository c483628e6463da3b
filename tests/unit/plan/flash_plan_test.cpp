// Plans of the flash and decode kernels without a device: every row meets every key once, each
// partial result is written once and merged, no dispatch leaves its limits, and what runs without a
// barrier between does not conflict.
#include "core/kernels/explain.hpp"
#include "core/kernels/flash.hpp"
#include "core/plan/kernel.hpp"
#include "core/plan/slices.hpp"
#include "core/shaders/shaders.hpp"
#include "lib/interop.h"
#include "support/case.hpp"
#include "unit/problem_of.hpp"

#include <cstring>
#include <gtest/gtest.h>
#include <span>

using namespace vkattn;
using namespace vkattn::test;

namespace {

constexpr const char *tiles[] = {
    "dimLanes=4 rowLanes=2 rowsPerLane=2 keysPerLane=2",
    "rowLanes=8 rowsPerLane=2 keysPerLane=2 source=1 tileKeys=8 rolledEdges=1",
    "rowLanes=8 rowsPerLane=2 source=2 subgroups=1",
    "rowLanes=8 keysPerLane=3",
    "keyLanes=8 rowsPerLane=2",
    "dimLanes=4 keyLanes=4 rowsPerLane=2 keysPerLane=2 subgroups=1",
    "subgroups=2 rowBlocks=1 tileKeys=16", // on matrix units
    "subgroups=1 rowBlocks=4 tileKeys=24",
};
bool onMatrixUnits(const char *tile) {
    return std::strstr(tile, "rowBlocks") != nullptr;
}
// Whether this build has the kernel (cmake/VkattnGlslc.cmake).
bool isBuilt(const char *tile) {
    if (!onMatrixUnits(tile) || shaderFor(Module::flashCoopmatF16).built()) return true;
    std::printf("left out: '%s', flash_coopmat is not in this build\n", tile);
    return false;
}

PlanLimits limitsOf(const char *tile, uint32_t range = 1u << 27, uint64_t workspace = 64 << 20, uint32_t groups = 65535,
                    uint32_t buffers = 16) {
    PlanLimits limits{minimumCaps(), workspace, {}};
    Caps &caps = limits.caps;
    caps.maxStorageBufferRange = range;
    caps.maxStorageBuffersPerStage = buffers;
    caps.subgroupSize = 8;
    caps.subgroupShuffle = 1;
    for (uint32_t &count : caps.maxWorkgroupCount) count = groups;
    limits.tuning = flashTuning(caps);
    const std::string row = std::string(" maxDim=512 ") + tile + "\n",
                      file = onMatrixUnits(tile) ? "vkattn-tuning 1\nflash_coopmat maxDim=256 " + std::string(tile) + "\n"
                                                 : "vkattn-tuning 1\nflash" + row + "decode" + row;
    if (onMatrixUnits(tile)) {
        caps.fullSubgroups = 1, caps.maxSharedMemoryBytes = 65536;
        caps.matrixShapeCount = 1, caps.matrixShapes[0] = {8, 8, 8, VKATTN_F16};
    }
    vkattn_diagnostic why{};
    const vkattn_result read = *tile ? readTuning(file.data(), file.size(), limits.tuning, &why) : VKATTN_OK;
    EXPECT_EQ(read, VKATTN_OK) << why.message;
    return limits;
}

template <class Push> Push pushOf(const Dispatch &d) {
    Push push;
    std::memcpy(&push, d.pushWords, sizeof push);
    return push;
}

bool isMain(const Dispatch &d) {
    return d.key.module >= Module::flashPlain;
}

bool writesParts(const Dispatch &d) {
    return isMain(d) || d.key.module == Module::prior;
}

// Parts of rows that a dispatch writes: [first, first + count).
struct Parts {
    uint32_t first, count;
};
Parts partsOf(const Plan &plan, const Dispatch &d) {
    if (!isMain(d)) return {0, 1};
    return {pushOf<interop::FlashPush>(d).partsAndFirst >> 16, d.groups[1] * plan.flash.tile.keyLanes};
}

bool conflict(const Plan &plan, const Dispatch &a, const Dispatch &b) {
    for (const Operand &x : std::span(a.operands, a.operandCount))
        for (const Operand &y : std::span(b.operands, b.operandCount)) {
            if (x.role != y.role || (!x.writes && !y.writes)) continue;
            if (x.beginBytes >= y.endBytes || y.beginBytes >= x.endBytes) continue;
            const bool partials = x.role == VKATTN_WORKSPACE && x.beginBytes >= plan.setUpBytes;
            if (!partials || !writesParts(a) || !writesParts(b)) return true;
            // Chunks of keys of the same rows.
            const Parts p = partsOf(plan, a), q = partsOf(plan, b);
            if (p.first < q.first + q.count && q.first < p.first + p.count) return true;
        }
    return false;
}

struct Coverage {
    // How often (b, h, i, j) is computed, and (b, h, i) merged or written.
    std::vector<uint32_t> pairs, rows;
    std::vector<uint32_t> parts; // of the chunk of rows so far
};

// Which batches and heads a dispatch has follows from its operands, whatever the chunk order.
void count(const Plan &plan, const Dispatch &d, Coverage &coverage) {
    const Problem &p = plan.problem;
    const bool combine = d.key.module == Module::combine;
    if (d.key.module == Module::prior) ++coverage.parts[0];
    if (!combine && !isMain(d)) return;
    const vkattn_role role = combine ? VKATTN_OUT : VKATTN_Q;
    const Operand &rows = d.operands[combine ? interop::slotOut : interop::slotQ], &lengths = d.operands[interop::slotLengths];
    const Tensor &t = p.tensor(role);
    // Whose beginning the form without options shares.
    const auto push = pushOf<interop::FlashPush>(d);
    const auto merged = pushOf<interop::CombinePush>(d);
    const uint32_t heads = combine ? merged.heads : push.headsAndPacked & 0xffff, packed = combine ? 1 : push.headsAndPacked >> 16;
    const uint32_t queryFirst = combine ? merged.queryFirst : push.queryFirst, queries = combine ? merged.queries : push.queries;
    const FlashTile &tile = plan.flash.tile;
    if (combine) {
        for (const uint32_t times : coverage.parts) ASSERT_EQ(times, 1u) << "a part is missing or written twice";
        coverage.parts.assign(plan.flash.parts, 0);
        EXPECT_EQ(merged.parts, plan.flash.parts);
        EXPECT_EQ(d.groups[0], queries);
        EXPECT_LE(merged.parts * (2ull + (p.valueDim + 2 * plan.flash.combineLanes - 1) / (2 * plan.flash.combineLanes)), 65000u);
    } else {
        ASSERT_GE(uint64_t{d.groups[0]} * tile.rows(), uint64_t{queries} * packed);
        if (const uint32_t across = plan.flash.patchColumns, down = plan.flash.patchRows; across) { // those at the border have fewer rows
            const uint32_t columns = p.rules.grid.extent[2], gridRows = std::min(p.rules.grid.extent[1], queries / columns);
            const uint32_t planes = queries / (gridRows * columns);
            ASSERT_EQ(d.groups[0], planes * ((gridRows + down - 1) / down) * ((columns + across - 1) / across));
        } else {
            ASSERT_LT((d.groups[0] - 1ull) * tile.rows(), uint64_t{queries} * packed);
        }
        const Segments &segments = p.segments;
        EXPECT_EQ((push.keyFirst - segments.first[segments.of(push.keyFirst)]) % tile.keyTile(), 0u);
        if (p.segmented()) {
            EXPECT_LE(push.keyFirst + push.keys, segments.first[segments.of(push.keyFirst) + 1]) << "a chunk crosses segments";
        }
        EXPECT_EQ(plan.flash.splitKeys % tile.keyTile(), 0u);
        EXPECT_LE(plan.flash.splitKeys / tile.step(), 65000u) << "loop iterations of flash/lanes.comp";
        if (plan.flash.parts) {
            const Parts parts = partsOf(plan, d);
            ASSERT_LE(parts.first + parts.count, plan.flash.parts);
            for (uint32_t n = 0; n < parts.count; ++n) ++coverage.parts[parts.first + n];
        } else {
            ASSERT_EQ(d.groups[1], 1u);
        }
    }
    for (uint32_t b = 0; b < p.batch; ++b)
        for (uint32_t h = 0; h < p.heads; ++h) {
            if (p.ragged() ? lengths.firstByte != 4ull * (interop::ruleHeaderWords + interop::sequenceWords * b) ||
                                 t.index(0, h, queryFirst, 0) * elementBytes(t.dtype) != rows.firstByte
                           : t.index(b, h, queryFirst, 0) * elementBytes(t.dtype) != rows.firstByte)
                continue;
            for (uint32_t z = 0; z < d.groups[2] * packed; ++z)
                for (uint32_t i = 0; i < queries; ++i) {
                    const size_t row = (size_t{b + z / heads} * p.heads + h + z % heads) * p.queryTokens + queryFirst + i;
                    if (combine || plan.flash.parts == 0) ++coverage.rows[row];
                    if (combine) continue;
                    ASSERT_EQ(d.groups[1], (push.keys + plan.flash.splitKeys - 1) / plan.flash.splitKeys);
                    for (uint32_t j = 0; j < push.keys; ++j) ++coverage.pairs[row * p.keyTokens + push.keyFirst + j];
                }
        }
}

void checkPlan(const Problem &p, const PlanLimits &limits, const Plan &plan, const std::string &name) {
    SCOPED_TRACE(name);
    const uint64_t alignment = limits.caps.minStorageBufferOffsetAlignment;
    Coverage coverage;
    const size_t rows = size_t{p.batch} * p.heads * p.queryTokens;
    coverage.pairs.resize(rows * p.keyTokens), coverage.rows.resize(rows), coverage.parts.resize(plan.flash.parts);
    std::vector<Dispatch> sinceBarrier;
    PipelineSet used;
    uint64_t descriptors = 0;
    for (uint32_t n = 0; n < plan.dispatchCount; ++n) {
        const Dispatch d = plan.dispatch(n);
        used.add(d.key);
        EXPECT_EQ(d.operandCount, infoOf(d.key.module).slots);
        EXPECT_LE(d.operandCount, limits.caps.maxStorageBuffersPerStage);
        descriptors += d.operandCount;
        for (int g = 0; g < 3; ++g) ASSERT_TRUE(d.groups[g] > 0 && d.groups[g] <= limits.caps.maxWorkgroupCount[g]) << n;
        EXPECT_LE(d.pushBytes, 128u);
        for (const Operand &o : std::span(d.operands, d.operandCount)) {
            ASSERT_LE(o.beginBytes, o.endBytes);
            ASSERT_LE(o.endBytes - o.beginBytes + (o.role == VKATTN_WORKSPACE ? 0 : alignment + 3), limits.caps.maxStorageBufferRange)
                << roleName(o.role);
            ASSERT_LE(o.endBytes, o.role == VKATTN_WORKSPACE ? plan.workspaceBytes : p.bytesNeeded(o.role)) << roleName(o.role);
            ASSERT_TRUE(o.role != VKATTN_WORKSPACE || o.beginBytes % 4 == 0);
            const bool indexed = o.role != VKATTN_WORKSPACE || o.basePushWord != noPushWord;
            ASSERT_TRUE(!indexed || (o.firstByte >= o.beginBytes && o.firstByte < o.endBytes)) << roleName(o.role);
        }
        if (d.barrierBefore) sinceBarrier.clear();
        for (const Dispatch &earlier : sinceBarrier) EXPECT_FALSE(conflict(plan, earlier, d)) << "dispatch " << n << " needs a barrier";
        sinceBarrier.push_back(d);
        count(plan, d, coverage);
        if (testing::Test::HasFatalFailure()) return;
    }
    for (const uint32_t times : coverage.pairs) ASSERT_EQ(times, 1u);
    for (const uint32_t times : coverage.rows) ASSERT_EQ(times, 1u);
    EXPECT_EQ(descriptors, plan.storageDescriptorCount());
    EXPECT_EQ(used.size(), plan.pipelines().size());
    for (const PipelineKey &key : plan.pipelines()) EXPECT_TRUE(used.contains(key));
}

vkattn_kernel kernelOf(const char *tile) {
    return std::strstr(tile, "keyLanes") ? VKATTN_KERNEL_DECODE : onMatrixUnits(tile) ? VKATTN_KERNEL_FLASH_COOPMAT : VKATTN_KERNEL_FLASH;
}

} // namespace

TEST(FlashPlan, everyCaseFitsEveryLimit) {
    Random random = randomFor("flash plan");
    uint32_t cut = 0, split = 0, ran = 0, sliced = 0;
    for (const Case &each : caseMatrix(random, false)) {
        // Which row a dispatch computes is told by where its query lies.
        if (each.sharedHeads) continue;
        Case c = each;
        c.writeNoPairs();
        if (c.keyTokens == 0) continue;
        const char *tile = tiles[random() % std::size(tiles)];
        if (!isBuilt(tile)) continue;
        c.kernel = kernelOf(tile);
        if (onMatrixUnits(tile)) {
            c.q = c.k = c.v = VKATTN_F16;
            c.hooks = withoutWeighing(c.hooks); // weights have 16 bits there
        }
        Problem p = problemOf(c);
        if (p.headDim > (onMatrixUnits(tile) ? 256 : 300) || p.keyTokens == 0) continue;
        constexpr uint32_t slicings[] = {1, 1, 3, 20};
        p.slices = slicings[random() % std::size(slicings)];
        sliced += p.slices > 1;
        for (const bool tight : {false, true}) {
            PlanLimits limits = tight ? limitsOf(tile, 16384 + 256 * between(random, 0, 64), 4096, 70) : limitsOf(tile);
            limits.tuning.minSplitKeys = 8, limits.tuning.fixedSplitKeys = 48;
            if (tight) limits.tuning.maxSplitKeys = 24;
            Plan plan;
            vkattn_diagnostic why{};
            const vkattn_result result = makePlan(p, limits, plan, &why);
            const bool tooLong = std::strstr(why.message, "spans") || std::strstr(why.message, "one query row needs");
            // One row, or its partial results.
            if (tight && result == VKATTN_ERROR_UNSUPPORTED && tooLong) continue;
            if (p.deterministic && (tight || p.segmented()) && result == VKATTN_ERROR_UNSUPPORTED) continue;
            ASSERT_EQ(result, VKATTN_OK) << c.name << " " << tile << ": " << why.message;
            EXPECT_EQ(plan.kernel->id, c.kernel);
            cut += plan.chunkCount() > 1, split += plan.flash.parts > plan.flash.tile.keyLanes, ++ran;
            checkPlan(p, limits, plan, c.name + (tight ? " tight " : " ") + tile);
            if (HasFatalFailure()) return;
        }
    }
    std::printf("%u plans, %u cut into chunks, %u with split keys; %u problems in slices\n", ran, cut, split, sliced);
    EXPECT_GT(cut, 60u);
    EXPECT_GT(sliced, 60u);
    EXPECT_GT(split, 60u);
}

TEST(FlashPlan, deterministicSplitsDependOnNothing) {
    for (const char *tile : tiles) {
        if (!isBuilt(tile)) continue;
        Case c;
        if (onMatrixUnits(tile)) c.q = c.k = c.v = VKATTN_F16;
        c.deterministic = true, c.kernel = kernelOf(tile), c.keyTokens = 5000, c.headDim = c.valueDim = 2;
        uint32_t expected = 0;
        for (const uint32_t batch : {1u, 40u}) {
            c.batch = batch;
            const Problem problem = problemOf(c); // fills tensors, which takes longer than planning
            for (const uint32_t range : {1u << 27, 1u << 16})
                for (const uint64_t workspace : {64ull << 20, 8192ull}) {
                    Plan plan;
                    vkattn_diagnostic why{};
                    ASSERT_EQ(makePlan(problem, limitsOf(tile, range, workspace), plan, &why), VKATTN_OK) << why.message;
                    if (!expected) expected = plan.flash.splitKeys;
                    EXPECT_EQ(plan.flash.splitKeys, expected) << tile;
                    EXPECT_GT(plan.flash.parts, 0u);
                    EXPECT_TRUE(plan.keyChunks == 1 || plan.chunkKeys % expected == 0) << tile;
                }
        }
    }
}

TEST(FlashPlan, workspaceOfALongPrefillIsSmall) {
    for (const uint32_t type : {VK_PHYSICAL_DEVICE_TYPE_CPU, VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU})
        for (const bool clustered : {false, true})
            for (const uint32_t dim : {64u, 128u, 256u})
                for (const uint32_t tokens : {32768u, 131072u})
                    for (const vkattn_dtype dtype : {VKATTN_F32, VKATTN_F16}) {
                        Case c;
                        c.batch = 1, c.heads = c.kvHeads = 8, c.queryTokens = c.keyTokens = 1, c.headDim = c.valueDim = dim;
                        c.causal = true, c.lse = true, c.k = c.v = dtype;
                        Problem p = problemOf(c); // no memory behind it
                        p.queryTokens = p.keyTokens = tokens;
                        for (const vkattn_role role : {VKATTN_Q, VKATTN_K, VKATTN_V, VKATTN_OUT, VKATTN_LSE}) {
                            Tensor &t = p.tensors[role];
                            t.extent[2] = tokens, t.stride[2] = t.extent[3], t.stride[1] = tokens * t.extent[3];
                            t.stride[0] = 8 * t.stride[1];
                        }
                        PlanLimits limits = limitsOf("", 1u << 31);
                        limits.caps.deviceType = type;
                        limits.caps.subgroupClustered = clustered;
                        limits.tuning = flashTuning(limits.caps);
                        Plan plan;
                        vkattn_diagnostic why{};
                        ASSERT_EQ(makePlan(p, limits, plan, &why), VKATTN_OK) << why.message;
                        EXPECT_EQ(plan.kernel->id, VKATTN_KERNEL_FLASH);
                        const uint64_t keysAndValues = p.bytesNeeded(VKATTN_K) + p.bytesNeeded(VKATTN_V);
                        EXPECT_LT(static_cast<double>(plan.workspaceBytes), 0.01 * static_cast<double>(keysAndValues))
                            << "type " << type << " clustered " << clustered << " dim " << dim << " tokens " << tokens;
                    }
}

// Shaders may loop 65,535 times and no more (plan.hpp).
TEST(FlashPlan, loopsAreBounded) {
    for (const char *tile : tiles)
        for (const bool deterministic : {false, true})
            for (const uint32_t keys : {100000u, 2000000u, 20000000u}) {
                if (!isBuilt(tile)) continue;
                Case c;
                if (onMatrixUnits(tile)) c.q = c.k = c.v = VKATTN_F16;
                c.kernel = kernelOf(tile), c.deterministic = deterministic, c.batch = 1, c.heads = c.kvHeads = 1;
                Problem p = problemOf(c);
                p.keyTokens = p.tensors[VKATTN_K].extent[2] = p.tensors[VKATTN_V].extent[2] = keys;
                // No memory behind it.
                p.tensors[VKATTN_K].stride[2] = p.tensors[VKATTN_V].stride[2] = 0;
                Plan plan;
                vkattn_diagnostic why{};
                const PlanLimits limits = limitsOf(tile, 1u << 30);
                if (makePlan(p, limits, plan, &why) != VKATTN_OK) {
                    EXPECT_TRUE(std::strstr(why.message, "partial results for each row")) << why.message;
                    p.kernel = VKATTN_KERNEL_AUTO;
                    EXPECT_NE(makePlan(p, limits, plan, &why), VKATTN_ERROR_INVALID_ARGUMENT);
                    continue;
                }
                const FlashShape &s = plan.flash;
                uint64_t perTile = s.tile.keyTile() / s.tile.step();
                if (s.tile.source == interop::sourceShared)
                    perTile += 5 + s.tile.tileKeys * (s.dimsPerLane + s.valueDimsPerLane) / s.tile.invocations();
                EXPECT_LE(s.splitKeys / s.tile.keyTile() * perTile, 65000u) << tile;
                EXPECT_LE(s.parts * (2 + (p.valueDim + 2 * s.combineLanes - 1) / (2 * s.combineLanes)), 65000u) << tile;
            }
}

// A workgroup visits no more of a window than its rows reach: keys are not split for the loop
// limit.
TEST(FlashPlan, windowsNeedNoSplits) {
    PlanLimits limits = limitsOf("", 1u << 31);
    limits.caps.deviceType = VK_PHYSICAL_DEVICE_TYPE_CPU;
    limits.caps.subgroupClustered = 1;
    limits.tuning = flashTuning(limits.caps);
    Case c;
    c.batch = 1, c.heads = c.kvHeads = 8, c.headDim = c.valueDim = 64, c.window = true, c.right = 0, c.kernel = VKATTN_KERNEL_FLASH;
    const auto parts = [&](int32_t left) {
        c.left = left;
        Problem p = problemOf(c); // no memory behind it
        p.queryTokens = p.keyTokens = 65536;
        for (const vkattn_role role : {VKATTN_Q, VKATTN_K, VKATTN_V, VKATTN_OUT}) p.tensors[role].extent[2] = 65536;
        Plan plan;
        vkattn_diagnostic why{};
        EXPECT_EQ(makePlan(p, limits, plan, &why), VKATTN_OK) << why.message;
        return plan.flash.parts;
    };
    EXPECT_EQ(parts(255), 0u);
    EXPECT_GT(parts(40000), 1u);
    EXPECT_GT(parts(-1), 1u);
}

// What a plan with options keeps in its environment, and what a chunk changes.
TEST(FlashPlan, environmentIsWrittenOnce) {
    using namespace interop;
    for (const char *tile : {tiles[0], tiles[4]}) {
        Case c;
        c.kernel = kernelOf(tile), c.batch = 2, c.heads = 6, c.kvHeads = 2, c.queryTokens = 9, c.keyTokens = 1000;
        c.headDim = 16, c.valueDim = 8, c.causal = c.lse = c.lengths = c.sinks = c.alibi = true, c.softcap = 3,
        c.biasBroadcast = c.maskBroadcast = 0;
        c.q = c.k = c.v = c.biasType = VKATTN_F16;
        Problem p = problemOf(c);
        PlanLimits limits = limitsOf(tile, 8192);
        limits.tuning.maxSplitKeys = 128, limits.tuning.minSplitKeys = 8;
        Plan plan;
        vkattn_diagnostic why{};
        ASSERT_EQ(makePlan(p, limits, plan, &why), VKATTN_OK) << why.message;
        ASSERT_GT(plan.keyChunks, 1u) << tile;
        ASSERT_GT(plan.headChunks * plan.batchChunks * plan.queryChunks, 1u) << tile;
        ASSERT_EQ(plan.setUpDispatches, 1u);
        EXPECT_EQ(plan.dispatchCount, 1 + plan.chunkCount() + plan.chunkCount() / plan.keyChunks) << "and what merges";

        const Dispatch setUp = plan.dispatch(0);
        EXPECT_EQ(setUp.key.module, Module::environment);
        EXPECT_FALSE(setUp.barrierBefore);
        const auto given = pushOf<EnvironmentPush>(setUp);
        EXPECT_EQ(given.firstAndCount, (environmentWords - dropoutWords) << 16);
        EXPECT_EQ(given.heads, 6u);
        EXPECT_EQ(setUp.operands[slotFirst].role, VKATTN_SINKS);
        EXPECT_EQ(setUp.operands[slotFirst].endBytes, 24u) << "of all heads";
        EXPECT_EQ(setUp.operands[slotSecond].role, VKATTN_ALIBI_SLOPES);
        Environment environment{};
        std::memcpy(&environment, given.given, 4 * (environmentWords - dropoutWords));
        EXPECT_EQ(environment.flags & (flagKeyLengths | flagLse | flagSinks | flagPartial),
                  flagKeyLengths | flagLse | flagSinks | flagPartial);
        EXPECT_EQ(environment.flags >> flagsBiasType, elementF16);
        EXPECT_EQ(environment.queryTokens, 9u);
        EXPECT_EQ(environment.keyTokens, 1000u);
        EXPECT_EQ(environment.right, 0);
        EXPECT_EQ(environment.dims, 16u | 8u << 16);
        EXPECT_EQ(environment.softcap, 3.0f);
        EXPECT_EQ(environment.oToken, static_cast<uint32_t>(p.tensor(VKATTN_OUT).stride[2]));
        EXPECT_EQ(environment.lseHead, static_cast<uint32_t>(p.tensor(VKATTN_LSE).stride[1]));
        EXPECT_EQ(environment.biasStrides.query, static_cast<uint32_t>(p.tensor(VKATTN_BIAS).stride[2]));
        EXPECT_EQ(environment.maskStrides.head, static_cast<uint32_t>(p.tensor(VKATTN_MASK).stride[1]));

        uint32_t laterHeads = 0;
        for (uint32_t n = 1; n < plan.dispatchCount; ++n) {
            const Dispatch d = plan.dispatch(n);
            const Operand &read = d.operands[slotEnvironment], &written = setUp.operands[slotWorkspace];
            EXPECT_EQ(read.role, VKATTN_WORKSPACE);
            EXPECT_EQ(read.beginBytes, written.beginBytes);
            EXPECT_EQ(read.endBytes, written.endBytes);
            EXPECT_LE(read.endBytes, plan.setUpBytes);
            EXPECT_FALSE(read.writes);
            if (!isMain(d)) {
                EXPECT_EQ(d.key.module, Module::combine);
                continue;
            }
            const auto push = pushOf<FlashPush>(d);
            EXPECT_EQ(d.barrierBefore, push.keyFirst == 0) << "chunks of keys need none between them";
            laterHeads += push.headFirst > 0;
            EXPECT_EQ(d.operands[slotBias].basePushWord, offsetof(FlashPush, biasBase) / 4);
            EXPECT_EQ(d.operands[slotMask].basePushWord, offsetof(FlashPush, maskBase) / 4);
        }
        EXPECT_GT(laterHeads, 0u);
        p.slices = 3;
        ASSERT_EQ(makePlan(p, limits, plan, &why), VKATTN_OK) << why.message;
        EXPECT_GE(persistentWorkspaceBytes(plan), plan.setUpBytes);
        EXPECT_GE(plan.setUpBytes, flash::environmentBytes(p));
    }
}

// One dispatch gathers what all heads have: a workgroup for 64 of them.
TEST(FlashPlan, headsMayBeTooMany) {
    Case c;
    c.kernel = VKATTN_KERNEL_FLASH, c.batch = 1, c.queryTokens = c.keyTokens = 1, c.headDim = c.valueDim = 2, c.sinks = true;
    PlanLimits limits = limitsOf(tiles[0]);
    limits.caps.maxWorkgroupCount[0] = 2;
    Plan plan;
    vkattn_diagnostic why{};
    for (const uint32_t heads : {128u, 129u}) {
        c.heads = c.kvHeads = heads;
        EXPECT_EQ(makePlan(problemOf(c), limits, plan, &why), heads == 128 ? VKATTN_OK : VKATTN_ERROR_UNSUPPORTED);
    }
    EXPECT_TRUE(std::strstr(why.message, "arrays over heads in its workspace; 129 heads are too many")) << why.message;
    c.sinks = false, c.lse = true;
    EXPECT_EQ(makePlan(problemOf(c), limits, plan, &why), VKATTN_OK) << why.message;
}

// Devices of four storage buffers: the fused kernel takes q, k, v and out, and says what it lacks
// for anything else.
TEST(FlashPlan, fourStorageBuffers) {
    const PlanLimits limits = limitsOf("", 1u << 27, 64 << 20, 65535, 4);
    Plan plan;
    vkattn_diagnostic why{};
    Case c;
    c.queryTokens = 100;
    ASSERT_EQ(makePlan(problemOf(c), limits, plan, nullptr), VKATTN_OK);
    EXPECT_EQ(plan.kernel->id, VKATTN_KERNEL_FLASH);
    EXPECT_EQ(plan.dispatchCount, 1u);
    EXPECT_EQ(plan.workspaceBytes, 0u);
    checkPlan(problemOf(c), limits, plan, "plain");
    c.causal = true, c.kvHeads = 1;
    ASSERT_EQ(makePlan(problemOf(c), limits, plan, nullptr), VKATTN_OK);
    EXPECT_EQ(plan.kernel->id, VKATTN_KERNEL_FLASH);
    checkPlan(problemOf(c), limits, plan, "causal, grouped");
    Case one = c;
    one.queryTokens = 1;
    ASSERT_EQ(makePlan(problemOf(one), limits, plan, nullptr), VKATTN_OK);
    EXPECT_EQ(plan.kernel->id, VKATTN_KERNEL_FLASH) << "decode has partial results to merge";

    std::vector<Case> refused(6, c);
    refused[0].lse = true, refused[1].biasBroadcast = 0, refused[2].lengths = true, refused[3].sinks = true;
    refused[4].kStyle = Style::dimMajor, refused[5].deterministic = true;
    for (Case &each : refused) {
        ASSERT_EQ(makePlan(problemOf(each), limits, plan, nullptr), VKATTN_OK);
        EXPECT_EQ(plan.kernel->id, VKATTN_KERNEL_STAGED);
        for (const vkattn_kernel kernel : {VKATTN_KERNEL_FLASH, VKATTN_KERNEL_DECODE}) {
            each.kernel = kernel;
            EXPECT_EQ(makePlan(problemOf(each), limits, plan, &why), VKATTN_ERROR_UNSUPPORTED);
            EXPECT_TRUE(std::strstr(why.message, "11 storage buffers a stage") && std::strstr(why.message, "the device has 4"))
                << why.message;
        }
    }
    one.kernel = VKATTN_KERNEL_DECODE;
    EXPECT_EQ(makePlan(problemOf(one), limits, plan, &why), VKATTN_ERROR_UNSUPPORTED);
    EXPECT_TRUE(std::strstr(why.message, "the decode kernel needs 11 storage buffers")) << why.message;
    const auto supported = [&](vkattn_kernel kernel) { return findKernel(kernel)->supported(*findKernel(kernel), limits, &why); };
    EXPECT_EQ(supported(VKATTN_KERNEL_FLASH), VKATTN_OK);
    EXPECT_TRUE(std::strstr(why.message, "q, k, v and out alone")) << why.message;
    EXPECT_EQ(supported(VKATTN_KERNEL_DECODE), VKATTN_ERROR_UNSUPPORTED);
    EXPECT_TRUE(std::strstr(why.message, "needs 11 storage buffers")) << why.message;
}

// 16-bit runs are loaded by whole words where offset and strides put every one of them at the start
// of a word.
TEST(FlashPlan, runsThatFillWordsAreKnown) {
    const PlanLimits limits = limitsOf("dimLanes=4 rowLanes=2 rowsPerLane=2");
    Case c;
    c.headDim = c.valueDim = 32, c.keyTokens = c.queryTokens = 40, c.k = c.v = VKATTN_F16, c.kernel = VKATTN_KERNEL_FLASH;
    const Problem plain = problemOf(c);
    const auto order = [&](const Problem &p) {
        Plan plan;
        EXPECT_EQ(makePlan(p, limits, plan, nullptr), VKATTN_OK);
        return plan.flash.dimOrder;
    };
    EXPECT_EQ(order(plain), interop::dimsInWords);
    for (const vkattn_role role : {VKATTN_K, VKATTN_V}) {
        Problem odd = plain;
        odd.tensors[role].offset = 1;
        EXPECT_EQ(order(odd), interop::dimsAdjacent);
        for (int axis = 0; axis < 3; ++axis) {
            odd = plain;
            for (int n = 0; n <= axis; ++n) odd.tensors[role].stride[n] = 4 * plain.tensors[role].stride[n] + (n == axis);
            EXPECT_EQ(order(odd), interop::dimsAdjacent) << axis;
        }
        odd = plain;
        for (int64_t &stride : odd.tensors[role].stride) stride *= 2;
        EXPECT_EQ(order(odd), interop::dimsApart);
    }
    c.headDim = c.valueDim = 33;
    EXPECT_NE(order(problemOf(c)), interop::dimsInWords);
    c.k = c.v = VKATTN_F32;
    EXPECT_EQ(order(problemOf(c)), interop::dimsInWords) << "an f32 is a word";
}

// Threads of CPU devices compute runs of neighbouring workgroups (shaders/attention/turns.glsl); every
// pipeline over tiles of a plan knows.
TEST(FlashPlan, tilesComeInTurnOnCpuDevicesAlone) {
    Case c;
    c.headDim = c.valueDim = 32, c.keyTokens = c.queryTokens = 40, c.kernel = VKATTN_KERNEL_FLASH;
    for (const bool cpu : {true, false}) {
        PlanLimits limits = limitsOf("dimLanes=4 rowLanes=2 rowsPerLane=2");
        limits.caps.deviceType = cpu ? VK_PHYSICAL_DEVICE_TYPE_CPU : VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
        Plan plan;
        ASSERT_EQ(makePlan(problemOf(c), limits, plan, nullptr), VKATTN_OK);
        const Dispatch main = plan.dispatch(plan.setUpDispatches);
        EXPECT_EQ((main.key.constants[interop::constantForm] & interop::formInTurn) != 0, cpu);
        vkattn_explanation explanation{};
        ASSERT_EQ(explainPlan(problemOf(c), limits, explanation, nullptr), VKATTN_OK);
        EXPECT_EQ(explanation.tilesInTurn, cpu ? 1u : 0u);
    }
}

TEST(FlashPlan, saysWhyItCannot) {
    const auto reason = [](const Case &c, const PlanLimits &limits) {
        Plan plan;
        vkattn_diagnostic why{};
        EXPECT_EQ(makePlan(problemOf(c), limits, plan, &why), VKATTN_ERROR_UNSUPPORTED) << c.name;
        return std::string(why.message);
    };
    const auto says = [](const std::string &text, const char *part) { return text.find(part) != std::string::npos; };
    Case c;
    c.kernel = VKATTN_KERNEL_FLASH;
    Case weights = c, wide = c, none = c;
    weights.weights = true, wide.headDim = 600, none.keyTokens = 0;
    EXPECT_TRUE(says(reason(weights, limitsOf("")), "only the staged kernel writes them"));
    EXPECT_TRUE(says(reason(wide, limitsOf("")), "dims up to 576"));
    EXPECT_TRUE(says(reason(none, limitsOf("")), "nothing to do without keys"));
    EXPECT_TRUE(says(reason(c, limitsOf("rowLanes=256")), "256 invocations; the device takes 128"));
    EXPECT_TRUE(says(reason(c, limitsOf("rowLanes=8 source=1 tileKeys=512")), "bytes of shared memory; the device has 16384"));
    EXPECT_TRUE(says(reason(c, limitsOf("dimLanes=16 subgroups=1")), "shuffles among 16 lanes; the device's subgroups have 8"));
    EXPECT_TRUE(says(reason(c, limitsOf("rowLanes=12 source=2 subgroups=1")), "expected whole subgroups"));
    PlanLimits without = limitsOf("dimLanes=4 subgroups=1");
    without.caps.subgroupShuffle = 0;
    EXPECT_TRUE(says(reason(c, without), "and no shuffle"));
    Case any = c; // AUTO takes another kernel instead
    any.kernel = VKATTN_KERNEL_AUTO;
    Plan plan;
    ASSERT_EQ(makePlan(problemOf(any), limitsOf("rowLanes=256"), plan, nullptr), VKATTN_OK);
    EXPECT_EQ(plan.kernel->id, VKATTN_KERNEL_STAGED);
}

TEST(FlashPlan, builtInTilesFit) {
    for (const uint32_t dim : {1u, 3u, 32u, 64u, 80u, 96u, 128u, 192u, 256u, 512u, 576u})
        for (const vkattn_kernel kernel : {VKATTN_KERNEL_FLASH, VKATTN_KERNEL_DECODE}) {
            Case c;
            c.kernel = kernel, c.headDim = c.valueDim = dim, c.queryTokens = c.keyTokens = 300, c.batch = 1, c.poison = false;
            const Problem problem = problemOf(c); // fills tensors, which takes longer than planning
            for (const uint32_t type : {VK_PHYSICAL_DEVICE_TYPE_CPU, VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU})
                for (const uint32_t subgroup : {0u, 4u, 8u, 16u, 32u, 64u}) {
                    PlanLimits limits = limitsOf("");
                    limits.caps.deviceType = type;
                    limits.caps.subgroupSize = subgroup;
                    limits.caps.subgroupShuffle = subgroup != 0;
                    limits.tuning = flashTuning(limits.caps);
                    Plan plan;
                    vkattn_diagnostic why{};
                    const vkattn_result result = makePlan(problem, limits, plan, &why);
                    // left to staged
                    if (type == VK_PHYSICAL_DEVICE_TYPE_CPU && (subgroup == 0 ? dim > 80 : subgroup == 4 && dim > 336)) {
                        EXPECT_EQ(result, VKATTN_ERROR_UNSUPPORTED);
                        EXPECT_TRUE(
                            std::strstr(why.message, dim > 128 && subgroup == 0 ? "dims up to 128 on this device" : "too long to compile"))
                            << why.message;
                        Problem any = problem;
                        any.kernel = VKATTN_KERNEL_AUTO;
                        EXPECT_EQ(makePlan(any, limits, plan, &why), VKATTN_OK);
                        EXPECT_EQ(plan.kernel->id, VKATTN_KERNEL_STAGED);
                        continue;
                    }
                    EXPECT_EQ(result, VKATTN_OK) << dim << ", subgroups of " << subgroup << ": " << why.message;
                    EXPECT_LE(plan.pipelines().size(), 3u);
                }
        }
}

// The absorbed form of multi-head latent attention, and smaller ones.
Problem latentProblem(uint32_t headDim, uint32_t valueDim, uint32_t heads, uint32_t queries, vkattn_kernel kernel) {
    Case c;
    c.kernel = kernel, c.keysHoldValues = true, c.batch = 1, c.heads = heads, c.kvHeads = 1;
    c.queryTokens = queries, c.keyTokens = 3000, c.headDim = headDim, c.valueDim = valueDim, c.poison = false;
    return problemOf(c);
}
PlanLimits latentLimits(uint32_t type) {
    PlanLimits limits = limitsOf("");
    limits.caps.deviceType = type;
    limits.caps.maxWorkgroupInvocations = limits.caps.maxWorkgroupSize[0] = 1024;
    limits.tuning = flashTuning(limits.caps);
    return limits;
}

TEST(FlashPlan, valuesInKeysAreLoadedWithTheKeys) {
    for (const uint32_t type : {VK_PHYSICAL_DEVICE_TYPE_CPU, VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU})
        for (const auto &[headDim, valueDim] : {std::pair{576u, 512u}, {40u, 24u}, {41u, 40u}, {33u, 33u}, {512u, 1u}})
            for (const vkattn_kernel kernel : {VKATTN_KERNEL_FLASH, VKATTN_KERNEL_DECODE}) {
                SCOPED_TRACE(std::to_string(headDim) + "/" + std::to_string(valueDim) + ", type " + std::to_string(type));
                const Problem p = latentProblem(headDim, valueDim, 16, 3, kernel);
                Plan plan;
                vkattn_diagnostic why{};
                ASSERT_EQ(makePlan(p, latentLimits(type), plan, &why), VKATTN_OK) << why.message;
                const FlashShape &shape = plan.flash;
                EXPECT_EQ(shape.valuesInKeys, shape.tile.source != interop::sourceShuffled);
                // A lane has its dims of V among those of K that it has loaded.
                EXPECT_GE(shape.dimsPerLane, shape.valueDimsPerLane);
                if (shape.tile.source == interop::sourceDirect && shape.tile.dimLanes > 1) {
                    EXPECT_EQ(shape.run, shape.valueRun);
                    EXPECT_EQ(shape.dimsPerLane % shape.run, 0u);
                    EXPECT_EQ(shape.valueDimsPerLane % shape.run, 0u);
                }
                for (uint32_t n = 0; n < plan.dispatchCount; ++n) {
                    const Dispatch d = plan.dispatch(n);
                    for (const Operand &operand : std::span(d.operands, d.operandCount)) EXPECT_NE(operand.role, VKATTN_V) << n;
                    if (!isMain(d)) continue;
                    EXPECT_EQ(d.key.constants[interop::constantKvFormat] >> interop::formatValuesInKeys & 1u, shape.valuesInKeys ? 1u : 0u);
                }
            }
}

TEST(FlashPlan, latentHeadsShareAWorkgroup) {
    const PlanLimits limits = latentLimits(VK_PHYSICAL_DEVICE_TYPE_CPU);
    for (const vkattn_kernel kernel : {VKATTN_KERNEL_AUTO, VKATTN_KERNEL_FLASH, VKATTN_KERNEL_DECODE}) {
        Plan plan;
        ASSERT_EQ(makePlan(latentProblem(576, 512, 128, 1, kernel), limits, plan, nullptr), VKATTN_OK);
        EXPECT_EQ(plan.flash.packed, 128u);
        EXPECT_EQ(plan.flash.tile.rows(), 128u) << "one workgroup has the rows of all heads";
        // AUTO does not fall back to the scores in memory.
        EXPECT_NE(plan.kernel->id, VKATTN_KERNEL_STAGED);
        // Row lanes that no row fills are left out.
        ASSERT_EQ(makePlan(latentProblem(576, 512, 16, 1, kernel), limits, plan, nullptr), VKATTN_OK);
        EXPECT_EQ(plan.flash.tile.rows(), 16u);
        ASSERT_EQ(makePlan(latentProblem(576, 512, 5, 1, kernel), limits, plan, nullptr), VKATTN_OK);
        EXPECT_EQ(plan.flash.tile.rowLanes, 2u);
        EXPECT_GE(plan.flash.tile.rows(), 5u);
    }
    // Bits that must not depend on the batch size rest on whole tiles.
    Problem fixed = latentProblem(576, 512, 5, 1, VKATTN_KERNEL_FLASH);
    fixed.deterministic = true;
    Plan plan;
    ASSERT_EQ(makePlan(fixed, limits, plan, nullptr), VKATTN_OK);
    EXPECT_EQ(plan.flash.tile.rows(), 128u);
}
