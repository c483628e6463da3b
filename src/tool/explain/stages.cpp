#include "tool/explain/stages.hpp"

#include "program/byte_text.hpp"
#include "tool/arrays/convert.hpp"
#include "tool/report/table.hpp"

#include <iostream>

namespace vkattn::tool {
using namespace program;
namespace {

std::string bytesText(double bytes) {
    return byteText(static_cast<uint64_t>(bytes));
}

} // namespace

std::vector<Stage> stagesOf(const vkattn_problem &problem) {
    // A ragged batch has sequences of at most so many tokens.
    const bool ragged = problem.sequences > 0;
    const double batch = ragged ? problem.sequences : problem.q.extent[0], heads = problem.q.extent[1], kvHeads = problem.k.extent[1];
    const double n = ragged && problem.maxSeqQ ? problem.maxSeqQ : problem.q.extent[2];
    const double m = ragged && problem.maxSeqK ? problem.maxSeqK : problem.k.extent[2];
    const double d = problem.q.extent[3], dv = problem.out.extent[3];
    const double pairs = batch * heads * n * m, weights = pairs * 4;
    const std::string each = "n m 4 = " + bytesText(n * m * 4) + " a head";
    const double q = batch * heads * n * d * itemBytes(problem.q.dtype), k = batch * kvHeads * m * d * itemBytes(problem.k.dtype);
    const double v = batch * kvHeads * m * dv * itemBytes(problem.v.extent[0] ? problem.v.dtype : problem.k.dtype);
    const double out = batch * heads * n * dv * itemBytes(problem.out.dtype);
    return {{"Q K^T", "2 n m d; scores " + each, 2 * pairs * d, q + k, weights, weights},
            {"softmax", "5 n m; weights " + each, 5 * pairs, weights, weights, weights},
            {"P V", "2 n m dv; output n dv", 2 * pairs * dv, weights + v, out, 0}};
}

Stage recurrentOf(double tokens, double dims, vkattn_dtype dtype) {
    const double bytes = itemBytes(dtype);
    return {"recurrent",
            "2 n D^2, D all dims; one token after the other",
            2 * tokens * dims * dims,
            (tokens * dims + dims * dims) * bytes,
            tokens * dims * bytes,
            0};
}

void printStages(const std::vector<Stage> &stages, const Stage &recurrent, const std::vector<ReportedStep> &planned) {
    Table table({{"stage", "stage"},
                 {"formula", "formula"},
                 {.key = "flops", .title = "flops", .right = true},
                 {.key = "read", .title = "read", .right = true},
                 {.key = "written", .title = "written", .right = true},
                 {.key = "kept", .title = "workspace", .right = true}});
    const auto add = [&](const Stage &stage) {
        table.add({stage.name, stage.formula, amountText(stage.flops), bytesText(stage.bytesRead), bytesText(stage.bytesWritten),
                   bytesText(stage.betweenBytes)});
    };
    Stage all{"all", stages.size() == 3 ? "4 n m d a head and a batch entry, where d = dv" : ""}; // of attention alone
    for (const Stage &stage : stages) {
        add(stage);
        all.flops += stage.flops, all.bytesRead += stage.bytesRead, all.bytesWritten += stage.bytesWritten;
        all.betweenBytes = std::max(all.betweenBytes, stage.betweenBytes);
    }
    add(all);
    for (const ReportedStep &step : planned)
        add({step.name, step.formula, step.flops, step.bytesRead, step.bytesWritten, static_cast<double>(step.workspaceBytes)});
    add(recurrent);
    std::cout << table.text("  ");
}

Json stagesJson(const std::vector<Stage> &stages, const Stage &recurrent) {
    Json json = Json::array();
    const auto add = [&](const Stage &stage) {
        json.push_back({{"stage", stage.name},
                        {"formula", stage.formula},
                        {"flops", jsonNumber(stage.flops)},
                        {"bytesRead", jsonNumber(stage.bytesRead)},
                        {"bytesWritten", jsonNumber(stage.bytesWritten)},
                        {"workspaceBytes", jsonNumber(stage.betweenBytes)}});
    };
    for (const Stage &stage : stages) add(stage);
    add(recurrent);
    return json;
}

} // namespace vkattn::tool
