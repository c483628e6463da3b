// Descriptions of linear attention and of its gradients: vkattnValidateOperation, vkattnOperationBytes and vkattnOperandUses with anything;
// plans for any device; and what is valid and small computed on the CPU, whatever the operands hold.
#include "fuzz/shared/computed.hpp"
#include "fuzz/shared/layouts.hpp"
#include "fuzz/shared/plans.hpp"
#include "vkattn/linear_gradient.h"

using namespace vkattn::test;

namespace {

struct Description {
    vkattn_linear_attention linear{};
    vkattn_linear_gradient gradient{};
    vkattn_operation operation{}, gradients{};
    double work = 0; // multiply-adds

    explicit Description(Bytes &bytes) {
        vkattn_linear_attention &l = linear;
        operation.kind = VKATTN_LINEAR_ATTENTION;
        const uint32_t head = bytes.raw<uint8_t>(), options = bytes.raw<uint16_t>(), kinds = bytes.raw<uint8_t>();
        operation.of.linearAttention = head == 255 ? nullptr : &l;
        l.structSize = head == 254 ? bytes.raw<uint32_t>() : sizeof l;
        l.rule = static_cast<vkattn_linear_rule>(kinds & 64 ? bytes.raw<uint8_t>() : kinds % 5);
        const bool features = l.rule == VKATTN_LINEAR_FEATURES;
        if (features || head == 253) l.features = static_cast<vkattn_feature_map>(kinds / 8 % (head == 253 ? 8 : 4));
        l.form = static_cast<vkattn_linear_form>(bytes.below(head == 252 ? 4 : 3));
        l.headMapping = static_cast<vkattn_head_mapping>(options & 1 ? 1 : 0);
        if (head == 251)
            l.headMapping = static_cast<vkattn_head_mapping>(bytes.raw<uint32_t>() & 0x7fffffffu), l.reserved = bytes.raw<uint32_t>();
        l.flags = head == 250 ? bytes.raw<uint32_t>() : bytes.raw<uint8_t>() & (VKATTN_CAUSAL | VKATTN_ALIGN_TOP_LEFT | VKATTN_SCALE);
        if (l.flags & VKATTN_SCALE || head == 249)
            l.scale = options & 2 ? bytes.raw<float>() : 0.125f * static_cast<float>(bytes.below(9)) - 0.5f;
        if (l.features == VKATTN_FEATURES_RELU && options & 4) l.epsilon = bytes.raw<float>();
        if (head == 248) l.sliceCount = bytes.raw<uint32_t>(), l.presentRoles = bytes.raw<uint32_t>();

        const auto small = [&](uint32_t most) { return head >= 240 ? number(bytes) : 1 + bytes.below(most); };
        const uint32_t batch = small(2), keyHeads = small(2), valueHeads = keyHeads * (1 + bytes.below(2)), dims = small(20),
                       values = options & 8 ? small(100) : small(10), keys = small(40) - (options & 16 ? 1 : 0),
                       queries = options & 32 ? keys : small(40);
        const uint32_t queryHeads = options & 64 ? 2 * valueHeads : keyHeads, heads = std::max(queryHeads, valueHeads);
        const auto make = [&](const uint32_t(&extents)[4]) { return layout(bytes, extents, dtype(bytes)); };
        const auto numbers = [&](const uint32_t(&extents)[4]) { return layout(bytes, extents, VKATTN_F32); };
        l.k = make({batch, keyHeads, keys, dims});
        l.v = make({batch, valueHeads, keys, values});
        if (options & 128) l.q = make({batch, queryHeads, queries, dims}), l.out = make({batch, heads, queries, values});
        const bool gated = vkattn::isGated(l.rule);
        const bool delta = vkattn::isDelta(l.rule);
        if (gated != (head == 247)) l.decay = make({batch, options & 256 ? valueHeads : 1, keys, options & 512 ? dims : 1});
        if (delta != (head == 246)) l.writeStrength = make({batch, valueHeads, keys, 1});
        uint32_t rows = dims;
        if (features && (l.features >= VKATTN_FEATURES_FAVOR || (l.features == VKATTN_FEATURES_RELU && options & 1024))) {
            rows = small(30);
            l.omega = numbers({1, options & 256 ? valueHeads : 1, rows, dims});
            if (l.features == VKATTN_FEATURES_FAVOR2) rows *= 2;
        }
        const uint32_t columns = values + (features ? 1 : 0) + (features && l.features >= VKATTN_FEATURES_FAVOR ? 1 : 0);
        if (options & 2048) l.stateIn = numbers({batch, valueHeads, rows, columns});
        if (options & 4096 || !(options & 128)) l.stateOut = numbers({batch, valueHeads, rows, columns});
        if (options & 8192) {
            l.snapshotTokens = 1 + bytes.below(30);
            l.snapshots = numbers({batch, valueHeads, keys / l.snapshotTokens * rows, columns});
        }
        if (options & 16384) l.presentRoles |= VKATTN_PRESENT(VKATTN_KEY_LENGTHS);
        for (const double factor : {1.0 * batch, 1.0 * heads, 1.0 * rows, 1.0 * columns}) work = std::max(work, 1.0) * factor;
        work *= 1.0 * keys + queries;
        describeGradients(bytes, {batch, valueHeads, rows, columns});
    }

