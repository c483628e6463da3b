// Checks of statistics of attention. The seed alone draws everything: a case of attention with its
// options, which outputs are asked for, their layouts, the slices of a second run. A check has several
// problems for the same pipelines, which take drivers of CPU devices longer than the problems do.
#include "conform/kinds/kinds.hpp"
#include "conform/statistics/statistics_case.hpp"

#include <algorithm>

namespace vkattn::conform {
namespace {

constexpr int problemsOfCheck = 8;
constexpr uint32_t storageBuffers = 14; // what statistics need a stage, docs/support.md

// Whether a device may refuse statistics in these words.
bool mayRefuse(Limits limits, const StatisticsCase &s, const vkattn_caps &device, const std::string &words) {
    return (isForRoom(limits, words) && isOverBindings(limits, s)) || isForBuffers(limits, device, storageBuffers, words);
}

} // namespace

bool isOverBindings(Limits limits, const StatisticsCase &s) {
    std::vector<vkattn_layout> outputs;
    for (const auto &[role, t] : s.tensors) outputs.push_back(t.layout);
    return isOverBindings(limits, *s.data, outputs);
}

Finding checkStatistics(DeviceUnderTest &device, const Check &check) {
    Finder find(device, check);
    if (!find.open(check.limits)) return find.finding;
    Random random(check.seed);
    Case c = randomCase(random, 5);
    StatisticsOptions options = drawStatisticsOptions(random);
    std::string refusal;
    int computed = 0;
    for (int n = 0; n < problemsOfCheck; ++n) {
        if (n > 0) c = samePipelines(random, c);
        if (options.densityThreshold > 0) options.densityThreshold = 0.001f * static_cast<float>(between(random, 1, 300));
        StatisticsCase before = drawStatistics(random, c, options), after = before, again = before;
        again.attention.sliceCount = between(random, 2, 9);
        const auto compute = [&](StatisticsCase &s) {
            const RunResult result = find.runtime->run(s.operation(), s.operands());
            find.finding.deviceMilliseconds += result.milliseconds;
            if (result.status == VKATTN_ERROR_UNSUPPORTED && mayRefuse(check.limits, s, find.runtime->device()->caps, result.message))
                return refusal = result.message, false;
            return find.require(result.status == VKATTN_OK, "run: " + result.message + "; " + s.text()) &&
                   find.require(result.fallbackReason.empty(), "fell back to the CPU: " + result.fallbackReason);
        };
        refusal.clear();
        const bool ran = compute(after);
        if (find.finding.outcome == Outcome::fail) return find.finding;
        if (!ran) continue;
        vkattn_verify_report report{};
        const std::string wrong = after.wrong(before, &report);
        if (!find.finding.errors) find.finding.errors.emplace();
        find.finding.errors->merge(errorsOf(report));
        if (!find.require(wrong.empty(), wrong + "; " + before.text()) || !compute(again)) return find.finding;
        if (!find.require(after.sameOutputs(again), "run again gave other bits than in one piece; " + again.text())) return find.finding;
        ++computed;
    }
    if (computed == 0) (void)find.unsupported(refusal);
    return find.finding;
}

} // namespace vkattn::conform
