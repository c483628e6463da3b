#include "tool/layer/layer_job.hpp"

#include "program/failure.hpp"
#include "tool/arrays/job.hpp"
#include "tool/arrays/rotary_job.hpp"
#include "tool/options/names.hpp"

#include <vkattn/vkattn.hpp>

#include <algorithm>
#include <filesystem>
#include <map>
#include <numeric>
#include <utility>

namespace vkattn::tool {
using namespace program;
namespace {

constexpr uint32_t maxModel = 1u << 19;

struct Parameter {
    vkattn_role role;
    vkattn_layout vkattn_layer::*layout;
    bool required;
    bool ofNorm;
};
constexpr Parameter parameters[] = {
    {VKATTN_WQ, &vkattn_layer::wq, true, false},      {VKATTN_WK, &vkattn_layer::wk, true, false},
    {VKATTN_WV, &vkattn_layer::wv, true, false},      {VKATTN_WO, &vkattn_layer::wo, true, false},
    {VKATTN_BQ, &vkattn_layer::bq, false, false},     {VKATTN_BK, &vkattn_layer::bk, false, false},
    {VKATTN_BV, &vkattn_layer::bv, false, false},     {VKATTN_BO, &vkattn_layer::bo, false, false},
    {VKATTN_GAMMA, &vkattn_layer::gamma, true, true}, {VKATTN_BETA, &vkattn_layer::beta, true, true},
};

// Finds the files of the folder.
void nameParameters(LayerArguments &arguments) {
    std::error_code ignored;
    if (!std::filesystem::is_directory(arguments.params, ignored))
        throw Failure("--params " + arguments.params + ": there is no such folder, expected one with wq.npy, wk.npy, wv.npy and wo.npy");
    for (const Parameter &parameter : parameters) {
        if (parameter.ofNorm && arguments.place == VKATTN_NORM_NONE) continue;
        const std::string name = std::string(operandName(parameter.role).key) + ".npy",
                          path = (std::filesystem::path(arguments.params) / name).string();
        // A link that leads nowhere is no absent file.
        if (std::filesystem::exists(std::filesystem::symlink_status(path, ignored)))
            arguments.files[parameter.role] = path;
        else if (parameter.required)
            throw Failure("--params " + arguments.params + ": there is no " + name +
                          (parameter.ofNorm ? ": --norm takes gamma.npy and beta.npy; save ones and zeros for a norm without them"
                                            : ", expected wq.npy, wk.npy, wv.npy and wo.npy as [out, in]"));
    }
}

// Tokens, context and parameters; those that are absent are not there.
using Operands = std::map<vkattn_role, Operand>;

const Operand *find(const Operands &operands, vkattn_role role) {
    const auto found = operands.find(role);
    return found == operands.end() ? nullptr : &found->second;
}

// Tokens [token, model] or [batch, token, model] become [batch, 1, token, model].
Operands operandsOf(const std::vector<Input> &inputs) {
    Operands operands;
    for (const Input &input : inputs) {
        Operand operand{input.text(), input.layout()};
        if (input.role() == VKATTN_X || input.role() == VKATTN_CONTEXT) {
            std::swap(operand.layout.extent[batch], operand.layout.extent[head]);
            std::swap(operand.layout.strideElems[batch], operand.layout.strideElems[head]);
        }
        operands[input.role()] = std::move(operand);
    }
    return operands;
}

// What --shape-x and its kin stand for.
Operands assumedOperands(const LayerArguments &arguments) {
    const LayerAssumptions &assumed = arguments.assumed;
    const uint32_t heads = arguments.heads, kvHeads = arguments.headsOfKeys(), model = assumed.x.back();
    const bool crosses = !assumed.context.empty();
    Operands operands;
    const auto add = [&](vkattn_role role, const char *option, const Extents &extents) {
        const std::string text = std::string(option) + " (" + operandName(role).key + ")";
        operands[role] = {text, dense(text, assumed.dtype, extents)};
    };
    const auto rows = [&](vkattn_role role, const char *option, std::vector<uint32_t> shape) {
        shape.insert(shape.begin(), 3 - shape.size(), 1u);
        add(role, option, {shape[0], 1, shape[1], shape[2]});
    };
    rows(VKATTN_X, "--shape-x", assumed.x);
    if (crosses) rows(VKATTN_CONTEXT, "--shape-context", assumed.context);
    if (!assumed.headDim && model % heads)
        throw Failure("--shape-x has a model of " + std::to_string(model) + " dims, which --heads " + std::to_string(heads) +
                      " does not divide: say with --head-dim how many dims a head has");
    const uint32_t headDim = assumed.headDim ? assumed.headDim : model / heads, valueDim = assumed.valueDim ? assumed.valueDim : headDim,
                   keyModel = crosses ? assumed.context.back() : model;
    const struct {
        vkattn_role matrix, bias;
        uint64_t out;
        uint64_t in;
    } matrices[] = {{VKATTN_WQ, VKATTN_BQ, uint64_t{heads} * headDim, model},
                    {VKATTN_WK, VKATTN_BK, uint64_t{kvHeads} * headDim, keyModel},
                    {VKATTN_WV, VKATTN_BV, uint64_t{kvHeads} * valueDim, keyModel},
                    {VKATTN_WO, VKATTN_BO, model, uint64_t{heads} * valueDim}};
    for (const auto &[matrix, bias, out, in] : matrices) {
        if (std::max(out, in) > maxModel)
            throw Failure(std::to_string(heads) + " heads of " + std::to_string(std::max(headDim, valueDim)) +
                          " dims have too many dims together, expected at most " + std::to_string(maxModel));
        add(matrix, "--shape-x", {1, 1, static_cast<uint32_t>(out), static_cast<uint32_t>(in)});
        if (assumed.biases) add(bias, "--biases", {1, 1, 1, static_cast<uint32_t>(out)});
    }
    if (arguments.place != VKATTN_NORM_NONE)
        for (const vkattn_role role : {VKATTN_GAMMA, VKATTN_BETA}) add(role, "--norm", {1, 1, 1, model});
    return operands;
}

// The files of one layer, checked in the user's words before the library checks them in its own.
class LayerShapes {
  public:
    LayerShapes(const LayerArguments &arguments, const Operands &operands, const Operand &x, const Operand &context)
        : arguments_(arguments), operands_(operands), x_(x), context_(context) {}

