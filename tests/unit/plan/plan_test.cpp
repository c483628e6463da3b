// Plans without a device: every pair is computed once, no dispatch leaves its limits, and what runs
// without a barrier between does not conflict.
#include "core/plan/kernel.hpp"
#include "core/plan/operands.hpp"
#include "lib/interop.h"
#include "support/case.hpp"
#include "unit/problem_of.hpp"

#include <cstring>
#include <gtest/gtest.h>
#include <span>

using namespace vkattn;
using namespace vkattn::test;

namespace {

PlanLimits limitsOf(uint32_t range, uint64_t workspace, uint32_t groups = 65535) {
    PlanLimits limits{minimumCaps(), workspace};
    limits.caps.maxStorageBufferRange = range;
    for (uint32_t &count : limits.caps.maxWorkgroupCount) count = groups;
    return limits;
}

template <class Push> Push pushOf(const Dispatch &d) {
    Push push;
    std::memcpy(&push, d.pushWords, sizeof push);
    return push;
}

struct Columns { // of the score rows that a dispatch touches
    uint32_t keyFirst, keys;
};
template <class Push> Columns columnsOf(const Dispatch &d) {
    return {pushOf<Push>(d).keyFirst, pushOf<Push>(d).keys};
}
Columns columns(const Dispatch &d) {
    switch (d.key.module) {
    case Module::sinks:
        return columnsOf<interop::SinksPush>(d);
    case Module::scores:
        return columnsOf<interop::ScoresPush>(d);
    case Module::pairs:
        return columnsOf<interop::PairsPush>(d);
    case Module::prior: // behind the scores
        return {pushOf<interop::PriorPush>(d).rowPitch - interop::priorColumns, interop::priorColumns};
    default:
        return {0, 0x7fffffff}; // all of it
    }
}
std::span<const Operand> operandsOf(const Dispatch &d) {
    return {d.operands, d.operandCount};
}
bool conflict(const Plan &plan, const Dispatch &a, const Dispatch &b) {
    for (const Operand &x : operandsOf(a))
        for (const Operand &y : operandsOf(b)) {
            if (x.role != y.role || (!x.writes && !y.writes)) continue;
            if (x.beginBytes >= y.endBytes || y.beginBytes >= x.endBytes) continue;
            if (x.role != VKATTN_WORKSPACE || x.beginBytes < plan.tableBytes) return true;
            const Columns p = columns(a), q = columns(b);
            if (p.keyFirst < q.keyFirst + q.keys && q.keyFirst < p.keyFirst + p.keys) return true;
        }
    return false;
}

// Adds up how often a scores dispatch computes each pair. Which batches and heads it has follows
// from its operands, whatever the chunk order.
void countPairs(const Plan &plan, const Dispatch &d, std::vector<uint32_t> &covered) {
    const Problem &p = plan.problem;
    const auto push = pushOf<interop::ScoresPush>(d);
    const Tensor &q = p.tensor(VKATTN_Q);
    for (uint32_t b = 0; b < p.batch; ++b)
        for (uint32_t h = 0; h < p.heads; ++h) {
            if (p.ragged() ? d.operands[3].firstByte != 4ull * (interop::ruleHeaderWords + interop::sequenceWords * b) ||
                                 q.index(0, h, push.queryFirst, 0) * elementBytes(q.dtype) != d.operands[1].firstByte
                           : q.index(b, h, push.queryFirst, 0) * elementBytes(q.dtype) != d.operands[1].firstByte)
                continue;
            for (uint32_t z = 0; z < d.groups[2]; ++z)
                for (uint32_t i = 0; i < push.queries; ++i)
                    for (uint32_t j = 0; j < push.keys; ++j)
                        ++covered[((size_t{b + z / push.heads} * p.heads + h + z % push.heads) * p.queryTokens + push.queryFirst + i) *
                                      p.keyTokens +
                                  push.keyFirst + j];
        }
}

void checkPlan(const Problem &p, const PlanLimits &limits, const std::string &name) {
    Plan plan;
    vkattn_diagnostic why{};
    ASSERT_EQ(makePlan(p, limits, plan, &why), VKATTN_OK) << name << ": " << why.message;
    const uint64_t alignment = limits.caps.minStorageBufferOffsetAlignment;
    std::vector<uint32_t> covered(size_t{p.batch} * p.heads * p.queryTokens * p.keyTokens);
    std::vector<Dispatch> sinceBarrier;
    PipelineSet used;
    uint64_t descriptors = 0;
    for (uint32_t n = 0; n < plan.dispatchCount; ++n) {
        const Dispatch d = plan.dispatch(n);
        used.add(d.key);
        EXPECT_EQ(d.operandCount, infoOf(d.key.module).slots);
        descriptors += d.operandCount;
        for (int g = 0; g < 3; ++g)
            ASSERT_TRUE(d.groups[g] > 0 && d.groups[g] <= limits.caps.maxWorkgroupCount[g]) << name << " dispatch " << n;
        EXPECT_LE(d.pushBytes, 128u);
        for (const Operand &o : operandsOf(d)) {
            ASSERT_LE(o.beginBytes, o.endBytes) << name;
            // A descriptor begins at an aligned offset and ends at a whole word.
            ASSERT_LE(o.endBytes - o.beginBytes + (o.role == VKATTN_WORKSPACE ? 0 : alignment + 3), limits.caps.maxStorageBufferRange)
                << name << " " << roleName(o.role);
            if (o.role == VKATTN_WORKSPACE && o.beginBytes < plan.tableBytes) {
                EXPECT_LE(o.endBytes, plan.tableBytes) << name;
            }
            const uint64_t needed = o.role == VKATTN_WORKSPACE ? plan.workspaceBytes : p.bytesNeeded(o.role);
            ASSERT_LE(o.endBytes, needed) << name << " " << roleName(o.role);
            if (o.role != VKATTN_WORKSPACE || o.basePushWord != noPushWord) {
                ASSERT_TRUE(o.firstByte >= o.beginBytes && o.firstByte < o.endBytes) << name << " " << roleName(o.role);
            }
        }
        if (d.barrierBefore) sinceBarrier.clear();
        for (const Dispatch &earlier : sinceBarrier)
            EXPECT_FALSE(conflict(plan, earlier, d)) << name << " dispatch " << n << " needs a barrier";
        sinceBarrier.push_back(d);
        if (d.key.module == Module::scores) countPairs(plan, d, covered);
    }
    // Scores that are an output before anything hides them are made once more.
    const uint32_t times = p.tensor(VKATTN_SCORES).present() && p.scoresStage != VKATTN_SCORES_FINAL ? 2 : 1;
    for (const uint32_t count : covered) ASSERT_EQ(count, times) << name;
    EXPECT_EQ(descriptors, plan.storageDescriptorCount()) << name;
    EXPECT_EQ(used.size(), plan.pipelines().size()) << name;
    EXPECT_LT(used.size(), PipelineSet::capacity) << name;
    for (const PipelineKey &key : plan.pipelines()) EXPECT_TRUE(used.contains(key)) << name;
}

} // namespace

