#include "report/report.hpp"

#include "failure.hpp"
#include "text.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>

namespace vkattn::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char *rowFormat = "%-27s %-7s %10s %10s %9s %9s %10s %10s %9s  %s\n";

std::string gigas(double perSecond) {
    return shortNumber(perSecond * 1e-9);
}

std::string shareText(const std::optional<Share> &share) {
    if (!share) return "-";
    return decimals(share->share * 100, share->share < 0.1 ? 1 : 0) + (share->byMemory ? "% read" : "% fma");
}

std::string checkText(const Measurement &m) {
    const std::string how = m.device == "cpu" ? "  (" + m.driver.substr(m.driver.find(", ") + 2) + ")" : "";
    if (!m.verified) return "not checked" + how;
    char text[64];
    std::snprintf(text, sizeof text, "error %.1e", m.verified->maxError);
    return text +
           (m.verified->rowsChecked == m.verified->rowsTotal ? std::string() : " of " + std::to_string(m.verified->rowsChecked) + " rows") +
           how;
}

Json finiteOrNull(double value) {
    return std::isfinite(value) ? Json(value) : Json();
}

Json toJson(const Shape &shape) {
    return {{"name", shape.name},           {"family", shape.family.empty() ? shape.name : shape.family},
            {"batch", shape.batch},         {"heads", shape.heads},
            {"kvHeads", shape.kvHeads},     {"queries", shape.queries},
            {"keys", shape.keys},           {"headDim", shape.headDim},
            {"valueDim", shape.valueDim()}, {"valuesInKeys", shape.valuesInKeys > 0},
            {"dtype", shape.types->name},   {"causal", shape.causal},
            {"window", shape.window},       {"rule", ruleText(shape.rule, shape.keys)},
            {"flops", shape.flops()},       {"visiblePairs", shape.visiblePairs()},
            {"bytes", shape.bytes()}};
}

Json toJson(const Measurement &m) {
    Json json = {{"shape", toJson(m.shape)}, {"askedKernel", m.askedKernel}};
    if (!m.failure.empty()) {
        json["failure"] = m.failure;
        return json;
    }
    json.update({{"kernel", m.kernel},
                 {"device", m.device},
                 {"driver", m.driver},
                 {"timer", m.deviceTimestamps ? "device" : "wall"},
                 {"repeats", m.repeats},
                 {"medianMs", m.medianMs},
                 {"minMs", m.minMs},
                 {"gflops", m.gflops()},
                 {"gbs", m.gbs()},
                 {"shareOfPeak", m.share ? Json(m.share->share) : Json()},
                 {"bound", m.share ? Json(m.share->byMemory ? "read" : "fma") : Json()},
                 {"workspaceBytes", m.workspaceBytes},
                 {"compileSeconds", m.compileSeconds},
                 {"verified", nullptr}});
    if (m.verified)
        json["verified"] = {{"maxError", finiteOrNull(m.verified->maxError)},
                            {"worstError", finiteOrNull(m.verified->worstError)},
                            {"worstBound", finiteOrNull(m.verified->worstBound)},
                            {"rowsChecked", m.verified->rowsChecked},
                            {"rowsTotal", m.verified->rowsTotal}};
    return json;
}

Json toJson(const std::optional<PowerFit> &fit) {
    return fit ? Json{{"exponent", fit->exponent}, {"rSquared", fit->determination}} : Json();
}

std::string fitText(const char *what, const std::optional<PowerFit> &fit) {
    if (!fit) return std::string(what) + ": none";
    return std::string(what) + " ~ tokens^" + decimals(fit->exponent, 2) + " (R2 " + decimals(fit->determination, 4) + ")";
}

double plotted(PlotValue value, const Shape &shape, double milliseconds) {
    switch (value) {
    case PlotValue::gbs:
        return static_cast<double>(shape.bytes()) / milliseconds * 1e-6;
    case PlotValue::milliseconds:
        return milliseconds;
    case PlotValue::gflops:
        break;
    }
    return shape.flops() / milliseconds * 1e-6;
}

// A curve of times also says how they grow, which the eye cannot read off it.
std::string curveLabel(PlotValue value, const SweepSeries &series) {
    if (value != PlotValue::milliseconds || !series.time) return "vkattn " + series.kernel + ", " + series.family;
    return series.family + " " + series.kernel + ", time ~ n^" + decimals(series.time->exponent, 2);
}

