#include "program/pictures/chart.hpp"
#include "tool/lab/computation.hpp"
#include "tool/lab/experiment.hpp"
#include "tool/lab/formulas.hpp"

namespace vkattn::tool::lab {

Findings causalEntropy(const Setting &setting) {
    constexpr double global = 0.8; // the notes' threshold
    Findings found{.sizes = "no random numbers: queries of zeros, so that each row is uniform over the keys that it sees",
                   .table = Table({{"n", "n", "%.0f"},
                                   {"share", "mean entropy / ln n", "%.4f"},
                                   {"share_double", "in double", "%.4f"},
                                   {"share_theory", "1 - 1/ln n", "%.4f"},
                                   {"global", "can be \"global\""},
                                   {"normalised", "mean of entropy / ln n_i", "%.4f"}})};
    program::Curve raw{.label = "mean entropy / ln n"}, normalised{.label = "entropy / ln n_i, of the keys that row i sees"};
    for (const uint32_t n : {4u, 8u, 16u, 32u, 64u, 128u, 130u, 131u, 132u, 256u, 512u}) {
        Attention attention{.queries = n, .keys = n, .q = Numbers(n), .k = Numbers(n)};
        attention.options.flags = VKATTN_CAUSAL;
        const Numbers weights = weightsOf(setting.runtime, attention);
        double mean = 0, exact = 0, share = 0;
        for (uint32_t row = 0; row < n; ++row) {
            const double entropy = entropyOf(weights.data() + size_t{row} * n, n);
            mean += entropy / n;
            exact += std::log(row + 1.0) / n;
            if (row > 0) share += entropy / std::log(row + 1.0) / (n - 1);
        }
        const double whole = std::log(n);
        found.table.add({double(n), mean / whole, exact / whole, 1 - 1 / whole, exact / whole > global ? "yes" : "no", share});
        raw.points.emplace_back(n, mean / whole), normalised.points.emplace_back(n, share);
    }
    found.theory = {
        "row i of a uniform causal head has the entropy ln i, and the mean is ln(n!) / n, near ln n - 1. Divided by the ln of the",
        "keys that the row sees, it is 1 in each row"};
    found.mistakes = {
        "a head counts as \"global\" where its mean entropy is above 0.8 ln n, whatever the mask hides: below n = 131 no causal",
        "head can be, the uniform one reaches 0.64 at n 8 and 0.77 at n 64. Locality at distance 1 is halved likewise."};
    program::Plot plot{.x = {.label = "tokens n", .scale = program::AxisScale::octaves, .text = program::binaryText},
                       .y = {.label = "share of the largest entropy, of a uniform causal head", .least = 0, .most = 1},
                       .curves = {raw, normalised},
                       .guides = {{global, "\"global\" above 0.8"}}};
    found.picture = program::svgText({"The most that a causal head's entropy can be", "weights uniform over the visible keys", {plot}});
    return found;
}

} // namespace vkattn::tool::lab
