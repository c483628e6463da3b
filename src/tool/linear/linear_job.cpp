#include "tool/linear/linear_job.hpp"

#include "program/failure.hpp"
#include "tool/options/names.hpp"

#include <vkattn/operations.hpp>

#include <algorithm>
#include <array>

namespace vkattn::tool {
using namespace program;
namespace {

Input &find(LinearJob &job, vkattn_role role) {
    return *std::find_if(job.inputs.begin(), job.inputs.end(), [&](const Input &input) { return input.role() == role; });
}

vkattn_layout *layoutOf(vkattn_linear_attention &linear, vkattn_role role) {
    switch (role) {
    case VKATTN_Q:
        return &linear.q;
    case VKATTN_K:
        return &linear.k;
    case VKATTN_V:
        return &linear.v;
    case VKATTN_DECAY:
        return &linear.decay;
    case VKATTN_WRITE_STRENGTH:
        return &linear.writeStrength;
    case VKATTN_OMEGA:
        return &linear.omega;
    default:
        return &linear.stateIn;
    }
}

constexpr vkattn_role inputTensors[] = {VKATTN_Q, VKATTN_K, VKATTN_V};

void takeInputs(const LinearArguments &arguments, LinearJob &job) {
    for (const vkattn_role role : inputTensors)
        if (arguments.roundTo) find(job, role).roundTo(*arguments.roundTo);
    if (arguments.roundTo && arguments.hasGradients()) find(job, VKATTN_D_OUT).roundTo(*arguments.roundTo);
    // A decay with the rank of the keys has a number for each dim.
    const size_t rank = find(job, VKATTN_K).header().shape.size();
    for (Input &input : job.inputs) {
        if (input.role() == VKATTN_DECAY && input.header().shape.size() == rank) input.takeDims();
        if (input.role() != VKATTN_D_OUT && input.role() != VKATTN_D_STATE_OUT) *layoutOf(job.linear, input.role()) = input.layout();
    }
}

// The states that the rule makes of the other arrays. What is not valid here is refused by the library.
vkattn_layout stateOf(const vkattn_linear_attention &l, const char *text) {
    const bool features = l.rule == VKATTN_LINEAR_FEATURES, maximum = features && l.features >= VKATTN_FEATURES_FAVOR;
    const uint32_t random = l.omega.extent[2] > 0 ? l.omega.extent[2] : l.k.extent[dim];
    const uint32_t rows = features && l.features == VKATTN_FEATURES_FAVOR2 ? 2 * random : random;
    const uint32_t columns = l.v.extent[dim] + (features ? 1 : 0) + (maximum ? 1 : 0);
    const uint32_t heads = std::max({l.k.extent[head], l.v.extent[head], l.omega.extent[head]});
    return dense(text, VKATTN_F32, {l.k.extent[batch], heads, rows, columns});
}

// What --shape-q and its kin stand for. Returns q, k and v.
std::array<Operand, 3> takeAssumed(const LinearArguments &arguments, LinearJob &job) {
    const LinearAssumptions &assumed = arguments.assumed;
    vkattn_linear_attention &l = job.linear;
    std::array<Operand, 3> tensors;
    const std::vector<uint32_t> *shape = nullptr; // of the last one that is given
    for (const vkattn_role role : inputTensors) {
        if (const std::vector<uint32_t> &own = assumed.shapes[role]; !own.empty()) shape = &own;
        tensors[role] = assumedOperand(operandName(role).option, *shape, arguments.roundTo.value_or(assumed.dtype));
        *layoutOf(l, role) = tensors[role].layout;
    }
    const uint32_t *k = l.k.extent;
    if (isGated(l.rule)) l.decay = dense("the decay", VKATTN_F32, {k[batch], k[head], k[token], assumed.keyDecay ? k[dim] : 1});
    if (isDelta(l.rule)) l.writeStrength = dense("the write strength", VKATTN_F32, {k[batch], k[head], k[token], 1});
    if (assumed.randomFeatures > 0) l.omega = dense("--random-features", VKATTN_F32, {1, 1, assumed.randomFeatures, k[dim]});
    if (assumed.stateIn) l.stateIn = stateOf(l, "--with state-in");
    return tensors;
}

vkattn_layout *layoutOf(vkattn_linear_gradient &gradient, vkattn_role role) {
    switch (role) {
    case VKATTN_D_OUT:
        return &gradient.dOut;
    case VKATTN_D_STATE_OUT:
        return &gradient.dStateOut;
    case VKATTN_D_Q:
        return &gradient.dQ;
    case VKATTN_D_K:
        return &gradient.dK;
    case VKATTN_D_V:
        return &gradient.dV;
    case VKATTN_D_DECAY:
        return &gradient.dDecay;
    case VKATTN_D_WRITE_STRENGTH:
        return &gradient.dWriteStrength;
    default:
        return &gradient.dStateIn;
    }
}

// Those of every input.
void assumeGradients(LinearJob &job) {
    const vkattn_linear_attention &l = job.linear;
    vkattn_linear_gradient &g = job.gradient;
    g.dOut = l.out;
    for (const GradientName &name : linearGradientNames) {
        const vkattn_layout &of = *layoutOf(job.linear, name.of);
        if (of.extent[0] > 0) *layoutOf(g, name.gradient) = dense("--with gradients", of.dtype, of.extent);
    }
}

// Describes the gradients that are asked for, before anything is known to be valid.
void describeGradients(const LinearArguments &arguments, LinearJob &job) {
    vkattn_linear_gradient &g = job.gradient;
    g.structSize = sizeof g;
    if (arguments.lossScale) g.lossScale = *arguments.lossScale, g.presentRoles = VKATTN_PRESENT(VKATTN_NONFINITE);
    if (arguments.assumed.gradients) return assumeGradients(job);
    for (const vkattn_role role : {VKATTN_D_OUT, VKATTN_D_STATE_OUT})
        if (!arguments.files[role].empty()) *layoutOf(g, role) = find(job, role).layout();
    for (const GradientName &name : linearGradientNames) {
        const std::string &path = arguments.files[name.gradient];
        if (path.empty()) continue;
        const Input &of = find(job, name.of);
        const vkattn_dtype dtype = name.gradient == VKATTN_D_STATE_IN
                                       ? VKATTN_F32
                                       : arguments.outDtype.value_or(of.header().type == npyFloat16 ? VKATTN_F16 : VKATTN_F32);
        *layoutOf(g, name.gradient) = dense(operandName(name.gradient).option + (" " + path), dtype, of.layout().extent);
    }
}

// The shape of a file in the rank of another one, whose leading dimensions of 1 were left out.
std::vector<uint64_t> shapeLike(const std::vector<uint64_t> &other, const uint32_t (&extent)[4]) {
    size_t rank = std::max<size_t>(other.size(), 2);
    for (size_t d = 0; d + rank < 4; d++)
        if (extent[d] != 1) rank = 4 - d;
    return {std::end(extent) - rank, std::end(extent)};
}

} // namespace

LinearJob describeJob(const LinearArguments &arguments) {
    LinearJob job;
    job.inputs = openInputs(arguments);
    vkattn_linear_attention &l = job.linear;
    l.structSize = sizeof l;
    l.rule = arguments.rule;
    l.features = arguments.features;
    l.form = arguments.form;
    l.headMapping = arguments.mapping;
    if (arguments.causal) l.flags |= VKATTN_CAUSAL;
    if (arguments.scale) l.flags |= VKATTN_SCALE, l.scale = *arguments.scale;
    const LinearAssumptions &assumed = arguments.assumed;
    std::array<Operand, 3> tensors;
    if (assumed.isMade()) {
        tensors = takeAssumed(arguments, job);
    } else {
        takeInputs(arguments, job);
        for (const vkattn_role role : inputTensors) tensors[role] = {find(job, role).text(), *layoutOf(l, role)};
    }
    constexpr uint32_t maxDim = 2048;
    for (const Operand &each : tensors) requireSomething(each, maxDim);

    // Rounding on the way is not that of the result's file.
    const vkattn_dtype ofQueries = assumed.isMade()                                  ? assumed.dtype
                                   : find(job, VKATTN_Q).header().type == npyFloat16 ? VKATTN_F16
                                                                                     : VKATTN_F32;
    const uint32_t heads = std::max({l.q.extent[head], l.k.extent[head], l.v.extent[head], l.omega.extent[head]});
    l.out = dense("the result", arguments.outDtype.value_or(ofQueries), {l.q.extent[batch], heads, l.q.extent[token], l.v.extent[dim]});
    if (!arguments.files[VKATTN_STATE_OUT].empty() || assumed.stateOut) l.stateOut = stateOf(l, "--state-out");

    const vkattn_operation described = operation(l);
    vkattn_diagnostic why{};
    std::vector<std::string> shapes; // for messages
    for (const Operand &each : tensors)
        if (assumed.isMade()) shapes.push_back(each.text);
    if (vkattnValidateOperation(&described, &why) != VKATTN_OK) failInvalid(why, job, shapes);
    if (!arguments.files[VKATTN_OUT].empty() && !arguments.explains)
        job.outputs.push_back(
            outputArray(arguments, described, VKATTN_OUT, l.out.dtype, shapeLike(find(job, VKATTN_Q).header().shape, l.out.extent)));
    if (l.stateOut.extent[0] > 0 && !arguments.explains)
        job.outputs.push_back(
            outputArray(arguments, described, VKATTN_STATE_OUT, VKATTN_F32, {std::begin(l.stateOut.extent), std::end(l.stateOut.extent)}));
    if (!arguments.hasGradients()) {
        if (!arguments.explains) checkMemory(namedBytes(job, described));
        return job;
    }
    describeGradients(arguments, job);
    const vkattn_operation gradients = job.gradients();
    if (vkattnValidateOperation(&gradients, &why) != VKATTN_OK) failInvalid(why, job, shapes);
    if (arguments.explains) return job;
    for (const GradientName &name : linearGradientNames)
        if (!arguments.files[name.gradient].empty())
            job.outputs.push_back(outputArray(arguments, gradients, name.gradient, layoutOf(job.gradient, name.gradient)->dtype,
                                              find(job, name.of).header().shape));
    checkMemory(namedBytes(job, gradients));
    return job;
}

} // namespace vkattn::tool
