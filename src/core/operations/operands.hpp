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
[[nodiscard]] Strides stridesOf(const Operation &operation, vkattn_role role);

} // namespace vkattn
