// What the comparisons of attention and of the other operations with the oracle share: which rows
// are checked, the rounding of stored elements, and the tally of errors.
#pragma once

#include "cpu/sequences.hpp"
#include "util/parallel.hpp"
#include "vkattn/cpu.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <random>
#include <set>
#include <vector>

namespace vkattn {

inline constexpr double unitRoundoff = 0x1p-24; // half a unit in the last place of 1 in fp32
inline constexpr double smallestNormal = 0x1p-126;
inline constexpr double mostOfFp32 = 0x1p126; // sums of sizes above this may overflow
inline constexpr double infinite = std::numeric_limits<double>::infinity();

// Adds the edge rows of `count` neighbouring rows.
inline void addEdges(std::set<uint64_t> &rows, uint64_t first, uint32_t count) {
    for (const uint32_t i : {0u, 1u, count / 2, count - 2, count - 1})
        if (i < count) rows.insert(first + i);
}

// Problems of fewer operations are checked as a whole, unless the options say how many rows to check.
inline constexpr double allRowsFlops = 2e9;
inline constexpr uint64_t defaultRows = 256;

// The numbers of the rows that are checked: all, or those that the seed draws and the edge rows.
class ChosenRows {
  public:
    // addEdgeRows(set) is called where not all rows are checked.
    template <class AddEdgeRows>
    ChosenRows(uint64_t total, double flops, const vkattn_verify_options &options, const AddEdgeRows &addEdgeRows) : count_(total) {
        const uint64_t wanted = options.rows ? options.rows : defaultRows;
        if (options.allRows || wanted >= total || (!options.rows && flops < allRowsFlops)) return;
        std::set<uint64_t> rows;
        std::mt19937_64 random(options.seed);
        while (rows.size() < wanted) rows.insert(random() % total);
        addEdgeRows(rows);
        some_.assign(rows.begin(), rows.end());
        count_ = some_.size();
    }
    [[nodiscard]] uint64_t count() const { return count_; }
    [[nodiscard]] uint64_t operator[](uint64_t n) const { return some_.empty() ? n : some_[n]; }

