// The oracle of statistics: the rows of oracle_row.hpp, one after the other, and what they give to each key.
#include "cpu/entry.hpp"
#include "cpu/statistics/oracle_row.hpp"
#include "cpu/statistics/statistics.hpp"

namespace vkattn {
namespace {

class OracleStatistics {
  public:
    OracleStatistics(const Statistics &statistics, const Operands &operands)
        : statistics_(statistics), p_(statistics.attention), operands_(operands) {}

    void compute() {
        const bool rows = p_.tensor(VKATTN_Q).extent[2] != 0;
        const bool keys = statistics_.uses(VKATTN_RECEIVED) && p_.tensor(VKATTN_K).extent[2] != 0;
        const Sequences sequences(p_, operands_);
        if (rows || keys)
            forEverySequence(p_, operands_, [&](uint32_t b, const Sequence &s) {
                for (uint32_t h = 0; h < p_.heads; ++h) {
                    if (rows) kv_.load(p_, operands_, sequences, b, h / p_.groupSize());
                    computeHead(s, b, h);
                }
            });
    }

  private:
    void computeHead(const Sequence &s, uint32_t b, uint32_t h) {
        received_.assign(s.keys, 0.0);
        double rows = 0; // that see a key
        for (uint32_t i = 0; i < s.queries; ++i) {
            row_.compute(statistics_, operands_, s, kv_, b, h, i);
            for (const StatisticsPair &pair : row_.pairs)
                received_[pair.j] += row_.undefined() ? std::numeric_limits<double>::quiet_NaN() : pair.weight;
            if (row_.seen()) ++rows;
            storeRow(s, h, i);
        }
        if (!statistics_.uses(VKATTN_RECEIVED)) return;
        // Keys past a key length are keys that no row sees.
        const uint32_t keys = p_.ragged() ? s.keys : p_.keyTokens;
        for (uint32_t j = 0; j < keys; ++j)
            store(VKATTN_RECEIVED, {s.batch, h, s.key(j), 0}, j < s.keys && rows > 0 ? received_[j] / rows : 0);
    }
    void storeRow(const Sequence &s, uint32_t h, uint32_t i) {
        if (statistics_.uses(VKATTN_STATISTICS))
            for (uint32_t column = 0; column < VKATTN_STATISTIC_COUNT; ++column)
                store(VKATTN_STATISTICS, {s.batch, h, s.query(i), column}, row_.columns[column]);
        for (uint32_t t = 0; t < statistics_.topCount(); ++t) {
            const bool is = t < row_.ranked.size();
            const StatisticsPair none{noKey, 0, 0, 0, row_.undefined() ? std::numeric_limits<double>::quiet_NaN() : 0, 0};
            const StatisticsPair &pair = is ? row_.pairs[row_.ranked[t]] : none;
            store(VKATTN_TOP_WEIGHTS, {s.batch, h, s.query(i), t}, pair.weight);
            std::memcpy(operands_.data[VKATTN_TOP_KEYS] + 4 * statistics_.topKeys.index(s.batch, h, s.query(i), t), &pair.j, 4);
        }
    }
    void store(vkattn_role role, const uint64_t (&at)[4], double value) {
        storeElement(operands_.data[role], VKATTN_F32, statistics_.tensor(role).index(at[0], at[1], at[2], at[3]),
                     static_cast<float>(value));
    }

    const Statistics &statistics_;
    const Problem &p_;
    const Operands &operands_;
    HeadKeysValues kv_;
    StatisticsRow row_;
    std::vector<double> received_;
};

} // namespace

vkattn_result oracleStatistics(const vkattn_attention_statistics *description, const vkattn_operand_memory *memory, uint32_t count,
                               vkattn_diagnostic *why) {
    return computeBound(makeStatistics, description, memory, count, why, "the pairs of one row or a copy of one head",
                        [](const Statistics &statistics, const Operands &operands) { OracleStatistics(statistics, operands).compute(); });
}

} // namespace vkattn
