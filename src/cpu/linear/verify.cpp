// Element-by-element comparison of linear attention with the oracle, by the rule of docs/numerics.md, "Linear
// attention".
#include "cpu/entry.hpp"
#include "cpu/linear/linear.hpp"
#include "cpu/linear/oracle_scan.hpp"
#include "cpu/oracle/comparison.hpp"

#include <memory>

namespace vkattn {
namespace {

constexpr double relativeError = 1e-5; // of a sum's terms, as in attention

// By how much the state of a head, and what is read of it, may be off; see docs/numerics.md.
class StateErrors {
  public:
    explicit StateErrors(const LinearAttention &a) : a_(a) {}

    bool overflowed = false;    // fp32 may overflow on finite input: any answer is right
    bool rowOverflowed = false; // likewise, of the last row alone
    double exponent = 0;        // the largest error of an exponent of FAVOR so far

    void begin(const SequentialScan<double> &scan) {
        columns_ = scan.summed();
        tokens_ = 0, exponent = 0, largestKey_ = largestStep_ = growth_ = 0, overflowed = false;
        size_.assign(uint64_t{a_.stateRows} * columns_, 0.0);
        error_ = size_;
        forState(scan, [&](size_t n, double element) { size_[n] = std::abs(element); });
        systematic_.assign(a_.valueDim, 0.0), random_ = systematic_, values_ = systematic_, steps_ = systematic_;
        for (uint32_t r = 0; r < a_.stateRows; ++r)
            for (uint32_t d = 0; d < a_.valueDim; ++d) steps_[d] += std::abs(scan.state[uint64_t{r} * a_.stateColumns + d]);
        keys_ = 0;
        norms(scan, norm_);
    }
    // After the scan has written token t.
    void write(const SequentialScan<double> &scan, uint32_t t) {
        ++tokens_;
        double square = 0, largestWritten = 0;
        for (const double each : scan.key) square += each * each;
        if (std::isfinite(square)) largestKey_ = std::max(largestKey_, std::sqrt(square));
        for (uint32_t d = 0; d < a_.valueDim; ++d) {
            const double written = std::abs(scan.written[d]);
            values_[d] += written;
            steps_[d] += std::sqrt(square) * written;
            if (std::isfinite(written)) largestWritten = std::max(largestWritten, written);
        }
        keys_ += std::sqrt(square);
        if (std::isfinite(square)) largestStep_ = std::max(largestStep_, std::sqrt(square) * largestWritten);
        overflowed |= largestStep_ > mostOfFp32 || (a_.isDelta() && largestKey_ * largestKey_ > mostOfFp32);
        // Chunks add decays up before they take the exponential. An infinite one is input.
        double grows = 0;
        for (uint32_t r = 0; a_.isGated() && r < a_.stateRows; ++r)
            if (const double g = scan.decay(t, r); std::isfinite(g)) grows = std::max(grows, g);
        overflowed |= (growth_ += grows) > 87;
        if (a_.hasFeatures() && a_.randomFeatures() && !a_.hasMaximum())
            for (uint32_t r = 0; r < a_.stateRows; ++r) overflowed |= !(scan.sizeOfTerms(r) <= mostOfFp32);
        a_.isDelta() ? writeDelta(scan, t) : writeTerms(scan, t);
    }
    // After the scan has read a row.
    void read(const SequentialScan<double> &scan, std::vector<double> &bound) {
        bound.assign(a_.valueDim, 0.0), reach_ = bound;
        rowOverflowed = a_.hasMaximum() && !(scan.sizeOfTerms() <= mostOfFp32);
        const double scale = a_.hasFeatures() ? 1 : std::abs(static_cast<double>(a_.scale));
        double queryNorm = 0, errorOfSum = 0, reachOfSum = 0;
        for (uint32_t r = 0; r < a_.stateRows; ++r) {
            const double q = std::abs(scan.query[r]), off = a_.hasFeatures() ? errorOfFeature(scan, scan.query, r) : 0;
            queryNorm += q * q;
            const size_t row = size_t{r} * columns_;
            for (uint32_t d = 0; d < a_.valueDim; ++d) {
                const double size = a_.isDelta() ? std::abs(scan.state[uint64_t{r} * a_.stateColumns + d]) : size_[row + d];
                bound[d] += a_.isDelta() ? q * relativeError * size : q * error_[row + d] + (q * share() + off) * size;
                reach_[d] += q * size;
            }
            if (!a_.hasFeatures()) continue;
            errorOfSum += q * error_[row + a_.valueDim] + (q * share() + off) * size_[row + a_.valueDim];
            reachOfSum += q * size_[row + a_.valueDim];
        }
        for (uint32_t d = 0; d < a_.valueDim; ++d) {
            if (a_.isDelta()) bound[d] += std::sqrt(queryNorm) * column(d);
            // Products of queries and keys come first in a chunk, and those of keys and values in a scan by tokens.
            const double query = std::sqrt(queryNorm);
            const bool overflows = std::max(reach_[d], reachOfSum) > mostOfFp32 || query * std::max(largestKey_, largestStep_) > mostOfFp32;
            // They may underflow too, and so may the decay over several tokens.
            bound[d] += smallestNormal * (a_.stateRows * values_[d] + (query + 1) * steps_[d]);
            bound[d] = overflows ? infinite : bound[d] * scale;
            if (!a_.hasFeatures() || scan.denominator == 0) continue;
            const double underflows =
                smallestNormal * (static_cast<double>(a_.stateRows) * static_cast<double>(tokens_) + (query + 1) * keys_);
            const double offBy = errorOfSum + underflows, sum = std::abs(scan.denominator) - offBy;
            bound[d] = sum > 0 ? (bound[d] + std::abs(scan.out[d]) * offBy) / sum : infinite;
        }
    }
    // Returns the bound of an element of the state.
    [[nodiscard]] double ofState(const SequentialScan<double> &scan, uint32_t r, uint32_t c) const {
        const double underflows = smallestNormal * (c < a_.valueDim ? steps_[c] : keys_);
        if (a_.isDelta()) return underflows + column(c) + relativeError * std::abs(scan.state[uint64_t{r} * a_.stateColumns + c]);
        return underflows + error_[size_t{r} * columns_ + c] + share() * size_[size_t{r} * columns_ + c];
    }

