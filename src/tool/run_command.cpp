#include "tool/run_command.hpp"

#include "tool/arrays/job.hpp"
#include "tool/arrays/program_file.hpp"
#include "tool/device.hpp"
#include "tool/execution.hpp"
#include "tool/report/options_report.hpp"

#include <vkattn/operations.hpp>

namespace vkattn::tool {
using namespace program;
namespace {

HostArrays loadArrays(Job &job) {
    HostArrays arrays;
    for (Input &input : job.inputs) arrays.add(input.role(), input.load(operation(job.problem)));
    arrays.add(job.outputs);
    return arrays;
}

} // namespace

ExitStatus runCommand(const RunArguments &arguments) {
    Job job = describeJob(arguments);
    std::vector<OutputFile> files = openOutputs(arguments, job);
    const OpenedRuntime opened = openRuntime(arguments);
    Runtime &runtime = *opened.runtime;
    prepareProgram(arguments, opened, operation(job.problem));
    const HostArrays arrays = loadArrays(job);
    RunReport report{.arguments = arguments, .job = job, .options = optionsJson(arguments, job.problem)};
    report.tuning = opened.tuning.source;
    report.slices = arguments.slices;
    report.result = compute(arguments, runtime, operation(job.problem), arrays);
    noteUnusedKernel(arguments, runtime);
    return finish(std::move(report), operation(job.problem), arrays, files);
}

} // namespace vkattn::tool
