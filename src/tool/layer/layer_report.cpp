#include "tool/layer/layer_report.hpp"

#include "tool/arrays/shapes.hpp"
#include "tool/options/names.hpp"
#include "tool/report/options_report.hpp"

#include <vkattn/vkattn.hpp>

namespace vkattn::tool {
using namespace program;
namespace {

std::string matrixText(const vkattn_layout &layout) {
    return "[" + std::to_string(layout.extent[2]) + ", " + std::to_string(layout.extent[3]) + "]";
}

} // namespace

std::vector<ReportedStep> describeSteps(const LayerJob &job, const Runtime &runtime) {
    vkattn_caps caps{};
    caps.structSize = sizeof caps;
    if (runtime.device())
        caps = runtime.device()->caps;
    else
        (void)vkattnMinimumCaps(&caps, nullptr);
    std::vector<ReportedStep> steps;
    for (uint32_t n = 0; n < job.plan.stepCount; ++n) {
        const vkattn_layer_step &step = job.plan.steps[n];
        vkattn_explanation explanation{};
        explanation.structSize = sizeof explanation;
        ReportedStep &row = steps.emplace_back();
        row.name = step.name;
        row.operation = vkattnOperationName(step.operation.kind);
        const auto of = step.operation.of;
        switch (step.operation.kind) {
        case VKATTN_PROJECTION:
            row.formula = shapeText(of.projection->x) + " x " + matrixText(of.projection->w) + "^T";
            row.result = shapeText(of.projection->y);
            break;
        case VKATTN_NORM:
            row.formula = "rows of " + shapeText(of.norm->x);
            row.result = shapeText(of.norm->y);
            break;
        case VKATTN_ROTARY:
            row.formula = shapeText(of.rotary->x) + " by " + matrixText(of.rotary->cos) + " angles";
            row.result = shapeText(of.rotary->y);
            break;
        case VKATTN_DROP:
            row.formula = "dropout of " + shapeText(of.drop->x);
            row.result = shapeText(of.drop->y);
            break;
        case VKATTN_MEAN:
            row.formula = "mean over heads of " + shapeText(of.mean->x);
            row.result = shapeText(of.mean->y);
            break;
        default:
            row.formula = shapeText(of.attention->q) + ", keys " + shapeText(of.attention->k);
            row.result = shapeText(of.attention->out);
            break;
        }
        if (vkattnExplainOperation(&caps, nullptr, &step.operation, &explanation, nullptr) != VKATTN_OK) continue;
        row.flops = explanation.flops;
        row.bytesRead = explanation.bytesRead, row.bytesWritten = explanation.bytesWritten;
        if (!runtime.device()) continue;
        row.workspaceBytes = explanation.workspaceBytes;
        row.kernel = explanation.kernelName;
        row.form = explanation.form;
        row.choice = explanation.choice;
    }
    return steps;
}

Json layerOptionsJson(const LayerArguments &arguments, const LayerJob &job) {
    Json json = {{"heads", job.layer.heads}};
    if (job.layer.kvHeads != job.layer.heads) json["kvHeads"] = job.layer.kvHeads;
    if (arguments.place != VKATTN_NORM_NONE) {
        json["norm"] = arguments.place == VKATTN_NORM_POST ? "post" : "pre";
        json["eps"] = arguments.epsilon;
    }
    if (arguments.residual) json["residual"] = true;
    if (arguments.averageWeights) json["averageWeights"] = true;
    if (arguments.outputDropout > 0) {
        json["outputDropout"] = arguments.outputDropout;
        json["seed"] = arguments.dropoutSeed;
        json["offset"] = arguments.dropoutOffset;
    }
    if (arguments.rotates) {
        json["rotary"] = pairsNames[arguments.rotary.pairs];
        json["rotaryDims"] = 2 * job.layer.cos.extent[3];
        json["rotaryBase"] = arguments.rotary.base;
        json["rotaryStart"] = arguments.rotary.start;
    }
    json.update(optionsJson(arguments, job.options));
    return json;
}

} // namespace vkattn::tool
