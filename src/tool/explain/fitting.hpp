// What fits into memory: the largest batch, and the longest sequence, of a problem.
#pragma once

#include "program/json_text.hpp"

#include <vkattn/problem.h>

#include <cstdint>
#include <functional>
#include <string>

namespace vkattn::tool {

// What a problem needs.
struct Need {
    bool valid = false; // otherwise nothing computes the problem, for this reason
    std::string reason;
    uint64_t operandBytes = 0, workspaceBytes = 0;
    [[nodiscard]] uint64_t bytes() const { return operandBytes + workspaceBytes; }
};

// Of the operands; the workspace is what `workspaceOf` says: it returns false, with the reason, where
// the problem cannot be computed.
using WorkspaceOf = std::function<bool(const vkattn_problem &problem, uint64_t &bytes, std::string &reason)>;
[[nodiscard]] Need needOf(const vkattn_problem &problem, const WorkspaceOf &workspaceOf);

// The same problem with another batch, or with as many tokens: queries and keys where there are as many
// of both, else keys. Tensors become dense; extents of 1 that broadcast stay.
[[nodiscard]] vkattn_problem withBatch(const vkattn_problem &problem, uint32_t batch);
[[nodiscard]] vkattn_problem withTokens(const vkattn_problem &problem, uint32_t tokens);

struct Fit {
    uint32_t largest = 0; // 0: not even 1 fits, and `need` is what that takes
    Need need, next;      // of the largest; of one more
};
// The largest size that fits while one more does not.
[[nodiscard]] Fit largestFit(uint64_t bytes, const std::function<Need(uint32_t size)> &needOfSize);

[[nodiscard]] std::string fitText(const Fit &fit);
[[nodiscard]] program::Json fitJson(const Fit &fit);

} // namespace vkattn::tool
