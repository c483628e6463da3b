// Pieces of a self-contained HTML page.
#pragma once

#include "conform/checks/outcome.hpp"

#include <string>
#include <vector>

namespace vkattn::conform {

// Markup. Text in it has been through escapeMarkup.
using Html = std::string;

[[nodiscard]] Html element(const char *name, const Html &content, const char *cssClass = "");
// Returns text in an element, escaped.
[[nodiscard]] Html textElement(const char *name, const std::string &text, const char *cssClass = "");

struct Cell {
    Html content;
    const char *cssClass = "";
    std::string title = {}; // text: shown to a pointer that rests on the cell
};
// Returns a table in a box that scrolls by itself where the page is narrower. The first column of
// each row is its heading.
[[nodiscard]] Html tableBox(const std::vector<Cell> &head, const std::vector<std::vector<Cell>> &rows, const char *cssClass = "");

// Returns counts by error / bound as bars of logarithmic height, with a line at the bound.
[[nodiscard]] Html histogramSvg(const Errors &errors);

// Returns the page from <!DOCTYPE to <body>: light or dark like the reader's system, and nothing
// fetched from anywhere.
[[nodiscard]] Html pageBegin(const std::string &title);
[[nodiscard]] Html pageEnd();

} // namespace vkattn::conform
