// A kernel as the planner and the recorder see it: one row of the table in core/kernels/table.cpp.
#pragma once

#include "core/plan/plan.hpp"

#include <span>

namespace vkattn {

// How far a kernel rounds the weights that it multiplies values with: relatively, and absolutely
// where they are tiny. 0: not beyond f32.
struct WeightRounding {
    float unit, floor;
};

struct Kernel {
    vkattn_kernel id;
    const char *name; // in messages, on command lines, in files of tuning data and of verdicts
    const char *zone; // around all that one vkattnRecord records
    uint32_t traits;  // vkattn_kernel_trait_bits
    TileList tiles;   // the rows of a tuning file that are about the kernel
    bool plainSlots;  // every dispatch binds the four storage buffers of Vulkan 1.0 and no more
    // A chunk of keys is one dispatch; false: the kernel goes over the chunks of keys more than
    // once.
    bool onePassOverKeys;

    // Whether the kernel can run on such a device at all; UNSUPPORTED with the reason otherwise.
    // Where the kernel takes some problems only: OK, and `why` says which.
    vkattn_result (*supported)(const Kernel &, const PlanLimits &, vkattn_diagnostic *why);
    // UNSUPPORTED with the reason where the kernel cannot take the problem.
    vkattn_result (*makePlan)(const Kernel &, const Problem &, const PlanLimits &, Plan &out, vkattn_diagnostic *why);
    uint32_t (*dispatchesPerRowChunk)(const Plan &);
    Dispatch (*dispatch)(const Plan &, uint32_t index);
    WeightRounding (*rounding)(const Plan &); // NULL: none

    // Whether AUTO should take the kernel for a problem that the kernel can compute. NULL: never.
    bool (*suits)(const Problem &, const FlashTuning &);
    // Sets what vkattn_explanation says of the plan's form, and the bytes that go through the
    // workspace.
    void (*explain)(const Plan &, vkattn_explanation &out);
    // Why AUTO has chosen the kernel.
    void (*whyChosen)(const Problem &, const FlashTuning &, char *text, size_t size);
    // Why AUTO has chosen another, though the kernel can run.
    const char *(*whyNotChosen)(const Plan &chosen, const FlashTuning &);

    [[nodiscard]] constexpr bool onMatrixUnits() const { return (traits & VKATTN_KERNEL_TRAIT_MATRIX_UNITS) != 0; }
    [[nodiscard]] WeightRounding weightRounding(const Plan &plan) const { return rounding ? rounding(plan) : WeightRounding{}; }
};

// All kernels, the baseline first.
[[nodiscard]] std::span<const Kernel> allKernels();
// NULL for AUTO and for a value that is no kernel.
[[nodiscard]] const Kernel *findKernel(vkattn_kernel id);
// The kernel that every device of Vulkan 1.0 runs, that takes every problem and is right: what the
// others are compared with.
[[nodiscard]] const Kernel &baseline();

// AUTO never takes it: its self-test failed, or others were measured to be faster.
[[nodiscard]] constexpr bool passedOver(const Kernel &kernel, const Caps &caps) {
    return ((caps.wrongKernels | caps.slowKernels) >> kernel.id & 1u) != 0;
}
// OK, or UNSUPPORTED where the kernel is not in this build, or its self-test failed.
[[nodiscard]] vkattn_result checkAvailable(const Kernel &kernel, const Caps &caps, vkattn_diagnostic *why);

// The kernel that the problem asks for. AUTO takes the first of its order (kernels/table.cpp) that
// suits and can run.
[[nodiscard]] vkattn_result makePlan(const Problem &problem, const PlanLimits &limits, Plan &out, vkattn_diagnostic *why);
// UNSUPPORTED with the reason where `kernel` cannot take the problem, or is quarantined.
[[nodiscard]] vkattn_result makePlanFor(const Kernel &kernel, const Problem &problem, const PlanLimits &limits, Plan &out,
                                        vkattn_diagnostic *why);

} // namespace vkattn
