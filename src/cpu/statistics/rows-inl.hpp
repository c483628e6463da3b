// The statistics of a panel of rows, and what the rows give to the keys, for one Highway target.
//
// As in the forward pass (cpu/tiles-inl.hpp) a panel of rows fills two vectors, and each key is a
// broadcast: a row never leaves its lane. Pairs lie as [key][row].
#if defined(VKATTN_CPU_STATISTICS_ROWS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef VKATTN_CPU_STATISTICS_ROWS_INL_HPP
#undef VKATTN_CPU_STATISTICS_ROWS_INL_HPP
#else
#define VKATTN_CPU_STATISTICS_ROWS_INL_HPP
#endif

#include "cpu/statistics/work.hpp"

#include "cpu/key_values-inl.hpp"
#include "cpu/pair_rules-inl.hpp"
#include "cpu/tiles-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace vkattn {
namespace HWY_NAMESPACE {

class StatisticsOfRows {
  public:
    static constexpr uint32_t vectors = 2, panelRows = static_cast<uint32_t>(vectors * lanes);

    StatisticsOfRows(const StatisticsCall &call, const StatisticsUnit &unit, float *scratch)
        : call_(call), statistics_(call.statistics), p_(call.statistics.attention), at_(statistics_, panelRows),
          blockKeys_(blockKeysOf(p_)), scratch_(scratch), sequence_(call.sequences[unit.b]), s_(sequence_.s), unit_(unit),
          first_(unit.panel * panelRows), rows_(std::min(panelRows, s_.queries - std::min(s_.queries, first_))) {}

    void compute() {
        if (rows_) {
            placeRows();
            loadQueries();
            beginRows();
            for (uint32_t from = begin_; from < end_; from += blockKeys_) takeBlock(from, std::min(from + blockKeys_, end_));
            finishRows();
        }
        if (call_.heads || counts()) weighBlocks();
        if (rows_) storeRows();
    }

  private:
    // The score of a visible key that is minus infinity; minus infinity itself is the score of a hidden key.
    static constexpr float lowest = std::numeric_limits<float>::lowest();

    // A number for each row.
    struct RowNumbers {
        HWY_ALIGN float of[panelRows];
        [[nodiscard]] HWY_INLINE Vector load(size_t v) const { return hn::Load(Floats(), of + v * lanes); }
        HWY_INLINE void store(size_t v, Vector x) { hn::Store(x, Floats(), of + v * lanes); }
    };

    [[nodiscard]] float *part(size_t at) const { return scratch_ + at; }
    // The pairs of key j and of the keys after it, of the block in memory.
    [[nodiscard]] HWY_INLINE float *pairs(uint32_t j) const { return part(at_.scores) + size_t{j - blockFirst_} * panelRows; }
    [[nodiscard]] bool wantsColumns() const { return statistics_.uses(VKATTN_STATISTICS); }
    [[nodiscard]] bool counts() const { return wantsColumns() && statistics_.densityThreshold > 0; }
    [[nodiscard]] RowPlace placeOfRow(uint32_t r) const {
        const uint32_t group = p_.groupSize();
        return placeOf(p_, s_, unit_.h / group, uint64_t{first_ + r} * group + unit_.h % group);
    }
    template <class Visit> static void forTiles(uint32_t from, uint32_t to, const Visit &visit) {
        for (uint32_t tile = from; tile < to; tile += statisticsTileKeys) visit(tile, std::min(tile + statisticsTileKeys, to));
    }

    void placeRows() {
        begin_ = commonEnd_ = s_.keys;
        end_ = commonBegin_ = 0;
        for (uint32_t r = 0; r < panelRows; ++r) {
            if (r >= rows_) { // a lane without a row sees nothing
                panel_.set(r, call_.forward, unit_.b, panel_.places[rows_ - 1]);
                panel_.begin[r] = panel_.end[r] = 0;
                continue;
            }
            const RowPlace &own = panel_.places[r] = placeOfRow(r);
            panel_.set(r, call_.forward, unit_.b, own);
            if (own.begin < own.end) {
                begin_ = std::min(begin_, own.begin);
                end_ = std::max(end_, own.end);
            }
            commonBegin_ = std::max(commonBegin_, own.begin);
            commonEnd_ = std::min(commonEnd_, own.end);
        }
        begin_ = std::min(begin_, end_);
    }

