// The oracle of linear attention: the scans of oracle_scan.hpp, one head after the other.
#include "cpu/entry.hpp"
#include "cpu/linear/linear.hpp"
#include "cpu/linear/oracle_scan.hpp"

namespace vkattn {
namespace {

class OracleHead {
  public:
    OracleHead(const LinearAttention &a, const Operands &operands) : a_(a), operands_(operands), scan_(a, operands) {}

    void compute(uint32_t b, uint32_t stateHead) {
        b_ = b, head_ = stateHead;
        scan_.begin(b, stateHead);
        walkHead(a_, keysOf(a_, operands_, b), *this);
    }
    void write(uint32_t t) { scan_.write(t); }
    void row(uint32_t i, bool sees) {
        for (uint32_t n = 0; n < a_.heads / a_.stateHeads && a_.uses(VKATTN_OUT); ++n) {
            const uint32_t head = a_.headOfState(head_, n);
            if (sees) scan_.read(head, i);
            for (uint32_t d = 0; d < a_.valueDim; ++d) store(VKATTN_OUT, {b_, head, i, d}, sees ? scan_.out[d] : 0);
        }
    }
    void snapshot(uint32_t n) { storeState(VKATTN_SNAPSHOTS, uint64_t{n} * a_.stateRows); }
    void end() {
        if (a_.uses(VKATTN_STATE_OUT)) storeState(VKATTN_STATE_OUT, 0);
    }

  private:
    void storeState(vkattn_role role, uint64_t first) {
        for (uint32_t r = 0; r < a_.stateRows; ++r)
            for (uint32_t c = 0; c < a_.stateColumns; ++c) store(role, {b_, head_, first + r, c}, scan_.stored(r, c));
    }
    void store(vkattn_role role, const uint64_t (&at)[4], double value) {
        const Tensor &t = a_.tensor(role);
        storeElement(operands_.data[role], t.dtype, t.index(at[0], at[1], at[2], at[3]), static_cast<float>(value));
    }

    const LinearAttention &a_;
    const Operands &operands_;
    SequentialScan<double> scan_;
    uint32_t b_ = 0, head_ = 0;
};

} // namespace

vkattn_result oracleLinear(const vkattn_linear_attention *description, const vkattn_operand_memory *memory, uint32_t count,
                           vkattn_diagnostic *why) {
    return computeBound(makeLinear, description, memory, count, why, "the state of one head",
                        [](const LinearAttention &a, const Operands &operands) {
                            // The batch may be any number without memory behind it where there is nothing to compute.
                            if (!a.uses(VKATTN_STATE_OUT) && a.snapshotCount() == 0 && a.queryTokens == 0) return;
                            OracleHead head(a, operands);
                            for (uint32_t b = 0; b < a.batch; ++b)
                                for (uint32_t s = 0; s < a.stateHeads; ++s) head.compute(b, s);
                        });
}

} // namespace vkattn
