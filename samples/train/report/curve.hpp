// The curve of a run as a picture: loss and accuracy by step, in an SVG for light and dark pages.
#pragma once

#include "state/checkpoint.hpp"

#include <string>

namespace train {

// `title` says what was trained, and where.
[[nodiscard]] std::string drawCurve(const Configuration &configuration, const State &state, const std::string &title);

} // namespace train