// The rival's shape is that of one of the bases, at its own length or, as NAME@TOKENS, at another.
std::optional<Shape> rivalShape(const RivalRow &row, const std::vector<Shape> &bases) {
    for (const Shape &base : bases) {
        uint32_t tokens = 0;
        if (row.shape == base.name) return withTokens(base, base.keys);
        if (row.shape.rfind(base.name + "@", 0) == 0 && parseNumber(std::string_view(row.shape).substr(base.name.size() + 1), tokens) &&
            tokens > 0)
            return withTokens(base, tokens);
    }
    return {};
}

} // namespace

void printShapeTable() {
    std::printf("%-24s %-8s %-24s %-6s %-25s %9s %9s  %s\n", "shape", "group", "batch x heads x Q x K", "types", "options", "GFLOP", "data",
                "stands for");
    for (const Shape &shape : shapeTable())
        std::printf("%-24s %-8s %-24s %-6s %-25s %9s %9s  %s%s\n", shape.name.c_str(), shape.group.c_str(), shape.sizeText().c_str(),
                    shape.types->name, shape.optionsText().c_str(), shortNumber(shape.flops() * 1e-9).c_str(),
                    byteText(shape.bytes()).c_str(), shape.standsFor.c_str(), shape.quick ? " (quick)" : "");
    std::printf(
        "\nheads are query heads/KV heads where they are grouped; types are those of Q and output, f16kv and bf16kv: f32, with K and V in "
        "16 bits\n");
}

void printHeading(const Machine &machine, const DeviceInfo *device, uint32_t threads) {
    std::printf("device  %s (%s)", machine.device.c_str(), machine.driver.c_str());
    if (!device || device->type == DeviceType::cpu)
        std::printf(", %u cores%s%s", machine.cores, machine.processor.empty() ? "" : " of ", machine.processor.c_str());
    if (!device && threads) std::printf(", %u threads", threads);
    if (device) std::printf("\ntuning  %s", machine.tuning.c_str());
    std::printf("\ntimes   milliseconds by %s, of the computation alone\n\n", device && device->timestamps ? "the device's own timestamps"
                                                                              : device ? "the wall clock from submit to fence"
                                                                                       : "the wall clock");
    std::printf(rowFormat, "shape", "kernel", "median ms", "min ms", "GFLOP/s", "GB/s", "of peak", "workspace", "compile s", "check");
    std::fflush(stdout);
}

void printRow(const Measurement &m) {
    if (m.failure.empty())
        std::printf(rowFormat, m.shape.name.c_str(), m.kernel.c_str(), shortNumber(m.medianMs).c_str(), shortNumber(m.minMs).c_str(),
                    shortNumber(m.gflops()).c_str(), shortNumber(m.gbs()).c_str(), shareText(m.share).c_str(),
                    byteText(m.workspaceBytes).c_str(), decimals(m.compileSeconds, 2).c_str(), checkText(m).c_str());
    else
        std::printf("%-27s %-7s FAILED  %s\n", m.shape.name.c_str(), m.askedKernel.c_str(), m.failure.c_str());
    std::fflush(stdout);
}

void printConventions(Peaks *peaks) {
    std::printf(
        "\nGFLOP/s  2 * (head dim + value dim) flops for each (query, key) pair that is not hidden; softmax and hidden pairs are free\n"
        "GB/s     Q, K, V and output, each once\n");
    if (!peaks) return;
    std::printf(
        "of peak  the time that the machine's measured peak needs, for the arithmetic (fma) or the bytes (read), whichever is more\n"
        "peaks    %s GFLOP/s fma",
        gigas(peaks->flopsPerSecond()).c_str());
    for (const auto &[bytes, rate] : peaks->reads()) std::printf(", %s GB/s over %s", gigas(rate).c_str(), byteText(bytes).c_str());
    std::printf("\n");
    if (!peaks->why().empty()) std::printf("         a peak could not be measured: %s\n", peaks->why().c_str());
}

void printSweep(const std::vector<SweepSeries> &series) {
    std::printf("\n%-27s %-7s exponents x of tokens^x: those of the work are what those of the time should be\n", "sweep", "kernel");
    for (const SweepSeries &s : series)
        std::printf("%-27s %-7s %s, %s, %s\n", s.family.c_str(), s.kernel.c_str(), fitText("work", s.work).c_str(),
                    fitText("time", s.time).c_str(), fitText("workspace", s.workspace).c_str());
}

