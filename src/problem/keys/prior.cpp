#include "problem/keys/prior.hpp"

#include "problem/problem.hpp"
#include "util/diagnostic.hpp"

namespace vkattn {

vkattn_result checkPrior(const Problem &p, vkattn_diagnostic *why) {
    const Tensor &out = p.tensor(VKATTN_PRIOR_OUT), &lse = p.tensor(VKATTN_PRIOR_LSE), &own = p.tensor(VKATTN_OUT);
    if (out.present() != lse.present())
        return fail(why, invalid, "%s has a layout without %s; a problem goes on from both or from neither",
                    roleName(out.present() ? VKATTN_PRIOR_OUT : VKATTN_PRIOR_LSE),
                    roleName(out.present() ? VKATTN_PRIOR_LSE : VKATTN_PRIOR_OUT));
    if (!out.present()) return VKATTN_OK;
    // Those of out, which in a ragged batch holds the tokens of all sequences.
    const uint32_t expectedLse[4] = {own.extent[0], own.extent[1], own.extent[2], 1};
    if (const auto r = expectExtents(out, roleName(VKATTN_PRIOR_OUT), own.extent, 0, why)) return r;
    if (const auto r = expectExtents(lse, roleName(VKATTN_PRIOR_LSE), expectedLse, 0, why)) return r;
    const char *const beside = p.drops()             ? "dropout"
                               : p.rowStatistics     ? "VKATTN_ROW_STATISTICS"
                               : p.program.sumless() ? "vkattnRow of the program"
                                                     : nullptr;
    if (beside)
        return fail(why, invalid,
                    "priorOut and %s are both given; a problem goes on from the log-sum-exp of all weights, none of which is dropped",
                    beside);
    return VKATTN_OK;
}

} // namespace vkattn
