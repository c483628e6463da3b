// What a dispatch of an operation binds: the part of each operand that a box needs.
#pragma once

#include "core/operations/operation_plan.hpp"
#include "core/plan/operands.hpp"

namespace vkattn {

// Returns the bytes that a box needs of an operand, from the start of the role's memory.
[[nodiscard]] ByteRange bytesOf(const Operation &operation, vkattn_role role, const OperationBox &box);
// The operand of a box. The base is the element of the box's first batch entry, group, row and
// column; of a cache row 0, and of tables position 0.
[[nodiscard]] Operand boxOperand(const Operation &operation, vkattn_role role, const OperationBox &box, size_t basePushByte);
// boxOperand, or a stand-in where the operation lacks the role.
[[nodiscard]] Operand boxOperandOr(const Operand &other, const Operation &operation, vkattn_role role, const OperationBox &box,
                                   size_t basePushByte);
// Bytes [begin, end) of the workspace, f32.
[[nodiscard]] Operand gathered(uint64_t begin, uint64_t end, bool writes, uint32_t basePushWord = noPushWord);
// A tensor as shaders/operations/add.comp takes it.
struct AddOperand {
    Operand operand; // the base is set by makeAdd
    Strides strides;
    vkattn_dtype dtype;
};
// The part of an operand that a box needs.
[[nodiscard]] AddOperand addOperand(const Operation &operation, vkattn_role role, const OperationBox &box);
// The workgroups that makeAdd takes for these extents, where they are more than those in `groups`.
void raiseToAdd(const uint32_t (&extent)[4], uint64_t (&groups)[3]);
// to = x, or x + *addend, of a box's extents.
void makeAdd(Dispatch &d, const uint32_t (&extent)[4], const AddOperand &x, const AddOperand *addend, const AddOperand &to);
// The workgroups of makeCopy, in the first direction.
[[nodiscard]] uint32_t groupsToCopy(uint32_t words);
// to = x, of words that lie one after the other, whatever their bits.
void makeCopy(Dispatch &d, const Operand &x, uint32_t words, const Operand &to);
void setGroups(Dispatch &d, const uint64_t (&groups)[3]);
// Those that a routine says a box takes.
void setGroups(Dispatch &d, decltype(Routine::groups) groups, const OperationPlan &plan, const OperationBox &box);
// The types of X and Y, as constants.elementTypes has them.
[[nodiscard]] uint32_t typesOf(const Operation &operation);
[[nodiscard]] Strides stridesOf(const Operation &operation, vkattn_role role);

} // namespace vkattn
