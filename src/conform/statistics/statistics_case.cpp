#include "conform/statistics/statistics_case.hpp"

#include "conform/cases/case_text.hpp"
#include "conform/cases/operation_case.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>

namespace vkattn::conform {
namespace {

constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float infinity = std::numeric_limits<float>::infinity();

bool decidesScores(vkattn_role role) {
    constexpr vkattn_role others[] = {VKATTN_V, VKATTN_OUT, VKATTN_LSE, VKATTN_WEIGHTS, VKATTN_SCORES, VKATTN_SINKS};
    return std::find(std::begin(others), std::end(others), role) == std::end(others);
}

// NaN in the queries of rows that see nothing, and in the bias of pairs that something else hides.
void poisonPairs(CaseData &in) {
    const Case &c = in.c;
    const bool ownBias = c.biasBroadcast && *c.biasBroadcast == 0;
    for (uint32_t b = 0; b < c.batch; ++b)
        for (uint32_t h = 0; h < c.heads; ++h)
            for (uint32_t i = 0; i < in.spans[b].queries; ++i) {
                const std::vector<unsigned char> keys = in.visibleKeys(b, h, i);
                const auto end = keys.begin() + in.spans[b].keys;
                if (std::find(keys.begin(), end, 1) == end)
                    for (uint32_t d = 0; d < c.headDim; ++d) in.q.set(in.spans[b].batch, h, in.spans[b].firstQuery + i, d, nan);
                for (uint32_t j = 0; ownBias && j < in.spans[b].keys; ++j)
                    if (!keys[j] && in.bias.get(b, h, i, j) != -infinity) in.bias.set(b, h, i, j, nan);
            }
}

void spoil(HostTensor &t, Random &random) {
    const uint32_t *e = t.layout.extent;
    if (e[2] == 0) return;
    constexpr float values[] = {nan, infinity, -infinity};
    t.set(between(random, 0, e[0] - 1), between(random, 0, e[1] - 1), between(random, 0, e[2] - 1), between(random, 0, e[3] - 1),
          values[random() % std::size(values)]);
}

const char *roleNameOf(vkattn_role role) {
    constexpr const char *names[] = {"statistics", "received", "topWeights", "topKeys"};
    for (size_t n = 0; n < std::size(names); ++n)
        if (statisticsRoles[n] == role) return names[n];
    return "?";
}

} // namespace

StatisticsCase &StatisticsCase::operator=(const StatisticsCase &other) {
    if (this == &other) return *this;
    data = std::make_unique<CaseData>(*other.data);
    data->collectOperands();
    attention = other.attention;
    statistics = other.statistics;
    statistics.attention = &attention;
    tensors = other.tensors;
    return *this;
}

std::vector<vkattn_operand_memory> StatisticsCase::operands() {
    data->collectOperands();
    std::vector<vkattn_operand_memory> all = data->operands;
    std::erase_if(all, [](const vkattn_operand_memory &each) { return !decidesScores(each.role); });
    for (auto &[role, t] : tensors) all.push_back({role, t.data(), t.bytes()});
    return all;
}

vkattn_layout &StatisticsCase::layout(vkattn_role role) {
    return role == VKATTN_STATISTICS    ? statistics.statistics
           : role == VKATTN_RECEIVED    ? statistics.received
           : role == VKATTN_TOP_WEIGHTS ? statistics.topWeights
                                        : statistics.topKeys;
}

bool StatisticsCase::sameOutputs(const StatisticsCase &other) const {
    return std::all_of(tensors.begin(), tensors.end(), [&](const auto &each) {
        const HostTensor &t = other.tensors.at(each.first);
        return std::memcmp(each.second.data(), t.data(), t.bytes()) == 0;
    });
}

std::string StatisticsCase::damage(const StatisticsCase &before) const {
    for (const auto &[role, t] : tensors) {
        const bool ofKeys = role == VKATTN_RECEIVED;
        const auto written = [&](uint32_t b, uint32_t, uint32_t token, uint32_t) {
            return ofKeys ? data->isKey(b, token) : data->isQuery(b, token);
        };
        const std::string found = t.damage(before.tensors.at(role), written);
        if (!found.empty()) return std::string(roleNameOf(role)) + ": " + found;
    }
    const HostTensor::Elements none = [](auto...) { return false; };
    const std::pair<const HostTensor *, const HostTensor *> inputs[] = {
        {&data->q, &before.data->q}, {&data->k, &before.data->k}, {&data->bias, &before.data->bias}};
    for (const auto &[now, then] : inputs)
        if (const std::string found = now->damage(*then, none); !found.empty()) return "an input: " + found;
    return {};
}

std::string StatisticsCase::text() const {
    std::string all = caseText(data->c) + ";";
    for (const auto &[role, t] : tensors) all += std::string(" ") + roleNameOf(role);
    char numbers[120];
    std::snprintf(numbers, sizeof numbers, " k=%u densityThreshold=%g slices=%u", statistics.topWeights.extent[3],
                  static_cast<double>(statistics.densityThreshold), attention.sliceCount);
    return all + numbers;
}

std::string StatisticsCase::wrong(const StatisticsCase &before, vkattn_verify_report *report) {
    const OperationOutcome outcome = verifyOutputs(operation(), operands(), roleNameOf);
    if (report) *report = outcome.report;
    return outcome.wrong.empty() ? damage(before) : outcome.wrong;
}

StatisticsOptions drawStatisticsOptions(Random &random) {
    StatisticsOptions o;
    const uint32_t outputs = between(random, 1, 7);
    o.columns = outputs & 1, o.received = outputs & 2;
    constexpr uint32_t counts[] = {1, 2, 3, 5, 8, VKATTN_MAX_TOP_KEYS};
    o.top = outputs & 4 ? counts[random() % std::size(counts)] : 0;
    if (random() % 2) o.densityThreshold = 0.001f * static_cast<float>(between(random, 1, 300));
    o.drawLayouts = random() % 4 != 0;
    return o;
}

StatisticsCase drawStatistics(Random &random, const Case &given, const StatisticsOptions &options) {
    StatisticsCase s;
    Case c = given;
    c.slices = 0;
    c.hooks = withSums(c.hooks);
    dropCacheForms(c);
    c.kernel = VKATTN_KERNEL_AUTO;
    s.data = makeCaseData(c, random);
    CaseData &in = *s.data;
    const bool shared = c.sharedHeads || c.valuesInKeys;
    if (c.poison && !shared) poisonPairs(in);
    if (options.spoils && !shared && random() % 6 == 0) spoil(random() % 2 ? in.q : in.k, random);
    s.attention = in.problem;
    if (random() % 2) s.attention.v = s.attention.out = {};
    s.statistics.structSize = sizeof s.statistics;
    s.statistics.densityThreshold = options.densityThreshold;
    const uint32_t *q = in.problem.q.extent, *k = in.problem.k.extent;
    const auto make = [&](vkattn_role role, vkattn_dtype dtype, const uint32_t(&extent)[4]) {
        s.layout(role) =
            options.drawLayouts ? drawLayout(random, dtype, true, extent) : packed(dtype, extent[0], extent[1], extent[2], extent[3]);
    };
    if (options.columns) make(VKATTN_STATISTICS, VKATTN_F32, {q[0], q[1], q[2], VKATTN_STATISTIC_COUNT});
    if (options.received) make(VKATTN_RECEIVED, VKATTN_F32, {k[0], q[1], k[2], 1});
    if (options.top) make(VKATTN_TOP_WEIGHTS, VKATTN_F32, {q[0], q[1], q[2], options.top});
    if (options.top) make(VKATTN_TOP_KEYS, VKATTN_BITS32, {q[0], q[1], q[2], options.top});
    const vkattn_operation o = s.operation();
    for (const vkattn_role role : statisticsRoles) {
        if (s.layout(role).extent[0] == 0) continue;
        s.tensors[role].make(s.layout(role), vkattnOperationBytes(&o, role), 0);
        s.tensors[role].fillRandomly(random);
    }
    return s;
}

Case samePipelines(Random &random, Case c) {
    const auto tokens = [&](uint32_t most) { return between(random, 0, 11) ? between(random, 1, most) : 0; };
    c.batch = between(random, 1, 3);
    c.kvHeads = between(random, 1, 2), c.heads = c.kvHeads * between(random, 1, 3);
    c.queryTokens = tokens(40), c.keyTokens = tokens(random() % 2 ? 150 : 30);
    c.sequenceLengths.clear();
    c.causal = random() % 2, c.topLeft = random() % 3 == 0;
    c.window = random() % 3 == 0;
    if (c.window) c.left = static_cast<int32_t>(between(random, 0, 20)) - 1, c.right = static_cast<int32_t>(between(random, 0, 20)) - 1;
    c.lengths = !c.ragged && !c.csrPages && random() % 3 == 0;
    return c;
}

} // namespace vkattn::conform
