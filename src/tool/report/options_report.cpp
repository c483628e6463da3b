#include "tool/report/options_report.hpp"

#include "tool/options/names.hpp"

#include <vkattn/vkattn.h>

#include <sstream>

namespace vkattn::tool {
using namespace program;

namespace {

// "56x56:7x7", planes first where there are any; and the shift of windows.
std::string gridText(const vkattn_grid &grid) {
    const auto extents = [&](const uint32_t(&all)[3]) {
        const std::string plane = std::to_string(all[1]) + "x" + std::to_string(all[2]);
        return grid.extent[0] > 1 ? std::to_string(all[0]) + "x" + plane : plane;
    };
    std::string text = extents(grid.extent) + ":" + extents(grid.size);
    if (grid.rule == VKATTN_GRID_CUT) text += " cut";
    if (grid.rule == VKATTN_GRID_WINDOWS) text += " windows, shifted by " + std::to_string(grid.shift[2]);
    return text;
}

void addRules(Json &json, const vkattn_problem &problem) {
    const vkattn_blocks &blocks = problem.blocks;
    if (problem.dilation > 1) json["dilation"] = problem.dilation;
    if (problem.grid.rule != VKATTN_GRID_NONE) json["grid"] = gridText(problem.grid);
    if (blocks.kind == VKATTN_BLOCKS_BIGBIRD)
        json["bigbird"] = std::to_string(blocks.queries) + "," + std::to_string(blocks.random) + "," + std::to_string(blocks.seed);
    if (blocks.kind == VKATTN_BLOCKS_MASK) json["blockSize"] = {blocks.queries, blocks.keys};
}

} // namespace

Json optionsJson(const RunArguments &arguments, const vkattn_problem &problem) {
    Json json = Json::object();
    const bool causal = (problem.flags & VKATTN_CAUSAL) != 0, window = (problem.flags & VKATTN_WINDOW) != 0;
    const char *alignment = (problem.flags & VKATTN_ALIGN_TOP_LEFT) != 0 ? "top-left" : "bottom-right";
    const bool offsets = problem.queryOffset.kind || problem.keyOffset.kind;
    const auto present = [&](vkattn_role role) {
        if (role == VKATTN_MASK) return problem.mask.extent[0] > 0;
        if (role == VKATTN_BIT_MASK) return problem.bitMask.extent[0] > 0;
        if (role == VKATTN_BIAS) return problem.bias.extent[0] > 0;
        if (role == VKATTN_BLOCK_MASK) return problem.blocks.kind == VKATTN_BLOCKS_MASK;
        return role >= VKATTN_KEY_LENGTHS && role < VKATTN_WQ && (problem.presentRoles & VKATTN_PRESENT(role)) != 0;
    };
    bool positional = window;
    for (const OperandName &name : operandNames) positional = positional || (name.positional && present(name.role));
    if (arguments.kernel != VKATTN_KERNEL_AUTO) json["kernel"] = vkattnKernelName(arguments.kernel);
    if (problem.scores.extent[0] > 0) json["scores"] = scoreStageNames[problem.scoresStage];
    if (arguments.slices > 1) json["slices"] = arguments.slices;
    if (arguments.roundTo) json["roundTo"] = dtypeNames[*arguments.roundTo];
    if (arguments.outDtype) json["outDtype"] = dtypeNames[*arguments.outDtype];
    if (arguments.kvType) json["kvType"] = dtypeNames[*arguments.kvType];
    if (causal) json["causal"] = offsets ? "offset" : alignment;
    if (window) json["window"] = {problem.windowLeft, problem.windowRight};
    const auto addOffset = [&](const char *name, const vkattn_offset &offset) {
        if (offset.kind == VKATTN_OFFSET_NUMBER) json[name] = offset.tokens;
    };
    if (positional && !causal && !offsets) json["align"] = alignment;
    addOffset("queryOffset", problem.queryOffset), addOffset("keyOffset", problem.keyOffset);
    addRules(json, problem);
    if (problem.program) json["program"] = problem.program->name;
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
    if (!arguments.projectK.empty()) {
        json["projectK"] = true;
        if (!arguments.projectV.empty()) json["projectV"] = true;
        // Of the tokens: attention itself has none.
        if (!arguments.files[VKATTN_KEY_LENGTHS].empty()) json[operandName(VKATTN_KEY_LENGTHS).key] = true;
    }
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

Json optionsJson(const LinearArguments &arguments, const vkattn_linear_attention &linear) {
    Json json = {{"rule", linearRuleNames[arguments.rule]}};
    if (arguments.rule == VKATTN_LINEAR_FEATURES) json["features"] = featureMapNames[arguments.features];
    if (arguments.form != VKATTN_LINEAR_FORM_AUTO) json["form"] = linearFormNames[arguments.form];
    if (arguments.mapping != VKATTN_HEADS_DIVIDED) json["headMapping"] = headMappingNames[arguments.mapping];
    if (arguments.roundTo) json["roundTo"] = dtypeNames[*arguments.roundTo];
    if (arguments.outDtype) json["outDtype"] = dtypeNames[*arguments.outDtype];
    if (arguments.causal || arguments.rule != VKATTN_LINEAR_FEATURES) json["causal"] = "bottom-right";
    if (arguments.scale) json["scale"] = linear.scale;
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