// A cache of pipelines asks for equality only where hashes share a bucket.
TEST(PipelineKey, isOfOneModuleItsConstantsAndItsProgram) {
    const PipelineKey own = {Module::scores, {8, 4}};
    PipelineKey ofProgram = own, ofAnother = own;
    ofProgram.programHash = 7, ofAnother.programHash = 8;
    EXPECT_FALSE(own == ofProgram);
    EXPECT_FALSE(ofProgram == ofAnother);
    EXPECT_NE(own.hash(), ofProgram.hash());
    EXPECT_NE(ofProgram.hash(), ofAnother.hash());
    const vkattn_program text{};
    ofAnother.programHash = 7, ofAnother.program = &text; // the same text, made again
    EXPECT_TRUE(ofProgram == ofAnother);
    EXPECT_EQ(ofProgram.hash(), ofAnother.hash());
    EXPECT_FALSE((own == PipelineKey{Module::scores, {8, 5}}));
    EXPECT_FALSE((own == PipelineKey{Module::scores, {8}}));
    EXPECT_FALSE((own == PipelineKey{Module::softmax, {8, 4}}));
    EXPECT_TRUE((own == PipelineKey{Module::scores, {8, 4}}));
}

TEST(Plan, wholeProblemsAreThreeDispatches) {
    Case c;
    Plan plan;
    ASSERT_EQ(makePlan(problemOf(c), limitsOf(1u << 27, 64 << 20), plan, nullptr), VKATTN_OK);
    EXPECT_EQ(plan.dispatchCount, 3u);
    EXPECT_EQ(plan.chunkCount(), 1u);
    EXPECT_EQ(plan.workspaceBytes, 2u * 2 * 17 * 19 * 4);
    c.maskBroadcast = c.biasBroadcast = 0;
    ASSERT_EQ(makePlan(problemOf(c), limitsOf(1u << 27, 64 << 20), plan, nullptr), VKATTN_OK);
    EXPECT_EQ(plan.dispatchCount, 5u);
}

