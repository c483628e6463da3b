// The first pass: dQ of a chunk of rows, and what the chunk adds to dK, dV and the sums over pairs, for
// one Highway target.
#if defined(VKATTN_CPU_GRADIENT_ROWS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef VKATTN_CPU_GRADIENT_ROWS_INL_HPP
#undef VKATTN_CPU_GRADIENT_ROWS_INL_HPP
#else
#define VKATTN_CPU_GRADIENT_ROWS_INL_HPP
#endif

#include "cpu/gradient/work.hpp"

#include "cpu/gradient/panels-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace vkattn {
namespace HWY_NAMESPACE {

// The pairs of successive panels with the same keys, [panel][key][row], and the operand rows of these
// panels, dims in lanes.
struct StackedPairs {
    const float *pairs;
    size_t panelStride; // floats from one panel's pairs to the next panel's
    const float *rows;
    size_t rowCount;
};

// Adds to sums[key][dim] += sum_row pairs[key][row] rows[row][dim] for `count` keys and one or two
// vectors of dims. The sums are loaded and stored once for all panels: one panel's rows are too few
// for that.
template <size_t count, size_t width>
HWY_INLINE void addOuterBlock(StackedPairs from, size_t panelRows, size_t stride, float *HWY_RESTRICT sums) {
    const Floats f;
    Vector sum[count][width];
    VKATTN_UNROLL for (size_t n = 0; n < count; ++n) {
        VKATTN_UNROLL for (size_t v = 0; v < width; ++v) sum[n][v] = hn::Load(f, sums + n * stride + v * lanes);
    }
    const float *HWY_RESTRICT rows = from.rows;
    for (size_t left = from.rowCount; left; from.pairs += from.panelStride) {
        const float *HWY_RESTRICT pairs = from.pairs;
        const size_t own = std::min(panelRows, left);
        HWY_UNROLL(4) for (size_t r = 0; r < own; ++r, rows += stride) {
            Vector row[width];
            VKATTN_UNROLL for (size_t v = 0; v < width; ++v) row[v] = hn::Load(f, rows + v * lanes);
            VKATTN_UNROLL for (size_t n = 0; n < count; ++n) {
                const auto pair = hn::Set(f, pairs[n * panelRows + r]);
                VKATTN_UNROLL for (size_t v = 0; v < width; ++v) sum[n][v] = hn::MulAdd(pair, row[v], sum[n][v]);
            }
        }
        left -= own;
    }
    VKATTN_UNROLL for (size_t n = 0; n < count; ++n) {
        VKATTN_UNROLL for (size_t v = 0; v < width; ++v) hn::Store(sum[n][v], f, sums + n * stride + v * lanes);
    }
}
// The same for all keys and `stride` dims.
inline HWY_NOINLINE void addOuter(StackedPairs from, size_t keys, size_t panelRows, size_t stride, float *sums) {
    const auto blockAt = [&](size_t key, size_t dim) {
        return StackedPairs{from.pairs + key * panelRows, from.panelStride, from.rows + dim, from.rowCount};
    };
    size_t d = 0;
    for (; d + 2 * lanes <= stride; d += 2 * lanes)
        forBlocks<blockSize<2>>(keys, [&]<size_t n>(size_t done)
                                          HWY_ATTR { addOuterBlock<n, 2>(blockAt(done, d), panelRows, stride, sums + done * stride + d); });
    for (; d < stride; d += lanes)
        forBlocks<blockSize<1>>(keys, [&]<size_t n>(size_t done)
                                          HWY_ATTR { addOuterBlock<n, 1>(blockAt(done, d), panelRows, stride, sums + done * stride + d); });
}

class GradientOfRows : GradientPanels {
  public:
    GradientOfRows(const GradientCall &call, uint32_t b, uint32_t kvHead, uint32_t chunk, float *scratch)
        : GradientPanels(call, scratch), sequence_(call.sequences[b]), head_(uint64_t{b} * p_.kvHeads + kvHead), chunk_(chunk) {
        const uint64_t all = uint64_t{sequence_.s.queries} * p_.groupSize();
        // Later rows go first: under a causal mask they have most to do.
        const uint64_t first = uint64_t{sequence_.chunks - 1 - chunk} * call.tiling.chunkRows;
        takeRows(sequence_.s, b, kvHead, first, 1,
                 static_cast<uint32_t>(std::min<uint64_t>(call.tiling.chunkRows, all - std::min(all, first))));
    }

