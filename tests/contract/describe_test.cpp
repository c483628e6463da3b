// vkattnListDispatches and vkattnListOperation say what vkattnRecord and vkattnRecordOperation
// record: compared command by command against a Vulkan that remembers, for many problems and other
// operations on many devices that do not exist.
#include "conform/cases/operation_case.hpp"
#include "conform/linear/linear_case.hpp"
#include "conform/statistics/statistics_case.hpp"
#include "conform/visible_blocks/visible_blocks_case.hpp"
#include "core/shaders/continues.hpp"
#include "support/case.hpp"
#include "support/drawn_caps.hpp"
#include "support/vulkan/fake_vulkan.hpp"
#include "vkattn/vkattn.hpp"

#include <algorithm>
#include <cstring>
#include <gtest/gtest.h>
#include <map>
#include <set>

using namespace vkattn;
using namespace vkattn::test;

namespace {

// Scratch memory with canaries behind it, and the list in the memory.
struct Description {
    std::vector<uint64_t> memory;
    size_t bytes = 0;
    vkattn_dispatch_list whole{};
    const vkattn_dispatch *list = nullptr;
    uint32_t count = 0;
    vkattn_result result = VKATTN_OK;
    vkattn_diagnostic why{};

    Description(const vkattn_caps &caps, uint64_t maxWorkspaceBytes, const vkattn_operation &operation) {
        const vkattn_plan_options options = planOptions(maxWorkspaceBytes);
        vkattn_dispatch_list measured{};
        measured.structSize = sizeof measured;
        result = vkattnListOperation(&caps, &options, &operation, nullptr, 0, &measured, &why);
        bytes = measured.scratchBytes;
        if (result != VKATTN_OK) return;
        EXPECT_EQ(bytes % 8, 0u);
        EXPECT_EQ(measured.dispatches, nullptr);
        memory.assign(bytes / 8 + 8, canary);
        whole.structSize = sizeof whole;
        result = vkattnListOperation(&caps, &options, &operation, memory.data(), bytes, &whole, &why);
        list = whole.dispatches;
        count = whole.dispatchCount;
        EXPECT_EQ(count, measured.dispatchCount);
        EXPECT_EQ(whole.scratchBytes, bytes);
        EXPECT_EQ(whole.workspaceBytes, measured.workspaceBytes);
        EXPECT_TRUE(std::all_of(memory.end() - 8, memory.end(), [](uint64_t word) { return word == canary; }))
            << "written past the scratch";
    }
    [[nodiscard]] bool inside(const void *begin, uint64_t size) const {
        const auto *first = reinterpret_cast<const char *>(memory.data()), *at = static_cast<const char *>(begin);
        return at >= first && at + size <= first + bytes;
    }
    static constexpr uint64_t canary = 0xa5a5a5a5deadbeefu;
};

// Returns the words from the first function to the end. Words before the first function may differ:
// constants are folded before a driver sees the module.
std::vector<uint32_t> functionsOf(const uint32_t *words, size_t count) {
    size_t at = 5;
    while (at < count && (words[at] & 0xffff) != 54 /* OpFunction */ && words[at] >> 16) at += words[at] >> 16;
    EXPECT_LT(at, count);
    return {words + at, words + count};
}

// What a context gives the driver of a CPU device has continue targets of their own (core/shaders/continues.hpp).
std::vector<uint32_t> givenFunctionsOf(const uint32_t *words, size_t count, bool cpu) {
    if (!cpu) return functionsOf(words, count);
    std::vector<uint32_t> split(mostWordsOfSplit(words, count)), scratch(splitScratchBytes(words) / 4);
    split.resize(splitContinues(words, count, scratch.data(), split.data()));
    return functionsOf(split.data(), split.size());
}

// The roles that an operation writes, the workspace apart; those without a byte are not bound.
std::set<vkattn_role> outputsOf(const vkattn_operation &operation) {
    std::vector<vkattn_operand_use> uses(VKATTN_ROLE_LIMIT);
    uses.resize(vkattnOperandUses(&operation, uses.data(), VKATTN_ROLE_LIMIT));
    std::set<vkattn_role> all;
    for (const vkattn_operand_use &use : uses)
        if (use.writes && use.endBytes > use.beginBytes) all.insert(use.role);
    return all;
}

uint32_t slicesOf(const vkattn_operation &operation) {
    const vkattn_problem *const problem = operation.kind == VKATTN_ATTENTION              ? operation.of.attention
                                          : operation.kind == VKATTN_ATTENTION_STATISTICS ? operation.of.attentionStatistics->attention
                                                                                          : nullptr;
    return problem ? std::max(problem->sliceCount, 1u) : 1;
}

// Of a problem: in one piece, or in few slices or many.
uint32_t drawSlices(Random &random) {
    return oneOf(random, {0u, 0u, 0u, 1u, 2u, 7u, 40u});
}

struct Comparison {
    uint32_t recorded = 0, dispatches = 0, refused = 0, chunked = 0, subgroups = 0, required = 0;
    // Over all problems and devices, no key stands for two pipelines.
    std::map<uint64_t, std::vector<uint32_t>> constantsOfKey;

