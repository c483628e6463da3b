// Runs of cases, and what is wrong with them.
#include "conform/cases/case.hpp"

#include <cstdio>

namespace vkattn::conform {

std::string verifyAttention(const CaseData &in, const RunResult &result, vkattn_verify_report &report) {
    vkattn_verify_options options{};
    options.structSize = sizeof options;
    options.allRows = 1;
    options.probabilityUnit = result.probabilityUnit;
    options.probabilityFloor = result.probabilityFloor;
    const vkattn_problem &p = in.problem;
    // Starting threads takes longer than checking small cases.
    const double work = static_cast<double>(p.q.extent[0]) * p.q.extent[1] * p.q.extent[2] * mostKeys(p) * (in.c.headDim + in.c.valueDim);
    options.threads = work < 3e6 ? 1 : 0;
    vkattn_diagnostic why{};
    if (vkattnCpuVerify(&p, in.operands.data(), static_cast<uint32_t>(in.operands.size()), &options, &report, &why) != VKATTN_OK)
        return std::string("verify: ") + why.message;
    if (report.passed) return {};
    char text[400];
    std::snprintf(text, sizeof text, "%s at [%u, %u, %u, %u]: got %.9g, expected %.9g, error %.3g, bound %.3g",
                  report.worstRole == VKATTN_LSE       ? "lse"
                  : report.worstRole == VKATTN_WEIGHTS ? "weights"
                  : report.worstRole == VKATTN_SCORES  ? "scores"
                                                       : "out",
                  report.worstIndex[0], report.worstIndex[1], report.worstIndex[2], report.worstIndex[3], report.worstGot,
                  report.worstExpected, report.worstError, report.worstBound);
    return text;
}

Ran runAndVerify(Runtime &runtime, CaseData &in) {
    Ran ran;
    const Outputs before = in.outputs();
    ran.result = runtime.run(in.problem, in.operands);
    if (ran.result.status != VKATTN_OK) {
        ran.wrong = "run: " + ran.result.message;
        return ran;
    }
    if (!ran.result.fallbackReason.empty()) {
        ran.wrong = "fell back to the CPU: " + ran.result.fallbackReason;
        return ran;
    }
    ran.wrong = verifyAttention(in, ran.result, ran.report);
    if (ran.wrong.empty()) ran.wrong = in.damage(before);
    return ran;
}

std::string runAndCheck(Runtime &runtime, CaseData &in, vkattn_verify_report *report) {
    Ran ran = runAndVerify(runtime, in);
    if (report) *report = ran.report;
    return std::move(ran.wrong);
}

} // namespace vkattn::conform
