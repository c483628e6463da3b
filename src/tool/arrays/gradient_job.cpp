#include "tool/arrays/gradient_job.hpp"

#include "program/failure.hpp"
#include "tool/arrays/job.hpp"
#include "tool/options/names.hpp"

#include <vkattn/operations.hpp>

#include <algorithm>

namespace vkattn::tool {
using namespace program;
namespace {

const Input *find(const GradientJob &job, vkattn_role role) {
    const auto found = std::find_if(job.inputs.begin(), job.inputs.end(), [&](const Input &input) { return input.role() == role; });
    return found == job.inputs.end() ? nullptr : &*found;
}

// A gradient of something that the forward pass computes has that thing's shape, in four dimensions.
// `dimensions`: what these are.
void requireExtents(const Input &input, const uint32_t (&expected)[4], const std::string &of, const std::string &dimensions, size_t count) {
    if (std::equal(expected, expected + 4, input.layout().extent)) return;
    throw Failure("shapes disagree: " + input.text() + " is the gradient with respect to " + of + ", which is " + dimensions + " = " +
                  npyShapeText(std::vector<uint64_t>(expected, expected + count)) +
                  ": expected that shape; leading dimensions of 1 may be left out");
}

// [batch, head, query, key], ragged [sequence, head, query, key] of the longest sequences.
void pairsOf(const vkattn_problem &problem, uint32_t (&pairs)[4]) {
    const bool ragged = problem.sequences > 0;
    pairs[0] = ragged ? problem.sequences : problem.q.extent[0];
    pairs[1] = problem.q.extent[1];
    pairs[2] = problem.maxSeqQ > 0 ? problem.maxSeqQ : problem.q.extent[2];
    pairs[3] = problem.maxSeqK > 0 ? problem.maxSeqK : problem.k.extent[2];
}

// What is given: the gradients of the loss with respect to what the forward pass computes.
void takeInputs(GradientJob &job) {
    const uint32_t *rows = job.forward.out.extent;
    const Input &dOut = *find(job, VKATTN_D_OUT);
    requireExtents(dOut, job.forward.out.extent, "the result", "[batch, head, query, dim of the values]", 4);
    job.gradient.dOut = dOut.layout();
    if (const Input *const dLse = find(job, VKATTN_D_LSE)) {
        const uint32_t expected[4] = {rows[0], rows[1], rows[2], 1};
        requireExtents(*dLse, expected, "the log-sum-exp", "[batch, head, query]", 3);
        job.gradient.dLse = dLse->layout();
    }
    if (const Input *const dWeights = find(job, VKATTN_D_WEIGHTS)) {
        uint32_t pairs[4];
        pairsOf(job.forward, pairs);
        const bool ragged = job.forward.sequences > 0;
        requireExtents(*dWeights, pairs, "the attention weights",
                       ragged ? "[sequence, head, query, key] of the longest sequences" : "[batch, head, query, key]", 4);
        job.gradient.dWeights = dWeights->layout();
    }
}

// The type of a gradient's file: that of the file whose gradient it is, as far as gradients have it.
vkattn_dtype typeOf(const GradientArguments &arguments, const Input &of) {
    return arguments.outDtype.value_or(of.header().type == npyFloat16 ? VKATTN_F16 : VKATTN_F32);
}

vkattn_layout *layoutOf(vkattn_attention_gradient &gradient, vkattn_role role) {
    return role == VKATTN_D_Q      ? &gradient.dQ
           : role == VKATTN_D_K    ? &gradient.dK
           : role == VKATTN_D_V    ? &gradient.dV
           : role == VKATTN_D_BIAS ? &gradient.dBias
                                   : nullptr;
}

// Describes what is asked for, before anything is known to be valid: sizes come later.
void takeOutputs(const GradientArguments &arguments, GradientJob &job) {
    for (const GradientName &name : gradientNames) {
        const std::string &path = arguments.files[name.gradient];
        if (path.empty()) continue;
        vkattn_layout *const layout = layoutOf(job.gradient, name.gradient);
        if (layout == nullptr) {
            job.gradient.presentRoles |= VKATTN_PRESENT(name.gradient);
            continue;
        }
        const Input &of = *find(job, name.of);
        *layout = dense(operandName(name.gradient).option + (" " + path), typeOf(arguments, of), of.layout().extent);
    }
    if (arguments.lossScale) {
        job.gradient.lossScale = *arguments.lossScale;
        job.gradient.presentRoles |= VKATTN_PRESENT(VKATTN_NONFINITE);
    }
}

// The files, of an operation that is valid.
void addOutputs(const GradientArguments &arguments, GradientJob &job) {
    const vkattn_operation gradient = operation(job.gradient);
    for (const GradientName &name : gradientNames) {
        if (arguments.files[name.gradient].empty()) continue;
        const Input *const of = name.of == VKATTN_ROLE_LIMIT ? nullptr : find(job, name.of);
        const vkattn_layout *const layout = layoutOf(job.gradient, name.gradient);
        job.outputs.push_back(outputArray(arguments, gradient, name.gradient, layout ? layout->dtype : VKATTN_F32,
                                          of ? of->header().shape : std::vector<uint64_t>{}));
        // Arrays over heads are float32 in memory.
        if (of != nullptr && layout == nullptr && typeOf(arguments, *of) == VKATTN_F16) job.outputs.back().type = npyFloat16;
    }
    if (arguments.files[VKATTN_OUT].empty()) return;
    std::vector<uint64_t> shape = job.inputs[0].header().shape;
    shape.back() = job.forward.out.extent[dim];
    job.outputs.push_back(outputArray(arguments, gradient, VKATTN_OUT, VKATTN_F32, std::move(shape)));
}

} // namespace

std::unique_ptr<GradientJob> describeJob(const GradientArguments &arguments) {
    RunArguments forward = arguments;
    forward.outDtype = VKATTN_F32;
    forward.flags &= ~uint32_t{VKATTN_WEIGHTS_DROPPED};
    Job described = describeProblem(forward);
    auto job = std::make_unique<GradientJob>();
    job->inputs = std::move(described.inputs);
    job->forward = described.problem;
    job->forward.flags |= VKATTN_ROW_STATISTICS;
    const uint32_t *rows = job->forward.out.extent;
    job->forward.lse = dense("the statistics of the rows", VKATTN_F32, {rows[batch], rows[head], rows[token], 2});
    job->gradient.structSize = sizeof job->gradient;
    job->differentiated = job->forward;
    if ((arguments.flags & VKATTN_WEIGHTS_DROPPED) != 0) {
        uint32_t pairs[4];
        pairsOf(job->forward, pairs);
        job->differentiated.flags |= VKATTN_WEIGHTS_DROPPED;
        job->differentiated.weights = dense("the attention weights", VKATTN_F32, pairs);
    }
    job->gradient.forward = &job->differentiated;
    job->gradient.kernel = arguments.gradientKernel;
    if (arguments.roundTo)
        for (Input &input : job->inputs)
            if (input.role() == VKATTN_D_OUT) input.roundTo(*arguments.roundTo);
    takeInputs(*job);
    takeOutputs(arguments, *job);

    const vkattn_operation gradient = operation(job->gradient);
    vkattn_diagnostic why{};
    if (vkattnValidateOperation(&gradient, &why) != VKATTN_OK) failInvalid(why, *job);
    addOutputs(arguments, *job);
    std::vector<NamedBytes> arrays = namedBytes(*job, gradient);
    if (arguments.files[VKATTN_OUT].empty())
        arrays.push_back({"the result of the forward pass", vkattnOperationBytes(&gradient, VKATTN_OUT)});
    arrays.push_back({"the statistics of the rows", vkattnOperationBytes(&gradient, VKATTN_LSE)});
    checkMemory(arrays);
    return job;
}

} // namespace vkattn::tool