    // Puts rows into lanes. Lanes without a row compute with zeros.
    void loadQueries() const {
        const Tensor &q = p_.tensor(VKATTN_Q);
        constexpr uint32_t together = panelRows < 4 ? 1 : 4;
        for (uint32_t r = 0; r < panelRows; r += together) {
            const float *from[4];
            for (uint32_t n = 0; n < together; ++n) {
                float *copy = part(at_.row) + size_t{n} * p_.headDim;
                from[n] = copy;
                if (r + n < rows_)
                    copyRows(storedRows(q, call_.forward.operands.data[VKATTN_Q], s_.batch, unit_.h, s_.query(first_ + r + n)), 1, copy, 0);
                else
                    std::fill(copy, copy + p_.headDim, 0.0f);
            }
            float *const to = part(at_.query) + r;
            if constexpr (together == 4)
                transposeFour(from, p_.headDim, to, panelRows);
            else
                for (uint32_t d = 0; d < p_.headDim; ++d) to[size_t{d} * panelRows] = from[0][d];
        }
    }

    void beginRows() {
        const Floats f;
        const auto fill = [&](RowNumbers &numbers, float x) {
            for (size_t v = 0; v < vectors; ++v) numbers.store(v, hn::Set(f, x));
        };
        fill(maximum_, minusInfinity);
        fill(largestKey_, -1.0f);
        for (RowNumbers &score : places_) fill(score, minusInfinity);
        for (RowNumbers *const sum :
             {&visible_, &spoiled_, &sum_, &logs_, &distance_, &signedDistance_, &squaredDistance_, &squares_, &dense_})
            fill(*sum, 0);
        const size_t top = size_t{statistics_.topCount()} * panelRows;
        std::fill(part(at_.topScores), part(at_.topScores) + top, lowest);
        std::fill(topKeys(), topKeys() + top, UINT32_MAX);
    }

    // Goes on with the keys [from, to), which take the place of the block before: the softmax is online.
    void takeBlock(uint32_t from, uint32_t to) {
        blockFirst_ = from;
        const RowNumbers old = maximum_;
        forTiles(from, to, [&](uint32_t first, uint32_t last) { computeTile<Round::first>(first, last); });
        judgeRows(to == end_);
        rescale(old);
        if (statistics_.topCount()) findTop(from, to);
        if (wantsColumns()) noteScoresOfPlaces(from, to);
        sumUp(from, to);
    }

    // The first round finds the maxima, and leaves scores: minus infinity where hidden. The second round knows
    // the maxima, and leaves exp(s - m): 0 where hidden.
    enum class Round { first, second };
    template <Round round> void computeTile(uint32_t first, uint32_t last) {
        const bool lookUps = hasLookUps(p_);
        bool hides = rows_ < panelRows || first < commonBegin_ || last > commonEnd_;
        if (lookUps) {
            const Pairs found =
                lookUpPairs(call_.forward, s_, unit_.b, panel_.places, rows_, first, last, part(at_.pairs), panelRows, p_.rules.showRuns());
            if (found == Pairs::noneVisible) {
                std::fill(pairs(first), pairs(last), round == Round::first ? minusInfinity : 0.0f);
                return;
            }
            hides |= found == Pairs::someVisible;
        }
        const TileRows keys =
            tileRows(rowsOf(call_.forward, VKATTN_K, s_, unit_.h / p_.groupSize(), first), last - first, false, part(at_.keys));
        scoreTile<vectors>(keys, last - first, part(at_.query), p_.headDim, p_.scale, pairs(first));
        for (size_t v = 0; v < vectors; ++v) {
            const Floats f;
            const LanePairs rule(p_, panel_, v);
            const auto one = hn::Set(f, 1.0f), infinity = hn::Set(f, std::numeric_limits<float>::infinity());
            auto maximum = maximum_.load(v), largestKey = largestKey_.load(v), visible = visible_.load(v), spoiled = spoiled_.load(v);
            const Exponent weight(maximum);
            for (uint32_t j = first; j < last; ++j) {
                float *const pair = pairs(j) + v * lanes;
                const float *const lookedUp = lookUps ? part(at_.pairs) + size_t{j - first} * panelRows + v * lanes : nullptr;
                auto score = rule.score(hn::Load(f, pair), j, lookedUp);
                score = hn::IfThenElse(isMinusInfinity(score), hn::Set(f, lowest), score);
                if constexpr (round == Round::second) {
                    const auto e = weight(score);
                    hn::Store(hides ? hn::IfThenElseZero(rule.visible(j, lookedUp), e) : e, f, pair);
                    continue;
                }
                if (hides) {
                    const auto seen = rule.visible(j, lookedUp);
                    score = hn::IfThenElse(seen, score, hn::Set(f, minusInfinity));
                    visible = hn::Add(visible, hn::IfThenElseZero(seen, one));
                } else {
                    visible = hn::Add(visible, one);
                }
                spoiled = hn::Add(spoiled, hn::IfThenElseZero(hn::Or(hn::IsNaN(score), hn::Eq(score, infinity)), one));
                const auto larger = hn::Gt(score, maximum);
                maximum = hn::IfThenElse(larger, score, maximum);
                largestKey = hn::IfThenElse(larger, hn::Set(f, static_cast<float>(j)), largestKey);
                hn::Store(score, f, pair);
            }
            if constexpr (round == Round::first)
                maximum_.store(v, maximum), largestKey_.store(v, largestKey), visible_.store(v, visible), spoiled_.store(v, spoiled);
        }
    }