    void check() const {
        const uint32_t heads = arguments_.heads, kvHeads = arguments_.headsOfKeys();
        if (heads % kvHeads != 0)
            throw Failure("--kv-heads " + std::to_string(kvHeads) + " does not divide --heads " + std::to_string(heads) +
                          ", expected a divisor: each head of keys and values serves as many query heads as the others");
        const char *const kvOption = arguments_.kvHeads ? "--kv-heads" : "--heads";
        checkMatrix(VKATTN_WQ, heads, "--heads", x_);
        checkMatrix(VKATTN_WK, kvHeads, kvOption, context_);
        checkMatrix(VKATTN_WV, kvHeads, kvOption, context_);
        const Operand &wq = file(VKATTN_WQ), &wk = file(VKATTN_WK), &wv = file(VKATTN_WV), &wo = file(VKATTN_WO);
        const uint32_t headDim = rows(wq) / heads, valueDim = rows(wv) / kvHeads;
        if (rows(wk) != uint64_t{kvHeads} * headDim)
            throw Failure(wk.text + ": has " + std::to_string(rows(wk)) + " rows, expected " + kvOption +
                          " * head dim = " + std::to_string(kvHeads) + " * " + std::to_string(headDim) + ", as " + wq.text + " has it" +
                          (arguments_.kvHeads ? "" : "; where keys have fewer heads than queries give --kv-heads"));
        if (wo.layout.extent[dim] != uint64_t{heads} * valueDim)
            throw Failure(wo.text + ": has " + std::to_string(wo.layout.extent[dim]) + " columns, expected --heads * value dim = " +
                          std::to_string(heads) + " * " + std::to_string(valueDim) + ", as " + wv.text + " has it");
        if (rows(wo) == 0) throw Failure(wo.text + ": has 0 rows, expected at least 1");
        if (arguments_.residual && rows(wo) != x_.layout.extent[dim])
            throw Failure("shapes disagree: " + wo.text + " and " + x_.text + ": --residual adds the tokens to the output, so that " +
                          "the matrix has " + std::to_string(x_.layout.extent[dim]) + " rows, or leave --residual out");
        const std::pair<vkattn_role, vkattn_role> biases[] = {
            {VKATTN_BQ, VKATTN_WQ}, {VKATTN_BK, VKATTN_WK}, {VKATTN_BV, VKATTN_WV}, {VKATTN_BO, VKATTN_WO}};
        for (const auto &[bias, matrix] : biases) checkVector(bias, rows(file(matrix)), "row of " + file(matrix).text);
        for (const vkattn_role role : {VKATTN_GAMMA, VKATTN_BETA})
            if (arguments_.place == VKATTN_NORM_PRE)
                checkVector(role, x_.layout.extent[dim], "dim of " + x_.text);
            else
                checkVector(role, rows(wo), "row of " + wo.text);
    }

  private:
    [[nodiscard]] const Operand &file(vkattn_role role) const { return operands_.at(role); }
    [[nodiscard]] static uint32_t rows(const Operand &matrix) { return matrix.layout.extent[token]; }