TEST(Plan, everyOptionIsOneMorePass) {
    Case c;
    c.biasBroadcast = c.bitMaskBroadcast = 0, c.alibi = c.sinks = c.ragged = true, c.documents = Documents::runs;
    c.sequenceLengths = {{17, 19}, {3, 5}};
    Plan plan;
    const Problem p = problemOf(c);
    ASSERT_EQ(makePlan(p, limitsOf(1u << 27, 64 << 20), plan, nullptr), VKATTN_OK);
    ASSERT_EQ(plan.dispatchCount, 9u);
    const Module order[] = {Module::sequences, Module::sinks, Module::scores,  Module::pairs, Module::pairs,
                            Module::pairs,     Module::pairs, Module::softmax, Module::values};
    const uint32_t terms[] = {interop::termBias, interop::termAlibi, interop::termBitMask, interop::termDocuments};
    for (uint32_t n = 0; n < 9; ++n) {
        EXPECT_EQ(plan.dispatch(n).key.module, order[n]) << n;
        if (order[n] == Module::pairs) {
            EXPECT_EQ(plan.dispatch(n).key.constants[interop::constantPairTerms], terms[n - 3]) << n;
        }
        EXPECT_EQ(plan.dispatch(n).barrierBefore, n > 0 && n != 2) << n;
    }
    EXPECT_EQ(plan.tableBytes, 512u); // 64 words and 2 * 8, aligned
    EXPECT_EQ(plan.rowPitch, p.keyTokens + 1);
    EXPECT_EQ(plan.workspaceBytes, 512 + 4ull * 2 * 2 * p.queryTokens * (p.keyTokens + 1));
    for (const vkattn_kernel kernel : {VKATTN_KERNEL_FLASH, VKATTN_KERNEL_DECODE}) {
        Problem other = p;
        other.kernel = kernel;
        EXPECT_EQ(makePlan(other, limitsOf(1u << 27, 64 << 20), plan, nullptr), VKATTN_ERROR_UNSUPPORTED);
    }
}