    void compareDispatch(const vkattn_dispatch &said, const FakeDispatch &done, const vkattn_caps &caps, const vkattn_operation &operation,
                         const vkattn_binding *bindings, uint64_t workspaceBytes, const std::string &name);
    void compare(const vkattn_operation &operation, const vkattn_caps &limit, uint64_t maxWorkspaceBytes, Random &random,
                 const std::string &name);
    // In any number of slices.
    void compare(const vkattn_problem &whole, const vkattn_caps &limit, uint64_t maxWorkspaceBytes, Random &random,
                 const std::string &name) {
        vkattn_problem problem = whole;
        problem.sliceCount = drawSlices(random);
        compare(operation(problem), limit, maxWorkspaceBytes, random, name);
    }
};

void Comparison::compareDispatch(const vkattn_dispatch &said, const FakeDispatch &done, const vkattn_caps &caps,
                                 const vkattn_operation &operation, const vkattn_binding *bindings, uint64_t workspaceBytes,
                                 const std::string &name) {
    const FakePipeline &pipeline = *done.pipeline;
    EXPECT_TRUE(std::equal(said.groups, said.groups + 3, done.groups)) << name;
    for (int axis = 0; axis < 3; ++axis)
        EXPECT_TRUE(said.groups[axis] && said.groups[axis] <= caps.maxWorkgroupCount[axis])
            << name << ": " << said.name << " has " << said.groups[axis] << " workgroups in direction " << axis;
    EXPECT_LE(said.operandCount, caps.maxStorageBuffersPerStage) << name << said.name;
    EXPECT_EQ(said.barrierBefore, done.barriers) << name;
    ASSERT_EQ(said.pushConstantBytes, done.pushBytes) << name;
    EXPECT_EQ(0, std::memcmp(said.pushConstants, done.push, done.pushBytes)) << name << ": push constants of " << said.name;

    const VkSpecializationInfo &constants = *said.specialization;
    ASSERT_EQ(constants.mapEntryCount, pipeline.constants.size()) << name;
    ASSERT_EQ(constants.dataSize, pipeline.constants.size() * 4) << name;
    for (uint32_t n = 0; n < constants.mapEntryCount; ++n) {
        EXPECT_EQ(constants.pMapEntries[n].constantID, n);
        EXPECT_EQ(constants.pMapEntries[n].offset, n * 4);
        EXPECT_EQ(constants.pMapEntries[n].size, 4u);
    }
    EXPECT_EQ(0, std::memcmp(constants.pData, pipeline.constants.data(), constants.dataSize)) << name << ": constants of " << said.name;
    EXPECT_TRUE(givenFunctionsOf(said.spirv, said.spirvBytes / 4, caps.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU) ==
                functionsOf(pipeline.spirv.data(), pipeline.spirv.size()))
        << name << ": functions of " << said.name; // of a million words
    EXPECT_LE(said.spirv[1], caps.subgroupShuffle ? 0x10300u : 0x10000u) << name << ": SPIR-V version";
    const VkPipelineShaderStageCreateFlags full = VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT;
    EXPECT_EQ(said.requireFullSubgroups, (pipeline.stageFlags & full) != 0 ? 1u : 0u) << name;
    EXPECT_EQ(said.requiredSubgroupSize, pipeline.requiredSubgroupSize) << name;
    required += said.requiredSubgroupSize != 0;

    std::vector<uint32_t> identity = functionsOf(said.spirv, said.spirvBytes / 4);
    identity.insert(identity.end(), pipeline.constants.begin(), pipeline.constants.end());
    identity.insert(identity.end(), {said.operandCount, said.requireFullSubgroups, said.requiredSubgroupSize, caps.floatControlsNan});
    const auto [known, isNew] = constantsOfKey.try_emplace(said.pipelineKey, identity);
    EXPECT_EQ(known->second, identity) << name << ": one key for two pipelines";

    ASSERT_EQ(said.operandCount, done.descriptorCount) << name;
    const uint64_t alignment = std::max(caps.minStorageBufferOffsetAlignment, 4u);
    for (uint32_t o = 0; o < said.operandCount; ++o) {
        const vkattn_operand &operand = said.operands[o];
        const vkattn_binding &binding = bindings[operand.role];
        ASSERT_LT(static_cast<uint32_t>(operand.role), VKATTN_ROLE_LIMIT);
        EXPECT_EQ(done.descriptors[o].buffer, binding.buffer) << name;
        EXPECT_EQ(done.descriptors[o].offset, binding.offset + operand.offsetBytes) << name;
        EXPECT_EQ(done.descriptors[o].range, operand.sizeBytes) << name;
        EXPECT_EQ(operand.offsetBytes % alignment, 0u) << name;
        EXPECT_TRUE(operand.sizeBytes && operand.sizeBytes % 4 == 0) << name;
        const uint64_t bytes = operand.role == VKATTN_WORKSPACE ? workspaceBytes : vkattnOperationBytes(&operation, operand.role);
        EXPECT_LE(operand.offsetBytes + operand.sizeBytes, (bytes + 3) / 4 * 4) << name;
        EXPECT_LE(operand.sizeBytes, caps.maxStorageBufferRange) << name;
        const bool writable = operand.role == VKATTN_WORKSPACE || outputsOf(operation).contains(operand.role);
        EXPECT_LE(operand.writes, writable ? 1u : 0u) << name;
    }
}

void Comparison::compare(const vkattn_operation &operation, const vkattn_caps &limit, uint64_t maxWorkspaceBytes, Random &random,
                         const std::string &name) {
    const uint32_t slices = slicesOf(operation);
    FakeVulkan fake;
    // Plans are made for the width that shaders run at.
    if (limit.subgroupSize) fake.subgroups.subgroupSize = limit.subgroupSize;
    fake.pushDescriptors = limit.pushDescriptors != 0;
    vkattn_host host = fake.host();
    host.capsLimit = &limit;
    host.maxWorkspaceBytes = maxWorkspaceBytes;
    Context context;
    vkattn_diagnostic why{};
    ASSERT_EQ(context.create(host, &why), VKATTN_OK) << name << ": " << why.message;
    vkattn_caps caps{};
    caps.structSize = sizeof caps;
    ASSERT_EQ(vkattnContextCaps(context.handle(), &caps), VKATTN_OK);

    const Description description(caps, maxWorkspaceBytes, operation);
    vkattn_requirements needs{};
    const vkattn_result queried = context.query(operation, needs, &why);
    ASSERT_EQ(queried, description.result) << name << ": " << why.message << " / " << description.why.message;
    if (queried != VKATTN_OK) {
        EXPECT_STREQ(why.message, description.why.message);
        ++refused;
        return;
    }
    ASSERT_EQ(description.count, needs.dispatchCount) << name;
    EXPECT_EQ(description.list == nullptr, needs.dispatchCount == 0) << name;
    EXPECT_EQ(description.whole.workspaceBytes, needs.workspaceBytes) << name;
    EXPECT_GE(description.whole.workspaceAlignment, needs.workspaceAlignment) << name;
    EXPECT_EQ(description.whole.persistentWorkspaceBytes, needs.persistentWorkspaceBytes) << name;
    EXPECT_EQ(description.whole.probabilityUnit, needs.probabilityUnit) << name;
    EXPECT_EQ(description.whole.probabilityFloor, needs.probabilityFloor) << name;
    EXPECT_STREQ(description.whole.kernelName, needs.kernelName) << name;
    vkattn_explanation explanation{};
    ASSERT_EQ(explain(caps, operation, explanation, planOptions(maxWorkspaceBytes), &why), VKATTN_OK) << name << ": " << why.message;
    EXPECT_EQ(explanation.dispatchCount, needs.dispatchCount) << name;
    EXPECT_EQ(explanation.chunkCount, needs.chunkCount) << name;
    EXPECT_EQ(explanation.pipelineCount, needs.pipelineCount) << name;
    EXPECT_EQ(explanation.workspaceBytes, needs.workspaceBytes) << name;

    const uint64_t alignment = std::max(caps.minStorageBufferOffsetAlignment, 4u);
    vkattn_binding bindings[VKATTN_ROLE_LIMIT] = {};
    std::vector<vkattn_binding> bound;
    for (uint32_t n = 0; n < VKATTN_ROLE_LIMIT; ++n) {
        const auto role = static_cast<vkattn_role>(n);
        const uint64_t bytes = role == VKATTN_WORKSPACE ? needs.workspaceBytes : vkattnOperationBytes(&operation, role);
        bindings[n] = {role, reinterpret_cast<VkBuffer>(uintptr_t{0x1000} + n), alignment * between(random, 0, 100000), bytes};
        if (bytes) bound.push_back(bindings[n]);
    }
    FakeCommands commands;
    FakePool pool(needs.descriptorSetCount, needs.storageDescriptorCount);
    vkattn_record record{};
    record.structSize = sizeof record;
    record.allowCompile = 1;
    record.commandBuffer = commands.handle();
    record.bindings = bound.data();
    record.bindingCount = static_cast<uint32_t>(bound.size());
    if (!fake.pushDescriptors) record.descriptorPool = pool.handle();

    std::vector<uint32_t> sliceOf;
    for (record.sliceIndex = 0; record.sliceIndex < slices; ++record.sliceIndex) {
        ASSERT_EQ(vkattnRecordOperation(context.handle(), &operation, &record, &why), VKATTN_OK) << name << ": " << why.message;
        sliceOf.resize(commands.dispatches.size(), record.sliceIndex);
    }
    EXPECT_EQ(commands.error, nullptr) << name << ": " << commands.error;
    EXPECT_EQ(fake.error.load(), nullptr) << name << ": " << fake.error.load();
    ASSERT_EQ(commands.dispatches.size(), description.count) << name;
    EXPECT_EQ(pool.taken, needs.descriptorSetCount) << name;
    EXPECT_EQ(pool.descriptorsLeft, 0u) << name;

    std::map<uint64_t, const FakePipeline *> pipelineOf;
    std::set<vkattn_role> written;
    for (uint32_t n = 0; n < description.count; ++n) {
        const vkattn_dispatch &said = description.list[n];
        ASSERT_TRUE(description.inside(&said, sizeof said) &&
                    description.inside(said.operands, said.operandCount * sizeof *said.operands) &&
                    description.inside(said.pushConstants, said.pushConstantBytes) &&
                    description.inside(said.specialization->pData, said.specialization->dataSize))
            << name;
        compareDispatch(said, commands.dispatches[n], caps, operation, bindings, needs.workspaceBytes, name);
        EXPECT_EQ(said.slice, sliceOf[n]) << name;
        EXPECT_EQ(pipelineOf.try_emplace(said.pipelineKey, commands.dispatches[n].pipeline).first->second, commands.dispatches[n].pipeline)
            << name;
        for (uint32_t o = 0; o < said.operandCount; ++o)
            if (said.operands[o].writes) written.insert(said.operands[o].role);
        subgroups += said.requireFullSubgroups;
    }
    EXPECT_EQ(pipelineOf.size(), needs.pipelineCount) << name;
    written.erase(VKATTN_WORKSPACE);
    EXPECT_EQ(written, description.count ? outputsOf(operation) : std::set<vkattn_role>{}) << name;
    ++recorded;
    dispatches += description.count;
    chunked += needs.chunkCount > 1;
}

} // namespace

