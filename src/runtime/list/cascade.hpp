// The attentions of a cascade (CascadeOf), in their order.
#pragma once

#include "vkattn/list.hpp"

#include <vector>

namespace vkattn {

// Errors: INVALID_ARGUMENT with the reason.
[[nodiscard]] vkattn_result attentionsOf(const CascadeOf &cascade, std::vector<AttentionOf> &out, std::string *why);

} // namespace vkattn
