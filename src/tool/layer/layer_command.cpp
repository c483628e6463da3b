#include "tool/layer/layer_command.hpp"

#include "tool/arrays/rotary_job.hpp"
#include "tool/device.hpp"
#include "tool/execution.hpp"
#include "tool/layer/layer_job.hpp"
#include "tool/layer/layer_report.hpp"

#include <vkattn/list.hpp>

#include <algorithm>

namespace vkattn::tool {
using namespace program;
namespace {

// The elements in the order of the memory, for copies.
DeviceTensor whole(const DeviceTensor &tensor) {
    const uint32_t *extent = tensor.layout().extent;
    return tensor.view(packed(tensor.layout().dtype, extent[0], extent[1], extent[2], extent[3]));
}

// The layer on one device or the CPU, with its arrays.
class LayerRun {
  public:
    LayerRun(Runtime &runtime, const LayerJob &job, const std::vector<vkattn_operand_memory> &inputs) : job_(job), list_(runtime.list()) {
        for (const vkattn_operand_memory &input : inputs) {
            if (!add(runtime, input.role)) return;
            if ((status_ = whole(operands_.back().tensor).upload(input.data, input.bytes, &why_)) != VKATTN_OK) return;
        }
        for (const OutputArray &output : job.outputs)
            if (!add(runtime, output.role)) return;
        status_ = list_.add(job.layer, operands_, &why_);
    }

    RunResult run(const RunOptions &options) {
        if (status_ == VKATTN_OK) return list_.run(options);
        RunResult result;
        result.status = status_;
        result.message = why_;
        return result;
    }
    [[nodiscard]] vkattn_result verify(const vkattn_verify_options &options, std::vector<StepCheck> &checks, std::string &why) {
        return list_.verify(checks, &options, &why);
    }
    [[nodiscard]] vkattn_result download(vkattn_role role, std::span<std::byte> into, std::string &why) const {
        const auto found = std::find_if(operands_.begin(), operands_.end(), [&](const ListOperand &each) { return each.role == role; });
        return found->tensor.download(into.data(), into.size(), &why);
    }

  private:
    bool add(Runtime &runtime, vkattn_role role) {
        operands_.push_back({role, runtime.allocate(layoutOf(job_, role), &why_)});
        if (!operands_.back().tensor) status_ = runtime.device() ? VKATTN_ERROR_OUT_OF_DEVICE_MEMORY : VKATTN_ERROR_OUT_OF_HOST_MEMORY;
        return status_ == VKATTN_OK;
    }