  private:
    // visit(place, element) of what tokens are added to.
    template <class Visit> void forState(const SequentialScan<double> &scan, const Visit &visit) const {
        for (uint32_t r = 0; r < a_.stateRows; ++r)
            for (uint32_t c = 0; c < columns_; ++c) visit(size_t{r} * columns_ + c, scan.state[uint64_t{r} * a_.stateColumns + c]);
    }
    // The share of its terms' sizes that a sum of so many tokens may be off by.
    [[nodiscard]] double share() const { return relativeError + 4 * unitRoundoff * std::sqrt(static_cast<double>(tokens_)); }

    // The error of a feature, of keys relative to the running maximum as the state is.
    [[nodiscard]] double errorOfFeature(const SequentialScan<double> &scan, const std::vector<double> &features, uint32_t r) const {
        if (a_.hasMaximum()) return std::abs(features[r]) * std::expm1(relativeError + 4 * unitRoundoff * scan.sizeOfTerms());
        if (a_.features == VKATTN_FEATURES_ELU1) return 8 * unitRoundoff * std::abs(features[r]) + smallestNormal;
        return relativeError * std::abs(features[r]) + 4 * unitRoundoff * scan.sizeOfTerms(r);
    }
    // What one step of decay adds to the relative error of a state. g = 0 multiplies by 1.
    [[nodiscard]] double errorOfDecay(const SequentialScan<double> &scan, uint32_t t, uint32_t r) const {
        if (a_.hasMaximum()) return scan.kept[r] == 1 ? 0 : 8 * unitRoundoff + 2 * exponent;
        const double g = a_.isGated() ? scan.decay(t, r) : 0;
        return g == 0 || !std::isfinite(g) ? 0 : (4 + 2 * std::abs(g)) * unitRoundoff;
    }
    void writeTerms(const SequentialScan<double> &scan, uint32_t t) {
        if (a_.hasMaximum()) {
            exponent = std::max(exponent, relativeError + 4 * unitRoundoff * scan.sizeOfTerms());
            overflowed |= !(scan.sizeOfTerms() <= mostOfFp32);
        }
        double largest = 0;
        for (uint32_t r = 0; r < a_.stateRows; ++r) {
            const double decay = errorOfDecay(scan, t, r), kept = scan.kept[r], key = std::abs(scan.key[r]);
            const double off = a_.hasFeatures() ? errorOfFeature(scan, scan.key, r) : 0;
            for (uint32_t c = 0; c < columns_; ++c) {
                const size_t n = size_t{r} * columns_ + c;
                const double value = c < a_.valueDim ? std::abs(scan.value[c]) : 1;
                error_[n] = kept * (error_[n] + decay * size_[n]) + off * value + smallestNormal * (1 + size_[n] + value + key);
                size_[n] = kept * size_[n] + key * value;
                if (std::isfinite(size_[n])) largest = std::max(largest, size_[n]);
            }
        }
        overflowed |= largest > mostOfFp32;
    }
    // A delta rule turns a column's error as it turns the column: by I - beta k k^T, which lengthens nothing where |k|
    // and beta are at most 1, and elsewhere the part of an error that lies along k.
    void writeDelta(const SequentialScan<double> &scan, uint32_t t) {
        double keyNorm = 0, kept = 0, decay = 0;
        for (uint32_t r = 0; r < a_.stateRows; ++r) {
            keyNorm += scan.key[r] * scan.key[r];
            kept = std::max(kept, scan.kept[r]);
            decay = std::max(decay, errorOfDecay(scan, t, r));
        }
        const double beta = std::abs(scan.strength), length = std::sqrt(keyNorm), along = 1 - scan.strength * keyNorm;
        const double growth = kept * std::sqrt(std::max(1.0, 1 + (along * along - 1) / a_.keyDim));
        std::swap(norm_, before_);
        norms(scan, norm_);
        for (uint32_t d = 0; d < a_.valueDim; ++d) {
            const double local = unitRoundoff * (norm_[d] + beta * keyNorm * kept * before_[d] + beta * length * std::abs(scan.value[d]));
            systematic_[d] = growth * (systematic_[d] + decay * before_[d]) + smallestNormal * (1 + norm_[d] + before_[d]);
            random_[d] = std::hypot(growth * random_[d], 4 * local);
            const double read = std::max(length, 1.0) * (kept * before_[d] + std::abs(scan.value[d]));
            const double reach = norm_[d] + std::max(beta, 1.0) * std::max(length, 1.0) * read;
            overflowed |= std::isfinite(reach) && reach > mostOfFp32;
        }
    }
    [[nodiscard]] double column(uint32_t d) const { return systematic_[d] + 4 * random_[d]; }
    void norms(const SequentialScan<double> &scan, std::vector<double> &to) const {
        to.assign(a_.valueDim, 0.0);
        if (!a_.isDelta()) return;
        for (uint32_t r = 0; r < a_.stateRows; ++r)
            for (uint32_t d = 0; d < a_.valueDim; ++d) {
                const double element = scan.state[uint64_t{r} * a_.stateColumns + d];
                to[d] += element * element;
            }
        for (double &each : to) each = std::sqrt(each);
    }

