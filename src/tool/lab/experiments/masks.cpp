#include "program/pictures/drawing.hpp"
#include "tool/lab/computation.hpp"
#include "tool/lab/experiment.hpp"
#include "tool/lab/formulas.hpp"

#include <functional>

namespace vkattn::tool::lab {
namespace {

constexpr uint32_t tokens = 10;

struct Mask {
    const char *name, *rule;
    std::function<bool(uint32_t row, uint32_t key)> shows; // as bits; none: the rule is vkattn's own
    vkattn_problem options{};
};

uint32_t apart(uint32_t i, uint32_t j) {
    return i > j ? i - j : j - i;
}

// Each pair is drawn once, row by row.
std::vector<bool> drawPairs(program::Random random, double share) {
    std::vector<bool> drawn(size_t{tokens} * tokens);
    for (size_t n = 0; n < drawn.size(); ++n) drawn[n] = random.below(1u << 24) < share * (1u << 24);
    return drawn;
}

std::vector<Mask> masksOf(const std::vector<bool> &random) {
    const auto drawn = [random](uint32_t i, uint32_t j) -> bool { return random[size_t{i} * tokens + j]; };
    std::vector<Mask> masks = {
        {"none", "every key", {}},
        {"causal", "j <= i", {}},
        {"band 3", "|i - j| <= 3", {}},
        {"causal band 3", "i - 3 <= j <= i", {}},
        {"dilated band", "|i - j| = 0, 2 or 4", [](uint32_t i, uint32_t j) { return apart(i, j) <= 4 && apart(i, j) % 2 == 0; }},
        {"blocks of 5", "i and j in one block", [](uint32_t i, uint32_t j) { return i / 5 == j / 5; }},
        {"random 30%", "each pair with p 0.3", drawn},
        {"random, diagonal", "those and j = i", [drawn](uint32_t i, uint32_t j) { return i == j || drawn(i, j); }},
    };
    masks[1].options.flags = VKATTN_CAUSAL;
    masks[2].options.flags = VKATTN_WINDOW, masks[2].options.windowLeft = 3, masks[2].options.windowRight = 3;
    masks[3].options.flags = VKATTN_WINDOW, masks[3].options.windowLeft = 3, masks[3].options.windowRight = 0;
    return masks;
}

std::vector<uint32_t> bitsOf(const Mask &mask) {
    if (!mask.shows) return {};
    std::vector<uint32_t> bits(tokens);
    for (uint32_t i = 0; i < tokens; ++i)
        for (uint32_t j = 0; j < tokens; ++j)
            if (mask.shows(i, j)) bits[i] |= 1u << j;
    return bits;
}

void draw(program::Drawing &drawing, size_t n, const Mask &mask, const Numbers &weights, const std::string &caption) {
    constexpr double cell = 17, side = cell * tokens, across = 206, down = 262;
    const double left = 30 + across * static_cast<double>(n % 4), top = 104 + down * static_cast<double>(n / 4);
    drawing.text(left, top - 12, "label", mask.name);
    for (uint32_t i = 0; i < tokens; ++i)
        for (uint32_t j = 0; j < tokens; ++j)
            drawing.rectangle(left + j * cell, top + i * cell, cell - 1, cell - 1, weights[size_t{i} * tokens + j] > 0 ? "seen" : "hidden");
    drawing.text(left, top + side + 20, "text", mask.rule);
    drawing.text(left, top + side + 39, "text", caption);
}

} // namespace

Findings masks(const Setting &setting) {
    Findings found{.sizes = "n 10; a key is visible where vkattn gives it a weight, with queries of zeros",
                   .table = Table({{"mask", "mask"},
                                   {"density", "density", "%.2f"},
                                   {"mean", "mean of a row", "%.1f"},
                                   {"least", "least", "%.0f"},
                                   {"largest", "largest", "%.0f"},
                                   {"empty_rows", "empty rows", "%.0f"},
                                   {"differing", "differ from the rule", "%.0f"}})};
    program::Drawing drawing(860, 604);
    drawing.text(30, 32, "title", "What a row sees");
    drawing.text(30, 56, "text", "10 queries downwards, 10 keys to the right; coloured: visible");
    size_t number = 0;
    for (const Mask &mask : masksOf(drawPairs(setting.random(), 0.3))) {
        Attention attention{.queries = tokens, .keys = tokens, .q = Numbers(tokens), .k = Numbers(tokens), .mask = bitsOf(mask)};
        attention.options = mask.options;
        const Numbers weights = weightsOf(setting.runtime, attention);
        const std::vector<unsigned char> rule = visiblePairs(attention);
        Row visible(tokens);
        double differing = 0;
        for (size_t n = 0; n < weights.size(); ++n) {
            const bool seen = weights[n] > 0;
            visible[n / tokens] += seen ? 1 : 0;
            differing += seen == (rule[n] != 0) ? 0 : 1;
        }
        const Spread rows = spreadOf(visible);
        const auto empty = static_cast<double>(std::count(visible.begin(), visible.end(), 0.0));
        found.table.add({mask.name, rows.mean / tokens, rows.mean, rows.least, rows.most, empty, differing});
        // Short: the next mask has its caption in the same line.
        std::string caption = "density " + program::decimals(rows.mean / tokens, 2) + ", rows of " + program::decimals(rows.least, 0);
        if (rows.most > rows.least) caption += "\u2013" + program::decimals(rows.most, 0);
        draw(drawing, number++, mask, weights, caption);
    }
    found.theory = {
        "causal shows (n + 1) / (2 n) of all pairs; a band of w on both sides (2 w + 1) - w (w + 1) / n keys of a row in the mean.",
        "Of random pairs with p 0.3 a row of 10 is empty with 0.7^10 = 2.8%: add the diagonal"};
    found.mistakes = {"hidden scores are set to -1e9: a row that sees nothing becomes the mean of all values; with -inf, as here, it is 0.",
                      "One mask keeps True, the remark beside it says that True hides: it shows the future and hides the past.",
                      "Random single pairs as \"sparse attention\" have no block structure, so they save no work, and were not seeded."};
    found.picture = drawing.finish();
    return found;
}

} // namespace vkattn::tool::lab
