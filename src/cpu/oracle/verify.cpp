// Element-by-element comparison with the oracle, by the rule of docs/numerics.md 6:
//     |got - oracle| <= 2 E + u_out |oracle| + (1e-5 + u_P) A
// with A = sum_j p_ij |v_jd|, and E the largest error of the plain fp32 emulation over the rows
// checked plus the rounding of scores passed through exp: 4 * 2^-24 * max_j sum_d |scale q_d k_d| *
// A for the products, and what added terms contribute.
#include "cpu/entry.hpp"
#include "cpu/oracle/comparison.hpp"
#include "cpu/oracle/row.hpp"
#include "util/parallel.hpp"

#include <memory>
#include <mutex>

using namespace vkattn;

namespace {

// The largest errors of the fp32 emulation, for each kind of output.
struct EmulationError {
    double out = 0, lse = 0, weights = 0;
    double maximum = 0, logOfSum = 0; // the latter of the sum beside the emulation's own maximum
    void merge(const EmulationError &other) {
        out = std::max(out, other.out);
        lse = std::max(lse, other.lse);
        maximum = std::max(maximum, other.maximum);
        logOfSum = std::max(logOfSum, other.logOfSum);
        weights = std::max(weights, other.weights);
    }
};

// An emulation that overflowed says nothing about the other rows of the case.
void note(double &largest, double emulated, double exact) {
    const double error = std::abs(emulated - exact);
    if (std::isfinite(error)) largest = std::max(largest, error);
}

class Checker {
  public:
    Checker(const Problem &p, const Operands &operands, const Sequences &sequences, const EmulationError &emulation, double probabilityUnit,
            double probabilityFloor)
        : p_(p), operands_(operands), sequences_(sequences), emulation_(emulation), probability_(1e-5 + probabilityUnit),
          floor_(std::max(probabilityFloor, smallestNormal)) {}

    void check(const Row<double> &row, const Row<float> &emulated, const HeadKeysValues &kv, const RowId &id) {
        id_ = id;
        // Where fp32 itself overflows on finite input, any answer is allowed for this row.
        overflowed_ = std::isfinite(row.lse) && !std::isfinite(emulated.lse);
        const Sequence &sequence = sequences_[id.b];
        const double scoreRounding = 4 * 0x1p-24 * largestAbsoluteDot(row, kv);
        double addedRounding = 0; // sum_j w_j r_j
        for (size_t n = 0; n < row.visible.size() && !p_.program.sumless(); ++n) addedRounding += row.weights[n] * roundingOfAdded(row, n);
        absolute_.assign(p_.valueDim, 0.0);
        rounded_.assign(p_.valueDim, 0.0);
        flushed_.assign(p_.valueDim, smallestNormal); // the smallest normal number of the output
        for (size_t n = 0; n < row.visible.size(); ++n) {
            const double ofScore = scoreRounding + roundingOfAdded(row, n);
            const double weight = std::abs(row.weights[n]),
                         moved = p_.program.sumless() ? movedBy(row, n, ofScore) : weight * (ofScore + addedRounding);
            for (uint32_t d = 0; row.factors[n] != 0 && d < p_.valueDim; ++d) { // a dropped value is unread
                const double v = std::abs(static_cast<double>(kv.value(row.visible[n])[d]) * row.weighings[n]) * row.factors[n];
                absolute_[d] += weight * v;
                rounded_[d] += v * moved;
                flushed_[d] += floor_ * v;
                if (std::isfinite(v)) largestValue_ = std::max(largestValue_, v);
            }
        }
        if (row.goesOn) {
            // Its share moves as those of the keys do, and is an exponent of the difference of two rounded numbers.
            const double ofShare = scoreRounding + addedRounding + 4 * 0x1p-24 * (std::abs(row.priorLse) + std::abs(row.lse));
            for (uint32_t d = 0; d < p_.valueDim; ++d) {
                const double part = row.priorWeight * std::abs(row.priorOut[d]);
                absolute_[d] += part;
                rounded_[d] += part * ofShare;
            }
        }
        const bool empty = row.sawNothing();
        const Tensor &out = p_.tensor(VKATTN_OUT), &lse = p_.tensor(VKATTN_LSE), &weights = p_.tensor(VKATTN_WEIGHTS);
        const uint64_t token = sequence.query(id.i);
        for (uint32_t d = 0; d < p_.valueDim; ++d) {
            const double got = loadElement(operands_.data[VKATTN_OUT], out.dtype, out.index(sequence.batch, id.h, token, d));
            const double bound =
                empty ? 0 : 2 * (emulation_.out + rounded_[d]) + halfUlp(row.out[d], out.dtype) + probability_ * absolute_[d] + flushed_[d];
            const double error = compare(VKATTN_OUT, d, got, row.out[d], bound);
            tally.noteError(error);
        }
        if (lse.present() && p_.rowStatistics) {
            checkStatistics(row, {sequence.batch, id.h, id.i}, token, scoreRounding, addedRounding);
        } else if (lse.present()) {
            const double got = loadElement(operands_.data[VKATTN_LSE], VKATTN_F32, lse.index(sequence.batch, id.h, token, 0));
            const double bound = empty ? 0 : 2 * (emulation_.lse + scoreRounding + addedRounding) + halfUlp(row.lse, VKATTN_F32) + 1e-5;
            compare(VKATTN_LSE, 0, got, row.lse, bound);
        }
        if (weights.present()) {
            const uint32_t keys = p_.ragged() ? sequence.keys : p_.keyTokens;
            size_t n = 0;
            for (uint32_t j = 0; j < keys; ++j) {
                const bool visible = n < row.visible.size() && row.visible[n] == j;
                const double rounding = visible ? scoreRounding + addedRounding + roundingOfAdded(row, n) : 0;
                const bool kept = visible && !(p_.weightsDropped && row.factors[n] == 0);
                const double factor = kept && p_.weightsDropped ? row.factors[n] : 1;
                const double expected = visible ? row.storedWeight(p_, n++) : 0;
                const double got = loadElement(operands_.data[VKATTN_WEIGHTS], weights.dtype, weights.index(id.b, id.h, id.i, j));
                // A hidden or dropped weight is exactly 0; a tiny visible one may be flushed to 0.
                const double bound = kept ? 2 * (emulation_.weights * factor + rounding * expected) + halfUlp(expected, weights.dtype) +
                                                probability_ * expected + smallestNormal * factor
                                          : 0;
                compare(VKATTN_WEIGHTS, j, got, expected, bound);
            }
        }
        if (p_.tensor(VKATTN_SCORES).present()) checkScores(row, emulated, kv, sequence);
    }
    void writeTo(vkattn_verify_report &report) const {
        tally.writeTo(report);
        report.maxErrorRelativeToV = largestValue_ > 0 ? report.maxError / largestValue_ : 0;
    }
    void merge(const Checker &other) {
        tally.merge(other.tally);
        largestValue_ = std::max(largestValue_, other.largestValue_);
    }

