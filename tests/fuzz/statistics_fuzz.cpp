// Descriptions of statistics of attention: vkattnValidateOperation, vkattnOperationBytes and
// vkattnOperandUses with anything; the plan for any device, whose dispatches stay within its limits; and
// what is valid and small computed on the CPU, within the bounds of the oracle whatever the operands hold.
#include "fuzz/shared/attention.hpp"
#include "vkattn/statistics.h"

using namespace vkattn::test;

namespace {

struct Description {
    vkattn_problem attention{};
    vkattn_attention_statistics statistics{};
    vkattn_operation operation{};

    explicit Description(Bytes &bytes) {
        vkattn_problem &p = attention;
        vkattn_attention_statistics &s = statistics;
        operation.kind = VKATTN_ATTENTION_STATISTICS;
        const uint32_t head = bytes.raw<uint8_t>(), options = bytes.raw<uint16_t>(), wanted = bytes.raw<uint8_t>();
        operation.of.attentionStatistics = head == 255 ? nullptr : &s;
        s.structSize = head == 254 ? bytes.raw<uint32_t>() : sizeof s;
        s.attention = head == 253 ? nullptr : &p;
        if (head == 252) s.flags = bytes.raw<uint32_t>(), s.reserved = bytes.raw<uint32_t>();
        p.structSize = head == 251 ? bytes.raw<uint32_t>() : sizeof p;
        p.flags = bytes.raw<uint8_t>() & (31u | VKATTN_VALUES_IN_KEYS);
        AttentionShape shape(bytes);
        shape.chooseSequences(bytes, options);
        const auto [batch, kvHeads, heads, queries, keys, dim, sequences, entries, rows] = shape;
        const auto make = [&](const uint32_t(&extents)[4]) { return layout(bytes, extents, dtype(bytes)); };
        p.q = make({rows, heads, queries, dim});
        p.k = make({rows, kvHeads, keys, dim});
        describePairs(bytes, shape, options, options & 512, p);
        if (options & 256) p.sliceCount = number(bytes);
        // Nothing of this counts.
        if (options & 1024) p.out = make({rows, heads, queries, dim}), p.v = make({rows, kvHeads, keys, dim});
        if (options & 2048) p.dropout = bytes.raw<float>(), p.kernel = static_cast<vkattn_kernel>(bytes.below(9));
        if (wanted & 1) s.statistics = layout(bytes, {rows, heads, queries, VKATTN_STATISTIC_COUNT}, VKATTN_F32);
        if (wanted & 2) s.received = layout(bytes, {rows, heads, keys, 1}, VKATTN_F32);
        const uint32_t top = wanted & 0x80 ? bytes.below(20) : 1 + bytes.below(VKATTN_MAX_TOP_KEYS);
        if (wanted & 4) s.topWeights = layout(bytes, {rows, heads, queries, top}, VKATTN_F32);
        if (wanted & 8) s.topKeys = layout(bytes, {rows, heads, queries, top}, wordType(bytes));
        if (wanted & 16) s.densityThreshold = wanted & 32 ? bytes.raw<float>() : 0.001f * static_cast<float>(bytes.below(255));
    }
};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    planAndCompute<Description>(data, size);
    return 0;
}