    void compute() {
        prepareRows();
        if (g_.tensor(VKATTN_D_WEIGHTS).present()) addGivenToD();
        storeD();
        if (call_.wantsKeys() && chunk_ == 0) takeSlot();
        uint32_t begin = s_.keys, end = 0;
        for (uint32_t panel = 0; panel < panels(); ++panel) {
            const Reach reach = place(panel);
            begin = std::min(begin, reach.begin);
            end = std::max(end, reach.end);
        }
        const uint32_t tileKeys = call_.tiling.tileKeys;
        const bool computes = call_.wantsKeys() || call_.wants(VKATTN_D_Q) || call_.wantsSums();
        for (uint32_t n = 0; n < sequence_.tiles; ++n) {
            const uint32_t first = n * tileKeys, last = std::min(first + tileKeys, s_.keys);
            turn_ = call_.wantsKeys() ? &call_.turns[sequence_.turnsBefore + uint64_t{kvHead_} * sequence_.tiles + n] : nullptr;
            if (computes && begin < last && first < end) computeTile(first, last);
            if (turn_) finishTile(first, last);
        }
        if (call_.wantsKeys() && chunk_ + 1 == sequence_.chunks) finishHead();
        if (call_.wants(VKATTN_D_Q)) storeRows();
        if (call_.wantsSums()) storeSums();
    }

  private:
    [[nodiscard]] float *dQ(uint32_t panel) const { return part(at_.dQ) + size_t{panel} * panelRows * p_.headDim; }
    // The sums of a key and the keys after it.
    [[nodiscard]] float *accumulator(vkattn_role role, uint32_t key) const {
        float *const slot = call_.accumulators + head_ % call_.slots * call_.slotFloats;
        const size_t k = wholeLines(p_.headDim), v = wholeLines(p_.valueDim);
        return role == VKATTN_D_K ? slot + key * k : slot + size_t{p_.keyTokens} * k + key * v;
    }

    // Rows with dims in lanes, for dK and dV. 0 * NaN is NaN, so a row with an element that is not
    // finite must not be multiplied with the 0 of a pair that it does not see: zeros stand for such a
    // row, and addSpecial() adds the row.
    void prepareRows() {
        specials_ = 0;
        std::fill(part(at_.dQ), part(at_.dQ) + size_t{panels()} * panelRows * p_.headDim, 0.0f);
        if (!call_.wantsKeys()) return;
        const size_t k = wholeLines(p_.headDim), v = wholeLines(p_.valueDim);
        for (uint32_t r = 0; r < rows_; ++r) {
            const RowPlace own = placeOfRow(r);
            float *const q = part(at_.queryRows) + r * k, *const dOut = part(at_.dOutRows) + r * v;
            copyRows(storedRow(p_.tensor(VKATTN_Q), VKATTN_Q, own), 1, q, 0);
            copyRows(storedRow(g_.tensor(VKATTN_D_OUT), VKATTN_D_OUT, own), 1, dOut, 0);
            std::fill(q + p_.headDim, q + k, 0.0f);
            std::fill(dOut + p_.valueDim, dOut + v, 0.0f);
            if (isFinite(q, k) && isFinite(dOut, v)) continue;
            std::fill(q, q + k, 0.0f);
            std::fill(dOut, dOut + v, 0.0f);
            reinterpret_cast<uint32_t *>(part(at_.special))[specials_++] = r;
        }
    }

