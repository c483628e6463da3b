#include "tool/report/options_report.hpp"

#include "tool/options/names.hpp"

#include <vkattn/vkattn.h>

#include <sstream>

namespace vkattn::tool {
using namespace program;

Json optionsJson(const RunArguments &arguments, const vkattn_problem &problem) {
    Json json = Json::object();
    const bool causal = (problem.flags & VKATTN_CAUSAL) != 0, window = (problem.flags & VKATTN_WINDOW) != 0;
    const char *alignment = (problem.flags & VKATTN_ALIGN_TOP_LEFT) != 0 ? "top-left" : "bottom-right";
    const auto present = [&](vkattn_role role) {
        if (role == VKATTN_MASK) return problem.mask.extent[0] > 0;
        if (role == VKATTN_BIT_MASK) return problem.bitMask.extent[0] > 0;
        if (role == VKATTN_BIAS) return problem.bias.extent[0] > 0;
        return role >= VKATTN_KEY_LENGTHS && role < VKATTN_WQ && (problem.presentRoles & VKATTN_PRESENT(role)) != 0;
    };
    bool positional = window;
    for (const OperandName &name : operandNames) positional = positional || (name.positional && present(name.role));
    if (arguments.kernel != VKATTN_KERNEL_AUTO) json["kernel"] = vkattnKernelName(arguments.kernel);
    if (problem.scores.extent[0] > 0) json["scores"] = scoreStageNames[problem.scoresStage];
    if (arguments.slices > 1) json["slices"] = arguments.slices;
    if (arguments.roundTo) json["roundTo"] = dtypeNames[*arguments.roundTo];
    if (arguments.outDtype) json["outDtype"] = dtypeNames[*arguments.outDtype];
    if (causal) json["causal"] = alignment;
    if (window) json["window"] = {problem.windowLeft, problem.windowRight};
    if (positional && !causal) json["align"] = alignment;
    if ((problem.flags & VKATTN_SCALE) != 0) json["scale"] = problem.scale;
    if (problem.softcap > 0) json["softcap"] = problem.softcap;
    if (problem.dropout > 0) {
        json["dropout"] = problem.dropout;
        json["seed"] = problem.dropoutSeed;
        json["offset"] = problem.dropoutOffset;
        if ((problem.flags & VKATTN_WEIGHTS_DROPPED) != 0) json["weightsAfterDropout"] = true;
    }
    for (const OperandName &name : operandNames)
        if (name.reported && present(name.role)) json[name.key] = true;
    if (problem.sequences > 0) {
        json["sequences"] = problem.sequences;
        if (problem.maxSeqQ > 0) json["maxSeqQ"] = problem.maxSeqQ;
        if (problem.maxSeqK > 0) json["maxSeqK"] = problem.maxSeqK;
    }
    if (present(VKATTN_DOC_IDS_Q)) json["documents"] = true;
    if ((problem.flags & VKATTN_DETERMINISTIC) != 0) json["deterministic"] = true;
    if (arguments.valuesInKeys > 0) json["valuesInKeys"] = arguments.valuesInKeys;
    return json;
}

Json optionsJson(const GradientArguments &arguments, const vkattn_problem &forward) {
    Json json = optionsJson(static_cast<const RunArguments &>(arguments), forward);
    if (arguments.gradientKernel != VKATTN_GRADIENT_AUTO) json["gradientKernel"] = gradientKernelNames[arguments.gradientKernel];
    if (arguments.lossScale) json["lossScale"] = *arguments.lossScale;
    return json;
}

Json optionsJson(const RotaryArguments &arguments, const vkattn_rotary &rotary) {
    Json json = {{"pairs", pairsNames[arguments.pairs]}, {"dims", 2 * rotary.cos.extent[3]}};
    if (arguments.files[VKATTN_COS].empty())
        json["base"] = arguments.base;
    else
        json["tables"] = true;
    if (arguments.files[VKATTN_POSITIONS].empty())
        json["start"] = arguments.start;
    else
        json["positions"] = true;
    return json;
}

std::string optionsText(const Json &options) {
    std::ostringstream text;
    for (const auto &[key, value] : options.items()) {
        text << (text.tellp() > 0 ? ", " : "") << key;
        if (value.is_string())
            text << " " << value.get<std::string>();
        else if (value.is_array())
            text << " " << value[0] << "," << value[1];
        else if (value.is_number_float())
            text << " " << value.get<double>(); // in six digits, about what float32 has
        else if (value.is_number())
            text << " " << value;
    }
    return text.str();
}

} // namespace vkattn::tool
