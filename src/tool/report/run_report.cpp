#include "tool/report/run_report.hpp"

#include "program/byte_text.hpp"
#include "tool/options/names.hpp"
#include "tool/report/cpu_report.hpp"
#include "tool/report/options_report.hpp"
#include "tool/report/table.hpp"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <sstream>

namespace vkattn::tool {
using namespace program;
namespace {

const char *roleName(const RunReport &report, vkattn_role role) {
    return operandName(report.arguments, role).key;
}

// Only attention has values V that a result is compared with.
bool hasValues(const RunReport &run, const vkattn_verify_report &report) {
    return run.arguments.ownNames.empty() && report.worstRole != VKATTN_Y && !isGradient(report.worstRole);
}

size_t indexLength(const RunReport &report, vkattn_role role) {
    return role == VKATTN_LSE && !report.arguments.rowStatistics ? 3 : 4;
}

Json toJson(const RunReport &run, const Verification &verification) {
    const vkattn_verify_report &report = verification.report;
    const bool all = report.rowsChecked == report.rowsTotal;
    Json json = {{"passed", report.passed != 0},
                 {"rows", all ? "all" : "sample"},
                 {"rowsChecked", report.rowsChecked},
                 {"rowsTotal", report.rowsTotal},
                 {"seed", all ? Json() : Json(verification.options.seed)},
                 {"maxError", jsonNumber(report.maxError)},
                 {"maxErrorRelativeToV", hasValues(run, report) ? jsonNumber(report.maxErrorRelativeToV) : Json()},
                 {"worst", nullptr}};
    if (report.rowsChecked > 0)
        json["worst"] = {{"role", roleName(run, report.worstRole)},
                         {"index", std::vector<uint32_t>(report.worstIndex, report.worstIndex + indexLength(run, report.worstRole))},
                         {"error", jsonNumber(report.worstError)},
                         {"bound", jsonNumber(report.worstBound)},
                         {"got", jsonNumber(report.worstGot)},
                         {"expected", jsonNumber(report.worstExpected)}};
    return json;
}

Json forwardJson(const RunResult &forward) {
    return {{"device", forward.device},
            {"driver", forward.driver},
            {"kernel", forward.kernel},
            {"fallbackReason", forward.fallbackReason.empty() ? Json() : Json(forward.fallbackReason)},
            {"milliseconds", jsonNumber(forward.milliseconds)},
            {"deviceTimestamps", forward.deviceTimestamps},
            {"workspaceBytes", forward.workspaceBytes},
            {"dispatchCount", forward.dispatchCount},
            {"cpuPlan", cpuPlanJson(forward.cpuPlan)}};
}

Json blocksJson(const ReportedBlocks &lists) {
    return {{"size", {lists.queries, lists.keys}},
            {"blocks", lists.blocks},
            {"listed", lists.listed},
            {"full", lists.full},
            {"kernel", lists.result.kernel},
            {"milliseconds", jsonNumber(lists.result.milliseconds)}};
}

Json projectionJson(const ReportedProjection &projection) {
    const RunResult &result = projection.result;
    return {{"of", projection.key},
            {"matrix", projection.matrix},
            {"tokens", projection.tokens},
            {"rows", projection.rows},
            {"dtype", dtypeNames[projection.dtype]},
            {"device", result.device},
            {"kernel", result.kernel},
            {"fallbackReason", result.fallbackReason.empty() ? Json() : Json(result.fallbackReason)},
            {"milliseconds", jsonNumber(result.milliseconds)},
            {"workspaceBytes", result.workspaceBytes},
            {"dispatchCount", result.dispatchCount}};
}

Json cacheJson(const ReportedCache &cache) {
    return {{"dtype", dtypeNames[cache.dtype]},
            {"bytes", cache.bytes},
            {"maxError", jsonNumber(cache.maxError)},
            {"rmsError", jsonNumber(cache.rmsError)},
            {"rmsOfOut", jsonNumber(cache.rmsOfOut)}};
}

Json toJson(const RunReport &report) {
    const RunResult &result = report.result;
    Json shapes = Json::object(), dtypes = Json::object(), outputs = Json::object();
    for (const Input &input : report.job.inputs) {
        shapes[roleName(report, input.role())] = input.header().shape;
        dtypes[roleName(report, input.role())] = npyTypeName(input.header().type);
    }
    for (const OutputArray &output : report.job.outputs) {
        shapes[roleName(report, output.role)] = output.shape;
        dtypes[roleName(report, output.role)] = npyTypeName(output.type);
        outputs[roleName(report, output.role)] = output.path;
    }
    Json json = {{"requestedDevice", report.arguments.device ? Json(*report.arguments.device) : Json()},
                 {"device", result.device},
                 {"driver", result.driver},
                 {"kernel", result.kernel},
                 {"tuning", result.kernel == "cpu" || !report.tuning ? Json() : Json(*report.tuning)},
                 {"fallbackReason", result.fallbackReason.empty() ? Json() : Json(result.fallbackReason)},
                 {"milliseconds", jsonNumber(result.milliseconds)},
                 {"deviceTimestamps", result.deviceTimestamps},
                 {"longestSliceMilliseconds", result.kernel == "cpu" ? Json() : jsonNumber(result.longestSliceMilliseconds)},
                 {"repeat", report.arguments.repeat},
                 {"workspaceBytes", result.workspaceBytes},
                 {"dispatchCount", result.dispatchCount},
                 {"cpuPlan", cpuPlanJson(result.cpuPlan)},
                 {"options", report.options},
                 {"shapes", std::move(shapes)},
                 {"dtypes", std::move(dtypes)},
                 {"outputs", std::move(outputs)}};
    if (report.forward) json["forward"] = forwardJson(*report.forward);
    if (report.finite) json["finite"] = *report.finite;
    if (report.visibleBlocks) json["visibleBlocks"] = blocksJson(*report.visibleBlocks);
    if (report.cache) json["cache"] = cacheJson(*report.cache);
    for (const ReportedProjection &projection : report.projections) json["projections"].push_back(projectionJson(projection));
    if (report.verification) {
        json["verify"] = toJson(report, *report.verification);
        if (report.forward || !report.projections.empty()) json["verify"]["step"] = report.verification->step;
    }
    for (const ReportedStep &step : report.steps) {
        Json row = stepJson(step);
        if (step.verification) row["verify"] = toJson(report, *step.verification);
        json["steps"].push_back(std::move(row));
    }
    return json;
}

std::string worstText(const RunReport &run, const vkattn_verify_report &report) {
    std::ostringstream text;
    text.precision(4);
    text << roleName(run, report.worstRole) << "[";
    for (size_t i = 0; i < indexLength(run, report.worstRole); i++) text << (i > 0 ? ", " : "") << report.worstIndex[i];
    text << "]: error " << report.worstError << ", allowed " << report.worstBound;
    text.precision(9);
    text << " (" << report.worstGot << ", expected " << report.worstExpected << ")";
    return text.str();
}

void printVerification(const RunReport &run, const Verification &verification) {
    const vkattn_verify_report &report = verification.report;
    std::cout << "verify    " << (report.passed != 0 ? "passed" : "FAILED") << ": ";
    if (report.rowsChecked == report.rowsTotal)
        std::cout << "every row, " << report.rowsTotal;
    else
        std::cout << report.rowsChecked << " of " << report.rowsTotal << " rows (drawn with seed " << verification.options.seed
                  << ", and the edges)";
    std::cout << ", max error " << report.maxError;
    if (hasValues(run, report)) std::cout << ", of max |v| " << report.maxErrorRelativeToV;
    std::cout << "\n";
    if (report.rowsChecked > 0)
        std::cout << "          worst " << (verification.step.empty() ? "" : "in step " + verification.step + ": ")
                  << worstText(run, report) << "\n";
}

void printForward(const RunResult &backward, const RunResult &forward) {
    std::cout << "forward   " << forward.kernel << ", " << forward.milliseconds << " ms";
    if (forward.device != backward.device) std::cout << " on " << forward.device;
    if (!forward.fallbackReason.empty() && forward.fallbackReason != backward.fallbackReason)
        std::cout << "; computed on the CPU: " << forward.fallbackReason;
    std::cout << "\n";
}

void printBlocks(const ReportedBlocks &lists) {
    const double all = std::max(lists.blocks, 1.0);
    std::cout << "blocks    " << lists.queries << " x " << lists.keys << ": " << 100 * lists.listed / all << " % visited, "
              << 100 * lists.full / all << " % full, found in " << lists.result.milliseconds << " ms\n";
}

void printProjection(const ReportedProjection &projection, const RunResult &attention) {
    const RunResult &result = projection.result;
    std::cout << "project   " << projection.tokens << " tokens to " << projection.rows << " " << projection.words << " by "
              << projection.matrix << ": " << result.milliseconds << " ms";
    if (result.device != attention.device) std::cout << " on " << result.device;
    if (!result.fallbackReason.empty() && result.fallbackReason != attention.fallbackReason)
        std::cout << "; computed on the CPU: " << result.fallbackReason;
    std::cout << "\n";
}

void printCache(const ReportedCache &cache) {
    std::cout << "cache     " << dtypeNames[cache.dtype] << ", " << byteText(cache.bytes)
              << "; error of the result against float32: at most " << cache.maxError << ", root mean square " << cache.rmsError;
    if (cache.rmsOfOut > 0) std::cout << " (" << 100 * cache.rmsError / cache.rmsOfOut << " % of the result's)";
    std::cout << "\n";
}

void printText(const RunReport &report) {
    const RunResult &result = report.result;
    std::cout.precision(4);
    std::cout << "device    " << result.device << " (" << result.driver << ")\n";
    if (!result.fallbackReason.empty()) std::cout << "fallback  computed on the CPU: " << result.fallbackReason << "\n";
    std::cout << "kernel    " << result.kernel;
    if (result.dispatchCount > 0)
        std::cout << ", " << result.dispatchCount << " dispatches, " << byteText(result.workspaceBytes) << " of workspace";
    if (result.kernel != "cpu" && report.tuning) std::cout << "\ntuning    " << *report.tuning;
    if (const std::string plan = cpuPlanText(result.cpuPlan); !plan.empty()) std::cout << "\nplan      " << plan;
    std::cout << "\ntime      " << result.milliseconds << " ms";
    if (result.deviceTimestamps) std::cout << " on the device";
    if (report.arguments.repeat > 1) std::cout << ", median of " << report.arguments.repeat;
    if (report.slices > 1 && result.kernel != "cpu")
        std::cout << "; the longest of " << report.slices << " slices " << result.longestSliceMilliseconds << " ms";
    std::cout << "\n";
    if (report.visibleBlocks) printBlocks(*report.visibleBlocks);
    if (report.cache) printCache(*report.cache);
    for (const ReportedProjection &projection : report.projections) printProjection(projection, result);
    if (report.forward) printForward(result, *report.forward);
    if (const std::string options = optionsText(report.options); !options.empty()) std::cout << "options   " << options << "\n";
    for (const Input &input : report.job.inputs) std::cout << "read      " << input.text() << "\n";
    if (!report.steps.empty()) printSteps(report.steps);
    if (report.finite) std::cout << "finite    " << (*report.finite ? "every gradient" : "NO: some gradients are infinite or NaN") << "\n";
    if (report.verification) printVerification(report, *report.verification);
    for (const OutputArray &output : report.job.outputs)
        std::cout << "wrote     " << output.path << " " << npyShapeText(output.shape) << " " << npyTypeName(output.type) << "\n";
}

} // namespace

Verification combined(std::span<const Verification> steps, const vkattn_verify_options &options) {
    Verification all;
    all.options = options;
    all.report.passed = 1;
    double worst = -1;
    for (const Verification &each : steps) {
        const vkattn_verify_report &report = each.report;
        const double ratio = report.worstBound > 0 ? report.worstError / report.worstBound : report.worstError;
        const uint64_t total = all.report.rowsTotal + report.rowsTotal, checked = all.report.rowsChecked + report.rowsChecked;
        const uint32_t passed = all.report.passed & report.passed;
        if (report.rowsChecked > 0 && (ratio > worst || (!report.passed && all.report.passed))) {
            worst = ratio;
            all.report = report;
            all.step = each.step;
        }
        all.report.rowsTotal = total, all.report.rowsChecked = checked, all.report.passed = passed;
    }
    return all;
}

Json stepJson(const ReportedStep &step) {
    return {{"name", step.name},     {"operation", step.operation},     {"formula", step.formula},
            {"result", step.result}, {"flops", jsonNumber(step.flops)}, {"bytes", jsonNumber(step.bytesRead + step.bytesWritten)}};
}

void printSteps(const std::vector<ReportedStep> &steps) {
    Table table({{"step", "step"},
                 {"of", "of"},
                 {"result", "result"},
                 {.key = "flops", .title = "flops", .right = true},
                 {.key = "bytes", .title = "bytes", .right = true}});
    double flops = 0, bytes = 0;
    for (const ReportedStep &step : steps) {
        table.add({step.name, step.formula, step.result, amountText(step.flops),
                   byteText(static_cast<uint64_t>(step.bytesRead + step.bytesWritten))});
        flops += step.flops, bytes += step.bytesRead + step.bytesWritten;
    }
    table.add({"all", "", "", amountText(flops), byteText(static_cast<uint64_t>(bytes))});
    std::cout << table.text("  ");
}

void printRunReport(const RunReport &report) {
    if (report.arguments.json)
        std::cout << jsonText(toJson(report), -1) << "\n";
    else
        printText(report);
    if (report.verification && report.verification->report.passed == 0) {
        std::string written;
        for (const OutputArray &output : report.job.outputs) written += (written.empty() ? "" : ", ") + output.path;
        const std::string &step = report.verification->step;
        std::cerr << "vkattn: verification failed: worst " << (step.empty() ? "" : "in step " + step + ": ")
                  << worstText(report, report.verification->report) << "; written nevertheless: " << written << "\n";
    }
}

} // namespace vkattn::tool
