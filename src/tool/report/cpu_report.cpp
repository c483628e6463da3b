#include "tool/report/cpu_report.hpp"

#include "program/byte_text.hpp"

namespace vkattn::tool {
using namespace program;
namespace {

std::string counted(uint32_t count, const char *what) {
    return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

} // namespace

Json cpuPlanJson(const vkattn_cpu_plan &plan) {
    if (plan.structSize == 0) return {};
    return {{"target", plan.target},           {"kernel", plan.kernel},           {"vectorLanes", plan.vectorLanes},
            {"rowsPerTile", plan.rowsPerTile}, {"keysPerTile", plan.keysPerTile}, {"rowsPerUnit", plan.rowsPerUnit},
            {"splits", plan.splits},           {"threads", plan.threads},         {"workspaceBytes", plan.workspaceBytes}};
}

std::string cpuPlanText(const vkattn_cpu_plan &plan) {
    if (plan.structSize == 0) return {};
    std::string text = std::string(plan.target) + ", " + counted(plan.vectorLanes, "lane") + ": " + plan.kernel;
    text += plan.kernel == std::string("tiles") ? " of " : ", ";
    text += counted(plan.rowsPerTile, "row") + " x " + counted(plan.keysPerTile, "key") + ", up to " + counted(plan.rowsPerUnit, "row") +
            " at a time, ";
    if (plan.splits > 1) text += "keys in " + counted(plan.splits, "piece") + ", ";
    return text + counted(plan.threads, "thread") + ", " + byteText(plan.workspaceBytes) + " of workspace";
}

} // namespace vkattn::tool
