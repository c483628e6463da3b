#include "core/operations/operation_plan.hpp"

#include "core/operations/operands.hpp"
#include "core/plan/chunks.hpp"
#include "core/plan/tuning/compile_cost.hpp"
#include "util/diagnostic.hpp"

#include <algorithm>
#include <cstdio>

namespace vkattn {
namespace {

const Routine &routineFor(vkattn_operation_kind kind) {
    switch (kind) {
    case VKATTN_PROJECTION:
        return projectionRoutine;
    case VKATTN_NORM:
        return normRoutine;
    case VKATTN_NORM_GRADIENT:
        return normGradientRoutine;
    case VKATTN_ROTARY:
        return rotaryRoutine;
    case VKATTN_ADVANCE:
        return advanceRoutine;
    case VKATTN_MEAN:
        return meanRoutine;
    case VKATTN_MERGE:
        return mergeRoutine;
    case VKATTN_HADAMARD:
        return hadamardRoutine;
    case VKATTN_KEEP:
        return keepRoutine;
    case VKATTN_DROP:
        return dropRoutine;
    default:
        return appendRoutine;
    }
}

// Cuts boxes until a device can bind and dispatch them.
class Cutter {
  public:
    Cutter(const OperationPlan &plan, const PlanLimits &limits)
        : plan_(plan), caps_(limits.caps), maxWorkspaceBytes_(limits.maxWorkspaceBytes) {
        std::copy_n(plan.extent, 4, box_.count);
    }

    [[nodiscard]] vkattn_result cut(uint32_t (&out)[4], vkattn_diagnostic *why) {
        for (const OperationOperand &operand : operandsOf(plan_.operation.kind)) {
            if (!plan_.operation.uses(operand.role)) continue;
            const auto bytes = [&](const OperationBox &box) { return bytesOf(plan_.operation, operand.role, box).size(); };
            if (!halveUntil(mostBindable(caps_), bytes))
                return fail(why, VKATTN_ERROR_UNSUPPORTED,
                            "%s spans %llu bytes where nothing more can be cut, over the device's maxStorageBufferRange of %u; make the "
                            "tensor denser, or use the CPU",
                            operand.name, static_cast<unsigned long long>(bytes(box_)), caps_.maxStorageBufferRange);
        }
        for (int axis = 0; axis < 3; ++axis) {
            const auto groups = [&](const OperationBox &box) {
                uint64_t count[3];
                plan_.routine->groups(plan_, box, count);
                return count[axis];
            };
            if (!halveUntil(caps_.maxWorkgroupCount[axis], groups))
                return fail(why, VKATTN_ERROR_UNSUPPORTED, "the %s takes %llu workgroups; the device's maxComputeWorkGroupCount[%d] is %u",
                            plan_.routine->name, static_cast<unsigned long long>(groups(box_)), axis, caps_.maxWorkgroupCount[axis]);
        }
        if (plan_.routine->workspaceBytes) {
            const auto bytes = [&](const OperationBox &box) { return plan_.routine->workspaceBytes(plan_, box); };
            // One row may exceed the cap (vkattn_host::maxWorkspaceBytes), but not what a binding can
            // hold.
            if (!halveUntil(std::min<uint64_t>(maxWorkspaceBytes_, mostBindable(caps_)), bytes) && bytes(box_) > mostBindable(caps_))
                return fail(why, VKATTN_ERROR_UNSUPPORTED,
                            "one row needs %llu bytes of workspace, over the device's maxStorageBufferRange of %u; use the CPU",
                            static_cast<unsigned long long>(bytes(box_)), caps_.maxStorageBufferRange);
        }
        std::copy_n(box_.count, 4, out);
        return VKATTN_OK;
    }

  private:
    // Halves the direction that brings `amount` down most until the amount is in bounds. Returns
    // false where no direction does.
    template <class Amount> bool halveUntil(uint64_t most, const Amount &amount) {
        for (uint64_t now = amount(box_); now > most;) {
            OperationBox best = box_;
            uint64_t least = now;
            for (uint32_t d = 0; d < 4; ++d) {
                if (!(plan_.routine->cuttable >> d & 1u) || box_.count[d] <= 1) continue;
                OperationBox half = box_;
                half.count[d] = halfOf(d);
                if (const uint64_t then = amount(half); then < least) least = then, best = half;
            }
            if (least == now) return false;
            box_ = best;
            now = least;
        }
        return true;
    }
    // Whole tiles, while there is more than one.
    [[nodiscard]] uint32_t halfOf(uint32_t dimension) const {
        const uint32_t half = box_.count[dimension] - box_.count[dimension] / 2;
        const uint32_t tile = plan_.operation.kind != VKATTN_PROJECTION ? 1
                              : dimension == boxRow                     ? plan_.tile.rows()
                              : dimension == boxColumn                  ? plan_.tile.columns()
                                                                        : 1;
        const uint32_t whole = roundUp(half, tile);
        return whole < box_.count[dimension] ? whole : half;
    }

