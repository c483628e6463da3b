#include "tool/cache/past_keys.hpp"

#include "program/failure.hpp"

#include <algorithm>

namespace vkattn::tool {
using namespace program;
namespace {

Input &inputOf(std::vector<Input> &inputs, vkattn_role role) {
    return *std::find_if(inputs.begin(), inputs.end(), [&](const Input &input) { return input.role() == role; });
}

void requireSameType(const Operand &past, const Operand &own) {
    if (past.layout.dtype != own.layout.dtype)
        disagree(past, own, "past and new tokens need one type: convert one with array.astype, or give --round-to");
}
void requireDims(const Operand &past, const Operand &own) {
    requireEqual(past, own, batch, "batch (first of 4 dimensions)");
    requireEqual(past, own, head, "number of heads (third dimension from the end)");
    requireEqual(past, own, dim, "dim (last dimension)");
    requireSameType(past, own);
    if (past.layout.extent[dim] > 1 && past.layout.strideElems[dim] != own.layout.strideElems[dim])
        disagree(past, own, "one is in C order and the other in Fortran order: save np.ascontiguousarray of both");
}
void drop(std::vector<Input> &inputs, vkattn_role role) {
    std::erase_if(inputs, [&](const Input &input) { return input.role() == role; });
}

void requireRows(const Input &input, const vkattn_layout &out, uint32_t last) {
    const uint32_t expected[4] = {out.extent[batch], out.extent[head], out.extent[token], last};
    if (!std::equal(expected, expected + 4, input.layout().extent))
        throw Failure(input.text() + ": expected the shape of the output" + (last == 1 ? " without its dims" : "") + ", [" +
                      std::to_string(expected[batch]) + ", " + std::to_string(expected[head]) + ", " + std::to_string(expected[token]) +
                      (last == 1 ? "]" : ", " + std::to_string(last) + "]"));
}

} // namespace

void takePast(std::vector<Input> &inputs, Operand &k, Operand &v, vkattn_problem &problem) {
    const auto isPast = [](const Input &input) { return input.role() == VKATTN_K_1; };
    if (std::none_of(inputs.begin(), inputs.end(), isPast)) return;
    Input &kInput = inputOf(inputs, VKATTN_K_1), &vInput = inputOf(inputs, VKATTN_V_1);
    const Operand pastK{kInput.text(), kInput.layout()}, pastV{vInput.text(), vInput.layout()};
    requireDims(pastK, k);
    requireDims(pastV, v);
    requireEqual(pastK, pastV, token, "number of tokens (second dimension from the end)");
    if (pastK.layout.extent[token] == 0) {
        drop(inputs, VKATTN_K_1), drop(inputs, VKATTN_V_1);
        return;
    }
    const bool alone = k.layout.extent[token] == 0;
    if (!alone) problem.k1 = k.layout, problem.v1 = v.layout;
    for (const auto &[role, later] : {std::pair{VKATTN_K, VKATTN_K_1}, {VKATTN_V, VKATTN_V_1}}) {
        Input &past = inputOf(inputs, later), &own = inputOf(inputs, role); // before either has the role of the other
        if (!alone) own.takeRole(later);
        past.takeRole(role);
        if (alone) inputs.erase(inputs.begin() + (&own - inputs.data()));
    }
    k = pastK, v = pastV;
}

void takePrior(const std::vector<Input> &inputs, vkattn_problem &problem) {
    for (const Input &input : inputs) {
        if (input.role() == VKATTN_PRIOR_OUT) requireRows(input, problem.out, problem.out.extent[dim]), problem.priorOut = input.layout();
        if (input.role() == VKATTN_PRIOR_LSE) requireRows(input, problem.out, 1), problem.priorLse = input.layout();
    }
}

} // namespace vkattn::tool
