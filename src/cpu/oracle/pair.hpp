// The oracle's rule for one pair of a query and a key: the formulas of problem.h in their order, a
// line each.
//
// pair_rules-inl.hpp states the same rule for the fallback's vectors. The two share nothing, so
// that neither can hide a mistake of the other.
#pragma once

#include "cpu/oracle/rules.hpp"
#include "cpu/program.hpp"

#include <cmath>
#include <cstdlib>
#include <limits>

namespace vkattn {

// Returns the page of key j of batch entry b, and -1 where what the table has is no page of the pool.
[[nodiscard]] inline int64_t oraclePage(const Problem &p, const Operands &operands, uint32_t b, uint32_t j) {
    const uint32_t place = j / p.tensor(VKATTN_K).extent[2];
    const auto page =
        static_cast<int32_t>(p.pageIndices ? operands.word(VKATTN_PAGE_INDICES, uint64_t{operands.word(VKATTN_PAGE_INDPTR, b)} + place)
                                           : operands.word(VKATTN_PAGE_TABLE, uint64_t{b} * p.tablePages + place));
    return page >= 0 && static_cast<uint32_t>(page) < p.tensor(VKATTN_K).extent[0] ? page : -1;
}

// The rule for query i of head h in sequence b. The sequence outlives the rule.
class OraclePair {
  public:
    OraclePair(const Problem &p, const Operands &operands, const Sequence &sequence, uint32_t b, uint32_t h, uint32_t i)
        : p_(p), operands_(operands), s_(sequence), b_(b), h_(h), i_(i), position_(positionOf(p, operands, sequence, b, i)),
          blocks_(p, operands, b, h, i / std::max(p.rules.blocks.queries, 1u)),
          program_(programPair(p, operands, b, h, i, position_, sequence.queries, sequence.keys)) {}

    // Returns whether the query sees key j of its sequence.
    [[nodiscard]] bool visible(uint32_t j) const {
        const Tensor &mask = p_.tensor(VKATTN_MASK), &bits = p_.tensor(VKATTN_BIT_MASK);
        if (j >= s_.keys) return false;                                               // j < keyTokens
        if (p_.flags & VKATTN_CAUSAL && j > position_ && j >= prefix()) return false; // j <= i', or j < prefix_b
        if (p_.flags & VKATTN_WINDOW && !local(j) && !global(j) && !global(position_)) return false;
        if (!oracle::boxShows(p_.rules.grid, position_, j)) return false; // key j lies in the box of token i'
        if (!blocks_.shows(j)) return false;                              // the block of i and j is listed
        if (mask.present() && !maskByte(j)) return false;                 // mask_ij != 0
        // Bit mask_ij = 1.
        if (bits.present() && !(maskWord(j / 32) >> (j % 32) & 1u)) return false;
        // bias_ij != -inf
        if (hasBias() && bias(j) == -std::numeric_limits<float>::infinity()) return false;
        // Document of i = document of j.
        if (p_.has(VKATTN_DOC_IDS_Q) && queryDocument() != keyDocument(j)) return false;
        if (p_.paged() && oraclePage(p_, operands_, s_.batch, j) < 0) return false;  // table[b][j / page tokens] is a page
        if (p_.program.hides() && !p_.program.program->visible(at(j))) return false; // visible(b, h, i, j)
        return true;
    }

    // Returns s_ij of a visible pair, from dot(q_i, k_j). `added` receives |bias_ij| + slope_h * |j
    // - i'|, the size of the added terms, which bounds what their rounding can change; with a program also
    // the sizes of the scores before and behind it.
    template <class Real> [[nodiscard]] Real score(uint32_t j, Real dot, Real &added) const {
        Real s = unhookedScore(j, dot, added);
        if (p_.program.scores()) { // s_ij = score(s_ij, b, h, i, j)
            added += std::abs(s);
            s = static_cast<Real>(p_.program.program->score(static_cast<double>(s), at(j)));
            if (std::isfinite(s)) added += std::abs(s);
        }
        return s;
    }
    template <class Real> [[nodiscard]] Real unhookedScore(uint32_t j, Real dot, Real &added) const {
        const auto scale = static_cast<Real>(p_.scale), softcap = static_cast<Real>(p_.softcap);
        const Real biasTerm = hasBias() ? static_cast<Real>(bias(j)) : Real(0);
        const Real alibiTerm = hasAlibi() ? static_cast<Real>(slope()) * static_cast<Real>(std::abs(int64_t{j} - position_)) : Real(0);
        Real s = scale * dot; // s_ij = scale * dot(q_i, k_j)
        // s_ij = softcap * tanh(s_ij / softcap)
        if (softcap > 0) s = softcap * std::tanh(s / softcap);
        if (hasBias()) s += biasTerm;   // s_ij = s_ij + bias_ij
        if (hasAlibi()) s -= alibiTerm; // s_ij = s_ij - slope_h * |j - i'|
        added = std::abs(biasTerm) + std::abs(alibiTerm);
        return s;
    }
    // Returns what the gradient of s_ij is multiplied with, to be that of the score without a program.
    [[nodiscard]] double hookSlope(uint32_t j, double dot) const {
        if (!p_.program.scores()) return 1;
        double ignored;
        return p_.program.program->scoreSlope(unhookedScore(j, dot, ignored), at(j));
    }

    // Returns the weight of a score that is no share of a sum.
    [[nodiscard]] double rowWeight(double score) const {
        if (!(score < std::numeric_limits<double>::infinity())) return std::numeric_limits<double>::quiet_NaN();
        return std::isinf(score) ? 0 : p_.program.program->row(score); // row(s_ij)
    }
    // Returns what the pair's probability is multiplied with before it meets the value.
    [[nodiscard]] double weighing(uint32_t j) const {
        return p_.program.weighs() ? p_.program.program->probability(1, at(j)) : 1; // probability(p_ij, b, h, i, j) / p_ij
    }

