// Rows of a key head and tiles of its keys: scores, probabilities and dS_ij of their pairs, for one
// Highway target. Both passes of the backward pass stand on this.
//
// As in the forward pass (cpu/tiles-inl.hpp) a panel of rows fills two vectors, and each key is a
// broadcast. Pairs lie as [key][row].
#if defined(VKATTN_CPU_GRADIENT_PANELS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef VKATTN_CPU_GRADIENT_PANELS_INL_HPP
#undef VKATTN_CPU_GRADIENT_PANELS_INL_HPP
#else
#define VKATTN_CPU_GRADIENT_PANELS_INL_HPP
#endif

#include "cpu/gradient/work.hpp"
#include "problem/dropout.hpp"

#include "cpu/key_values-inl.hpp"
#include "cpu/pair_rules-inl.hpp"
#include "cpu/tiles-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace vkattn {
namespace HWY_NAMESPACE {

class GradientPanels {
  public:
    static constexpr uint32_t vectors = 2, panelRows = static_cast<uint32_t>(vectors * lanes);
    using Stat = GradientScratch::Stat;

    GradientPanels(const GradientCall &call, float *scratch)
        : call_(call), g_(call.g), p_(call.g.forward), at_(call.g, call.tiling, panelRows), scratch_(scratch) {}

  protected:
    // The keys that some row of a panel can reach, and the keys that all rows can reach.
    struct Reach {
        uint32_t begin, end, commonBegin, commonEnd;
    };

    [[nodiscard]] float *part(size_t at) const { return scratch_ + at; }
    [[nodiscard]] uint32_t panels() const { return (rows_ + panelRows - 1) / panelRows; }
    [[nodiscard]] uint32_t rowCount(uint32_t panel) const { return std::min(panelRows, rows_ - panel * panelRows); }
    [[nodiscard]] float *stat(uint32_t panel, Stat which) const {
        return part(at_.stats) + (size_t{panel} * GradientScratch::statsPerRow + which) * panelRows;
    }
    [[nodiscard]] float *query(uint32_t panel) const { return part(at_.query) + size_t{panel} * panelRows * p_.headDim; }
    [[nodiscard]] float *dOut(uint32_t panel) const { return part(at_.dOut) + size_t{panel} * panelRows * p_.valueDim; }
    // The pairs of the panel at hand: the first of the stacked panels, or the one that was selected.
    [[nodiscard]] float *weights() const { return part(at_.weights) + selected_; }
    [[nodiscard]] float *gradients() const { return part(at_.gradients) + selected_; }
    void selectStacked(uint32_t n) { selected_ = size_t{n} * call_.tiling.tileKeys * panelRows; }
    // Row r of the unit, as a row of the key head: query * group size + head of the group.
    [[nodiscard]] RowPlace placeOfRow(uint32_t r) const { return placeOf(p_, s_, kvHead_, firstRow_ + uint64_t{r} * rowStep_); }

    // Takes `rows` rows of a key head from `first` on, each `step` after the other.
    void takeRows(const Sequence &s, uint32_t b, uint32_t kvHead, uint64_t first, uint32_t step, uint32_t rows) {
        s_ = s;
        b_ = b;
        kvHead_ = kvHead;
        firstRow_ = first;
        rowStep_ = step;
        rows_ = rows;
        for (uint32_t panel = 0; panel < panels(); ++panel) {
            loadAcross(panel, p_.tensor(VKATTN_Q), VKATTN_Q, query(panel));
            loadAcross(panel, g_.tensor(VKATTN_D_OUT), VKATTN_D_OUT, dOut(panel));
            loadStats(panel);
        }
    }

    [[nodiscard]] StoredRows storedRow(const Tensor &t, vkattn_role role, const RowPlace &place) const {
        return storedRows(t, call_.operands().data[role], s_.batch, place.head, s_.query(place.query));
    }

