// How pipelines of shaders with subgroup operations are created where the host enabled computeFullSubgroups.
#pragma once

#include "core/plan.hpp"

namespace vkattn {

// What such pipelines may ask for; all 0 where fullSubgroups is.
struct SubgroupSizes {
    uint32_t size;                  // gl_SubgroupSize without a required one
    uint32_t smallest, largest;     // that may be required; 0: none
    uint32_t maxWorkgroupSubgroups; // of a workgroup with a required size
};

struct SubgroupStage {
    VkPipelineShaderStageCreateFlags flags;
    uint32_t requiredSize; // 0: none
};

// flash.comp shuffles among neighbours in gl_LocalInvocationID.x and, where loads are shared (sourceShuffled), among all of
// caps.subgroupSize lanes: lane e of the subgroup must exist and must have loaded the e-th element. A Vulkan driver that has a choice of
// widths may report one size and run narrower or partly filled subgroups. Whole subgroups rule out empty lanes; a required size pins the
// width that the plan was made for. With one width only there is nothing to pin.
[[nodiscard]] constexpr SubgroupStage subgroupStage(const PipelineKey &key, const Caps &caps, const SubgroupSizes &sizes) {
    if (!caps.fullSubgroups || (key.stage != Stage::flashPlainSubgroups && key.stage != Stage::flashSubgroups)) return {};
    const uint32_t invocations = key.constants[0], wanted = caps.subgroupSize; // workgroups extend in x alone
    const bool choice = sizes.smallest < sizes.largest && sizes.smallest <= wanted && wanted <= sizes.largest &&
                        (wanted & (wanted - 1)) == 0 && invocations <= uint64_t{wanted} * sizes.maxWorkgroupSubgroups;
    const uint32_t required = choice ? wanted : 0, actual = choice ? wanted : sizes.size;
    // Valid usage: x is a multiple of the subgroup size. Tiles that shuffle among fewer lanes need not be, and are right without.
    const bool whole = actual > 0 && invocations % actual == 0;
    return {whole ? VkPipelineShaderStageCreateFlags{VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT} : 0, required};
}

} // namespace vkattn
