// Element-by-element comparison of statistics with the oracle, by the rules of docs/numerics.md,
// "Statistics".
#include "cpu/entry.hpp"
#include "cpu/oracle/comparison.hpp"
#include "cpu/statistics/oracle_row.hpp"
#include "cpu/statistics/statistics.hpp"

#include <cstring>
#include <functional>
#include <memory>

namespace vkattn {
namespace {

constexpr double notANumber = std::numeric_limits<double>::quiet_NaN();

// By how much the scores and the weights of a row may be off; see docs/numerics.md.
class WeightErrors {
  public:
    // What a weight may be: exp(leastLog) to exp(mostLog), and `least` to `most` where weights that underflow
    // may be 0.
    struct Range {
        double leastLog, mostLog, least, most;
    };
    std::vector<double> score; // of s_ij
    std::vector<Range> weight; // of p_ij
    double summation = 0;      // the share of its terms' sizes that a sum over the keys may be off by
    double ofProbability = 0;  // the share of itself that exp(s_ij) may be off by
    bool overflowed = false;   // fp32 overflows on finite input: any answer is right

    // Returns by how much the weight of pair n may be off, on either side.
    [[nodiscard]] double error(const StatisticsRow &row, size_t n) const {
        const double p = row.pairs[n].weight;
        return std::max(p - weight[n].least, weight[n].most - p);
    }

    void compute(const Problem &p, const StatisticsRow &row, const HeadKeysValues &kv, const vkattn_verify_options &options) {
        const size_t count = row.pairs.size();
        ofProbability = 1e-5 + static_cast<double>(options.probabilityUnit);
        const double floor = std::max<double>(static_cast<double>(options.probabilityFloor), leastWeight);
        summation = (static_cast<double>(count) + 16) * unitRoundoff;
        computeScores(p, row, kv);
        weight.assign(count, {-infinite, -infinite, 0, floor});
        if (row.undefined()) return; // NaN is compared with NaN
        const double normalizer = errorOfNormalizer(row), rounding = ofProbability + summation;
        for (size_t n = 0; n < count; ++n) {
            // From ln p_ij: p_ij itself may have underflowed where s_ij is off by more than that.
            const double log = row.logOfWeight(row.pairs[n]), error = score[n] + normalizer + rounding;
            Range &range = weight[n];
            range.leastLog = log - error;
            range.mostLog = std::min(log + error, rounding);
            range.least = std::max(std::exp(range.leastLog) - floor, 0.0);
            range.most = std::exp(range.mostLog) + floor;
        }
    }

  private:
    static constexpr double leastWeight = 1e-37; // what underflows may be 0

    [[nodiscard]] static double finiteOr0(double x) { return std::isfinite(x) ? x : 0; }

    // Returns the error of ln sum_j exp(s_ij): ln sum_j p_ij exp(error of s_ij).
    [[nodiscard]] double errorOfNormalizer(const StatisticsRow &row) const {
        double most = -infinite, sum = 0;
        const auto logOf = [&](size_t n) { return row.logOfWeight(row.pairs[n]) + score[n]; };
        for (size_t n = 0; n < row.pairs.size(); ++n) most = std::max(most, logOf(n));
        for (size_t n = 0; n < row.pairs.size(); ++n) sum += std::exp(logOf(n) - most);
        return sum > 0 ? std::max(most + std::log(sum), 0.0) : 0;
    }

