#include "tool/arrays/token_projections.hpp"

#include "program/failure.hpp"

#include <algorithm>

namespace vkattn::tool {
using namespace program;
namespace {

void checkMatrix(const Input &matrix, const Input &first, const Operand &k) {
    const uint32_t *own = matrix.layout().extent, heads = k.layout.extent[head], tokens = k.layout.extent[token];
    const auto refuse = [&](const std::string &reason) { throw Failure(matrix.option() + " " + matrix.text() + ": " + reason); };
    if (tokens == 0) refuse(k.text + " has no tokens, expected at least one to project");
    if (own[token] == 0) refuse("it has no rows, expected one for each projected key");
    if (own[head] != 1 && own[head] != heads)
        refuse("it has matrices for " + std::to_string(own[head]) + " heads, expected one matrix, or one for each of the " +
               std::to_string(heads) + " heads of " + k.text);
    if (own[dim] < tokens)
        refuse("its rows have " + std::to_string(own[dim]) + " columns, expected one for each of the " + std::to_string(tokens) +
               " tokens of " + k.text + ": give at most as many tokens as the matrix was made for");
    if (own[token] != first.layout().extent[token])
        refuse("it has " + std::to_string(own[token]) + " rows and " + first.text() + " has " +
               std::to_string(first.layout().extent[token]) + ", expected as many: each projected key has its projected value");
}

} // namespace

TokenProjections describeTokenProjections(const RunArguments &arguments, bool hasLengths, Operand &k, Operand &v) {
    TokenProjections all;
    if (arguments.projectK.empty()) return all;
    for (const auto &[option, path] : {std::pair{"--project-k", &arguments.projectK}, {"--project-v", &arguments.projectV}}) {
        if (path->empty()) continue;
        Input &matrix = all.matrices.emplace_back(VKATTN_W, option, *path);
        if (arguments.roundTo) matrix.roundTo(*arguments.roundTo);
        checkMatrix(matrix, all.matrices.front(), k);
    }
    const auto project = [&](vkattn_role role, size_t n, Operand &operand) {
        const Input &matrix = all.matrices[n];
        const uint32_t *tokens = operand.layout.extent;
        const vkattn_layout projected =
            dense("what " + matrix.option() + " makes of " + operand.text, arguments.roundTo.value_or(VKATTN_F32),
                  {tokens[batch], tokens[head], matrix.layout().extent[token], tokens[dim]});
        TokenProjection &own = all.list.emplace_back(TokenProjection{role, n, tokenProjection(matrix.layout(), operand.layout, projected)});
        own.description.flags = arguments.flags & VKATTN_DETERMINISTIC;
        own.description.presentRoles = hasLengths ? VKATTN_PRESENT(VKATTN_KEY_LENGTHS) : 0;
        const vkattn_operation described = operation(own.description);
        vkattn_diagnostic why{};
        if (vkattnValidateOperation(&described, &why) != VKATTN_OK)
            throw Failure(matrix.option() + " " + matrix.text() + " of " + operand.text + ": " + why.message);
        operand.layout = projected;
    };
    // The values of keys that hold them are those of the projected keys.
    project(VKATTN_K, 0, k);
    if (arguments.valuesInKeys == 0) project(VKATTN_V, all.matrices.size() - 1, v);
    return all;
}

} // namespace vkattn::tool
