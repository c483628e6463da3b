// Random Q, K and V of a shape, and room for its output, in host memory.
#pragma once

#include "measure/shapes.hpp"

#include <vkattn/cpu.h>

#include <cstddef>
#include <memory>
#include <vector>

namespace vkattn::bench {

// Draws values evenly from -1.73 to 1.73 (variance 1), so that scores spread as they do in a model.
void fillOperand(std::byte *data, size_t bytes, vkattn_dtype type, uint64_t seed);

class Operands {
  public:
    // Filled by fillOperand. Throws Failure where the machine has too little memory.
    Operands(const Shape &shape, uint64_t seed);
    [[nodiscard]] const std::vector<vkattn_operand_memory> &list() const { return list_; }

  private:
    std::vector<std::unique_ptr<std::byte[]>> buffers_;
    std::vector<vkattn_operand_memory> list_;
};

} // namespace vkattn::bench
