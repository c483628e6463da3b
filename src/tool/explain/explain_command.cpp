#include "tool/explain/explain_command.hpp"

#include "program/byte_text.hpp"
#include "program/json_text.hpp"
#include "tool/arrays/job.hpp"
#include "tool/device.hpp"
#include "tool/explain/fitting.hpp"
#include "tool/explain/mask_picture.hpp"
#include "tool/explain/stages.hpp"
#include "tool/options/names.hpp"
#include "tool/report/cpu_report.hpp"
#include "tool/report/options_report.hpp"
#include "tool/verdicts.hpp"

#include <vkattn/operations.hpp>
#include <vkattn/vkattn.hpp>

#include <cstdio>
#include <iomanip>
#include <iostream>
#include <optional>
#include <vector>

namespace vkattn::tool {
using namespace program;
namespace {

struct Rejection {
    const char *kernel;
    std::string reason;
};

struct Explained {
    const ExplainArguments &arguments;
    const Job &job;
    std::string device, driver, kernel, why;
    std::string tuning;                            // "built-in", or the file's path
    std::string fallbackReason;                    // why the CPU, where it was not asked for
    std::optional<vkattn_explanation> plan;        // empty: the CPU
    std::vector<Rejection> rejections;             // of the plan: the kernels that it does not take
    vkattn_cpu_plan cpuPlan{};                     // of the CPU
    std::vector<vkattn_explanation> projections{}; // on a device: of each of the job's
    std::optional<Fit> batch, tokens;              // with --memory
    std::optional<MaskFacts> mask;                 // with --draw-mask
};

// The workspace on the CPU.
bool cpuWorkspace(const vkattn_problem &problem, uint64_t &bytes, std::string &reason) {
    vkattn_cpu_plan plan{};
    plan.structSize = sizeof plan;
    vkattn_diagnostic why{};
    if (vkattnCpuExplain(&problem, nullptr, &plan, &why) != VKATTN_OK) return reason = why.message, false;
    bytes = plan.workspaceBytes;
    return true;
}

void findFits(Explained &result, const WorkspaceOf &workspaceOf) {
    const uint64_t bytes = result.arguments.memoryBytes;
    if (bytes == 0) return;
    const vkattn_problem &problem = result.job.problem;
    result.batch = largestFit(bytes, [&](uint32_t size) { return needOf(withBatch(problem, size), workspaceOf); });
    result.tokens = largestFit(bytes, [&](uint32_t size) { return needOf(withTokens(problem, size), workspaceOf); });
}

Explained explain(const ExplainArguments &arguments, const Job &job) {
    Explained result{.arguments = arguments, .job = job, .device = "cpu", .driver = "vkattn cpu fallback", .kernel = "cpu"};
    vkattn_diagnostic why{};
    result.cpuPlan.structSize = sizeof result.cpuPlan;
    if (vkattnCpuExplain(&job.problem, nullptr, &result.cpuPlan, &why) != VKATTN_OK) throw Failure(why.message);
    const OpenedRuntime opened = openRuntime(arguments.run);
    const DeviceInfo *device = opened.runtime->device();
    if (device == nullptr) {
        result.fallbackReason = opened.runtime->fallbackReason();
        result.why = result.fallbackReason.empty() ? "asked for with --device cpu" : result.fallbackReason;
        findFits(result, cpuWorkspace);
        return result;
    }
    vkattn_explanation plan{};
    plan.structSize = sizeof plan;
    const std::string &tuning = opened.tuning.text;
    vkattn_caps caps = device->caps;
    applyVerdicts(opened.verdictFile, *device, caps);
    const vkattn_result status = vkattn::explain(caps, job.problem, plan, planOptions(0, tuning), &why);
    const std::string reason = device->name + ": " + why.message;
    if (status == VKATTN_OK) {
        result.device = device->name;
        result.driver = device->driver;
        result.kernel = plan.kernelName;
        result.why = plan.choice;
        result.tuning = opened.tuning.source;
        result.plan = plan;
        for (const TokenProjection &each : job.projections.list) {
            vkattn_explanation own{};
            own.structSize = sizeof own;
            if (vkattn::explain(caps, operation(each.description), own, planOptions(0, tuning), &why) != VKATTN_OK) {
                own.form = "cpu";
                std::snprintf(own.choice, sizeof own.choice, "%s", why.message);
            }
            result.projections.push_back(own);
        }
        for (const vkattn_kernel kernel : KernelList()) {
            (void)vkattn::explainKernel(caps, job.problem, kernel, planOptions(0, tuning), &why);
            if (why.message[0] != '\0') result.rejections.push_back({vkattnKernelName(kernel), why.message});
        }
        findFits(result, [&](const vkattn_problem &problem, uint64_t &bytes, std::string &refusal) {
            vkattn_explanation sized{};
            sized.structSize = sizeof sized;
            if (vkattn::explain(caps, problem, sized, planOptions(0, tuning), &why) != VKATTN_OK) return refusal = why.message, false;
            bytes = sized.workspaceBytes;
            return true;
        });
    } else if (status != VKATTN_ERROR_UNSUPPORTED) {
        throw Failure(reason);
    } else if (!arguments.run.allowFallback) {
        throw Failure(reason + adviseFallback, ExitStatus::deviceUnusable);
    } else {
        result.why = result.fallbackReason = reason;
        findFits(result, cpuWorkspace);
    }
    return result;
}

// The tensors, by their names.
template <class Visit> void forTensors(const RunArguments &arguments, const vkattn_problem &problem, const Visit &visit) {
    const struct {
        vkattn_role role;
        const vkattn_layout &layout;
    } tensors[] = {{VKATTN_Q, problem.q},
                   {VKATTN_K, problem.k},
                   {VKATTN_V, problem.v},
                   {VKATTN_MASK, problem.mask},
                   {VKATTN_BIT_MASK, problem.bitMask},
                   {VKATTN_BIAS, problem.bias},
                   {VKATTN_OUT, problem.out},
                   {VKATTN_LSE, problem.lse},
                   {VKATTN_WEIGHTS, problem.weights},
                   {VKATTN_SCORES, problem.scores}};
    for (const auto &[role, layout] : tensors)
        if (layout.extent[0] > 0) visit(operandName(arguments, role).key, layout);
}

Json toJson(const vkattn_explanation &plan, const std::vector<Rejection> &rejections) {
    Json rejected = Json::object();
    for (const Rejection &each : rejections) rejected[each.kernel] = each.reason;
    return {{"form", plan.form},
            {"rejected", std::move(rejected)},
            {"rowsPerWorkgroup", plan.rowsPerWorkgroup},
            {"patchRows", plan.patchRows},
            {"patchColumns", plan.patchColumns},
            {"tilesInTurn", plan.tilesInTurn != 0},
            {"keysPerStep", plan.keysPerStep},
            {"packedHeads", plan.packedHeads},
            {"splits", plan.splits},
            {"dispatchCount", plan.dispatchCount},
            {"pipelineCount", plan.pipelineCount},
            {"chunkCount", plan.chunkCount},
            {"sliceCount", plan.sliceCount},
            {"maxSlices", plan.maxSlices},
            {"largestSlice", jsonNumber(plan.largestSlice)},
            {"persistentWorkspaceBytes", plan.persistentWorkspaceBytes},
            {"groups", plan.groups},
            {"workgroupInvocations", plan.workgroupInvocations},
            {"workspaceBytes", plan.workspaceBytes},
            {"unpacksHalves", plan.unpacksHalves != 0},
            {"compileOperations", plan.compileOperations},
            {"compileLimit", plan.compileLimit},
            {"passedOverOperations", plan.passedOverOperations},
            {"flops", jsonNumber(plan.flops)},
            {"flopsFull", jsonNumber(plan.flopsFull)},
            {"bytesRead", jsonNumber(plan.bytesRead)},
            {"bytesWritten", jsonNumber(plan.bytesWritten)}};
}

// What the projection before attention costs.
struct ProjectionCost {
    double flops = 0, bytesRead = 0, bytesWritten = 0;
};
ProjectionCost costOf(const TokenProjection &projection) {
    const vkattn_operation described = operation(projection.description);
    const uint32_t *y = projection.description.y.extent;
    ProjectionCost cost{.flops = 2.0 * y[0] * y[1] * y[2] * y[3] * projection.tokens()};
    vkattn_operand_use uses[VKATTN_ROLE_LIMIT];
    const uint32_t count = vkattnOperandUses(&described, uses, VKATTN_ROLE_LIMIT);
    for (uint32_t n = 0; n < count; ++n)
        (uses[n].writes ? cost.bytesWritten : cost.bytesRead) += static_cast<double>(uses[n].endBytes - uses[n].beginBytes);
    return cost;
}

Json projectionsJson(const Explained &explained) {
    Json rows = Json::array();
    for (size_t n = 0; n < explained.job.projections.list.size(); ++n) {
        const TokenProjection &each = explained.job.projections.list[n];
        const ProjectionCost cost = costOf(each);
        Json row = {{"of", each.role == VKATTN_K ? "k" : "v"},
                    {"matrix", explained.job.projections.matrices[each.matrix].text()},
                    {"tokens", each.tokens()},
                    {"rows", each.rows()},
                    {"lengths", each.description.presentRoles != 0},
                    {"flops", jsonNumber(cost.flops)},
                    {"bytesRead", jsonNumber(cost.bytesRead)},
                    {"bytesWritten", jsonNumber(cost.bytesWritten)},
                    {"plan", nullptr}};
        if (n < explained.projections.size()) {
            const vkattn_explanation &plan = explained.projections[n];
            row["plan"] = {
                {"form", plan.form}, {"why", plan.choice}, {"dispatchCount", plan.dispatchCount}, {"workspaceBytes", plan.workspaceBytes}};
        }
        rows.push_back(std::move(row));
    }
    return rows;
}

void printProjections(const Explained &explained) {
    for (size_t n = 0; n < explained.job.projections.list.size(); ++n) {
        const TokenProjection &each = explained.job.projections.list[n];
        const ProjectionCost cost = costOf(each);
        std::cout << "project   " << each.tokens() << " tokens to " << each.rows() << " " << each.words() << " by "
                  << explained.job.projections.matrices[each.matrix].text() << ": " << amountText(cost.flops) << "FLOP, "
                  << amountText(cost.bytesRead) << "B read, " << amountText(cost.bytesWritten) << "B written";
        if (n < explained.projections.size()) std::cout << "; " << explained.projections[n].form << ": " << explained.projections[n].choice;
        std::cout << "\n";
    }
}

// What the longest sequence is of.
const char *tokensGrow(const vkattn_problem &problem) {
    return problem.q.extent[2] == problem.k.extent[2] ? "queries and keys" : "keys";
}

// The dims of all heads, as a recurrent net would have them.
Stage recurrentBeside(const vkattn_problem &problem) {
    return recurrentOf(double{1} * problem.q.extent[0] * problem.q.extent[2], double{1} * problem.q.extent[1] * problem.q.extent[3],
                       problem.q.dtype);
}

Json toJson(const Explained &explained) {
    Json shapes = Json::object(), dtypes = Json::object();
    forTensors(explained.arguments.run, explained.job.problem, [&](const char *key, const vkattn_layout &layout) {
        shapes[key] = layout.extent;
        dtypes[key] = dtypeNames[layout.dtype];
    });
    const std::optional<std::string> &device = explained.arguments.run.device;
    Json json = {{"requestedDevice", device ? Json(*device) : Json()},
                 {"device", explained.device},
                 {"driver", explained.driver},
                 {"kernel", explained.kernel},
                 {"why", explained.why},
                 {"tuning", explained.plan ? Json(explained.tuning) : Json()},
                 {"fallbackReason", explained.fallbackReason.empty() ? Json() : Json(explained.fallbackReason)},
                 {"plan", explained.plan ? toJson(*explained.plan, explained.rejections) : Json()},
                 {"cpuPlan", explained.plan ? Json() : cpuPlanJson(explained.cpuPlan)},
                 {"options", optionsJson(explained.arguments.run, explained.job.problem)},
                 {"shapes", std::move(shapes)},
                 {"dtypes", std::move(dtypes)}};
    const vkattn_problem &problem = explained.job.problem;
    if (explained.arguments.table) json["table"] = stagesJson(stagesOf(problem), recurrentBeside(problem));
    if (explained.batch)
        json["memory"] = {{"bytes", explained.arguments.memoryBytes},
                          {"batch", fitJson(*explained.batch)},
                          {"tokens", fitJson(*explained.tokens)},
                          {"tokensOf", tokensGrow(problem)}};
    if (!explained.job.projections.list.empty()) json["projections"] = projectionsJson(explained);
    if (explained.mask) json["mask"] = maskJson(explained.arguments, *explained.mask);
    return json;
}

std::string counted(uint32_t count, const char *what) {
    return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

void printPlan(const vkattn_explanation &plan, const std::vector<Rejection> &rejections) {
    for (const Rejection &each : rejections) std::cout << "not       " << each.kernel << ": " << each.reason << "\n";
    std::cout << "tiles     ";
    if (plan.rowsPerWorkgroup > 0) std::cout << counted(plan.rowsPerWorkgroup, "row") << " a workgroup, ";
    if (plan.patchRows > 0) std::cout << plan.patchRows << " x " << plan.patchColumns << " of the grid, ";
    if (plan.packedHeads > 1) std::cout << "the " << plan.packedHeads << " query heads of a key head packed as rows, ";
    if (plan.keysPerStep > 0) std::cout << counted(plan.keysPerStep, "key") << " a step, ";
    std::cout << "the keys of a row in " << counted(std::max(plan.splits, 1u), "piece") << "\n";
    std::cout << "records   " << plan.dispatchCount << (plan.dispatchCount == 1 ? " dispatch" : " dispatches") << " of "
              << counted(plan.pipelineCount, "pipeline") << " over " << counted(plan.chunkCount, "chunk") << " of the problem\n";
    if (plan.dispatchCount > 0) {
        std::cout << "groups    " << plan.groups[0] << " x " << plan.groups[1] << " x " << plan.groups[2];
        if (plan.workgroupInvocations > 0) std::cout << ", each of " << counted(plan.workgroupInvocations, "invocation");
        if (plan.tilesInTurn != 0) std::cout << ", with tiles from both ends in turn";
        std::cout << ", in the first main dispatch\n";
    }
    if (plan.sliceCount > 1) {
        std::cout << "slices    " << plan.sliceCount << " of at most " << plan.maxSlices << ", the largest has " << 100 * plan.largestSlice
                  << " % of the work\n";
        std::cout << "workspace " << byteText(plan.workspaceBytes) << ", " << byteText(plan.persistentWorkspaceBytes)
                  << " of it kept between slices\n";
    } else {
        std::cout << "workspace " << byteText(plan.workspaceBytes) << "\n";
    }
    if (plan.compileOperations > 0) {
        std::cout << "compile   " << plan.compileOperations << " operations of a lane, at most " << plan.compileLimit
                  << " for a built-in tile";
        if (plan.passedOverOperations > 0)
            std::cout << "; the tile that would come first has " << plan.passedOverOperations << ", too many to compile in time";
        std::cout << "\n";
    }
    if (plan.unpacksHalves != 0) std::cout << "halves    unpacked by one instruction, which keeps denormals on this device\n";
    std::cout << "work      " << amountText(plan.flops) << "FLOP";
    if (plan.flops < plan.flopsFull) std::cout << " of the " << amountText(plan.flopsFull) << "FLOP of all pairs";
    std::cout << ", " << amountText(plan.bytesRead) << "B read, " << amountText(plan.bytesWritten) << "B written\n";
}

void printText(const Explained &explained) {
    std::cout << "device    " << explained.device << " (" << explained.driver << ")\n";
    std::cout << "kernel    " << explained.kernel;
    if (explained.plan && explained.plan->form[0] != '\0') std::cout << ", " << explained.plan->form;
    std::cout << "\nwhy       " << explained.why << "\n";
    if (explained.plan) {
        std::cout << "tuning    " << explained.tuning << "\n";
        printPlan(*explained.plan, explained.rejections);
    } else {
        std::cout << "plan      " << cpuPlanText(explained.cpuPlan) << "\n";
    }
    printProjections(explained);
    if (const std::string options = optionsText(optionsJson(explained.arguments.run, explained.job.problem)); !options.empty())
        std::cout << "options   " << options << "\n";
    forTensors(explained.arguments.run, explained.job.problem, [](const char *key, const vkattn_layout &layout) {
        std::cout << std::left << std::setw(10) << key << npyShapeText(std::vector<uint64_t>(layout.extent, layout.extent + 4)) << " "
                  << dtypeNames[layout.dtype] << "\n";
    });
    const vkattn_problem &problem = explained.job.problem;
    if (explained.arguments.table) {
        ReportedStep planned{.name = explained.kernel, .formula = "what computes it, on the pairs visible by position"};
        if (explained.plan) {
            planned.flops = explained.plan->flops, planned.workspaceBytes = explained.plan->workspaceBytes;
            planned.bytesRead = explained.plan->bytesRead, planned.bytesWritten = explained.plan->bytesWritten;
        }
        printStages(stagesOf(problem), recurrentBeside(problem), explained.plan ? std::vector{planned} : std::vector<ReportedStep>{});
    }
    if (explained.batch) {
        std::cout << "memory    " << byteText(explained.arguments.memoryBytes) << "\n";
        std::cout << "  batch   " << fitText(*explained.batch) << "\n";
        std::cout << "  tokens  " << fitText(*explained.tokens) << " (" << tokensGrow(problem) << ")\n";
    }
    if (explained.mask) std::cout << maskText(explained.arguments, problem, *explained.mask);
}

} // namespace

ExitStatus explainCommand(const ExplainArguments &arguments) {
    Job job = describeProblem(arguments.run, arguments.assumed);
    std::optional<MaskFacts> mask;
    if (!arguments.maskFile.empty()) mask = drawMask(arguments, job);
    // The attention is that which reads the lists.
    if (const vkattn_blocks &lists = arguments.run.rules.lists; lists.kind != VKATTN_BLOCKS_NONE)
        job.problem.blocks = visibleBlocks(job.problem, lists.queries, lists.keys).blocks;
    Explained explained = explain(arguments, job);
    explained.mask = mask;
    if (arguments.run.json)
        std::cout << jsonText(toJson(explained), -1) << "\n";
    else
        printText(explained);
    return ExitStatus::success;
}

} // namespace vkattn::tool