TEST(Describe, saysWhatIsRecorded) {
    Random random = randomFor("describe");
    Comparison comparison;
    for (Case &c : caseMatrix(random, true)) {
        c.kernel = anyKernel(random);
        Random own = randomFor(c.name);
        const auto instance = makeCaseData(c, own);
        const uint64_t limits = oneOf<uint64_t>(random, {0, 0, 4096, 65536});
        comparison.compare(instance->problem, randomCaps(random), limits, random, c.name);
        comparison.compare(instance->problem, strongCaps(), 0, random, c.name + " strong");
    }
    std::printf("%u problems of %u dispatches are the same, %zu pipelines, %u in chunks; %u refused for the same reason\n",
                comparison.recorded, comparison.dispatches, comparison.constantsOfKey.size(), comparison.chunked, comparison.refused);
    EXPECT_GT(comparison.recorded, 500u);
    EXPECT_GT(comparison.chunked, 50u);
    EXPECT_GT(comparison.refused, 50u);
    EXPECT_GT(comparison.required, 20u);
}

// Also on devices of four buffers, which take several steps, and where boxes are cut. Nearly all of
// the drawn caps are limits that some real device has.
TEST(Describe, saysWhatIsRecordedOfOtherOperations) {
    Random random = randomFor("describe operations");
    Comparison comparison;
    uint32_t gathered = 0;
    for (int n = 0; n < 1000 && !HasFatalFailure(); ++n) {
        OperationCase drawn = drawOperation(random, otherKind(n));
        const std::string name = "operation " + std::to_string(n) + ", " + drawn.text() + "\n";
        const vkattn_operation operation = drawn.operation();
        vkattn_caps weak{};
        weak.structSize = sizeof weak;
        ASSERT_EQ(vkattnMinimumCaps(&weak, nullptr), VKATTN_OK);
        comparison.compare(operation, randomCaps(random), oneOf<uint64_t>(random, {0, 0, 4096, 65536}), random, name);
        comparison.compare(operation, weak, oneOf<uint64_t>(random, {0, 4096}), random, name + "weak ");
        vkattn_caps narrow = weak;
        for (uint32_t &count : narrow.maxWorkgroupCount) count = 12;
        narrow.maxStorageBufferRange = 4096;
        comparison.compare(operation, narrow, 0, random, name + "narrow ");
        // One box: the dispatches are its steps, each of which reads what the one before has written.
        const Description steps(weak, 0, operation);
        for (uint32_t d = 0; d < steps.count; ++d) EXPECT_EQ(steps.list[d].barrierBefore, d > 0 ? 1u : 0u) << name;
        gathered += steps.whole.workspaceBytes != 0;
        // Boxes of one step each share nothing, but for merges: their output may be in place of parts that
        // other boxes' reads span. Boxes of several steps have a workspace here, or add a residual in place
        // to what the step before has written.
        vkattn_caps cut = strongCaps();
        cut.maxStorageBufferRange = 16384;
        const Description boxes(cut, 0, operation);
        const bool inPlace = operation.kind == VKATTN_MERGE || (operation.kind == VKATTN_NORM_GRADIENT && drawn.has(VKATTN_RESIDUAL));
        const bool shares = boxes.whole.workspaceBytes != 0 || inPlace;
        for (uint32_t d = 0; d < boxes.count; ++d) EXPECT_EQ(boxes.list[d].barrierBefore, shares && d > 0 ? 1u : 0u) << name;
    }
    std::printf("%u operations of %u dispatches are the same, %zu pipelines, %u in chunks, %u gathered; %u refused for the same reason\n",
                comparison.recorded, comparison.dispatches, comparison.constantsOfKey.size(), comparison.chunked, gathered,
                comparison.refused);
    EXPECT_GT(comparison.recorded, 1000u);
    EXPECT_GT(comparison.chunked, 100u);
    EXPECT_GT(gathered, 100u);
    EXPECT_GT(comparison.refused, 5u);
}