    // Puts rows into lanes. Lanes without a row compute with zeros.
    void loadAcross(uint32_t panel, const Tensor &t, vkattn_role role, float *to) const {
        const uint32_t rows = rowCount(panel), dims = t.extent[3];
        constexpr uint32_t together = panelRows < 4 ? 1 : 4;
        for (uint32_t r = 0; r < panelRows; r += together) {
            const float *from[4];
            for (uint32_t n = 0; n < together; ++n) {
                float *copy = part(at_.row) + size_t{n} * dims;
                from[n] = copy;
                if (r + n >= rows) {
                    std::fill(copy, copy + dims, 0.0f);
                    continue;
                }
                const StoredRows row = storedRow(t, role, placeOfRow(panel * panelRows + r + n));
                if (areFloats(row))
                    from[n] = whereTheyLie(row).data;
                else
                    copyRows(row, 1, copy, dims);
            }
            if constexpr (together == 4)
                transposeFour(from, dims, to + r, panelRows);
            else
                for (uint32_t d = 0; d < dims; ++d) to[size_t{d} * panelRows + r] = from[0][d];
        }
    }

    // Reads what the forward pass has stored of the rows. dot(dOut_i, out_i) of a row that sees nothing
    // may be NaN: nothing is computed with it.
    void loadStats(uint32_t panel) {
        const Tensor &lse = p_.tensor(VKATTN_LSE), &out = p_.tensor(VKATTN_OUT), &dLse = g_.tensor(VKATTN_D_LSE);
        std::fill(stat(panel, Stat::maximum), stat(panel + 1, Stat::maximum), 0.0f);
        std::fill(stat(panel, Stat::ones), stat(panel, Stat::ones) + panelRows, 1.0f);
        for (uint32_t r = 0; r < rowCount(panel); ++r) {
            const RowPlace place = placeOfRow(panel * panelRows + r);
            const uint64_t token = s_.query(place.query);
            const unsigned char *statistics = call_.operands().data[VKATTN_LSE];
            const float maximum = loadElement(statistics, VKATTN_F32, lse.index(s_.batch, place.head, token, 0));
            const float sum = loadElement(statistics, VKATTN_F32, lse.index(s_.batch, place.head, token, 1));
            float *row = part(at_.row);
            copyRows(storedRow(out, VKATTN_OUT, place), 1, row, 0);
            double d = 0;
            const float *own = dOut(panel) + r;
            for (uint32_t e = 0; e < p_.valueDim; ++e) d += static_cast<double>(row[e]) * static_cast<double>(own[size_t{e} * panelRows]);
            stat(panel, Stat::maximum)[r] = maximum;
            stat(panel, Stat::inverseSum)[r] = 1 / sum;
            stat(panel, Stat::d)[r] = static_cast<float>(d);
            if (dLse.present())
                stat(panel, Stat::dLse)[r] =
                    loadElement(call_.operands().data[VKATTN_D_LSE], VKATTN_F32, dLse.index(s_.batch, place.head, token, 0));
            if (p_.has(VKATTN_SINKS)) {
                const float sink = call_.operands().sink(p_, place.head);
                stat(panel, Stat::sink)[r] = sink == minusInfinity ? 0.0f : std::exp(sink - maximum) / sum;
            }
        }
        setOffsets(panel);
    }
    void setOffsets(uint32_t panel) const {
        for (uint32_t r = 0; r < panelRows; ++r) stat(panel, Stat::offset)[r] = stat(panel, Stat::dLse)[r] - stat(panel, Stat::d)[r];
    }

    // Sets panel_ to the rows of the panel, and returns their reach.
    Reach place(uint32_t panel) {
        Reach reach = {s_.keys, 0, 0, s_.keys};
        for (uint32_t r = 0; r < panelRows; ++r) {
            if (r < rowCount(panel)) {
                panel_.places[r] = placeOfRow(panel * panelRows + r);
                reach.begin = std::min(reach.begin, panel_.places[r].begin);
                reach.end = std::max(reach.end, panel_.places[r].end);
                reach.commonBegin = std::max(reach.commonBegin, panel_.places[r].begin);
                reach.commonEnd = std::min(reach.commonEnd, panel_.places[r].end);
            }
            panel_.set(r, call_.forward, b_, panel_.places[std::min(r, rowCount(panel) - 1)]);
        }
        return reach;
    }

