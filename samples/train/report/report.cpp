#include "report/report.hpp"

#include "program/json_text.hpp"
#include "program/legible_text.hpp"

#include <cstdio>

namespace train {
namespace {

using vkattn::program::Json;
using vkattn::program::jsonNumber;

Json verificationJson(const Verification &all) {
    return {{"passed", all.passed},
            {"steps", all.steps},
            {"rowsChecked", all.rows},
            {"worst",
             {{"step", all.worstStep},
              {"operation", all.worstOperation},
              {"trainingStep", all.worstTrainingStep},
              {"error", jsonNumber(all.worst.worstError)},
              {"bound", jsonNumber(all.worst.worstBound)},
              {"got", jsonNumber(all.worst.worstGot)},
              {"expected", jsonNumber(all.worst.worstExpected)}}}};
}

} // namespace

std::string worstText(const Verification &all) {
    char numbers[128];
    std::snprintf(numbers, sizeof numbers, "error %.4g, allowed %.4g (%.9g, expected %.9g)", all.worst.worstError, all.worst.worstBound,
                  all.worst.worstGot, all.worst.worstExpected);
    return "in '" + all.worstStep + "' of step " + std::to_string(all.worstTrainingStep) + ": " + numbers;
}

void printReport(const Report &report) {
    std::printf("device    %s (%s)\n", vkattn::program::legibleLine(report.device).c_str(),
                vkattn::program::legibleLine(report.driver).c_str());
    if (!report.fallbackReason.empty()) std::printf("fallback  computed on the CPU: %s\n", report.fallbackReason.c_str());
    if (report.resumedFrom > 0) std::printf("resumed   after step %u\n", report.resumedFrom);
    if (const auto &all = report.verification)
        std::printf("verify    %s: %llu steps of lists, %llu rows\n          worst %s\n", all->passed ? "passed" : "FAILED",
                    static_cast<unsigned long long>(all->steps), static_cast<unsigned long long>(all->rows), worstText(*all).c_str());
    if (!report.arguments.checkpoint.empty()) std::printf("wrote     %s\n", report.arguments.checkpoint.c_str());
    if (!report.arguments.curve.empty()) std::printf("wrote     %s\n", report.arguments.curve.c_str());
    if (!report.example.empty()) std::printf("example   %s is copied as %s\n", report.example.c_str(), report.answer.c_str());
    const Figures &shown = report.evaluation.value_or(report.last);
    std::printf("step %u: loss %.4f, accuracy %.2f%%", report.steps, shown.loss, 100 * shown.accuracy);
    if (report.evaluation) std::printf(" on %u new sequences", report.evaluatedSequences);
    std::printf(", %.1f steps/s\n", report.stepsPerSecond());
}

std::string jsonOf(const Report &report) {
    const Arguments &given = report.arguments;
    const auto figures = [](const Figures &each) { return Json{{"loss", jsonNumber(each.loss)}, {"accuracy", jsonNumber(each.accuracy)}}; };
    Json json = {{"requestedDevice", given.device ? Json(*given.device) : Json()},
                 {"device", report.device},
                 {"driver", report.driver},
                 {"fallbackReason", report.fallbackReason.empty() ? Json() : Json(report.fallbackReason)},
                 {"seed", given.seed},
                 {"dropout", given.dropout},
                 {"steps", report.steps},
                 {"resumedFrom", report.resumedFrom},
                 {"interrupted", report.interrupted},
                 {"last", figures(report.last)},
                 {"evaluation", report.evaluation ? figures(*report.evaluation) : Json()},
                 {"evaluatedSequences", report.evaluatedSequences},
                 {"seconds", jsonNumber(report.seconds)},
                 {"stepsPerSecond", jsonNumber(report.stepsPerSecond())},
                 {"checkpoint", given.checkpoint.empty() ? Json() : Json(given.checkpoint)},
                 {"curve", given.curve.empty() ? Json() : Json(given.curve)}};
    if (report.verification) json["verify"] = verificationJson(*report.verification);
    return vkattn::program::jsonText(json, -1);
}

} // namespace train
