// Settings of pipelines whose shaders use subgroup operations, on devices where the host enabled
// computeFullSubgroups.
#pragma once

#include "core/plan/plan.hpp"
#include "lib/interop.h"

namespace vkattn {

struct SubgroupStage {
    VkPipelineShaderStageCreateFlags flags;
    uint32_t requiredSize; // 0: no required size
};

// `deviceSize` is what the device runs where no size is required: caps.subgroupSize, but where a
// host limits that (vkattn_host::capsLimit).
//
// flash/lanes.comp shuffles among neighbours in gl_LocalInvocationID.x and, where loads are shared
// (sourceShuffled), among all of caps.subgroupSize lanes: lane e of the subgroup must exist and
// must have loaded the e-th element. A Vulkan driver that has a choice of widths may report one
// size and run narrower or partly filled subgroups. Whole subgroups rule out empty lanes; a
// required size pins the width that the plan was made for. With one width only there is nothing to
// pin.
//
// flash/matrices.comp and flash/matrices2.comp give each subgroup a part of the tile: the plan says
// how wide they are (its first own constant), and all must be whole.
[[nodiscard]] constexpr SubgroupStage subgroupStage(const PipelineKey &key, const Caps &caps, uint32_t deviceSize) {
    const Subgroups use = infoOf(key.module).subgroups;
    if (!caps.fullSubgroups || use == Subgroups::none) return {};
    const bool matrices = use == Subgroups::lanes;
    const uint32_t invocations = key.constants[0]; // workgroups extend in x alone
    const uint32_t wanted = matrices ? key.constants[interop::firstOwnConstant] : caps.subgroupSize;
    const bool allowed = caps.minSubgroupSize > 0 && caps.minSubgroupSize <= wanted && wanted <= caps.maxSubgroupSize &&
                         (wanted & (wanted - 1)) == 0 && invocations <= uint64_t{wanted} * caps.maxWorkgroupSubgroups;
    const bool pinned = allowed && (matrices || caps.minSubgroupSize < caps.maxSubgroupSize);
    const uint32_t required = pinned ? wanted : 0, actual = pinned ? wanted : deviceSize;
    // By the rules of valid usage x is a multiple of the subgroup size. Tiles that shuffle among
    // fewer lanes need no whole subgroups, and are right without them.
    const bool whole = actual > 0 && invocations % actual == 0;
    return {whole ? VkPipelineShaderStageCreateFlags{VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT} : 0, required};
}

} // namespace vkattn