    // Adds sum_j P_ij dWeights_ij to D_i.
    void addGivenToD() {
        const Floats f;
        for (uint32_t panel = 0; panel < panels(); ++panel) {
            const Reach reach = place(panel);
            Vector sums[vectors];
            for (size_t v = 0; v < vectors; ++v) sums[v] = hn::Zero(f);
            for (uint32_t from = reach.begin; from < reach.end; from += call_.tiling.tileKeys) {
                PanelPairs pairs{panel, from, std::min(from + call_.tiling.tileKeys, reach.end), false};
                if (!lookUp(pairs, reach)) continue;
                multiplyKeys(loadTile(pairs.from, pairs.to), pairs);
                for (size_t v = 0; v < vectors; ++v) {
                    const LanePairs rule(p_, panel_, v);
                    auto ofTile = hn::Zero(f);
                    for (uint32_t j = pairs.from; j < pairs.to; ++j) {
                        const LaneWeights w = weigh(pairs, rule, v, j);
                        ofTile = hn::Add(ofTile, hn::IfThenElseZero(w.shown, hn::Mul(w.weight, w.given)));
                    }
                    sums[v] = hn::Add(sums[v], ofTile);
                }
            }
            for (size_t v = 0; v < vectors; ++v) {
                float *const d = stat(panel, Stat::d) + v * lanes;
                hn::Store(hn::Add(hn::Load(f, d), sums[v]), f, d);
            }
            setOffsets(panel);
        }
    }
    void storeD() const {
        for (uint32_t r = 0; call_.rowD && r < rows_; ++r) {
            const RowPlace own = placeOfRow(r);
            call_.rowD[sequence_.rowsBefore + uint64_t{own.head} * s_.queries + own.query] = stat(r / panelRows, Stat::d)[r % panelRows];
        }
    }

    void computeTile(uint32_t first, uint32_t last) {
        bool loaded = false;
        Tile tile{};
        FiniteValues finite;
        stacked_ = 0;
        for (uint32_t panel = 0; panel < panels(); ++panel) {
            const Reach reach = place(panel);
            PanelPairs pairs{panel, std::max(first, reach.begin), std::min(last, reach.end), false};
            if (pairs.from >= pairs.to || !lookUp(pairs, reach)) continue;
            if (!loaded) tile = loadTile(first, last);
            loaded = true;
            if (stacked_ && (stacked_ == GradientScratch::stackedPanels || panel != stack_.panel + stacked_ || pairs.from != stack_.from ||
                             pairs.to != stack_.to))
                addStackToKeys();
            selectStacked(stacked_);
            multiplyKeys(tile, pairs);
            multiplyValues(tile, pairs);
            computePairs(pairs);
            if (call_.wants(VKATTN_D_Q)) addToRows(tile, pairs, finite, last - first);
            if (!turn_) continue;
            if (stacked_++ == 0) stack_ = pairs;
            if (specials_) { // while the panel is placed
                addStackToKeys();
                addSpecials(pairs);
            }
        }
        if (stacked_) addStackToKeys();
    }

