#include "statistics_runs.hpp"

#include "conform/cases/case_text.hpp"
#include "conform/cases/operation_case.hpp"
#include "cpu/pool.hpp"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>

namespace vkattn::test {
namespace {

constexpr const char *roleNames[] = {"statistics", "received", "topWeights", "topKeys"};
const char *nameOf(vkattn_role role) {
    return roleNames[std::find(std::begin(statisticsRoles), std::end(statisticsRoles), role) - std::begin(statisticsRoles)];
}

void runOn(const vkattn_operation &o, const std::vector<vkattn_operand_memory> &memory, uint32_t threads, const std::string &text) {
    vkattn_cpu_pool pool = nullptr;
    vkattn_diagnostic why{};
    uint64_t bytes = 0;
    if (threads) {
        ASSERT_EQ(vkattnCpuCreatePool(threads, &pool, nullptr), VKATTN_OK);
        pool->pool.shareAnyWork();
    }
    ASSERT_EQ(vkattnCpuOperationWorkspace(&o, pool, &bytes, &why), VKATTN_OK) << why.message;
    std::vector<unsigned char> workspace(bytes + 2, 0xa5);
    const vkattn_result r =
        vkattnCpuRunOperation(pool, &o, memory.data(), static_cast<uint32_t>(memory.size()), workspace.data() + 1, bytes, &why);
    vkattnCpuDestroyPool(pool);
    ASSERT_EQ(r, VKATTN_OK) << why.message << text;
    EXPECT_EQ(workspace.front(), 0xa5);
    EXPECT_EQ(workspace.back(), 0xa5) << "wrote past the workspace: " << text;
}
void runOracleOn(const vkattn_operation &o, const std::vector<vkattn_operand_memory> &memory, const std::string &text) {
    vkattn_diagnostic why{};
    ASSERT_EQ(vkattnCpuOracleOperation(&o, memory.data(), static_cast<uint32_t>(memory.size()), &why), VKATTN_OK) << why.message << text;
}

} // namespace

StatisticsCase &StatisticsCase::operator=(const StatisticsCase &other) {
    if (this == &other) return *this;
    data = std::make_unique<CaseData>(*other.data);
    data->collectOperands();
    scoresAlone = other.scoresAlone;
    statistics = other.statistics;
    tensors = other.tensors;
    return *this;
}

vkattn_operation StatisticsCase::operation() {
    attention = data->problem;
    if (scoresAlone) attention.v = attention.out = {};
    statistics.attention = &attention;
    vkattn_operation o{};
    o.kind = VKATTN_ATTENTION_STATISTICS;
    o.of.attentionStatistics = &statistics;
    return o;
}

std::vector<vkattn_operand_memory> StatisticsCase::operands() {
    data->collectOperands();
    std::vector<vkattn_operand_memory> all = data->operands;
    std::erase_if(all, [](const vkattn_operand_memory &each) {
        return each.role == VKATTN_V || each.role == VKATTN_OUT || each.role == VKATTN_LSE || each.role == VKATTN_WEIGHTS ||
               each.role == VKATTN_SCORES || each.role == VKATTN_SINKS;
    });
    for (auto &[role, t] : tensors) all.push_back({role, t.data(), t.bytes()});
    return all;
}

vkattn_layout &StatisticsCase::layout(vkattn_role role) {
    return role == VKATTN_STATISTICS    ? statistics.statistics
           : role == VKATTN_RECEIVED    ? statistics.received
           : role == VKATTN_TOP_WEIGHTS ? statistics.topWeights
                                        : statistics.topKeys;
}

bool StatisticsCase::isWritten(vkattn_role role, uint32_t b, uint32_t token) const {
    if (role == VKATTN_RECEIVED && !data->c.ragged) return true; // keys past a length are written: 0
    return std::any_of(data->spans.begin(), data->spans.end(), [&](const Span &s) {
        const uint32_t first = role == VKATTN_RECEIVED ? s.firstKey : s.firstQuery, count = role == VKATTN_RECEIVED ? s.keys : s.queries;
        return s.batch == b && token >= first && token - first < count;
    });
}

std::string StatisticsCase::text() const {
    std::string all = caseText(data->c) + ";";
    for (const auto &[role, t] : tensors) all += std::string(" ") + nameOf(role);
    char numbers[80];
    std::snprintf(numbers, sizeof numbers, " top=%u threshold=%g", statistics.topWeights.extent[3],
                  static_cast<double>(statistics.densityThreshold));
    return all + numbers;
}

vkattn_verify_report StatisticsCase::verified(const vkattn_verify_options &given) {
    vkattn_verify_options options = given;
    options.structSize = sizeof options;
    if (!options.rows) options.allRows = 1;
    options.threads = 1;
    vkattn_verify_report report{};
    vkattn_diagnostic why{};
    const vkattn_operation o = operation();
    const auto memory = operands();
    EXPECT_EQ(vkattnCpuVerifyOperation(&o, memory.data(), static_cast<uint32_t>(memory.size()), &options, &report, &why), VKATTN_OK)
        << why.message << text();
    return report;
}

std::string StatisticsCase::wrong(const StatisticsCase &before) {
    const vkattn_verify_report report = verified();
    if (!report.passed) {
        char line[300];
        std::snprintf(line, sizeof line, "%s at [%u, %u, %u, %u]: got %.9g, expected %.9g, error %.3g, bound %.3g",
                      nameOf(report.worstRole), report.worstIndex[0], report.worstIndex[1], report.worstIndex[2], report.worstIndex[3],
                      report.worstGot, report.worstExpected, report.worstError, report.worstBound);
        return line;
    }
    for (const auto &[role, t] : tensors) {
        const vkattn_role own = role;
        const std::string found =
            t.damage(before.tensors.at(role), [&](uint32_t b, uint32_t, uint32_t token, uint32_t) { return isWritten(own, b, token); });
        if (!found.empty()) return std::string(nameOf(role)) + ": " + found;
    }
    return {};
}

StatisticsCase drawStatistics(Random &random, const Case &attention, bool everything) {
    const auto yes = [&](uint32_t of = 2) { return between(random, 1, of) == 1; };
    StatisticsCase drawn;
    Case c = attention;
    c.slices = 0;
    c.kernel = VKATTN_KERNEL_AUTO;
    drawn.data = makeCaseData(c, random);
    CaseData &in = *drawn.data;
    drawn.scoresAlone = yes();
    const uint32_t *q = in.problem.q.extent, *k = in.problem.k.extent;
    drawn.statistics.structSize = sizeof drawn.statistics;
    if (everything || yes()) drawn.statistics.densityThreshold = yes() ? 0.05f : 1e-4f;
    const uint32_t top = between(random, 1, VKATTN_MAX_TOP_KEYS), which = everything ? 7 : between(random, 1, 7);
    if (which & 1) drawn.statistics.statistics = drawLayout(random, VKATTN_F32, true, {q[0], q[1], q[2], VKATTN_STATISTIC_COUNT});
    if (which & 2) drawn.statistics.received = drawLayout(random, VKATTN_F32, true, {k[0], q[1], k[2], 1});
    if (which & 4) {
        drawn.statistics.topWeights = drawLayout(random, VKATTN_F32, true, {q[0], q[1], q[2], top});
        drawn.statistics.topKeys = drawLayout(random, VKATTN_BITS32, true, {q[0], q[1], q[2], top});
    }
    const vkattn_operation o = drawn.operation();
    vkattn_diagnostic why{};
    EXPECT_EQ(vkattnValidateOperation(&o, &why), VKATTN_OK) << why.message << " " << drawn.text();
    for (const vkattn_role role : statisticsRoles) {
        if (drawn.layout(role).extent[0] == 0) continue;
        HostTensor &t = drawn.tensors[role];
        t.make(drawn.layout(role), vkattnOperationBytes(&o, role), 0xff);
        t.fillRandomly(random);
    }
    return drawn;
}

void run(StatisticsCase &c, uint32_t threads) {
    runOn(c.operation(), c.operands(), threads, c.text());
}
void runOracle(StatisticsCase &c) {
    runOracleOn(c.operation(), c.operands(), c.text());
}

SmallHead::SmallHead(uint32_t ofQueries, uint32_t ofKeys, const std::function<double(uint32_t, uint32_t)> &weight)
    : queries(ofQueries), keys(ofKeys), q(queries), k(keys) {
    for (uint32_t i = 0; i < queries; ++i)
        for (uint32_t j = 0; j < keys; ++j) bias.push_back(static_cast<float>(std::log(weight(i, j))));
}

void SmallHead::run(bool oracle) {
    const auto packed = [](vkattn_dtype dtype, uint32_t rows, uint32_t columns) {
        return vkattn_layout{dtype, {1, 1, rows, columns}, {int64_t{rows} * columns, int64_t{rows} * columns, columns, 1}, 0};
    };
    vkattn_problem p{};
    p.structSize = sizeof p;
    p.flags = topLeft ? VKATTN_ALIGN_TOP_LEFT : 0; // of one dim: the scale is 1
    p.q = packed(VKATTN_F32, queries, 1);
    p.k = packed(VKATTN_F32, keys, 1);
    p.bias = packed(VKATTN_F32, queries, keys);
    vkattn_attention_statistics s{};
    s.structSize = sizeof s;
    s.attention = &p;
    s.statistics = packed(VKATTN_F32, queries, VKATTN_STATISTIC_COUNT);
    s.received = packed(VKATTN_F32, keys, 1);
    s.topWeights = packed(VKATTN_F32, queries, top);
    s.topKeys = packed(VKATTN_BITS32, queries, top);
    s.densityThreshold = threshold;
    statistics.assign(size_t{queries} * VKATTN_STATISTIC_COUNT, 12345.0f);
    received.assign(keys, 12345.0f);
    topWeights.assign(size_t{queries} * top, 12345.0f);
    topKeys.assign(size_t{queries} * top, 12345);
    vkattn_operation o{};
    o.kind = VKATTN_ATTENTION_STATISTICS;
    o.of.attentionStatistics = &s;
    const auto of = [](vkattn_role role, auto &array) { return vkattn_operand_memory{role, array.data(), 4 * array.size()}; };
    const std::vector<vkattn_operand_memory> memory = {of(VKATTN_Q, q),
                                                       of(VKATTN_K, k),
                                                       of(VKATTN_BIAS, bias),
                                                       of(VKATTN_STATISTICS, statistics),
                                                       of(VKATTN_RECEIVED, received),
                                                       of(VKATTN_TOP_WEIGHTS, topWeights),
                                                       of(VKATTN_TOP_KEYS, topKeys)};
    if (oracle)
        runOracleOn(o, memory, "small head");
    else
        runOn(o, memory, 0, "small head");
}

} // namespace vkattn::test
