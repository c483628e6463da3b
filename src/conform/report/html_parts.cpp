#include "conform/report/html_parts.hpp"

#include "conform/report/summary.hpp"
#include "program/legible_text.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace vkattn::conform {
using namespace program;
namespace {

constexpr const char *style = R"css(
:root {
  color-scheme: light dark;
  --page: #ffffff; --panel: #f5f6f8; --line: #d5d9e0; --text: #1b1f27; --faint: #5b6472; --link: #1457b8;
  --pass: #17692f; --pass-back: #e3f4e7; --fail: #a81616; --fail-back: #fde5e3; --warn: #7d4e00; --warn-back: #fff0cf;
  --bar: #4878b8;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #14171c; --panel: #1d2128; --line: #3a414d; --text: #e5e8ee; --faint: #a0a9b8; --link: #86b7ff;
    --pass: #86dd9f; --pass-back: #16301d; --fail: #ff9a92; --fail-back: #451a1a; --warn: #f2c66b; --warn-back: #3a2c0d;
    --bar: #7aa7e6;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0 auto; padding: 1.5rem 1.25rem 4rem; max-width: 76rem; background: var(--page); color: var(--text);
  font: 1rem/1.5 system-ui, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 .25rem; }
h2 { font-size: 1.35rem; line-height: 1.25; margin: 3rem 0 .5rem; padding-top: 1.25rem; border-top: 2px solid var(--line); }
h3 { font-size: 1.05rem; margin: 2rem 0 .5rem; }
p, ul, ol { margin: .4rem 0; max-width: 56rem; }
li { margin: .2rem 0; }
a { color: var(--link); }
small, .faint { color: var(--faint); font-size: .875rem; }
sup { line-height: 0; font-size: .7rem; }
code, pre { font-family: ui-monospace, "Cascadia Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; font-size: .85rem; }
pre { margin: .35rem 0; padding: .5rem .7rem; white-space: pre-wrap; background: var(--panel); border: 1px solid var(--line);
  border-radius: .35rem; }
.outcome { display: inline-block; padding: 0 .55rem; border-radius: .35rem; font-size: .85em; font-weight: 700; white-space: nowrap;
  border: 1px solid currentColor; }
.PASS { color: var(--pass); background: var(--pass-back); }
.FAILED { color: var(--fail); background: var(--fail-back); }
.INCOMPLETE, .NOTHING { color: var(--warn); background: var(--warn-back); }
.notice { margin: .75rem 0; padding: .5rem .75rem; border-left: .3rem solid var(--warn); background: var(--warn-back); }
.box { overflow-x: auto; margin: .6rem 0; border: 1px solid var(--line); border-radius: .35rem; max-width: 100%; width: fit-content; }
table { border-collapse: collapse; overflow-wrap: normal; }
th, td { padding: .3rem .65rem; text-align: right; vertical-align: middle; border-bottom: 1px solid var(--line); white-space: nowrap;
  font-variant-numeric: tabular-nums; }
tbody tr:last-child > * { border-bottom: 0; }
th { font-weight: 600; }
th small { font-weight: 400; }
thead th { background: var(--panel); vertical-align: bottom; }
thead th small { display: block; }
th:first-child, .left { text-align: left; }
.id { white-space: normal; min-width: 16rem; overflow-wrap: anywhere; font-weight: 400; }
.devices th:first-child { white-space: normal; min-width: 11rem; }
.matrix th:first-child { position: sticky; left: 0; background: var(--panel); }
.matrix tr.all > * { border-bottom: 2px solid var(--line); font-weight: 600; }
td.pass { color: var(--pass); }
td.fail { color: var(--fail); background: var(--fail-back); font-weight: 700; }
td.no { color: var(--faint); }
td[title] { cursor: help; }
.failure { margin: .8rem 0; padding: .6rem .9rem .8rem; border: 1px solid var(--line); border-left: .3rem solid var(--fail); border-radius: .35rem; }
.failure h4 { margin: 0 0 .3rem; font-size: .95rem; }
.failure h4 .outcome { margin-right: .5rem; color: var(--fail); background: var(--fail-back); }
.failure p { margin: .5rem 0 0; }
.tag { display: inline-block; margin: .1rem .25rem .1rem 0; padding: 0 .45rem; border: 1px solid var(--line); border-radius: .8rem;
  font-size: .8rem; background: var(--panel); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1.2rem; margin: .6rem 0; }
dt { color: var(--faint); }
dd { margin: 0; min-width: 0; }
svg { display: block; }
svg .bar { fill: var(--bar); }
svg .over { fill: var(--fail); }
svg .axis { stroke: var(--faint); stroke-width: 1; }
svg .bound { stroke: var(--fail); stroke-width: 1; stroke-dasharray: 3 2; }
svg text { fill: var(--faint); font-size: 9.5px; text-anchor: middle; }
@media (max-width: 40rem) {
  body { padding: 1rem .8rem 3rem; }
  h1 { font-size: 1.4rem; }
  h2 { font-size: 1.2rem; }
  th, td { padding: .3rem .45rem; font-size: .9rem; }
  .matrix th:first-child { white-space: normal; min-width: 6rem; max-width: 9rem; }
  dl { grid-template-columns: 1fr; gap: 0; }
  dd { margin-bottom: .45rem; }
}
@media print {
  body { max-width: none; padding: 0; font-size: .8rem; }
  .box { overflow: visible; }
  .failure, tr { break-inside: avoid; }
}
)css";

Html classAttribute(const char *cssClass) {
    return *cssClass == '\0' ? "" : std::string(" class=\"") + cssClass + "\"";
}

Html cellElement(const char *name, const Cell &cell, const char *scope) {
    const Html title = cell.title.empty() ? "" : " title=\"" + escapeMarkup(cell.title) + "\"";
    const Html scoped = *scope == '\0' ? "" : std::string(" scope=\"") + scope + "\"";
    return std::string("<") + name + classAttribute(cell.cssClass) + scoped + title + ">" + cell.content + "</" + name + ">";
}

// The height is logarithmic: counts reach from one to billions.
double barHeight(uint64_t count, uint64_t most, double height) {
    return count == 0 ? 0 : height * (1 + std::log10(static_cast<double>(count))) / (1 + std::log10(static_cast<double>(most)));
}

std::string binText(size_t bin) {
    if (bin == 0) return "no error";
    if (bin + 1 == VKATTN_VERIFY_BINS) return "error above the bound";
    const int exponent = static_cast<int>(bin) - 14;
    const std::string upTo = "error / bound up to " + numberText(std::ldexp(1.0, exponent));
    return bin == 1 ? upTo : upTo + ", above " + numberText(std::ldexp(1.0, exponent - 1));
}

} // namespace

