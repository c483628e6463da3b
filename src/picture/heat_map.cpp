#include "picture/heat_map.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace vkattn::picture {
namespace {

constexpr Rgb paper{255, 255, 255}, ink{0x1b, 0x1f, 0x27}, faint{0x5b, 0x64, 0x72}, line{0xb4, 0xba, 0xc4};
constexpr size_t sheetFigures = 4; // the first ones
constexpr int letters = 2, lineHeight = 11 * letters, barWidth = 16;

int scaleFor(const analysis::PooledWeights &weights, int target) {
    const size_t longest = std::max<size_t>({weights.rows, weights.columns, 1});
    return std::max(1, target / static_cast<int>(longest));
}

// A frame with the cells in it.
void drawCells(Raster &raster, const analysis::PooledWeights &weights, int left, int top, int scale, ColourMap map, double largest) {
    const int width = static_cast<int>(weights.columns) * scale, height = static_cast<int>(weights.rows) * scale;
    raster.fill(left - 1, top - 1, width + 2, height + 2, line);
    for (size_t row = 0; row < weights.rows; row++)
        for (size_t column = 0; column < weights.columns; column++) {
            const size_t n = row * weights.columns + column;
            const analysis::PooledWeights::Cell cell = weights.cells[n];
            const Rgb colour = cell == analysis::PooledWeights::hidden ? hiddenGrey
                               : cell == analysis::PooledWeights::notFinite
                                   ? notFiniteRed
                                   : colourOf(map, static_cast<double>(weights.largest[n]), largest);
            raster.fill(left + static_cast<int>(column) * scale, top + static_cast<int>(row) * scale, scale, scale, colour);
        }
}

void drawBar(Raster &raster, int left, int top, int height, ColourMap map, double largest) {
    raster.fill(left - 1, top - 1, barWidth + 2, height + 2, line);
    for (int y = 0; y < height; y++)
        raster.fill(left, top + y, barWidth, 1, colourOf(map, static_cast<double>(height - 1 - y), static_cast<double>(height - 1)));
    for (int tick = 0; tick <= 2; tick++) {
        const int y = top + (height - 1) * (2 - tick) / 2;
        raster.fill(left + barWidth + 1, y, 5, 1, faint);
        raster.write(left + barWidth + 10, y - 3 * letters, letters, figureText(largest * tick / 2, 3), faint);
    }
}

void writeCentred(Raster &raster, int middle, int top, const std::string &text, Rgb colour) {
    raster.write(middle - textWidth(text, letters) / 2, top, letters, text, colour);
}

// "Head 1", "Layer 2, head 3".
std::string titleOf(const Head &head) {
    std::string title = head.name;
    if (!title.empty() && title[0] >= 'a' && title[0] <= 'z') title[0] = static_cast<char>(title[0] - 'a' + 'A');
    return title;
}

// What fits into so many pixels, with an ellipsis where something was cut.
std::string fitted(std::string text, int width) {
    if (textWidth(text, letters) <= width) return text;
    while (!text.empty() && textWidth(text + "...", letters) > width) text.pop_back();
    return text + "...";
}

struct Notes {
    bool hidden = false, notFinite = false;
    std::string pooling;
};

Notes notesOf(const analysis::PooledWeights &weights) {
    using Weights = analysis::PooledWeights;
    return {std::count(weights.cells.begin(), weights.cells.end(), Weights::hidden) > 0,
            std::count(weights.cells.begin(), weights.cells.end(), Weights::notFinite) > 0, poolingText(weights)};
}

std::string noteText(const Notes &notes) {
    std::string text = notes.pooling;
    const auto add = [&](bool there, const char *what) { text += there ? (text.empty() ? "" : "; ") + std::string(what) : ""; };
    add(notes.hidden, "grey: hidden");
    add(notes.notFinite, "red: not a number");
    return text;
}

// The name of a key or query beside its axis; empty where too many would stand there.
std::string labelOf(const Heads &heads, size_t length, int64_t key) {
    if (length > mostTokenLabels || heads.tokens.empty()) return "";
    return key >= 0 && static_cast<size_t>(key) < heads.tokens.size() ? heads.tokens[static_cast<size_t>(key)] : "";
}

} // namespace

std::string figureText(double value, int digits) {
    if (!std::isfinite(value)) return std::isnan(value) ? "none" : value > 0 ? "inf" : "-inf";
    char text[48];
    const double magnitude = std::fabs(value);
    const bool tiny = magnitude > 0 && magnitude < 0.5 * std::pow(10.0, -digits), huge = magnitude >= 1e6;
    if (tiny || huge)
        std::snprintf(text, sizeof text, "%.1e", value);
    else
        std::snprintf(text, sizeof text, "%.*f", digits, value);
    return text;
}

