// Pieces of a self-contained HTML page.
#pragma once

#include "conform/checks/outcome.hpp"

#include <string>
#include <vector>

namespace vkattn::conform {

// Markup; what is text has been through escapeMarkup.
using Html = std::string;

[[nodiscard]] Html element(const char *name, const Html &content, const char *cssClass = "");
// Text in an element, escaped.
[[nodiscard]] Html textElement(const char *name, const std::string &text, const char *cssClass = "");

struct Cell {
    Html content;
    const char *cssClass = "";
    std::string title = {}; // text: what a pointer that rests on it is told
};
// In a box that scrolls by itself where the page is narrower. The first column of each row is its
// heading.
[[nodiscard]] Html tableBox(const std::vector<Cell> &head, const std::vector<std::vector<Cell>> &rows, const char *cssClass = "");

// Counts by error / bound, as bars of logarithmic height, and a line where the bound is.
[[nodiscard]] Html histogramSvg(const Errors &errors);

// From <!DOCTYPE to <body>: light or dark as the reader's system is, nothing fetched from anywhere.
[[nodiscard]] Html pageBegin(const std::string &title);
[[nodiscard]] Html pageEnd();

} // namespace vkattn::conform
