// Descriptions of operations: vkattnValidateOperation and vkattnOperationBytes with anything, and
// what is valid and small computed on the CPU, in memory of exactly the bytes that were asked for.
// The verifier must accept the kernels and the oracle, whatever the tensors hold. Bytes choose
// between likely values and whatever they are, so that inputs come past the validator.
#include "fuzz/shared/computed.hpp"
#include "fuzz/shared/layouts.hpp"

using namespace vkattn::test;

namespace {

struct Description {
    vkattn_operation operation{};
    vkattn_projection projection{};
    vkattn_norm norm{};
    vkattn_rotary rotary{};
    vkattn_append append{};
    vkattn_advance advance{};
    vkattn_mean mean{};
    vkattn_merge merge{};
    vkattn_hadamard hadamard{};
    vkattn_keep keep{};
    vkattn_norm_gradient normGradient{};
    vkattn_drop drop{};

    explicit Description(Bytes &bytes) {
        const uint32_t kind = bytes.raw<uint8_t>();
        // Ten bytes; those of the kinds that came later were taken from the ends of the ranges before them.
        constexpr vkattn_operation_kind later[] = {VKATTN_HADAMARD, VKATTN_MERGE, VKATTN_MEAN, VKATTN_DROP, VKATTN_NORM_GRADIENT,
                                                   VKATTN_KEEP,     VKATTN_MERGE, VKATTN_KEEP, VKATTN_DROP, VKATTN_NORM_GRADIENT};
        operation.kind =
            kind >= 240 && kind < 250 ? later[kind - 240] : static_cast<vkattn_operation_kind>(kind < 240 ? 1 + kind % 5 : kind);
        const uint32_t size = bytes.raw<uint8_t>() < 250 ? 0 : bytes.raw<uint32_t>(); // 0: that of the struct
        const uint32_t options = bytes.raw<uint16_t>(), batch = 1 + bytes.below(2), groups = 1 + bytes.below(3);
        const uint32_t rows = number(bytes), inner = number(bytes), out = number(bytes);
        const auto one = [&](uint32_t extent) { return bytes.flag() ? extent : 1; };
        const auto make = [&](const uint32_t(&extents)[4]) { return layout(bytes, extents, dtype(bytes)); };
        switch (operation.kind) {
        case VKATTN_PROJECTION:
            operation.of.projection = &projection;
            projection.structSize = size ? size : sizeof projection;
            projection.flags = options & 1 ? uint32_t{VKATTN_DETERMINISTIC} : options >> 12;
            projection.x = make({batch, groups, rows, inner});
            projection.w = make({one(batch), one(groups), out, inner});
            if (options & 2) projection.bias = make({one(batch), one(groups), 1, out});
            if (options & 4) projection.residual = make({batch, groups, rows, out});
            projection.y = make({batch, groups, rows, out});
            // The last bits of the options, which no valid description had: flags are above them.
            if (options & 0x100) projection.presentRoles = VKATTN_PRESENT(VKATTN_KEY_LENGTHS) | (options & 0x200 ? ~0u : 0);
            break;
        case VKATTN_NORM:
            operation.of.norm = &norm;
            norm.structSize = size ? size : sizeof norm;
            norm.flags = options >> 13;
            norm.kind = static_cast<vkattn_norm_kind>(options & 1);
            norm.epsilon = options & 0x100 ? bytes.raw<float>() : 1e-5f;
            norm.x = make({batch, groups, rows, inner});
            if (options & 2) norm.residual = make({batch, groups, rows, inner});
            if (options & 4) norm.gamma = make({1, 1, 1, inner});
            if (options & 8) norm.beta = make({1, 1, 1, inner});
            if (options & 16) norm.sum = make({batch, groups, rows, inner});
            norm.y = make({batch, groups, rows, inner});
            break;
        case VKATTN_ROTARY:
            operation.of.rotary = &rotary;
            rotary.structSize = size ? size : sizeof rotary;
            rotary.flags = (options & 1 ? uint32_t{VKATTN_ROTARY_APPEND} : 0) | (options & 2 ? uint32_t{VKATTN_ROTARY_INVERSE} : 0);
            rotary.pairs = static_cast<vkattn_rotary_pairs>(options >> 2 & 1);
            rotary.presentRoles = (options & 8 ? VKATTN_PRESENT(VKATTN_POSITIONS) : 0) | (options & 16 ? VKATTN_PRESENT(VKATTN_STARTS) : 0);
            rotary.start = options & 32 ? number(bytes) : 0;
            rotary.reserved = options >> 14;
            rotary.x = make({batch, groups, rows, inner});
            rotary.cos = layout(bytes, {1, 1, out, std::max(inner / (2 + bytes.below(3)), 1u)}, VKATTN_F32);
            rotary.sin = layout(bytes, {1, 1, out, rotary.cos.extent[3]}, VKATTN_F32);
            rotary.y = make({batch, groups, options & 1 ? number(bytes) : rows, inner});
            break;
        case VKATTN_ADVANCE:
            operation.of.advance = &advance;
            advance.structSize = size ? size : sizeof advance;
            advance.flags = options >> 13;
            advance.by = options & 1 ? number(bytes) : bytes.raw<uint32_t>();
            advance.limit = options & 2 ? 0xffffffff : options & 4 ? number(bytes) : bytes.raw<uint32_t>();
            advance.x = layout(bytes, {1, 1, 1, inner}, wordType(bytes));
            advance.y = layout(bytes, {1, 1, 1, inner}, wordType(bytes));
            break;
        case VKATTN_NORM_GRADIENT:
            operation.of.normGradient = options & 0x8000 ? nullptr : &normGradient;
            normGradient.structSize = size ? size : sizeof normGradient;
            normGradient.flags = options >> 13 & 1;
            normGradient.kind = static_cast<vkattn_norm_kind>(options & 3);
            normGradient.epsilon = bytes.raw<float>();
            normGradient.x = make({batch, groups, rows, inner});
            normGradient.dY = make({batch, groups, rows, inner});
            if (options & 4) normGradient.gamma = make({1, 1, 1, inner});
            if (options & 8) normGradient.dX = make({batch, groups, rows, inner});
            if (options & 16) normGradient.dGamma = make({1, 1, 1, inner});
            if (options & 32) normGradient.dBeta = make({1, 1, one(batch), inner});
            if (options & 64) normGradient.residual = make({batch, groups, rows, inner});
            break;
        case VKATTN_MEAN:
            operation.of.mean = options & 0x8000 ? nullptr : &mean;
            mean.structSize = size ? size : sizeof mean;
            mean.flags = options >> 13 & 1;
            mean.x = make({batch, options & 1 ? number(bytes) : groups, rows, inner});
            mean.y = make({batch, one(groups), rows, inner});
            break;
        case VKATTN_MERGE:
            operation.of.merge = options & 0x8000 ? nullptr : &merge;
            merge.structSize = size ? size : sizeof merge;
            merge.flags = options >> 13 & 1;
            merge.reserved = options >> 14 & 1;
            merge.parts = options & 1 ? number(bytes) : 1 + (options >> 1 & 7);
            merge.x = make({merge.parts * batch, groups, rows, inner});
            merge.xLse = layout(bytes, {merge.parts * batch, groups, rows, 1}, VKATTN_F32);
            merge.y = make({options & 16 ? out : batch, groups, rows, inner});
            if (options & 32) merge.lse = layout(bytes, {batch, groups, rows, 1}, options & 64 ? dtype(bytes) : VKATTN_F32);
            break;
        case VKATTN_HADAMARD:
            operation.of.hadamard = options & 0x8000 ? nullptr : &hadamard;
            hadamard.structSize = size ? size : sizeof hadamard;
            hadamard.flags = options >> 13 & 1;
            hadamard.reserved = options >> 14 & 1;
            hadamard.block = options & 1 ? number(bytes) : options & 2 ? 2u << (options >> 2 & 7) : 0;
            hadamard.x = make({batch, groups, rows, options & 32 ? inner : inner / 2 * 2});
            hadamard.y = make({batch, one(groups), rows, hadamard.x.extent[3]});
            break;
        case VKATTN_KEEP:
            operation.of.keep = options & 0x8000 ? nullptr : &keep;
            keep.structSize = size ? size : sizeof keep;
            keep.flags = options >> 13 & 1;
            keep.probability = options & 1 ? bytes.raw<double>() : (options >> 1 & 7) / 7.0;
            keep.seed = bytes.raw<uint64_t>();
            keep.offset = bytes.raw<uint32_t>();
            keep.columns = inner;
            keep.y = layout(bytes, {batch, groups, rows, options & 16 ? number(bytes) : inner / 32 + (inner % 32 != 0)}, wordType(bytes));
            break;
        case VKATTN_DROP:
            operation.of.drop = options & 0x8000 ? nullptr : &drop;
            drop.structSize = size ? size : sizeof drop;
            drop.flags = options >> 13 & 1;
            drop.probability = options & 1 ? bytes.raw<double>() : (options >> 1 & 7) / 7.0;
            drop.seed = bytes.raw<uint64_t>();
            drop.offset = bytes.raw<uint32_t>();
            drop.firstRow = options & 16 ? bytes.raw<uint32_t>() : 0;
            drop.firstPlane = options & 32 ? bytes.raw<uint32_t>() : 0;
            drop.reserved = options >> 14 & 1;
            drop.x = make({batch, groups, rows, inner});
            if (options & 64) drop.residual = make({batch, groups, rows, options & 128 ? inner : number(bytes)});
            drop.y = make({batch, one(groups), rows, inner});
            break;
        default:
            operation.of.append = options & 0x8000 ? nullptr : &append;
            append.structSize = size ? size : sizeof append;
            append.flags = (options >> 13 & 1) | (options & 64 ? uint32_t{VKATTN_APPEND_RING} : 0);
            append.reserved = options >> 14 & 1;
            append.presentRoles = options & 16 ? VKATTN_PRESENT(VKATTN_STARTS) : 0;
            append.start = options & 32 ? number(bytes) : 0;
            append.x = make({batch, groups, rows, inner});
            if (options & 128) {
                append.presentRoles |= VKATTN_PRESENT(VKATTN_PAGE_TABLE);
                append.tablePages = options & 256 ? number(bytes) : 1 + (options >> 9 & 7);
                append.y = make({out, groups, number(bytes), inner});
                break;
            }
            append.y = make({batch, groups, number(bytes), inner});
        }
    }
};

// Returns the multiply-adds, or more than any that are computed here.
double workOf(const Description &d) {
    const vkattn_operation &o = d.operation;
    if (o.kind != VKATTN_PROJECTION) return 0;
    const uint32_t *x = d.projection.x.extent;
    return static_cast<double>(x[0]) * x[1] * x[2] * x[3] * d.projection.w.extent[2];
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Bytes bytes(data, size);
    const Description d(bytes);
    const vkattn_result valid = validate(d.operation);
    if (valid == VKATTN_OK && workOf(d) <= 1e6) compute(d.operation, bytes, true, 1u << 18);
    return 0;
}