    const LinearAttention &a_;
    uint32_t columns_ = 0;
    uint64_t tokens_ = 0;
    double largestKey_ = 0, largestStep_ = 0; // norm of a key; times what is written
    double growth_ = 0;                       // the sum of the decays that are above 0
    // By element of the state: the sum of the sizes of its terms, and the error that decays and features have put in.
    std::vector<double> size_, error_;
    // Of delta rules, by column: Euclidean norms of the column now and before the token, and of its error.
    std::vector<double> norm_, before_, systematic_, random_;
    std::vector<double> reach_; // the sizes of the terms of a row's sums
    // The sums of the sizes of what was written, of that times the norms of keys, and of these norms: without decay.
    std::vector<double> values_, steps_;
    double keys_ = 0;
};

class HeadChecker {
  public:
    HeadChecker(const LinearAttention &a, const Operands &operands)
        : a_(a), operands_(operands), exact_(a, operands), emulated_(a, operands), errors_(a) {}

    Tally tally;
    double largestValue = 0; // of the values that were written

    void check(uint32_t b, uint32_t stateHead) {
        b_ = b, head_ = stateHead;
        exact_.begin(b, stateHead);
        emulated_.begin(b, stateHead);
        errors_.begin(exact_);
        walkHead(a_, keysOf(a_, operands_, b), *this);
    }
    void write(uint32_t t) {
        exact_.write(t);
        emulated_.write(t);
        errors_.write(exact_, t);
        for (const double value : exact_.value) largestValue = largerFinite(largestValue, std::abs(value));
    }
    void row(uint32_t i, bool sees) {
        for (uint32_t n = 0; n < a_.heads / a_.stateHeads && a_.uses(VKATTN_OUT); ++n) {
            const uint32_t head = a_.headOfState(head_, n);
            double emulation = 0;
            errors_.rowOverflowed = false;
            if (sees) {
                exact_.read(head, i);
                emulated_.read(head, i);
                errors_.read(exact_, bound_);
                for (uint32_t d = 0; d < a_.valueDim; ++d)
                    emulation = largerFinite(emulation, std::abs(static_cast<double>(emulated_.out[d]) - exact_.out[d]));
            }
            for (uint32_t d = 0; d < a_.valueDim; ++d)
                note(VKATTN_OUT, {b_, head, i, d}, sees ? exact_.out[d] : 0, sees ? factor() * emulation + bound_[d] + smallestNormal : 0);
        }
    }
    void snapshot(uint32_t n) { checkState(VKATTN_SNAPSHOTS, n * a_.stateRows); }
    void end() {
        if (a_.uses(VKATTN_STATE_OUT)) checkState(VKATTN_STATE_OUT, 0);
    }

