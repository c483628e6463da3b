// The self-test compares a kernel with the staged kernel on the same small problems: does this
// driver compute the kernel right? Nothing is kept between the calls: each call finds the same
// problems, and the same places in the buffer, from the context's caps.
#pragma once

#include "core/vulkan/context.hpp"

namespace vkattn {

struct SelfTestTarget {
    VkCommandBuffer commandBuffer;
    VkDescriptorPool descriptorPool;
    VkBuffer buffer;
    VkDeviceSize offset;
};

// Implementations of the functions of vkattn.h; `kernel` is neither AUTO nor STAGED.
[[nodiscard]] vkattn_result querySelfTest(const DeviceContext &context, const Kernel &kernel, vkattn_self_test &out,
                                          vkattn_diagnostic *why);
[[nodiscard]] vkattn_result fillSelfTest(const DeviceContext &context, const Kernel &kernel, void *mapped, vkattn_diagnostic *why);
[[nodiscard]] vkattn_result recordSelfTest(DeviceContext &context, const Kernel &kernel, const SelfTestTarget &target,
                                           vkattn_diagnostic *why);
[[nodiscard]] vkattn_result judgeSelfTest(DeviceContext &context, const Kernel &kernel, const void *mapped, vkattn_verdict &verdict,
                                          vkattn_diagnostic *why);

} // namespace vkattn