    // A row without a maximum that scores can be subtracted from has NaN as its maximum. Whether a row sees
    // nothing but minus infinity is known after the last block.
    void judgeRows(bool last) {
        for (uint32_t r = 0; r < panelRows; ++r)
            if (spoiled_.of[r] > 0 || (last && visible_.of[r] > 0 && maximum_.of[r] <= lowest))
                maximum_.of[r] = std::numeric_limits<float>::quiet_NaN();
    }
    [[nodiscard]] bool undefined(uint32_t r) const { return std::isnan(maximum_.of[r]); }

    // Returns score - maximum, no farther below 0 than where exp is 0: 0 * infinity is NaN. A row that has not
    // seen a key yet has no maximum.
    [[nodiscard]] static HWY_INLINE Vector below(Vector score, Vector maximum) {
        const auto farthest = hn::Set(Floats(), -200.0f), difference = hn::Sub(score, Exponent(maximum).maximum);
        return hn::IfThenElse(hn::Lt(difference, farthest), farthest, difference);
    }
    [[nodiscard]] static HWY_INLINE Vector expOf(Vector x) { return exp2Of(hn::Mul(x, hn::Set(Floats(), log2e))); }

    // Sums had the maxima `old` in their exponents. Neither the differences of maxima nor the sum of logs is
    // above 0: nothing cancels.
    void rescale(const RowNumbers &old) {
        for (size_t v = 0; v < vectors; ++v) {
            const auto shift = below(old.load(v), maximum_.load(v)), factor = expOf(shift);
            logs_.store(v, hn::Mul(factor, hn::MulAdd(shift, sum_.load(v), logs_.load(v))));
            squares_.store(v, hn::Mul(hn::Mul(factor, factor), squares_.load(v)));
            for (RowNumbers *const sum : {&sum_, &distance_, &signedDistance_, &squaredDistance_})
                sum->store(v, hn::Mul(factor, sum->load(v)));
        }
    }

    // Inserts scores into the largest ones of their row, where a row of the vector has one. A score comes after
    // those that equal it.
    void findTop(uint32_t from, uint32_t to) const {
        const Floats f;
        const Ints i;
        const uint32_t count = statistics_.topCount();
        for (size_t v = 0; v < vectors; ++v) {
            float *const scores = part(at_.topScores) + v * lanes, *const keys = part(at_.topKeys) + v * lanes; // keys: as bits
            const float *const least = scores + size_t{count - 1} * panelRows;
            for (uint32_t j = from; j < to; ++j) {
                const auto score = hn::Load(f, pairs(j) + v * lanes);
                auto here = hn::Load(f, least);
                if (hn::AllFalse(f, hn::Gt(score, here))) continue;
                const auto key = hn::BitCast(f, hn::Set(i, static_cast<int32_t>(j)));
                auto larger = hn::Gt(score, here);
                for (size_t at = size_t{count - 1} * panelRows; at > 0; at -= panelRows) {
                    const auto before = hn::Load(f, scores + at - panelRows);
                    const auto largerToo = hn::Gt(score, before);
                    const auto keyMoved = hn::IfThenElse(largerToo, hn::Load(f, keys + at - panelRows), key);
                    hn::Store(hn::IfThenElse(larger, hn::IfThenElse(largerToo, before, score), here), f, scores + at);
                    hn::Store(hn::IfThenElse(larger, keyMoved, hn::Load(f, keys + at)), f, keys + at);
                    here = before;
                    larger = largerToo;
                }
                hn::Store(hn::IfThenElse(larger, score, here), f, scores);
                hn::Store(hn::IfThenElse(larger, key, hn::Load(f, keys)), f, keys);
            }
        }
    }
    [[nodiscard]] uint32_t *topKeys() const { return reinterpret_cast<uint32_t *>(part(at_.topKeys)); }

