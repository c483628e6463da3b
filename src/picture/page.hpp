// All heads as one self-contained HTML page.
#pragma once

#include "picture/heads.hpp"

#include <string>

namespace vkattn::picture {

// The bytes of the page, the same for the same heads: UTF-8, nothing fetched from anywhere.
[[nodiscard]] std::string pageOf(const Heads &heads);

// "<!--", "</script" and the like cannot come out of it: JSON whose '<' is written as an escape.
[[nodiscard]] std::string scriptText(const std::string &json);

[[nodiscard]] std::string base64(const std::string &bytes);

// Distances 0, 1, 2 and 3, then 4 to 7, 8 to 15 and so on, with the sum of what lies in each.
struct DistanceBin {
    size_t first = 0, last = 0;
    double mass = 0;
};
[[nodiscard]] std::vector<DistanceBin> distanceBins(const std::vector<double> &distances);

} // namespace vkattn::picture
