#include "tool/run/run_command.hpp"

#include "tool/arrays/job.hpp"
#include "tool/arrays/program_file.hpp"
#include "tool/cache/small_cache.hpp"
#include "tool/device.hpp"
#include "tool/execution.hpp"
#include "tool/report/options_report.hpp"
#include "tool/run/global_rows.hpp"
#include "tool/run/projected_tokens.hpp"
#include "tool/run/visible_blocks.hpp"

#include <vkattn/operations.hpp>

namespace vkattn::tool {
using namespace program;
namespace {

HostArrays loadArrays(Job &job) {
    HostArrays arrays;
    for (Input &input : job.inputs)
        if (!isProjected(job, input.role()) && !isInCache(job, input.role())) arrays.add(input.role(), input.load(operation(job.problem)));
    if (isInCache(job, VKATTN_K)) addSmallCache(job, arrays);
    arrays.add(job.outputs);
    return arrays;
}

} // namespace

ExitStatus runCommand(const RunArguments &arguments) {
    Job job = describeJob(arguments);
    GlobalRows globalRows(arguments, job);
    std::vector<OutputFile> files = openOutputs(arguments, job);
    const OpenedRuntime opened = openRuntime(arguments);
    Runtime &runtime = *opened.runtime;
    HostArrays arrays = loadArrays(job);
    RunReport report{.arguments = arguments, .job = job, .options = optionsJson(arguments, job.problem)};
    std::vector<Verification> verified;
    report.projections = projectTokens(arguments, opened, job, arrays, verified);
    const vkattn_problem described = job.problem; // what is verified
    if (arguments.rules.lists.kind != VKATTN_BLOCKS_NONE) report.visibleBlocks = makeVisibleBlocks(arguments, opened, job.problem, arrays);
    prepareProgram(arguments, opened, operation(job.problem));
    report.tuning = opened.tuning.source;
    report.slices = arguments.slices;
    report.result = compute(arguments, runtime, operation(job.problem), arrays);
    if (arguments.kvType) report.cache = compareWithFiles(arguments, opened, job, arrays);
    noteUnusedKernel(arguments, runtime);
    if (!globalRows.wanted() && report.projections.empty()) return finish(std::move(report), operation(described), arrays, files);
    if (arguments.verify)
        verified.push_back(verify(*arguments.verify, operation(job.problem), arrays, report.result,
                                  globalRows.wanted() ? "rows of other tokens" : "attention"));
    if (!globalRows.wanted()) {
        if (!verified.empty()) report.verification = combined(verified, verified.back().options);
        return publish(report, arrays, files);
    }
    if (std::optional<Verification> own = globalRows.compute(opened, arrays, report.result)) verified.push_back(*own);
    if (!verified.empty()) report.verification = combined(verified, verified.back().options);
    return publish(report, arrays, files);
}

} // namespace vkattn::tool
