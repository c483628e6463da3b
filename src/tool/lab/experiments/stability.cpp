#include "program/pictures/chart.hpp"
#include "tool/lab/computation.hpp"
#include "tool/lab/experiment.hpp"
#include "tool/lab/formulas.hpp"

namespace vkattn::tool::lab {
namespace {

constexpr uint32_t tokens = 8, draws = 200, pairs = tokens * tokens;

// Means over the draws of what each matrix of weights has.
struct Figures {
    double most = 0, least = 0, mean = 0, deviation = 0, entropy = 0, notFinite = 0; // the last: a count
};

template <class Number> Figures figuresOf(const std::vector<Number> &weights) {
    Figures figures;
    for (auto matrix = weights.begin(); matrix != weights.end(); matrix += pairs) {
        const Spread spread = spreadOf(matrix, matrix + pairs);
        figures.most += spread.most / draws, figures.least += spread.least / draws;
        figures.mean += spread.mean / draws, figures.deviation += spread.deviation / draws;
        for (uint32_t row = 0; row < tokens; ++row) figures.entropy += entropyOf(&*matrix + row * tokens, tokens) / (draws * tokens);
    }
    for (const Number each : weights) figures.notFinite += std::isfinite(each) ? 0 : 1;
    return figures;
}

} // namespace

Findings stability(const Setting &setting) {
    Findings found{.sizes = "8 queries and 8 keys from N(0, 1), 200 draws; means over the draws of each matrix's figures",
                   .table = Table({{"d", "d", "%.0f"},
                                   {"max", "max weight", "%.3f"},
                                   {"min", "least", "%.5f"},
                                   {"mean", "mean", "%.6f"},
                                   {"std", "std", "%.4f"},
                                   {"entropy", "entropy", "%.3f"},
                                   {"entropy_double", "in double", "%.3f"},
                                   {"not_finite", "NaN, inf", "%.0f"},
                                   {"unscaled_max", "unscaled: max", "%.3f"},
                                   {"unscaled_entropy", "entropy", "%.3f"}})};
    program::Curve scaled{.label = "scaled by 1/sqrt(d)"}, unscaled{.label = "unscaled"};
    for (uint32_t dim = 16; dim <= 2048; dim *= 2) {
        program::Random random = setting.random(dim);
        Attention attention{.batch = draws, .queries = tokens, .keys = tokens, .dim = dim, .scale = 1 / std::sqrt(static_cast<float>(dim))};
        attention.q = normals(random, size_t{draws} * tokens * dim), attention.k = normals(random, attention.q.size());
        const Figures figures = figuresOf(weightsOf(setting.runtime, attention));
        Row exact;
        for (size_t first = 0; first < attention.q.size(); first += size_t{tokens} * dim) {
            const Row dots = dotsOf(attention.q.data() + first, tokens, attention.k.data() + first, tokens, dim);
            for (size_t row = 0; row < pairs; row += tokens)
                for (const double each : softmaxOf(dots.data() + row, tokens, 1 / std::sqrt(dim))) exact.push_back(each);
        }
        attention.scale = 1;
        const Figures raw = figuresOf(weightsOf(setting.runtime, attention));
        found.table.add({double(dim), figures.most, figures.least, figures.mean, figures.deviation, figures.entropy,
                         figuresOf(exact).entropy, figures.notFinite + raw.notFinite, raw.most, raw.entropy});
        scaled.points.emplace_back(dim, figures.entropy), unscaled.points.emplace_back(dim, raw.entropy);
    }
    found.theory = {
        "a row of n weights has the mean 1/n exactly; scaled scores are N(0, 1) at every d, so nothing else depends on d either.",
        "The entropy of many keys is near ln n - 1/2; of 8 it is nearer to ln 8 = 2.08. Unscaled it falls to 0: saturation"};
    found.mistakes = {"max / min of the weights is called numerical stability: nothing is unstable in either case, and no weight is NaN."};
    program::Plot plot{.x = {.label = "head dim d", .scale = program::AxisScale::octaves, .text = program::binaryText},
                       .y = {.label = "mean entropy of a row, in nats", .least = 0},
                       .curves = {scaled, unscaled},
                       .guides = {{std::log(tokens), "uniform: ln 8 = 2.08"}}};
    found.picture =
        program::svgText({"Scaled weights are the same at every head dim", "8 queries and 8 keys from N(0, 1), 200 draws", {plot}});
    return found;
}

} // namespace vkattn::tool::lab