    // Turns the products in `weights` and `gradients` into w_ij P_ij and dz_ij.
    void computePairs(const PanelPairs &pairs) const {
        const Floats f;
        const bool plain = isPlain(p_) && !pairs.hides && !drops_ && !g_.tensor(VKATTN_D_WEIGHTS).present() && !call_.wantsSums();
        const bool slopes = call_.wants(VKATTN_D_SLOPES), scale = call_.wants(VKATTN_D_SCALE), cap = call_.wants(VKATTN_D_SOFTCAP);
        for (size_t v = 0; v < vectors; ++v) {
            float *weight = weights() + v * lanes, *gradient = gradients() + v * lanes;
            if (plain) {
                const auto factor = hn::Set(f, p_.scale), inverse = hn::Load(f, stat(pairs.panel, Stat::inverseSum) + v * lanes),
                           offset = hn::Load(f, stat(pairs.panel, Stat::offset) + v * lanes);
                for (uint32_t j = pairs.from; j < pairs.to; ++j, weight += panelRows, gradient += panelRows) {
                    const auto own = hn::Mul(probability(pairs.panel, v, hn::Mul(hn::Load(f, weight), factor)), inverse);
                    hn::Store(own, f, weight);
                    hn::Store(hn::Mul(own, hn::Add(hn::Load(f, gradient), offset)), f, gradient);
                }
                hn::Store(hn::Set(f, 1.0f), f, stat(pairs.panel, Stat::seen) + v * lanes);
                continue;
            }
            const LanePairs rule(p_, panel_, v);
            auto seen = hn::Load(f, stat(pairs.panel, Stat::seen) + v * lanes);
            auto ofSlopes = hn::Zero(f), ofScale = hn::Zero(f), ofSoftcap = hn::Zero(f);
            for (uint32_t j = pairs.from; j < pairs.to; ++j, weight += panelRows, gradient += panelRows) {
                const LaneWeights w = weigh(pairs, rule, v, j);
                const auto dScore = scoreGradient(pairs, w, v, hn::Load(f, gradient));
                const auto dPlain = hn::IfThenElseZero(w.shown, hn::Mul(dScore, w.slope));
                seen = hn::IfThenElse(w.shown, hn::Set(f, 1.0f), seen);
                if (slopes) ofSlopes = hn::NegMulAdd(rule.distance(j), dScore, ofSlopes);
                if (scale) ofScale = hn::Add(ofScale, hn::IfThenElseZero(w.shown, hn::Mul(dPlain, w.dot)));
                if (cap) ofSoftcap = hn::Add(ofSoftcap, hn::IfThenElseZero(w.shown, hn::Mul(dScore, w.cap)));
                hn::Store(hasFactors_ ? hn::IfThenElseZero(w.kept, hn::Mul(w.weight, w.factor)) : w.weight, f, weight);
                hn::Store(dPlain, f, gradient);
            }
            hn::Store(seen, f, stat(pairs.panel, Stat::seen) + v * lanes);
            addTo(pairs.panel, Stat::slopes, v, ofSlopes);
            addTo(pairs.panel, Stat::scale, v, ofScale);
            addTo(pairs.panel, Stat::softcap, v, ofSoftcap);
        }
    }
    void addTo(uint32_t panel, Stat which, size_t v, Vector x) const {
        float *const to = stat(panel, which) + v * lanes;
        hn::Store(hn::Add(hn::Load(Floats(), to), x), Floats(), to);
    }

    // dQ_i += sum_j dz_ij k_j. Keys that are not finite are added to the rows that see them.
    void addToRows(const Tile &tile, const PanelPairs &pairs, FiniteValues &finite, uint32_t keys) const {
        TileRows rows = tile.keys;
        if (pairs.hides) {
            finite.find(tile.keys, keys, p_.headDim, part(at_.finite));
            rows = finite.rows;
        }
        addTile<vectors>(rows.from(pairs.from - tile.first), p_.headDim, pairs.to - pairs.from, gradients(), stat(pairs.panel, Stat::ones),
                         dQ(pairs.panel));
        const Floats f;
        for (uint32_t n = 0; pairs.hides && n < finite.count; ++n) {
            const uint32_t j = tile.first + finite.replaced[n];
            if (j < pairs.from || j >= pairs.to) continue;
            const float *key = tile.keys.row(j - tile.first);
            for (size_t v = 0; v < vectors; ++v) {
                const auto shown = LanePairs(p_, panel_, v).visible(j, lookedUp(j, pairs.from, v));
                const auto gradient = hn::Load(f, gradients() + size_t{j - pairs.from} * panelRows + v * lanes);
                float *to = dQ(pairs.panel) + v * lanes;
                for (uint32_t d = 0; d < p_.headDim; ++d, to += panelRows) {
                    const auto old = hn::Load(f, to);
                    hn::Store(hn::IfThenElse(shown, hn::MulAdd(gradient, hn::Set(f, key[d]), old), old), f, to);
                }
            }
        }
    }

