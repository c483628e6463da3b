#include "conform/cases/chosen/covering_cases.hpp"

#include "conform/cases/base_case.hpp"
#include "conform/cases/case_text.hpp"

namespace vkattn::conform {
namespace {

constexpr uint32_t compiledTerms = pairTerms | dimMajorTerm;

void setPalette(Case &c, const CoveringPalette &palette) {
    c.q = palette.q, c.k = palette.k, c.v = palette.v, c.out = palette.out;
    c.headDim = palette.headDim, c.valueDim = palette.valueDim;
}

bool hasPalette(const Case &c, const CoveringPalette &p) {
    return c.q == p.q && c.k == p.k && c.v == p.v && c.out == p.out && c.headDim == p.headDim && c.valueDim == p.valueDim;
}

// Whether a case may have all of these: nothing that one asks for is taken back by another, or by
// what the case maker makes agree. Features in the order of the table, as cases are made.
struct Asked {
    const Feature *feature;
    const Variant *variant;
};
bool possible(std::initializer_list<Asked> all, const CoveringPalette &palette) {
    Random random(0); // what is drawn within a variant makes no difference
    Case c;
    for (const Asked &asked : all) asked.variant->draw(c, random);
    setPalette(c, palette);
    makeAgree(c);
    if (!hasPalette(c, palette) || !whyImpossible(c).empty()) return false;
    for (const Asked &asked : all)
        if (asked.feature->isOn && !asked.feature->isOn(c)) return false;
    return true;
}

uint32_t termsOf(const Variant &variant) {
    Random random(0);
    Case c;
    variant.draw(c, random);
    return pipelineTerms(c) & compiledTerms;
}

} // namespace

CoveringPalette drawPalette(Random &random) {
    constexpr vkattn_dtype f32 = VKATTN_F32, f16 = VKATTN_F16, bf16 = VKATTN_BF16, q8 = VKATTN_Q8_0, f8 = VKATTN_FP8_E4M3;
    constexpr vkattn_dtype types[][4] = {{f16, f16, f16, f16},        {bf16, bf16, bf16, bf16}, {f32, f16, f16, f32},
                                         {f32, bf16, bf16, f32},      {f16, f32, f32, f16},     {f32, f16, bf16, f32},
                                         {f32, q8, VKATTN_Q4_0, f32}, {f16, q8, f8, f16}};
    constexpr uint32_t dims[][2] = {{8, 8}, {5, 7}, {16, 16}, {7, 3}};
    const auto &[q, k, v, out] = types[random() % std::size(types)];
    const auto &[headDim, valueDim] = dims[random() % std::size(dims)];
    CoveringPalette palette;
    palette.q = q, palette.k = k, palette.v = v, palette.out = out, palette.headDim = headDim, palette.valueDim = valueDim;
    return palette;
}

CoveringCases coveringCases(Random &random, const CoveringPalette &palette) {
    CoveringCases made;
    for (const Feature &feature : features()) {
        if (feature.variants.empty() || feature.ofPalette) continue;
        CoveringCases::Factor factor{&feature, {}};
        std::vector<uint32_t> terms = {0};
        for (const Variant &variant : feature.variants) {
            Case c;
            variant.draw(c, random);
            const bool compiled = (termsOf(variant) & ~palette.terms) == 0;
            if ((c.writesPairs() && !palette.weights) || !compiled || !possible({{&feature, &variant}}, palette)) continue;
            factor.variants.push_back(&variant);
            terms.push_back(termsOf(variant));
        }
        if (factor.variants.empty()) continue;
        made.factors.push_back(std::move(factor));
        made.model.terms.push_back(std::move(terms));
    }
    made.model.allowed = [factors = made.factors, palette](Choice a, Choice b) {
        if (a.factor > b.factor) std::swap(a, b);
        const auto asked = [&](Choice choice) {
            const CoveringCases::Factor &factor = factors[choice.factor];
            return Asked{factor.feature, factor.variants[choice.value - 1]};
        };
        return possible({asked(a), asked(b)}, palette);
    };
    made.rows = coveringArray(made.model, random);
    for (const CoveringRow &row : made.rows) {
        Case c = baseCase(random, "covering" + std::to_string(made.cases.size()));
        for (size_t n = 0; n < row.size(); ++n)
            if (row[n]) made.factors[n].variants[row[n] - 1]->draw(c, random);
        setPalette(c, palette);
        makeAgree(c);
        made.cases.push_back(std::move(c));
    }
    return made;
}

} // namespace vkattn::conform
