// JSON as this program prints it: keys in the given order, strings from anywhere, numbers that may
// not be finite.
#pragma once

#include <nlohmann/json.hpp>

#include <cmath>
#include <string>

namespace vkattn::program {

using Json = nlohmann::ordered_json;

// JSON has no infinity and no NaN. Strings keep the values that a null would hide.
inline Json jsonNumber(double value) {
    if (std::isfinite(value)) return value;
    return std::isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity";
}

// indent -1 prints on one line. File and driver names need not be UTF-8: this function replaces
// invalid bytes, where dump() alone throws.
inline std::string jsonText(const Json &json, int indent) {
    return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

} // namespace vkattn::program