    void computeScores(const Problem &p, const StatisticsRow &row, const HeadKeysValues &kv) {
        const size_t count = row.pairs.size();
        const double scale = std::abs(static_cast<double>(p.scale));
        score.assign(count, 0.0), absolute_.resize(count), flushed_.resize(count);
        overflowed = false;
        // The largest error of the plain fp32 sum of products, as a share of the sizes of its terms: what a
        // long sum of terms of one sign comes to.
        double roughness = 0;
        for (size_t n = 0; n < count; ++n) {
            const StatisticsPair &pair = row.pairs[n];
            const float *k = kv.key(pair.j);
            double absolute = 0, flushed = 0;
            for (size_t e = 0; e < row.query.size(); ++e) {
                const double own = std::abs(row.query[e]), other = std::abs(static_cast<double>(k[e]));
                absolute += finiteOr0(own * other);
                flushed += finiteOr0(own) + finiteOr0(other) + 1;
            }
            overflowed |= !(absolute * std::max(scale, 1.0) <= mostOfFp32) || finiteOr0(pair.added) > mostOfFp32;
            absolute_[n] = scale * absolute;
            flushed_[n] = flushed * smallestNormal * std::max(scale, 1.0);
            const double error = std::abs(static_cast<double>(emulatedProduct(p, row.query, k)) - cappedProduct(p, pair.dot));
            if (std::isfinite(error) && absolute_[n] > 0x1p-60) roughness = std::max(roughness, error / absolute_[n]);
        }
        const double common =
            8 * unitRoundoff * std::abs(finiteOr0(row.maximum)) + (p.softcap > 0 ? 2e-6 * static_cast<double>(p.softcap) : 0);
        for (size_t n = 0; n < count; ++n)
            if (std::isfinite(row.pairs[n].score))
                score[n] =
                    2 * ((4 * unitRoundoff + roughness) * absolute_[n] + 2 * unitRoundoff * row.pairs[n].added) + flushed_[n] + common;
    }

    std::vector<double> absolute_, flushed_;
};

// The mean that a key receives, and what is known of its rounding.
struct JudgedMean {
    double value = 0, least = 0, most = 0;
    bool free = false; // a row that sees the key overflows in fp32 on finite input
};

class StatisticsChecker {
  public:
    StatisticsChecker(const Statistics &statistics, const Operands &operands, const vkattn_verify_options &options)
        : statistics_(statistics), p_(statistics.attention), operands_(operands), options_(options) {}

    void checkRow(const Sequence &s, uint32_t b, uint32_t h, uint32_t i) {
        row_.compute(statistics_, operands_, s, kv, b, h, i);
        errors_.compute(p_, row_, kv, options_);
        place_ = {b, h, i, s.batch, s.query(i)};
        // What must be NaN must be NaN: more than fp32 can hold only makes more of it.
        free_ = errors_.overflowed && !row_.undefined();
        if (statistics_.uses(VKATTN_STATISTICS)) checkColumns();
        if (statistics_.topCount()) checkTop();
    }

    // A head with all of its rows, and what its keys receive.
    void checkHead(const Sequence &s, uint32_t b, uint32_t h) {
        received_.assign(s.keys, {});
        double rows = 0; // that see a key
        for (uint32_t i = 0; i < s.queries; ++i) {
            checkRow(s, b, h, i);
            if (row_.seen()) ++rows;
            for (size_t n = 0; n < row_.pairs.size(); ++n) {
                JudgedMean &mean = received_[row_.pairs[n].j];
                mean.value += row_.undefined() ? notANumber : row_.pairs[n].weight;
                mean.least += errors_.weight[n].least;
                mean.most += errors_.weight[n].most;
                mean.free |= free_;
            }
        }
        const uint32_t keys = p_.ragged() ? s.keys : p_.keyTokens;
        for (uint32_t j = 0; j < keys; ++j) {
            const JudgedMean sum = j < s.keys && rows > 0 ? received_[j] : JudgedMean{};
            const double mean = rows > 0 ? sum.value / rows : 0;
            // A key that no row sees receives exactly 0.
            const bool seen = sum.most > 0;
            const double rounding = seen ? (rows + 16) * unitRoundoff * sum.most / rows + halfUlp(mean, VKATTN_F32) : 0;
            const double less = seen ? (sum.value - sum.least) / rows + rounding : 0,
                         more = seen ? (sum.most - sum.value) / rows + rounding : 0;
            free_ = sum.free && !std::isnan(mean);
            check(VKATTN_RECEIVED, {b, h, j, 0}, {s.batch, h, s.key(j), 0}, mean, less, more);
        }
    }

    Tally tally;
    HeadKeysValues kv; // of the head that is checked

