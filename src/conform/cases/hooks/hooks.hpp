// Conform's program (hooks.glsl), compiled with the library: hooks of scores, of visibility, or both.
#pragma once

#include "vkattn/problem.h"

namespace vkattn::conform {

enum class Hooks { none, score, visible, both };

// Words of its buffers; what it reads past their end is their last word.
constexpr uint32_t hookNumbers = 50, hookBits = 40;

// NULL for none. With the form for the processor.
[[nodiscard]] const vkattn_program *programOf(Hooks hooks);

} // namespace vkattn::conform
