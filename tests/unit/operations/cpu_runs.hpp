// Drawn operations on the CPU.
#pragma once

#include "conform/cases/operation_case.hpp"
#include "support/case.hpp"

namespace vkattn::test {

// Runs the operation with exactly the workspace that it asks for, on `threads` threads; 0: without a
// pool.
void run(OperationCase &c, uint32_t threads);
void runOracle(OperationCase &c);
// Compares the outputs that `after` has with the oracle on the inputs of `before`.
[[nodiscard]] vkattn_verify_report verified(OperationCase &after, OperationCase &before);
[[nodiscard]] inline vkattn_verify_report verified(OperationCase &both) {
    return verified(both, both);
}

} // namespace vkattn::test
