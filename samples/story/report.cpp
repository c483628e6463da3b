#include "report.hpp"

#include "program/files/npy.hpp"
#include "program/json_text.hpp"
#include "program/legible_text.hpp"
#include "program/options/option_values.hpp"

#include <cstdio>
#include <cstdlib>

namespace story {
namespace {

using vkattn::program::Json;
using vkattn::program::jsonNumber;

double rateOf(uint32_t tokens, double milliseconds) {
    return milliseconds > 0 ? tokens / (milliseconds * 1e-3) : 0;
}

// The number that was written as an option: 0.9, not 0.8999999761581421.
double asWritten(float number) {
    char text[32];
    std::snprintf(text, sizeof text, "%.7g", static_cast<double>(number));
    return std::strtod(text, nullptr);
}

void printRate(const char *name, uint32_t tokens, double milliseconds, const char *note) {
    std::fprintf(stderr, "%-10s%u token%s in %.1f ms, %.0f tokens/s%s\n", name, tokens, tokens == 1 ? "" : "s", milliseconds,
                 rateOf(tokens, milliseconds), note);
}

Json rateJson(uint32_t tokens, double milliseconds) {
    return {{"tokens", tokens}, {"milliseconds", jsonNumber(milliseconds)}, {"tokensPerSecond", jsonNumber(rateOf(tokens, milliseconds))}};
}

Json verificationJson(const Verification &all) {
    return {{"passed", all.passed},
            {"steps", all.steps},
            {"rowsChecked", all.rows},
            {"worst",
             {{"step", all.worstStep},
              {"operation", all.worstOperation},
              {"position", all.worstPosition},
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
    return "in step " + all.worstStep + " from position " + std::to_string(all.worstPosition) + " on: " + numbers;
}

void printFigures(const Report &report) {
    std::fprintf(stderr, "device    %s (%s)\n", vkattn::program::legibleLine(report.device).c_str(),
                 vkattn::program::legibleLine(report.driver).c_str());
    if (!report.fallbackReason.empty()) std::fprintf(stderr, "fallback  computed on the CPU: %s\n", report.fallbackReason.c_str());
    std::fprintf(stderr, "record    %.1f ms, with planning and pipelines\n", report.recordingMilliseconds);
    printRate("prefill", report.promptTokens, report.prefillMilliseconds, ", with what the driver compiles at the first submission");
    if (report.decodedTokens > 0) printRate("decode", report.decodedTokens, report.decodeMilliseconds, ", without the first");
    if (const CacheError &error = report.cacheError; !error.layers.empty())
        std::fprintf(stderr, "cache     %s%s, %llu bytes a token: attention is %.2g %% from that over float32, %.2g %% in layer %zu\n",
                     vkattn::program::dtypeNames[report.arguments.kvType], report.arguments.hadamard ? " of rotated rows" : "",
                     static_cast<unsigned long long>(report.cacheBytesPerToken), 100 * error.relative(),
                     100 * error.layers[error.worstLayer()].relative(), error.worstLayer());
    if (const auto &all = report.verification)
        std::fprintf(stderr, "verify    %s: %llu steps, %llu rows\n          worst %s\n", all->passed ? "passed" : "FAILED",
                     static_cast<unsigned long long>(all->steps), static_cast<unsigned long long>(all->rows), worstText(*all).c_str());
    for (const WrittenArray &each : report.written)
        std::fprintf(stderr, "wrote     %s %s\n", each.path.c_str(),
                     each.shape.empty() ? "a line for each token" : (vkattn::program::npyShapeText(each.shape) + " float32").c_str());
}

std::string jsonOf(const Report &report) {
    const Arguments &given = report.arguments;
    const Shape &shape = report.shape;
    Json json = {
        {"requestedDevice", given.device ? Json(*given.device) : Json()},
        {"device", report.device},
        {"driver", report.driver},
        {"fallbackReason", report.fallbackReason.empty() ? Json() : Json(report.fallbackReason)},
        {"model",
         {{"dims", shape.dims},
          {"hidden", shape.hidden},
          {"layers", shape.layers},
          {"heads", shape.heads},
          {"kvHeads", shape.kvHeads},
          {"vocabulary", shape.vocabulary},
          {"positions", shape.positions}}},
        {"prompt", given.prompt},
        {"steps", report.steps},
        {"temperature", jsonNumber(asWritten(given.sampling.temperature))},
        {"topP", jsonNumber(asWritten(given.sampling.topP))},
        {"seed", given.sampling.seed},
        {"cache",
         {{"type", vkattn::program::dtypeNames[given.kvType]}, {"hadamard", given.hadamard}, {"bytesPerToken", report.cacheBytesPerToken}}},
        {"text", report.text},
        {"tokens", report.tokens},
        {"promptTokens", report.promptTokens},
        {"endedByModel", report.ended},
        {"recordMilliseconds", jsonNumber(report.recordingMilliseconds)},
        {"prefill", rateJson(report.promptTokens, report.prefillMilliseconds)},
        {"decode", rateJson(report.decodedTokens, report.decodeMilliseconds)}};
    if (const CacheError &error = report.cacheError; !error.layers.empty()) {
        json["cache"]["error"] = jsonNumber(error.relative());
        for (const CacheError::Sums &each : error.layers) json["cache"]["errorOfLayers"].push_back(jsonNumber(each.relative()));
    }
    for (const float lead : report.leads) json["logitLeads"].push_back(jsonNumber(static_cast<double>(lead)));
    if (report.verification) json["verify"] = verificationJson(*report.verification);
    for (const WrittenArray &each : report.written) json["outputs"].push_back({{"path", each.path}, {"shape", each.shape}});
    return vkattn::program::jsonText(json, -1);
}

} // namespace story