TEST(Describe, saysWhatIsRecordedOfStatistics) {
    Random random = randomFor("describe statistics");
    Comparison comparison;
    for (int n = 0; n < 250 && !HasFatalFailure(); ++n) {
        StatisticsCase drawn = drawStatistics(random, randomCase(random, 5), drawStatisticsOptions(random));
        drawn.attention.sliceCount = drawSlices(random);
        const std::string name = "statistics " + std::to_string(n) + ", " + drawn.text() + "\n";
        comparison.compare(drawn.operation(), randomCaps(random), oneOf<uint64_t>(random, {0, 0, 1, 1024}), random, name);
        comparison.compare(drawn.operation(), strongCaps(), 0, random, name + "strong ");
    }
    std::printf("%u statistics of %u dispatches are the same, %zu pipelines, %u in chunks; %u refused for the same reason\n",
                comparison.recorded, comparison.dispatches, comparison.constantsOfKey.size(), comparison.chunked, comparison.refused);
    EXPECT_GT(comparison.recorded, 250u);
    EXPECT_GT(comparison.chunked, 10u);
    EXPECT_GT(comparison.refused, 50u); // too few storage buffers
}

TEST(Describe, requiresFullSubgroupsWhereWorkgroupsAreWholeOnes) {
    const vkattn_layout t = packed(VKATTN_F32, 1, 2, 40, 64);
    const vkattn_problem p = problem(t, t, t, t);
    vkattn_caps caps = strongCaps();
    const auto required = [&] {
        const Description description(caps, 0, operation(p));
        EXPECT_EQ(description.result, VKATTN_OK) << description.why.message;
        EXPECT_EQ(description.count, 1u);
        return description.count ? description.list[0].requireFullSubgroups : 2;
    };
    EXPECT_EQ(required(), 1u);
    caps.subgroupSize = 256; // the workgroup has fewer invocations
    EXPECT_EQ(required(), 0u);
    caps.subgroupSize = 32, caps.fullSubgroups = 0;
    EXPECT_EQ(required(), 0u);
    caps.fullSubgroups = 1, caps.subgroupShuffle = 0; // the shader without subgroup operations
    EXPECT_EQ(required(), 0u);
}