    // dV_j += sum_i w_ij P_ij dOut_i, dK_j += sum_i dz_ij q_i for the rows of the stacked panels.
    void addStackToKeys() {
        waitForTurn();
        const size_t k = wholeLines(p_.headDim), v = wholeLines(p_.valueDim), first = size_t{stack_.panel} * panelRows;
        const size_t rows = std::min<size_t>(size_t{stacked_} * panelRows, rows_ - first), keys = stack_.to - stack_.from;
        const size_t stride = size_t{call_.tiling.tileKeys} * panelRows;
        if (call_.wants(VKATTN_D_V))
            addOuter({part(at_.weights), stride, part(at_.dOutRows) + first * v, rows}, keys, panelRows, v,
                     accumulator(VKATTN_D_V, stack_.from));
        if (call_.wants(VKATTN_D_K))
            addOuter({part(at_.gradients), stride, part(at_.queryRows) + first * k, rows}, keys, panelRows, k,
                     accumulator(VKATTN_D_K, stack_.from));
        stacked_ = 0;
    }
    void addSpecials(const PanelPairs &pairs) const {
        for (uint32_t n = 0; n < specials_; ++n) {
            const uint32_t r = reinterpret_cast<const uint32_t *>(part(at_.special))[n];
            if (r / panelRows == pairs.panel) addSpecial(pairs, r % panelRows);
        }
    }
    void addSpecial(const PanelPairs &pairs, uint32_t r) const {
        const RowPlace &own = panel_.places[r];
        for (uint32_t j = std::max(pairs.from, own.begin); j < std::min(pairs.to, own.end); ++j) {
            const size_t at = size_t{j - pairs.from} * panelRows + r;
            if (lookUps_ && part(at_.pairs)[at] == minusInfinity) continue;
            float *const dK = accumulator(VKATTN_D_K, j), *const dV = accumulator(VKATTN_D_V, j);
            for (uint32_t d = 0; d < p_.headDim; ++d) dK[d] += gradients()[at] * query(pairs.panel)[size_t{d} * panelRows + r];
            if (drops_ && part(at_.kept)[at] == 0) continue;
            for (uint32_t d = 0; d < p_.valueDim; ++d) dV[d] += weights()[at] * dOut(pairs.panel)[size_t{d} * panelRows + r];
        }
    }

    void waitForTurn() const { waitFor(*turn_, chunk_); }

    // Waits for the head that had the accumulators before, and clears them.
    void takeSlot() const {
        if (head_ >= call_.slots) waitFor(call_.finished[head_ - call_.slots], 1);
        float *const first = accumulator(VKATTN_D_K, 0);
        const size_t k = wholeLines(p_.headDim), v = wholeLines(p_.valueDim);
        std::fill(first, first + s_.keys * k, 0.0f);
        std::fill(accumulator(VKATTN_D_V, 0), accumulator(VKATTN_D_V, 0) + s_.keys * v, 0.0f);
    }
    void finishTile(uint32_t first, uint32_t last) const {
        waitForTurn();
        if (chunk_ + 1 == sequence_.chunks) {
            storeKeys(VKATTN_D_K, first, last, wholeLines(p_.headDim), p_.scale);
            storeKeys(VKATTN_D_V, first, last, wholeLines(p_.valueDim), 1.0f);
        }
        turn_->store(chunk_ + 1, std::memory_order_release);
    }
    void storeKeys(vkattn_role role, uint32_t first, uint32_t last, size_t stride, float factor) const {
        if (!call_.wants(role)) return;
        const Tensor &t = g_.tensor(role);
        float *row = accumulator(role, first);
        for (uint32_t j = first; j < last; ++j, row += stride) storeGradient(role, t.index(s_.batch, kvHead_, s_.key(j), 0), row, factor);
    }
    // No row sees the keys past a key length.
    void finishHead() const {
        float *const zeros = part(at_.row);
        for (const vkattn_role role : {VKATTN_D_K, VKATTN_D_V}) {
            if (!call_.wants(role) || p_.ragged()) continue;
            const Tensor &t = g_.tensor(role);
            for (uint32_t j = s_.keys; j < p_.keyTokens; ++j) {
                std::fill(zeros, zeros + t.extent[3], 0.0f);
                storeGradient(role, t.index(s_.batch, kvHead_, s_.key(j), 0), zeros, 1.0f);
            }
        }
        call_.finished[head_].store(1, std::memory_order_release);
    }

