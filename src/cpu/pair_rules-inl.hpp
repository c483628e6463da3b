// The rules for one pair of a query and a key by the formulas of problem.h, for one Highway target:
// whether the key is visible, and what its score is. A new term of the scores, or a new way to hide
// keys, is written in this file, and once more in oracle/pair.hpp. The two files share nothing, on
// purpose.
//
// There are six kinds of rules. A row's reach (position and window) is a range of keys. Rules of
// cpu/rules.hpp show runs of keys. Facts
// that memory holds for each pair (bias, masks, documents) are looked up for a tile of pairs at a
// time. Scores are computed with query rows in lanes. Dropout draws random words, of four keys and a
// vector of rows at once. The hooks of a program are functions of the host's, which are asked about one
// pair at a time.
#if defined(VKATTN_CPU_PAIR_RULES_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef VKATTN_CPU_PAIR_RULES_INL_HPP
#undef VKATTN_CPU_PAIR_RULES_INL_HPP
#else
#define VKATTN_CPU_PAIR_RULES_INL_HPP
#endif

#include "cpu/attention.hpp"
#include "cpu/program.hpp"

#include "cpu/vectors-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace vkattn {
namespace HWY_NAMESPACE {

// Returns whether bias, masks, documents, absent pages or a program must be looked up for each query and key.
inline bool hasPairLookUps(const Problem &p) {
    return p.tensor(VKATTN_BIAS).present() || p.tensor(VKATTN_MASK).present() || p.tensor(VKATTN_BIT_MASK).present() ||
           p.has(VKATTN_DOC_IDS_Q) || p.pagesMayBeAbsent || p.program.hides();
}
// The same, or what rules show.
inline bool hasLookUps(const Problem &p) {
    return p.rules.showRuns() || hasPairLookUps(p);
}
// Returns whether each score is scale * dot(q_i, k_j), and each key within a row's reach that
// rules show is visible.
inline bool hasPlainScores(const Problem &p) {
    return !hasPairLookUps(p) && !(p.softcap > 0) && !p.has(VKATTN_ALIBI_SLOPES) && !p.program.scores() && !p.program.weighs() &&
           !p.program.sumless();
}
// The same, and rules hide no key within the reach.
inline bool isPlain(const Problem &p) {
    return hasPlainScores(p) && !p.rules.showRuns();
}

// One query row, and the keys within its reach: begin <= j < end.
struct RowPlace {
    uint32_t head, query;
    int64_t position; // i' of problem.h
    uint32_t begin, end;
    uint32_t queryTokens, keyTokens; // of the batch entry
};

inline RowPlace placeOf(const Problem &p, const Sequence &s, uint32_t kvHead, uint64_t row) {
    const uint32_t group = p.groupSize();
    RowPlace place;
    // A division takes longer than everything else here.
    place.head = kvHead * group + (group == 1 ? 0 : static_cast<uint32_t>(row % group));
    place.query = static_cast<uint32_t>(group == 1 ? row : row / group);
    place.position = place.query + s.shift;
    const int64_t keys = s.keys;
    place.queryTokens = s.queries, place.keyTokens = s.keys;
    place.begin = static_cast<uint32_t>(std::clamp<int64_t>(place.position - p.left, 0, keys));
    int64_t last = place.position + p.right;
    if (p.has(VKATTN_PREFIX_LENGTHS)) last = std::min(last, std::max(place.position, int64_t{s.prefix} - 1));
    place.end = std::max(place.begin, static_cast<uint32_t>(std::clamp<int64_t>(last + 1, 0, keys)));
    if (p.rules.grid.rule != VKATTN_GRID_NONE) {
        const KeyRun range = outerRange(p.rules, place.position);
        place.begin = std::max(place.begin, std::min(range.begin, s.keys));
        place.end = std::max(place.begin, std::min(place.end, range.end));
    }
    return place;
}

template <vkattn_dtype dtype>
void copyBias(const unsigned char *data, uint64_t at, uint64_t step, uint32_t count, float *out, uint32_t stride) {
    for (uint32_t j = 0; j < count; ++j, at += step) out[size_t{j} * stride] = loadElement(data, dtype, at);
}

inline RowRules rulesOf(const Call &call, const Sequence &s, uint32_t b, const RowPlace &place, QuietKeys *quiet = nullptr) {
    return {call.p, call.operands, call.blocks, s, b, place.head, place.query, place.position, quiet};
}
// What a row before the one at hand was shown, where both have one reach.
struct ShownBefore {
    const void *keys = nullptr; // RowRules::sharedKeys
    uint32_t begin = 0, end = 0;
};
// Returns the first key of [from, end) that is within the row's reach and that the rules show; `end` where none is, and where the
// row before has been asked the same.
inline uint32_t firstShown(const Call &call, const Sequence &s, uint32_t b, const RowPlace &place, uint32_t from, uint32_t end,
                           QuietKeys &quiet, ShownBefore &before) {
    const uint32_t begin = std::max(from, place.begin), last = std::min(end, place.end);
    if (begin >= last) return end;
    const RowRules rules = rulesOf(call, s, b, place, &quiet);
    if (rules.sharedKeys() && rules.sharedKeys() == before.keys && place.begin == before.begin && place.end == before.end) return end;
    before = {rules.sharedKeys(), place.begin, place.end};
    const uint32_t shown = rules.next(begin, last).begin;
    return shown < last ? shown : end;
}

// Returns the keys of [from, end) between the first and the last that the rules show to one of the rows.
inline KeyRun shownRange(const Call &call, const Sequence &s, uint32_t b, const RowPlace *places, uint32_t rows, uint32_t from,
                         uint32_t end) {
    KeyRun all{end, from};
    const void *before = nullptr;
    for (uint32_t r = 0; r < rows; ++r) {
        const RowRules rules = rulesOf(call, s, b, places[r]);
        if (rules.sharedKeys() && rules.sharedKeys() == before) continue;
        before = rules.sharedKeys();
        const KeyRun own = rules.range(from, end);
        if (own.begin >= end) continue;
        all = {std::min(all.begin, own.begin), std::max(all.end, own.end)};
    }
    return all;
}

// What a program's hooks are told of a row's pairs, for key 0.
inline vkattn_program_pair pairsOf(const Call &call, uint32_t b, const RowPlace &place) {
    return programPair(call.p, call.operands, b, place.head, place.query, place.position, place.queryTokens, place.keyTokens);
}

enum class Pairs { noneVisible, someVisible, allVisible };
// Looks pairs up for the rows places[0, rows) and the keys [begin, end):
// out[(j - begin) * stride + row] becomes the bias (0 without a bias), or minus infinity where
// mask, bit mask, documents, an absent page, a program or the bias itself hide the pair. Reach is not looked at, and
// what rules show only with `rulesHide`.
inline Pairs lookUpPairs(const Call &call, const Sequence &s, uint32_t b, const RowPlace *places, uint32_t rows, uint32_t begin,
                         uint32_t end, float *out, uint32_t stride, bool rulesHide) {
    const Problem &p = call.p;
    const Tensor &bias = p.tensor(VKATTN_BIAS), &mask = p.tensor(VKATTN_MASK), &bits = p.tensor(VKATTN_BIT_MASK);
    const uint32_t count = end - begin;
    if (rulesHide) { // mostly all rows see all of it or nothing
        bool any = false, all = true;
        const void *before = nullptr;
        for (uint32_t r = 0; r < rows; ++r) {
            const RowRules rules = rulesOf(call, s, b, places[r]);
            if (rules.sharedKeys() && rules.sharedKeys() == before) continue;
            before = rules.sharedKeys();
            const KeyRun run = rules.next(begin, end);
            any = any || run.begin < end;
            all = all && run.begin == begin && run.end >= end;
        }
        if (!any) return Pairs::noneVisible;
        if (all && !hasPairLookUps(p)) {
            std::fill(out, out + size_t{count} * stride, 0.0f);
            return Pairs::allVisible;
        }
        rulesHide = !all;
    }
    std::fill(out, out + size_t{count} * stride, 0.0f);
    uint64_t visible = 0;
    for (uint32_t r = 0; r < rows; ++r) {
        const uint32_t h = places[r].head, i = places[r].query;
        float *row = out + r;
        if (bias.present()) {
            const unsigned char *data = call.operands.data[VKATTN_BIAS];
            const uint64_t at = bias.index(b, h, i, begin), step = static_cast<uint64_t>(bias.stride[3]);
            if (bias.dtype == VKATTN_F32)
                copyBias<VKATTN_F32>(data, at, step, count, row, stride);
            else if (bias.dtype == VKATTN_F16)
                copyBias<VKATTN_F16>(data, at, step, count, row, stride);
            else
                copyBias<VKATTN_BF16>(data, at, step, count, row, stride);
        }
        if (mask.present()) {
            const unsigned char *data = call.operands.data[VKATTN_MASK];
            const uint64_t step = static_cast<uint64_t>(mask.stride[3]);
            uint64_t at = mask.index(b, h, i, begin);
            for (uint32_t j = 0; j < count; ++j, at += step)
                if (data[at] == 0) row[size_t{j} * stride] = minusInfinity;
        }
        if (bits.present()) {
            uint32_t word = 0;
            for (uint32_t j = 0; j < count; ++j) {
                const uint32_t key = begin + j;
                if (j == 0 || key % 32 == 0) word = call.operands.word(VKATTN_BIT_MASK, bits.index(b, h, i, key / 32));
                if (!(word >> key % 32 & 1u)) row[size_t{j} * stride] = minusInfinity;
            }
        }
        if (p.has(VKATTN_DOC_IDS_Q)) {
            const uint64_t queries = p.tensor(VKATTN_Q).extent[2], keys = p.keyExtent();
            const uint32_t document = call.operands.word(VKATTN_DOC_IDS_Q, s.batch * queries + s.query(i));
            const uint64_t first = s.batch * keys + s.key(begin);
            for (uint32_t j = 0; j < count; ++j)
                if (call.operands.word(VKATTN_DOC_IDS_K, first + j) != document) row[size_t{j} * stride] = minusInfinity;
        }
        if (p.pagesMayBeAbsent) {
            const Pages pages{p, call.operands, s.batch};
            for (uint32_t key = begin, next; key < end; key = next) {
                next = std::min(pages.endOfPage(key), end);
                if (!pages.isAbsent(key)) continue;
                for (uint32_t hidden = key; hidden < next; ++hidden) row[size_t{hidden - begin} * stride] = minusInfinity;
            }
        }
        if (p.program.hides()) {
            vkattn_program_pair pair = pairsOf(call, b, places[r]);
            for (pair.key = begin; pair.key < end; ++pair.key)
                if (!p.program.program->visible(&pair)) row[size_t{pair.key - begin} * stride] = minusInfinity;
        }
        if (rulesHide) {
            const RowRules rules = rulesOf(call, s, b, places[r]);
            for (uint32_t key = begin; key < end;) {
                const KeyRun run = rules.next(key, end);
                for (; key < run.begin; ++key) row[size_t{key - begin} * stride] = minusInfinity;
                key = run.end;
            }
        }
        for (uint32_t j = 0; j < count; ++j) visible += row[size_t{j} * stride] != minusInfinity;
    }
    return visible == 0 ? Pairs::noneVisible : visible == uint64_t{count} * rows ? Pairs::allVisible : Pairs::someVisible;
}

// The rows of a panel as scores and visibility need them, one row a lane. Lanes without a row
// repeat the last row.
template <size_t vectors> struct PanelRows {
    static constexpr size_t count = vectors * lanes;
    RowPlace places[count];
    HWY_ALIGN int32_t position[count], begin[count], end[count];
    HWY_ALIGN float slope[count];
    HWY_ALIGN uint32_t query[count], plane[count]; // of the counter of dropout
    vkattn_program_pair pairs[count];              // with a program that changes scores or probabilities

    void set(size_t lane, const Call &call, uint32_t b, const RowPlace &row) {
        position[lane] = static_cast<int32_t>(row.position);
        begin[lane] = static_cast<int32_t>(row.begin);
        end[lane] = static_cast<int32_t>(row.end);
        slope[lane] = call.p.has(VKATTN_ALIBI_SLOPES) ? call.operands.number(VKATTN_ALIBI_SLOPES, row.head) : 0.0f;
        query[lane] = row.query;
        plane[lane] = b * call.p.heads + row.head;
        if (call.p.program.scores() || call.p.program.weighs()) pairs[lane] = pairsOf(call, b, row);
    }
};

// The rules for one vector of a panel's rows. `lookedUp` is the result of lookUpPairs for a key and
// these rows, or NULL without look-ups.
class LanePairs {
  public:
    template <size_t vectors>
    HWY_INLINE LanePairs(const Problem &p, const PanelRows<vectors> &rows, size_t vector)
        : softcap_(p.softcap > 0), bias_(p.tensor(VKATTN_BIAS).present()), alibi_(p.has(VKATTN_ALIBI_SLOPES)),
          cap_(hn::Set(Floats(), p.softcap)), slope_(hn::Load(Floats(), rows.slope + vector * lanes)),
          position_(hn::Load(Ints(), rows.position + vector * lanes)), begin_(rows.begin + vector * lanes), end_(rows.end + vector * lanes),
          program_(p.program.program), scores_(p.program.scores()), slopes_((p.program.hooks & VKATTN_HOOK_SCORE_SLOPE) != 0),
          pairs_(rows.pairs + vector * lanes) {}

