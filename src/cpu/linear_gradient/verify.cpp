// Element-by-element comparison of the gradients of linear attention with the oracle, by the rule of
// docs/numerics.md, "Gradients of linear attention".
#include "cpu/entry.hpp"
#include "cpu/linear_gradient/gradient_errors.hpp"
#include "cpu/linear_gradient/linear_gradient.hpp"

#include <map>
#include <memory>
#include <numeric>

namespace vkattn {
namespace {

struct Sum {
    double exact = 0, emulated = 0, bound = 0;
};

// A batch entry and a state head.
struct Head {
    uint32_t b, stateHead;
};

// State heads that add to the same elements of a gradient, in the order in which they are added.
using Group = std::vector<Head>;

class GroupChecker {
  public:
    GroupChecker(const LinearGradient &g, const Operands &operands)
        : g_(g), a_(g.forward), operands_(operands), exact_(g, operands), emulated_(g, operands), errors_(g) {}

    Tally tally;
    bool foundNonfinite = false;

    void check(const Group &group) {
        sums_.clear();
        overflowed_ = false;
        for (const Head &head : group) {
            b_ = head.b, head_ = head.stateHead;
            for (const LinearGradientOperand &each : linearGradientOperands())
                if (each.output && each.layout && g_.uses(each.role)) makeSums(each.role);
            exact_.begin(b_, head_);
            emulated_.begin(b_, head_);
            errors_.begin(exact_);
            walkBack(a_, keysOf(a_, operands_, b_), a_.uses(VKATTN_STATE_IN), *this);
            overflowed_ |= errors_.overflowed;
        }
        for (const auto &[place, sums] : sums_) compare(place, sums);
    }
    void row(uint32_t i, bool sees) {
        for (uint32_t n = 0; sees && n < a_.heads / a_.stateHeads; ++n) {
            const uint32_t head = a_.headOfState(head_, n);
            exact_.row(head, i);
            emulated_.row(head, i);
            errors_.row(exact_);
            add(VKATTN_D_Q, head, i, exact_.dQuery, emulated_.dQuery, errors_.dQuery);
        }
    }
    void token(uint32_t t) {
        exact_.token();
        emulated_.token();
        errors_.token(exact_, t);
        add(VKATTN_D_K, head_, t, exact_.dKey, emulated_.dKey, errors_.dKey);
        add(VKATTN_D_V, head_, t, exact_.dValue, emulated_.dValue, errors_.dValue);
        add(VKATTN_D_DECAY, head_, t, exact_.dDecay, emulated_.dDecay, errors_.dDecay);
        add(VKATTN_D_WRITE_STRENGTH, head_, t, {exact_.dStrength}, {emulated_.dStrength}, {errors_.dStrength});
        exact_.back(t);
        emulated_.back(t);
    }
    void end() {
        const auto columns = static_cast<uint32_t>(exact_.dState.size() / a_.stateRows);
        for (uint32_t r = 0; g_.uses(VKATTN_D_STATE_IN) && r < a_.stateRows; ++r) {
            std::vector<double> exact, bound;
            std::vector<float> emulated;
            for (uint32_t c = 0; c < columns; ++c) {
                exact.push_back(exact_.dState[size_t{r} * columns + c]);
                emulated.push_back(emulated_.dState[size_t{r} * columns + c]);
                bound.push_back(errors_.ofState(exact_, r, c));
            }
            add(VKATTN_D_STATE_IN, head_, r, exact, emulated, bound);
        }
    }

  private:
    struct Place {
        vkattn_role role;
        uint32_t b, head;
        bool operator<(const Place &other) const { return std::tie(role, b, head) < std::tie(other.role, other.b, other.head); }
    };

