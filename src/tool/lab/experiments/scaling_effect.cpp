#include "program/pictures/chart.hpp"
#include "tool/lab/computation.hpp"
#include "tool/lab/experiment.hpp"
#include "tool/lab/formulas.hpp"

namespace vkattn::tool::lab {

Findings scalingEffect(const Setting &setting) {
    constexpr uint32_t tokens = 256;
    Findings found{.sizes = "256 queries and 256 keys from N(0, 1)",
                   .table = Table({{"d", "d", "%.0f"},
                                   {"mean", "mean", "%.3f"},
                                   {"std", "std", "%.2f"},
                                   {"std_double", "in double", "%.2f"},
                                   {"std_theory", "sqrt(d)", "%.2f"},
                                   {"max", "max", "%.1f"},
                                   {"scaled_mean", "scaled: mean", "%.4f"},
                                   {"scaled_std", "std", "%.3f"},
                                   {"scaled_std_double", "in double", "%.3f"},
                                   {"scaled_max", "max", "%.2f"}})};
    program::Curve raw{.label = "q.k"}, scaled{.label = "q.k / sqrt(d)"}, theory{.label = "sqrt(d)", .dashed = true, .marks = false};
    for (double dim = 45; dim < 3000; dim *= 1.1) theory.points.emplace_back(dim, std::sqrt(dim));
    for (const uint32_t dim : {64u, 512u, 2048u}) {
        program::Random random = setting.random(dim);
        Attention attention{.queries = tokens, .keys = tokens, .dim = dim, .scale = 1 / std::sqrt(static_cast<float>(dim))};
        attention.q = normals(random, size_t{tokens} * dim), attention.k = normals(random, size_t{tokens} * dim);
        const Spread a = spreadOf(scoresOf(setting.runtime, attention, VKATTN_SCORES_RAW)),
                     b = spreadOf(scoresOf(setting.runtime, attention, VKATTN_SCORES_SCALED)),
                     exact = spreadOf(dotsOf(attention.q.data(), tokens, attention.k.data(), tokens, dim));
        const double root = std::sqrt(dim);
        found.table.add(
            {double(dim), a.mean, a.deviation, exact.deviation, root, a.most, b.mean, b.deviation, exact.deviation / root, b.most});
        raw.points.emplace_back(dim, a.deviation), scaled.points.emplace_back(dim, b.deviation);
    }
    found.theory = {
        "q.k is a sum of d products of variance 1: mean 0, variance d. The largest of N scores lies near sqrt(2 ln N) deviations,",
        "here at most 4.7; scaled by 1/sqrt(d) the variance is 1 at every d"};
    found.mistakes = {
        "\"scores lie in [-d_k, d_k], about [-22, 22]\": 22.6 = sqrt(512) is the standard deviation, and scores reach 4 times that.",
        "\"scaled to [-1, 1]\": scaled to variance 1. \"softmax(22) = 0.999999\": of two scores 22 and -22 it is 1 - 7.8e-20."};
    program::Plot plot{.x = {.label = "head dim d", .scale = program::AxisScale::octaves, .text = program::binaryText},
                       .y = {.label = "standard deviation of the scores", .scale = program::AxisScale::decades},
                       .curves = {theory, raw, scaled}};
    found.picture = program::svgText({"Scores grow as the square root of the head dim", "256 queries and 256 keys from N(0, 1)", {plot}});
    return found;
}

} // namespace vkattn::tool::lab