TEST(Plan, everyCaseFitsEveryLimit) {
    Random random = randomFor("plan");
    uint32_t cut = 0;
    for (const Case &c : caseMatrix(random, false)) {
        // Which row a dispatch computes is told by where its query lies.
        if (c.sharedHeads) continue;
        Problem p = problemOf(c);
        if (p.headDim > 300) continue;
        p.slices = random() % 2 ? 1 : static_cast<uint32_t>(1 + random() % 9);
        Plan whole;
        vkattn_diagnostic why{};
        if (makePlan(p, limitsOf(1u << 27, 64 << 20), whole, &why) == VKATTN_ERROR_UNSUPPORTED &&
            std::strstr(why.message, "not in the staged kernel"))
            continue;
        checkPlan(p, limitsOf(1u << 27, 64 << 20), c.name);
        const uint32_t range = 16384 + 256 * between(random, 0, 64);
        const PlanLimits tight = limitsOf(range, 4096, 70);
        Plan plan;
        // One row too long for such a device: below.
        if (makePlan(p, tight, plan, nullptr) != VKATTN_OK) continue;
        cut += plan.chunkCount() > 1;
        checkPlan(p, tight, c.name + " tight");
    }
    EXPECT_GT(cut, 100u);
}

// Groups of 4 query heads, chunks of 3 or 6: a chunk that begins inside a group reads one more key
// head than its own heads make groups.
TEST(Plan, chunksInsideAGroupBindTheirKeyHeads) {
    Case c;
    c.batch = 1, c.heads = 12, c.kvHeads = 3, c.queryTokens = 8, c.keyTokens = 64, c.headDim = c.valueDim = 64,
    c.kernel = VKATTN_KERNEL_STAGED;
    const Problem p = problemOf(c);
    uint32_t inside = 0;
    for (uint32_t range = 16384 + 1024; range <= 4 * 16384; range += 1024)
        for (uint64_t rows = 1; rows <= 96; rows = rows * 3 / 2 + 1) {
            const PlanLimits limits = limitsOf(range, rows * c.keyTokens * 4);
            Plan plan;
            ASSERT_EQ(makePlan(p, limits, plan, nullptr), VKATTN_OK);
            inside += plan.chunkHeads % 4 == 3 || plan.chunkHeads == 6;
            checkPlan(p, limits, std::to_string(range) + " bytes a binding, " + std::to_string(rows) + " rows");
            if (HasFatalFailure()) return;
        }
    EXPECT_GT(inside, 0u);
}

TEST(Plan, workspaceStaysBelowItsCap) {
    Case c;
    c.queryTokens = 64, c.keyTokens = 64;
    for (const uint64_t cap : {1ull << 20, 65536ull, 10000ull, 256ull, 255ull, 4ull}) {
        Plan plan;
        ASSERT_EQ(makePlan(problemOf(c), limitsOf(1u << 27, cap), plan, nullptr), VKATTN_OK);
        // One row of 64 keys is the least.
        EXPECT_LE(plan.workspaceBytes, std::max<uint64_t>(cap, 256));
        checkPlan(problemOf(c), limitsOf(1u << 27, cap), "cap " + std::to_string(cap));
    }
}

// 12 heads in groups of 4: a chunk of 3 heads may begin inside a group and then has keys of two key
// heads, which decides what it may have where keys are what a binding has no room for.
TEST(Plan, chunksThatBeginInsideAGroupHaveKeysOfTwoHeads) {
    Case c;
    c.heads = 12, c.kvHeads = 3, c.queryTokens = 2, c.keyTokens = 100, c.headDim = c.valueDim = 16;
    uint32_t inside = 0;
    for (uint32_t range = 4096; range < 32768; range += 128) {
        const PlanLimits limits = limitsOf(range, 64 << 20);
        checkPlan(problemOf(c), limits, "range " + std::to_string(range));
        Plan plan;
        ASSERT_EQ(makePlan(problemOf(c), limits, plan, nullptr), VKATTN_OK);
        inside += plan.chunkHeads % 4 == 3;
    }
    EXPECT_GT(inside, 0u);
}

