// Descriptions of gradients: vkattnValidateOperation, vkattnOperationBytes and vkattnOperandUses with
// anything, and what is valid and small computed on the CPU, in memory of exactly the bytes that were
// asked for, whatever it holds. What the forward pass would have stored is any bytes too, so that
// results are right by the oracle alone: the verifier must accept the oracle's.
#include "computed.hpp"
#include "layouts.hpp"
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
        const uint32_t batch = 1 + bytes.below(2), kvHeads = 1 + bytes.below(2), heads = kvHeads * (1 + bytes.below(3));
        const uint32_t queries = number(bytes), keys = number(bytes), dim = number(bytes), valueDim = bytes.flag() ? dim : number(bytes);
        const uint32_t sequences = options & 1 ? 1 + bytes.below(3) : 0, entries = sequences ? sequences : batch,
                       rows = sequences ? 1 : batch;
        const auto make = [&](const uint32_t(&extents)[4]) { return layout(bytes, extents, dtype(bytes)); };
        const auto one = [&](uint32_t extent) { return bytes.flag() ? extent : 1; };
        p.q = make({rows, heads, queries, dim});
        p.k = make({rows, kvHeads, keys, dim});
        p.v = make({rows, kvHeads, keys, valueDim});
        p.out = make({rows, heads, queries, valueDim});
        p.lse = layout(bytes, {rows, heads, queries, 2}, VKATTN_F32);
        if (options & 2) p.bias = make({one(entries), one(heads), one(queries), one(keys)});
        if (options & 4) p.mask = layout(bytes, {one(entries), one(heads), one(queries), one(keys)}, VKATTN_BOOL8);
        p.scale = p.flags & VKATTN_SCALE ? bytes.raw<float>() : 0;
        p.softcap = options & 8 ? 2.5f : 0;
        if (p.flags & VKATTN_WINDOW)
            p.windowLeft = static_cast<int32_t>(bytes.below(9)) - 1, p.windowRight = static_cast<int32_t>(bytes.below(9)) - 1;
        p.presentRoles = (options & 16 ? VKATTN_PRESENT(VKATTN_SINKS) : 0) | (options & 32 ? VKATTN_PRESENT(VKATTN_ALIBI_SLOPES) : 0) |
                         (options & 64 ? VKATTN_PRESENT(VKATTN_DOC_IDS_Q) | VKATTN_PRESENT(VKATTN_DOC_IDS_K) : 0);
        if (sequences) p.presentRoles |= VKATTN_PRESENT(VKATTN_CU_SEQ_Q) | VKATTN_PRESENT(VKATTN_CU_SEQ_K);
        if (!sequences && options & 128) p.presentRoles |= VKATTN_PRESENT(VKATTN_KEY_LENGTHS);
        p.sequences = sequences;
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
    vkattn_diagnostic why{};
    const vkattn_result valid = vkattnValidateOperation(&d.operation, &why);
    require(valid == VKATTN_OK || (valid == VKATTN_ERROR_INVALID_ARGUMENT && why.message[0] != '\0' && terminated(why.message)));
    uint64_t ignored = 0;
    require(vkattnCpuOperationWorkspace(&d.operation, nullptr, &ignored, nullptr) == valid);
    for (uint32_t role = 0; role < VKATTN_ROLE_LIMIT + 2; ++role)
        require(valid == VKATTN_OK || vkattnOperationBytes(&d.operation, static_cast<vkattn_role>(role)) == 0);
    const vkattn_problem &p = d.forward;
    const double work =
        static_cast<double>(p.q.extent[0]) * p.q.extent[1] * p.q.extent[2] * p.k.extent[2] * (p.q.extent[3] + p.v.extent[3]);
    if (valid == VKATTN_OK && work <= 3e5) compute(d.operation, bytes);
    return 0;
}