    // The keys that have columns of their own: i' - 1, i', i' + 1 and 0.
    enum Place { keyBefore, diagonal, keyAfter, firstKey, placeCount };
    void noteScoresOfPlaces(uint32_t from, uint32_t to) {
        for (uint32_t r = 0; r < rows_; ++r) {
            const int64_t position = panel_.places[r].position, keys[placeCount] = {position - 1, position, position + 1, 0};
            for (uint32_t place = 0; place < placeCount; ++place)
                if (keys[place] >= from && keys[place] < to) places_[place].of[r] = pairs(static_cast<uint32_t>(keys[place]))[r];
        }
    }

    // Replaces scores by exp(s - m), 0 where hidden, and sums up what the statistics are made of: tile by
    // tile, so that long rows add few terms of one size to a large sum.
    void sumUp(uint32_t from, uint32_t to) {
        forTiles(from, to, [&](uint32_t first, uint32_t last) {
            for (size_t v = 0; v < vectors; ++v) {
                if (wantsColumns())
                    sumTile<true>(first, last, v);
                else
                    sumTile<false>(first, last, v);
            }
        });
    }
    template <bool columns> HWY_INLINE void sumTile(uint32_t first, uint32_t last, size_t v) {
        const Floats f;
        const Ints i;
        const auto maximum = maximum_.load(v);
        const auto position = hn::Load(i, panel_.position + v * lanes);
        auto sum = hn::Zero(f), logs = hn::Zero(f), distances = hn::Zero(f), signedDistances = hn::Zero(f), squaredDistances = hn::Zero(f),
             squares = hn::Zero(f);
        for (uint32_t j = first; j < last; ++j) {
            float *const pair = pairs(j) + v * lanes;
            const auto score = hn::Load(f, pair), difference = below(score, maximum);
            const auto e = hn::IfThenZeroElse(isMinusInfinity(score), expOf(difference));
            hn::Store(e, f, pair);
            sum = hn::Add(sum, e);
            if constexpr (columns) {
                const auto distance = hn::ConvertTo(f, hn::Sub(hn::Set(i, static_cast<int32_t>(j)), position));
                const auto moved = hn::Mul(e, distance);
                logs = hn::MulAdd(e, difference, logs);
                distances = hn::Add(distances, hn::Abs(moved));
                signedDistances = hn::Add(signedDistances, moved);
                squaredDistances = hn::MulAdd(moved, distance, squaredDistances);
                squares = hn::MulAdd(e, e, squares);
            }
        }
        const auto add = [&](RowNumbers &to, Vector x) { to.store(v, hn::Add(to.load(v), x)); };
        add(sum_, sum);
        if constexpr (columns) {
            add(logs_, logs), add(distance_, distances), add(signedDistance_, signedDistances);
            add(squaredDistance_, squaredDistances), add(squares_, squares);
        }
    }

    // Makes weights of the scores that were kept.
    void finishRows() {
        for (uint32_t r = 0; r < panelRows; ++r) inverse_.of[r] = sum_.of[r] > 0 ? 1 / sum_.of[r] : 1; // of NaN: 1
        for (uint32_t r = 0; r < rows_; ++r)
            neighbours_[r] = (places_[keyBefore].of[r] != minusInfinity ? 1 : 0) + (places_[keyAfter].of[r] != minusInfinity ? 1 : 0);
        const Floats f;
        for (size_t v = 0; v < vectors; ++v) {
            const Exponent weight(maximum_.load(v));
            const auto weigh = [&](float *scores) {
                const auto score = hn::Load(f, scores);
                hn::Store(hn::IfThenZeroElse(isMinusInfinity(score), hn::Mul(weight(score), inverse_.load(v))), f, scores);
            };
            for (RowNumbers &place : places_) weigh(place.of + v * lanes);
            for (uint32_t t = 0; t < statistics_.topCount(); ++t) weigh(part(at_.topScores) + size_t{t} * panelRows + v * lanes);
        }
    }

