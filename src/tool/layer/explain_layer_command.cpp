#include "tool/layer/explain_layer_command.hpp"

#include "program/byte_text.hpp"
#include "program/json_text.hpp"
#include "tool/device.hpp"
#include "tool/explain/stages.hpp"
#include "tool/layer/layer_report.hpp"
#include "tool/options/names.hpp"
#include "tool/report/options_report.hpp"

#include <vkattn/vkattn.hpp>

#include <iomanip>
#include <iostream>

namespace vkattn::tool {
using namespace program;
namespace {

struct ExplainedLayer {
    const LayerArguments &arguments;
    const LayerJob &job;
    std::string device = "cpu", driver = "vkattn cpu fallback", fallbackReason;
    std::vector<ReportedStep> steps;
    double flops = 0, bytes = 0;
    uint64_t parameters = 0; // numbers in the matrices, biases, gamma and beta
};

uint64_t elementsOf(const vkattn_layout &layout) {
    return uint64_t{layout.extent[0]} * layout.extent[1] * layout.extent[2] * layout.extent[3];
}

ExplainedLayer explain(const LayerArguments &arguments, const LayerJob &job) {
    ExplainedLayer result{.arguments = arguments, .job = job};
    const OpenedRuntime opened = openRuntime(arguments);
    if (const DeviceInfo *device = opened.runtime->device()) {
        result.device = device->name;
        result.driver = device->driver;
    } else {
        result.fallbackReason = opened.runtime->fallbackReason();
    }
    result.steps = describeSteps(job, *opened.runtime);
    for (ReportedStep &step : result.steps) {
        if (!opened.runtime->device()) step.kernel = "cpu";
        result.flops += step.flops;
        result.bytes += step.bytesRead + step.bytesWritten;
    }
    const vkattn_layer &l = job.layer;
    for (const vkattn_layout *each : {&l.wq, &l.wk, &l.wv, &l.wo, &l.bq, &l.bk, &l.bv, &l.bo, &l.gamma, &l.beta})
        result.parameters += elementsOf(*each);
    return result;
}

// The layer's steps as stages; attention is three.
std::vector<Stage> stagesOfLayer(const ExplainedLayer &explained) {
    std::vector<Stage> stages;
    for (uint32_t n = 0; n < explained.job.plan.stepCount; ++n) {
        const vkattn_operation &operation = explained.job.plan.steps[n].operation;
        const ReportedStep &step = explained.steps[n];
        if (operation.kind == VKATTN_ATTENTION)
            for (const Stage &each : stagesOf(*operation.of.attention)) stages.push_back(each);
        else
            stages.push_back(
                {step.name, step.formula, step.flops, step.bytesRead, step.bytesWritten, static_cast<double>(step.workspaceBytes)});
    }
    return stages;
}

// The kernel that computes attention's stages together, on a device.
std::vector<ReportedStep> plannedAttention(const std::vector<ReportedStep> &steps) {
    std::vector<ReportedStep> planned;
    for (ReportedStep step : steps) {
        if (step.operation != "attention" || step.choice.empty()) continue;
        step.name = step.kernel, step.formula = "what computes attention, on the pairs visible by position";
        planned.push_back(std::move(step));
    }
    return planned;
}

Stage recurrentBeside(const vkattn_layer &layer) {
    return recurrentOf(double{1} * layer.x.extent[0] * layer.x.extent[2], layer.x.extent[3], layer.x.dtype);
}

Json toJson(const ExplainedLayer &explained) {
    const LayerArguments &arguments = explained.arguments;
    const vkattn_layer &layer = explained.job.layer;
    Json shapes = {{"x", layer.x.extent}, {"out", layer.y.extent}}, steps = Json::array();
    if (layer.context.extent[0]) shapes["context"] = layer.context.extent;
    for (const ReportedStep &step : explained.steps) {
        Json row = stepJson(step);
        row["kernel"] = step.kernel;
        row["form"] = step.form;
        row["why"] = step.choice;
        steps.push_back(std::move(row));
    }
    Json json = {{"requestedDevice", arguments.device ? Json(*arguments.device) : Json()},
                 {"device", explained.device},
                 {"driver", explained.driver},
                 {"fallbackReason", explained.fallbackReason.empty() ? Json() : Json(explained.fallbackReason)},
                 {"options", layerOptionsJson(arguments, explained.job)},
                 {"shapes", std::move(shapes)},
                 {"parameters", explained.parameters},
                 {"betweenBytes", explained.job.plan.betweenBytes},
                 {"flops", jsonNumber(explained.flops)},
                 {"bytes", jsonNumber(explained.bytes)},
                 {"steps", std::move(steps)}};
    if (arguments.table) json["table"] = stagesJson(stagesOfLayer(explained), recurrentBeside(layer));
    return json;
}

void printText(const ExplainedLayer &explained) {
    std::cout << "device    " << explained.device << " (" << explained.driver << ")\n";
    if (!explained.fallbackReason.empty()) std::cout << "fallback  " << explained.fallbackReason << "\n";
    if (const std::string options = optionsText(layerOptionsJson(explained.arguments, explained.job)); !options.empty())
        std::cout << "options   " << options << "\n";
    if (explained.arguments.table)
        printStages(stagesOfLayer(explained), recurrentBeside(explained.job.layer), plannedAttention(explained.steps));
    else
        printSteps(explained.steps);
    std::cout << "weights   " << explained.parameters << " numbers\nbetween   " << byteText(explained.job.plan.betweenBytes)
              << " from step to step\n";
    for (const ReportedStep &step : explained.steps) {
        if (step.choice.empty()) continue;
        std::cout << std::left << std::setw(9) << step.name << ' ' << step.kernel;
        if (!step.form.empty()) std::cout << ", " << step.form;
        std::cout << ": " << step.choice << "\n";
    }
}

} // namespace

ExitStatus explainLayerCommand(const LayerArguments &arguments) {
    const std::unique_ptr<LayerJob> job = describeJob(arguments);
    const ExplainedLayer explained = explain(arguments, *job);
    if (arguments.json)
        std::cout << jsonText(toJson(explained), -1) << "\n";
    else
        printText(explained);
    return ExitStatus::success;
}

} // namespace vkattn::tool
