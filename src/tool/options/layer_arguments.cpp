#include "tool/options/layer_arguments.hpp"

#include "program/options/option_values.hpp"
#include "tool/options/names.hpp"

#include <CLI/CLI.hpp>

#include <cmath>
#include <cstdlib>

namespace vkattn::tool {
using namespace program;
namespace {

constexpr uint32_t maxHeads = 1u << 20;
// By vkattn_norm_place.
constexpr std::array<const char *, 3> placeNames = {"none", "post", "pre"};

float parseEpsilon(const std::string &text) {
    char *end = nullptr;
    const double given = std::strtod(text.c_str(), &end);
    const auto epsilon = static_cast<float>(given);
    if (text.empty() || *end != '\0' || !std::isfinite(epsilon) || given < 0)
        badValue("--eps", "a finite number of 0 or more like 1e-5", text);
    if (given > 0 && epsilon == 0)
        throw Failure("--eps " + text + " is too small for float32, where it would be 0: give 0 or a larger number");
    return epsilon;
}

} // namespace

void LayerParser::addOptions(CLI::App &app) {
    const auto value = [&](const char *name, const char *type, const char *text, std::function<void(const std::string &)> read) {
        return addValue(app, name, type, text, std::move(read));
    };
    const bool required = !typed_.explains;
    addFile(app, typed_, VKATTN_X, "The tokens: float32 or float16 .npy, [token, model] or [batch, token, model]")->required(required);
    addFile(app, typed_, VKATTN_CONTEXT, "What keys and values are made of, likewise (cross-attention); default: the tokens");
    app.add_option("--params", typed_.params,
                   "A folder with wq.npy, wk.npy, wv.npy and wo.npy as [out, in]; bq.npy, bk.npy, bv.npy and bo.npy [out] where there are "
                   "biases; with a norm gamma.npy and beta.npy [model]")
        ->type_name("DIR")
        ->required(required);
    value("--heads", "H", "Query heads", [&](const std::string &text) {
        typed_.heads = parseWhole("--heads", text, maxHeads);
    })->required();
    value("--kv-heads", "G", "Heads of keys and values, a divisor of H; default H",
          [&](const std::string &text) { typed_.kvHeads = parseWhole("--kv-heads", text, maxHeads); });
    value("--norm", "post|pre|none", "Layer norm of the result (post), of the tokens before the projections (pre), or none (default)",
          [&](const std::string &text) { typed_.place = static_cast<vkattn_norm_place>(parseWord("--norm", text, placeNames)); });
    app.add_flag("--residual", typed_.residual, "Add the tokens to the output: post is norm(X + Y), pre and none X + Y");
    value("--output-dropout", "P",
          "Probability with which each element is dropped that is added to the tokens, or is the output; which ones: --seed, and --offset "
          "with its highest bit flipped; default 0 = none",
          [&](const std::string &text) { typed_.outputDropout = parseProbability("--output-dropout", text); });
    value("--eps", "E", "Added to the norm's variance; default 1e-5",
          [&](const std::string &text) { typed_.epsilon = parseEpsilon(text); });
    value(
        "--rotary", "half|interleaved",
        "Turn queries and keys by their tokens' positions (rotary embedding): of N dims of a head t and t + N/2 together, or 2t and 2t + 1",
        [&](const std::string &text) {
            typed_.rotates = true;
            typed_.rotary.pairs = static_cast<vkattn_rotary_pairs>(parseWord("--rotary", text, pairsNames));
        });
    addRotaryChoice(app, typed_.rotary);
    addFile(app, typed_, VKATTN_Y, "Where to write the result, in the rank of the tokens")->required(required);
    app.add_flag("--average-weights", typed_.averageWeights, "--weights writes the mean over heads, [batch, query, key]");
    addTypeOptions(app, typed_, "Store queries, keys, values and the steps' results in this type",
                   "Type of the result; default: that of the tokens' file");
    addAttentionOptions(app, alignments_, typed_);
    addFurtherOutputs(app, typed_);
    addDeviceOptions(app, typed_);
    if (typed_.explains)
        addShapes(app);
    else
        app.footer(computeExitStatuses);
}

void LayerParser::addShapes(CLI::App &app) {
    LayerAssumptions &assumed = typed_.assumed;
    const auto shape = [&](const char *name, std::vector<uint32_t> &target, const char *text) {
        addValue(app, name, "B,N,D", text, [name, &target](const std::string &typed) {
            const bool good = parseList(typed, target) && (target.size() == 2 || target.size() == 3);
            if (!good || target.back() == 0 || target.front() == 0)
                badValue(name, "2 or 3 whole numbers [BATCH,]TOKENS,MODEL above 0 like 1,1024,512", typed);
        });
    };
    const auto dims = [&](const char *name, uint32_t &target, const char *text) {
        addValue(app, name, "N", text, [name, &target](const std::string &typed) { target = parseWhole(name, typed, mostDims); });
    };
    shape("--shape-x", assumed.x, "Shape of the tokens, in place of --x and --params");
    shape("--shape-context", assumed.context, "Shape of the context, in place of --context");
    dims("--head-dim", assumed.headDim, "Dims of a head of queries and keys, with --shape-x; default: model / H");
    dims("--value-dim", assumed.valueDim, "Dims of a head of values, with --shape-x; default: those of the queries");
    app.add_flag("--table", typed_.table,
                 "Stage by stage: bytes read and written and the workspace too, with attention's stages and their formulas");
    app.add_flag("--biases", assumed.biases, "The matrices have biases, with --shape-x");
    addValue(app, "--dtype", "f32|f16|bf16", "Type of all that --shape-x stands for; default f32",
             [&](const std::string &text) { assumed.dtype = readFloatType("--dtype", text); });
    app.footer(
        "Every option of `vkattn layer` is taken, so that a layer is explained by putting `explain` before that word. Of files only "
        "headers are read (and --cu-seqlens-q and -k); nothing is computed or written, and --out, --verify and --repeat do nothing.");
}

void LayerParser::checkShapes(const CLI::App &app) const {
    const LayerAssumptions &assumed = typed_.assumed;
    const bool shapes = !assumed.x.empty(), files = !typed_.files[VKATTN_X].empty() || !typed_.params.empty();
    if (shapes && (files || !typed_.files[VKATTN_CONTEXT].empty()))
        throw Failure("--shape-x and --shape-context stand in place of --x, --params and --context: give one kind and not both");
    if (!shapes && (typed_.files[VKATTN_X].empty() || typed_.params.empty()))
        throw Failure("explain layer needs a layer or its shapes: give --x and --params, or --shape-x B,N,D");
    if (shapes) return;
    for (const char *const option : {"--shape-context", "--head-dim", "--value-dim", "--biases", "--dtype"})
        if (app.count(option) > 0) throw Failure(std::string(option) + " goes with --shape-x; files have their own, so leave it out");
}

LayerArguments LayerParser::interpret(const CLI::App &app) {
    checkRun(app, alignments_, typed_);
    if (typed_.explains) checkShapes(app);
    checkConflicts(app, typed_, {});
    if (typed_.averageWeights && typed_.files[VKATTN_WEIGHTS].empty())
        throw Failure("--average-weights says how --weights is written, and there is none: add --weights FILE, or leave it out");
    if (app.count("--eps") > 0 && typed_.place == VKATTN_NORM_NONE)
        throw Failure("--eps is of the norm, and there is none: add --norm post or --norm pre, or leave it out");
    for (const char *const each : {"dims", "base", "start"})
        if (const std::string option = typed_.rotary.option(each); app.count(option) > 0 && !typed_.rotates)
            throw Failure(option +
                          " is of the rotary embedding, and there is none: add --rotary half or --rotary interleaved, or leave it out");
    if (typed_.rotates && !(typed_.files[VKATTN_CONTEXT].empty() && typed_.assumed.context.empty()))
        throw Failure("--rotary and --context are both given, expected one of them: the context's tokens have positions of their own");
    return typed_;
}

} // namespace vkattn::tool