    const OperationPlan &plan_;
    const Caps &caps_;
    uint64_t maxWorkspaceBytes_;
    OperationBox box_{};
};

const OperationPlan &planOf(const Schedule &schedule) {
    return static_cast<const OperationPlan &>(schedule);
}

uint32_t boundOperands(const Schedule &schedule, BoundOperand *out) {
    const Operation &operation = planOf(schedule).operation;
    uint32_t count = 0;
    for (const OperationOperand &each : operandsOf(operation.kind))
        if (operation.uses(each.role))
            out[count++] = {each.role, each.name, each.dtypes ? &operation.tensor(each.role) : nullptr, operation.bytesUsed(each.role),
                            each.output};
    return count;
}

constexpr ScheduleType operationSchedule = {
    .what = "operation",
    .operands = boundOperands,
    .inPlace = [](const Schedule &schedule, vkattn_role output,
                  vkattn_role input) { return planOf(schedule).operation.inPlace(output, input); },
    .dispatch = [](const Schedule &schedule, uint32_t index) { return planOf(schedule).dispatch(index); },
    .pipelines =
        [](const Schedule &schedule) {
            PipelineSet set; // boxes differ in push constants only
            for (uint32_t step = 0; step < std::min(planOf(schedule).steps, schedule.dispatchCount); ++step)
                set.add(planOf(schedule).dispatch(step).key);
            return set;
        },
    .storageDescriptorCount =
        [](const Schedule &schedule) {
            const OperationPlan &plan = planOf(schedule);
            uint64_t count = 0;
            for (uint32_t step = 0; step < std::min(plan.steps, plan.dispatchCount); ++step)
                count += infoOf(plan.dispatch(step).key.module).slots;
            return count * (plan.dispatchCount / plan.steps);
        },
    .slice = nullptr,
    .sliceOf = nullptr,
};

} // namespace

OperationBox OperationPlan::boxAt(uint32_t index) const {
    OperationBox at{};
    for (int d = 3; d >= 0; --d) {
        at.first[d] = index % boxes[d] * box[d];
        at.count[d] = std::min(box[d], extent[d] - at.first[d]);
        index /= boxes[d];
    }
    return at;
}

Dispatch OperationPlan::dispatch(uint32_t index) const {
    const uint32_t step = index % steps;
    Dispatch d;
    routine->dispatch(*this, boxAt(index / steps), step, d);
    d.operandCount = infoOf(d.key.module).slots;
    // The next step reads what this one gathers, and the next box gathers in the same place.
    d.barrierBefore = index > 0 && (steps > 1 || routine->boxesSpanOthers);
    return d;
}

vkattn_result planOperation(const Operation &operation, const PlanLimits &limits, OperationPlan &out, vkattn_diagnostic *why) {
    out = OperationPlan{};
    out.operation = operation;
    out.routine = &routineFor(operation.kind);
    beginSchedule(out, operationSchedule, out.routine->name, out.routine->zone, 1, limits.caps);
    uint32_t rows = operation.rows;
    // What a number sends past the end of the cache is known here.
    if (operation.appends() && !operation.has(VKATTN_STARTS) && !operation.ring())
        rows = std::min(rows, operation.cacheRows - std::min(operation.cacheRows, operation.start));
    if (operation.appends() && operation.cacheRows == 0) rows = 0;
    const uint32_t columns = operation.kind == VKATTN_PROJECTION ? operation.out
                             : operation.kind == VKATTN_KEEP     ? operation.inner
                                                                 : std::max(operation.poolPages, 1u);
    const uint32_t extent[4] = {operation.batch, operation.groups, rows, columns};
    std::copy_n(extent, 4, out.extent);
    out.plain = limits.caps.maxStorageBuffersPerStage < operationSlots;
    out.steps = 1;
    out.choice = "it is the only form";
    if (const auto r = out.routine->layOut(out, limits.caps, why)) return r;
    if (rows == 0) return VKATTN_OK; // nothing to write
    if (const auto r = Cutter(out, limits).cut(out.box, why)) return r;
    double count = out.steps;
    for (int d = 0; d < 4; ++d) {
        out.boxes[d] = divideUp(extent[d], out.box[d]);
        count *= out.boxes[d];
    }
    if (count > 1e9)
        return fail(why, VKATTN_ERROR_UNSUPPORTED,
                    "the operation would take %.0f dispatches to meet the device's limits; make tensors denser or the operation smaller",
                    count);
    out.dispatchCount = static_cast<uint32_t>(count);
    const OperationBox first = out.boxAt(0);
    if (out.routine->workspaceBytes) out.workspaceBytes = out.routine->workspaceBytes(out, first);
    return VKATTN_OK;
}

void explainOperation(const OperationPlan &plan, const PlanLimits &limits, vkattn_explanation &out) {
    out = vkattn_explanation{};
    out.structSize = sizeof out;
    out.kernelName = plan.kernelName;
    out.form = "";
    if (plan.operation.kind == VKATTN_PROJECTION) out.form = projectionFormText(plan.tile.form);
    out.splits = out.sliceCount = out.maxSlices = 1;
    out.dispatchCount = plan.dispatchCount;
    out.chunkCount = plan.dispatchCount / plan.steps;
    out.pipelineCount = plan.type->pipelines(plan).size();
    out.workspaceBytes = plan.workspaceBytes;
    if (plan.operation.kind == VKATTN_PROJECTION) {
        out.rowsPerWorkgroup = plan.tile.rows();
        out.keysPerStep = plan.tile.columns();
    } else {
        out.rowsPerWorkgroup = 1;
    }
    out.workgroupInvocations = plan.lanes;
    if (plan.dispatchCount) std::copy_n(plan.dispatch(plan.steps - 1).groups, 3, out.groups);
    out.flops = out.flopsFull = plan.operation.flops();
    for (const OperationOperand &each : operandsOf(plan.operation.kind))
        (each.output ? out.bytesWritten : out.bytesRead) += static_cast<double>(plan.operation.bytesUsed(each.role).size());
    out.compileLimit = compileLimit(limits.caps);
    out.largestSlice = 1;
    std::snprintf(out.choice, sizeof out.choice, "%s%s", plan.choice,
                  !plan.gatherSteps ? ""
                  : plan.operation.has(VKATTN_KEY_LENGTHS)
                      ? "; key lengths and what the sums begin with are gathered in the workspace"
                      : "; the device has four storage buffers: what others bind is gathered in the workspace");
}

} // namespace vkattn