  private:
    // Errors of delta rules may grow; the emulation's is one draw of them.
    [[nodiscard]] double factor() const { return a_.isDelta() ? 8 : 2; }
    [[nodiscard]] static double largerFinite(double a, double b) { return std::isfinite(b) ? std::max(a, b) : a; }
    [[nodiscard]] double got(vkattn_role role, const uint32_t (&at)[4]) const {
        return static_cast<double>(linearElement(a_, operands_, role, {at[0], at[1], at[2], at[3]}));
    }

    void checkState(vkattn_role role, uint32_t first) {
        const uint32_t sums = exact_.summed();
        double emulation = 0;
        if (a_.isDelta())
            for (size_t n = 0; n < exact_.state.size(); ++n)
                emulation = largerFinite(emulation, std::abs(static_cast<double>(emulated_.state[n]) - exact_.state[n]));
        for (uint32_t r = 0; r < a_.stateRows; ++r) {
            // Sums are relative to the maximum that is stored beside them, which may be off. Where exponents are so
            // large that the maximum is off by more than 1, sums say nothing.
            const double moved = a_.hasMaximum() ? checkMaximum(role, first, r) : 0;
            const bool lost = std::abs(moved) > 1;
            const double relative = lost ? 1 : std::exp(moved);
            for (uint32_t c = 0; c < sums; ++c)
                note(role, {b_, head_, first + r, c}, exact_.stored(r, c) * relative,
                     lost ? infinite : boundOfSum(r, c) * relative + factor() * emulation + smallestNormal);
        }
    }
    [[nodiscard]] double boundOfSum(uint32_t r, uint32_t c) const {
        if (a_.isDelta()) return errors_.ofState(exact_, r, c);
        const double emulated = static_cast<double>(emulated_.stored(r, c)) * std::exp(maximum(emulated_, r) - maximum(exact_, r));
        return errors_.ofState(exact_, r, c) + 2 * largerFinite(0, std::abs(emulated - exact_.stored(r, c)));
    }
    template <class Number> [[nodiscard]] double maximum(const SequentialScan<Number> &scan, uint32_t r) const {
        return a_.hasMaximum() ? static_cast<double>(scan.stored(r, a_.valueDim + 1)) : 0;
    }
    // Compares M of a feature, and returns by how much it is too small.
    double checkMaximum(vkattn_role role, uint32_t first, uint32_t r) {
        const uint32_t at[4] = {b_, head_, first + r, a_.valueDim + 1};
        const double expected = maximum(exact_, r), stored = got(role, at);
        // Of no key M is any number: S and z are 0 then.
        const bool empty = exact_.stored(r, a_.valueDim) == 0;
        note(role, at, empty ? stored : expected, errors_.exponent + 2 * unitRoundoff * std::abs(expected));
        const double moved = expected - stored;
        return std::isfinite(moved) && !empty ? moved : 0;
    }
    // Compares an element whose value before it is stored may be off by `bound`; 0: by nothing.
    void note(vkattn_role role, const uint32_t (&at)[4], double expected, double bound) {
        const vkattn_dtype dtype = a_.tensor(role).dtype;
        const double found = got(role, at);
        double error = std::abs(found - expected), allowed = bound == 0 ? 0 : bound + halfUlp(expected, dtype);
        bool right = error <= allowed;
        const bool free = errors_.overflowed || (role == VKATTN_OUT && errors_.rowOverflowed);
        if (!std::isfinite(expected)) {
            right = free || !std::isfinite(found);
            error = right ? 0 : infinite;
        } else if (free || !(std::abs(expected) + allowed <= mostOfFp32)) {
            right = true; // fp32 cannot say
            error = 0;
        } else if (!std::isfinite(found)) {
            right = roundsToInfinity(found, expected, bound, dtype);
            error = right ? 0 : infinite;
        }
        if (role == VKATTN_OUT || !a_.uses(VKATTN_OUT)) tally.noteError(error);
        tally.note(role, at, {found, expected, error, allowed, right});
    }

