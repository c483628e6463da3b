#include "problem/statistics.hpp"

#include "problem/scores_only.hpp"
#include "util/diagnostic.hpp"
#include "util/struct_size.hpp"

#include <cmath>

namespace vkattn {
namespace {

using Description = vkattn_attention_statistics;

constexpr uint32_t f32Only = 1u << VKATTN_F32;

constexpr StatisticsOperand statisticsTable[] = {
    {VKATTN_STATISTICS, "statistics", true, f32Only, &Description::statistics},
    {VKATTN_RECEIVED, "received", true, f32Only, &Description::received},
    {VKATTN_TOP_WEIGHTS, "topWeights", true, f32Only, &Description::topWeights},
    {VKATTN_TOP_KEYS, "topKeys", true, 1u << VKATTN_BITS32, &Description::topKeys},
};

vkattn_result takeTensors(const Description &given, Statistics &out, vkattn_diagnostic *why) {
    Tensor *const places[] = {&out.statistics, &out.received, &out.topWeights, &out.topKeys};
    const Problem &p = out.attention;
    const Tensor &q = p.tensor(VKATTN_Q), &k = p.tensor(VKATTN_K);
    const uint32_t top = given.topWeights.extent[3];
    if (absent(given.topWeights) != absent(given.topKeys))
        return fail(why, invalid, "%s has a layout, and %s has none; give both or neither",
                    absent(given.topKeys) ? "topWeights" : "topKeys", absent(given.topKeys) ? "topKeys" : "topWeights");
    if (!absent(given.topWeights) && (top == 0 || top > VKATTN_MAX_TOP_KEYS))
        return fail(why, invalid, "topWeights has %u columns, expected 1 to %d", top, VKATTN_MAX_TOP_KEYS);
    bool any = false;
    for (uint32_t n = 0; n < std::size(statisticsTable); ++n) {
        const StatisticsOperand &each = statisticsTable[n];
        if (absent(given.*each.layout)) continue;
        any = true;
        if (const auto r = makeTensor(given.*each.layout, {each.name, true, each.dtypes}, *places[n], why)) return r;
        const bool ofKeys = each.role == VKATTN_RECEIVED;
        const uint32_t columns = ofKeys ? 1 : each.role == VKATTN_STATISTICS ? uint32_t{VKATTN_STATISTIC_COUNT} : top;
        const Tensor &tokens = ofKeys ? k : q;
        if (const auto r = expectExtents(*places[n], each.name, {tokens.extent[0], p.heads, tokens.extent[2], columns}, 0, why)) return r;
    }
    if (!any) return fail(why, invalid, "no output is asked for: give statistics, received, or topWeights and topKeys a layout");
    return VKATTN_OK;
}

} // namespace

std::span<const StatisticsOperand> statisticsOperands() {
    return statisticsTable;
}

const StatisticsOperand *findStatisticsOperand(vkattn_role role) {
    for (const StatisticsOperand &each : statisticsTable)
        if (each.role == role) return &each;
    return nullptr;
}

const Tensor &Statistics::tensor(vkattn_role role) const {
    switch (role) {
    case VKATTN_STATISTICS:
        return statistics;
    case VKATTN_RECEIVED:
        return received;
    case VKATTN_TOP_WEIGHTS:
        return topWeights;
    case VKATTN_TOP_KEYS:
        return topKeys;
    default:
        return attention.tensor(role);
    }
}

bool Statistics::uses(vkattn_role role) const {
    if (findStatisticsOperand(role)) return tensor(role).present();
    return role != VKATTN_V && role != VKATTN_OUT && attention.uses(role);
}

ByteRange Statistics::bytesUsed(vkattn_role role) const {
    if (!uses(role)) return {};
    return findStatisticsOperand(role) ? tensor(role).span() : attention.bytesUsed(role);
}

double Statistics::flops() const {
    const Problem &p = attention;
    return 2.0 * p.batch * p.heads * p.queryTokens * p.keyTokens * p.headDim;
}

vkattn_result makeStatistics(const vkattn_attention_statistics *description, Statistics &out, vkattn_diagnostic *why) {
    if (!description) return fail(why, invalid, "operation.of.attentionStatistics is NULL");
    if (const auto r = checkStructSize(*description, "statistics", "vkattn_attention_statistics", why)) return r;
    vkattn_attention_statistics room;
    const vkattn_attention_statistics &s = completed(*description, room);
    if (s.flags) return fail(why, invalid, "statistics.flags is 0x%x, expected 0", s.flags);
    if (s.reserved) return fail(why, invalid, "statistics.reserved is %u, expected 0", s.reserved);
    if (!(s.densityThreshold >= 0 && s.densityThreshold < 1))
        return fail(why, invalid, "statistics.densityThreshold is %g, expected at least 0 and below 1; 0: no density",
                    static_cast<double>(s.densityThreshold));
    if (!s.attention) return fail(why, invalid, "statistics.attention is NULL");
    if (const auto r = checkStructSize(*s.attention, "statistics.attention", "vkattn_problem", why)) return r;
    vkattn_problem attentionRoom;
    const vkattn_problem &attention = completed(*s.attention, attentionRoom);
    if (!absent(attention.priorOut) || !absent(attention.priorLse))
        return fail(why, invalid,
                    "attention has priorOut or priorLse; statistics are of weights whose sum is 1 over the keys that there are");
    const vkattn_problem scores = scoresOnly(attention);
    out = Statistics{};
    if (const auto r = makeProblem(&scores, out.attention, why)) return r;
    if (out.attention.unmaskedKeys)
        return fail(why, invalid, "attention has a mask or a bias of fewer keys than k; statistics take those of every key");
    if (out.attention.segmented()) return fail(why, invalid, "attention has k1; statistics take keys in one segment");
    if (out.attention.paged()) return fail(why, invalid, "attention has a page table; statistics take keys that lie one after the other");
    if (const Tensor &k = out.attention.tensor(VKATTN_K); isSmallType(k.dtype))
        return fail(why, invalid, "k of attention is %s; statistics take keys of VKATTN_F32, VKATTN_F16 or VKATTN_BF16",
                    nameOfSmallType(k.dtype));
    if (const ProgramUse &use = out.attention.program; use.sumless())
        return fail(why, invalid,
                    "the program %s of statistics.attention has vkattnRow, and statistics are of weights that are shares of a sum; take a "
                    "program without",
                    nameOf(*use.program));
    out.densityThreshold = s.densityThreshold;
    return takeTensors(s, out, why);
}

} // namespace vkattn