    void storeRows() const {
        const Tensor &t = g_.tensor(VKATTN_D_Q);
        float *const row = part(at_.row);
        for (uint32_t r = 0; r < rows_; ++r) {
            const uint32_t panel = r / panelRows, lane = r % panelRows;
            const RowPlace own = placeOfRow(r);
            const bool seen = stat(panel, Stat::seen)[lane] != 0;
            for (uint32_t d = 0; d < p_.headDim; ++d) row[d] = seen ? dQ(panel)[size_t{d} * panelRows + lane] : 0.0f;
            storeGradient(VKATTN_D_Q, t.index(s_.batch, own.head, s_.query(own.query), 0), row, seen ? p_.scale : 1.0f);
        }
    }
    // Stores row * factor / lossScale from element `at` of the tensor on.
    void storeGradient(vkattn_role role, uint64_t at, float *row, float factor) const {
        const Tensor &t = g_.tensor(role);
        // The least value that is infinite where it is stored.
        const float least = t.dtype == VKATTN_F16    ? 65520.0f
                            : t.dtype == VKATTN_BF16 ? 0x1.ffp127f
                                                     : std::numeric_limits<float>::infinity();
        bool finite = true;
        for (uint32_t d = 0; d < t.extent[3]; ++d) {
            row[d] = row[d] * factor / g_.lossScale;
            finite &= std::abs(row[d]) < least;
        }
        if (!finite) call_.nonfinite->store(1, std::memory_order_relaxed);
        storeRow(t, call_.operands().data[role], at, row, t.extent[3]);
    }

    void storeSums() const {
        const uint32_t group = p_.groupSize();
        ChunkSums *const sums = call_.sums + sequence_.sumsBefore + (uint64_t{kvHead_} * sequence_.chunks + chunk_) * group;
        std::fill(sums, sums + group, ChunkSums{});
        for (uint32_t r = 0; r < rows_; ++r) {
            const uint32_t panel = r / panelRows, lane = r % panelRows;
            const RowPlace own = placeOfRow(r);
            ChunkSums &sum = sums[own.head % group];
            sum.slopes += static_cast<double>(stat(panel, Stat::slopes)[lane]);
            sum.scale += static_cast<double>(stat(panel, Stat::scale)[lane]);
            sum.softcap += static_cast<double>(stat(panel, Stat::softcap)[lane]);
            if (call_.operands().sink(p_, own.head) == minusInfinity) continue;
            // dOut of a row that sees nothing is not looked at: D_i is 0.
            const float d = stat(panel, Stat::seen)[lane] != 0 ? stat(panel, Stat::d)[lane] : 0.0f;
            sum.sinks += static_cast<double>(stat(panel, Stat::sink)[lane]) * static_cast<double>(stat(panel, Stat::dLse)[lane] - d);
        }
    }

    const GradientSequence &sequence_;
    uint64_t head_;
    uint32_t chunk_, specials_ = 0;
    PanelPairs stack_{}; // of the first of the stacked panels
    uint32_t stacked_ = 0;
    std::atomic<uint32_t> *turn_ = nullptr;
};

} // namespace HWY_NAMESPACE
} // namespace vkattn
HWY_AFTER_NAMESPACE();
#endif
