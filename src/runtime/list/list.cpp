// Lists of operations: what a list keeps of each step, where barriers go, and replays.
#include "runtime/list/cascade.hpp"
#include "runtime/list/recorded_list.hpp"
#include "runtime/list/step.hpp"
#include "runtime/median.hpp"

#include <algorithm>
#include <chrono>

namespace vkattn {
namespace {

// planLayer(layer, plan, why) is vkattnPlanLayer or one of its kin.
template <class Layer, class PlanLayer>
vkattn_result planned(const Layer &layer, const PlanLayer &planLayer, vkattn_layer_plan &plan, std::string *why) {
    plan.structSize = sizeof plan;
    vkattn_diagnostic diagnostic{};
    const vkattn_result result = planLayer(&layer, &plan, &diagnostic);
    return result == VKATTN_OK ? VKATTN_OK : failed(result, diagnostic.message, why);
}

} // namespace

struct OperationList::Impl {
    std::shared_ptr<Runtime::Impl> runtime;
    std::vector<std::unique_ptr<ListStep>> steps;
    std::vector<MemoryUse> unseparated; // of the steps since the last barrier
    uint64_t alignment = 4;             // of a descriptor's first byte
    std::unique_ptr<RecordedList> recorded;
    bool ready = false;      // record() was called for these steps
    uint32_t cpuThreads = 0; // of replays on the CPU
    // What prepareCpu has found: the steps compute on this pool in so much workspace.
    uint64_t preparedPool = 0, preparedBytes = 0;

