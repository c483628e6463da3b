#include "tool/options/linear_arguments.hpp"

#include "program/failure.hpp"
#include "program/options/option_values.hpp"
#include "tool/options/attention/attention_options.hpp"
#include "tool/options/gradient_arguments.hpp"
#include "tool/options/names.hpp"

#include <CLI/CLI.hpp>

namespace vkattn::tool {
using namespace program;
namespace {

constexpr uint32_t maxRandomFeatures = 1u << 20;

void addRule(CLI::App &app, LinearArguments &linear) {
    const auto word = [&](const char *name, const char *type, const char *text, const auto &words, auto &target) {
        using Choice = std::remove_reference_t<decltype(target)>;
        return addValue(app, name, type, text,
                        [=, &words, &target](const std::string &typed) { target = static_cast<Choice>(parseWord(name, typed, words)); });
    };
    word("--rule", "NAME",
         "softmax-features: feature maps with a normaliser; linear, gated, delta, gated-delta: a state that tokens write (ONNX's names)",
         linearRuleNames, linear.rule)
        ->required();
    word("--features", "NAME", "elu1 (default), relu, favor, favor2: the map of softmax-features", featureMapNames, linear.features);
    word("--form", "NAME", "auto (default), recurrent (token by token), chunked: how the scan is computed", linearFormNames, linear.form);
    word("--head-mapping", "NAME", "divided (default; neighbours share a head, as in ONNX), modulo (heads repeat, as in ggml)",
         headMappingNames, linear.mapping);
}

void addGradients(CLI::App &app, LinearArguments &linear) {
    const auto file = [&](vkattn_role role, const char *text) { return addFile(app, linear, role, text); };
    file(VKATTN_D_OUT, "The gradient of a loss with respect to the result, in the shape of the result: computes gradients, and the result "
                       "only with --out");
    file(VKATTN_D_STATE_OUT, "The same with respect to the state after the last token, float32; default: zeros");
    file(VKATTN_D_Q, "Where to write the gradient with respect to the queries, in their shape; at least one gradient is asked for");
    file(VKATTN_D_K, "The same for the keys");
    file(VKATTN_D_V, "The same for the values");
    file(VKATTN_D_DECAY, "The same for --decay");
    file(VKATTN_D_WRITE_STRENGTH, "The same for --beta");
    file(VKATTN_D_STATE_IN, "The same for --state-in");
    addValue(app, "--loss-scale", "S",
             "Above 0: --dout and --dstate-out were multiplied by S; every gradient is divided by S before it is rounded, and the report "
             "says whether all are finite",
             [&](const std::string &text) { linear.lossScale = parseLossScale(text); });
}

void readPresences(const std::string &text, LinearAssumptions &assumed) {
    for (const std::string &word : partsOfList(text)) {
        bool *const found = word == "key-decay"   ? &assumed.keyDecay
                            : word == "state-in"  ? &assumed.stateIn
                            : word == "state-out" ? &assumed.stateOut
                            : word == "gradients" ? &assumed.gradients
                                                  : nullptr;
        if (found == nullptr) badValue("--with", "a list like key-decay,state-out of key-decay, state-in, state-out, gradients", word);
        *found = true;
    }
}

// Which gradients may be asked for.
void checkGradients(const LinearArguments &typed) {
    const auto given = [&](vkattn_role role) { return !typed.files[role].empty(); };
    if (given(VKATTN_D_OUT)) return checkGradients(linearGradientNames, typed, false);
    constexpr const char *missing = "--dout is missing: the gradient of the loss with respect to the result";
    for (const GradientName &name : linearGradientNames)
        if (given(name.gradient)) throw Failure(operandName(name.gradient).option + std::string(" asks for a gradient, and ") + missing);
    if (given(VKATTN_D_STATE_OUT)) throw Failure(std::string("--dstate-out belongs to gradients, and ") + missing);
    if (typed.lossScale) throw Failure(std::string("--loss-scale belongs to gradients, and ") + missing);
    if (!given(VKATTN_OUT) && !typed.explains) throw Failure("--out is required: where to write the result");
}

} // namespace

void LinearParser::addOptions(CLI::App &app) {
    const auto file = [&](vkattn_role role, const char *text) { return addFile(app, typed_, role, text); };
    file(VKATTN_Q, "Queries: float32 or float16 .npy, [token, dim], [head, token, dim] or [batch, head, token, dim]")
        ->required(!typed_.explains);
    file(VKATTN_K, "Keys, likewise; as many heads as queries, or a divisor")->required(!typed_.explains);
    file(VKATTN_V, "Values, likewise; their dim may differ")->required(!typed_.explains);
    file(VKATTN_OUT, "Where to write the result, in the rank of the queries; required without --dout");
    addRule(app, typed_);
    file(VKATTN_OMEGA, "float32 [m, dim] or [head, m, dim]: the random features of favor and favor2, and of relu where given");
    app.add_flag("--causal", typed_.causal, "Hide keys after the query's own position, bottom-right; the other rules always do");
    file(VKATTN_DECAY,
         "Of the gated rules: the logarithm of what each token keeps of the state, float32 or float16 [batch, head, token] or "
         "[batch, head, token, dim]");
    file(VKATTN_WRITE_STRENGTH, "Of the delta rules: how much of a token is written, float32 or float16 [batch, head or 1, token]");
    file(VKATTN_STATE_IN, "The state before the first token, float32 [batch, head, dim, value dim]; default: zeros");
    file(VKATTN_STATE_OUT, "Where to write the state after the last token");
    addValue(app, "--scale", "X",
             "Multiply scores by X; default 1/sqrt(dim), which 0 means too but for favor and favor2; elu1 and relu ignore it",
             [&](const std::string &text) { typed_.scale = parseFloat("--scale", text, true); });
    addValue(app, "--round-to", "f16|bf16", "Round queries, keys and values to this type and compute with them so",
             [&](const std::string &text) {
                 const auto narrow = std::span(dtypeNames).subspan(VKATTN_F16, 2);
                 typed_.roundTo = static_cast<vkattn_dtype>(VKATTN_F16 + parseWord("--round-to", text, narrow));
             });
    addValue(app, "--out-dtype", "f32|f16|bf16",
             "Type of the result; default: that of the queries' file. .npy has no bf16: it is written as float32",
             [&](const std::string &text) { typed_.outDtype = readFloatType("--out-dtype", text); });
    addGradients(app, typed_);
    addComputeOptions(app, typed_);
    if (typed_.explains) return addShapes(app);
    app.footer(std::string("The state of softmax-features is [batch, head, feature, value dim + 1], and + 2 for favor and favor2: "
                           "include/vkattn/linear.h.\n\n") +
               computeExitStatuses);
}

void LinearParser::addShapes(CLI::App &app) {
    LinearAssumptions &assumed = typed_.assumed;
    addShape(app, "--shape-q", assumed.shapes[0], "Shape of the queries, in place of --q; 2 to 4 numbers");
    addShape(app, "--shape-k", assumed.shapes[1], "Shape of the keys, in place of --k; default: that of the queries");
    addShape(app, "--shape-v", assumed.shapes[2], "Shape of the values, in place of --v; default: that of the keys");
    addValue(app, "--dtype", "f32|f16|bf16", "Type of these; default f32",
             [&](const std::string &text) { assumed.dtype = readFloatType("--dtype", text); });
    addValue(app, "--random-features", "M", "As with --omega: so many random features",
             [&](const std::string &text) { assumed.randomFeatures = parseWhole("--random-features", text, maxRandomFeatures); });
    addValue(
        app, "--with", "LIST",
        "What takes part beside what --rule asks for, as key-decay,state-out: key-decay (a decay of each key dim), state-in, state-out, "
        "gradients (of every input)",
        [&](const std::string &text) { readPresences(text, assumed); });
    app.footer("Every option of `vkattn linear` is taken, so that a call is explained by putting `explain` before that word. Of files only "
               "headers are read; nothing is computed or written, and --out, --verify and --repeat do nothing.");
}

void LinearParser::checkShapes(const CLI::App &app) const {
    const LinearAssumptions &assumed = typed_.assumed;
    if (assumed.isMade()) {
        for (const OperandName &name : operandNames)
            if (!isOutput(name.role) && !typed_.files[name.role].empty())
                throw Failure(std::string("--shape-q stands in place of files, and ") + name.option +
                              " gives one: leave one of the two out");
        return;
    }
    for (const vkattn_role role : {VKATTN_Q, VKATTN_K, VKATTN_V})
        if (typed_.files[role].empty())
            throw Failure(std::string("explain linear needs arrays or their shapes, and ") + operandName(role).option +
                          " is missing: give --q, --k and --v, or --shape-q B,H,N,D");
    for (const char *const option : {"--shape-k", "--shape-v", "--dtype", "--random-features", "--with"})
        if (app.count(option) > 0) throw Failure(std::string(option) + " goes with --shape-q; files have their own, so leave it out");
}

LinearArguments LinearParser::interpret(const CLI::App &app) const {
    refuseMissingValues(app);
    if (typed_.explains) checkShapes(app);
    const LinearAssumptions &assumed = typed_.assumed;
    const auto given = [&](vkattn_role role) {
        return role == VKATTN_OMEGA && assumed.isMade() ? assumed.randomFeatures > 0 : !typed_.files[role].empty();
    };
    const char *const omega = assumed.isMade() ? "--random-features" : "--omega";
    const std::string rule = linearRuleNames[typed_.rule];
    const bool features = typed_.rule == VKATTN_LINEAR_FEATURES;
    const bool gated = isGated(typed_.rule), delta = isDelta(typed_.rule);
    if (!features && app.count("--features") > 0)
        throw Failure("--features chooses the map of --rule softmax-features, and --rule is " + rule + ": leave one of the two out");
    if (!features && given(VKATTN_OMEGA))
        throw Failure(std::string(omega) + " belongs to --rule softmax-features, and --rule is " + rule + ": leave one of the two out");
    if (features && given(VKATTN_OMEGA) && typed_.features == VKATTN_FEATURES_ELU1)
        throw Failure(std::string(omega) + " belongs to --features relu, favor and favor2, and elu1 has no random features: leave it out");
    if (features && !given(VKATTN_OMEGA) && typed_.features >= VKATTN_FEATURES_FAVOR)
        throw Failure(std::string("--features ") + featureMapNames[typed_.features] + " needs " + omega +
                      ": random features [m, dim], as vkattnRandomFeatures makes them");
    if (assumed.isMade()) {
        if (assumed.keyDecay && !gated)
            throw Failure("--with key-decay belongs to --rule gated and gated-delta, and --rule is " + rule + ": leave it out");
        checkGradients(typed_);
        return typed_;
    }
    if (gated != given(VKATTN_DECAY))
        throw Failure(gated ? "--rule " + rule + " needs --decay: the logarithm of what each token keeps of the state"
                            : "--decay belongs to --rule gated and gated-delta, and --rule is " + rule + ": leave it out");
    if (delta != given(VKATTN_WRITE_STRENGTH))
        throw Failure(delta ? "--rule " + rule + " needs --beta: how much of each token is written"
                            : "--beta belongs to --rule delta and gated-delta, and --rule is " + rule + ": leave it out");
    checkGradients(typed_);
    return typed_;
}

} // namespace vkattn::tool