    // Returns scores after softcap from scale * dot(q_i, k_j).
    HWY_INLINE Vector capped(Vector s) const { return softcap_ ? hn::Mul(cap_, tanhOf(hn::Div(s, cap_))) : s; }
    // Returns the scores of key j from scale * dot(q_i, k_j).
    HWY_INLINE Vector score(Vector s, uint32_t j, const float *lookedUp) const {
        s = unhooked(s, j, lookedUp);
        return scores_ ? hooked(s, j, program_->score) : s;
    }
    // Returns what the probabilities of key j are multiplied with. The problem has a program that does so.
    HWY_INLINE Vector weighing(uint32_t j) const { return hooked(hn::Set(Floats(), 1.0f), j, program_->probability); }
    // Returns what the gradients of these scores are multiplied with, to be those of the scores without a program.
    HWY_INLINE Vector slope(Vector s, uint32_t j, const float *lookedUp) const {
        return slopes_ ? hooked(unhooked(s, j, lookedUp), j, program_->scoreSlope) : hn::Set(Floats(), 1.0f);
    }

  private:
    HWY_INLINE Vector unhooked(Vector s, uint32_t j, const float *lookedUp) const {
        const Floats f;
        const Ints i;
        s = capped(s);
        if (bias_) s = hn::Add(s, hn::Load(f, lookedUp));
        if (alibi_) {
            const auto distance = hn::Abs(hn::Sub(hn::Set(i, static_cast<int32_t>(j)), position_));
            s = hn::NegMulAdd(slope_, hn::ConvertTo(f, distance), s);
        }
        return s;
    }
    Vector hooked(Vector s, uint32_t j, double (*hook)(double, const vkattn_program_pair *)) const {
        HWY_ALIGN float each[lanes];
        hn::Store(s, Floats(), each);
        for (size_t lane = 0; lane < lanes; ++lane) {
            vkattn_program_pair pair = pairs_[lane];
            pair.key = j;
            each[lane] = static_cast<float>(hook(static_cast<double>(each[lane]), &pair));
        }
        return hn::Load(Floats(), each);
    }

