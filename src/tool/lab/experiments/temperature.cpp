#include "program/pictures/chart.hpp"
#include "tool/lab/computation.hpp"
#include "tool/lab/experiment.hpp"
#include "tool/lab/formulas.hpp"

namespace vkattn::tool::lab {

Findings temperature(const Setting &setting) {
    constexpr uint32_t keys = 64, rows = 1000;
    // With the unit vectors as keys, the scores of a row are the row.
    program::Random random = setting.random();
    Attention attention{.queries = rows, .keys = keys, .dim = keys, .k = Numbers(size_t{keys} * keys)};
    attention.q = normals(random, size_t{rows} * keys);
    for (size_t n = 0; n < keys; ++n) attention.k[n * keys + n] = 1;
    Findings found{.sizes = "64 scores from N(0, 1), divided by T; means over 1000 rows",
                   .table = Table({{"temperature", "T", "%.4g"},
                                   {"entropy", "entropy", "%.3f"},
                                   {"entropy_double", "in double", "%.3f"},
                                   {"entropy_theory", "theory", "%.3f"},
                                   {"max", "largest p", "%.4f"},
                                   {"max_double", "in double", "%.4f"}})};
    program::Curve entropies{.label = "entropy, in nats"}, theory{.label = "ln n - 1/(2 T^2)", .dashed = true, .marks = false},
        largest{.label = ""};
    const double whole = std::log(keys);
    for (const double t : {0.1, 0.2, 0.5, 1.0, 2.0, 5.0}) {
        attention.scale = static_cast<float>(1 / t);
        const Numbers weights = weightsOf(setting.runtime, attention);
        double entropy = 0, most = 0, exactEntropy = 0, exactMost = 0;
        for (size_t row = 0; row < rows; ++row) {
            const float *const p = weights.data() + row * keys;
            const Row scores(attention.q.begin() + static_cast<ptrdiff_t>(row * keys),
                             attention.q.begin() + static_cast<ptrdiff_t>((row + 1) * keys));
            const Row exact = softmaxOf(scores.data(), keys, 1 / t);
            entropy += entropyOf(p, keys) / rows, exactEntropy += entropyOf(exact.data(), keys) / rows;
            most += static_cast<double>(*std::max_element(p, p + keys)) / rows;
            exactMost += *std::max_element(exact.begin(), exact.end()) / rows;
        }
        const bool saturated = 1 / (t * t) >= 2 * whole;
        const double expected = whole - 1 / (2 * t * t);
        found.table.add({t, entropy, exactEntropy, saturated ? Table::Cell("saturated") : Table::Cell(expected), most, exactMost});
        entropies.points.emplace_back(t, entropy), largest.points.emplace_back(t, most);
    }
    for (double t = 0.35; t <= 5.01; t *= 1.05) theory.points.emplace_back(t, whole - 1 / (2 * t * t));
    found.theory = {
        "of N(0, s^2) scores the entropy is near ln n - s^2 / 2 while s^2 < 2 ln n, and a few nats at most above: there one key has",
        "most of the weight (random energy model, Derrida 1981). With n 64 and s = 1/T that is T < 0.35"};
    found.mistakes = {"ln(p + 1e-8) stands for ln p: 0 ln 0 is 0 and needs no such term, which shifts uniform rows of 10^6 keys by 0.07%."};
    const program::Axis x{.label = "temperature T", .scale = program::AxisScale::decades};
    found.picture =
        program::svgText({"Temperature: from one key to all of them",
                          "64 scores from N(0, 1), means over 1000 rows",
                          {{.x = x,
                            .y = {.label = "entropy, in nats", .least = 0},
                            .curves = {entropies, theory},
                            .guides = {{whole, "uniform: ln 64 = 4.16"}},
                            .height = 240},
                           {.x = x, .y = {.label = "largest probability", .least = 0, .most = 1}, .curves = {largest}, .height = 180}}});
    return found;
}

} // namespace vkattn::tool::lab