  private:
    void describeGradients(Bytes &bytes, const uint32_t (&state)[4]) {
        const vkattn_linear_attention &l = linear;
        vkattn_linear_gradient &g = gradient;
        gradients.kind = VKATTN_LINEAR_ATTENTION_GRADIENT;
        const uint32_t head = bytes.raw<uint8_t>(), options = bytes.raw<uint16_t>();
        gradients.of.linearGradient = head == 255 ? nullptr : &g;
        g.structSize = head == 254 ? bytes.raw<uint32_t>() : sizeof g;
        g.forward = head == 253 ? nullptr : &l;
        if (head == 252) g.flags = bytes.raw<uint32_t>(), g.reserved[bytes.below(2)] = bytes.raw<uint32_t>();
        if (head == 251) g.presentRoles = bytes.raw<uint32_t>();
        if (options & 1) g.lossScale = head == 250 ? bytes.raw<float>() : 64.0f;
        if (options & 2) g.presentRoles |= VKATTN_PRESENT(VKATTN_NONFINITE);
        const auto add = [&](bool given, vkattn_layout &to, const vkattn_layout &of, bool isState = false) {
            uint32_t extents[4];
            for (int d = 0; d < 4; ++d) extents[d] = head == 249 ? number(bytes) : of.extent[d];
            if (given && (of.extent[0] || head == 248)) to = layout(bytes, extents, isState ? VKATTN_F32 : dtype(bytes));
        };
        vkattn_layout whole{};
        for (int d = 0; d < 4; ++d) whole.extent[d] = state[d];
        add(head != 247, g.dOut, l.out);
        add(options & 4 || l.out.extent[0] == 0, g.dStateOut, whole, true);
        add(options & 8, g.dQ, l.q);
        add(options & 16, g.dK, l.k);
        add(options & 32, g.dV, l.v);
        add(options & 64, g.dDecay, l.decay);
        add(options & 128, g.dWriteStrength, l.writeStrength);
        add(options & 256, g.dStateIn, l.stateIn, true);
    }
};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Bytes bytes(data, size);
    const Description d(bytes);
    const vkattn_result valid = validate(d.operation);
    planOperation(d.operation, valid, bytes, number);
    // Numbers near the ends of the range overflow in other places in a chunk: the kernels' values are judged on drawn
    // cases (LinearScan).
    if (valid == VKATTN_OK && d.work <= 3e5) compute(d.operation, bytes, false);
    const vkattn_result gradients = validate(d.gradients);
    if (gradients == VKATTN_OK && d.work <= 1e5) compute(d.gradients, bytes, false);
    return 0;
}
