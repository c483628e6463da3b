#include "program/pictures/chart.hpp"
#include "tool/lab/computation.hpp"
#include "tool/lab/experiment.hpp"
#include "tool/lab/formulas.hpp"

namespace vkattn::tool::lab {
namespace {

constexpr uint32_t keys = 1000, dim = 512, sampled = 100;

struct Scale {
    const char *name;
    double factor;
};
const Scale scaleList[] = {{"1/d", 1.0 / dim}, {"1/sqrt(d)", 1 / std::sqrt(dim)}, {"1", 1}, {"sqrt(d)", std::sqrt(dim)}};

// Of rows in double: what f32 cannot hold is here.
struct Exact {
    Row lengths, entropies;                          // of dS_i; of P_i
    double most = 0, least = INFINITY, gradient = 0; // of the weights; the squared length of dQ
};

void addRow(Exact &exact, const Row &p, const Row &dP, const float *k, double scale) {
    const Row dS = softmaxGradient(p, dP);
    exact.lengths.push_back(lengthOf(dS));
    exact.entropies.push_back(entropyOf(p.data(), keys));
    exact.most = std::max(exact.most, *std::max_element(p.begin(), p.end()));
    exact.least = std::min(exact.least, *std::min_element(p.begin(), p.end()));
    // What is below 1e-12 of the largest adds nothing.
    const double largest = lengthOf(dS);
    Row dQ(dim);
    for (size_t j = 0; j < keys; ++j)
        if (std::abs(dS[j]) > 1e-12 * largest) addTimes(dQ, dS[j], k + j * dim);
    exact.gradient += std::pow(scale * lengthOf(dQ), 2);
}

} // namespace

Findings scales(const Setting &setting) {
    program::Random random = setting.random();
    Attention attention{.queries = keys, .keys = keys, .dim = dim, .valueDim = dim};
    attention.k = normals(random, size_t{keys} * dim), attention.v = normals(random, size_t{keys} * dim);
    attention.q = normals(random, size_t{keys} * dim);
    const Numbers dOut(size_t{keys} * dim, 1.0f); // L = sum(out)
    const Row scores = dotsOf(attention.q.data(), keys, attention.k.data(), keys, dim);
    const Row dP = dotsOf(dOut.data(), 1, attention.v.data(), keys, dim);

    Findings found{.sizes = "n 1000, d 512, q, k and v from N(0, 1), L = sum(out); a sample of 100 rows, and all 1000; norms as of 4000",
                   .table = Table({{"scale", "scale"},
                                   {"rows", "rows", "%.0f"},
                                   {"norm_dq", "norm of dQ", "%.4g"},
                                   {"norm_dq_double", "in double", "%.4g"},
                                   {"std_out", "std of out", "%.3f"},
                                   {"max_over_min", "max/min", "%.3g"},
                                   {"max_over_min_double", "in double", "%.3g"},
                                   {"entropy", "entropy", "%.4g"},
                                   {"entropy_double", "in double", "%.4g"},
                                   {"median_ds", "median |dS_i|", "%.3g"},
                                   {"tenth_ds", "lowest tenth", "%.2g"},
                                   {"median_ds_f32", "median in f32", "%.3g"}})};
    program::Plot plot{
        .x = {.label = "share of the rows, from the shortest gradient to the longest, in percent", .least = 0, .most = 100},
        .y = {.label = "length of a row's dS, in double", .scale = program::AxisScale::decades, .least = 1e-60, .most = 1e5}};
    for (const Scale &scale : scaleList) {
        attention.scale = static_cast<float>(scale.factor);
        const Gradients made = gradientsOf(setting.runtime, attention, dOut);
        Exact exact;
        for (const size_t rows : {size_t{sampled}, size_t{keys}}) {
            for (size_t row = exact.lengths.size(); row < rows; ++row)
                addRow(exact, softmaxOf(scores.data() + row * keys, keys, scale.factor), dP, attention.k.data(), scale.factor);
            Row lengths;
            double entropy = 0;
            for (size_t row = 0; row < rows; ++row) {
                const auto dS = made.dScores.begin() + static_cast<ptrdiff_t>(row * keys);
                lengths.push_back(lengthOf(Row(dS, dS + keys)));
                entropy += entropyOf(made.weights.data() + row * keys, keys) / static_cast<double>(rows);
            }
            const auto end = [&](const Numbers &numbers, size_t columns) {
                return numbers.begin() + static_cast<ptrdiff_t>(rows * columns);
            };
            const Spread weights = spreadOf(made.weights.begin(), end(made.weights, keys)),
                         out = spreadOf(made.out.begin(), end(made.out, dim));
            const double as = std::sqrt(4000.0 / static_cast<double>(rows));
            found.table.add({scale.name, static_cast<double>(rows), as * lengthOf(Row(made.dQ.begin(), end(made.dQ, dim))),
                             as * std::sqrt(exact.gradient), out.deviation, weights.most / weights.least, exact.most / exact.least, entropy,
                             spreadOf(exact.entropies).mean, quantileOf(exact.lengths, 0.5), quantileOf(exact.lengths, 0.1),
                             quantileOf(lengths, 0.5)});
        }
        program::Curve curve{.label = std::string("scale ") + scale.name, .marks = false};
        for (size_t n = 0; n <= 200; ++n)
            curve.points.emplace_back(static_cast<double>(n) / 2, quantileOf(exact.lengths, static_cast<double>(n) / 200));
        plot.curves.push_back(std::move(curve));
    }
    found.theory = {
        "of N(0, s^2) scores the entropy is ln n - s^2 / 2 while s^2 < 2 ln n, and O(1) above (Derrida 1981): unscaled, s^2 = d, and",
        "with 2 ln n = 13.8 attention is saturated from d = 14 on. The median at sqrt(d) is below the smallest normal f32: the double",
        "CPU computes it, a device may flush it to 0. max/min is inf in f32 where the least weight is 0 there. Few rows have a large",
        "gradient where scores are not scaled, so norms and medians of 100 rows differ by half from seed to seed"};
    found.mistakes = {
        "the norm of dQ is taken as the sign of vanishing gradients: unscaled it is the larger one, by 100 times. What vanishes is the",
        "gradient of the typical row: see the median. max/min is no stability. Q has no requires_grad, so its backward fails."};
    found.picture =
        program::svgText({"At sqrt(d), most rows learn nothing and a few everything", "n 1000, d 512, L = sum(out), 1000 rows", {plot}});
    return found;
}

} // namespace vkattn::tool::lab
