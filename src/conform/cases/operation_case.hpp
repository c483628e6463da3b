// Operations with their data, drawn: every type, strides of either sign, gaps with
// canaries, outputs in place of inputs.
#pragma once

#include "conform/cases/case.hpp"
#include "vkattn/cpu.h"
#include "vkattn/operations.h"

#include <iterator>
#include <map>
#include <string>
#include <vector>

namespace vkattn::conform {

// Every kind but attention, which has cases of its own.
inline constexpr vkattn_operation_kind otherKinds[] = {VKATTN_PROJECTION, VKATTN_NORM,  VKATTN_ROTARY,  VKATTN_APPEND,
                                                       VKATTN_ADVANCE,    VKATTN_MEAN,  VKATTN_KEEP,    VKATTN_NORM_GRADIENT,
                                                       VKATTN_DROP,       VKATTN_MERGE, VKATTN_HADAMARD};
// Goes through the kinds, again and again.
[[nodiscard]] constexpr vkattn_operation_kind otherKind(int n) {
    return otherKinds[static_cast<size_t>(n) % std::size(otherKinds)];
}

struct OperationCase {
    vkattn_operation_kind kind = VKATTN_PROJECTION;
    vkattn_projection projection{};
    vkattn_norm norm{};
    vkattn_rotary rotary{};
    vkattn_append append{};
    vkattn_advance advance{};
    vkattn_mean mean{};
    vkattn_merge merge{};
    vkattn_hadamard hadamard{};
    vkattn_keep keep{};
    vkattn_norm_gradient normGradient{};
    vkattn_drop drop{};
    std::map<vkattn_role, HostTensor> tensors;
    std::vector<uint32_t> positions, starts, lengths, pageTable; // lengths: of a projection's inner dim
    std::map<vkattn_role, vkattn_role> inPlace;                  // output -> the input whose memory the output has

    [[nodiscard]] vkattn_operation operation() const;
    [[nodiscard]] vkattn_layout &layout(vkattn_role role);
    [[nodiscard]] HostTensor &tensor(vkattn_role role) { return tensors.at(role); }
    [[nodiscard]] bool has(vkattn_role role) const { return tensors.count(role) != 0; }
    // Makes the memory of all tensors, with values drawn from N(0, 1), and words of any bits. What lies past a length is
    // NaN.
    void fill(Random &random);
    // The operands; outputs in place of inputs have the inputs' memory.
    [[nodiscard]] std::vector<vkattn_operand_memory> operands();
    // The operands for a verifier: inputs are those of `before`.
    [[nodiscard]] std::vector<vkattn_operand_memory> operandsAfter(OperationCase &before);
    [[nodiscard]] HostTensor &output(vkattn_role role) { return tensor(inPlace.count(role) ? inPlace[role] : role); }
    [[nodiscard]] std::vector<vkattn_role> outputs() const;
    [[nodiscard]] uint32_t presentRoles() const;
    [[nodiscard]] uint32_t start(uint32_t b) const; // rotary and append: where the tokens of a batch entry begin
    // Returns whether the operation writes a row of an output.
    [[nodiscard]] bool writes(vkattn_role role, uint32_t b, uint32_t g, uint32_t row) const;
    [[nodiscard]] std::string text();

  private:
    void spoilPastLengths();
    void drawPageTable(Random &random);
    [[nodiscard]] bool appendsTo(uint32_t entry, uint32_t row) const;
    void drawLse(Random &random);
};

// What comes of comparing outputs with the oracle and with the memory as it was.
struct OperationOutcome {
    vkattn_verify_report report{};
    std::string wrong; // empty: nothing
};
// Compares every row of the outputs with the oracle; `nameOf` names roles. The unit and the floor are what
// kernels round (vkattn_verify_options).
[[nodiscard]] OperationOutcome verifyOutputs(const vkattn_operation &operation, const std::vector<vkattn_operand_memory> &memory,
                                             const char *(*nameOf)(vkattn_role), float probabilityUnit = 0, float probabilityFloor = 0);
// Compares the outputs that `after` has with the oracle on the inputs of `before`, and everything
// else that `after` has with `before`.
[[nodiscard]] OperationOutcome judge(OperationCase &after, OperationCase &before);

// f32 half of the time, else f16 or bf16.
[[nodiscard]] vkattn_dtype drawType(Random &random);
// Dims in any order, with gaps, some of them backwards; an input that is not `unique` may have
// strides of 0.
[[nodiscard]] vkattn_layout drawLayout(Random &random, vkattn_dtype dtype, bool unique, const uint32_t (&extents)[4]);
[[nodiscard]] OperationCase drawOperation(Random &random, vkattn_operation_kind kind);
// f32, dense, without options.
[[nodiscard]] OperationCase plainProjection(uint32_t rows, uint32_t in, uint32_t out);
[[nodiscard]] OperationCase plainNorm(vkattn_norm_kind kind, uint32_t rows, uint32_t dims);
[[nodiscard]] OperationCase plainRotary(vkattn_rotary_pairs pairs, uint32_t tokens, uint32_t dims, uint32_t rotated, uint32_t positions);
[[nodiscard]] OperationCase plainAppend(uint32_t tokens, uint32_t cacheTokens, uint32_t dims);
// Without a limit, by 1.
[[nodiscard]] OperationCase plainAdvance(uint32_t words);
// With gamma and all three gradients.
[[nodiscard]] OperationCase plainNormGradient(vkattn_norm_kind kind, uint32_t rows, uint32_t dims);
[[nodiscard]] OperationCase plainMean(uint32_t groups, uint32_t rows, uint32_t dims);
// With the log-sum-exp.
[[nodiscard]] OperationCase plainMerge(uint32_t parts, uint32_t heads, uint32_t rows, uint32_t dims);
// Of probability 0.1, seed 42 and offset 7.
[[nodiscard]] OperationCase plainHadamard(uint32_t heads, uint32_t rows, uint32_t dims);
[[nodiscard]] OperationCase plainKeep(uint32_t groups, uint32_t rows, uint32_t columns);
// The same, with a residual.
[[nodiscard]] OperationCase plainDrop(uint32_t groups, uint32_t rows, uint32_t columns);

} // namespace vkattn::conform
