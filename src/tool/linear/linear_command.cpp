#include "tool/linear/linear_command.hpp"

#include "tool/device.hpp"
#include "tool/execution.hpp"
#include "tool/linear/linear_job.hpp"
#include "tool/report/options_report.hpp"

#include <vkattn/operations.hpp>

namespace vkattn::tool {
using namespace program;

ExitStatus linearCommand(const LinearArguments &arguments) {
    LinearJob job = describeJob(arguments);
    std::vector<OutputFile> files = openOutputs(arguments, job);
    const std::unique_ptr<Runtime> runtime = openDevice(arguments);
    HostArrays arrays;
    for (Input &input : job.inputs) arrays.add(input.role(), input.load(operation(job.linear)));
    arrays.add(job.outputs);
    RunReport report{.arguments = arguments, .job = job, .options = optionsJson(arguments, job.linear)};
    report.result = compute(arguments, *runtime, operation(job.linear), arrays);
    return finish(std::move(report), operation(job.linear), arrays, files);
}

} // namespace vkattn::tool