  public:
    // Returns which rows see key j.
    HWY_INLINE LaneMask visible(uint32_t j, const float *lookedUp) const {
        const Ints i;
        const auto key = hn::Set(i, static_cast<int32_t>(j));
        auto hidden = hn::Or(hn::VecFromMask(i, hn::Gt(hn::Load(i, begin_), key)),
                             hn::VecFromMask(i, hn::Gt(hn::Add(key, hn::Set(i, 1)), hn::Load(i, end_))));
        if (lookedUp) hidden = hn::Or(hidden, hn::BitCast(i, hn::VecFromMask(Floats(), isMinusInfinity(hn::Load(Floats(), lookedUp)))));
        return hn::RebindMask(Floats(), hn::Eq(hidden, hn::Zero(i)));
    }

    // Returns |j - i'|.
    HWY_INLINE Vector distance(uint32_t j) const {
        return hn::ConvertTo(Floats(), hn::Abs(hn::Sub(hn::Set(Ints(), static_cast<int32_t>(j)), position_)));
    }

  private:
    bool softcap_, bias_, alibi_;
    Vector cap_, slope_;
    hn::Vec<Ints> position_;
    const int32_t *begin_, *end_;
    const vkattn_program *program_;
    bool scores_, slopes_;
    const vkattn_program_pair *pairs_;
};

// Computes the low and the high words of factor * x.
HWY_INLINE void multiplyWide(uint32_t factor, hn::Vec<Words> x, hn::Vec<Words> &low, hn::Vec<Words> &high) {
    const Words u;
#if HWY_TARGET == HWY_SCALAR // no vectors of twice the width
    const uint64_t product = uint64_t{factor} * hn::GetLane(x);
    low = hn::Set(u, static_cast<uint32_t>(product));
    high = hn::Set(u, static_cast<uint32_t>(product >> 32));
#else
    const hn::Repartition<uint64_t, Words> wide;
    const auto by = hn::Set(u, factor);
    const auto even = hn::MulEven(by, x), odd = hn::MulEven(by, hn::BitCast(u, hn::ShiftRight<32>(hn::BitCast(wide, x))));
    low = hn::Mul(by, x);
    high = hn::OddEven(hn::BitCast(u, odd), hn::BitCast(u, hn::ShiftRight<32>(even)));
#endif
}

// Which pairs dropout drops, for one vector of a panel's rows.
class LaneDropout {
  public:
    template <size_t vectors>
    HWY_INLINE LaneDropout(const Problem &p, const PanelRows<vectors> &rows, size_t vector)
        : p_(p), query_(hn::Load(Words(), rows.query + vector * lanes)), plane_(hn::Load(Words(), rows.plane + vector * lanes)),
          last_(hn::Set(Words(), static_cast<uint32_t>(p.dropoutThreshold - 1))) {}

