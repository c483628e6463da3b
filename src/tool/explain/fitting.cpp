#include "tool/explain/fitting.hpp"

#include "program/byte_text.hpp"

#include <vkattn/operations.hpp>
#include <vkattn/vkattn.hpp>

#include <algorithm>

namespace vkattn::tool {
using namespace program;
namespace {

constexpr uint32_t mostSize = 0x7fffffff;

vkattn_layout dense(const vkattn_layout &of) {
    return packed(of.dtype, of.extent[0], of.extent[1], of.extent[2], of.extent[3]);
}

} // namespace

Need needOf(const vkattn_problem &problem, const WorkspaceOf &workspaceOf) {
    Need need;
    vkattn_diagnostic why{};
    if (vkattnValidateProblem(&problem, &why) != VKATTN_OK) {
        need.reason = why.message;
        return need;
    }
    need.valid = workspaceOf(problem, need.workspaceBytes, need.reason);
    if (!need.valid) return need;
    const vkattn_operation described = operation(problem);
    vkattn_operand_use uses[VKATTN_ROLE_LIMIT];
    const uint32_t count = vkattnOperandUses(&described, uses, VKATTN_ROLE_LIMIT);
    for (uint32_t n = 0; n < count; ++n) need.operandBytes += vkattnOperandBytes(&problem, uses[n].role);
    return need;
}

vkattn_problem withBatch(const vkattn_problem &problem, uint32_t batch) {
    vkattn_problem changed = problem;
    for (vkattn_layout vkattn_problem::*const each :
         {&vkattn_problem::q, &vkattn_problem::k, &vkattn_problem::v, &vkattn_problem::out, &vkattn_problem::lse, &vkattn_problem::weights,
          &vkattn_problem::scores, &vkattn_problem::bias, &vkattn_problem::mask, &vkattn_problem::bitMask}) {
        vkattn_layout &layout = changed.*each;
        if (layout.extent[0] == 0) continue;
        const bool broadcasts = each == &vkattn_problem::bias || each == &vkattn_problem::mask || each == &vkattn_problem::bitMask;
        if (!broadcasts || layout.extent[0] > 1) layout.extent[0] = batch;
        layout = dense(layout);
    }
    return changed;
}

vkattn_problem withTokens(const vkattn_problem &problem, uint32_t tokens) {
    vkattn_problem changed = problem;
    const bool both = problem.q.extent[2] == problem.k.extent[2];
    const auto rows = [&](vkattn_layout &layout) {
        if (layout.extent[0] > 0 && both) layout.extent[2] = tokens;
    };
    const auto pairs = [&](vkattn_layout &layout, bool broadcasts, uint32_t columns) {
        if (layout.extent[0] == 0) return;
        if (both && !(broadcasts && layout.extent[2] == 1)) layout.extent[2] = tokens;
        if (!(broadcasts && layout.extent[3] == 1 && problem.k.extent[2] > 1 && columns == tokens)) layout.extent[3] = columns;
    };
    rows(changed.q), rows(changed.out), rows(changed.lse);
    changed.k.extent[2] = tokens;
    if (changed.v.extent[0] > 0) changed.v.extent[2] = tokens;
    pairs(changed.weights, false, tokens), pairs(changed.scores, false, tokens);
    pairs(changed.bias, true, tokens), pairs(changed.mask, true, tokens);
    pairs(changed.bitMask, true, tokens / 32 + (tokens % 32 > 0 ? 1 : 0));
    return withBatch(changed, problem.q.extent[0]);
}

Fit largestFit(uint64_t bytes, const std::function<Need(uint32_t size)> &needOfSize) {
    const auto fits = [&](const Need &need) { return need.valid && need.bytes() <= bytes; };
    Fit fit;
    fit.need = needOfSize(1);
    if (!fits(fit.need)) return fit;
    // What fits, and above it what does not: the workspace may shrink where the problem grows, so that
    // sizes above a bisection's end may fit again. Some are looked at.
    uint32_t low = 1, high = mostSize;
    const auto bisect = [&] {
        while (high - low > 1) {
            const uint32_t middle = low + (high - low) / 2;
            (fits(needOfSize(middle)) ? low : high) = middle;
        }
    };
    if (Need all = needOfSize(mostSize); fits(all)) {
        fit.largest = mostSize, fit.need = std::move(all), fit.next.reason = "no larger size is looked at";
        return fit;
    }
    bisect();
    constexpr uint32_t further = 256;
    for (bool found = true; found;) {
        found = false;
        const uint32_t from = high;
        for (uint32_t n = 1; n <= further && from < mostSize - n; ++n)
            if (fits(needOfSize(from + n))) low = from + n, high = low + 1, found = true;
        while (found && high < mostSize && fits(needOfSize(high))) low = high++;
    }
    fit.largest = low;
    fit.need = needOfSize(low), fit.next = needOfSize(high);
    return fit;
}

std::string fitText(const Fit &fit) {
    const auto parts = [](const Need &need) {
        return byteText(need.operandBytes) + " of operands and " + byteText(need.workspaceBytes) + " of workspace";
    };
    if (fit.largest == 0)
        return fit.need.valid ? "does not fit: the least is " + std::to_string(fit.need.bytes()) + " bytes, " + parts(fit.need)
                              : "cannot be computed: " + fit.need.reason;
    std::string text = std::to_string(fit.largest) + ", with " + parts(fit.need) + "; one more ";
    return text + (fit.next.valid ? "takes " + std::to_string(fit.next.bytes()) + " bytes" : "is refused: " + fit.next.reason);
}

Json fitJson(const Fit &fit) {
    Json json = {{"largest", fit.largest},
                 {"operandBytes", fit.need.operandBytes},
                 {"workspaceBytes", fit.need.workspaceBytes},
                 {"leastBytes", fit.largest == 0 && fit.need.valid ? Json(fit.need.bytes()) : Json()},
                 {"nextBytes", fit.next.valid ? Json(fit.next.bytes()) : Json()}};
    const std::string &reason = fit.largest == 0 ? fit.need.reason : fit.next.reason;
    json["refused"] = reason.empty() ? Json() : Json(reason);
    return json;
}

} // namespace vkattn::tool