TEST(Describe, refusesScratchThatDoesNotFit) {
    const vkattn_layout t = packed(VKATTN_F16, 1, 2, 9, 16);
    vkattn_problem p = problem(t, t, t, t);
    p.kernel = VKATTN_KERNEL_STAGED;
    const vkattn_caps caps = strongCaps();
    vkattn_dispatch_list list{};
    vkattn_diagnostic why{};
    ASSERT_EQ(measureDispatches(caps, p, list, planOptions(0), &why), VKATTN_OK) << why.message;
    EXPECT_EQ(list.dispatchCount, 3u);
    EXPECT_EQ(list.dispatches, nullptr);
    const size_t bytes = list.scratchBytes;
    std::vector<uint64_t> memory(bytes / 8 + 1, Description::canary);
    const std::vector<uint64_t> before = memory;
    const auto refuses = [&](void *scratch, size_t room, vkattn_dispatch_list *out, const std::string &reason) {
        EXPECT_EQ(vkattnListDispatches(&caps, nullptr, &p, scratch, room, out, &why), VKATTN_ERROR_INVALID_ARGUMENT) << reason;
        EXPECT_NE(std::string(why.message).find(reason), std::string::npos) << why.message;
        EXPECT_EQ(memory, before) << reason;
        EXPECT_EQ(list.dispatches, nullptr) << reason;
    };
    refuses(memory.data(), bytes - 1, &list, "expected at least " + std::to_string(bytes));
    refuses(memory.data(), 0, &list, "scratch has 0 bytes");
    refuses(reinterpret_cast<char *>(memory.data()) + 4, bytes, &list, "multiple of 8");
    refuses(memory.data(), bytes, nullptr, "list is NULL");
    EXPECT_EQ(listDispatches(caps, p, {}, list, planOptions(0), &why), VKATTN_ERROR_INVALID_ARGUMENT) << "no scratch is too little";
    EXPECT_EQ(vkattnListDispatches(&caps, nullptr, &p, memory.data(), bytes, &list, &why), VKATTN_OK) << why.message;
    EXPECT_EQ(list.dispatches, reinterpret_cast<const vkattn_dispatch *>(memory.data()));
    EXPECT_EQ(memory.back(), Description::canary);
}

