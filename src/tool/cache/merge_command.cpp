#include "tool/cache/merge_command.hpp"

#include "tool/arrays/convert.hpp"
#include "tool/arrays/shapes.hpp"
#include "tool/cache/ordered_array.hpp"
#include "tool/device.hpp"
#include "tool/execution.hpp"

#include <vkattn/operations.hpp>
#include <vkattn/vkattn.hpp>

namespace vkattn::tool {
using namespace program;
namespace {

constexpr uint32_t maxDims = 1u << 16;

struct MergeJob : JobArrays { // the inputs: the result of each part, then the log-sum-exp of each
    vkattn_merge merge{};
};

void requireSameShape(const Input &first, const Input &other) {
    if (first.header().shape != other.header().shape)
        disagree({first.text(), first.layout()}, {other.text(), other.layout()}, "all parts need the same shape");
}

// Made from headers alone.
MergeJob describeJob(const MergeArguments &arguments) {
    MergeJob job;
    const size_t parts = arguments.outs.size();
    for (const std::string &path : arguments.outs) job.inputs.emplace_back(VKATTN_X, "--out", path);
    for (const std::string &path : arguments.lses) job.inputs.emplace_back(VKATTN_X_LSE, "--lse", path);
    const Input &out = job.inputs[0], &lse = job.inputs[parts];
    requireSomething({out.text(), out.layout()}, maxDims);
    bool narrow = true;
    for (size_t t = 0; t < parts; t++) {
        requireSameShape(out, job.inputs[t]);
        requireSameShape(lse, job.inputs[parts + t]);
        narrow = narrow && job.inputs[t].layout().dtype == VKATTN_F16;
    }
    // Parts of two types are computed with as float32.
    for (size_t t = 0; t < parts && !narrow; t++)
        if (job.inputs[t].layout().dtype == VKATTN_F16) job.inputs[t].roundTo(VKATTN_F32);
    for (const Dimension dimension : {batch, head, token})
        requireEqual({out.text(), out.layout()}, {lse.text(), lse.layout()}, dimension,
                     dimension == batch  ? "batch"
                     : dimension == head ? "heads"
                                         : "tokens");

    const uint32_t *extent = out.layout().extent;
    const vkattn_dtype dtype = narrow ? VKATTN_F16 : VKATTN_F32;
    const auto all = static_cast<uint32_t>(parts);
    if (uint64_t{extent[batch]} * all > 0xffffffffu) throw Failure(out.text() + ": its batch times the parts does not fit in 32 bits");
    const auto tensor = [&](vkattn_dtype type, uint32_t entries, uint32_t dims) {
        return dense(out.text(), type, {entries, extent[head], extent[token], dims});
    };
    job.merge = merge(all, tensor(dtype, all * extent[batch], extent[dim]), tensor(VKATTN_F32, all * extent[batch], 1),
                      tensor(dtype, extent[batch], extent[dim]));
    const bool writesLse = !arguments.files[VKATTN_LSE].empty();
    if (writesLse) job.merge.lse = tensor(VKATTN_F32, extent[batch], 1);
    const vkattn_operation described = operation(job.merge);
    vkattn_diagnostic why{};
    if (vkattnValidateOperation(&described, &why) != VKATTN_OK) failInvalid(why, job);
    job.outputs.push_back(outputArray(arguments, described, VKATTN_Y, dtype, out.header().shape));
    if (writesLse) job.outputs.push_back(outputArray(arguments, described, VKATTN_LSE, VKATTN_F32, lse.header().shape));
    std::vector<NamedBytes> arrays = {{"the results of all parts", vkattnOperationBytes(&described, VKATTN_X)},
                                      {"the log-sum-exps of all parts", vkattnOperationBytes(&described, VKATTN_X_LSE)}};
    for (const OutputArray &output : job.outputs) arrays.push_back({output.path, output.bytes});
    checkMemory(arrays);
    return job;
}

// One part behind the other.
HostBuffer loadParts(MergeJob &job, vkattn_role role) {
    const vkattn_operation described = operation(job.merge);
    HostBuffer all(static_cast<size_t>(vkattnOperationBytes(&described, role)));
    const size_t bytes = all.bytes() / job.merge.parts;
    size_t at = 0;
    for (Input &input : job.inputs) {
        if (input.role() != role) continue;
        loadInCOrder(input, all.span().subspan(at, bytes));
        at += bytes;
    }
    return all;
}

} // namespace

ExitStatus mergeCommand(const MergeArguments &arguments) {
    MergeJob job = describeJob(arguments);
    std::vector<OutputFile> files = openOutputs(arguments, job);
    const std::unique_ptr<Runtime> runtime = openDevice(arguments);
    HostArrays arrays;
    for (const vkattn_role role : {VKATTN_X, VKATTN_X_LSE}) arrays.add(role, loadParts(job, role));
    arrays.add(job.outputs);
    RunReport report{.arguments = arguments, .job = job, .options = Json{{"parts", job.merge.parts}}};
    report.result = compute(arguments, *runtime, operation(job.merge), arrays);
    return finish(std::move(report), operation(job.merge), arrays, files);
}

} // namespace vkattn::tool