    const LayerJob &job_;
    OperationList list_;
    std::vector<ListOperand> operands_;
    vkattn_result status_ = VKATTN_OK;
    std::string why_;
};

HostArrays loadInputs(const RotaryChoice &rotary, LayerJob &job) {
    HostArrays arrays;
    const vkattn_operation attention = operation(job.plan.attention);
    if (!job.tablePositions.empty()) {
        const uint32_t dims = 2 * job.layer.cos.extent[3];
        const size_t bytes = job.tablePositions.size() * dims / 2 * sizeof(float);
        HostBuffer cos(bytes), sin(bytes);
        buildTables(job.tablePositions, dims, rotary, {reinterpret_cast<float *>(cos.data()), bytes / sizeof(float)},
                    {reinterpret_cast<float *>(sin.data()), bytes / sizeof(float)});
        arrays.add(VKATTN_COS, std::move(cos));
        arrays.add(VKATTN_SIN, std::move(sin));
    }
    for (Input &input : job.inputs) {
        const bool ofAttention = isSmallArray(input.role()) || input.role() == VKATTN_MASK || input.role() == VKATTN_BIT_MASK;
        arrays.add(input.role(), ofAttention ? input.load(attention) : input.load());
    }
    return arrays;
}

// All steps as one, and each in its row.
Verification combine(const std::vector<StepCheck> &checks, const vkattn_verify_options &options, std::vector<ReportedStep> &steps) {
    std::vector<Verification> all;
    for (size_t n = 0; n < checks.size(); ++n) {
        all.push_back({options, checks[n].report, steps[n].name});
        steps[n].verification = Verification{options, checks[n].report};
    }
    return combined(all, options);
}

// Of a ragged batch, whose weights no step of a layer averages.
void averageHeads(const vkattn_layout &weights, std::span<float> all, std::span<float> mean) {
    vkattn_layout averaged = packed(VKATTN_F32, weights.extent[0], 1, weights.extent[2], weights.extent[3]);
    const vkattn_mean description = vkattn::mean(weights, averaged);
    const vkattn_operation o = operation(description);
    const vkattn_operand_memory memory[] = {{VKATTN_X, all.data(), all.size_bytes()}, {VKATTN_Y, mean.data(), mean.size_bytes()}};
    uint64_t bytes = 0;
    vkattn_diagnostic why{};
    if (vkattnCpuOperationWorkspace(&o, nullptr, &bytes, &why) != VKATTN_OK) throw Failure(why.message);
    std::vector<unsigned char> workspace(bytes);
    if (vkattnCpuRunOperation(nullptr, &o, memory, 2, workspace.data(), bytes, &why) != VKATTN_OK) throw Failure(why.message);
}

// Downloads what the files take.
vkattn_result downloadOutputs(const LayerArguments &arguments, const LayerJob &job, const LayerRun &run, HostArrays &outputs,
                              std::string &why) {
    for (const OutputArray &output : job.outputs) {
        HostBuffer buffer(static_cast<size_t>(output.bytes));
        if (output.role == VKATTN_WEIGHTS && arguments.averageWeights && !(job.layer.flags & VKATTN_LAYER_AVERAGED_WEIGHTS)) {
            const vkattn_layout &layout = job.options.weights;
            std::vector<float> all(size_t{layout.extent[0]} * layout.extent[1] * layout.extent[2] * layout.extent[3]);
            if (const auto r = run.download(output.role, std::as_writable_bytes(std::span(all)), why)) return r;
            averageHeads(layout, all, {reinterpret_cast<float *>(buffer.data()), buffer.bytes() / sizeof(float)});
        } else if (const auto r = run.download(output.role, buffer.span(), why)) {
            return r;
        }
        outputs.add(output.role, std::move(buffer));
    }
    return VKATTN_OK;
}

// What a device or the CPU has made of the job.
struct Computed {
    RunResult result;
    HostArrays outputs;
    std::vector<StepCheck> checks;
};

Computed compute(Runtime &runtime, const LayerArguments &arguments, const LayerJob &job, const HostArrays &inputs) {
    RunOptions options;
    options.repeat = arguments.repeat;
    options.warmUp = arguments.repeat > 1;
    LayerRun run(runtime, job, inputs.operands());
    Computed computed;
    RunResult &result = computed.result;
    result = run.run(options);
    if (result.status == VKATTN_OK) result.status = downloadOutputs(arguments, job, run, computed.outputs, result.message);
    if (result.status == VKATTN_OK && arguments.verify)
        result.status = run.verify(verifyOptions(*arguments.verify), computed.checks, result.message);
    return computed;
}

} // namespace

ExitStatus layerCommand(const LayerArguments &arguments) {
    const std::unique_ptr<LayerJob> job = describeJob(arguments);
    std::vector<OutputFile> files = openOutputs(arguments, *job);
    OpenedRuntime opened = openRuntime(arguments);
    const HostArrays inputs = loadInputs(arguments.rotary, *job);
    Computed computed = compute(*opened.runtime, arguments, *job, inputs);
    const vkattn_result status = computed.result.status;
    if (status != VKATTN_OK && status != VKATTN_ERROR_INVALID_ARGUMENT && opened.runtime->device() && arguments.allowFallback) {
        const std::string reason = opened.runtime->device()->name + ": " + computed.result.message;
        RuntimeOptions cpu;
        cpu.device = "cpu";
        opened.runtime = program::openRuntime(cpu, "");
        computed = compute(*opened.runtime, arguments, *job, inputs);
        computed.result.fallbackReason = reason;
    }
    throwWhereFailed(arguments, *opened.runtime, computed.result);
    RunReport report{.arguments = arguments, .job = *job, .options = layerOptionsJson(arguments, *job)};
    report.tuning = opened.tuning.source;
    report.result = std::move(computed.result);
    report.steps = describeSteps(*job, *opened.runtime);
    // The layer is signed by its attention's kernel, where that can be told.
    for (const ReportedStep &step : report.steps)
        if (step.operation == vkattnOperationName(VKATTN_ATTENTION) && !step.kernel.empty()) report.result.kernel = step.kernel;
    if (!opened.runtime->device()) report.result.kernel = "cpu";
    report.result.workspaceBytes += job->plan.betweenBytes;
    if (arguments.verify) report.verification = combine(computed.checks, verifyOptions(*arguments.verify), report.steps);
    return publish(report, computed.outputs, files);
}

} // namespace vkattn::tool