    // The second round: what needs the weights of every pair. A single block is in memory already.
    void weighBlocks() {
        const bool inMemory = end_ - begin_ <= blockKeys_;
        const uint32_t keys = call_.heads ? sequence_.storedKeys : end_;
        for (uint32_t block = 0; block < keys; block += blockKeys_) {
            const uint32_t blockEnd = std::min(block + blockKeys_, keys);
            const uint32_t from = std::clamp(begin_, block, blockEnd), to = std::clamp(end_, from, blockEnd);
            if (from < to && !inMemory) {
                blockFirst_ = from;
                forTiles(from, to, [&](uint32_t first, uint32_t last) { computeTile<Round::second>(first, last); });
            }
            if (counts()) countDense(from, to);
            if (!call_.heads) continue;
            addRows(from, to);
            give(block, blockEnd, from, to);
        }
    }

    // Counts the weights above the threshold.
    void countDense(uint32_t from, uint32_t to) {
        const Floats f;
        const auto threshold = hn::Set(f, statistics_.densityThreshold), one = hn::Set(f, 1.0f);
        for (size_t v = 0; v < vectors; ++v) {
            const auto inverse = inverse_.load(v);
            auto dense = dense_.load(v);
            for (uint32_t j = from; j < to; ++j) {
                const auto weight = hn::Mul(hn::Load(f, pairs(j) + v * lanes), inverse);
                dense = hn::Add(dense, hn::IfThenElseZero(hn::Gt(weight, threshold), one));
            }
            dense_.store(v, dense);
        }
    }

    void storeRows() const {
        for (uint32_t r = 0; r < rows_; ++r) {
            if (wantsColumns()) storeColumns(r);
            for (uint32_t t = 0; t < statistics_.topCount(); ++t) storeTop(r, t);
        }
    }
    void storeColumns(uint32_t r) const {
        float columns[VKATTN_STATISTIC_COUNT] = {};
        columns[VKATTN_STATISTIC_LARGEST_KEY] = columns[VKATTN_STATISTIC_LOCALITY] = -1;
        if (undefined(r))
            std::fill(std::begin(columns), std::end(columns), std::numeric_limits<float>::quiet_NaN());
        else if (visible_.of[r] > 0)
            setColumns(r, columns);
        for (uint32_t column = 0; column < VKATTN_STATISTIC_COUNT; ++column) store(VKATTN_STATISTICS, r, column, columns[column]);
    }
    void setColumns(uint32_t r, float (&columns)[VKATTN_STATISTIC_COUNT]) const {
        const float inverse = inverse_.of[r];
        const auto entropy = std::log(static_cast<double>(sum_.of[r])) - static_cast<double>(logs_.of[r]) * static_cast<double>(inverse);
        columns[VKATTN_STATISTIC_ENTROPY] = static_cast<float>(std::max(entropy, 0.0));
        columns[VKATTN_STATISTIC_LARGEST] = inverse; // exp(0) over the sum
        columns[VKATTN_STATISTIC_LARGEST_KEY] = largestKey_.of[r];
        columns[VKATTN_STATISTIC_DISTANCE] = distance_.of[r] * inverse;
        columns[VKATTN_STATISTIC_DIAGONAL] = places_[diagonal].of[r];
        columns[VKATTN_STATISTIC_FIRST] = places_[firstKey].of[r];
        columns[VKATTN_STATISTIC_SQUARES] = squares_.of[r] * inverse * inverse;
        columns[VKATTN_STATISTIC_VISIBLE] = visible_.of[r];
        if (neighbours_[r])
            columns[VKATTN_STATISTIC_LOCALITY] = (places_[keyBefore].of[r] + places_[keyAfter].of[r]) / static_cast<float>(neighbours_[r]);
        columns[VKATTN_STATISTIC_SIGNED_DISTANCE] = signedDistance_.of[r] * inverse;
        columns[VKATTN_STATISTIC_SQUARED_DISTANCE] = squaredDistance_.of[r] * inverse;
        if (counts()) columns[VKATTN_STATISTIC_DENSITY] = dense_.of[r] / visible_.of[r];
    }
    void storeTop(uint32_t r, uint32_t t) const {
        const size_t at = size_t{t} * panelRows + r;
        const uint32_t key = undefined(r) ? UINT32_MAX : topKeys()[at];
        const float weight = undefined(r) ? std::numeric_limits<float>::quiet_NaN() : key == UINT32_MAX ? 0.0f : part(at_.topScores)[at];
        store(VKATTN_TOP_WEIGHTS, r, t, weight);
        store(VKATTN_TOP_KEYS, r, t, std::bit_cast<float>(key));
    }
    void store(vkattn_role role, uint32_t r, uint32_t column, float value) const {
        storeElement(call_.forward.operands.data[role], VKATTN_F32,
                     statistics_.tensor(role).index(s_.batch, unit_.h, s_.query(first_ + r), column), value);
    }