// A chunk of keys that begins and ends inside a word of a bit mask needs both words. The words of
// this mask lie 256 apart, so that the mask, and not K, decides how many keys a binding has room
// for.
TEST(Plan, chunksOfABitMaskNeedTheWordsAtBothEnds) {
    Case c;
    c.batch = c.heads = c.kvHeads = 1, c.queryTokens = 2, c.keyTokens = 3200, c.headDim = c.valueDim = 4;
    c.bitMaskBroadcast = 0;
    c.kernel = VKATTN_KERNEL_STAGED;
    Problem p = problemOf(c);
    Tensor &mask = p.tensors[VKATTN_BIT_MASK];
    mask.stride[2] = 1, mask.stride[3] = 256;
    uint32_t insideAWord = 0;
    for (uint32_t range = 16384; range < 131072; range += 900) {
        const PlanLimits limits = limitsOf(range, 64 << 20);
        checkPlan(p, limits, "range " + std::to_string(range));
        if (HasFatalFailure()) return;
        Plan plan;
        ASSERT_EQ(makePlan(p, limits, plan, nullptr), VKATTN_OK);
        insideAWord += plan.keyChunks > 1 && plan.chunkKeys % 32 != 0;
    }
    EXPECT_GT(insideAWord, 0u);
}

// Wherever a role's memory and an element in it begin: the descriptor is aligned, covers what is
// accessed in whole words, and the base leads to that very element, also from the middle of a word.
TEST(Plan, descriptorsLeadToTheFirstElement) {
    Random random = randomFor("descriptors");
    for (int n = 0; n < 20000; ++n) {
        const uint32_t size = 1u << between(random, 0, 2);
        const uint64_t alignment = 4ull << between(random, 0, 6), roleBegin = uint64_t{size} * between(random, 0, 1000);
        const uint64_t begin = uint64_t{size} * between(random, 0, 1000), first = begin + uint64_t{size} * between(random, 0, 50);
        const Operand operand = {VKATTN_K, begin, first + uint64_t{size} * between(random, 1, 50), first, 2, size, false};
        uint32_t push[4] = {~0u, ~0u, ~0u, ~0u};
        const DescriptorRange range = placeOperand(operand, roleBegin, alignment, push);
        ASSERT_EQ(range.offset % alignment, 0u);
        ASSERT_TRUE(range.size % 4 == 0 && range.size > 0);
        ASSERT_LE(range.offset, roleBegin + operand.beginBytes);
        ASSERT_GE(range.offset + range.size, roleBegin + operand.endBytes);
        ASSERT_LT(range.offset + range.size, roleBegin + operand.endBytes + 4);
        ASSERT_EQ(range.offset + uint64_t{push[2]} * size, roleBegin + operand.firstByte) << "elements of " << size << " bytes";
        ASSERT_TRUE(push[0] == ~0u && push[1] == ~0u && push[3] == ~0u);
    }
}