    const LinearAttention &a_;
    const Operands &operands_;
    SequentialScan<double> exact_;
    SequentialScan<float> emulated_;
    StateErrors errors_;
    std::vector<double> bound_;
    uint32_t b_ = 0, head_ = 0;
};

void verify(const LinearAttention &a, const Operands &operands, const vkattn_verify_options &options, vkattn_verify_report &report) {
    report = {};
    report.worstRole = a.uses(VKATTN_OUT) ? VKATTN_OUT : a.uses(VKATTN_STATE_OUT) ? VKATTN_STATE_OUT : VKATTN_SNAPSHOTS;
    report.passed = 1;
    // A scan is checked as a whole. Its rows are those of out, and of the states.
    const uint64_t group = a.heads / a.stateHeads, states = (a.uses(VKATTN_STATE_OUT) ? 1 : 0) + uint64_t{a.snapshotCount()};
    const uint64_t rows = (a.uses(VKATTN_OUT) ? group * a.queryTokens : 0) + states * a.stateRows;
    const uint64_t heads = uint64_t{a.batch} * a.stateHeads;
    if (rows == 0) return;
    const std::vector<size_t> chosen = chosenHeads(std::vector<uint64_t>(heads, rows), 8 * a.flops(), options);
    report.rowsTotal = heads * rows;
    report.rowsChecked = chosen.size() * rows;
    Tally sum;
    double largestValue = 0;
    checkUnits(
        options, chosen.size(), [&] { return std::make_shared<HeadChecker>(a, operands); },
        [&](HeadChecker &checker, uint64_t n) {
            checker.check(static_cast<uint32_t>(chosen[n] / a.stateHeads), static_cast<uint32_t>(chosen[n] % a.stateHeads));
        },
        [&](const HeadChecker &checker) {
            sum.merge(checker.tally);
            largestValue = std::max(largestValue, checker.largestValue);
        });
    sum.writeTo(report);
    report.maxErrorRelativeToV = largestValue > 0 ? report.maxError / largestValue : 0;
}

} // namespace

vkattn_result verifyLinear(const vkattn_linear_attention *description, const vkattn_operand_memory *memory, uint32_t count,
                           const vkattn_verify_options *options, vkattn_verify_report *report, vkattn_diagnostic *why) {
    return verifyBound(makeLinear, description, memory, count, options, report, why, "the state of one head", verify);
}

} // namespace vkattn
