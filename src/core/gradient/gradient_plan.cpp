#include "core/gradient/gradient_plan.hpp"

#include "core/kernels/explain.hpp"
#include "core/plan/chunks.hpp"
#include "core/plan/tuning/table.hpp"
#include "core/plan/work.hpp"
#include "core/shaders/shaders.hpp"
#include "util/diagnostic.hpp"

#include <algorithm>
#include <cstdio>

namespace vkattn {
namespace {

// AUTO takes the first that can run.
constexpr GradientKernel table[] = {
    {.id = VKATTN_GRADIENT_COOPMAT,
     .name = "coopmat gradient",
     .zone = "vkattn coopmat gradient",
     .choice = "q, k, v and dOut are of a type that the device's matrix units take: all products run there, in two passes over tiles",
     .suits = matrixGradient::suits,
     .makePlan = tiledGradient::makePlan,
     .dispatch = tiledGradient::dispatch,
     .steps = tiledGradient::steps,
     .shareBefore = tiledGradient::shareBefore,
     .pipelines = tiledGradient::pipelines,
     .storageDescriptorCount = tiledGradient::storageDescriptorCount,
     .explain = matrixGradient::explain,
     .rounding = matrixGradient::rounding},
    {.id = VKATTN_GRADIENT_TILES,
     .name = "tiled gradient",
     .zone = "vkattn tiled gradient",
     .choice = "it goes over tiles in two passes, with nothing of the size of queries x keys in memory",
     .suits = tiledGradient::suits,
     .makePlan = tiledGradient::makePlan,
     .dispatch = tiledGradient::dispatch,
     .steps = tiledGradient::steps,
     .shareBefore = tiledGradient::shareBefore,
     .pipelines = tiledGradient::pipelines,
     .storageDescriptorCount = tiledGradient::storageDescriptorCount,
     .explain = tiledGradient::explain,
     .rounding = nullptr},
    {.id = VKATTN_GRADIENT_STAGED,
     .name = "staged gradient",
     .zone = "vkattn staged gradient",
     .choice = "it is the only kernel of gradients that takes the problem on this device",
     .suits = nullptr,
     .makePlan = stagedGradient::makePlan,
     .dispatch = stagedGradient::dispatch,
     .steps = stagedGradient::steps,
     .shareBefore = stagedGradient::shareBefore,
     .pipelines = stagedGradient::pipelines,
     .storageDescriptorCount = stagedGradient::storageDescriptorCount,
     .explain = nullptr,
     .rounding = nullptr},
};

constexpr const GradientPlan &planOf(const Schedule &schedule) {
    return static_cast<const GradientPlan &>(schedule);
}

uint32_t boundOperands(const Schedule &schedule, BoundOperand *out) {
    const Gradient &g = planOf(schedule).gradient;
    uint32_t count = 0;
    const auto add = [&](vkattn_role role, const char *name, bool tensor, bool output) {
        if (g.uses(role)) out[count++] = {role, name, tensor ? &g.tensor(role) : nullptr, g.bytesUsed(role), output};
    };
    for (const OperandRule &rule : operandTable) add(rule.role, rule.name, rule.layout != nullptr, false);
    for (const GradientOperand &each : gradientOperands()) add(each.role, each.name, each.layout != nullptr, each.output);
    return count;
}

PipelineSet pipelinesOf(const GradientPlan &plan) {
    return withProgram(plan.problem(), plan.kernel->pipelines(plan));
}

constexpr ScheduleType gradientSchedule = {
    .what = "gradient",
    .operands = boundOperands,
    .inPlace = nullptr,
    .dispatch =
        [](const Schedule &schedule, uint32_t index) {
            const GradientPlan &plan = planOf(schedule);
            return dispatchWithProgram(plan.problem(), [&] { return plan.kernel->dispatch(plan, index); });
        },
    .pipelines = [](const Schedule &schedule) { return pipelinesOf(planOf(schedule)); },
    .storageDescriptorCount = [](const Schedule &schedule) { return planOf(schedule).kernel->storageDescriptorCount(planOf(schedule)); },
    .slice = [](const Schedule &schedule, uint32_t index) { return dispatchesOfSlice(sliceUnits(planOf(schedule)), index); },
    .sliceOf = [](const Schedule &schedule, uint32_t dispatch) { return sliceOfDispatch(sliceUnits(planOf(schedule)), dispatch); },
};

uint32_t unitsPerRowChunk(const GradientPlan &plan) {
    return std::max(plan.kernel->steps(plan).work, 1u);
}

// The facts of a chunk's rows lie with its first unit, sums of arrays with the last one, and what
// checks all chunks behind the very last.
uint32_t firstDispatch(const Schedule &schedule, uint32_t unit) {
    if (unit == 0) return 0;
    const GradientPlan &plan = planOf(schedule);
    const ChunkSteps steps = plan.kernel->steps(plan);
    const uint32_t perRowChunk = unitsPerRowChunk(plan), step = unit % perRowChunk;
    return plan.forward.setUpDispatches + unit / perRowChunk * steps.all() + (step ? steps.facts + step : 0);
}

double workBeforeUnit(const Schedule &schedule, uint32_t unit) {
    const GradientPlan &plan = planOf(schedule);
    const uint32_t perRowChunk = unitsPerRowChunk(plan), rowChunk = unit / perRowChunk, step = unit % perRowChunk;
    if (rowChunk == plan.rowChunks()) return totalWork(plan.problem());
    const Chunk c = rowsOfChunk(plan.forward, rowChunk);
    return workBefore(plan.forward, c) + (step ? workOf(plan.forward, c) * plan.kernel->shareBefore(plan, step) : 0);
}

vkattn_result planWith(const GradientKernel &kernel, const Gradient &gradient, const PlanLimits &limits, GradientPlan &out,
                       vkattn_diagnostic *why) {
    out = GradientPlan{};
    beginSchedule(out, gradientSchedule, kernel.name, kernel.zone, gradient.forward.slices, limits.caps);
    out.gradient = gradient;
    out.kernel = &kernel;
    out.forward.problem = gradient.forward;
    out.forward.problem.tensors[VKATTN_WEIGHTS] = {}; // not bound
    if (const auto r = startPlan(limits, out.forward, why)) return r;
    if (const auto r = kernel.makePlan(limits, out, why)) return r;
    return checkProgram(gradient.forward, pipelinesOf(out), kernel.name, why);
}

} // namespace

bool GradientPlan::needsDeltas() const {
    for (const GradientOperand &each : gradientOperands())
        if (each.output && each.role != VKATTN_D_V && each.role != VKATTN_NONFINITE && gradient.uses(each.role)) return true;
    return false;
}

vkattn_result planGradient(const Gradient &gradient, const PlanLimits &limits, GradientPlan &out, vkattn_diagnostic *why) {
    if (gradient.kernel == VKATTN_GRADIENT_AUTO) {
        for (const GradientKernel &kernel : table) {
            const bool last = &kernel == &table[std::size(table) - 1];
            if (kernel.suits && !kernel.suits(gradient, limits)) continue;
            const vkattn_result r = planWith(kernel, gradient, limits, out, last ? why : nullptr);
            if (r == VKATTN_OK || last) return r;
        }
    }
    for (const GradientKernel &kernel : table)
        if (kernel.id == gradient.kernel) return planWith(kernel, gradient, limits, out, why);
    return fail(why, VKATTN_ERROR_UNSUPPORTED,
                "this version has no kernel of gradients with the value %d; take VKATTN_GRADIENT_AUTO or VKATTN_GRADIENT_STAGED",
                static_cast<int>(gradient.kernel));
}

SliceUnits sliceUnits(const GradientPlan &plan) {
    return {plan, plan.dispatchCount ? plan.rowChunks() * unitsPerRowChunk(plan) : 0, workBeforeUnit, firstDispatch};
}

uint32_t mostSlices(const GradientPlan &plan, const PlanLimits &limits) {
    Gradient gradient = plan.gradient;
    return mostSlicesWith(plan, [&](uint32_t slices, GradientPlan &finest) {
        gradient.forward.slices = slices;
        return planWith(*plan.kernel, gradient, limits, finest, nullptr);
    });
}

void explainGradient(const GradientPlan &plan, const PlanLimits &limits, vkattn_explanation &out) {
    explainSchedule(plan, limits, plan.forward, out);
    out.chunkCount = plan.chunkCount();
    out.rowsPerWorkgroup = 1;
    out.flopsFull = plan.gradient.flops();
    out.flops = 2.5 * visibleFlops(plan.problem());
    // Scores and their gradients go through memory in each chunk.
    const double bytes = 2.0 * plan.rowChunks() * static_cast<double>(plan.workspaceBytes);
    out.bytesRead += bytes;
    out.bytesWritten += bytes;
    out.probabilityUnit = plan.rounding().unit;
    out.probabilityFloor = plan.rounding().floor;
    if (plan.kernel->explain) plan.kernel->explain(plan, out);
    std::snprintf(out.choice, sizeof out.choice, "%s",
                  plan.gradient.kernel == VKATTN_GRADIENT_AUTO ? plan.kernel->choice : "it was asked for");
}

} // namespace vkattn
