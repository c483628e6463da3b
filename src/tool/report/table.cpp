#include "tool/report/table.hpp"

#include "program/legible_text.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace vkattn::tool {
namespace {

std::string numberOf(double value, const char *format) {
    if (std::isnan(value)) return "nan"; // printf may give NaN a sign
    char text[64];
    std::snprintf(text, sizeof text, format, value);
    return text;
}

std::string textOf(const Table::Cell &cell, const char *format) {
    const double *const number = std::get_if<double>(&cell);
    return number ? numberOf(*number, format) : std::get<std::string>(cell);
}

std::string csvOf(const Table::Cell &cell) {
    std::string text = textOf(cell, "%.9g");
    if (text.find_first_of(",\"\n") == std::string::npos) return text;
    for (size_t at = text.find('"'); at != std::string::npos; at = text.find('"', at + 2)) text.insert(at, 1, '"');
    return '"' + text + '"';
}

} // namespace

std::string Table::text(const std::string &indent) const {
    // A column of words begins at its left end, one of numbers ends at its right.
    std::vector<std::vector<std::string>> lines(1);
    for (const Column &column : columns_) lines[0].push_back(column.title);
    for (const std::vector<Cell> &row : rows_) {
        lines.emplace_back();
        for (size_t n = 0; n < row.size(); ++n) lines.back().push_back(textOf(row[n], columns_[n].format));
    }
    std::string text;
    for (const std::vector<std::string> &line : lines) {
        std::string shown = indent;
        for (size_t n = 0; n < line.size(); ++n) {
            if (columns_[n].title.empty()) continue;
            size_t width = 0;
            for (const std::vector<std::string> &each : lines) width = std::max(width, program::characterCount(each[n]));
            const std::string gap(width - program::characterCount(line[n]), ' ');
            const bool words = !columns_[n].right && !rows_.empty() && std::holds_alternative<std::string>(rows_[0][n]);
            shown += (shown.size() > indent.size() ? "  " : "") + (words ? line[n] + gap : gap + line[n]);
        }
        shown.erase(shown.find_last_not_of(' ') + 1);
        text += shown + "\n";
    }
    return text;
}

std::string Table::csv() const {
    std::string text;
    for (size_t n = 0; n < columns_.size(); ++n) text += (n > 0 ? "," : "") + columns_[n].key;
    text += "\n";
    for (const std::vector<Cell> &row : rows_) {
        for (size_t n = 0; n < row.size(); ++n) text += (n > 0 ? "," : "") + csvOf(row[n]);
        text += "\n";
    }
    return text;
}

} // namespace vkattn::tool
