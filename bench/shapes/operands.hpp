// Random Q, K and V of a shape, the arrays of its rule, and room for its output, in host memory.
#pragma once

#include "shapes/shapes.hpp"

#include <vkattn/cpu.h>
#include <vkattn/list.hpp>

#include <cstddef>
#include <memory>
#include <vector>

namespace vkattn::bench {

// Draws values evenly from -1.73 to 1.73 (variance 1), so that scores spread as they do in a model.
void fillOperand(std::byte *data, size_t bytes, vkattn_dtype type, uint64_t seed);

// Returns "f32", "f16" or "bf16".
[[nodiscard]] const char *nameOf(vkattn_dtype dtype);
[[nodiscard]] constexpr uint64_t sizeOf(vkattn_dtype dtype) {
    return dtype == VKATTN_F32 ? 4 : 2;
}

// Verifies `rows` drawn rows of every step of a list; 0: all of them. Returns false with the reason in
// `why` where a step is wrong or could not be verified. `report`: that of the last step.
[[nodiscard]] bool verifySteps(OperationList &list, uint32_t rows, uint64_t seed, uint32_t threads, vkattn_verify_report &report,
                               std::string &why);

class Operands {
  public:
    // Filled by fillOperand and fillRule. Throws Failure where the machine has too little memory.
    Operands(const Shape &shape, uint64_t seed);
    [[nodiscard]] const std::vector<vkattn_operand_memory> &list() const { return list_; }

  private:
    // Returns the new operand's memory.
    std::byte *add(vkattn_role role, const vkattn_problem &problem);

    std::vector<std::unique_ptr<std::byte[]>> buffers_;
    std::vector<vkattn_operand_memory> list_;
};

} // namespace vkattn::bench
