// The place of each batch entry, or of each sequence of a ragged batch, in the tensors: one way to
// ask for plain batches, key lengths and cu_seqlens. Places are computed once per call, from arrays
// that are never trusted.
#pragma once

#include "cpu/operands.hpp"

#include <algorithm>
#include <vector>

namespace vkattn {

// Pages of keys in the pool, of one batch entry: data that is never trusted.
struct Pages {
    const Problem &p;
    const Operands &operands;
    uint32_t entry;

    // Returns the keys of an entry whose pages lie in CSR.
    [[nodiscard]] uint32_t keys() const {
        return pageRunOf(operands.word(VKATTN_PAGE_INDPTR, entry), operands.word(VKATTN_PAGE_INDPTR, entry + 1ull),
                         operands.word(VKATTN_LAST_PAGE_LENGTHS, entry), p.pageIndices, p.tablePages, p.pageTokens)
            .keys;
    }
    // Returns the page of a key; the pool's number of pages, or more, where the page is absent.
    [[nodiscard]] uint32_t pageOf(uint32_t key) const {
        const uint64_t place = key / p.pageTokens;
        if (!p.pageIndices) return operands.word(VKATTN_PAGE_TABLE, uint64_t{entry} * p.tablePages + place);
        return operands.word(VKATTN_PAGE_INDICES, std::min(operands.word(VKATTN_PAGE_INDPTR, entry), p.pageIndices) + place);
    }
    [[nodiscard]] bool isAbsent(uint32_t key) const { return pageOf(key) >= p.poolPages(); }
    // Returns the first key after `key` that lies in another page.
    [[nodiscard]] uint32_t endOfPage(uint32_t key) const { return (key / p.pageTokens + 1) * p.pageTokens; }
    // Returns whether a page of the first `keys` keys is absent.
    [[nodiscard]] bool anyAbsent(uint32_t keys) const {
        for (uint32_t key = 0; key < keys; key = endOfPage(key))
            if (isAbsent(key)) return true;
        return false;
    }
};

// Where the keys of a batch entry lie one after the other: those of a page, of a segment, or all.
struct Pieces {
    const Problem &p;
    const Operands &operands;
    uint32_t entry;

    // Returns the first key after `key` that does not follow the one before it in memory.
    [[nodiscard]] uint32_t endOfPiece(uint32_t key) const {
        if (p.paged()) return Pages{p, operands, entry}.endOfPage(key);
        return p.segments.first[p.segments.of(key) + 1];
    }
    // Returns whether a key has no memory: its page is absent.
    [[nodiscard]] bool isAbsent(uint32_t key) const { return p.paged() && Pages{p, operands, entry}.isAbsent(key); }
};

struct Sequence {
    // The batch entry in q, k, v, out and lse. Bias, masks and weights have the sequence's own
    // number.
    uint32_t batch = 0;
    uint32_t queryFirst = 0, queries = 0, keyFirst = 0, keys = 0;
    uint32_t prefix = 0;     // keys that causal hides from nobody
    int64_t shift = 0;       // i' - i
    uint64_t rowsBefore = 0; // rows of earlier sequences, all heads