    [[nodiscard]] Place placeOf(vkattn_role role, uint32_t head) const {
        const uint32_t *e = g_.tensor(role).extent;
        return {role, e[0] == 1 ? 0 : b_, a_.mappedHead(head, g_.headsOf(role), e[1])};
    }
    // Of what no row and no token adds to the gradient is 0.
    void makeSums(vkattn_role role) {
        const uint32_t *e = g_.tensor(role).extent;
        const uint32_t group = role == VKATTN_D_Q ? a_.heads / a_.stateHeads : 1;
        for (uint32_t n = 0; n < group; ++n)
            sums_[placeOf(role, role == VKATTN_D_Q ? a_.headOfState(head_, n) : head_)].resize(size_t{e[2]} * e[3]);
    }
    void add(vkattn_role role, uint32_t head, uint32_t row, const std::vector<double> &exact, const std::vector<float> &emulated,
             const std::vector<double> &bound) {
        if (!g_.uses(role)) return;
        Sum *const to = &sums_[placeOf(role, head)][size_t{row} * g_.tensor(role).extent[3]];
        for (size_t d = 0; d < exact.size(); ++d) {
            to[d].exact += exact[d];
            to[d].emulated += static_cast<double>(emulated[d]);
            // Bounds of what is not finite are no numbers. Sums of parts are rounded.
            to[d].bound += std::isnan(bound[d]) ? infinite : bound[d] + 2 * unitRoundoff * std::abs(exact[d]) + smallestNormal;
        }
    }
    void compare(const Place &place, const std::vector<Sum> &sums) {
        const Tensor &t = g_.tensor(place.role);
        // Errors of delta rules may grow; the emulation's is one draw of them.
        const double factor = a_.isDelta() ? 8 : 2;
        for (uint32_t row = 0; row < t.extent[2]; ++row) {
            const Sum *const own = &sums[size_t{row} * t.extent[3]];
            double emulation = 0;
            for (uint32_t d = 0; d < t.extent[3]; ++d) {
                const double error = std::abs(own[d].emulated - own[d].exact);
                if (std::isfinite(error)) emulation = std::max(emulation, error);
            }
            for (uint32_t d = 0; d < t.extent[3]; ++d)
                note(place.role, {place.b, place.head, row, d}, own[d].exact, own[d].bound == 0 ? 0 : own[d].bound + factor * emulation);
        }
    }
    // Compares an element whose value before it is stored may be off by `bound`; 0: by nothing.
    void note(vkattn_role role, const uint32_t (&at)[4], double sum, double bound) {
        const Tensor &t = g_.tensor(role);
        const auto lossScale = static_cast<double>(g_.lossScale);
        const double found = loadElement(operands_.data[role], t.dtype, t.index(at[0], at[1], at[2], at[3]));
        const double expected = sum / lossScale, off = bound / lossScale + unitRoundoff * std::abs(expected);
        foundNonfinite = foundNonfinite || !std::isfinite(found);
        // The division may flush what it makes.
        double error = std::abs(found - expected), allowed = bound == 0 ? 0 : off + halfUlp(expected, t.dtype) + smallestNormal;
        bool right = error <= allowed;
        if (!std::isfinite(expected)) {
            right = (overflowed_ && bound != 0) || !std::isfinite(found);
            error = right ? 0 : infinite;
        } else if (bound != 0 && (overflowed_ || !(std::abs(sum) + bound <= mostOfFp32) || !(std::abs(expected) + allowed <= mostOfFp32))) {
            right = true; // fp32 cannot say
            error = 0;
        } else if (!std::isfinite(found)) {
            right = bound != 0 && roundsToInfinity(found, expected, off, t.dtype);
            error = right ? 0 : infinite;
        }
        tally.noteError(error);
        tally.note(role, at, {found, expected, error, allowed, right});
    }

