// The operations beside attention whose pipelines --compile-report compiles.
#pragma once

#include <vkattn/operations.h>

#include <functional>
#include <string>
#include <vector>

namespace vkattn::bench {

struct OperationToCompile {
    std::string name;     // e.g. "projection_coopmat": the operation, and a projection's routine
    std::string shape;    // "prompt": 1024 tokens; "token": one
    std::string dtype;    // of every operand
    std::string options;  // "", or "options": every optional operand
    uint32_t headDim = 0; // of what is cut by heads
};

// In the order of the report.
[[nodiscard]] std::vector<std::string> namesOfOperations();
// Calls `visit` with each operation; the description lives until `visit` returns.
void visitOperations(const std::function<void(const OperationToCompile &, const vkattn_operation &)> &visit);

} // namespace vkattn::bench
