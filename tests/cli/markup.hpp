// A reader of XML, and of HTML as our reports write it, that only checks.
#pragma once

#include <string>

namespace vkattn::test {

struct Markup {
    std::string problem; // empty: elements are balanced, attributes in quotes, characters legal
    std::string text;    // what stands between tags, entities resolved
    size_t elements = 0;
};

[[nodiscard]] Markup readMarkup(const std::string &document, bool html);

} // namespace vkattn::test
