#include "conform/cases/chosen/covering_array.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>

namespace vkattn::conform {
namespace {

// More candidates make few rows fewer; past some dozens nothing is gained.
constexpr int candidatesPerRow = 16;
// A set of terms in which two features with many values meet alone makes an array half as long
// again: the shortest of some is taken.
constexpr int arrays = 6;
constexpr uint32_t unset = UINT32_MAX;

class Cover {
  public:
    Cover(const CoveringModel &model, std::vector<uint32_t> termSets, Random &random)
        : model_(model), termSets_(std::move(termSets)), random_(random) {
        for (const std::vector<uint32_t> &values : model.terms) {
            first_.push_back(valueCount_);
            valueCount_ += values.size();
            owned_.push_back(std::accumulate(values.begin(), values.end(), 0u, std::bit_or<>()));
        }
        open_.assign(valueCount_ * valueCount_, false);
        forEachPair([&](Choice a, Choice b) {
            if (allowedPair(model_, a, b)) setOpen(a, b, true);
        });
        allowed_ = open_;
    }

    std::vector<CoveringRow> rows() {
        std::vector<CoveringRow> all;
        for (std::vector<std::pair<Choice, Choice>> left = openPairs(); !left.empty(); left = openPairs()) {
            const auto [a, b] = left[random_() % left.size()];
            std::vector<uint32_t> sets;
            for (const uint32_t set : termSets_)
                if (fits(a, set) && fits(b, set)) sets.push_back(set);
            CoveringRow best;
            size_t most = 0;
            for (int n = 0; n < candidatesPerRow && !sets.empty(); ++n)
                if (const auto row = candidate(a, b, sets[random_() % sets.size()]); row && newPairs(*row) > most)
                    best = *row, most = newPairs(best);
            // No set fits where each has a term that disagrees with a value of the pair: their own
            // terms then, which always do.
            if (best.empty()) best = *candidate(a, b, model_.terms[a.factor][a.value] | model_.terms[b.factor][b.value]);
            forEachPairOf(best, [&](Choice c, Choice d) { setOpen(c, d, false); });
            all.push_back(std::move(best));
        }
        return all;
    }

  private:
    template <class Visit> void forEachPair(const Visit &visit) const {
        for (size_t f = 0; f < model_.terms.size(); ++f)
            for (size_t g = f + 1; g < model_.terms.size(); ++g)
                for (uint32_t v = 0; v < model_.terms[f].size(); ++v)
                    for (uint32_t w = 0; w < model_.terms[g].size(); ++w) visit(Choice{f, v}, Choice{g, w});
    }
    template <class Visit> void forEachPairOf(const CoveringRow &row, const Visit &visit) const {
        for (size_t f = 0; f < row.size(); ++f)
            for (size_t g = f + 1; g < row.size(); ++g) visit(Choice{f, row[f]}, Choice{g, row[g]});
    }
    [[nodiscard]] size_t at(Choice a, Choice b) const { return (first_[a.factor] + a.value) * valueCount_ + first_[b.factor] + b.value; }
    void setOpen(Choice a, Choice b, bool open) { open_[at(a, b)] = open_[at(b, a)] = open; }
    [[nodiscard]] std::vector<std::pair<Choice, Choice>> openPairs() const {
        std::vector<std::pair<Choice, Choice>> pairs;
        forEachPair([&](Choice a, Choice b) {
            if (open_[at(a, b)]) pairs.emplace_back(a, b);
        });
        return pairs;
    }
    [[nodiscard]] size_t newPairs(const CoveringRow &row) const {
        size_t count = 0;
        forEachPairOf(row, [&](Choice a, Choice b) { count += open_[at(a, b)]; });
        return count;
    }
    [[nodiscard]] bool fits(Choice choice, uint32_t termSet) const {
        return model_.terms[choice.factor][choice.value] == (termSet & owned_[choice.factor]);
    }

