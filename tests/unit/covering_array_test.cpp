// Covering arrays of `vkattn conform --quick`: every allowed pair of values, no other, few rows and
// few things to compile.
#include "conform/cases/case_text.hpp"
#include "conform/cases/chosen/covering_cases.hpp"
#include "support/seed.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

using namespace vkattn::conform;

namespace {

// How many pairs of values of two factors are allowed and in no row, and how many are in a row and
// not allowed.
struct Pairs {
    size_t missing = 0, forbidden = 0, allowed = 0;
};
Pairs pairsOf(const CoveringModel &model, const std::vector<CoveringRow> &rows) {
    Pairs pairs;
    for (size_t f = 0; f < model.terms.size(); ++f)
        for (size_t g = f + 1; g < model.terms.size(); ++g)
            for (uint32_t v = 0; v < model.terms[f].size(); ++v)
                for (uint32_t w = 0; w < model.terms[g].size(); ++w) {
                    const bool allowed = allowedPair(model, {f, v}, {g, w});
                    const bool found =
                        std::any_of(rows.begin(), rows.end(), [&](const CoveringRow &row) { return row[f] == v && row[g] == w; });
                    pairs.allowed += allowed, pairs.missing += allowed && !found, pairs.forbidden += !allowed && found;
                }
    return pairs;
}

// No array has fewer rows than two of its factors have allowed pairs.
size_t leastRows(const CoveringModel &model) {
    size_t least = 0;
    for (size_t f = 0; f < model.terms.size(); ++f)
        for (size_t g = f + 1; g < model.terms.size(); ++g) {
            size_t allowed = 0;
            for (uint32_t v = 0; v < model.terms[f].size(); ++v)
                for (uint32_t w = 0; w < model.terms[g].size(); ++w) allowed += allowedPair(model, {f, v}, {g, w});
            least = std::max(least, allowed);
        }
    return least;
}

uint32_t termsOf(const CoveringModel &model, const CoveringRow &row) {
    uint32_t terms = 0;
    for (size_t f = 0; f < row.size(); ++f) terms |= model.terms[f][row[f]];
    return terms;
}

// Up to 20 factors of up to 6 values, some with terms; a few pairs are forbidden.
CoveringModel drawModel(Random &random) {
    CoveringModel model;
    uint32_t term = 1;
    std::set<std::vector<size_t>> forbidden;
    for (uint32_t f = between(random, 0, 20); f > 0; --f) {
        std::vector<uint32_t> values(between(random, 2, 6), 0);
        if (random() % 3 == 0 && term < 1u << 7) { // some or all of its values are compiled
            for (size_t v = random() % 2 ? 1 : values.size() - 1; v < values.size(); ++v) values[v] = term;
            term <<= 1;
        }
        model.terms.push_back(std::move(values));
    }
    for (size_t f = 0; f + 1 < model.terms.size(); ++f)
        if (random() % 4 == 0)
            forbidden.insert({f, 1 + random() % (model.terms[f].size() - 1), f + 1, 1 + random() % (model.terms[f + 1].size() - 1)});
    model.allowed = [forbidden](Choice a, Choice b) {
        if (a.factor > b.factor) std::swap(a, b);
        return !forbidden.contains({a.factor, a.value, b.factor, b.value});
    };
    return model;
}

std::vector<CoveringPalette> palettes() {
    std::vector<CoveringPalette> all(4);
    all[1].valueDim = 5;
    all[2].weights = true;
    all[3].terms = biasTerm;
    Random random = vkattn::test::randomFor("palettes");
    for (int n = 0; n < 8; ++n) all.push_back(drawPalette(random));
    return all;
}

} // namespace

TEST(CoveringArray, hasEveryAllowedPairAndNoOther) {
    Random random = vkattn::test::randomFor("models");
    for (int n = 0; n < 60; ++n) {
        const CoveringModel model = drawModel(random);
        const std::vector<CoveringRow> rows = coveringArray(model, random);
        const Pairs pairs = pairsOf(model, rows);
        EXPECT_EQ(pairs.missing, 0u) << "of " << pairs.allowed << " in " << rows.size() << " rows of " << model.terms.size() << " factors";
        EXPECT_EQ(pairs.forbidden, 0u);
        std::set<uint32_t> sets;
        for (const CoveringRow &row : rows) sets.insert(termsOf(model, row));
        EXPECT_LE(sets.size(), 16u);
    }
}

// Two factors alone have as many rows as pairs.
TEST(CoveringArray, ofTwoFactorsIsEveryPairOnce) {
    CoveringModel model{{{0, 0, 0}, {0, 0, 0, 0}}, [](Choice, Choice) { return true; }};
    Random random(1);
    EXPECT_EQ(coveringArray(model, random).size(), 12u);
    model.terms = {{0, 1, 1}, {0, 2, 2, 2}};
    EXPECT_EQ(coveringArray(model, random).size(), 12u);
    model.terms.clear();
    EXPECT_TRUE(coveringArray(model, random).empty());
}

TEST(CoveringCases, haveEveryAllowedPairOfVariants) {
    Random random = vkattn::test::randomFor("covering");
    const std::vector<CoveringPalette> all = palettes();
    size_t rows = 0;
    for (const CoveringPalette &palette : all) {
        const CoveringCases made = coveringCases(random, palette);
        const Pairs pairs = pairsOf(made.model, made.rows);
        EXPECT_EQ(pairs.missing, 0u) << "of " << pairs.allowed;
        EXPECT_EQ(pairs.forbidden, 0u);
        EXPECT_GT(pairs.allowed, 600u);
        EXPECT_LE(made.rows.size(), 4 * leastRows(made.model));
        rows += made.rows.size();
        std::set<std::string> signatures;
        ASSERT_EQ(made.rows.size(), made.cases.size());
        for (size_t n = 0; n < made.rows.size(); ++n) {
            const Case &c = made.cases[n];
            EXPECT_EQ(whyImpossible(c), "");
            signatures.insert(pipelineSignature(c));
            for (size_t f = 0; f < made.factors.size(); ++f) {
                const Feature &feature = *made.factors[f].feature;
                if (feature.isOn) {
                    EXPECT_EQ(feature.isOn(c), made.rows[n][f] != 0) << feature.name << " in " << caseText(c);
                }
            }
        }
        // An option that is no term shares a bit of signatures with all that are none.
        EXPECT_LE(signatures.size(), 24u);
    }
    // 12 arrays had 99 rows on average, where all options are possible.
    EXPECT_LE(rows, 115 * all.size());
}

// A feature that the table gains is in the arrays without another line, but for those that are the
// palette's.
TEST(CoveringCases, areOfEveryFeatureThatCasesDraw) {
    Random random(1);
    CoveringPalette palette;
    palette.weights = true, palette.valueDim = 5;
    const CoveringCases made = coveringCases(random, palette);
    size_t variants = 0, drawn = 0;
    for (const CoveringCases::Factor &factor : made.factors) variants += factor.variants.size();
    for (const Feature &feature : features()) drawn += feature.ofPalette ? 0 : feature.variants.size();
    EXPECT_EQ(variants, drawn);
}

TEST(CoveringCases, areTheSameForASeedAndHaveOtherCompanyWithAnother) {
    const auto texts = [](uint64_t seed) {
        Random random(seed);
        std::string all;
        for (const Case &c : coveringCases(random, {}).cases) all += caseText(c) + "\n";
        return all;
    };
    const uint64_t seed = vkattn::test::seed();
    EXPECT_EQ(texts(seed), texts(seed));
    EXPECT_NE(texts(seed), texts(seed + 1));
}
