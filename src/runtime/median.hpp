#pragma once

#include <algorithm>
#include <vector>

namespace vkattn {

// Returns the median of at least one value.
[[nodiscard]] inline double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    const size_t middle = values.size() / 2;
    return values.size() % 2 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

} // namespace vkattn
