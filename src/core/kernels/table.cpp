// The table of kernels, and which of them AUTO takes. A kernel is known here, in its own file, and
// nowhere else.
#include "core/plan/kernel.hpp"

#include "core/kernels/coopmat.hpp"
#include "core/kernels/flash.hpp"
#include "core/kernels/staged.hpp"
#include "core/plan/slices.hpp"
#include "core/shaders/shaders.hpp"
#include "util/diagnostic.hpp"

#include <algorithm>
#include <cstring>

namespace vkattn {
namespace {

constexpr Kernel table[] = {
    {.id = VKATTN_KERNEL_STAGED,
     .name = "staged",
     .zone = "vkattn staged",
     .traits = VKATTN_KERNEL_TRAIT_WEIGHTS,
     .tiles = TileList::none,
     .plainSlots = true,
     .onePassOverKeys = false,
     .supported = staged::supported,
     .makePlan = staged::makePlan,
     .dispatchesPerRowChunk = staged::dispatchesPerRowChunk,
     .dispatch = staged::dispatch,
     .rounding = nullptr,
     .suits = nullptr, // what AUTO takes where no other kernel can
     .explain = staged::explain,
     .whyChosen = staged::whyChosen,
     .whyNotChosen = staged::whyNotChosen},
    {.id = VKATTN_KERNEL_FLASH,
     .name = "flash",
     .zone = "vkattn flash",
     .traits = 0,
     .tiles = TileList::flash,
     .plainSlots = false,
     .onePassOverKeys = true,
     .supported = flash::supported,
     .makePlan = flash::makePlan,
     .dispatchesPerRowChunk = flash::dispatchesPerRowChunk,
     .dispatch = flash::dispatch,
     .rounding = nullptr,
     .suits = flash::suits,
     .explain = flash::explain,
     .whyChosen = flash::whyChosen,
     .whyNotChosen = flash::whyNotChosen},
    {.id = VKATTN_KERNEL_DECODE,
     .name = "decode",
     .zone = "vkattn decode",
     .traits = 0,
     .tiles = TileList::decode,
     .plainSlots = false,
     .onePassOverKeys = true,
     .supported = flash::supported,
     .makePlan = flash::makePlan,
     .dispatchesPerRowChunk = flash::dispatchesPerRowChunk,
     .dispatch = flash::dispatch,
     .rounding = nullptr,
     .suits = decode::suits,
     .explain = flash::explain,
     .whyChosen = decode::whyChosen,
     .whyNotChosen = decode::whyNotChosen},
    {.id = VKATTN_KERNEL_FLASH_COOPMAT,
     .name = "flash_coopmat",
     .zone = "vkattn flash_coopmat",
     .traits = VKATTN_KERNEL_TRAIT_MATRIX_UNITS,
     .tiles = TileList::matrix,
     .plainSlots = false,
     .onePassOverKeys = true,
     .supported = coopmat::supported,
     .makePlan = flash::makePlan,
     .dispatchesPerRowChunk = flash::dispatchesPerRowChunk,
     .dispatch = flash::dispatch,
     .rounding = coopmat::rounding,
     .suits = coopmat::suits,
     .explain = coopmat::explain,
     .whyChosen = coopmat::whyChosen,
     .whyNotChosen = coopmat::whyNotChosen},
    // For those who ask: flash_coopmat2 has not been timed on any GPU.
    {.id = VKATTN_KERNEL_FLASH_COOPMAT2,
     .name = "flash_coopmat2",
     .zone = "vkattn flash_coopmat2",
     .traits = VKATTN_KERNEL_TRAIT_MATRIX_UNITS,
     .tiles = TileList::matrix,
     .plainSlots = false,
     .onePassOverKeys = true,
     .supported = coopmat::supported,
     .makePlan = flash::makePlan,
     .dispatchesPerRowChunk = flash::dispatchesPerRowChunk,
     .dispatch = flash::dispatch,
     .rounding = coopmat::rounding,
     .suits = nullptr,
     .explain = coopmat::explain,
     .whyChosen = nullptr,
     .whyNotChosen = coopmat::whyNeverChosen},
};
static_assert(std::all_of(std::begin(table), std::end(table),
                          [](const Kernel &kernel) { return kernel.id > 0 && kernel.id < mostKernels; }));

// The order in which AUTO asks; the baseline comes after all of them (docs/performance.md).
constexpr vkattn_kernel order[] = {VKATTN_KERNEL_FLASH_COOPMAT, VKATTN_KERNEL_DECODE, VKATTN_KERNEL_FLASH};

// What VKATTN_KERNELS (CMake) does not name.
constexpr const char *leftOut[] = {
#include "vkattn_kernels_left_out.inc"
    ""};

constexpr const Plan &planOf(const Schedule &schedule) {
    return static_cast<const Plan &>(schedule);
}

uint32_t operandsOf(const Schedule &schedule, BoundOperand *out) {
    const Problem &problem = planOf(schedule).problem;
    uint32_t count = 0;
    for (const OperandRule &rule : operandTable)
        if (problem.uses(rule.role))
            out[count++] = {rule.role, rule.name, rule.layout ? &problem.tensor(rule.role) : nullptr, problem.bytesUsed(rule.role),
                            rule.output};
    return count;
}

constexpr ScheduleType attentionSchedule = {
    .what = "problem",
    .operands = operandsOf,
    .inPlace =
        [](const Schedule &, vkattn_role output, vkattn_role input) {
            return (output == VKATTN_OUT && input == VKATTN_PRIOR_OUT) || (output == VKATTN_LSE && input == VKATTN_PRIOR_LSE);
        },
    .dispatch = [](const Schedule &schedule, uint32_t index) { return planOf(schedule).dispatch(index); },
    .pipelines = [](const Schedule &schedule) { return planOf(schedule).pipelines(); },
    .storageDescriptorCount = [](const Schedule &schedule) { return planOf(schedule).storageDescriptorCount(); },
    .slice = [](const Schedule &schedule, uint32_t index) { return dispatchesOfSlice(planOf(schedule), index); },
    .sliceOf = [](const Schedule &schedule, uint32_t dispatch) { return sliceOfDispatch(planOf(schedule), dispatch); },
};

} // namespace

std::span<const Kernel> allKernels() {
    return table;
}

const Kernel *findKernel(vkattn_kernel id) {
    for (const Kernel &kernel : table)
        if (kernel.id == id) return &kernel;
    return nullptr;
}

const Kernel &baseline() {
    return table[0];
}

vkattn_result checkAvailable(const Kernel &kernel, const Caps &caps, vkattn_diagnostic *why) {
    for (const char *name : leftOut)
        if (std::strcmp(kernel.name, name) == 0)
            return fail(why, VKATTN_ERROR_UNSUPPORTED,
                        "the %s kernel is not in this build: VKATTN_KERNELS did not name it when vkattn was configured", kernel.name);
    if (!(caps.wrongKernels >> kernel.id & 1u)) return VKATTN_OK;
    return fail(why, VKATTN_ERROR_UNSUPPORTED, "the self-test of the %s kernel failed on this device and driver; take another kernel",
                kernel.name);
}

vkattn_result makePlanFor(const Kernel &kernel, const Problem &problem, const PlanLimits &limits, Plan &out, vkattn_diagnostic *why) {
    if (const auto r = checkAvailable(kernel, limits.caps, why)) return r;
    if (problem.writesPairs() && !(kernel.traits & VKATTN_KERNEL_TRAIT_WEIGHTS))
        return fail(why, VKATTN_ERROR_UNSUPPORTED, "the %s kernel never has the %s in memory; only the staged kernel writes them",
                    kernel.name, problem.tensor(VKATTN_WEIGHTS).present() ? "weights" : "scores");
    if (const auto r = kernel.makePlan(kernel, problem, limits, out, why)) return r;
    out.type = &attentionSchedule;
    out.kernelName = kernel.name;
    out.zone = kernel.zone;
    out.slices = problem.slices;
    return problem.program.hooks == 0 ? VKATTN_OK : checkProgram(problem, out.pipelines(), kernel.name, why);
}

vkattn_result makePlan(const Problem &problem, const PlanLimits &limits, Plan &out, vkattn_diagnostic *why) {
    if (problem.kernel != VKATTN_KERNEL_AUTO) {
        const Kernel *kernel = findKernel(problem.kernel);
        if (!kernel)
            return fail(why, VKATTN_ERROR_INVALID_ARGUMENT,
                        "problem.kernel is %d, which is no kernel; expected one of vkattnKernels, or AUTO",
                        static_cast<int>(problem.kernel));
        return makePlanFor(*kernel, problem, limits, out, why);
    }
    for (const vkattn_kernel id : order) {
        const Kernel &kernel = *findKernel(id);
        if (kernel.suits(problem, limits.tuning) && !passedOver(kernel, limits.caps) &&
            makePlanFor(kernel, problem, limits, out, nullptr) == VKATTN_OK)
            return VKATTN_OK;
    }
    return makePlanFor(baseline(), problem, limits, out, why);
}

} // namespace vkattn