    // Adds up over the rows what each key receives. The sum takes the place of the key's first pair.
    void addRows(uint32_t from, uint32_t to) const {
        const Floats f;
        for (uint32_t j = from; j < to; ++j) {
            float *const pair = pairs(j);
            auto sum = hn::Mul(hn::Load(f, pair), inverse_.load(0));
            for (size_t v = 1; v < vectors; ++v) sum = hn::MulAdd(hn::Load(f, pair + v * lanes), inverse_.load(v), sum);
            pair[0] = hn::GetLane(hn::SumOfLanes(f, sum));
        }
    }
    // Gives to the keys [from, to) of a block, whose end is blockEnd, after the panels before. The rows are
    // counted at the first block. The last panel of a head comes there last: it knows the rows of all panels.
    void give(uint32_t block, uint32_t blockEnd, uint32_t from, uint32_t to) const {
        std::atomic<uint32_t> &turn =
            call_.turns[sequence_.turnsBefore + uint64_t{unit_.h} * sequence_.blocks(blockKeys_) + block / blockKeys_];
        uint32_t &rows = call_.heads[uint64_t{unit_.b} * p_.heads + unit_.h];
        const Tensor &t = statistics_.received;
        unsigned char *const data = call_.forward.operands.data[VKATTN_RECEIVED];
        const auto indexOf = [&](uint32_t j) { return t.index(s_.batch, unit_.h, s_.key(j), 0); };
        waitFor(turn, unit_.panel);
        if (unit_.panel == 0)
            for (uint32_t j = block; j < blockEnd; ++j) storeElement(data, VKATTN_F32, indexOf(j), 0.0f);
        for (uint32_t r = 0; block == 0 && r < rows_; ++r) rows += visible_.of[r] > 0 ? 1 : 0;
        for (uint32_t j = from; j < to; ++j) {
            const uint64_t at = indexOf(j);
            storeElement(data, VKATTN_F32, at, loadElement(data, VKATTN_F32, at) + pairs(j)[0]);
        }
        if (unit_.panel + 1 == sequence_.panels && rows)
            for (uint32_t j = block; j < blockEnd; ++j) {
                const uint64_t at = indexOf(j);
                storeElement(data, VKATTN_F32, at, loadElement(data, VKATTN_F32, at) / static_cast<float>(rows));
            }
        turn.store(unit_.panel + 1, std::memory_order_release);
    }

    const StatisticsCall &call_;
    const Statistics &statistics_;
    const Problem &p_;
    const StatisticsScratch at_;
    const uint32_t blockKeys_;
    float *scratch_;
    const StatisticsSequence &sequence_;
    const Sequence &s_;
    const StatisticsUnit unit_;
    const uint32_t first_, rows_;
    uint32_t begin_ = 0, end_ = 0;             // the keys that some row can reach
    uint32_t blockFirst_ = 0;                  // the first key of the block in memory
    uint32_t commonBegin_ = 0, commonEnd_ = 0; // the keys that all rows can reach
    PanelRows<vectors> panel_;
    RowNumbers maximum_, largestKey_, visible_, spoiled_; // spoiled: scores that are NaN or infinity
    RowNumbers sum_, inverse_, logs_, distance_, signedDistance_, squaredDistance_, squares_, dense_;
    RowNumbers places_[placeCount]; // scores, and weights in the end
    uint32_t neighbours_[panelRows];
};

} // namespace HWY_NAMESPACE
} // namespace vkattn
HWY_AFTER_NAMESPACE();
#endif