    Tally tally;

  private:
    // Each score on its own. The bound is that of a sum of products in any order, which no other row
    // widens, and of what is done with the sum.
    void checkScores(const Row<double> &row, const Row<float> &emulated, const HeadKeysValues &kv, const Sequence &sequence) {
        const Tensor &t = p_.tensor(VKATTN_SCORES);
        const double u = 0x1p-24, factor = p_.scoresStage == VKATTN_SCORES_RAW ? 1 : std::abs(static_cast<double>(p_.scale));
        const bool capped = p_.scoresStage >= VKATTN_SCORES_CAPPED && p_.softcap > 0, final = p_.scoresStage == VKATTN_SCORES_FINAL;
        const uint32_t keys = p_.ragged() ? sequence.keys : p_.keyTokens;
        size_t n = 0; // of the visible keys
        for (uint32_t j = 0; j < keys; ++j) {
            const double got = loadElement(operands_.data[VKATTN_SCORES], t.dtype, t.index(id_.b, id_.h, id_.i, j));
            const bool visible = n < row.visible.size() && row.visible[n] == j;
            const size_t place = n;
            n += visible ? 1 : 0;
            if (j >= row.scores.size() || (final && !visible)) { // exact
                const double expected = scoreOfNoKey(p_);
                const bool right = got == expected;
                tally.note(VKATTN_SCORES, {id_.b, id_.h, id_.i, j}, {got, expected, right ? 0 : infinite, 0, right});
                continue;
            }
            const double expected = row.scores[j];
            if (std::isfinite(expected) && !std::isfinite(emulated.scores[j])) continue; // fp32 overflows
            double products = 0, flushed = 0;
            for (uint32_t d = 0; d < p_.headDim; ++d) {
                const double q = std::abs(row.query[d]), k = std::abs(static_cast<double>(kv.key(j)[d]));
                products += q * k;
                flushed += (q + k + 1) * smallestNormal;
            }
            const double bound = (p_.headDim + 4) * u * products * factor + flushed * std::max(factor, 1.0) +
                                 (capped ? 2e-6 * static_cast<double>(p_.softcap) : 0) + (final ? 4 * u * row.added[place] : 0) +
                                 4 * u * std::abs(expected) + halfUlp(expected, t.dtype);
            compare(VKATTN_SCORES, j, got, expected, bound);
        }
    }
    // Compares the maximum of a row with the oracle's, and the sum with the one that belongs to the
    // maximum that was found: only both together say what they stand for. A sum of a row that sees
    // something has its largest weight, 1, and no weight is larger.
    void checkStatistics(const Row<double> &row, const RowId &place, uint64_t token, double scoreRounding, double addedRounding) {
        const Tensor &lse = p_.tensor(VKATTN_LSE);
        const auto stored = [&](uint32_t n) {
            return static_cast<double>(loadElement(operands_.data[VKATTN_LSE], VKATTN_F32, lse.index(place.b, place.h, token, n)));
        };
        const double maximum = stored(0), sum = stored(1);
        if (row.visible.empty() || !std::isfinite(row.maximum)) {
            compare(VKATTN_LSE, 0, maximum, row.maximum, 0);
            compare(VKATTN_LSE, 1, sum, row.sum, 0);
            return;
        }
        // By how much rounding may lower the largest score, or raise one of the others above it.
        double rounding = 0;
        for (size_t n = 0; n < row.visible.size(); ++n)
            rounding = std::max(rounding, scoreRounding + roundingOfAdded(row, n) + std::log(row.weights[n] * row.sum));
        compare(VKATTN_LSE, 0, maximum, row.maximum, 2 * (emulation_.maximum + rounding) + halfUlp(row.maximum, VKATTN_F32) + 1e-5);

        const double count = static_cast<double>(row.visible.size()) + (p_.has(VKATTN_SINKS) ? 1 : 0);
        const double moved = std::isfinite(maximum) ? row.maximum - maximum : 0;
        const double expected = std::clamp(row.sum * std::exp(moved), 1.0, count);
        const double tolerance = 2 * (emulation_.logOfSum + scoreRounding + addedRounding) + 1e-5;
        const double least = std::max(expected * std::exp(-tolerance), 1 - 1e-5);
        const double most = std::min(expected * std::exp(tolerance), count * std::exp(2 * emulation_.logOfSum + 1e-5));
        compare(VKATTN_LSE, 1, sum, expected, sum < expected ? expected - least : most - expected);
    }
    // Returns by how much a weight that is no share of a sum may differ where its score does by `distance`.
    [[nodiscard]] double movedBy(const Row<double> &row, size_t n, double distance) const {
        const auto difference = [&](double score) {
            const double moved = std::abs(p_.program.program->row(score) - row.weights[n]);
            return std::isfinite(moved) ? moved : 0;
        };
        const double score = row.scoresSeen[n];
        return std::isfinite(score) ? std::max(difference(score - distance), difference(score + distance)) : 0;
    }
    double largestAbsoluteDot(const Row<double> &row, const HeadKeysValues &kv) const {
        double largest = 0;
        for (const uint32_t j : row.visible) {
            const float *k = kv.key(j);
            double sum = 0;
            for (uint32_t d = 0; d < p_.headDim; ++d) sum += std::abs(row.query[d] * static_cast<double>(k[d]));
            if (std::isfinite(sum)) largest = std::max(largest, sum);
        }
        return largest * std::abs(static_cast<double>(p_.scale));
    }
    // Returns r_j, by which adding terms may move the score of a visible key: two roundings of the
    // size of the term. Terms above 2^17 are left to E: a bound to first order would allow anything
    // for them.
    static double roundingOfAdded(const Row<double> &row, size_t n) {
        return !std::isfinite(row.added[n]) ? 0 : std::min(2 * 0x1p-24 * row.added[n], 0x1p-6);
    }
    // Returns the absolute error, and keeps the worst element by error / bound.
    double compare(vkattn_role role, uint32_t last, double got, double expected, double bound) {
        double error = std::abs(got - expected);
        bool right = error <= bound;
        if (!std::isfinite(expected)) {
            // NaN and infinity must stay visible as not finite. Minus infinity, the log of an empty
            // sum, is exact.
            right = std::isinf(expected) && role == VKATTN_LSE ? got == expected : !std::isfinite(got);
            error = right ? 0 : infinite;
        } else if (!std::isfinite(got)) {
            const bool rounded = roundsToInfinity(got, expected, bound, p_.tensor(role).dtype);
            right = rounded;
            error = rounded ? 0 : infinite;
        }
        if (overflowed_) right = true, error = 0;
        tally.note(role, {id_.b, id_.h, id_.i, last}, {got, expected, error, bound, right});
        return error;
    }