TEST(Plan, saysWhyADeviceCannot) {
    Case c;
    c.kStyle = Style::dimMajor, c.keyTokens = 2000, c.headDim = 40;
    vkattn_diagnostic why{};
    Plan plan;
    EXPECT_EQ(makePlan(problemOf(c), limitsOf(16384, 4096), plan, &why), VKATTN_ERROR_UNSUPPORTED);
    EXPECT_NE(std::string(why.message).find("one row of k"), std::string::npos) << why.message;
    Case wide;
    wide.keyTokens = 5000;
    EXPECT_EQ(makePlan(problemOf(wide), limitsOf(16384, 4096), plan, &why), VKATTN_ERROR_UNSUPPORTED);
    EXPECT_NE(std::string(why.message).find("one query row"), std::string::npos) << why.message;
    // No memory behind it: all rows of Q and K are one row. Planning touches no data.
    Problem huge = problemOf(Case{});
    huge.keyTokens = huge.tensors[VKATTN_K].extent[2] = huge.tensors[VKATTN_V].extent[2] = 8000000;
    huge.tensors[VKATTN_K].stride[2] = huge.tensors[VKATTN_V].stride[2] = 0;
    EXPECT_EQ(makePlan(huge, limitsOf(1u << 31, 1u << 30), plan, &why), VKATTN_ERROR_UNSUPPORTED);
    EXPECT_NE(std::string(why.message).find("rows of at most 7680000"), std::string::npos) << why.message;
    huge = problemOf(Case{});
    huge.queryTokens = huge.tensors[VKATTN_Q].extent[2] = huge.tensors[VKATTN_OUT].extent[2] = 1u << 30;
    huge.tensors[VKATTN_Q].stride[2] = huge.tensors[VKATTN_OUT].stride[2] = 0;
    EXPECT_EQ(makePlan(huge, limitsOf(1u << 27, 76), plan, &why), VKATTN_ERROR_UNSUPPORTED);
    EXPECT_NE(std::string(why.message).find("dispatches"), std::string::npos) << why.message;
    Case ragged;
    ragged.ragged = true, ragged.headDim = 64, ragged.sequenceLengths = {{17, 90}, {3, 5}};
    EXPECT_EQ(makePlan(problemOf(ragged), limitsOf(16384, 4096), plan, &why), VKATTN_ERROR_UNSUPPORTED);
    EXPECT_NE(std::string(why.message).find("one head of k"), std::string::npos) << why.message;
    Problem many = problemOf(ragged);
    many.batch = 1u << 20;
    EXPECT_EQ(makePlan(many, limitsOf(1u << 27, 64 << 20), plan, &why), VKATTN_OK) << why.message;
    EXPECT_EQ(plan.tableBytes, (32u << 20) + 256);
    EXPECT_EQ(makePlan(many, limitsOf(1u << 24, 64 << 20), plan, &why), VKATTN_ERROR_UNSUPPORTED);
    EXPECT_NE(std::string(why.message).find("the table of 1048576 sequences"), std::string::npos) << why.message;
    many.batch = 1u << 22;
    EXPECT_EQ(makePlan(many, limitsOf(1u << 27, 64 << 20), plan, &why), VKATTN_ERROR_UNSUPPORTED);
    EXPECT_NE(std::string(why.message).find("at most 3712000"), std::string::npos) << why.message;
    Problem fixed = problemOf(ragged);
    fixed.deterministic = true;
    fixed.keyTokens = 5000000;
    EXPECT_EQ(makePlan(fixed, limitsOf(1u << 27, 64 << 20), plan, &why), VKATTN_ERROR_UNSUPPORTED);
    EXPECT_NE(std::string(why.message).find("VKATTN_DETERMINISTIC"), std::string::npos) << why.message;
    PlanLimits poor = limitsOf(1u << 27, 1 << 20);
    poor.caps.maxStorageBuffersPerStage = 3;
    EXPECT_EQ(makePlan(problemOf(Case{}), poor, plan, &why), VKATTN_ERROR_UNSUPPORTED);
    EXPECT_NE(std::string(why.message).find("maxPerStageDescriptorStorageBuffers"), std::string::npos) << why.message;
}

TEST(Plan, tilesFitVulkan10Limits) {
    for (const uint32_t type : {VK_PHYSICAL_DEVICE_TYPE_CPU, VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU}) {
        Caps caps = minimumCaps();
        caps.deviceType = type;
        const StagedTuning &t = stagedTuning(caps);
        for (const TileShape &shape : t.scores) EXPECT_LE(shape.invocations(), 128u);
        for (const TileShape &shape : t.values) {
            EXPECT_LE(shape.invocations(), 128u);
            EXPECT_EQ(shape.perLaneX % 2, 0u) << "values.comp stores pairs";
        }
        for (const uint32_t lanes : t.softmaxLanes) {
            EXPECT_LE(lanes, 128u);
            EXPECT_LE(lanes * 12, 16384u) << "softmax.comp keeps three words a lane in shared memory";
        }
        EXPECT_LE(t.pairLanes, 128u);
        EXPECT_LE(t.sequenceLanes, 128u);
        EXPECT_GE(maxSequencesPerLane * t.sequenceLanes, 1u << 20);
        EXPECT_LE(2 * maxSequencesPerLane + t.sequenceLanes, 60000u) << "loop iterations of sequences.comp";
    }
}
