// A vkattn_context: a device's function table, caps, pipeline caches and pipelines.
#pragma once

#include "core/device/callbacks.hpp"
#include "core/device/device_table.hpp"
#include "core/plan/plan.hpp"
#include "core/vulkan/cache.hpp"
#include "core/vulkan/pipelines.hpp"

#include <atomic>
#include <optional>

namespace vkattn {

class DeviceContext {
  public:
    // Allocates the context from host.allocator, or else from malloc.
    [[nodiscard]] static vkattn_result create(const vkattn_host &host, DeviceContext *&out, vkattn_diagnostic *why);
    static void destroy(DeviceContext *context);

    // The limits at the time when the context was created.
    [[nodiscard]] const PlanLimits &limits() const { return limits_; }
    // Returns the limits that plans are made from now: limits() with the verdicts of this moment.
    // The limits are copied into the room only where they differ.
    [[nodiscard]] const PlanLimits &planLimits(std::optional<PlanLimits> &room) const;
    void setVerdict(const Kernel &kernel, vkattn_verdict verdict); // any thread
    void setExactHalves(bool exact) { exactHalves_.store(exact, std::memory_order_relaxed); }
    // Whether the host's capsLimit leaves it open.
    [[nodiscard]] bool mayHaveExactHalves() const { return mayHaveExactHalves_; }
    [[nodiscard]] VkDevice device() const { return device_; }
    [[nodiscard]] const DeviceTable &table() const { return table_; }
    [[nodiscard]] Pipelines &pipelines() { return pipelines_; }
    [[nodiscard]] PipelineCaches &caches() { return caches_; }
    [[nodiscard]] const Log &log() const { return log_; }
    [[nodiscard]] ZoneCallback zoneCallback() const { return zone_; }
    [[nodiscard]] bool firstNotReady() { return !saidNotReady_.exchange(true, std::memory_order_relaxed); }

  private:
    DeviceContext() = default;
    [[nodiscard]] vkattn_result initialise(const vkattn_host &host, vkattn_diagnostic *why);

    VkAllocationCallbacks allocator_{};
    bool hostAllocated_ = false;
    VkDevice device_ = VK_NULL_HANDLE;
    Log log_;
    ZoneCallback zone_ = nullptr;
    PlanLimits limits_{};
    // caps.wrongKernels | caps.slowKernels << slowShift: one word, so that both change at once
    std::atomic<uint32_t> verdicts_{0};
    std::atomic<bool> exactHalves_{false};
    bool mayHaveExactHalves_ = true;
    std::atomic<bool> saidNotReady_{false};
    DeviceTable table_;
    PipelineCaches caches_;
    Pipelines pipelines_;
};

} // namespace vkattn