TEST(Describe, refusesWhatPlanningCannotWorkWith) {
    const vkattn_layout t = packed(VKATTN_F32, 1, 1, 3, 8);
    const vkattn_problem p = problem(t, t, t, t);
    const auto reason = [&](const vkattn_caps *caps, const void *tuning, size_t tuningBytes, const vkattn_problem *description) {
        vkattn_plan_options options{};
        options.structSize = sizeof options;
        options.tuning = tuning, options.tuningBytes = tuningBytes;
        vkattn_dispatch_list list{};
        list.structSize = sizeof list;
        vkattn_diagnostic why{};
        EXPECT_EQ(vkattnListDispatches(caps, &options, description, nullptr, 0, &list, &why), VKATTN_ERROR_INVALID_ARGUMENT);
        // The other calls that take caps refuse the same.
        vkattn_explanation plan{};
        plan.structSize = sizeof plan;
        EXPECT_EQ(vkattnExplain(caps, &options, description, &plan, nullptr), VKATTN_ERROR_INVALID_ARGUMENT);
        FakeVulkan fake;
        vkattn_host host = fake.host();
        host.capsLimit = caps;
        Context context;
        if (caps && caps->structSize && description && !tuningBytes) {
            EXPECT_EQ(context.create(host), VKATTN_ERROR_INVALID_ARGUMENT);
            EXPECT_EQ(vkattnKernelSupport(caps, VKATTN_KERNEL_STAGED, nullptr), VKATTN_ERROR_INVALID_ARGUMENT);
        }
        return std::string(why.message);
    };
    vkattn_caps caps = strongCaps();
    EXPECT_NE(reason(nullptr, nullptr, 0, &p).find("caps is NULL"), std::string::npos);
    EXPECT_NE(reason(&caps, nullptr, 0, nullptr).find("problem is NULL"), std::string::npos);
    EXPECT_NE(reason(&caps, nullptr, 5, &p).find("tuning is NULL"), std::string::npos);
    EXPECT_NE(reason(&caps, "nonsense", 8, &p).find("tuning"), std::string::npos);
    caps.structSize = 0;
    EXPECT_NE(reason(&caps, nullptr, 0, &p).find("structSize is 0"), std::string::npos);
    caps = strongCaps(), caps.minStorageBufferOffsetAlignment = 48;
    EXPECT_NE(reason(&caps, nullptr, 0, &p).find("is 48, expected a power of two"), std::string::npos);
    caps = strongCaps(), caps.subgroupSize = 24;
    EXPECT_NE(reason(&caps, nullptr, 0, &p).find("subgroupSize is 24"), std::string::npos);
    caps.subgroupSize = 0; // lanes that are divided by
    EXPECT_NE(reason(&caps, nullptr, 0, &p).find("subgroupSize is 0"), std::string::npos);
}