    // A matrix whose rows are heads of equal size, and whose columns are the dims of the tokens.
    void checkMatrix(vkattn_role role, uint32_t heads, const char *headsOption, const Operand &tokens) const {
        const Operand &matrix = file(role);
        if (rows(matrix) == 0 || rows(matrix) % heads != 0)
            throw Failure(matrix.text + ": has " + std::to_string(rows(matrix)) + " rows, expected a multiple of " + headsOption + " " +
                          std::to_string(heads));
        if (matrix.layout.extent[dim] != tokens.layout.extent[dim])
            throw Failure("shapes disagree: " + matrix.text + " and " + tokens.text +
                          ": a row of the matrix [out, in] has as many numbers as a token, " + std::to_string(tokens.layout.extent[dim]));
    }
    void checkVector(vkattn_role role, uint32_t count, const std::string &what) const {
        const Operand *const vector = find(operands_, role);
        if (vector && vector->layout.extent[dim] != count)
            throw Failure(vector->text + ": expected one number for each " + what + ", shape (" + std::to_string(count) + ",)");
    }

    const LayerArguments &arguments_;
    const Operands &operands_;
    const Operand &x_, &context_;
};

// The tables of a rotary embedding begin with the first token's position.
void describeRotary(const LayerArguments &arguments, const Operand &x, uint32_t headDim, LayerJob &job) {
    if (!arguments.rotates) return;
    const RotaryChoice &rotary = arguments.rotary;
    const uint32_t dims = rotary.dims.value_or(headDim), tokens = x.layout.extent[token];
    if (dims > headDim || dims % 2 != 0)
        throw Failure((rotary.dims ? rotary.option("dims") + " is " + std::to_string(dims) : "--rotary turns pairs of dims") +
                      ", and heads have " + std::to_string(headDim) + ", expected an even number from 2 to " +
                      std::to_string(headDim - headDim % 2) + (rotary.dims ? "" : ": say with --rotary-dims how many are turned"));
    checkLastPosition(rotary, x);
    if (!arguments.explains) job.tablePositions.resize(std::max(tokens, 1u));
    std::iota(job.tablePositions.begin(), job.tablePositions.end(), rotary.start);
    job.layer.cos = job.layer.sin = matrix(VKATTN_F32, std::max(tokens, 1u), dims / 2);
    job.layer.pairs = rotary.pairs;
}

std::vector<uint64_t> shapeLike(const Input &x, uint64_t last) {
    std::vector<uint64_t> shape = x.header().shape;
    shape.back() = last;
    return shape;
}

void addOutput(const LayerArguments &arguments, LayerJob &job, vkattn_role role, const vkattn_layout &layout, std::vector<uint64_t> shape) {
    uint64_t bytes = layout.dtype == VKATTN_F32 ? 4 : 2;
    for (const uint64_t extent : shape) bytes *= extent;
    const NpyType type = layout.dtype == VKATTN_F16 ? npyFloat16 : npyFloat32;
    job.outputs.push_back({role, arguments.files[role], type, std::move(shape), layout.dtype, bytes});
}

} // namespace

vkattn_layout layoutOf(const LayerJob &job, vkattn_role role) {
    for (const Parameter &parameter : parameters)
        if (parameter.role == role) return job.layer.*parameter.layout;
    switch (role) {
    case VKATTN_X:
        return job.layer.x;
    case VKATTN_CONTEXT:
        return job.layer.context;
    case VKATTN_COS:
        return job.layer.cos;
    case VKATTN_SIN:
        return job.layer.sin;
    case VKATTN_Y:
        return job.layer.y;
    case VKATTN_MASK:
        return job.options.mask;
    case VKATTN_BIT_MASK:
        return job.options.bitMask;
    case VKATTN_BIAS:
        return job.options.bias;
    case VKATTN_WEIGHTS:
        return job.options.weights;
    case VKATTN_LSE:
        return job.options.lse;
    default: {
        const vkattn_operation attention = operation(job.plan.attention);
        return vector(VKATTN_BITS32, static_cast<uint32_t>(vkattnOperationBytes(&attention, role) / 4));
    }
    }
}

std::unique_ptr<LayerJob> describeJob(LayerArguments arguments) {
    auto made = std::make_unique<LayerJob>();
    LayerJob &job = *made;
    const bool assumes = !arguments.assumed.x.empty();
    if (!assumes) nameParameters(arguments);
    job.inputs = openInputs(arguments, false);
    const Operands operands = assumes ? assumedOperands(arguments) : operandsOf(job.inputs);
    const Operand &rows = operands.at(VKATTN_X), *const context = find(operands, VKATTN_CONTEXT), &others = context ? *context : rows;
    for (const Operand *each : {&rows, &others}) requireSomething(*each, maxModel);
    if (context) requireEqual(rows, others, batch, "batch (first of 3 dimensions)");
    LayerShapes(arguments, operands, rows, others).check();
    const vkattn_layout &wq = operands.at(VKATTN_WQ).layout, &wo = operands.at(VKATTN_WO).layout;
    const uint32_t kvHeads = arguments.headsOfKeys();

    vkattn_layer &layer = job.layer;
    layer.structSize = sizeof layer;
    layer.flags = arguments.residual ? uint32_t{VKATTN_LAYER_RESIDUAL} : 0;
    layer.heads = arguments.heads;
    layer.kvHeads = kvHeads;
    layer.place = arguments.place;
    layer.norm = VKATTN_LAYER_NORM;
    layer.epsilon = arguments.epsilon;
    layer.stored = arguments.roundTo.value_or(rows.layout.dtype);
    layer.outputDropout = arguments.outputDropout;
    if (arguments.outputDropout > 0) {
        layer.outputDropoutSeed = arguments.dropoutSeed;
        layer.outputDropoutOffset = arguments.outputOffset();
    }
    layer.x = rows.layout;
    if (context) layer.context = others.layout;
    for (const Parameter &parameter : parameters)
        if (const Operand *const operand = find(operands, parameter.role)) layer.*parameter.layout = operand->layout;
    const uint32_t entries = rows.layout.extent[batch], tokens = rows.layout.extent[token], out = wo.extent[token],
                   headDim = wq.extent[token] / arguments.heads;
    layer.y = dense("--out " + arguments.files[VKATTN_Y], arguments.outDtype.value_or(rows.layout.dtype), {entries, 1, tokens, out});

    describeRotary(arguments, rows, headDim, job);

    // What the options are checked against.
    Operand q = rows, k = others;
    q.layout.extent[head] = arguments.heads, k.layout.extent[head] = kvHeads;
    q.layout.extent[dim] = k.layout.extent[dim] = headDim;
    Extents pairs;
    describeAttention(arguments, {}, job.inputs, q, k, job.options, pairs);
    job.options.q = job.options.k = {};
    if (arguments.averageWeights && !job.options.sequences) layer.flags |= VKATTN_LAYER_AVERAGED_WEIGHTS;
    if (!arguments.files[VKATTN_WEIGHTS].empty()) {
        const uint32_t heads = layer.flags & VKATTN_LAYER_AVERAGED_WEIGHTS ? 1 : pairs[head];
        job.options.weights =
            dense("--weights " + arguments.files[VKATTN_WEIGHTS], VKATTN_F32, {pairs[batch], heads, pairs[token], pairs[dim]});
    }
    if (!arguments.files[VKATTN_LSE].empty())
        job.options.lse = dense(std::string(operandName(arguments, VKATTN_LSE).option) + " " + arguments.files[VKATTN_LSE], VKATTN_F32,
                                {entries, arguments.heads, tokens, arguments.rowStatistics ? 2u : 1u});
    layer.options = &job.options;
    job.plan.structSize = sizeof job.plan;
    vkattn_diagnostic why{};
    if (vkattnPlanLayer(&layer, &job.plan, &why) != VKATTN_OK)
        failInvalid(why, job, assumes ? std::vector<std::string>{rows.text} : std::vector<std::string>{});
    if (arguments.explains) return made;

    const Input &x = *std::find_if(job.inputs.begin(), job.inputs.end(), [](const Input &input) { return input.role() == VKATTN_X; });
    addOutput(arguments, job, VKATTN_Y, layer.y, shapeLike(x, out));
    if (!arguments.files[VKATTN_LSE].empty()) {
        std::vector<uint64_t> shape = {entries, arguments.heads, tokens};
        if (arguments.rowStatistics) shape.push_back(2);
        addOutput(arguments, job, VKATTN_LSE, job.options.lse, std::move(shape));
    }
    if (!arguments.files[VKATTN_WEIGHTS].empty())
        addOutput(arguments, job, VKATTN_WEIGHTS, job.options.weights,
                  arguments.averageWeights ? std::vector<uint64_t>{pairs[0], pairs[2], pairs[3]} : std::vector<uint64_t>(pairs, pairs + 4));
    std::vector<NamedBytes> arrays;
    for (const Input &input : job.inputs) arrays.push_back({input.path(), input.header().dataBytes});
    for (const OutputArray &output : job.outputs) arrays.push_back({output.path, output.bytes});
    arrays.push_back({"what lies between the steps", job.plan.betweenBytes});
    arrays.push_back(
        {"the tables of cosines and sines", job.tablePositions.size() * (layer.cos.extent[3] * 2 * sizeof(float) + sizeof(uint32_t))});
    checkMemory(arrays);
    return made;
}

} // namespace vkattn::tool
