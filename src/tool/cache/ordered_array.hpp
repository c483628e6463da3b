// Arrays of files in C order, whatever the order of the file.
#pragma once

#include "tool/arrays/inputs.hpp"

namespace vkattn::tool {

// Reads a tensor into dense memory [batch, head, token, dim], of the bytes of its elements.
void loadInCOrder(Input &input, std::span<std::byte> into);

} // namespace vkattn::tool