  private:
    // Calls visit(pair, p_ij, the bound of its error) for every visible pair.
    template <class Visit> void forPairs(const Visit &visit) const {
        for (size_t n = 0; n < row_.pairs.size(); ++n) visit(row_.pairs[n], row_.pairs[n].weight, errors_.error(row_, n));
    }
    // Returns the bound of sum_j p_ij f_j; of(pair) is f_j.
    template <class Of> [[nodiscard]] double boundOfSum(const Of &of) const {
        double error = 0, size = 0;
        forPairs([&](const StatisticsPair &pair, double p, double errorOfP) {
            error += std::abs(of(pair)) * errorOfP;
            size += std::abs(of(pair)) * (p + errorOfP);
        });
        return error + errors_.summation * size;
    }
    [[nodiscard]] double boundOfKey(int64_t j) const {
        const StatisticsPair *const pair = row_.find(j);
        return pair ? errors_.error(row_, static_cast<size_t>(pair - row_.pairs.data())) : 0;
    }

    void checkColumns() {
        const bool plain = row_.seen() && !row_.undefined();
        if (!plain) {
            for (uint32_t column = 0; column < VKATTN_STATISTIC_COUNT; ++column) checkColumn(column, 0);
            return;
        }
        checkColumn(VKATTN_STATISTIC_ENTROPY, boundOfEntropy());
        checkLargest();
        checkLargestKey();
        checkColumn(VKATTN_STATISTIC_DISTANCE, boundOfSum([](const StatisticsPair &pair) { return pair.distance; }));
        checkColumn(VKATTN_STATISTIC_DIAGONAL, boundOfKey(row_.position()));
        checkColumn(VKATTN_STATISTIC_FIRST, boundOfKey(0));
        double squares = 0;
        forPairs([&](const StatisticsPair &, double p, double error) { squares += 2 * p * error + error * error; });
        checkColumn(VKATTN_STATISTIC_SQUARES, squares + errors_.summation * (row_.columns[VKATTN_STATISTIC_SQUARES] + squares));
        checkColumn(VKATTN_STATISTIC_VISIBLE, 0);
        const double neighbours = boundOfKey(row_.position() - 1) + boundOfKey(row_.position() + 1);
        checkColumn(VKATTN_STATISTIC_LOCALITY,
                    row_.neighbours ? neighbours / row_.neighbours + 2 * unitRoundoff * row_.columns[VKATTN_STATISTIC_LOCALITY] : 0);
        checkColumn(VKATTN_STATISTIC_SIGNED_DISTANCE, boundOfSum([](const StatisticsPair &pair) { return pair.distance; }));
        checkColumn(VKATTN_STATISTIC_SQUARED_DISTANCE,
                    boundOfSum([](const StatisticsPair &pair) { return pair.distance * pair.distance; }));
        checkDensity();
    }
    // Adds up what each -p ln p may change by where p moves within its range. -p ln p rises up to p = 1 / e,
    // and falls from there.
    [[nodiscard]] double boundOfEntropy() const {
        const auto term = [](double log) { return log == -infinite ? 0 : -std::exp(log) * log; };
        double error = errors_.ofProbability;
        for (size_t n = 0; n < row_.pairs.size(); ++n) {
            const WeightErrors::Range &range = errors_.weight[n];
            const double own = term(row_.logOfWeight(row_.pairs[n])), least = term(range.leastLog), most = term(range.mostLog);
            const double top = range.leastLog < -1 && range.mostLog > -1 ? std::exp(-1.0) : std::max(least, most);
            error += std::max(top - own, own - std::min(least, most));
        }
        return error + errors_.summation * (row_.columns[VKATTN_STATISTIC_ENTROPY] + error) + 0x1p-21;
    }
    void checkLargest() {
        double least = 0, most = 0;
        for (const WeightErrors::Range &range : errors_.weight) least = std::max(least, range.least), most = std::max(most, range.most);
        const double expected = row_.columns[VKATTN_STATISTIC_LARGEST], rounding = halfUlp(expected, VKATTN_F32);
        check(VKATTN_STATISTICS, indexOf(VKATTN_STATISTIC_LARGEST), tokenOf(VKATTN_STATISTIC_LARGEST), expected,
              expected - least + rounding, most - expected + rounding);
    }
    // Any key whose score may be the largest one is right; where scores have the same bits, the lowest.
    void checkLargestKey() {
        const double got = loadAt(VKATTN_STATISTICS, tokenOf(VKATTN_STATISTIC_LARGEST_KEY));
        Compared key{got, row_.columns[VKATTN_STATISTIC_LARGEST_KEY], infinite, 0, false};
        const StatisticsPair *const pair = got >= 0 && got < 0x1p32 ? row_.find(static_cast<int64_t>(got)) : nullptr;
        // Keys above 2^24 are rounded.
        const bool whole = pair && static_cast<double>(static_cast<float>(pair->j)) == got;
        if (whole) {
            const auto n = static_cast<size_t>(pair - row_.pairs.data());
            key.error = row_.maximum - pair->score;
            key.bound = errors_.score[n] + errors_.score[row_.largest];
            key.right = key.error <= key.bound && !hasTwinBefore(n, [](uint32_t) { return true; });
            if (!key.right && key.error <= key.bound) key.error = infinite;
        }
        if (free_) key.right = true, key.error = 0;
        tally.note(VKATTN_STATISTICS, indexOf(VKATTN_STATISTIC_LARGEST_KEY).at, key);
    }
    // Returns whether an earlier key that `counts` has a score of the same bits as pair n.
    template <class Counts> [[nodiscard]] bool hasTwinBefore(size_t n, const Counts &counts) const {
        const StatisticsPair &pair = row_.pairs[n];
        for (size_t m = 0; m < n; ++m) {
            const StatisticsPair &other = row_.pairs[m];
            if (other.score == pair.score && other.added == pair.added && counts(other.j) &&
                std::memcmp(kv.key(other.j), kv.key(pair.j), sizeof(float) * row_.query.size()) == 0)
                return true;
        }
        return false;
    }
    void checkDensity() {
        const auto threshold = static_cast<double>(statistics_.densityThreshold);
        const double expected = row_.columns[VKATTN_STATISTIC_DENSITY], visible = row_.columns[VKATTN_STATISTIC_VISIBLE];
        if (!(threshold > 0)) {
            checkColumn(VKATTN_STATISTIC_DENSITY, 0);
            return;
        }
        double surely = 0, possibly = 0;
        for (const WeightErrors::Range &range : errors_.weight) {
            if (range.least > threshold) ++surely;
            if (range.most >= threshold) ++possibly;
        }
        const double rounding = 4 * unitRoundoff * expected;
        check(VKATTN_STATISTICS, indexOf(VKATTN_STATISTIC_DENSITY), tokenOf(VKATTN_STATISTIC_DENSITY), expected,
              expected - surely / visible + rounding, possibly / visible - expected + rounding);
    }

