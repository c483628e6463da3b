// The second pass: a box of dBias, with all pairs that the bias broadcasts to, for one Highway target.
#if defined(VKATTN_CPU_GRADIENT_BIAS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef VKATTN_CPU_GRADIENT_BIAS_INL_HPP
#undef VKATTN_CPU_GRADIENT_BIAS_INL_HPP
#else
#define VKATTN_CPU_GRADIENT_BIAS_INL_HPP
#endif

#include "cpu/gradient/work.hpp"

#include "cpu/gradient/panels-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace vkattn {
namespace HWY_NAMESPACE {

class GradientOfBias : GradientPanels {
  public:
    GradientOfBias(const GradientCall &call, uint64_t unit, float *scratch)
        : GradientPanels(call, scratch), t_(call.g.tensor(VKATTN_D_BIAS)), box_(reinterpret_cast<double *>(scratch + at_.box)) {
        const BiasBlocks blocks(t_, call.tiling);
        batch_ = static_cast<uint32_t>(unit / (blocks.rows * blocks.keys) / t_.extent[1]);
        head_ = static_cast<uint32_t>(unit / (blocks.rows * blocks.keys) % t_.extent[1]);
        if (t_.extent[2] != 1) firstQuery_ = static_cast<uint32_t>(unit / blocks.keys % blocks.rows) * call.tiling.chunkRows;
        if (t_.extent[3] != 1) firstKey_ = static_cast<uint32_t>(unit % blocks.keys) * call.tiling.tileKeys;
        boxRows_ = t_.extent[2] == 1 ? 1 : std::min(call.tiling.chunkRows, t_.extent[2] - firstQuery_);
        boxKeys_ = t_.extent[3] == 1 ? 1 : std::min(call.tiling.tileKeys, t_.extent[3] - firstKey_);
    }

    void compute() {
        std::fill(box_, box_ + size_t{boxRows_} * boxKeys_, 0.0);
        for (uint32_t b = 0; b < call_.sequenceCount; ++b) {
            if (t_.extent[0] != 1 && b != batch_) continue;
            for (uint32_t h = 0; h < p_.heads; ++h)
                if (t_.extent[1] == 1 || h == head_) addHead(b, h);
        }
        store();
    }

  private:
    void addHead(uint32_t b, uint32_t h) {
        const Sequence &s = call_.sequences[b].s;
        const uint32_t most = call_.tiling.chunkRows, group = p_.groupSize();
        const uint32_t end = t_.extent[2] == 1 ? s.queries : std::min(firstQuery_ + boxRows_, s.queries);
        for (uint32_t i = firstQuery_; i < end; i += most) {
            takeRows(s, b, h / group, uint64_t{i} * group + h % group, group, std::min(most, end - i));
            if (call_.rowD) loadD(b, h, i);
            addRows();
        }
    }
    void loadD(uint32_t b, uint32_t h, uint32_t first) {
        const float *const d = call_.rowD + call_.sequences[b].rowsBefore + uint64_t{h} * s_.queries + first;
        for (uint32_t r = 0; r < rows_; ++r) stat(r / panelRows, Stat::d)[r % panelRows] = d[r];
        for (uint32_t panel = 0; panel < panels(); ++panel) setOffsets(panel);
    }
    void addRows() {
        const uint32_t tileKeys = call_.tiling.tileKeys, end = t_.extent[3] == 1 ? s_.keys : std::min(firstKey_ + boxKeys_, s_.keys);
        for (uint32_t first = firstKey_; first < end; first += tileKeys) {
            const uint32_t last = std::min(first + tileKeys, end);
            bool loaded = false;
            Tile tile{};
            for (uint32_t panel = 0; panel < panels(); ++panel) {
                const Reach reach = place(panel);
                PanelPairs pairs{panel, std::max(first, reach.begin), std::min(last, reach.end), false};
                if (pairs.from >= pairs.to || !lookUp(pairs, reach)) continue;
                if (!loaded) tile = loadTile(first, last);
                loaded = true;
                multiplyKeys(tile, pairs);
                multiplyValues(tile, pairs);
                computePairs(pairs);
                addPairs(pairs);
            }
        }
    }
    // Turns the products in `weights` and `gradients` into dS_ij.
    void computePairs(const PanelPairs &pairs) const {
        const Floats f;
        for (size_t v = 0; v < vectors; ++v) {
            const LanePairs rule(p_, panel_, v);
            float *gradient = gradients() + v * lanes;
            for (uint32_t j = pairs.from; j < pairs.to; ++j, gradient += panelRows)
                hn::Store(scoreGradient(pairs, weigh(pairs, rule, v, j), v, hn::Load(f, gradient)), f, gradient);
        }
    }
    void addPairs(const PanelPairs &pairs) const {
        const uint32_t rows = rowCount(pairs.panel);
        for (uint32_t j = pairs.from; j < pairs.to; ++j) {
            const float *const own = gradients() + size_t{j - pairs.from} * panelRows;
            const uint32_t column = t_.extent[3] == 1 ? 0 : j - firstKey_;
            if (t_.extent[2] != 1) {
                for (uint32_t r = 0; r < rows; ++r)
                    box_[size_t{pairs.panel * panelRows + r} * boxKeys_ + column] += static_cast<double>(own[r]);
                continue;
            }
            for (uint32_t r = 0; r < rows; ++r) box_[column] += static_cast<double>(own[r]);
        }
    }
    void store() const {
        unsigned char *const data = call_.operands().data[VKATTN_D_BIAS];
        for (uint32_t i = 0; i < boxRows_; ++i)
            for (uint32_t j = 0; j < boxKeys_; ++j) {
                const auto value = static_cast<float>(box_[size_t{i} * boxKeys_ + j] / static_cast<double>(g_.lossScale));
                const uint64_t at = t_.index(batch_, head_, firstQuery_ + uint64_t{i}, firstKey_ + uint64_t{j});
                storeElement(data, t_.dtype, at, value);
                if (!std::isfinite(loadElement(data, t_.dtype, at))) call_.nonfinite->store(1, std::memory_order_relaxed);
            }
    }

    const Tensor &t_;
    double *const box_;
    uint32_t batch_ = 0, head_ = 0, firstQuery_ = 0, firstKey_ = 0, boxRows_ = 0, boxKeys_ = 0;
};

} // namespace HWY_NAMESPACE
} // namespace vkattn
HWY_AFTER_NAMESPACE();
#endif
