// A dense matrix of doubles, by rows.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace vkattn::analysis {

struct Matrix {
    Matrix() = default;
    Matrix(size_t rowCount, size_t columnCount) : rows(rowCount), columns(columnCount), elements(rowCount * columnCount) {}
    [[nodiscard]] double &operator()(size_t row, size_t column) { return elements[row * columns + column]; }
    [[nodiscard]] double operator()(size_t row, size_t column) const { return elements[row * columns + column]; }
    [[nodiscard]] std::span<double> row(size_t row) { return {elements.data() + row * columns, columns}; }
    [[nodiscard]] std::span<const double> row(size_t row) const { return {elements.data() + row * columns, columns}; }

    size_t rows = 0, columns = 0;
    std::vector<double> elements;
};

} // namespace vkattn::analysis
