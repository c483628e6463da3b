// Element-by-element comparison of linear attention with the oracle, by the rule of docs/numerics.md, "Linear
// attention".
#include "cpu/entry.hpp"
#include "cpu/linear/linear.hpp"
#include "cpu/linear/state_errors.hpp"
#include "cpu/oracle/comparison.hpp"

#include <memory>

namespace vkattn {
namespace {

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