Html element(const char *name, const Html &content, const char *cssClass) {
    return std::string("<") + name + classAttribute(cssClass) + ">" + content + "</" + name + ">";
}

Html textElement(const char *name, const std::string &text, const char *cssClass) {
    return element(name, escapeMarkup(text), cssClass);
}

Html tableBox(const std::vector<Cell> &head, const std::vector<std::vector<Cell>> &rows, const char *cssClass) {
    Html html = "<div class=\"box\" tabindex=\"0\"><table" + classAttribute(cssClass) + ">\n<thead><tr>";
    for (const Cell &cell : head) html += cellElement("th", cell, "col");
    html += "</tr></thead>\n<tbody>\n";
    for (const std::vector<Cell> &row : rows) {
        html += "<tr>";
        for (size_t n = 0; n < row.size(); n++) html += n == 0 ? cellElement("th", row[n], "row") : cellElement("td", row[n], "");
        html += "</tr>\n";
    }
    return html + "</tbody></table></div>\n";
}

Html histogramSvg(const Errors &errors) {
    constexpr double step = 11, bar = 9, left = 8, top = 2, height = 34;
    uint64_t most = 1;
    for (const uint64_t count : errors.histogram) most = std::max(most, count);
    char text[256];
    Html html = "<svg width=\"192\" height=\"52\" viewBox=\"0 0 192 52\" role=\"img\" aria-label=\"elements by error / bound\">";
    for (size_t n = 0; n < VKATTN_VERIFY_BINS; n++) {
        const double size = barHeight(errors.histogram[n], most, height);
        if (size <= 0) continue;
        std::snprintf(text, sizeof text, "<rect class=\"%s\" x=\"%.0f\" y=\"%.1f\" width=\"%.0f\" height=\"%.1f\"><title>",
                      n + 1 == VKATTN_VERIFY_BINS ? "over" : "bar", left + step * static_cast<double>(n), top + height - size, bar, size);
        html += text +
                escapeMarkup(countText(errors.histogram[n]) + (errors.histogram[n] == 1 ? " element: " : " elements: ") + binText(n)) +
                "</title></rect>";
    }
    // Labels stand at the upper ends of bins. The bound is the end of the last bin but one.
    const auto label = [&](double x, const char *what) {
        std::snprintf(text, sizeof text, "<text x=\"%.1f\" y=\"48\">%s</text>", x, what);
        html += text;
    };
    const auto end = [&](double bin) { return left + step * (bin + 1) - 1; };
    label(left + bar / 2, "0");
    label(end(4), "2\xE2\x81\xBB\xC2\xB9\xE2\x81\xB0"); // 2^-10
    label(end(9), "2\xE2\x81\xBB\xE2\x81\xB5");         // 2^-5
    label(end(14), "1");
    std::snprintf(text, sizeof text,
                  "<line class=\"axis\" x1=\"%.0f\" x2=\"%.0f\" y1=\"%.0f\" y2=\"%.0f\"/><line class=\"bound\" x1=\"%.1f\" x2=\"%.1f\" "
                  "y1=\"0\" y2=\"%.0f\"/></svg>",
                  left, end(15), top + height, top + height, end(14), end(14), top + height + 2);
    return html + text;
}

Html pageBegin(const std::string &title) {
    return "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width, "
           "initial-scale=1\">\n<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
           "<title>" +
           escapeMarkup(title) + "</title>\n<style>" + style + "</style>\n</head>\n<body>\n";
}

Html pageEnd() {
    return "</body>\n</html>\n";
}

} // namespace vkattn::conform
