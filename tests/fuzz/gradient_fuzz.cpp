// Descriptions of gradients: vkattnValidateOperation, vkattnOperationBytes and vkattnOperandUses with
// anything, and what is valid and small computed on the CPU, in memory of exactly the bytes that were
// asked for, whatever it holds. What the forward pass would have stored is any bytes too, so that
// results are right by the oracle alone: the verifier must accept the oracle's.
#include "fuzz/shared/attention.hpp"
#include "fuzz/shared/computed.hpp"
#include "vkattn/gradient.h"

using namespace vkattn::test;

namespace {

struct Description {
    vkattn_problem forward{};
    vkattn_attention_gradient gradient{};
    vkattn_operation operation{};

    explicit Description(Bytes &bytes) {
        vkattn_problem &p = forward;
        vkattn_attention_gradient &g = gradient;
        operation.kind = VKATTN_ATTENTION_GRADIENT;
        const uint32_t head = bytes.raw<uint8_t>(), options = bytes.raw<uint16_t>(), wanted = bytes.raw<uint16_t>();
        operation.of.attentionGradient = head == 255 ? nullptr : &g;
        g.structSize = head == 254 ? bytes.raw<uint32_t>() : sizeof g;
        g.forward = head == 253 ? nullptr : &p;
        p.structSize = sizeof p;
        p.flags = VKATTN_ROW_STATISTICS | (bytes.raw<uint8_t>() & 31u);
        AttentionShape shape(bytes);
        const uint32_t valueDim = bytes.flag() ? shape.dim : number(bytes);
        shape.chooseSequences(bytes, options);
        const auto [batch, kvHeads, heads, queries, keys, dim, sequences, entries, rows] = shape;
        const auto make = [&](const uint32_t(&extents)[4]) { return layout(bytes, extents, dtype(bytes)); };
        p.q = make({rows, heads, queries, dim});
        p.k = make({rows, kvHeads, keys, dim});
        p.v = make({rows, kvHeads, keys, valueDim});
        p.out = make({rows, heads, queries, valueDim});
        p.lse = layout(bytes, {rows, heads, queries, 2}, VKATTN_F32);
        describePairs(bytes, shape, options, false, p);
        if (options & 256) p.dropout = 0.3, p.dropoutSeed = 7, p.dropoutOffset = 1;
        g.dOut = make({rows, heads, queries, valueDim});
        if (wanted & 1) g.dLse = layout(bytes, {rows, heads, queries, 1}, VKATTN_F32);
        if (wanted & 2) g.dWeights = make({entries, heads, queries, keys});
        if (wanted & 4) g.dQ = make({rows, heads, queries, dim});
        if (wanted & 8) g.dK = make({rows, kvHeads, keys, dim});
        if (wanted & 16) g.dV = make({rows, kvHeads, keys, valueDim});
        if (wanted & 32 && p.bias.extent[0]) g.dBias = make({p.bias.extent[0], p.bias.extent[1], p.bias.extent[2], p.bias.extent[3]});
        g.presentRoles =
            (wanted & 64 && options & 16 ? VKATTN_PRESENT(VKATTN_D_SINKS) : 0) |
            (wanted & 128 && options & 32 ? VKATTN_PRESENT(VKATTN_D_SLOPES) : 0) | (wanted & 256 ? VKATTN_PRESENT(VKATTN_D_SCALE) : 0) |
            (wanted & 512 && options & 8 ? VKATTN_PRESENT(VKATTN_D_SOFTCAP) : 0) | (wanted & 1024 ? VKATTN_PRESENT(VKATTN_NONFINITE) : 0);
        if (wanted & 0x8000) g.presentRoles = bytes.raw<uint32_t>();
        g.lossScale = options & 512 ? bytes.raw<float>() : 0;
        g.kernel = static_cast<vkattn_gradient_kernel>(bytes.below(5));
    }
};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Bytes bytes(data, size);
    const Description d(bytes);
    const vkattn_result valid = validate(d.operation);
    const vkattn_problem &p = d.forward;
    if (valid == VKATTN_OK && workOf(p, p.q.extent[3] + static_cast<double>(p.v.extent[3])) <= 3e5) compute(d.operation, bytes, false);
    return 0;
}