// Caps of any bytes: an answer, never a crash.
TEST(Describe, survivesCapsOfAnyBytes) {
    Random random = randomFor("describe any caps");
    uint32_t taken = 0;
    for (int n = 0; n < 20000; ++n) {
        const vkattn_layout t =
            packed(random() % 2 ? VKATTN_F32 : VKATTN_F16, between(random, 1, 3), 4, between(random, 0, 300), between(random, 1, 600));
        vkattn_problem p = problem(t, t, t, t);
        p.kernel = anyKernel(random);
        if (random() % 4 == 0) p.flags |= VKATTN_DETERMINISTIC;
        vkattn_caps caps = strongCaps();
        auto *words = reinterpret_cast<uint32_t *>(&caps);
        for (size_t w = 1; w < sizeof caps / 4; ++w)
            if (random() % 6 == 0)
                words[w] = random() % 2 ? oneOf(random, {0u, 1u, 2u, 127u, UINT32_MAX, 1u << 31})
                                        : static_cast<uint32_t>(random() >> between(random, 32, 63));
        vkattn_dispatch_list list{};
        if (measureDispatches(caps, p, list, planOptions(random() % 2 ? 0 : random() >> between(random, 0, 63))) != VKATTN_OK ||
            list.scratchBytes > 1 << 20)
            continue;
        std::vector<std::byte> memory(list.scratchBytes);
        if (listDispatches(caps, p, memory, list) == VKATTN_OK) ++taken;
    }
    EXPECT_GT(taken, 1000u);
}

