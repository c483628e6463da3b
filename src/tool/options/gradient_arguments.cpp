#include "tool/options/gradient_arguments.hpp"

#include "program/options/option_values.hpp"
#include "tool/options/names.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>

namespace vkattn::tool {
using namespace program;

void checkGradients(std::span<const GradientName> names, const ComputeArguments &arguments, bool hasNumber) {
    const auto given = [&](vkattn_role role) { return !arguments.files[role].empty(); };
    if (std::none_of(names.begin(), names.end(), [&](const GradientName &name) { return given(name.gradient); })) {
        std::string options;
        for (const GradientName &name : names) options += (options.empty() ? "" : ", ") + std::string(operandName(name.gradient).option);
        throw Failure("no gradient is asked for, expected at least one of " + options + ": name the file to write it to");
    }
    for (const GradientName &name : names) {
        const std::string option = operandName(name.gradient).option;
        if (!given(name.gradient) || name.option == nullptr) continue;
        if (name.of == VKATTN_ROLE_LIMIT ? hasNumber : given(name.of)) continue;
        std::string message = option + " asks for the gradient with respect to " + name.option + ", and there is none: add ";
        message += name.option;
        message += ", or leave " + option + " out";
        throw Failure(message);
    }
}

void GradientParser::addOptions(CLI::App &app) {
    const auto file = [&](vkattn_role role, const char *text) { return addFile(app, typed_, role, text); };
    addOperandOptions(app, typed_, true);
    app.get_option(operandName(VKATTN_V).option)->required();
    file(VKATTN_D_OUT, "The gradient of the loss with respect to the result, in the shape of the result: that of the queries, with the dim "
                       "of the values")
        ->required();
    file(VKATTN_D_LSE, "The same with respect to the log-sum-exp, float32 or float16 [..., query]");
    file(VKATTN_D_WEIGHTS,
         "The same with respect to the attention weights, float32 or float16 [..., query, key]; with --cu-seqlens-q [sequence, head, "
         "query, key]");
    file(VKATTN_D_Q, "Where to write the gradient with respect to the queries, in their shape; at least one gradient is asked for");
    file(VKATTN_D_K, "The same for the keys");
    file(VKATTN_D_V, "The same for the values");
    file(VKATTN_D_BIAS, "The same for --bias");
    file(VKATTN_D_SINKS, "The same for --sinks");
    file(VKATTN_D_SLOPES, "The same for --alibi");
    file(VKATTN_D_SCALE, "The same for the scale, float32 ()");
    file(VKATTN_D_SOFTCAP, "The same for --softcap, float32 ()");
    file(VKATTN_OUT, "Also write the result of the forward pass, float32");
    addTypeOptions(app, typed_, "Round queries, keys, values and --dout to this type and compute with them so",
                   "Type of the gradients; default: that of the file whose gradient it is, float32 for float64");
    addValue(app, "--loss-scale", "S",
             "Above 0: --dout, --dlse and --dweights were multiplied by S; every gradient is divided by S before it is rounded, and the "
             "report says whether all are finite",
             [&](const std::string &text) { typed_.lossScale = parseLossScale(text); });
    addAttentionOptions(app, alignments_, typed_);
    addOffsets(app, typed_);
    addProgramOptions(app, typed_);
    app.add_flag_callback(
        "--weights-after-dropout", [this] { typed_.flags |= VKATTN_WEIGHTS_DROPPED; },
        "--dweights is with respect to the weights after dropout");
    addValue(app, "--gradient-kernel", "NAME",
             "auto (default), staged, tiles, coopmat: which Vulkan routine computes the gradients; --kernel is of the forward pass",
             [&](const std::string &text) {
                 typed_.gradientKernel = static_cast<vkattn_gradient_kernel>(parseWord("--gradient-kernel", text, gradientKernelNames));
             });
    addSlicesOption(app, typed_);
    addDeviceOptions(app, typed_);
    app.footer("The forward pass runs first and keeps its result in float32, from which the gradients are exacter than from a result in 16 "
               "bits.\n\n" +
               std::string(computeExitStatuses));
}

GradientArguments GradientParser::interpret(const CLI::App &app) {
    checkRun(app, alignments_, typed_);
    checkConflicts(app, typed_, {});
    typed_.rowStatistics = true; // what the forward pass keeps of its rows
    checkGradients(gradientNames, typed_, typed_.softcap > 0);
    return typed_;
}

} // namespace vkattn::tool
