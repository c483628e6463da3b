// A schedule as a list of dispatches in the caller's memory: the dispatches that record.cpp records,
// for engines that issue commands themselves.
#include "core/vulkan/dispatch_list.hpp"

#include "core/plan/operands.hpp"
#include "core/shaders/shaders.hpp"
#include "core/shaders/subgroups.hpp"
#include "util/diagnostic.hpp"

#include <algorithm>
#include <new>

namespace vkattn {
namespace {

// The data that a vkattn_dispatch points to, except its operands.
struct alignas(8) Details {
    VkSpecializationInfo specialization;
    uint32_t constants[PipelineKey::maxConstants];
    uint32_t pushWords[sizeof(Dispatch::pushWords) / 4];
};
static_assert(alignof(vkattn_dispatch) <= 8 && sizeof(vkattn_dispatch) % 8 == 0 && alignof(Details) == 8 && sizeof(vkattn_operand) % 8 == 0,
              "the parts of the scratch memory follow each other without gaps");

// The order in the scratch memory: all vkattn_dispatch, all Details, all operands.
struct Layout {
    uint64_t details, operands, bytes;
};
Layout layoutOf(const Schedule &schedule) {
    Layout layout{};
    layout.details = uint64_t{schedule.dispatchCount} * sizeof(vkattn_dispatch);
    layout.operands = layout.details + uint64_t{schedule.dispatchCount} * sizeof(Details);
    layout.bytes = layout.operands + schedule.type->storageDescriptorCount(schedule) * sizeof(vkattn_operand);
    return layout;
}

// The key has 64 bits, so that a host can take equal keys for equal pipelines without a second
// look.
uint64_t pipelineKey(const PipelineKey &key, bool floatControlsNan, const SubgroupStage &stage) {
    uint64_t h = 0xcbf29ce484222325u;
    const auto mix = [&h](uint64_t word) {
        h = (h ^ word) * 0x9e3779b97f4a7c15u;
        h ^= h >> 32;
    };
    mix(static_cast<uint64_t>(key.module) << 8 | (floatControlsNan ? 2 : 0) | (stage.flags ? 1 : 0));
    mix(stage.requiredSize);
    mix(key.constantCount);
    if (key.programHash) mix(key.programHash);
    for (uint32_t n = 0; n < key.constantCount; ++n) mix(key.constants[n]);
    return h;
}

void writeDispatch(const Schedule &schedule, const Caps &caps, uint32_t index, vkattn_dispatch &out, Details &details,
                   vkattn_operand *operands) {
    Dispatch d = schedule.type->dispatch(schedule, index);
    const uint64_t alignment = descriptorAlignment(caps);
    for (uint32_t o = 0; o < d.operandCount; ++o) {
        const DescriptorRange range = placeOperand(d.operands[o], 0, alignment, d.pushWords);
        new (&operands[o]) vkattn_operand{d.operands[o].role, d.operands[o].writes ? 1u : 0u, range.offset, range.size};
    }

    const bool nan = caps.floatControlsNan != 0;
    const SubgroupStage stage = subgroupStage(d.key, caps, caps.subgroupSize);
    const Spirv spirv = spirvOf(d.key, nan);
    new (&details) Details{};
    std::copy_n(d.key.constants, d.key.constantCount, details.constants);
    std::copy_n(d.pushWords, d.pushBytes / 4, details.pushWords);
    details.specialization = {d.key.constantCount, constantMap.entries, d.key.constantCount * size_t{4}, details.constants};
    out = {};
    out.name = infoOf(d.key.module).name;
    out.spirv = spirv.words;
    out.spirvBytes = spirv.bytes;
    out.specialization = &details.specialization;
    out.pipelineKey = pipelineKey(d.key, nan, stage);
    out.operands = operands;
    out.operandCount = d.operandCount;
    out.requireFullSubgroups = stage.flags ? 1 : 0;
    out.requiredSubgroupSize = stage.requiredSize;
    out.pushConstants = details.pushWords;
    out.pushConstantBytes = d.pushBytes;
    std::copy_n(d.groups, 3, out.groups);
    out.barrierBefore = d.barrierBefore ? 1 : 0;
    out.slice = schedule.slices > 1 ? schedule.type->sliceOf(schedule, index) : 0;
}

} // namespace

vkattn_result writeDispatches(const Schedule &schedule, const Caps &caps, void *scratch, size_t scratchBytes, vkattn_dispatch_list &out,
                              vkattn_diagnostic *why) {
    const Layout layout = layoutOf(schedule);
    if (layout.bytes > SIZE_MAX)
        return fail(why, VKATTN_ERROR_UNSUPPORTED, "the list of %u dispatches takes %llu bytes, more than this machine can address",
                    schedule.dispatchCount, static_cast<unsigned long long>(layout.bytes));
    out.dispatchCount = schedule.dispatchCount;
    out.scratchBytes = static_cast<size_t>(layout.bytes);
    out.kernelName = schedule.kernelName;
    out.workspaceBytes = schedule.workspaceBytes;
    out.workspaceAlignment = std::max<uint64_t>(schedule.workspaceAlignment, descriptorAlignment(caps));
    if (!scratch) return VKATTN_OK;
    if (reinterpret_cast<uintptr_t>(scratch) % 8)
        return fail(why, invalid, "scratch is at an address that is no multiple of 8; align it to 8 bytes");
    if (scratchBytes < layout.bytes)
        return fail(why, invalid, "scratch has %zu bytes, expected at least %llu: call with scratch NULL for the size", scratchBytes,
                    static_cast<unsigned long long>(layout.bytes));

    auto *const bytes = static_cast<unsigned char *>(scratch);
    auto *const list = reinterpret_cast<vkattn_dispatch *>(bytes);
    auto *const details = reinterpret_cast<Details *>(bytes + layout.details);
    auto *operands = reinterpret_cast<vkattn_operand *>(bytes + layout.operands);
    for (uint32_t n = 0; n < schedule.dispatchCount; ++n) {
        new (&list[n]) vkattn_dispatch{};
        writeDispatch(schedule, caps, n, list[n], details[n], operands);
        operands += list[n].operandCount;
    }
    out.dispatches = schedule.dispatchCount ? list : nullptr;
    return VKATTN_OK;
}

} // namespace vkattn