    // The keys of the largest scores: each within what the errors may make of its rank, and each with a
    // weight of its own.
    void checkTop() {
        const uint32_t top = statistics_.topCount();
        const size_t ranked = std::min<size_t>(top, row_.ranked.size());
        const auto largestOf = [&](std::vector<double> &to, const auto &of) {
            to.clear();
            for (const size_t n : row_.ranked) to.push_back(of(n));
            std::partial_sort(to.begin(), to.begin() + static_cast<ptrdiff_t>(ranked), to.end(), std::greater<>());
        };
        const std::vector<StatisticsPair> &pairs = row_.pairs;
        largestOf(leastWeights_, [&](size_t n) { return errors_.weight[n].least; });
        largestOf(mostWeights_, [&](size_t n) { return errors_.weight[n].most; });
        largestOf(leastScores_, [&](size_t n) { return pairs[n].score - errors_.score[n]; });
        largestOf(mostScores_, [&](size_t n) { return pairs[n].score + errors_.score[n]; });
        taken_.clear();
        for (uint32_t t = 0; t < top; ++t) {
            if (t < ranked)
                checkTopKey(t);
            else
                checkNoTopKey(t);
        }
    }
    void checkNoTopKey(uint32_t t) {
        check(VKATTN_TOP_WEIGHTS, indexOf(t), tokenOf(t), row_.undefined() ? notANumber : 0, 0, 0);
        const uint32_t key = topKey(t);
        const bool right = key == noKey || free_;
        tally.note(VKATTN_TOP_KEYS, indexOf(t).at, {static_cast<double>(key), static_cast<double>(noKey), right ? 0 : infinite, 0, right});
    }
    void checkTopKey(uint32_t t) {
        const StatisticsPair &exact = row_.pairs[row_.ranked[t]];
        const double expected = exact.weight, rounding = halfUlp(expected, VKATTN_F32);
        const bool weighs = check(VKATTN_TOP_WEIGHTS, indexOf(t), tokenOf(t), expected, expected - leastWeights_[t] + rounding,
                                  mostWeights_[t] - expected + rounding);
        const uint32_t j = topKey(t);
        const auto isTaken = [&](uint32_t key) { return std::find(taken_.begin(), taken_.end(), key) != taken_.end(); };
        Compared key{static_cast<double>(j), static_cast<double>(exact.j), infinite, 0, false};
        const StatisticsPair *const pair = row_.find(j);
        if (pair && pair->score != -infinite && !isTaken(j)) {
            const auto n = static_cast<size_t>(pair - row_.pairs.data());
            const double stored = loadAt(VKATTN_TOP_WEIGHTS, tokenOf(t));
            key.error = std::abs(pair->score - exact.score);
            key.bound = errors_.score[n] +
                        (pair->score < exact.score ? exact.score - leastScores_[t] : std::max(mostScores_[t] - exact.score, 0.0));
            // A wrong weight says nothing about the key.
            const double storing = halfUlp(pair->weight, VKATTN_F32);
            const bool own = !weighs || (stored >= errors_.weight[n].least - storing && stored <= errors_.weight[n].most + storing);
            key.right = key.error <= key.bound && own && !hasTwinBefore(n, [&](uint32_t other) { return !isTaken(other); });
            if (!key.right && key.error <= key.bound) key.error = infinite;
        }
        taken_.push_back(j);
        if (free_) key.right = true, key.error = 0;
        tally.note(VKATTN_TOP_KEYS, indexOf(t).at, key);
    }
    [[nodiscard]] uint32_t topKey(uint32_t t) const {
        uint32_t word;
        std::memcpy(&word, operands_.data[VKATTN_TOP_KEYS] + 4 * statistics_.topKeys.index(place_.batch, place_.h, place_.token, t), 4);
        return word;
    }