Raster heatMap(const Heads &heads, size_t index, const HeatMapOptions &options) {
    const Head &head = heads.heads[index];
    const analysis::PooledWeights &weights = head.weights;
    const double largest = options.ownRange ? ownLargest(head) : sharedLargest(heads);
    const int scale = scaleFor(weights, 640);
    const int width = static_cast<int>(weights.columns) * scale, height = static_cast<int>(weights.rows) * scale;

    int queryLabels = 0, keyLabels = 0; // pixels that they take
    for (size_t i = 0; i < weights.queries; i++)
        queryLabels = std::max(queryLabels, textWidth(labelOf(heads, weights.queries, static_cast<int64_t>(i) + head.shift), letters));
    for (size_t j = 0; j < weights.keys; j++)
        keyLabels = std::max(keyLabels, textWidth(labelOf(heads, weights.keys, static_cast<int64_t>(j)), letters));
    const std::string note = noteText(notesOf(weights));

    const int left = 2 * lineHeight + std::max(queryLabels, textWidth(std::to_string(weights.queries), letters)) + 12;
    const int top = 2 * lineHeight, below = std::max(keyLabels, lineHeight) + 2 * lineHeight + (note.empty() ? 0 : lineHeight);
    const int picture = std::max(left + width + barWidth + 110, left + textWidth(note, letters) + 20);
    Raster raster(picture, top + height + below + 10, paper);
    writeCentred(raster, left + width / 2, 12, titleOf(head), ink);
    drawCells(raster, weights, left, top, scale, options.map, largest);
    drawBar(raster, left + width + 24, top, height, options.map, largest);

    if (queryLabels > 0)
        for (size_t i = 0; i < weights.queries; i++) {
            const std::string label = labelOf(heads, weights.queries, static_cast<int64_t>(i) + head.shift);
            raster.write(left - 8 - textWidth(label, letters), top + static_cast<int>(i) * scale + (scale - 7 * letters) / 2, letters,
                         label, faint);
        }
    else
        for (const size_t i : {size_t{0}, weights.queries - 1}) {
            const std::string label = std::to_string(i);
            raster.write(left - 8 - textWidth(label, letters), i == 0 ? top : top + height - 8 * letters, letters, label, faint);
        }
    if (keyLabels > 0)
        for (size_t j = 0; j < weights.keys; j++) {
            const std::string label = labelOf(heads, weights.keys, static_cast<int64_t>(j));
            raster.writeTurned(left + static_cast<int>(j) * scale + (scale - 7 * letters) / 2, top + height + 8 + textWidth(label, letters),
                               letters, label, faint);
        }
    else
        for (const size_t j : {size_t{0}, weights.keys - 1}) {
            const std::string label = std::to_string(j);
            raster.write(j == 0 ? left : left + width - textWidth(label, letters), top + height + 8, letters, label, faint);
        }
    writeCentred(raster, left + width / 2, top + height + 8 + std::max(keyLabels, lineHeight), "Key Position", ink);
    raster.writeTurned(14, top + (height + textWidth("Query Position", letters)) / 2, letters, "Query Position", ink);
    if (!note.empty()) raster.write(left, raster.height - lineHeight, letters, note, faint);
    return raster;
}

Raster sheet(const Heads &heads, const HeatMapOptions &options) {
    const size_t count = heads.heads.size();
    const auto columns = static_cast<int>(std::ceil(std::sqrt(static_cast<double>(count))));
    const int rows = (static_cast<int>(count) + columns - 1) / columns;
    int cell = 256;
    Notes notes;
    for (const Head &head : heads.heads) {
        const int scale = scaleFor(head.weights, 256);
        cell = std::max(cell, static_cast<int>(std::max(head.weights.rows, head.weights.columns)) * scale);
        const Notes own = notesOf(head.weights);
        notes.hidden |= own.hidden, notes.notFinite |= own.notFinite;
        if (notes.pooling.empty()) notes.pooling = own.pooling;
    }
    const auto figureLines = static_cast<int>(std::min(heads.figures.size(), sheetFigures));
    const int gap = 40, above = lineHeight + 6, below = (figureLines + 1) * lineHeight + 16;
    const int left = 2 * lineHeight, top = 2 * lineHeight, step = cell + gap, stride = above + cell + below;
    const int barSpace = options.ownRange ? 0 : barWidth + 100;
    Raster raster(left + columns * step + barSpace, top + rows * stride + 2 * lineHeight, paper);
    raster.write(left, 14, letters, fitted(heads.title, raster.width - left), ink);

    const double shared = sharedLargest(heads);
    for (size_t n = 0; n < count; n++) {
        const Head &head = heads.heads[n];
        const int x = left + static_cast<int>(n) % columns * step, y = top + static_cast<int>(n) / columns * stride + above;
        raster.write(x, y - lineHeight + 2, letters, fitted(titleOf(head), cell), ink);
        drawCells(raster, head.weights, x, y, scaleFor(head.weights, 256), options.map, options.ownRange ? ownLargest(head) : shared);
        int at = y + cell + 10;
        raster.fill(x, at + 1, 12, 12, kindColour(head.kind));
        raster.write(x + 20, at, letters, head.kind, ink);
        for (size_t f = 0; f < std::min({heads.figures.size(), head.figures.size(), sheetFigures}); f++) {
            at += lineHeight;
            const std::string value = figureText(head.figures[f], heads.figures[f].digits);
            raster.write(x, at, letters, heads.figures[f].name, faint);
            raster.write(x + cell - textWidth(value, letters), at, letters, value, ink);
        }
    }
    if (!options.ownRange) drawBar(raster, left + columns * step, top + above, cell, options.map, shared);
    const std::string note = noteText(notes), axes = "Key Position to the right, Query Position downwards";
    raster.write(left, raster.height - lineHeight - 8, letters, axes + (note.empty() ? "" : "; ") + note, faint);
    return raster;
}

} // namespace vkattn::picture