    // The tensors may be read only at tokens below queries and keys.
    [[nodiscard]] uint64_t query(uint32_t i) const { return uint64_t{queryFirst} + i; }
    [[nodiscard]] uint64_t key(uint32_t j) const { return uint64_t{keyFirst} + j; }
};

// Walks cu_seqlens: each entry counts as the largest up to it, clamped to the total.
struct SequenceEnds {
    SequenceEnds(const Operands &o, vkattn_role r, uint32_t t) : operands(o), role(r), total(t) {}
    void next(uint32_t b, uint32_t most, uint32_t &first, uint32_t &length) {
        if (b == 0) last = std::min(operands.word(role, 0), total);
        first = last;
        last = std::max(last, std::min(operands.word(role, b + 1ull), total));
        length = std::min(last - first, most);
    }
    const Operands &operands;
    vkattn_role role;
    uint32_t total, last = 0;
};

// Calls visit(b, sequence) for every batch entry or sequence, in order.
template <class Visit> void forEverySequence(const Problem &p, const Operands &operands, const Visit &visit) {
    const uint32_t totalQueries = p.tensor(VKATTN_Q).extent[2], totalKeys = p.tensor(VKATTN_K).extent[2];
    SequenceEnds queries(operands, VKATTN_CU_SEQ_Q, totalQueries), keys(operands, VKATTN_CU_SEQ_K, totalKeys);
    for (uint32_t b = 0; b < p.batch; ++b) {
        Sequence s;
        if (p.ragged()) {
            queries.next(b, p.queryTokens, s.queryFirst, s.queries);
            keys.next(b, p.keyTokens, s.keyFirst, s.keys);
        } else {
            s.batch = b;
            s.queries = p.queryTokens;
            s.keys = p.pageIndices               ? Pages{p, operands, b}.keys()
                     : p.has(VKATTN_KEY_LENGTHS) ? std::min(operands.word(VKATTN_KEY_LENGTHS, b), p.keyTokens)
                                                 : p.keyTokens;
        }
        if (p.has(VKATTN_PREFIX_LENGTHS)) s.prefix = std::min(operands.word(VKATTN_PREFIX_LENGTHS, b), s.keys);
        const auto offset = [&](vkattn_role role) { return p.has(role) ? static_cast<int32_t>(operands.word(role, b)) : 0; };
        s.shift = p.hasOffsets() ? shiftOf(p.queryOffset, p.keyOffset, offset(VKATTN_QUERY_OFFSETS), offset(VKATTN_KEY_OFFSETS))
                  : p.topLeft    ? 0
                                 : int64_t{s.keys} - s.queries;
        visit(b, s);
    }
}

// The same, but calls nothing where there are no query rows: the batch may then be any number without
// memory behind it.
template <class Visit> void forSequences(const Problem &p, const Operands &operands, const Visit &visit) {
    if (p.tensor(VKATTN_Q).extent[2] != 0) forEverySequence(p, operands, visit);
}

struct RowId {
    uint32_t b, h, i;
};

class Sequences {
  public:
    Sequences(const Problem &p, const Operands &operands) : heads_(p.heads) {
        if (p.tensor(VKATTN_Q).extent[2] == 0) return;
        sequences_.reserve(p.batch);
        forSequences(p, operands, [&](uint32_t, Sequence s) {
            s.rowsBefore = rows_;
            rows_ += uint64_t{heads_} * s.queries;
            pairs_ += static_cast<double>(heads_) * s.queries * s.keys;
            sequences_.push_back(s);
        });
    }
    [[nodiscard]] const Sequence &operator[](uint32_t b) const { return sequences_[b]; }
    [[nodiscard]] auto begin() const { return sequences_.begin(); }
    [[nodiscard]] auto end() const { return sequences_.end(); }
    [[nodiscard]] uint32_t count() const { return static_cast<uint32_t>(sequences_.size()); }
    [[nodiscard]] uint64_t rows() const { return rows_; }
    // Pairs of all sequences, with hidden ones.
    [[nodiscard]] double pairs() const { return pairs_; }

    [[nodiscard]] RowId row(uint64_t n) const {
        const uint32_t b = holder(n);
        const uint64_t within = n - sequences_[b].rowsBefore, perHead = sequences_[b].queries;
        return {b, static_cast<uint32_t>(within / perHead), static_cast<uint32_t>(within % perHead)};
    }

  private:
    // Returns the last sequence with at most n before it. This sequence holds n, because empty
    // sequences have as many before them as the next one.
    [[nodiscard]] uint32_t holder(uint64_t n) const {
        const auto after = std::upper_bound(sequences_.begin(), sequences_.end(), n,
                                            [&](uint64_t value, const Sequence &s) { return value < s.rowsBefore; });
        return static_cast<uint32_t>(after - sequences_.begin() - 1);
    }

    uint32_t heads_;
    std::vector<Sequence> sequences_;
    uint64_t rows_ = 0;
    double pairs_ = 0;
};

} // namespace vkattn
