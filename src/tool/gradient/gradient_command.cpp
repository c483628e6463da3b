#include "tool/gradient/gradient_command.hpp"

#include "tool/arrays/gradient_job.hpp"
#include "tool/arrays/program_file.hpp"
#include "tool/device.hpp"
#include "tool/execution.hpp"
#include "tool/options/names.hpp"
#include "tool/report/options_report.hpp"

#include <vkattn/operations.hpp>

#include <algorithm>

namespace vkattn::tool {
using namespace program;
namespace {

HostArrays loadArrays(GradientJob &job) {
    const vkattn_operation forward = operation(job.forward), gradient = operation(job.gradient);
    HostArrays arrays;
    for (Input &input : job.inputs) {
        const vkattn_role role = input.role();
        const bool ofGradient = role == VKATTN_D_OUT || role == VKATTN_D_LSE || role == VKATTN_D_WEIGHTS;
        arrays.add(role, input.load(ofGradient ? gradient : forward));
    }
    arrays.add(job.outputs);
    const auto keep = [&](vkattn_role role) { arrays.add(role, HostBuffer(static_cast<size_t>(vkattnOperationBytes(&gradient, role)))); };
    const auto isWritten = [](const OutputArray &output) { return output.role == VKATTN_OUT; };
    if (std::none_of(job.outputs.begin(), job.outputs.end(), isWritten)) keep(VKATTN_OUT);
    keep(VKATTN_LSE);
    if ((job.gradient.presentRoles & VKATTN_PRESENT(VKATTN_NONFINITE)) != 0) keep(VKATTN_NONFINITE);
    return arrays;
}

} // namespace

ExitStatus gradientCommand(const GradientArguments &arguments) {
    const std::unique_ptr<GradientJob> job = describeJob(arguments);
    std::vector<OutputFile> files = openOutputs(arguments, *job);
    const OpenedRuntime opened = openRuntime(arguments);
    Runtime &runtime = *opened.runtime;
    const HostArrays arrays = loadArrays(*job);
    const vkattn_operation forward = operation(job->forward), gradient = operation(job->gradient);
    prepareProgram(arguments, opened, forward);
    prepareProgram(arguments, opened, gradient);
    RunReport report{.arguments = arguments, .job = *job, .options = optionsJson(arguments, job->forward)};
    report.tuning = opened.tuning.source;
    report.slices = arguments.slices;
    report.forward = compute(arguments, runtime, forward, arrays);
    report.result = compute(arguments, runtime, gradient, arrays);
    noteUnusedKernel(arguments, runtime);
    if (arguments.lossScale) report.finite = arrays.allFinite();
    if (arguments.verify) {
        // The gradients are those of what the forward pass has stored, right or wrong; what it rounds is in
        // them too.
        RunResult passes = report.result;
        passes.probabilityUnit = std::max(passes.probabilityUnit, report.forward->probabilityUnit);
        passes.probabilityFloor = std::max(passes.probabilityFloor, report.forward->probabilityFloor);
        const Verification both[] = {verify(*arguments.verify, forward, arrays, *report.forward, "forward"),
                                     verify(*arguments.verify, gradient, arrays, passes, "backward")};
        report.verification = combined(both, both[1].options);
    }
    return publish(report, arrays, files);
}

} // namespace vkattn::tool
