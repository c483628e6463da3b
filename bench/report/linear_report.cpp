#include "report/linear_report.hpp"

#include "measure/sweep.hpp"
#include "report/csv.hpp"
#include "shapes/operands.hpp"
#include "text.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace vkattn::bench {
namespace {

const LinearSeries *softmaxOf(std::span<const LinearSeries> all, const std::string &family) {
    for (const LinearSeries &each : all)
        if (each.family == family && each.pass == "softmax") return &each;
    return nullptr;
}

std::optional<PowerFit> fitOf(const LinearSeries &series) {
    std::vector<double> tokens, times;
    for (const auto &[n, ms] : series.points) tokens.push_back(n), times.push_back(ms);
    return fitPower(tokens, times);
}

} // namespace

void printLinearHeading(const Machine &machine) {
    std::printf("device  %s (%s)\n\n%-24s %-20s %-5s %-10s %10s %10s %9s %14s  %s\n", machine.device.c_str(), machine.driver.c_str(),
                "shape", "heads x n, state", "type", "pass", "median ms", "min ms", "GFLOP/s", "us/token/head", "over recurrent");
    std::fflush(stdout);
}

void printLinear(std::span<const LinearTime> times) {
    for (const LinearTime &time : times) {
        const LinearShape &shape = time.shape;
        std::printf("%-24s %-20s %-5s %-10s ", shape.name.c_str(), shape.sizeText().c_str(), nameOf(shape.dtype), time.pass.c_str());
        if (!time.failure.empty())
            std::printf("none: %s\n", time.failure.c_str());
        else
            std::printf("%10.3f %10.3f %9s %14.3f  %s\n", time.medianMs, time.minMs,
                        time.pass == "softmax" ? "-" : decimals(time.gflops(), 1).c_str(), time.microsecondsOfToken(),
                        times.front().medianMs > 0 ? decimals(time.medianMs / times.front().medianMs, 2).c_str() : "-");
    }
    std::fflush(stdout);
}

std::string linearCsvHeader() {
    return csvLine({"date", "commit", "processor", "cores", "device", "driver", "shape", "heads", "tokens", "key_dim", "value_dim",
                    "omega_rows", "dtype", "pass", "repeats", "median_ms", "min_ms", "us_token_head", "verified_error"});
}

std::string linearCsvRow(const Machine &machine, const LinearTime &time) {
    const LinearShape &s = time.shape;
    return csvLine({machine.date, machine.commit, machine.processor, std::to_string(machine.cores), machine.device, machine.driver, s.name,
                    std::to_string(s.heads), std::to_string(s.tokens), std::to_string(s.keyDim), std::to_string(s.valueDim),
                    std::to_string(s.omegaRows), nameOf(s.dtype), time.pass, std::to_string(time.repeats), decimals(time.medianMs, 4),
                    decimals(time.minMs, 4), decimals(time.microsecondsOfToken(), 4), shortNumber(time.verified.worstError)});
}

std::vector<LinearSeries> linearSeries(std::span<const LinearTime> times) {
    std::vector<LinearSeries> all;
    for (const LinearTime &time : times) {
        if (!time.failure.empty()) continue;
        auto at = std::find_if(all.begin(), all.end(),
                               [&](const LinearSeries &s) { return s.family == time.shape.family && s.pass == time.pass; });
        if (at == all.end()) at = all.insert(all.end(), {time.shape.family, time.pass, {}});
        at->points.emplace_back(time.shape.tokens, time.medianMs);
    }
    for (LinearSeries &series : all) std::sort(series.points.begin(), series.points.end());
    return all;
}

std::optional<double> crossing(const LinearSeries &linear, const LinearSeries &softmax) {
    std::optional<std::pair<double, double>> before; // log of tokens, log of linear over softmax
    for (const auto &[tokens, ms] : linear.points) {
        const auto same = std::find_if(softmax.points.begin(), softmax.points.end(), [&](const auto &p) { return p.first == tokens; });
        if (same == softmax.points.end()) continue;
        const std::pair<double, double> here = {std::log(tokens), std::log(ms / same->second)};
        if (before && before->second > 0 && here.second <= 0)
            return std::exp(before->first + (here.first - before->first) * before->second / (before->second - here.second));
        before = here;
    }
    return {};
}

void printLinearSweep(std::span<const LinearSeries> series) {
    std::printf("\n%-20s %-10s time ~ tokens^x, and from how many tokens on it is faster than softmax\n", "sweep", "pass");
    for (const LinearSeries &each : series) {
        const std::optional<PowerFit> fit = fitOf(each);
        const LinearSeries *const softmax = softmaxOf(series, each.family);
        std::string against;
        if (softmax && softmax != &each) {
            const std::optional<double> from = crossing(each, *softmax);
            against = from ? ", faster from " + decimals(*from, 0) + " tokens on" : ", crosses softmax at none of these lengths";
        }
        std::printf("%-20s %-10s %s%s\n", each.family.c_str(), each.pass.c_str(),
                    fit ? ("x = " + decimals(fit->exponent, 2) + " (R2 " + decimals(fit->determination, 4) + ")").c_str()
                        : "no two lengths",
                    against.c_str());
    }
}

program::Chart linearChart(const Machine &machine, std::span<const LinearSeries> series) {
    program::Chart chart;
    program::Plot plot;
    plot.height = 340;
    plot.x = {.label = "tokens", .scale = program::AxisScale::octaves, .text = program::binaryText};
    plot.y = {.label = "milliseconds (logarithmic)", .scale = program::AxisScale::decades};
    chart.title = "Linear attention beside softmax attention";
    chart.subtitle = machine.device + ", " + machine.date + (machine.commit.empty() ? "" : ", " + machine.commit);
    for (const LinearSeries &each : series) {
        const std::optional<PowerFit> fit = fitOf(each);
        program::Curve curve{.label = each.family + " " + each.pass + (fit ? ", time ~ n^" + decimals(fit->exponent, 2) : ""),
                             .points = each.points,
                             .dashed = each.pass == "softmax"};
        plot.curves.push_back(std::move(curve));
    }
    chart.plots.push_back(std::move(plot));
    return chart;
}

} // namespace vkattn::bench