    // An element in the result, in a report and in memory.
    struct Place {
        uint32_t b, h, i;
        uint64_t batch, token;
    };
    struct Index {
        uint32_t at[4];
    };
    struct Token {
        uint64_t at[4];
    };
    [[nodiscard]] Index indexOf(uint32_t column) const { return {{place_.b, place_.h, place_.i, column}}; }
    [[nodiscard]] Token tokenOf(uint32_t column) const { return {{place_.batch, place_.h, place_.token, column}}; }
    [[nodiscard]] double loadAt(vkattn_role role, const Token &token) const {
        const Tensor &t = statistics_.tensor(role);
        return static_cast<double>(
            loadElement(operands_.data[role], VKATTN_F32, t.index(token.at[0], token.at[1], token.at[2], token.at[3])));
    }

    // The bound is that of the exact result; rounding to f32 is added where it is not 0.
    void checkColumn(uint32_t column, double bound) {
        const double expected = row_.columns[column];
        if (bound > 0) bound += halfUlp(expected, VKATTN_F32);
        check(VKATTN_STATISTICS, indexOf(column), tokenOf(column), expected, bound, bound);
    }
    // A result may be less than the oracle's by `less`, and more by `more`.
    // Returns whether the result is right.
    bool check(vkattn_role role, const Index &index, const Token &token, double expected, double less, double more) {
        const double got = loadAt(role, token);
        // A count of keys is rounded to f32, which is what the oracle's is rounded to as well.
        const double stored = less == 0 && more == 0 ? static_cast<double>(static_cast<float>(expected)) : expected;
        double error = std::abs(got - stored);
        const double bound = got < stored ? less : more;
        bool right = error <= bound;
        if (std::isnan(expected) || !std::isfinite(got)) {
            right = std::isnan(expected) && std::isnan(got);
            error = right ? 0 : infinite;
        }
        if (free_) right = true, error = 0;
        tally.noteError(error);
        tally.note(role, index.at, {got, stored, error, bound, right});
        return right;
    }

