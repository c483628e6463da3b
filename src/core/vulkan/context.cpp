#include "core/vulkan/context.hpp"

#include "core/device/host_memory.hpp"
#include "core/device/read_caps.hpp"
#include "core/plan/kernel.hpp"
#include "core/vulkan/undeclared.hpp"
#include "util/diagnostic.hpp"
#include "util/required.hpp"

#include <new>

namespace vkattn {

namespace {

constexpr uint32_t slowShift = mostKernels;
constexpr uint32_t verdictBits(const Caps &caps) {
    return caps.wrongKernels | caps.slowKernels << slowShift;
}

} // namespace

const PlanLimits &DeviceContext::planLimits(std::optional<PlanLimits> &room) const {
    const uint32_t verdicts = verdicts_.load(std::memory_order_relaxed);
    const uint32_t exactHalves = exactHalves_.load(std::memory_order_relaxed) ? 1 : 0;
    if (verdicts == verdictBits(limits_.caps) && exactHalves == limits_.caps.exactHalves) return limits_;
    room = limits_;
    room->caps.exactHalves = exactHalves;
    room->caps.wrongKernels = verdicts & ((1u << slowShift) - 1);
    room->caps.slowKernels = verdicts >> slowShift;
    return *room;
}

void DeviceContext::setVerdict(const Kernel &kernel, vkattn_verdict verdict) {
    const uint32_t wrong = 1u << kernel.id, slow = wrong << slowShift;
    const uint32_t set = verdict == VKATTN_VERDICT_WRONG ? wrong : verdict == VKATTN_VERDICT_SLOW ? slow : 0;
    uint32_t before = verdicts_.load(std::memory_order_relaxed);
    while (!verdicts_.compare_exchange_weak(before, (before & ~(wrong | slow)) | set, std::memory_order_relaxed)) {
    }
    if (verdict != VKATTN_VERDICT_TRUSTED)
        log_.warning("the %s kernel is %s", kernel.name,
                     set == wrong ? "refused from now on: its self-test failed, or the host says so"
                                  : "passed over from now on: others are faster");
}

vkattn_result DeviceContext::create(const vkattn_host &host, DeviceContext *&out, vkattn_diagnostic *why) {
    if (const auto r = requireAll({{host.instance, "host.instance"},
                                   {host.physicalDevice, "host.physicalDevice"},
                                   {host.device, "host.device"},
                                   {host.getInstanceProcAddr, "host.getInstanceProcAddr"}},
                                  why))
        return r;
    if (host.enabledExtensionCount && !host.enabledExtensions)
        return fail(why, invalid, "host.enabledExtensions is NULL with enabledExtensionCount %u", host.enabledExtensionCount);

    const VkAllocationCallbacks *allocator = host.allocator;
    void *memory = hostAllocate(allocator, sizeof(DeviceContext), alignof(DeviceContext));
    if (!memory) return fail(why, VKATTN_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for a context of %zu bytes", sizeof(DeviceContext));
    auto *context = new (memory) DeviceContext;
    if (allocator) {
        context->allocator_ = *allocator;
        context->hostAllocated_ = true;
    }
    if (const auto r = context->initialise(host, why)) {
        destroy(context);
        return r;
    }
    out = context;
    return VKATTN_OK;
}

vkattn_result DeviceContext::initialise(const vkattn_host &host, vkattn_diagnostic *why) {
    device_ = host.device;
    log_ = {host.log, host.userData};
    zone_ = host.zone;
    PhysicalDevice physical;
    if (const auto r = physical.load(host.getInstanceProcAddr, host.instance, host.physicalDevice, host.apiVersion, why)) return r;
    if (host.enabledFeatures)
        if (const auto r = checkChain(host.enabledFeatures, "host.enabledFeatures", why)) return r;
    const Enabled enabled = {physical.version, {host.enabledExtensions, host.enabledExtensionCount}, host.enabledFeatures};
    limits_.caps = readCaps(physical, enabled);
    const uint32_t deviceSubgroupSize = limits_.caps.subgroupSize;
    if (const auto r = table_.load(host, limits_.caps.pushDescriptors, why)) return r;
    if (limits_.caps.pushDescriptors && !table_.CmdPushDescriptorSet) {
        limits_.caps.pushDescriptors = 0;
        log_.warning("%s is declared as enabled, but the device does not know vkCmdPushDescriptorSetKHR: descriptor pools are used instead",
                     VK_KHR_PUSH_DESCRIPTOR_EXTENSION_NAME);
    }
    if (host.debugLabels && (!table_.CmdBeginDebugUtilsLabel || !table_.SetDebugUtilsObjectName))
        log_.warning("debugLabels is 1, but the instance does not know the functions of %s: labels or names are left out; did the instance "
                     "enable it?",
                     VK_EXT_DEBUG_UTILS_EXTENSION_NAME);
    Caps limit;
    if (host.capsLimit) {
        if (const auto r = takeCaps(*host.capsLimit, "host.capsLimit", limit, why)) return r;
        mayHaveExactHalves_ = limit.exactHalves != 0;
        limits_.caps = weakerCaps(limits_.caps, limit);
    }
    warnOfUndeclared(host, physical, limits_.caps, host.capsLimit ? &limit : nullptr, log_);
    verdicts_ = verdictBits(limits_.caps);
    limits_.maxWorkspaceBytes = host.maxWorkspaceBytes ? host.maxWorkspaceBytes : VKATTN_DEFAULT_MAX_WORKSPACE_BYTES;
    if (const auto r = baseline().supported(baseline(), limits_, why)) return r;
    limits_.tuning = flashTuning(limits_.caps);
    if (host.tuningBytes && !host.tuning)
        return fail(why, VKATTN_ERROR_INVALID_ARGUMENT, "host.tuning is NULL with tuningBytes %zu", host.tuningBytes);
    if (const auto r = readTuning(host.tuning, host.tuningBytes, limits_.tuning, why)) return r;
    vkattn_host own = host;
    own.allocator = hostAllocated_ ? &allocator_ : nullptr;
    if (const auto r = caches_.create(table_, own, physical.properties, why)) return r;
    return pipelines_.create(table_, own, limits_.caps, deviceSubgroupSize, caches_, why);
}

void DeviceContext::destroy(DeviceContext *context) {
    if (!context) return;
    context->pipelines_.destroy();
    context->caches_.destroy();
    const VkAllocationCallbacks allocator = context->allocator_;
    const bool hostAllocated = context->hostAllocated_;
    context->~DeviceContext();
    hostFree(hostAllocated ? &allocator : nullptr, context);
}

} // namespace vkattn