    const LinearGradient &g_;
    const LinearAttention &a_;
    const Operands &operands_;
    ReverseScan<double, StateErrors> exact_;
    ReverseScan<float> emulated_;
    GradientErrors errors_;
    std::map<Place, std::vector<Sum>> sums_;
    bool overflowed_ = false;
    uint32_t b_ = 0, head_ = 0;
};

// Returns the state heads of all batch entries in groups that share no element of a gradient.
std::vector<Group> groupsOf(const LinearGradient &g) {
    const LinearAttention &a = g.forward;
    std::vector<size_t> parents(size_t{a.batch} * a.stateHeads);
    std::iota(parents.begin(), parents.end(), size_t{0});
    const auto root = [&](size_t n) {
        while (parents[n] != n) n = parents[n] = parents[parents[n]];
        return n;
    };
    for (const LinearGradientOperand &each : linearGradientOperands()) {
        if (!each.output || !each.layout || !g.isShared(each.role)) continue;
        const uint32_t *e = g.tensor(each.role).extent;
        std::map<std::pair<uint32_t, uint32_t>, size_t> first;
        for (uint32_t b = 0; b < a.batch; ++b)
            for (uint32_t h = 0; h < g.headsOf(each.role); ++h) {
                const size_t state = size_t{b} * a.stateHeads + (each.role == VKATTN_D_Q ? a.stateHead(h) : h);
                const auto place = std::pair{e[0] == 1 ? 0 : b, a.mappedHead(h, g.headsOf(each.role), e[1])};
                const size_t one = root(first.try_emplace(place, state).first->second), other = root(state);
                parents[std::max(one, other)] = std::min(one, other);
            }
    }
    std::map<size_t, Group> groups;
    for (uint32_t b = 0; b < a.batch; ++b)
        for (uint32_t s = 0; s < a.stateHeads; ++s) groups[root(size_t{b} * a.stateHeads + s)].push_back({b, s});
    std::vector<Group> all;
    for (auto &[first, group] : groups) all.push_back(std::move(group));
    return all;
}

void verify(const LinearGradient &g, const Operands &operands, const vkattn_verify_options &options, vkattn_verify_report &report) {
    const LinearAttention &a = g.forward;
    report = {};
    for (const LinearGradientOperand &each : linearGradientOperands())
        if (each.output && g.uses(each.role) && report.worstRole == vkattn_role{}) report.worstRole = each.role;
    report.passed = 1;
    if (!g.hasWork()) return;
    // A group is checked as a whole. Its rows are those of out, tokens and rows of the state.
    const uint64_t rows = uint64_t{a.heads / a.stateHeads} * a.queryTokens + a.keyTokens + (g.uses(VKATTN_D_STATE_IN) ? a.stateRows : 0);
    const std::vector<Group> groups = groupsOf(g);
    std::vector<uint64_t> rowsOf;
    for (const Group &group : groups) rowsOf.push_back(group.size() * rows);
    const std::vector<size_t> chosen = chosenHeads(rowsOf, 8 * g.flops(), options);
    for (size_t n = 0; n < groups.size(); ++n) report.rowsTotal += rowsOf[n];
    for (const size_t n : chosen) report.rowsChecked += rowsOf[n];
    Tally sum;
    bool foundNonfinite = false;
    checkUnits(
        options, chosen.size(), [&] { return std::make_shared<GroupChecker>(g, operands); },
        [&](GroupChecker &checker, uint64_t n) { checker.check(groups[chosen[n]]); },
        [&](const GroupChecker &checker) {
            sum.merge(checker.tally);
            foundNonfinite = foundNonfinite || checker.foundNonfinite;
        });
    if (g.has(VKATTN_NONFINITE) && foundNonfinite) {
        const auto got = static_cast<double>(operands.word(VKATTN_NONFINITE, 0));
        sum.note(VKATTN_NONFINITE, {0, 0, 0, 0}, {got, 1, std::abs(got - 1), 0, got == 1});
    }
    sum.writeTo(report);
}

} // namespace

vkattn_result verifyLinearGradient(const vkattn_linear_gradient *description, const vkattn_operand_memory *memory, uint32_t count,
                                   const vkattn_verify_options *options, vkattn_verify_report *report, vkattn_diagnostic *why) {
    return verifyBound(makeLinearGradient, description, memory, count, options, report, why, "the states of one head", verify);
}

} // namespace vkattn
