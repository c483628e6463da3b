// The options of a problem, as reports list them: those in use only.
#pragma once

#include "program/json_text.hpp"
#include "tool/options/arguments.hpp"

namespace vkattn::tool {

[[nodiscard]] program::Json optionsJson(const RunArguments &arguments, const vkattn_problem &problem);

[[nodiscard]] program::Json optionsJson(const GradientArguments &arguments, const vkattn_problem &forward);

[[nodiscard]] program::Json optionsJson(const LinearArguments &arguments, const vkattn_linear_attention &linear);

// How x is rotated, what was not said included.
[[nodiscard]] program::Json optionsJson(const RotaryArguments &arguments, const vkattn_rotary &rotary);

// "causal bottom-right, softcap 2.5, sinks" of that; empty where there is nothing.
[[nodiscard]] std::string optionsText(const program::Json &options);

} // namespace vkattn::tool
