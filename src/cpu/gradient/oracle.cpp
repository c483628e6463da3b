// The oracle of gradients: the rows of oracle_row.hpp, one after the other, summed up in double.
#include "cpu/entry.hpp"
#include "cpu/gradient/gradient.hpp"
#include "cpu/gradient/oracle_row.hpp"

namespace vkattn {
namespace {

class OracleGradient {
  public:
    OracleGradient(const Gradient &g, const Operands &operands)
        : g_(g), p_(g.forward), operands_(operands), slopes_(p_.heads), sinks_(p_.heads) {
        if (wants(VKATTN_D_BIAS)) bias_.resize(biasElements(g.tensor(VKATTN_D_BIAS)));
    }

    void compute() {
        const bool rows = p_.tensor(VKATTN_Q).extent[2] != 0, keys = wants(VKATTN_D_K) || wants(VKATTN_D_V);
        const Sequences sequences(p_, operands_);
        if (rows || (keys && p_.tensor(VKATTN_K).extent[2] != 0))
            forEverySequence(p_, operands_, [&](uint32_t b, const Sequence &s) {
                for (uint32_t kvHead = 0; kvHead < p_.kvHeads; ++kvHead) {
                    if (rows) kv_.load(p_, operands_, sequences, b, kvHead);
                    computeHead(s, b, kvHead);
                }
            });
        for (uint64_t n = 0; n < bias_.size(); ++n)
            store(VKATTN_D_BIAS, g_.tensor(VKATTN_D_BIAS).dtype, biasIndex(g_.tensor(VKATTN_D_BIAS), n), bias_[n]);
        for (uint32_t h = 0; h < p_.heads; ++h) {
            storeNumber(VKATTN_D_SLOPES, h, slopes_[h]);
            storeNumber(VKATTN_D_SINKS, h, sinks_[h]);
        }
        storeNumber(VKATTN_D_SCALE, 0, scale_);
        storeNumber(VKATTN_D_SOFTCAP, 0, softcap_);
    }

  private:
    [[nodiscard]] bool wants(vkattn_role role) const { return g_.uses(role); }

    void computeHead(const Sequence &s, uint32_t b, uint32_t kvHead) {
        dK_.assign(size_t{s.keys} * p_.headDim, 0.0);
        dV_.assign(size_t{s.keys} * p_.valueDim, 0.0);
        for (uint32_t h = kvHead * p_.groupSize(); h < (kvHead + 1) * p_.groupSize(); ++h)
            for (uint32_t i = 0; i < s.queries; ++i) {
                row_.compute(g_, operands_, s, kv_, b, h, i);
                addRow(b, h, i);
                storeRow(s, h, i);
            }
        storeKeys(VKATTN_D_K, dK_, s, kvHead);
        storeKeys(VKATTN_D_V, dV_, s, kvHead);
    }

    void addRow(uint32_t b, uint32_t h, uint32_t i) {
        const auto scale = static_cast<double>(p_.scale);
        dQ_.assign(p_.headDim, 0.0);
        sinks_[h] += row_.dSink;
        for (const GradientPair &pair : row_.pairs) {
            const float *k = kv_.key(pair.j);
            for (uint32_t e = 0; e < p_.headDim; ++e) {
                dQ_[e] += scale * pair.dPlain * static_cast<double>(k[e]);
                dK_[size_t{pair.j} * p_.headDim + e] += scale * pair.dPlain * row_.query[e];
            }
            for (uint32_t e = 0; !pair.dropped && e < p_.valueDim; ++e)
                dV_[size_t{pair.j} * p_.valueDim + e] += pair.kept * pair.weight * row_.dOut[e];
            if (!bias_.empty()) bias_[biasPlace(g_.tensor(VKATTN_D_BIAS), b, h, i, pair.j)] += pair.dScore;
            slopes_[h] -= pair.distance * pair.dScore;
            scale_ += pair.dPlain * pair.dot;
            if (p_.softcap > 0) softcap_ += pair.dScore * softcapFactor(p_, pair.dot);
        }
    }

    void storeRow(const Sequence &s, uint32_t h, uint32_t i) {
        if (!wants(VKATTN_D_Q)) return;
        for (uint32_t e = 0; e < p_.headDim; ++e)
            store(VKATTN_D_Q, g_.tensor(VKATTN_D_Q).dtype, g_.tensor(VKATTN_D_Q).index(s.batch, h, s.query(i), e), dQ_[e]);
    }
    void storeKeys(vkattn_role role, const std::vector<double> &sums, const Sequence &s, uint32_t kvHead) {
        if (!wants(role)) return;
        const Tensor &t = g_.tensor(role);
        const uint32_t dims = t.extent[3];
        // Keys past a key length are keys that no row sees.
        const uint32_t keys = p_.ragged() ? s.keys : p_.keyTokens;
        for (uint32_t j = 0; j < keys; ++j)
            for (uint32_t e = 0; e < dims; ++e)
                store(role, t.dtype, t.index(s.batch, kvHead, s.key(j), e), j < s.keys ? sums[size_t{j} * dims + e] : 0.0);
    }
    void storeNumber(vkattn_role role, uint64_t n, double value) {
        if (wants(role)) store(role, VKATTN_F32, n, value);
    }
    void store(vkattn_role role, vkattn_dtype dtype, uint64_t index, double sum) {
        storeElement(operands_.data[role], dtype, index, static_cast<float>(sum / static_cast<double>(g_.lossScale)));
        if (g_.has(VKATTN_NONFINITE) && !std::isfinite(loadElement(operands_.data[role], dtype, index))) {
            const uint32_t found = 1;
            std::memcpy(operands_.data[VKATTN_NONFINITE], &found, 4);
        }
    }

    const Gradient &g_;
    const Problem &p_;
    const Operands &operands_;
    HeadKeysValues kv_;
    GradientRow row_;
    std::vector<double> dQ_, dK_, dV_, bias_, slopes_, sinks_;
    double scale_ = 0, softcap_ = 0;
};

} // namespace

vkattn_result oracleGradient(const vkattn_attention_gradient *description, const vkattn_operand_memory *memory, uint32_t count,
                             vkattn_diagnostic *why) {
    return computeBound(makeGradient, description, memory, count, why, "the sums of one head or of the bias",
                        [](const Gradient &g, const Operands &operands) { OracleGradient(g, operands).compute(); });
}

} // namespace vkattn