    const Problem &p_;
    const Operands &operands_;
    const Sequences &sequences_;
    const EmulationError &emulation_;
    double probability_, floor_;
    std::vector<double> absolute_;
    std::vector<double> rounded_; // what the rounding of scores may change, by dim
    // The share that denormals flushed to 0 may take away: a weight times V, or the result itself.
    std::vector<double> flushed_;
    RowId id_{};
    bool overflowed_ = false;
    double largestValue_ = 0;
};

void verify(const Problem &p, const Operands &operands, const vkattn_verify_options &options, vkattn_verify_report &report) {
    const Sequences sequences(p, operands);
    const double flops = 2 * sequences.pairs() * (static_cast<double>(p.headDim) + p.valueDim);
    const ChosenRows rows = chosenRows(sequences, p.heads, flops, options);
    report = {};
    report.rowsTotal = sequences.rows();
    report.rowsChecked = rows.count();
    report.worstRole = VKATTN_OUT;
    report.passed = 1;
    if (rows.count() == 0) return;

    constexpr uint64_t rowsPerUnit = 16;
    const uint64_t units = (rows.count() + rowsPerUnit - 1) / rowsPerUnit;
    const uint32_t threads = threadCount(options.threads, units);
    // Runs visit(state, exact row, emulated row, kv, id) over all rows. `merge` sees each thread's
    // state once, one thread at a time.
    const auto forRows = [&](auto makeState, auto visit, auto merge) {
        std::mutex mutex;
        parallelFor(threads, units, [&] {
            return [&, state = makeState(), kv = HeadKeysValues(), exact = Row<double>(), emulated = Row<float>()](uint64_t unit) mutable {
                for (uint64_t n = unit * rowsPerUnit; n < std::min(rows.count(), (unit + 1) * rowsPerUnit); ++n) {
                    const RowId id = sequences.row(rows[n]);
                    kv.load(p, operands, sequences, id.b, id.h / p.groupSize());
                    exact.attend(p, operands, sequences, kv, id.b, id.h, id.i);
                    emulated.attend(p, operands, sequences, kv, id.b, id.h, id.i);
                    visit(state, exact, emulated, kv, id);
                }
                const std::lock_guard lock(mutex);
                merge(state);
                state = makeState();
            };
        });
    };

    EmulationError emulation;
    forRows([] { return EmulationError(); },
            [](EmulationError &e, const Row<double> &exact, const Row<float> &emulated, const HeadKeysValues &, const RowId &) {
                for (size_t d = 0; d < exact.out.size(); ++d) note(e.out, emulated.out[d], exact.out[d]);
                note(e.lse, emulated.lse, exact.lse);
                note(e.maximum, emulated.maximum, exact.maximum);
                note(e.logOfSum, static_cast<double>(emulated.maximum) - exact.maximum + std::log(static_cast<double>(emulated.sum)),
                     std::log(exact.sum));
                for (size_t n = 0; n < exact.weights.size(); ++n) note(e.weights, emulated.weights[n], exact.weights[n]);
            },
            [&](const EmulationError &e) { emulation.merge(e); });

    const double unit = static_cast<double>(options.probabilityUnit), floor = static_cast<double>(options.probabilityFloor);
    Checker total(p, operands, sequences, emulation, unit, floor);
    forRows([&] { return std::make_unique<Checker>(p, operands, sequences, emulation, unit, floor); },
            [](std::unique_ptr<Checker> &c, const Row<double> &exact, const Row<float> &emulated, const HeadKeysValues &kv,
               const RowId &id) { c->check(exact, emulated, kv, id); },
            [&](const std::unique_ptr<Checker> &c) { total.merge(*c); });
    total.writeTo(report);
}

} // namespace

extern "C" vkattn_result vkattnCpuVerify(const vkattn_problem *description, const vkattn_operand_memory *memory, uint32_t count,
                                         const vkattn_verify_options *options, vkattn_verify_report *report, vkattn_diagnostic *why) {
    return verifyBound(makeProblem, description, memory, count, options, report, why, "the oracle's rows", verify);
}
