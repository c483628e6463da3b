#include "support/keys/segments.hpp"

#include "conform/cases/base_case.hpp"

#include <algorithm>

namespace vkattn::test {
using namespace conform;

WholeProblem::WholeProblem(const CaseData &data) : problem(data.problem), operands(data.operands) {
    problem.k = data.kWhole, problem.v = data.vWhole;
    problem.k1 = problem.v1 = problem.k2 = problem.v2 = problem.k3 = problem.v3 = {};
    std::erase_if(operands, [](const vkattn_operand_memory &each) { return each.role >= VKATTN_K_1 && each.role <= VKATTN_V_3; });
}

Case drawSegments(Random &random, uint32_t most) {
    Case c = randomCase(random, most);
    c.ragged = c.sharedHeads = c.valuesInKeys = c.keysHoldValues = false;
    dropPages(c);
    c.keyTokens = between(random, 2, 150);
    if (c.blocks == Blocks::bigBird) c.queryTokens = c.keyTokens;
    c.segments = between(random, 1, 3);
    makeAgree(c);
    return c;
}

std::string computeInParts(const CaseData &data, uint32_t parts, const ComputePart &compute) {
    const vkattn_problem &whole = data.problem;
    const uint32_t keys = whole.k.extent[2];
    for (uint32_t part = 0, first = 0; part < parts; ++part) {
        const uint32_t end = static_cast<uint32_t>(uint64_t{keys} * (part + 1) / parts), count = end - first;
        if (count == 0) continue;
        vkattn_problem p = whole;
        for (vkattn_layout *layout : {&p.k, &p.v})
            layout->extent[2] = count, layout->offsetElems += static_cast<uint64_t>(first * layout->strideElems[2]);
        const bool topLeft = p.flags & VKATTN_ALIGN_TOP_LEFT;
        p.queryOffset = {VKATTN_OFFSET_NUMBER, topLeft ? 0 : static_cast<int32_t>(keys) - static_cast<int32_t>(p.q.extent[2])};
        p.keyOffset = {VKATTN_OFFSET_NUMBER, static_cast<int32_t>(first)};
        std::vector<vkattn_operand_memory> operands = data.operands;
        if (first > 0) {
            p.priorOut = p.out, p.priorLse = p.lse;
            for (size_t n = 0; n < data.operands.size(); ++n) {
                const vkattn_operand_memory &each = data.operands[n];
                if (each.role == VKATTN_OUT) operands.push_back({VKATTN_PRIOR_OUT, each.data, each.bytes});
                if (each.role == VKATTN_LSE) operands.push_back({VKATTN_PRIOR_LSE, each.data, each.bytes});
            }
        }
        if (std::string wrong = compute(p, operands); !wrong.empty()) return "part " + std::to_string(part) + ": " + wrong;
        first = end;
    }
    return {};
}

} // namespace vkattn::test