    // Returns what `scores` holds of the pair, from dot(q_i, k_j).
    template <class Real> [[nodiscard]] Real storedScore(uint32_t j, Real dot) const {
        if (p_.scoresStage == VKATTN_SCORES_RAW) return dot;
        if (p_.scoresStage == VKATTN_SCORES_FINAL) {
            Real ignored;
            return visible(j) ? score(j, dot, ignored) : -std::numeric_limits<Real>::infinity();
        }
        const auto softcap = static_cast<Real>(p_.softcap);
        const Real z = static_cast<Real>(p_.scale) * dot;
        return p_.scoresStage == VKATTN_SCORES_CAPPED && softcap > 0 ? softcap * std::tanh(z / softcap) : z;
    }

    // Returns i', where the query stands among the keys.
    [[nodiscard]] int64_t position() const { return position_; }
    // Returns |j - i'|, which ALiBi multiplies a slope with.
    [[nodiscard]] double distance(uint32_t j) const { return static_cast<double>(std::abs(int64_t{j} - position_)); }

  private:
    // i', by its formulas.
    [[nodiscard]] static int64_t positionOf(const Problem &p, const Operands &operands, const Sequence &sequence, uint32_t b, uint32_t i) {
        const auto limited = [](int64_t tokens) { return std::min<int64_t>(std::max<int64_t>(tokens, -(1 << 28)), 1 << 28); };
        const auto offset = [&](const vkattn_offset &given, vkattn_role role) {
            int64_t tokens = given.tokens;
            if (given.kind == VKATTN_OFFSET_ARRAY) tokens += limited(static_cast<int32_t>(operands.word(role, b)));
            return limited(tokens);
        };
        if (p.queryOffset.kind != VKATTN_OFFSET_NONE || p.keyOffset.kind != VKATTN_OFFSET_NONE)
            return i + limited(offset(p.queryOffset, VKATTN_QUERY_OFFSETS) - offset(p.keyOffset, VKATTN_KEY_OFFSETS));
        return p.flags & VKATTN_ALIGN_TOP_LEFT ? int64_t{i} : int64_t{i} + sequence.keys - int64_t{sequence.queries};
    }
    [[nodiscard]] const vkattn_program_pair *at(uint32_t j) const {
        program_.key = j;
        return &program_;
    }
    [[nodiscard]] uint32_t prefix() const { return p_.has(VKATTN_PREFIX_LENGTHS) ? operands_.word(VKATTN_PREFIX_LENGTHS, b_) : 0; }
    // i' - windowLeft d_h <= j <= i' + windowRight d_h, and d_h divides j - i'
    [[nodiscard]] bool local(uint32_t j) const {
        int64_t dilation = p_.rules.dilation;
        if (p_.has(VKATTN_DILATIONS)) dilation = std::min(dilation, std::max<int64_t>(operands_.word(VKATTN_DILATIONS, h_), 1));
        const int64_t distance = j - position_;
        if (distance % dilation != 0) return false;
        const int64_t steps = distance / dilation;
        return (p_.rules.windowLeft == openWindow || -steps <= p_.rules.windowLeft) &&
               (p_.rules.windowRight == openWindow || steps <= p_.rules.windowRight);
    }
    // The token is global.
    [[nodiscard]] bool global(int64_t token) const {
        if (!p_.has(VKATTN_GLOBAL_TOKENS) || token < 0 || token >= s_.keys) return false;
        const uint64_t words = (uint64_t{p_.keyTokens} + 31) / 32;
        return operands_.word(VKATTN_GLOBAL_TOKENS, b_ * words + static_cast<uint64_t>(token) / 32) >> token % 32 & 1u;
    }
    [[nodiscard]] bool hasBias() const { return p_.tensor(VKATTN_BIAS).present(); }
    [[nodiscard]] bool hasAlibi() const { return p_.has(VKATTN_ALIBI_SLOPES); }
    [[nodiscard]] float bias(uint32_t j) const {
        const Tensor &t = p_.tensor(VKATTN_BIAS);
        return loadElement(operands_.data[VKATTN_BIAS], t.dtype, t.index(b_, h_, i_, j));
    }
    [[nodiscard]] unsigned char maskByte(uint32_t j) const {
        return operands_.data[VKATTN_MASK][p_.tensor(VKATTN_MASK).index(b_, h_, i_, j)];
    }
    [[nodiscard]] uint32_t maskWord(uint32_t n) const {
        return operands_.word(VKATTN_BIT_MASK, p_.tensor(VKATTN_BIT_MASK).index(b_, h_, i_, n));
    }
    [[nodiscard]] uint32_t queryDocument() const {
        return operands_.word(VKATTN_DOC_IDS_Q, uint64_t{s_.batch} * p_.tensor(VKATTN_Q).extent[2] + s_.query(i_));
    }
    [[nodiscard]] uint32_t keyDocument(uint32_t j) const {
        return operands_.word(VKATTN_DOC_IDS_K,
                              uint64_t{s_.batch} * (p_.ragged() ? p_.tensor(VKATTN_K).extent[2] : p_.keyTokens) + s_.key(j));
    }
    [[nodiscard]] float slope() const { return operands_.number(VKATTN_ALIBI_SLOPES, h_); }

    const Problem &p_;
    const Operands &operands_;
    const Sequence &s_;
    uint32_t b_, h_, i_;
    int64_t position_; // i'
    oracle::RowOfBlocks blocks_;
    mutable vkattn_program_pair program_;
};

} // namespace vkattn