    // Sets *why to what went wrong at a step.
    vkattn_result failedStep(size_t step, vkattn_result result, const std::string &reason, std::string *why) const {
        const std::string name = step < steps.size() ? steps[step]->name() : "list";
        return failed(result, "step " + std::to_string(step) + " (" + name + "): " + reason, why);
    }
    // Checks that a tensor is of this Runtime; the first that is not is named in *why.
    vkattn_result checkOwner(const DeviceTensor &tensor, std::string *why) const;
    void append(std::unique_ptr<ListStep> step);
    vkattn_result recordOnDevice(std::string *why);
    vkattn_result prepareCpu(RunResult &result, std::string *why);
    vkattn_result computeOnCpu(size_t step, std::string *why);
    vkattn_result computeOnCpu(std::string *why);
};

OperationList::OperationList(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
OperationList::OperationList(OperationList &&) noexcept = default;
OperationList &OperationList::operator=(OperationList &&) noexcept = default;
OperationList::~OperationList() = default;

OperationList Runtime::list() {
    auto impl = std::make_unique<OperationList::Impl>();
    impl->runtime = impl_;
    vkattn_caps caps{};
    caps.structSize = sizeof caps;
    if (impl_->device && vkattnContextCaps(impl_->device->context(), &caps) == VKATTN_OK)
        impl->alignment = std::max<uint64_t>(caps.minStorageBufferOffsetAlignment, 4);
    return OperationList(std::move(impl));
}

size_t OperationList::size() const {
    return impl_->steps.size();
}

size_t OperationList::barrierCount() const {
    return static_cast<size_t>(
        std::count_if(impl_->steps.begin(), impl_->steps.end(), [](const auto &step) { return step->bound.barrierBefore; }));
}

vkattn_result OperationList::add(const vkattn_operation &operation, span<const ListOperand> operands, std::string *why) {
    std::vector<StepMemory> memory;
    for (const ListOperand &operand : operands) {
        if (const auto r = impl_->checkOwner(operand.tensor, why)) return r;
        memory.push_back({operand.role, operand.tensor.memory_, operand.tensor.layout_});
    }
    auto step = std::make_unique<ListStep>();
    if (const auto r = step->describe(operation, std::move(memory), why)) return r;
    impl_->append(std::move(step));
    return VKATTN_OK;
}

vkattn_result OperationList::add(const ShaderStep &shader, std::string *why) {
    std::vector<StepMemory> memory;
    for (const ShaderTensor &each : shader.tensors) {
        if (const auto r = impl_->checkOwner(each.tensor, why)) return r;
        memory.push_back({VKATTN_X, each.tensor.memory_, each.tensor.layout_});
    }
    auto step = std::make_unique<ListStep>();
    if (const auto r = step->describe(shader, std::move(memory), why)) return r;
    if (!impl_->runtime->device && !step->hasCpu())
        return failed(invalid,
                      "the shader step '" + shader.name + "' has no CPU function, and the Runtime computes on the CPU: set ShaderStep::cpu",
                      why);
    impl_->append(std::move(step));
    return VKATTN_OK;
}

vkattn_result OperationList::add(const vkattn_layer &layer, span<const ListOperand> operands, std::string *why) {
    vkattn_layer_plan plan{};
    if (const auto r = planned(layer, vkattnPlanLayer, plan, why)) return r;
    return addSteps(plan, operands, why);
}

vkattn_result OperationList::add(const vkattn_latent_layer &layer, span<const ListOperand> operands, std::string *why) {
    vkattn_layer_plan plan{};
    if (const auto r = planned(layer, vkattnPlanLatentLayer, plan, why)) return r;
    return addSteps(plan, operands, why);
}

vkattn_result OperationList::add(const vkattn_layer_gradient &gradient, span<const ListOperand> operands, std::string *why) {
    vkattn_layer_plan plan{};
    if (const auto r = planned(gradient, vkattnPlanLayerGradient, plan, why)) return r;
    return addSteps(plan, operands, why);
}

vkattn_result OperationList::add(const CascadeOf &cascade, std::string *why) {
    std::vector<AttentionOf> attentions;
    if (const auto r = attentionsOf(cascade, attentions, why)) return r;
    const size_t before = impl_->steps.size();
    const std::vector<MemoryUse> unseparatedBefore = impl_->unseparated;
    for (size_t n = 0; n < attentions.size(); ++n) {
        std::string reason;
        const vkattn_result result = add(attentions[n], &reason);
        if (result == VKATTN_OK) continue;
        impl_->steps.resize(before);
        impl_->unseparated = unseparatedBefore;
        const std::string which = n + 1 < attentions.size() ? "level " + std::to_string(n) : std::string("the attention behind the levels");
        return failed(result, which + " of the cascade: " + reason, why);
    }
    return VKATTN_OK;
}

vkattn_result OperationList::addSteps(const vkattn_layer_plan &plan, span<const ListOperand> operands, std::string *why) {
    vkattn_result result;
    DeviceTensor between; // its layout is never looked at
    between.memory_ = TensorMemory::create(impl_->runtime, plan.betweenBytes, result, why);
    if (!between) return result;
    const size_t before = impl_->steps.size();
    const std::vector<MemoryUse> unseparatedBefore = impl_->unseparated;
    for (uint32_t n = 0; n < plan.stepCount; ++n) {
        const vkattn_layer_step &step = plan.steps[n];
        std::vector<ListOperand> memory;
        for (uint32_t o = 0; o < step.operandCount && result == VKATTN_OK; ++o) {
            const vkattn_role from = step.operands[o].from;
            const auto *const given =
                std::find_if(operands.begin(), operands.end(), [&](const ListOperand &each) { return each.role == from; });
            if (from != VKATTN_WORKSPACE && given == operands.end())
                result = failed(invalid, "role " + std::to_string(from) + " is missing: the layer's step '" + step.name + "' uses it", why);
            else
                memory.push_back({step.operands[o].role, from == VKATTN_WORKSPACE ? between : given->tensor});
        }
        std::string reason;
        if (result == VKATTN_OK && (result = add(step.operation, memory, &reason)) != VKATTN_OK)
            (void)failed(result, std::string("the layer's step '") + step.name + "': " + reason, why);
        if (result == VKATTN_OK) continue;
        impl_->steps.resize(before);
        impl_->unseparated = unseparatedBefore;
        return result;
    }
    return VKATTN_OK;
}

vkattn_result OperationList::Impl::checkOwner(const DeviceTensor &tensor, std::string *why) const {
    if (!tensor || &tensor.memory_->runtime() == runtime.get()) return VKATTN_OK;
    return failed(invalid, "a tensor is another Runtime's: copy it through the host", why);
}

void OperationList::Impl::append(std::unique_ptr<ListStep> step) {
    const std::vector<MemoryUse> uses = step->uses(alignment);
    step->bound.barrierBefore = std::any_of(uses.begin(), uses.end(), [&](const MemoryUse &use) { return conflicts(use, unseparated); });
    if (step->bound.barrierBefore) unseparated.clear();
    unseparated.insert(unseparated.end(), uses.begin(), uses.end());
    steps.push_back(std::move(step));
    ready = false;
}

vkattn_result OperationList::Impl::recordOnDevice(std::string *why) {
    if (!runtime->lost.empty()) return failed(VKATTN_ERROR_DEVICE_LOST, runtime->lost, why);
    recorded.reset();
    for (const auto &step : steps)
        if (!step->isShader()) runtime->testWhatTakes(step->bound.operation);
    if (!runtime->lost.empty()) return failed(VKATTN_ERROR_DEVICE_LOST, runtime->lost, why);
    std::vector<const BoundOperation *> operations;
    for (const auto &step : steps) operations.push_back(&step->bound);
    auto list = std::make_unique<RecordedList>(*runtime->device);
    size_t failedAt = 0;
    if (auto f = list->record(operations, failedAt)) return failedStep(failedAt, f.result, runtime->reasonOf(f), why);
    recorded = std::move(list);
    return VKATTN_OK;
}

vkattn_result OperationList::Impl::prepareCpu(RunResult &result, std::string *why) {
    uint64_t workspace = 0;
    for (size_t n = 0; n < steps.size(); ++n) {
        if (steps[n]->isShader()) continue;
        vkattn_diagnostic diagnostic{};
        if (const auto r = runtime->prepareCpu(steps[n]->bound.operation, cpuThreads, result, diagnostic))
            return failedStep(n, r, diagnostic.message, why);
        workspace = std::max(workspace, result.workspaceBytes);
    }
    preparedPool = runtime->cpuPoolNumber;
    preparedBytes = result.workspaceBytes = workspace;
    return VKATTN_OK;
}

vkattn_result OperationList::Impl::computeOnCpu(size_t n, std::string *why) {
    const ListStep &step = *steps[n];
    if (step.isShader()) return step.computeShader(), VKATTN_OK;
    vkattn_diagnostic diagnostic{};
    const vkattn_result r =
        vkattnCpuRunOperation(runtime->cpuPool.get(), &step.bound.operation, step.memory.data(), static_cast<uint32_t>(step.memory.size()),
                              runtime->cpuWorkspace.get(), runtime->cpuWorkspaceBytes, &diagnostic);
    return r == VKATTN_OK ? r : failedStep(n, r, diagnostic.message, why);
}

vkattn_result OperationList::Impl::computeOnCpu(std::string *why) {
    for (size_t n = 0; n < steps.size(); ++n)
        if (const auto r = computeOnCpu(n, why)) return r;
    return VKATTN_OK;
}

vkattn_result OperationList::record(std::string *why) {
    if (impl_->ready) return VKATTN_OK;
    RunResult ignored;
    if (const auto r = impl_->runtime->device ? impl_->recordOnDevice(why) : impl_->prepareCpu(ignored, why)) return r;
    impl_->ready = true;
    return VKATTN_OK;
}

vkattn_result OperationList::submit(std::string *why) {
    Impl &impl = *impl_;
    if (!impl.ready) return failed(invalid, "the list is not recorded, or steps were added since: call record()", why);
    if (!impl.runtime->device) {
        // Another use of the Runtime may have made other threads, which need other workspaces.
        const Runtime::Impl &runtime = *impl.runtime;
        RunResult ignored;
        if (impl.preparedPool != runtime.cpuPoolNumber || impl.preparedBytes > runtime.cpuWorkspaceBytes)
            if (const auto r = impl.prepareCpu(ignored, why)) return r;
        return impl.computeOnCpu(why);
    }
    if (!impl.runtime->lost.empty()) return failed(VKATTN_ERROR_DEVICE_LOST, impl.runtime->lost, why);
    if (auto f = impl.recorded->submit()) return failed(f.result, impl.runtime->reasonOf(f), why);
    return VKATTN_OK;
}

vkattn_result OperationList::wait(std::string *why) {
    if (!impl_->runtime->lost.empty()) return failed(VKATTN_ERROR_DEVICE_LOST, impl_->runtime->lost, why);
    if (!impl_->runtime->device) return VKATTN_OK;
    if (auto f = impl_->runtime->device->finish()) return failed(f.result, impl_->runtime->reasonOf(f), why);
    return VKATTN_OK;
}

RunResult OperationList::run(const RunOptions &options) {
    Impl &impl = *impl_;
    RunResult result;
    impl.runtime->sign(result);
    result.fallbackReason = impl.runtime->fallbackReason;
    result.kernel = "list";
    impl.cpuThreads = options.cpuThreads;
    if ((result.status = record(&result.message)) != VKATTN_OK) return result;
    const bool onDevice = impl.runtime->device != nullptr;
    if (!onDevice && (result.status = impl.prepareCpu(result, &result.message)) != VKATTN_OK) return result;
    if (onDevice && !impl.runtime->lost.empty()) {
        result.status = failed(VKATTN_ERROR_DEVICE_LOST, impl.runtime->lost, &result.message);
        return result;
    }
    result.deviceTimestamps = onDevice;
    std::vector<double> times;
    const uint64_t runs = uint64_t{std::max(options.repeat, 1u)} + (options.warmUp ? 1 : 0);
    for (uint64_t n = 0; n < runs; ++n) {
        double milliseconds = 0;
        if (onDevice) {
            if (auto f = impl.recorded->submitTimed(milliseconds, result.deviceTimestamps))
                result.status = failed(f.result, impl.runtime->reasonOf(f), &result.message);
        } else {
            const auto start = std::chrono::steady_clock::now();
            result.status = impl.computeOnCpu(&result.message);
            milliseconds = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
        }
        if (result.status != VKATTN_OK) return result;
        if (n > 0 || !options.warmUp) times.push_back(milliseconds);
    }
    result.milliseconds = median(times);
    result.samplesMilliseconds = std::move(times);
    if (onDevice) {
        result.workspaceBytes = impl.recorded->workspaceBytes();
        result.dispatchCount = impl.recorded->dispatchCount();
    }
    return result;
}

vkattn_result OperationList::verify(std::vector<StepCheck> &checks, const vkattn_verify_options *options, std::string *why) {
    Impl &impl = *impl_;
    checks.clear();
    if (const auto r = record(why)) return r;
    RunResult ignored;
    if (!impl.runtime->device)
        if (const auto r = impl.prepareCpu(ignored, why)) return r;
    float forwardUnit = 0, forwardFloor = 0; // of attention before a gradient, which reads what it has stored
    for (size_t n = 0; n < impl.steps.size(); ++n) {
        const ListStep &step = *impl.steps[n];
        StepImages before, after;
        if (const auto r = step.read(before, why)) return r;
        vkattn_verify_options how = options ? *options : vkattn_verify_options{};
        how.structSize = sizeof how;
        if (impl.runtime->device) {
            RecordedList alone(*impl.runtime->device);
            const BoundOperation *const one = &step.bound;
            size_t failedAt = 0;
            double milliseconds = 0;
            bool timestamps = false;
            auto f = alone.record({&one, 1}, failedAt);
            if (!f) f = alone.submitTimed(milliseconds, timestamps);
            if (f) return impl.failedStep(n, f.result, impl.runtime->reasonOf(f), why);
            how.probabilityUnit = alone.requirements()[0].probabilityUnit;
            how.probabilityFloor = alone.requirements()[0].probabilityFloor;
            const vkattn_operation_kind kind = step.bound.operation.kind;
            if (kind == VKATTN_ATTENTION) {
                forwardUnit = std::max(forwardUnit, how.probabilityUnit);
                forwardFloor = std::max(forwardFloor, how.probabilityFloor);
            } else if (kind == VKATTN_ATTENTION_GRADIENT) {
                how.probabilityUnit = std::max(forwardUnit, how.probabilityUnit);
                how.probabilityFloor = std::max(forwardFloor, how.probabilityFloor);
            }
        } else if (const auto r = impl.computeOnCpu(n, why)) {
            return r;
        }
        if (const auto r = step.read(after, why)) return r;
        StepCheck &check = checks.emplace_back();
        check.operation = step.name();
        if (step.isShader()) {
            std::string reason;
            if (const auto r = step.verifyShader(before, after, check.report, &reason)) return impl.failedStep(n, r, reason, why);
            continue;
        }
        const std::vector<vkattn_operand_memory> seen = step.seen(before, after);
        vkattn_diagnostic diagnostic{};
        if (const auto r = vkattnCpuVerifyOperation(&step.bound.operation, seen.data(), static_cast<uint32_t>(seen.size()), &how,
                                                    &check.report, &diagnostic))
            return impl.failedStep(n, r, diagnostic.message, why);
    }
    return VKATTN_OK;
}

} // namespace vkattn
