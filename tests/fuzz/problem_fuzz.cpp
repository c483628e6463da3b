// The description and the planner: vkattnValidateProblem, vkattnOperandBytes, vkattnExplain and
// vkattnListDispatches, with any problem and any caps. Bytes choose between likely values and
// whatever they are, so that inputs come past the validator.
#include "fuzz/shared/plans.hpp"

using namespace vkattn;
using namespace vkattn::test;

namespace {

uint32_t number(Bytes &bytes) {
    static constexpr uint32_t likely[] = {0,   1,   2,    3,    4,    5,     7,      8,        15,       16,        31,
                                          32,  33,  63,   64,   65,   80,    96,     100,      127,      128,       129,
                                          256, 512, 1000, 2048, 4096, 32768, 100000, 1u << 20, 1u << 30, 0xffffffff};
    const uint32_t kind = bytes.raw<uint8_t>();
    if (kind < 200) return likely[kind % 32];
    return kind < 230 ? bytes.raw<uint16_t>() : bytes.raw<uint32_t>();
}

vkattn_dtype dtype(Bytes &bytes) {
    const uint32_t kind = bytes.raw<uint8_t>();
    return static_cast<vkattn_dtype>(kind < 250 ? kind % 5 : kind);
}

// Mostly dense, in one of the usual orders; sometimes anything.
vkattn_layout layout(Bytes &bytes, const uint32_t (&extents)[4], vkattn_dtype type) {
    vkattn_layout l{};
    l.dtype = type;
    const uint32_t kind = bytes.raw<uint8_t>();
    for (int d = 0; d < 4; ++d) l.extent[d] = kind & 0x80 && bytes.flag() ? number(bytes) : extents[d];
    const int orders[4][4] = {{3, 2, 1, 0}, {3, 1, 2, 0}, {2, 3, 1, 0}, {0, 1, 2, 3}};
    int64_t stride = 1;
    for (const int d : orders[kind & 3]) {
        l.strideElems[d] = stride;
        if (__builtin_mul_overflow(stride, int64_t{l.extent[d]}, &stride)) stride = bytes.raw<int64_t>();
        if (kind & 4) stride = static_cast<int64_t>(static_cast<uint64_t>(stride) + bytes.below(64));
    }
    if (kind & 8) l.strideElems[bytes.below(4)] = bytes.flag() ? 0 : bytes.raw<int64_t>();
    if (kind & 16) {
        const uint32_t d = bytes.below(4);
        l.strideElems[d] = static_cast<int64_t>(0 - static_cast<uint64_t>(l.strideElems[d]));
    }
    if (kind & 32) l.offsetElems = bytes.flag() ? number(bytes) : bytes.raw<uint64_t>();
    return l;
}

vkattn_problem problemFrom(Bytes &bytes) {
    vkattn_problem p{};
    p.structSize = bytes.raw<uint8_t>() < 250 ? sizeof p : bytes.raw<uint32_t>();
    p.flags = bytes.raw<uint8_t>() & (31u | VKATTN_VALUES_IN_KEYS);
    if (bytes.below(4) == 0) {
        p.flags |= bytes.flag() ? VKATTN_WEIGHTS_DROPPED : 0;
        static constexpr double likely[] = {0.1, 0.5, 1, 0x1p-33, 1 - 0x1p-33};
        p.dropout = bytes.flag() ? likely[bytes.below(5)] : bytes.raw<double>();
        p.dropoutSeed = bytes.raw<uint64_t>(), p.dropoutOffset = bytes.raw<uint32_t>();
    }
    const bool few = bytes.flag();
    const uint32_t batch = few ? 1 + bytes.below(3) : number(bytes), kvHeads = few ? 1 + bytes.below(4) : number(bytes);
    const uint32_t heads = kvHeads * (few ? 1 + bytes.below(4) : number(bytes));
    const uint32_t queries = number(bytes), keys = number(bytes), dim = number(bytes), valueDim = bytes.flag() ? dim : number(bytes);
    const vkattn_dtype typeQ = dtype(bytes), typeK = bytes.flag() ? typeQ : dtype(bytes);
    p.q = layout(bytes, {batch, heads, queries, dim}, typeQ);
    p.k = layout(bytes, {batch, kvHeads, keys, dim}, typeK);
    p.v = layout(bytes, {batch, kvHeads, keys, valueDim}, typeK);
    p.out = layout(bytes, {batch, heads, queries, valueDim}, typeQ);
    const uint32_t options = bytes.raw<uint32_t>();
    const uint32_t sequences = options & 1 ? number(bytes) : 0, pairsBatch = sequences ? sequences : batch;
    if (p.flags & VKATTN_VALUES_IN_KEYS && !(options & 256)) p.v = {};
    // Segments, and what the problem goes on from. Biases and masks then have fewer keys.
    uint32_t allKeys = keys;
    if (options & 8192) {
        vkattn_layout *const segments[3][2] = {{&p.k1, &p.v1}, {&p.k2, &p.v2}, {&p.k3, &p.v3}};
        const uint32_t count = bytes.below(4);
        for (uint32_t n = 0; n < count; ++n) {
            const uint32_t own = number(bytes);
            allKeys += own;
            *segments[n][0] = layout(bytes, {batch, kvHeads, own, dim}, typeK);
            *segments[n][1] = layout(bytes, {batch, kvHeads, bytes.below(16) ? own : number(bytes), valueDim}, typeK);
        }
        if (bytes.flag()) {
            p.priorOut = layout(bytes, {batch, heads, queries, valueDim}, dtype(bytes));
            p.priorLse = layout(bytes, {batch, heads, queries, bytes.below(16) ? 1 : number(bytes)}, VKATTN_F32);
        }
    }
    const auto broadcast = [&](uint32_t extent) { return bytes.flag() ? extent : 1; };
    if (options & 512) p.flags |= VKATTN_ROW_STATISTICS;
    if (options & 2) p.lse = layout(bytes, {batch, heads, queries, options & 512 ? 2u : 1u}, VKATTN_F32);
    if (options & 4) p.weights = layout(bytes, {pairsBatch, heads, queries, allKeys}, dtype(bytes));
    if (options & 1024) p.scores = layout(bytes, {pairsBatch, heads, queries, allKeys}, dtype(bytes));
    if (options & 2048) p.scoresStage = static_cast<vkattn_score_stage>(bytes.below(6));
    if (options & 8) p.bias = layout(bytes, {broadcast(pairsBatch), broadcast(heads), broadcast(queries), broadcast(keys)}, dtype(bytes));
    if (options & 16) p.mask = layout(bytes, {broadcast(pairsBatch), broadcast(heads), broadcast(queries), broadcast(keys)}, VKATTN_BOOL8);
    if (options & 32)
        p.bitMask =
            layout(bytes, {broadcast(pairsBatch), broadcast(heads), broadcast(queries), (keys >> 5) + ((keys & 31) != 0)}, VKATTN_BITS32);
    p.scale = p.flags & VKATTN_SCALE ? bytes.raw<float>() : 0;
    if (options & 64) p.softcap = bytes.raw<float>();
    if (p.flags & VKATTN_WINDOW) p.windowLeft = bytes.raw<int32_t>(), p.windowRight = static_cast<int32_t>(number(bytes));
    p.presentRoles = options >> 17 & 0x7fu;
    if (sequences)
        p.presentRoles =
            (p.presentRoles & ~VKATTN_PRESENT(VKATTN_KEY_LENGTHS)) | VKATTN_PRESENT(VKATTN_CU_SEQ_Q) | VKATTN_PRESENT(VKATTN_CU_SEQ_K);
    p.sequences = sequences;
    if (options & 128) p.maxSeqQ = number(bytes), p.maxSeqK = number(bytes);
    const uint32_t kernel = bytes.raw<uint8_t>();
    p.kernel = static_cast<vkattn_kernel>(kernel < 250 ? kernel % 4 : kernel);
    p.sliceCount = options & 0x80 ? number(bytes) : 0;
    // Rules of visibility: any numbers.
    if (options & 4096) {
        p.presentRoles |= bytes.below(8) << 14 | bytes.below(2) << 30; // global tokens, prefix lengths; dilations
        if (bytes.flag()) p.dilation = number(bytes);
        p.grid.rule = static_cast<vkattn_grid_rule>(bytes.below(6));
        for (int axis = 0; axis < 3 && p.grid.rule; ++axis)
            p.grid.extent[axis] = number(bytes), p.grid.size[axis] = number(bytes), p.grid.shift[axis] = bytes.flag() ? 0 : number(bytes);
        p.blocks.kind = static_cast<vkattn_block_kind>(bytes.below(7));
        if (p.blocks.kind) {
            p.blocks.queries = number(bytes), p.blocks.keys = number(bytes);
            p.blocks.batches = bytes.flag() ? 0 : number(bytes), p.blocks.heads = bytes.flag() ? 0 : number(bytes);
            p.blocks.entries = bytes.flag() ? 0 : number(bytes), p.blocks.full = bytes.below(3);
            p.blocks.random = bytes.flag() ? 0 : number(bytes), p.blocks.seed = bytes.flag() ? 0 : number(bytes);
        }
    }
    clearBeyond(p);
    return p;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Bytes bytes(data, size);
    const vkattn_problem p = problemFrom(bytes);
    vkattn_diagnostic why{};
    const vkattn_result valid = vkattnValidateProblem(&p, &why);
    require(valid == VKATTN_OK || (valid == VKATTN_ERROR_INVALID_ARGUMENT && why.message[0] != '\0' && terminated(why.message)));
    for (uint32_t role = 0; role < VKATTN_ROLE_LIMIT + 2; ++role) {
        const uint64_t needed = vkattnOperandBytes(&p, static_cast<vkattn_role>(role));
        require(needed < uint64_t{1} << 62 && (valid == VKATTN_OK || needed == 0));
    }
    const vkattn_caps caps = capsFrom(bytes, number);
    const uint64_t maxWorkspaceBytes = bytes.flag() ? 0 : number(bytes);
    vkattn_explanation plan{};
    plan.structSize = sizeof plan;
    why = {};
    const vkattn_result r = vkattn::explain(caps, p, plan, vkattn::planOptions(maxWorkspaceBytes), &why);
    if (r != VKATTN_OK) {
        require((r == VKATTN_ERROR_UNSUPPORTED || r == VKATTN_ERROR_INVALID_ARGUMENT) && why.message[0] != '\0' && terminated(why.message));
        return 0;
    }
    require(valid == VKATTN_OK);
    require(plan.kernel != VKATTN_KERNEL_AUTO && plan.kernelName && vkattnKernelName(plan.kernel) == plan.kernelName && plan.form);
    require(p.kernel == VKATTN_KERNEL_AUTO || p.kernel == plan.kernel);
    require(plan.workgroupInvocations <= caps.maxWorkgroupInvocations);
    for (int axis = 0; axis < 3; ++axis) require(plan.groups[axis] <= caps.maxWorkgroupCount[axis]);
    require(terminated(plan.choice) && plan.flops >= 0 && plan.flops <= plan.flopsFull && plan.bytesRead >= 0 && plan.bytesWritten >= 0);
    for (const vkattn_kernel kernel : vkattn::KernelList()) {
        const vkattn_result could = vkattn::explainKernel(caps, p, kernel, vkattn::planOptions(maxWorkspaceBytes), &why);
        require((could == VKATTN_OK || could == VKATTN_ERROR_UNSUPPORTED) && terminated(why.message));
        require((why.message[0] == '\0') == (kernel == plan.kernel));
    }
    const vkattn_plan_options options = vkattn::planOptions(maxWorkspaceBytes);
    const auto list = [&](std::vector<std::byte> *scratch, vkattn_dispatch_list &listed) {
        return scratch ? vkattn::listDispatches(caps, p, *scratch, listed, options, &why)
                       : vkattn::measureDispatches(caps, p, listed, options, &why);
    };
    checkDispatches(caps, plan, list, [&](vkattn_role role) { return vkattnOperandBytes(&p, role); });
    return 0;
}