  private:
    uint64_t count_;
    std::vector<uint64_t> some_; // empty: all
};

// Of the rows of sequences, with the edge rows of the first and the last head.
[[nodiscard]] inline ChosenRows chosenRows(const Sequences &sequences, uint32_t heads, double flops, const vkattn_verify_options &options) {
    return {sequences.rows(), flops, options, [&](std::set<uint64_t> &rows) {
                const auto hasRows = [](const Sequence &s) { return s.queries != 0; };
                const auto first = std::find_if(sequences.begin(), sequences.end(), hasRows);
                auto last = sequences.end() - 1;
                while (!hasRows(*last)) --last;
                for (const Sequence *s : {&*first, &*last})
                    for (const uint32_t h : {0u, heads - 1}) addEdges(rows, s->rowsBefore + uint64_t{h} * s->queries, s->queries);
            }};
}

// Returns the numbers of the heads that are checked where results are sums over the rows of a head: all,
// or as many as have the rows that are asked for, the first and the last head with rows among them.
[[nodiscard]] inline std::vector<size_t> chosenHeads(const std::vector<uint64_t> &rowsOfHead, double flops,
                                                     const vkattn_verify_options &options) {
    const size_t count = rowsOfHead.size();
    std::set<size_t> chosen;
    uint64_t have = 0;
    const auto choose = [&](size_t n) {
        if (chosen.insert(n).second) have += rowsOfHead[n];
    };
    size_t first = 0, last = count;
    while (first < count && !rowsOfHead[first]) ++first;
    if (options.allRows || (!options.rows && flops < allRowsFlops) || first == count) {
        for (size_t n = 0; n < count; ++n) choose(n);
    } else {
        do --last;
        while (!rowsOfHead[last]);
        choose(first);
        choose(last);
        const uint64_t wanted = options.rows ? options.rows : defaultRows;
        std::mt19937_64 random(options.seed);
        while (have < wanted && chosen.size() < count) choose(random() % count);
    }
    return {chosen.begin(), chosen.end()};
}

// Returns half a unit in the last place of a stored value.
[[nodiscard]] inline double halfUlp(double value, vkattn_dtype dtype) {
    switch (dtype) {
    case VKATTN_F16:
        return std::max(std::ldexp(std::abs(value), -11), 0x1p-25);
    case VKATTN_BF16:
        return std::max(std::ldexp(std::abs(value), -8), 0x1p-134);
    default:
        return std::max(std::ldexp(std::abs(value), -24), 0x1p-149);
    }
}

// Returns whether an infinite result may be the rounding of a finite value that is right.
[[nodiscard]] inline bool roundsToInfinity(double got, double expected, double bound, vkattn_dtype dtype) {
    // The least value that rounds to infinity where it is stored.
    const double overflowsAt = dtype == VKATTN_F16 ? 65520 : dtype == VKATTN_BF16 ? 0x1.ffp127 : 0x1.ffffffp127;
    // Of the side that the bound reaches: both, where it is wider than the value is large.
    return std::isinf(got) && (got > 0 ? expected : -expected) + bound >= overflowsAt;
}

// One element, compared.
struct Compared {
    double got, expected, error, bound;
    bool right;
};

// Sums up compared elements as vkattn_verify_report shows them.
class Tally {
  public:
    void note(vkattn_role role, const uint32_t (&index)[4], const Compared &element) {
        failed_ |= !element.right;
        const double ratio = element.error == 0                                  ? 0
                             : element.bound > 0 && std::isfinite(element.error) ? element.error / element.bound
                                                                                 : infinite;
        ++histogram_[binOf(ratio)];
        if (ratio <= worstRatio_) return;
        worstRatio_ = ratio;
        worstRole_ = role;
        std::copy_n(index, 4, worstIndex_);
        worst_ = element;
    }
    // Notes an error for the largest one.
    void noteError(double error) {
        if (std::isfinite(error)) maxError_ = std::max(maxError_, error);
    }
    void merge(const Tally &other) {
        failed_ |= other.failed_;
        maxError_ = std::max(maxError_, other.maxError_);
        for (size_t n = 0; n < VKATTN_VERIFY_BINS; ++n) histogram_[n] += other.histogram_[n];
        if (other.worstRatio_ <= worstRatio_) return;
        worstRatio_ = other.worstRatio_;
        worstRole_ = other.worstRole_;
        std::copy_n(other.worstIndex_, 4, worstIndex_);
        worst_ = other.worst_;
    }
    void writeTo(vkattn_verify_report &report) const {
        report.passed = !failed_;
        report.worstRole = worstRole_;
        std::copy_n(worstIndex_, 4, report.worstIndex);
        report.worstError = worst_.error;
        report.worstBound = worst_.bound;
        report.worstGot = worst_.got;
        report.worstExpected = worst_.expected;
        report.maxError = maxError_;
        std::copy_n(histogram_, VKATTN_VERIFY_BINS, report.histogram);
    }

  private:
    // Returns the bin of vkattn_verify_report::histogram.
    [[nodiscard]] static size_t binOf(double ratio) {
        if (ratio == 0) return 0;
        if (ratio > 1) return VKATTN_VERIFY_BINS - 1;
        size_t bin = VKATTN_VERIFY_BINS - 2;
        for (double half = 0.5; bin > 1 && ratio <= half; half /= 2) --bin;
        return bin;
    }

    bool failed_ = false;
    double worstRatio_ = -1, maxError_ = 0;
    vkattn_role worstRole_{};
    uint32_t worstIndex_[4] = {};
    Compared worst_{};
    uint64_t histogram_[VKATTN_VERIFY_BINS] = {};
};

// Calls check(checker, unit) for all units on threads, each with a checker of its own, and then merge(checker),
// one thread at a time. makeChecker() returns a pointer.
template <class MakeChecker, class Check, class Merge>
void checkUnits(const vkattn_verify_options &options, uint64_t units, const MakeChecker &makeChecker, const Check &check,
                const Merge &merge) {
    std::mutex mutex;
    parallelFor(threadCount(options.threads, units), units, [&] {
        return [&, checker = makeChecker()](uint64_t unit) {
            checker->tally = {};
            check(*checker, unit);
            const std::lock_guard lock(mutex);
            merge(*checker);
        };
    });
}

} // namespace vkattn
