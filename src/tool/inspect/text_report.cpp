#include "program/legible_text.hpp"
#include "tool/inspect/report.hpp"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <numeric>

namespace vkattn::tool {
using namespace program;
namespace {

constexpr size_t namedKeys = 3; // of each head

std::string formatted(const char *format, ...) {
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return text;
}

std::string plural(uint64_t count, const char *one, const char *many) {
    return std::to_string(count) + " " + (count == 1 ? one : many);
}

std::string title(const Inspection &inspection) {
    std::string text =
        legibleLine(inspection.source) + ": " +
        plural(inspection.batch, inspection.ragged ? "sequence" : "batch entry", inspection.ragged ? "sequences" : "batch entries");
    text += ", " + plural(inspection.heads, "head", "heads") + ", " + (inspection.ragged ? "at most " : "") +
            plural(inspection.queries, "query", "queries") + ", " + plural(inspection.keys, "key", "keys") + "\n";
    if (!inspection.device.empty())
        text += "computed by " + legibleLine(inspection.kernel) + " on " + legibleLine(inspection.device) + "\n";
    if (!inspection.fallbackReason.empty()) text += "not on a device: " + legibleLine(inspection.fallbackReason) + "\n";
    return text;
}

std::string headLine(const HeadSummary &head, bool reach, bool density) {
    std::string line = formatted("%4u  %-8s %8.3f %8.4g %8.3f %9.4g %9.3f %6.3f %6.3f", head.head, analysis::headClassName(head.headClass),
                                 head.figures.normalizedEntropy, head.effectiveRange, head.largest, head.distance, head.figures.diagonal,
                                 head.figures.locality, head.firstToken);
    if (reach) line += formatted(" %7.4g", head.reach);
    if (density) line += formatted(" %8.4g", head.density);
    return line + "\n";
}

// The keys that receive most, by the mean over the batch.
std::string receivedLine(const Inspection &inspection, uint32_t head) {
    std::vector<double> received(inspection.keys);
    for (uint32_t b = 0; b < inspection.batch; b++) {
        const std::vector<double> &mass = inspection.entry(b, head).measures.pairs.received;
        for (size_t j = 0; j < mass.size(); j++) received[j] += mass[j] / inspection.batch;
    }
    std::vector<size_t> order(received.size());
    std::iota(order.begin(), order.end(), size_t{0});
    const size_t count = std::min(namedKeys, order.size());
    std::partial_sort(order.begin(), order.begin() + static_cast<ptrdiff_t>(count), order.end(),
                      [&](size_t a, size_t b) { return received[a] != received[b] ? received[a] > received[b] : a < b; });
    std::string line = formatted("%4u  ", head);
    for (size_t n = 0; n < count; n++)
        line += (n == 0 ? "" : ", ") + keyName(inspection, order[n]) +
                formatted(received[order[n]] < 0.001 ? " %.2g" : " %.3f", received[order[n]]);
    return line + "\n";
}

std::string notes(const Inspection &inspection) {
    uint64_t empty = 0, notFinite = 0;
    for (const HeadSummary &head : inspection.summaries) empty += head.empty, notFinite += head.notFinite;
    std::string text;
    if (empty > 0)
        text += plural(empty, "row sees", "rows see") + " nothing, and " + (empty == 1 ? "is" : "are") + " left out of every mean\n";
    if (notFinite > 0)
        text += plural(notFinite, "row has", "rows have") + " NaN or infinite weights, and " + (notFinite == 1 ? "is" : "are") +
                " left out of every mean\n";
    if (!inspection.withheld.empty()) text += "no reach: " + inspection.withheld + "\n";
    if (inspection.visibleFromWeights) text += "weights of exactly 0 count as hidden\n";
    return text;
}

} // namespace

std::string inspectionText(const Inspection &inspection, bool density) {
    const bool reach = inspection.measured.weights;
    std::string text = title(inspection);
    text += "\nhead  class     entropy    range  largest  distance  diagonal  local  first";
    text += std::string(reach ? "   reach" : "") + (density ? "  density" : "") + "\n";
    for (const HeadSummary &head : inspection.summaries) text += headLine(head, reach, density);
    text += "\nentropy: 1 is uniform over the visible keys. range: how many keys that is like.\n"
            "local, first: weight on a neighbour, on key 0.";
    text += reach ? " reach: 99% lies no further away.\n" : "\n";
    if (density) text += formatted("density: the share of visible keys with a weight above %g.\n", inspection.options.density);
    const bool seeds = !inspection.summaries.empty() && inspection.summaries[0].seed.has_value();
    if (seeds) text += "\nhead  class without masks  diagonal  local  entropy  density\n";
    for (const HeadSummary &head : inspection.summaries)
        if (head.seed)
            text += formatted("%4u  %-19s %9.3f %6.3f %8.3f %8.3f\n", head.head, analysis::headClassName(head.seed->headClass),
                              head.seed->diagonal, head.seed->locality, head.seed->entropy, head.seed->density);
    text += "\nhead  keys that receive most\n";
    for (const HeadSummary &head : inspection.summaries) text += receivedLine(inspection, head.head);
    const std::string last = notes(inspection);
    return last.empty() ? text : text + "\n" + last;
}

} // namespace vkattn::tool