    // The keys of a tile, from `first` on.
    struct Tile {
        uint32_t first;
        TileRows keys, values;
    };
    [[nodiscard]] Tile loadTile(uint32_t begin, uint32_t end) const {
        return {begin, tileRows(rowsOf(call_.forward, VKATTN_K, s_, kvHead_, begin), end - begin, true, part(at_.keys)),
                tileRows(rowsOf(call_.forward, VKATTN_V, s_, kvHead_, begin), end - begin, true, part(at_.values))};
    }

    // The pairs of a panel with the keys [from, to), after place(panel): what is hidden, dropped and
    // given for them.
    struct PanelPairs {
        uint32_t panel, from, to;
        bool hides; // some pair may be hidden
    };
    // Returns false where all pairs are hidden.
    [[nodiscard]] bool lookUp(PanelPairs &pairs, const Reach &reach) {
        pairs.hides = pairs.from < reach.commonBegin || pairs.to > reach.commonEnd;
        if (lookUps_) {
            const Pairs found = lookUpPairs(call_.forward, s_, b_, panel_.places, rowCount(pairs.panel), pairs.from, pairs.to,
                                            part(at_.pairs), panelRows, p_.rules.showRuns());
            if (found == Pairs::noneVisible) return false;
            pairs.hides |= found == Pairs::someVisible;
        }
        if (drops_) draw(pairs);
        if (g_.tensor(VKATTN_D_WEIGHTS).present()) loadGiven(pairs);
        return true;
    }
    [[nodiscard]] HWY_INLINE const float *lookedUp(uint32_t j, uint32_t from, size_t v) const {
        return lookUps_ ? part(at_.pairs) + size_t{j - from} * panelRows + v * lanes : nullptr;
    }
    // Sets w_ij of each pair.
    void draw(const PanelPairs &pairs) const {
        const auto factor = static_cast<float>(dropoutFactor(p_.dropoutThreshold));
        for (uint32_t r = 0; r < rowCount(pairs.panel); ++r) {
            const RowPlace &own = panel_.places[r];
            const DropoutPlane plane{p_.dropoutSeed, p_.dropoutOffset, b_ * p_.heads + own.head};
            PhiloxCounter words{};
            for (uint32_t j = pairs.from; j < pairs.to; ++j) {
                if (j == pairs.from || j % 4 == 0) words = plane.words(own.query, j / 4);
                part(at_.kept)[size_t{j - pairs.from} * panelRows + r] = words.words[j % 4] >= p_.dropoutThreshold ? factor : 0.0f;
            }
        }
    }
    void loadGiven(const PanelPairs &pairs) const {
        const Tensor &t = g_.tensor(VKATTN_D_WEIGHTS);
        const unsigned char *data = call_.operands().data[VKATTN_D_WEIGHTS];
        for (uint32_t r = 0; r < rowCount(pairs.panel); ++r) {
            uint64_t at = t.index(b_, panel_.places[r].head, panel_.places[r].query, pairs.from);
            float *to = part(at_.given) + r;
            for (uint32_t j = pairs.from; j < pairs.to; ++j, at += static_cast<uint64_t>(t.stride[3]), to += panelRows)
                *to = loadElement(data, t.dtype, at);
        }
    }

    // One vector of pairs.
    struct LaneWeights {
        Vector dot, weight, given, slope, cap; // dot(q_i, k_j), P_ij, dWeights, 1 - tanh^2, the summand of dSoftcap over dS_ij
        Vector hookSlope;                      // what dS_ij is multiplied with for a program
        LaneMask shown, kept;
        Vector factor; // w_ij, times what a program makes of P_ij
    };

