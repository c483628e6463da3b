#include "report.hpp"

#include "program/json_text.hpp"
#include "program/legible_text.hpp"

#include <algorithm>
#include <cstdio>
#include <memory>

namespace serve {

using vkattn::program::Json;
using vkattn::program::jsonNumber;

namespace {

struct Percentiles {
    double half = 0, most = 0, all = 0; // 50, 95 and 99 of a hundred
};
Percentiles percentilesOf(std::vector<double> values) {
    if (values.empty()) return {};
    std::sort(values.begin(), values.end());
    const auto at = [&](double share) { return values[static_cast<size_t>(share * static_cast<double>(values.size() - 1) + 0.5)]; };
    return {at(0.5), at(0.95), at(0.99)};
}

// Milliseconds from the arrival to the first token, and from a token to the next.
Percentiles firstTokens(const std::vector<Request> &requests) {
    std::vector<double> values;
    for (const Request &r : requests)
        if (!r.tokens.empty()) values.push_back((r.first - r.arrived) * 1e3);
    return percentilesOf(values);
}
Percentiles nextTokens(const std::vector<Request> &requests) {
    std::vector<double> values;
    for (const Request &r : requests)
        for (const float gap : r.gaps) values.push_back(static_cast<double>(gap) * 1e3);
    return percentilesOf(values);
}

double rateOf(const Report &report) {
    return report.seconds > 0 ? static_cast<double>(report.counts.generatedTokens) / report.seconds : 0;
}

Json jsonOf(const Percentiles &p) {
    return {{"p50", jsonNumber(p.half)}, {"p95", jsonNumber(p.most)}, {"p99", jsonNumber(p.all)}};
}

} // namespace

double residentMebibytes() {
    struct Close {
        void operator()(std::FILE *file) const { std::fclose(file); }
    };
    const std::unique_ptr<std::FILE, Close> file(std::fopen("/proc/self/statm", "r"));
    unsigned long long size = 0, resident = 0;
    return file && std::fscanf(file.get(), "%llu %llu", &size, &resident) == 2 ? static_cast<double>(resident) * 4 / 1024 : 0;
}

void printFigures(const Report &report, const std::vector<Request> &requests) {
    const Counts &c = report.counts;
    std::printf("device     %s (%s)\n", vkattn::program::legibleLine(report.device).c_str(),
                vkattn::program::legibleLine(report.driver).c_str());
    if (!report.fallbackReason.empty()) std::printf("fallback   computed on the CPU: %s\n", report.fallbackReason.c_str());
    std::printf("requests   %zu: %u finished, %u cancelled; %u evicted and computed again\n", requests.size(), c.finished, c.cancelled,
                c.evictions);
    std::printf("tokens     %llu generated in %.2f s, %.0f tokens/s; %llu of prompts, behind %u that all share\n",
                static_cast<unsigned long long>(c.generatedTokens), report.seconds, rateOf(report),
                static_cast<unsigned long long>(c.promptTokens), report.systemTokens);
    std::printf("lists      2 recorded once; %llu chunks of prompts and %llu steps of tokens replayed\n",
                static_cast<unsigned long long>(c.prefills), static_cast<unsigned long long>(c.decodes));
    const Percentiles first = firstTokens(requests), next = nextTokens(requests);
    std::printf("first      %.1f ms, 95 of 100 within %.1f, 99 within %.1f: from a request's arrival to its first token\n", first.half,
                first.most, first.all);
    std::printf("next       %.1f ms, 95 of 100 within %.1f, 99 within %.1f: from a token to the next\n", next.half, next.most, next.all);
    std::printf("pages      %u of %u at once at most, %u slots of %u; %u held at the end\n", c.mostPages, report.capacity.pages,
                c.mostSlots, report.capacity.slots, report.pagesHeld);
    if (report.memoryAfter > 0)
        std::printf("memory     %.0f MiB behind the first requests, %.0f at the end\n", report.memoryBefore, report.memoryAfter);
    if (report.checked)
        std::printf("check      %u requests alone: %s\n", report.checked,
                    report.different ? (std::to_string(report.different) + " DIFFER").c_str() : "the same tokens and the same bits");
}

std::string jsonOf(const Report &report, const std::vector<Request> &requests) {
    const Arguments &given = report.arguments;
    const Counts &c = report.counts;
    Json json = {{"requestedDevice", given.device ? Json(*given.device) : Json()},
                 {"device", report.device},
                 {"driver", report.driver},
                 {"fallbackReason", report.fallbackReason.empty() ? Json() : Json(report.fallbackReason)},
                 {"requests", requests.size()},
                 {"finished", c.finished},
                 {"cancelled", c.cancelled},
                 {"evictions", c.evictions},
                 {"systemTokens", report.systemTokens},
                 {"promptTokens", c.promptTokens},
                 {"generatedTokens", c.generatedTokens},
                 {"seconds", jsonNumber(report.seconds)},
                 {"tokensPerSecond", jsonNumber(rateOf(report))},
                 {"chunks", c.prefills},
                 {"steps", c.decodes},
                 {"firstTokenMilliseconds", jsonOf(firstTokens(requests))},
                 {"nextTokenMilliseconds", jsonOf(nextTokens(requests))},
                 {"pages", report.capacity.pages},
                 {"mostPages", c.mostPages},
                 {"mostSlots", c.mostSlots},
                 {"pagesHeldAtTheEnd", report.pagesHeld},
                 {"mebibytesBehindTheFirst", jsonNumber(report.memoryBefore)},
                 {"mebibytesAtTheEnd", jsonNumber(report.memoryAfter)},
                 {"checked", report.checked},
                 {"different", report.different}};
    return vkattn::program::jsonText(json, -1);
}

std::string textsOf(const std::vector<Request> &requests, const story::Tokenizer &tokenizer) {
    std::string lines;
    for (const Request &r : requests) {
        std::string text;
        uint32_t before = r.prompt.back();
        for (const uint32_t token : r.tokens) text += tokenizer.decode(before, token), before = token;
        const Json json = {
            {"request", r.number},      {"prompt", r.promptText},   {"text", text},      {"finished", r.state == State::finished},
            {"evictions", r.evictions}, {"promptTokens", r.prompt}, {"tokens", r.tokens}};
        lines += vkattn::program::jsonText(json, -1) + "\n";
    }
    return lines;
}

} // namespace serve