    const Statistics &statistics_;
    const Problem &p_;
    const Operands &operands_;
    const vkattn_verify_options &options_;
    StatisticsRow row_;
    WeightErrors errors_;
    Place place_{};
    bool free_ = false; // any answer is right
    std::vector<double> leastWeights_, mostWeights_, leastScores_, mostScores_;
    std::vector<uint32_t> taken_; // the keys of the row's topKeys before this one
    std::vector<JudgedMean> received_;
};

double flopsOf(const Problem &p, const Sequences &sequences) {
    return 4 * sequences.pairs() * p.headDim;
}

// Calls work(checker, unit) for all units, and adds up what the checkers have found.
template <class Work>
void forUnits(const Statistics &statistics, const Operands &operands, const vkattn_verify_options &options, uint64_t units, Tally &total,
              const Work &work) {
    checkUnits(
        options, units, [&] { return std::make_shared<StatisticsChecker>(statistics, operands, options); }, work,
        [&](const StatisticsChecker &checker) { total.merge(checker.tally); });
}

// Rows on their own.
void verifyRows(const Statistics &statistics, const Operands &operands, const vkattn_verify_options &options, const Sequences &sequences,
                vkattn_verify_report &report, Tally &total) {
    const Problem &p = statistics.attention;
    const ChosenRows rows = chosenRows(sequences, p.heads, flopsOf(p, sequences), options);
    report.rowsChecked = rows.count();
    constexpr uint64_t rowsPerUnit = 16;
    forUnits(statistics, operands, options, (rows.count() + rowsPerUnit - 1) / rowsPerUnit, total,
             [&](StatisticsChecker &checker, uint64_t unit) {
                 for (uint64_t n = unit * rowsPerUnit; n < std::min(rows.count(), (unit + 1) * rowsPerUnit); ++n) {
                     const RowId id = sequences.row(rows[n]);
                     checker.kv.load(p, operands, sequences, id.b, id.h / p.groupSize());
                     checker.checkRow(sequences[id.b], id.b, id.h, id.i);
                 }
             });
}

// Heads with all of their rows, whose weights the keys receive.
void verifyHeads(const Statistics &statistics, const Operands &operands, const vkattn_verify_options &options, const Sequences &sequences,
                 vkattn_verify_report &report, Tally &total) {
    const Problem &p = statistics.attention;
    struct Head {
        uint32_t b, h;
        Sequence s;
    };
    std::vector<Head> all;
    std::vector<uint64_t> rowsOfHead;
    const auto add = [&](uint32_t b, const Sequence &s) {
        for (uint32_t h = 0; h < p.heads; ++h) all.push_back({b, h, s}), rowsOfHead.push_back(s.queries);
    };
    if (p.tensor(VKATTN_Q).extent[2] != 0 || p.tensor(VKATTN_K).extent[2] != 0) forEverySequence(p, operands, add);
    const std::vector<size_t> heads = chosenHeads(rowsOfHead, flopsOf(p, sequences), options);
    for (const size_t n : heads) report.rowsChecked += rowsOfHead[n];
    forUnits(statistics, operands, options, heads.size(), total, [&](StatisticsChecker &checker, uint64_t n) {
        const Head &head = all[heads[n]];
        if (head.s.queries) checker.kv.load(p, operands, sequences, head.b, head.h / p.groupSize());
        checker.checkHead(head.s, head.b, head.h);
    });
}

void verify(const Statistics &statistics, const Operands &operands, const vkattn_verify_options &options, vkattn_verify_report &report) {
    const Sequences sequences(statistics.attention, operands);
    report = {};
    report.rowsTotal = sequences.rows();
    Tally total;
    if (statistics.uses(VKATTN_RECEIVED))
        verifyHeads(statistics, operands, options, sequences, report, total);
    else
        verifyRows(statistics, operands, options, sequences, report, total);
    total.writeTo(report);
}

} // namespace

vkattn_result verifyStatistics(const vkattn_attention_statistics *description, const vkattn_operand_memory *memory, uint32_t count,
                               const vkattn_verify_options *options, vkattn_verify_report *report, vkattn_diagnostic *why) {
    return verifyBound(makeStatistics, description, memory, count, options, report, why, "the oracle's rows or for the keys of one head",
                       verify);
}

} // namespace vkattn