    // Computes P_ij and what depends on scores alone. Hidden pairs have a weight of 0.
    HWY_INLINE LaneWeights weigh(const PanelPairs &pairs, const LanePairs &rule, size_t v, uint32_t j) const {
        const Floats f;
        const size_t at = size_t{j - pairs.from} * panelRows + v * lanes;
        const auto one = hn::Set(f, 1.0f), zero = hn::Zero(f);
        LaneWeights w;
        w.dot = hn::Load(f, weights() + at);
        const auto z = hn::Mul(w.dot, hn::Set(f, p_.scale));
        w.slope = one;
        w.cap = zero;
        if (p_.softcap > 0) {
            const auto x = hn::Div(z, hn::Set(f, p_.softcap)), tanh = tanhOf(x);
            w.slope = hn::NegMulAdd(tanh, tanh, one);
            w.cap = hn::NegMulAdd(x, w.slope, tanh);
        }
        const auto score = rule.score(z, j, lookedUp(j, pairs.from, v));
        w.hookSlope = p_.program.scores() ? rule.slope(z, j, lookedUp(j, pairs.from, v)) : one;
        w.weight = hn::Mul(probability(pairs.panel, v, score), hn::Load(f, stat(pairs.panel, Stat::inverseSum) + v * lanes));
        w.shown = pairs.hides ? rule.visible(j, lookedUp(j, pairs.from, v)) : hn::Eq(one, one);
        w.weight = hn::IfThenElseZero(w.shown, w.weight);
        w.factor = drops_ ? hn::Load(f, part(at_.kept) + at) : one;
        w.kept = hn::Gt(w.factor, zero);
        w.given = zero;
        if (g_.tensor(VKATTN_D_WEIGHTS).present()) {
            w.given = hn::Load(f, part(at_.given) + at);
            if (p_.weightsDropped) w.given = hn::IfThenElseZero(w.kept, hn::Mul(w.given, w.factor));
            w.given = hn::IfThenElseZero(w.shown, w.given);
        }
        if (p_.program.weighs()) w.factor = hn::Mul(w.factor, rule.weighing(j));
        return w;
    }
    // Returns exp(score - m_i). The scores of the forward pass may have been rounded otherwise: no
    // probability is above 1 for that.
    HWY_INLINE Vector probability(uint32_t panel, size_t v, Vector score) const {
        const Floats f;
        const auto top = hn::Load(f, stat(panel, Stat::maximum) + v * lanes);
        const auto below = hn::Sub(score, hn::IfThenZeroElse(isMinusInfinity(top), top));
        const auto zero = hn::Zero(f);
        return exp2Of(hn::Mul(hn::IfThenElse(hn::Gt(below, zero), zero, below), hn::Set(f, log2e)));
    }
    // Returns dS_ij, the gradient of the score without a program, from dot(dOut_i, v_j).
    HWY_INLINE Vector scoreGradient(const PanelPairs &pairs, const LaneWeights &w, size_t v, Vector values) const {
        const Floats f;
        if (hasFactors_) values = hn::IfThenElseZero(w.kept, hn::Mul(values, w.factor));
        const auto difference = hn::Add(hn::Add(values, w.given), hn::Load(f, stat(pairs.panel, Stat::offset) + v * lanes));
        const auto gradient = hn::Mul(w.weight, difference);
        return hn::IfThenElseZero(w.shown, p_.program.scores() ? hn::Mul(gradient, w.hookSlope) : gradient);
    }

    void multiplyKeys(const Tile &tile, const PanelPairs &pairs) const {
        scoreTile<vectors>(tile.keys.from(pairs.from - tile.first), pairs.to - pairs.from, query(pairs.panel), p_.headDim, 1.0f, weights());
    }
    void multiplyValues(const Tile &tile, const PanelPairs &pairs) const {
        scoreTile<vectors>(tile.values.from(pairs.from - tile.first), pairs.to - pairs.from, dOut(pairs.panel), p_.valueDim, 1.0f,
                           gradients());
    }

    const GradientCall &call_;
    const Gradient &g_;
    const Problem &p_;
    const GradientScratch at_;
    float *scratch_;
    const bool lookUps_ = hasLookUps(p_), drops_ = p_.drops(), hasFactors_ = drops_ || p_.program.weighs();
    Sequence s_;
    uint32_t b_ = 0, kvHead_ = 0, rowStep_ = 1, rows_ = 0;
    uint64_t firstRow_ = 0;
    size_t selected_ = 0;
    PanelRows<vectors> panel_;
};

} // namespace HWY_NAMESPACE
} // namespace vkattn
HWY_AFTER_NAMESPACE();
#endif