    // Draws the words of the keys 4 * block to 4 * block + 3: Philox4x32-10 (problem.h).
    HWY_INLINE void draw(uint32_t block) {
        const Words u;
        auto c0 = hn::Set(u, block), c1 = query_, c2 = plane_, c3 = hn::Set(u, p_.dropoutOffset);
        auto k0 = static_cast<uint32_t>(p_.dropoutSeed), k1 = static_cast<uint32_t>(p_.dropoutSeed >> 32);
        for (int round = 0; round < 10; ++round, k0 += 0x9e3779b9u, k1 += 0xbb67ae85u) {
            hn::Vec<Words> firstLow, firstHigh, secondLow, secondHigh;
            multiplyWide(0xd2511f53u, c0, firstLow, firstHigh);
            multiplyWide(0xcd9e8d57u, c2, secondLow, secondHigh);
            c0 = hn::Xor(hn::Xor(secondHigh, c1), hn::Set(u, k0));
            c2 = hn::Xor(hn::Xor(firstHigh, c3), hn::Set(u, k1));
            c1 = secondLow;
            c3 = firstLow;
        }
        hn::Store(c0, u, words_);
        hn::Store(c1, u, words_ + lanes);
        hn::Store(c2, u, words_ + 2 * lanes);
        hn::Store(c3, u, words_ + 3 * lanes);
    }
    // Returns the rows that keep key j, of the block drawn last.
    HWY_INLINE LaneMask keeps(uint32_t j) const {
        const Words u;
        return hn::RebindMask(Floats(), hn::Gt(hn::Load(u, words_ + size_t{j % 4} * lanes), last_));
    }

  private:
    const Problem &p_;
    hn::Vec<Words> query_, plane_, last_;
    HWY_ALIGN uint32_t words_[4 * lanes];
};

} // namespace HWY_NAMESPACE
} // namespace vkattn
HWY_AFTER_NAMESPACE();
#endif
