#include "tool/linear/explain_linear_command.hpp"

#include "program/byte_text.hpp"
#include "program/json_text.hpp"
#include "tool/device.hpp"
#include "tool/linear/linear_job.hpp"
#include "tool/report/options_report.hpp"
#include "tool/report/run_report.hpp"

#include <vkattn/vkattn.hpp>

#include <cmath>
#include <iomanip>
#include <iostream>
#include <limits>

namespace vkattn::tool {
using namespace program;
namespace {

// A pass, forward or backward. `plan` means something where a device computes; a pass that the device refuses is one of
// the CPU, as in a run.
struct ExplainedPass {
    ReportedStep step;
    vkattn_explanation plan{};
};

struct ExplainedLinear {
    const LinearArguments &arguments;
    const LinearJob &job;
    std::string device = "cpu", driver = "vkattn cpu fallback", fallbackReason;
    std::vector<ExplainedPass> passes;
};

ReportedStep stepOf(const char *name, const vkattn_operation &operation, const vkattn_linear_attention &linear) {
    ReportedStep step;
    step.name = name;
    step.operation = vkattnOperationName(operation.kind);
    step.formula = shapeText(linear.q) + ", keys " + shapeText(linear.k) + ", values " + shapeText(linear.v);
    step.result = shapeText(linear.out);
    step.kernel = "cpu";
    return step;
}

// What the CPU takes: the operations of any device whose limits are wide enough, and the bytes of the arrays, each once; those
// of a device include its workspace.
void countOnCpu(const vkattn_operation &operation, ReportedStep &step) {
    vkattn_caps caps{};
    caps.structSize = sizeof caps;
    (void)vkattnMinimumCaps(&caps, nullptr);
    caps.maxStorageBuffersPerStage = VKATTN_ROLE_LIMIT;
    caps.maxStorageBufferRange = std::numeric_limits<uint32_t>::max();
    caps.maxSharedMemoryBytes = 1u << 20;
    for (int d = 0; d < 3; ++d) caps.maxWorkgroupSize[d] = caps.maxWorkgroupInvocations = 1024, caps.maxWorkgroupCount[d] = 1u << 30;
    vkattn_explanation plan{};
    plan.structSize = sizeof plan;
    // Not known of what no device takes.
    step.flops = vkattn::explain(caps, operation, plan) == VKATTN_OK ? plan.flops : std::numeric_limits<double>::quiet_NaN();
    std::vector<vkattn_operand_use> uses(VKATTN_ROLE_LIMIT);
    uses.resize(vkattnOperandUses(&operation, uses.data(), VKATTN_ROLE_LIMIT));
    for (const vkattn_operand_use &use : uses)
        (use.writes ? step.bytesWritten : step.bytesRead) += static_cast<double>(use.endBytes - use.beginBytes);
}

// Throws Failure where the device refuses what it must compute. Returns its reason where the CPU computes instead.
std::string planPass(const LinearArguments &arguments, const DeviceInfo &device, const vkattn_operation &operation, ExplainedPass &pass) {
    pass.plan.structSize = sizeof pass.plan;
    vkattn_diagnostic why{};
    const vkattn_result status = vkattn::explain(device.caps, operation, pass.plan, planOptions(0), &why);
    if (status == VKATTN_OK) return "";
    const std::string reason = device.name + ": " + why.message;
    if (status != VKATTN_ERROR_UNSUPPORTED) throw Failure(reason);
    if (!arguments.allowFallback) throw Failure(reason + adviseFallback, ExitStatus::deviceUnusable);
    return reason;
}

ExplainedLinear explain(const LinearArguments &arguments, LinearJob &job) {
    ExplainedLinear result{.arguments = arguments, .job = job};
    std::vector<std::pair<const char *, vkattn_operation>> operations = {{"forward", operation(job.linear)}};
    if (arguments.hasGradients()) operations.emplace_back("backward", job.gradients());
    const std::unique_ptr<Runtime> runtime = openDevice(arguments);
    const DeviceInfo *const device = runtime->device();
    result.fallbackReason = runtime->fallbackReason();
    for (const auto &[name, each] : operations) {
        ExplainedPass &pass = result.passes.emplace_back();
        pass.step = stepOf(name, each, job.linear);
        const std::string refusal = device ? planPass(arguments, *device, each, pass) : "";
        if (!device || !refusal.empty()) {
            if (!refusal.empty()) result.fallbackReason = refusal;
            countOnCpu(each, pass.step);
            continue;
        }
        pass.step.kernel = pass.plan.kernelName;
        pass.step.form = pass.plan.form;
        pass.step.choice = pass.plan.choice;
        pass.step.flops = pass.plan.flops;
        pass.step.bytesRead = pass.plan.bytesRead, pass.step.bytesWritten = pass.plan.bytesWritten;
        pass.step.workspaceBytes = pass.plan.workspaceBytes;
    }
    if (device) result.device = device->name, result.driver = device->driver;
    return result;
}

Json toJson(const ExplainedPass &pass, bool planned) {
    const vkattn_explanation &plan = pass.plan;
    Json json = stepJson(pass.step);
    if (std::isnan(pass.step.flops)) json["flops"] = nullptr;
    json["kernel"] = pass.step.kernel;
    if (!planned) return json;
    json["form"] = pass.step.form;
    json["why"] = pass.step.choice;
    json["chunkTokens"] = plan.keysPerStep;
    json["columnsPerWorkgroup"] = plan.rowsPerWorkgroup;
    json["workgroups"] = {plan.groups[0], plan.groups[1], plan.groups[2]};
    json["dispatches"] = plan.dispatchCount;
    json["pipelines"] = plan.pipelineCount;
    json["workspaceBytes"] = plan.workspaceBytes;
    json["maxSlices"] = plan.maxSlices;
    return json;
}

Json toJson(const ExplainedLinear &explained) {
    const LinearArguments &arguments = explained.arguments;
    Json passes = Json::array();
    for (const ExplainedPass &pass : explained.passes) passes.push_back(toJson(pass, pass.step.kernel != "cpu"));
    return {{"requestedDevice", arguments.device ? Json(*arguments.device) : Json()},
            {"device", explained.device},
            {"driver", explained.driver},
            {"fallbackReason", explained.fallbackReason.empty() ? Json() : Json(explained.fallbackReason)},
            {"options", optionsJson(arguments, explained.job.linear)},
            {"passes", std::move(passes)}};
}

void printText(const ExplainedLinear &explained) {
    std::cout << "device    " << explained.device << " (" << explained.driver << ")\n";
    if (!explained.fallbackReason.empty()) std::cout << "fallback  " << explained.fallbackReason << "\n";
    std::cout << "options   " << optionsText(optionsJson(explained.arguments, explained.job.linear)) << "\n";
    std::vector<ReportedStep> steps;
    for (const ExplainedPass &pass : explained.passes) steps.push_back(pass.step);
    printSteps(steps);
    for (const auto &[step, plan] : explained.passes) {
        std::cout << std::left << std::setw(9) << step.name << ' ' << step.kernel;
        if (step.kernel == "cpu") {
            std::cout << "\n";
            continue;
        }
        if (!step.form.empty()) std::cout << ", " << step.form;
        if (!step.choice.empty()) std::cout << ": " << step.choice;
        std::cout << "\n          " << plan.keysPerStep << " tokens at a time, " << plan.rowsPerWorkgroup << " value dims a workgroup, "
                  << plan.dispatchCount << " dispatches of " << plan.pipelineCount << " pipelines, " << byteText(plan.workspaceBytes)
                  << " of workspace, at most " << plan.maxSlices << " slices\n";
    }
}

} // namespace

ExitStatus explainLinearCommand(const LinearArguments &arguments) {
    LinearJob job = describeJob(arguments);
    const ExplainedLinear explained = explain(arguments, job);
    if (arguments.json)
        std::cout << jsonText(toJson(explained), -1) << "\n";
    else
        printText(explained);
    return ExitStatus::success;
}

} // namespace vkattn::tool
