// A table of figures: as text for people, as CSV for programs.
#pragma once

#include <string>
#include <variant>
#include <vector>

namespace vkattn::tool {

struct Column {
    std::string key;             // the word of the CSV's first line
    std::string title;           // above the column of the text; empty: the column is of the CSV alone
    const char *format = "%.4g"; // of its numbers, in the text
    bool right = false;          // of its words: they end at the right
};

class Table {
  public:
    using Cell = std::variant<double, std::string>;

    explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
    void add(std::vector<Cell> row) { rows_.push_back(std::move(row)); } // a cell for each column

    // Columns aligned, each line indented.
    [[nodiscard]] std::string text(const std::string &indent) const;
    // Nine digits, as float32 needs; inf, -inf and nan as words.
    [[nodiscard]] std::string csv() const;

  private:
    std::vector<Column> columns_;
    std::vector<std::vector<Cell>> rows_;
};

} // namespace vkattn::tool