    // A row with this pair and these terms; nothing where a factor has no value that fits. Factors
    // come in drawn order, those with terms first since a set of terms leaves them the least
    // choice; each takes the value that meets the most open pairs with what is there, and is off
    // where that meets as many as any other.
    [[nodiscard]] std::optional<CoveringRow> candidate(Choice a, Choice b, uint32_t termSet) {
        std::vector<size_t> order(model_.terms.size());
        std::iota(order.begin(), order.end(), size_t{0});
        std::shuffle(order.begin(), order.end(), random_);
        std::stable_partition(order.begin(), order.end(), [&](size_t factor) { return owned_[factor] != 0; });
        CoveringRow row(model_.terms.size(), unset);
        row[a.factor] = a.value, row[b.factor] = b.value;
        for (const size_t factor : order) {
            if (row[factor] != unset) continue;
            size_t most = 0;
            std::vector<uint32_t> best;
            for (uint32_t value = 0; value < model_.terms[factor].size(); ++value) {
                const Choice choice{factor, value};
                if (!fits(choice, termSet) || !agrees(choice, row)) continue;
                const size_t gain = gainOf(choice, row);
                if (best.empty() || gain > most) best.clear(), most = gain;
                if (gain == most) best.push_back(value);
            }
            if (best.empty()) return std::nullopt;
            row[factor] = best.front() == 0 ? 0 : best[random_() % best.size()];
        }
        return row;
    }
    [[nodiscard]] bool agrees(Choice choice, const CoveringRow &row) const {
        for (size_t other = 0; other < row.size(); ++other)
            if (row[other] != unset && !allowed_[at(choice, {other, row[other]})]) return false;
        return true;
    }
    [[nodiscard]] size_t gainOf(Choice choice, const CoveringRow &row) const {
        size_t gain = 0;
        for (size_t other = 0; other < row.size(); ++other)
            if (row[other] != unset) gain += open_[at(choice, {other, row[other]})];
        return gain;
    }

    const CoveringModel &model_;
    const std::vector<uint32_t> termSets_;
    Random &random_;
    std::vector<size_t> first_;
    std::vector<uint32_t> owned_;
    size_t valueCount_ = 0;
    std::vector<bool> open_, allowed_; // of each two values; open: no row has both yet
};

// Sets of terms in which each pair of terms occurs that two allowed values have, with both, one and
// neither of them.
std::vector<uint32_t> termSets(const CoveringModel &model, Random &random) {
    struct Term {
        uint32_t bit;
        std::vector<Choice> choices;
    };
    std::vector<Term> terms;
    for (uint32_t bit = 1; bit != 0; bit <<= 1) {
        Term term{bit, {}};
        for (size_t f = 0; f < model.terms.size(); ++f)
            for (uint32_t v = 0; v < model.terms[f].size(); ++v)
                if (model.terms[f][v] & bit) term.choices.push_back({f, v});
        if (!term.choices.empty()) terms.push_back(std::move(term));
    }
    CoveringModel presence;
    presence.terms.assign(terms.size(), {0, 0});
    presence.allowed = [&](Choice a, Choice b) {
        for (const Choice one : terms[a.factor].choices)
            for (const Choice other : terms[b.factor].choices)
                if (one.factor != other.factor && allowedPair(model, one, other)) return true;
        return false;
    };
    std::vector<uint32_t> sets;
    for (const CoveringRow &row : Cover(presence, {0}, random).rows()) {
        uint32_t set = 0;
        for (size_t n = 0; n < row.size(); ++n) set |= row[n] ? terms[n].bit : 0;
        sets.push_back(set);
    }
    if (terms.size() < 2) {
        sets = {0};
        if (terms.size() == 1) sets.push_back(terms[0].bit);
    }
    return sets;
}

} // namespace

bool allowedPair(const CoveringModel &model, Choice a, Choice b) {
    return a.value == 0 || b.value == 0 || model.allowed(a, b);
}

std::vector<CoveringRow> coveringArray(const CoveringModel &model, Random &random) {
    std::vector<CoveringRow> shortest;
    for (int n = 0; n < arrays; ++n) {
        std::vector<CoveringRow> rows = Cover(model, termSets(model, random), random).rows();
        if (n == 0 || rows.size() < shortest.size()) shortest = std::move(rows);
    }
    return shortest;
}

} // namespace vkattn::conform
