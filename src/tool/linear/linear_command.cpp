#include "tool/linear/linear_command.hpp"

#include "tool/device.hpp"
#include "tool/execution.hpp"
#include "tool/linear/linear_job.hpp"
#include "tool/report/options_report.hpp"

#include <vkattn/operations.hpp>

namespace vkattn::tool {
using namespace program;
namespace {

HostArrays loadArrays(LinearJob &job, const vkattn_operation &all) {
    HostArrays arrays;
    for (Input &input : job.inputs) arrays.add(input.role(), input.load(all));
    arrays.add(job.outputs);
    if (job.gradient.presentRoles != 0) arrays.add(VKATTN_NONFINITE, HostBuffer(sizeof(uint32_t)));
    return arrays;
}

// The gradients, and before them the forward pass where its results are asked for.
ExitStatus computeGradients(const LinearArguments &arguments, LinearJob &job, Runtime &runtime, std::vector<OutputFile> &files) {
    const vkattn_operation forward = operation(job.linear), gradients = job.gradients();
    const HostArrays arrays = loadArrays(job, gradients);
    RunReport report{.arguments = arguments, .job = job, .options = optionsJson(arguments, job.linear)};
    if (arguments.hasResults()) report.forward = compute(arguments, runtime, forward, arrays);
    report.result = compute(arguments, runtime, gradients, arrays);
    if (arguments.lossScale) report.finite = arrays.allFinite();
    if (arguments.verify) {
        std::vector<Verification> passes;
        if (report.forward) passes.push_back(verify(*arguments.verify, forward, arrays, *report.forward, "forward"));
        passes.push_back(verify(*arguments.verify, gradients, arrays, report.result, "backward"));
        report.verification = combined(passes, passes.back().options);
    }
    return publish(report, arrays, files);
}

} // namespace

ExitStatus linearCommand(const LinearArguments &arguments) {
    LinearJob job = describeJob(arguments);
    std::vector<OutputFile> files = openOutputs(arguments, job);
    const std::unique_ptr<Runtime> runtime = openDevice(arguments);
    if (arguments.hasGradients()) return computeGradients(arguments, job, *runtime, files);
    const HostArrays arrays = loadArrays(job, operation(job.linear));
    RunReport report{.arguments = arguments, .job = job, .options = optionsJson(arguments, job.linear)};
    report.result = compute(arguments, *runtime, operation(job.linear), arrays);
    return finish(std::move(report), operation(job.linear), arrays, files);
}

} // namespace vkattn::tool