void printComparison(const std::vector<Measurement> &measurements, const std::vector<RivalRow> &rivals) {
    std::printf("\n%-27s %-7s %10s %10s %8s  %s\n", "shape", "kernel", "ours ms", "theirs ms", "ratio",
                "rival (ratio below 1: we are faster)");
    size_t printed = 0;
    for (const Measurement &m : measurements)
        for (const RivalRow &rival : rivals) {
            if (!m.failure.empty() || rival.shape != m.shape.name) continue;
            std::printf("%-27s %-7s %10s %10s %8s  %s\n", m.shape.name.c_str(), m.kernel.c_str(), shortNumber(m.medianMs).c_str(),
                        shortNumber(rival.medianMs).c_str(), shortNumber(m.medianMs / rival.medianMs).c_str(), rival.label().c_str());
            ++printed;
        }
    if (printed > 0) return;
    std::set<std::string> theirs;
    for (const RivalRow &rival : rivals) theirs.insert(rival.shape);
    std::printf("none: no shape was measured that the file has; it has %s\n", join({theirs.begin(), theirs.end()}, ", ").c_str());
}

std::string jsonReport(const Machine &machine, Peaks *peaks, const std::vector<Measurement> &measurements,
                       const std::vector<SweepSeries> &series) {
    Json json = {{"date", machine.date},     {"commit", machine.commit}, {"processor", machine.processor}, {"cores", machine.cores},
                 {"device", machine.device}, {"driver", machine.driver}, {"tuning", machine.tuning},       {"peaks", nullptr},
                 {"rows", Json::array()},    {"fits", Json::array()}};
    if (peaks) {
        Json reads = Json::array();
        for (const auto &[bytes, rate] : peaks->reads()) reads.push_back({{"bufferBytes", bytes}, {"gbs", rate * 1e-9}});
        json["peaks"] = {{"fmaGflops", peaks->flopsPerSecond() * 1e-9}, {"reads", std::move(reads)}};
    }
    for (const Measurement &m : measurements) json["rows"].push_back(toJson(m));
    for (const SweepSeries &s : series)
        json["fits"].push_back({{"family", s.family},
                                {"kernel", s.kernel},
                                {"work", toJson(s.work)},
                                {"time", toJson(s.time)},
                                {"workspace", toJson(s.workspace)}});
    // Driver names need not be UTF-8: invalid bytes are replaced, where dump() alone throws.
    return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

program::Chart sweepChart(const Machine &machine, PlotValue value, const std::vector<SweepSeries> &series, const std::vector<Shape> &bases,
                          const std::vector<RivalRow> &rivals) {
    program::Chart chart;
    program::Plot plot;
    plot.height = 340;
    plot.x = {.label = "tokens", .scale = program::AxisScale::octaves, .text = program::binaryText};
    const char *const titles[] = {"Attention throughput by sequence length", "Attention bandwidth by sequence length",
                                  "Attention time by sequence length"};
    const char *const units[] = {"GFLOP/s", "GB/s of Q, K, V and output", "milliseconds"};
    chart.title = titles[static_cast<size_t>(value)];
    chart.subtitle = machine.device + ", " + machine.date + (machine.commit.empty() ? "" : ", " + machine.commit);
    for (const SweepSeries &s : series) {
        program::Curve line{.label = curveLabel(value, s)};
        for (const Measurement &m : s.points) line.points.emplace_back(m.shape.swept, plotted(value, m.shape, m.medianMs));
        plot.curves.push_back(std::move(line));
    }
    for (const RivalRow &row : rivals) {
        const std::optional<Shape> shape = rivalShape(row, bases);
        if (!shape) continue;
        const std::string label = row.label() + ", " + shape->family;
        auto at =
            std::find_if(plot.curves.begin(), plot.curves.end(), [&](const program::Curve &c) { return c.dashed && c.label == label; });
        if (at == plot.curves.end()) at = plot.curves.insert(plot.curves.end(), {.label = label, .dashed = true});
        // A file may have a shape twice, at a length of its own and in a sweep: the quicker row counts.
        const double tokens = shape->swept, here = plotted(value, *shape, row.medianMs);
        const auto same = std::find_if(at->points.begin(), at->points.end(), [&](const auto &point) { return point.first == tokens; });
        if (same == at->points.end())
            at->points.emplace_back(tokens, here);
        else
            same->second = value == PlotValue::milliseconds ? std::min(same->second, here) : std::max(same->second, here);
    }
    double smallest = INFINITY, largest = 0;
    for (program::Curve &curve : plot.curves) {
        std::sort(curve.points.begin(), curve.points.end());
        for (const auto &[tokens, each] : curve.points) smallest = std::min(smallest, each), largest = std::max(largest, each);
    }
    plot.y.label = units[static_cast<size_t>(value)];
    // One line along the bottom tells nothing: where values lie far apart, so do the powers of ten.
    if (largest > 30 * smallest) plot.y.label += " (logarithmic)", plot.y.scale = program::AxisScale::decades;
    chart.plots.push_back(std::move(plot));
    return chart;
}

} // namespace vkattn::bench
