#include "program/pictures/drawing.hpp"

#include "program/legible_text.hpp"

#include <cstdio>
#include <iterator>

namespace vkattn::program {
namespace {

std::string number(double value) {
    return decimals(value, 1);
}

// Okabe and Ito's palette, told apart by colour-blind readers too; the yellow is left out, it is too
// pale for a line on white. On dark pages the same hues are lighter.
constexpr const char *onLight[] = {"#0072b2", "#d55e00", "#009e73", "#b8558f", "#3f9fd4", "#b87d00", "#1f2328"};
constexpr const char *onDark[] = {"#58a6ff", "#ff8c42", "#3fd0a0", "#e79cc6", "#9bd3f5", "#f0c040", "#f0f6fc"};
static_assert(std::size(onLight) == seriesColours && std::size(onDark) == seriesColours);

std::string coloursOf(const char *const (&colours)[seriesColours]) {
    std::string style;
    for (size_t n = 0; n < seriesColours; ++n) {
        const std::string name = ".colour" + std::to_string(n), colour = colours[n];
        style += name + " { stroke: " + colour + " } .fill" + name + " { fill: " + colour + " }\n";
    }
    return style;
}

std::string style() {
    return "<style>\n"
           ".page { fill: #ffffff } .title { fill: #1f2328; font-size: 19px; font-weight: 600 } .label { fill: #1f2328; font-size: 15px }\n"
           ".text { fill: #59636e; font-size: 14px } .end { text-anchor: end } .middle { text-anchor: middle }\n"
           ".grid { stroke: #e4e8ec } .axis { stroke: #59636e } .guide { stroke: #8c959f; stroke-dasharray: 6 5 }\n"
           ".series { fill: none; stroke-width: 2.2; stroke-linejoin: round; stroke-linecap: round } .dashed { stroke-dasharray: 6 5 }\n"
           ".hollow { fill: #ffffff; stroke-width: 2 } .seen { fill: #0072b2 } .hidden { fill: #e4e8ec }\n" +
           coloursOf(onLight) +
           "@media (prefers-color-scheme: dark) {\n"
           ".page { fill: #0d1117 } .title, .label { fill: #f0f6fc } .text { fill: #9198a1 } .grid { stroke: #262c36 } "
           ".axis { stroke: #9198a1 }\n"
           ".guide { stroke: #767e88 } .hollow { fill: #0d1117 } .seen { fill: #58a6ff } .hidden { fill: #262c36 }\n" +
           coloursOf(onDark) + "}\n</style>\n";
}

} // namespace

std::string decimals(double value, int count) {
    char text[352]; // the largest double has 309 digits before the point
    std::snprintf(text, sizeof text, "%.*f", count, value);
    return text;
}

Drawing::Drawing(double width, double height) {
    const std::string w = decimals(width, 0), h = decimals(height, 0);
    svg_ = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + w + " " + h + "\" width=\"" + w + "\" height=\"" + h +
           "\" font-family=\"'Segoe UI', 'Helvetica Neue', Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif\" "
           "role=\"img\">\n" +
           style() + "<rect class=\"page\" width=\"100%\" height=\"100%\"/>\n";
}

void Drawing::text(double x, double y, const std::string &look, const std::string &content) {
    svg_ += "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\" class=\"" + look + "\">" + escapeMarkup(content) + "</text>\n";
}

void Drawing::line(double x1, double y1, double x2, double y2, const std::string &look) {
    svg_ += "<line x1=\"" + number(x1) + "\" y1=\"" + number(y1) + "\" x2=\"" + number(x2) + "\" y2=\"" + number(y2) + "\" class=\"" +
            look + "\"/>\n";
}

void Drawing::polyline(const std::string &points, const std::string &look) {
    svg_ += "<polyline class=\"" + look + "\" points=\"" + points + "\"/>\n";
}

void Drawing::circle(double x, double y, double radius, const std::string &look, const std::string &title) {
    svg_ += "<circle cx=\"" + number(x) + "\" cy=\"" + number(y) + "\" r=\"" + number(radius) + "\" class=\"" + look + "\">";
    if (!title.empty()) svg_ += "<title>" + escapeMarkup(title) + "</title>";
    svg_ += "</circle>\n";
}

void Drawing::rectangle(double x, double y, double width, double height, const std::string &look) {
    svg_ += "<rect x=\"" + number(x) + "\" y=\"" + number(y) + "\" width=\"" + number(width) + "\" height=\"" + number(height) +
            "\" class=\"" + look + "\"/>\n";
}

} // namespace vkattn::program