TEST(Describe, saysWhatIsRecordedOfLinearAttention) {
    Random random = randomFor("describe linear attention");
    Comparison comparison;
    for (int n = 0; n < 200 && !HasFatalFailure(); ++n) {
        LinearCase drawn = drawLinear(random);
        const std::string name = "linear " + std::to_string(n) + ", " + drawn.text() + "\n";
        comparison.compare(drawn.operation(), randomCaps(random), oneOf<uint64_t>(random, {0, 0, 1, 1024}), random, name);
        comparison.compare(drawn.operation(), strongCaps(), 0, random, name + "strong ");
    }
    std::printf("%u scans of %u dispatches are the same, %zu pipelines, %u in chunks; %u refused for the same reason\n",
                comparison.recorded, comparison.dispatches, comparison.constantsOfKey.size(), comparison.chunked, comparison.refused);
    EXPECT_GT(comparison.recorded, 200u);
    EXPECT_GT(comparison.refused, 40u); // too few storage buffers
}

TEST(Describe, saysWhatIsRecordedOfVisibleBlocks) {
    Random random = randomFor("describe visible blocks");
    Comparison comparison;
    for (int n = 0; n < 250 && !HasFatalFailure(); ++n) {
        const VisibleBlocksCase drawn = drawVisibleBlocks(random, randomCase(random, 5));
        const std::string name = "visible blocks " + std::to_string(n) + ", " + drawn.text() + "\n";
        comparison.compare(drawn.operation(), randomCaps(random), oneOf<uint64_t>(random, {0, 0, 1, 1024}), random, name);
        comparison.compare(drawn.operation(), strongCaps(), 0, random, name + "strong ");
    }
    std::printf("%u lists of blocks of %u dispatches are the same, %zu pipelines, %u in chunks; %u refused for the same reason\n",
                comparison.recorded, comparison.dispatches, comparison.constantsOfKey.size(), comparison.chunked, comparison.refused);
    EXPECT_GT(comparison.recorded, 250u);
    EXPECT_GT(comparison.refused, 50u); // too few storage buffers
}
