// The oracle of the gradients of linear attention: the scans of reverse_scan.hpp, one head after the other, whose
// parts of a gradient are added up in double.
#include "cpu/entry.hpp"
#include "cpu/linear_gradient/linear_gradient.hpp"
#include "cpu/linear_gradient/reverse_scan.hpp"

namespace vkattn {
namespace {

constexpr vkattn_role gradients[] = {VKATTN_D_Q, VKATTN_D_K, VKATTN_D_V, VKATTN_D_DECAY, VKATTN_D_WRITE_STRENGTH, VKATTN_D_STATE_IN};

class OracleGradients {
  public:
    OracleGradients(const LinearGradient &g, const Operands &operands) : g_(g), a_(g.forward), operands_(operands), scan_(g, operands) {
        for (const vkattn_role role : gradients) {
            const uint32_t *e = g.tensor(role).extent;
            if (g.uses(role)) sums_[role].assign(uint64_t{e[0]} * e[1] * e[2] * e[3], 0.0);
        }
    }
    void compute(uint32_t b, uint32_t stateHead) {
        b_ = b, head_ = stateHead;
        scan_.begin(b, stateHead);
        walkBack(a_, keysOf(a_, operands_, b), a_.uses(VKATTN_STATE_IN), *this);
    }
    void row(uint32_t i, bool sees) {
        for (uint32_t n = 0; sees && n < a_.heads / a_.stateHeads; ++n) {
            const uint32_t head = a_.headOfState(head_, n);
            scan_.row(head, i);
            add(VKATTN_D_Q, head, i, scan_.dQuery);
        }
    }
    void token(uint32_t t) {
        scan_.token();
        add(VKATTN_D_K, head_, t, scan_.dKey);
        add(VKATTN_D_V, head_, t, scan_.dValue);
        add(VKATTN_D_DECAY, head_, t, scan_.dDecay);
        add(VKATTN_D_WRITE_STRENGTH, head_, t, {scan_.dStrength});
        scan_.back(t);
    }
    void end() {
        const uint32_t columns = static_cast<uint32_t>(scan_.dState.size() / a_.stateRows);
        for (uint32_t r = 0; r < a_.stateRows; ++r) {
            const auto row = scan_.dState.begin() + static_cast<ptrdiff_t>(size_t{r} * columns);
            std::vector<double> whole(row, row + columns);
            whole.resize(a_.stateColumns, 0.0); // M
            add(VKATTN_D_STATE_IN, head_, r, whole);
        }
    }
    void store() const {
        for (const vkattn_role role : gradients) {
            if (!g_.uses(role)) continue;
            const Tensor &t = g_.tensor(role);
            const std::vector<double> &sums = sums_[role];
            for (size_t n = 0; n < sums.size(); ++n) {
                const uint64_t row = n / t.extent[3], token = row % t.extent[2], head = row / t.extent[2];
                const uint64_t at = t.index(head / t.extent[1], head % t.extent[1], token, n % t.extent[3]);
                storeElement(operands_.data[role], t.dtype, at, static_cast<float>(sums[n] / static_cast<double>(g_.lossScale)));
                if (!g_.has(VKATTN_NONFINITE) || std::isfinite(loadElement(operands_.data[role], t.dtype, at))) continue;
                const uint32_t found = 1;
                std::memcpy(operands_.data[VKATTN_NONFINITE], &found, 4);
            }
        }
    }

  private:
    void add(vkattn_role role, uint32_t head, uint32_t row, const std::vector<double> &part) {
        if (!g_.uses(role)) return;
        const uint32_t *e = g_.tensor(role).extent;
        const uint32_t own = a_.mappedHead(head, g_.headsOf(role), e[1]);
        double *const to = &sums_[role][((uint64_t{e[0] == 1 ? 0 : b_} * e[1] + own) * e[2] + row) * e[3]];
        for (size_t d = 0; d < part.size(); ++d) to[d] += part[d];
    }

    const LinearGradient &g_;
    const LinearAttention &a_;
    const Operands &operands_;
    ReverseScan<double> scan_;
    std::vector<double> sums_[VKATTN_ROLE_LIMIT];
    uint32_t b_ = 0, head_ = 0;
};

} // namespace

vkattn_result oracleLinearGradient(const vkattn_linear_gradient *description, const vkattn_operand_memory *memory, uint32_t count,
                                   vkattn_diagnostic *why) {
    return computeBound(makeLinearGradient, description, memory, count, why, "the states of one head",
                        [](const LinearGradient &g, const Operands &operands) {
                            // The batch may be any number without memory behind it where there is nothing to compute.
                            if (!g.hasWork()) return;
                            OracleGradients all(g, operands);
                            for (uint32_t b = 0; b < g.forward.batch; ++b)
                                for (uint32_t s = 0; s < g.forward.stateHeads; ++s) all.compute(b, s);
                            all.store();
                        });
}

} // namespace vkattn
