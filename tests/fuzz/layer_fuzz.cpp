// Descriptions of layers, of their gradients and of latent layers: vkattnPlanLayer, vkattnPlanLayerGradient and vkattnPlanLatentLayer with
// anything. Every step of a plan is valid and stays in what the operands, the workspace and what a layer keeps have, and small ones are
// computed on the CPU in memory of exactly those bytes.
#include "fuzz/shared/layouts.hpp"
#include "vkattn/cpu.h"
#include "vkattn/latent_layer.h"
#include "vkattn/layer_gradient.h"

#include <map>
#include <memory>
#include <vector>

using namespace vkattn::test;

namespace {

struct Description {
    vkattn_layer layer{};
    vkattn_problem options{};

    explicit Description(Bytes &bytes) {
        const uint32_t choices = bytes.raw<uint16_t>(), batch = 1 + bytes.below(2), tokens = number(bytes), model = number(bytes);
        const uint32_t heads = 1 + bytes.below(6), kvHeads = 1 + bytes.below(3), dim = number(bytes), valueDim = number(bytes),
                       out = choices & 1 ? model : number(bytes);
        const auto make = [&](const uint32_t(&extents)[4]) { return ::vkattn::test::layout(bytes, extents, dtype(bytes)); };
        layer.structSize = bytes.raw<uint8_t>() < 250 ? static_cast<uint32_t>(sizeof layer) : bytes.raw<uint32_t>();
        layer.flags = choices & 1 ? uint32_t{VKATTN_LAYER_RESIDUAL} : choices >> 15;
        layer.heads = bytes.raw<uint8_t>() < 250 ? heads * kvHeads : bytes.raw<uint32_t>();
        layer.kvHeads = choices & 2 ? kvHeads : bytes.raw<uint8_t>() < 250 ? 0 : bytes.raw<uint32_t>();
        const uint32_t groups = layer.kvHeads ? kvHeads : heads * kvHeads, all = heads * kvHeads;
        layer.place = static_cast<vkattn_norm_place>(bytes.below(4));
        layer.norm = static_cast<vkattn_norm_kind>(choices >> 2 & 1);
        layer.epsilon = choices & 8 ? bytes.raw<float>() : 1e-5f;
        layer.stored = dtype(bytes);
        layer.x = make({batch, 1, tokens, model});
        const bool cross = choices & 16, packed = choices & 32;
        const uint32_t keyTokens = cross ? number(bytes) : tokens, keyModel = cross ? number(bytes) : model;
        if (cross) layer.context = make({batch, 1, keyTokens, keyModel});
        if (packed) {
            layer.wq = make({1, 1, (all + 2 * groups) * dim, model});
        } else {
            layer.wq = make({1, 1, all * dim, model});
            layer.wk = make({1, 1, groups * dim, keyModel});
            layer.wv = make({1, 1, groups * valueDim, keyModel});
        }
        layer.wo = make({1, 1, out, all * (packed ? dim : valueDim)});
        if (choices & 64) layer.bq = make({1, 1, 1, layer.wq.extent[2]});
        if (choices & 128) layer.bk = make({1, 1, 1, layer.wk.extent[2]});
        if (choices & 256) layer.bv = make({1, 1, 1, layer.wv.extent[2]});
        if (choices & 512) layer.bo = make({1, 1, 1, out});
        const uint32_t normed = layer.place == VKATTN_NORM_PRE ? model : out;
        if (choices & 1024) layer.gamma = make({1, 1, 1, normed});
        if (choices & 2048) layer.beta = make({1, 1, 1, normed});
        layer.y = make({batch, 1, tokens, out});
        if (choices & 16384) {
            const uint32_t positions = number(bytes), pairs = bytes.below(1 + dim / 2);
            layer.cos = ::vkattn::test::layout(bytes, {1, 1, positions, pairs}, VKATTN_F32);
            layer.sin = ::vkattn::test::layout(bytes, {1, 1, positions, pairs}, VKATTN_F32);
            layer.pairs = static_cast<vkattn_rotary_pairs>(bytes.below(3));
            layer.start = bytes.raw<uint8_t>() < 250 ? bytes.below(8) : bytes.raw<uint32_t>();
            layer.presentRoles = bytes.below(3) * VKATTN_PRESENT(VKATTN_POSITIONS) + bytes.below(2) * VKATTN_PRESENT(VKATTN_STARTS);
        }
        // What the bytes of older seeds do not reach.
        const auto dropOutput = [&] {
            if (!bytes.flag()) return;
            layer.outputDropout = bytes.flag() ? bytes.below(11) / 10.0 : bytes.raw<double>();
            layer.outputDropoutSeed = bytes.below(3), layer.outputDropoutOffset = bytes.below(3);
        };
        if (!(choices & 4096)) {
            dropOutput();
            return;
        }
        layer.options = &options;
        options.structSize = sizeof options;
        options.flags = bytes.raw<uint8_t>() & (VKATTN_CAUSAL | VKATTN_ALIGN_TOP_LEFT | VKATTN_DETERMINISTIC);
        options.softcap = choices & 8192 ? bytes.raw<float>() : 0;
        if (bytes.flag()) options.weights = make({batch, layer.flags & VKATTN_LAYER_AVERAGED_WEIGHTS ? 1 : all, tokens, keyTokens});
        if (bytes.flag()) options.mask = ::vkattn::test::layout(bytes, {1, 1, tokens, keyTokens}, VKATTN_BOOL8);
        if (bytes.flag()) options.presentRoles = VKATTN_PRESENT(VKATTN_SINKS);
        dropOutput();
        if (bytes.flag()) options.dropout = 0.5, options.dropoutSeed = bytes.below(3), options.dropoutOffset = bytes.below(3);
    }
};

struct LatentDescription {
    vkattn_latent_layer layer{};
    vkattn_problem options{};

    explicit LatentDescription(Bytes &bytes) {
        const uint32_t choices = bytes.raw<uint16_t>(), batch = 1 + bytes.below(2), tokens = number(bytes), model = number(bytes);
        const uint32_t heads = 1 + bytes.below(6), latent = number(bytes), queries = choices & 1 ? number(bytes) : model,
                       out = choices & 2 ? model : number(bytes), cacheTokens = number(bytes), positions = number(bytes);
        const auto make = [&](const uint32_t(&extents)[4]) { return ::vkattn::test::layout(bytes, extents, dtype(bytes)); };
        const auto any = [&](uint32_t usual) { return bytes.raw<uint8_t>() < 250 ? usual : bytes.raw<uint32_t>(); };
        layer.structSize = any(sizeof layer);
        layer.flags = choices & 2 ? uint32_t{VKATTN_LAYER_RESIDUAL} : choices >> 15;
        layer.heads = any(heads);
        layer.nope = number(bytes), layer.rope = any(2 * bytes.below(5)), layer.value = number(bytes);
        layer.form = static_cast<vkattn_latent_form>(bytes.below(4));
        layer.pairs = static_cast<vkattn_rotary_pairs>(bytes.below(3));
        layer.epsilon = choices & 4 ? bytes.raw<float>() : 1e-6f;
        layer.stored = dtype(bytes);
        layer.start = any(bytes.below(8));
        layer.presentRoles = (choices & 8 ? VKATTN_PRESENT(VKATTN_STARTS) : 0) | (choices & 16 ? VKATTN_PRESENT(VKATTN_POSITIONS) : 0);
        layer.x = make({batch, 1, tokens, model});
        if (choices & 1) layer.wdq = make({1, 1, queries, model});
        if (choices & 32) layer.gammaQ = make({1, 1, 1, queries});
        layer.wuq = make({1, 1, heads * (layer.nope + layer.rope), queries});
        layer.wdkv = make({1, 1, latent + layer.rope, model});
        if (choices & 64) layer.gamma = make({1, 1, 1, latent});
        layer.wukv = make({1, 1, heads * (layer.nope + layer.value), latent});
        layer.wo = make({1, 1, out, heads * layer.value});
        layer.cos = ::vkattn::test::layout(bytes, {1, 1, positions, layer.rope / 2}, VKATTN_F32);
        layer.sin = ::vkattn::test::layout(bytes, {1, 1, positions, layer.rope / 2}, VKATTN_F32);
        if (choices & 128) layer.cache = make({batch, 1, cacheTokens, latent + layer.rope});
        layer.y = make({batch, 1, tokens, out});
        if (!(choices & 256)) return;
        layer.options = &options;
        options.structSize = sizeof options;
        options.flags = bytes.raw<uint8_t>() & (VKATTN_CAUSAL | VKATTN_ALIGN_TOP_LEFT | VKATTN_DETERMINISTIC);
        if (bytes.flag()) options.presentRoles = VKATTN_PRESENT(VKATTN_KEY_LENGTHS);
    }
};

// The gradients of a layer that is there, with some of their layouts another one's.
struct GradientDescription {
    vkattn_layer_gradient gradient{};
    uint64_t keptBytes = 0; // by the layer

    GradientDescription(Description &forward, Bytes &bytes) {
        const vkattn_layer &l = forward.layer;
        if (bytes.raw<uint8_t>() < 250) forward.layer.flags |= VKATTN_LAYER_KEEPS_STEPS;
        vkattn_layer_plan plan{};
        plan.structSize = sizeof plan;
        if (vkattnPlanLayer(&l, &plan, nullptr) == VKATTN_OK) keptBytes = plan.keptBytes;
        const auto any = [&](uint32_t usual) { return bytes.raw<uint8_t>() < 250 ? usual : bytes.raw<uint32_t>(); };
        gradient.structSize = any(sizeof gradient);
        gradient.flags = any(0), gradient.reserved = any(0);
        gradient.forward = bytes.raw<uint8_t>() < 250 ? &l : nullptr;
        gradient.stored = dtype(bytes);
        gradient.kernel = static_cast<vkattn_gradient_kernel>(bytes.below(4));
        gradient.presentRoles = any(bytes.below(16) * VKATTN_PRESENT(VKATTN_D_SINKS));
        const struct {
            vkattn_layout &to;
            const vkattn_layout &like;
        } all[] = {{gradient.dX, l.x},   {gradient.dContext, l.context}, {gradient.dWq, l.wq},       {gradient.dWk, l.wk},
                   {gradient.dWv, l.wv}, {gradient.dWo, l.wo},           {gradient.dBq, l.bq},       {gradient.dBk, l.bk},
                   {gradient.dBv, l.bv}, {gradient.dBo, l.bo},           {gradient.dGamma, l.gamma}, {gradient.dBeta, l.beta}};
        const uint32_t asked = bytes.raw<uint16_t>();
        const auto make = [&](vkattn_layout &to, const vkattn_layout &like) {
            const vkattn_layout &from = bytes.raw<uint8_t>() < 252 ? like : l.wq;
            const uint32_t *const e = from.extent;
            if (e[0]) to = ::vkattn::test::layout(bytes, {e[0], e[1], e[2], e[3]}, dtype(bytes));
        };
        make(gradient.dY, l.y);
        for (size_t n = 0; n < sizeof all / sizeof all[0]; ++n)
            if (asked >> n & 1) make(all[n].to, all[n].like);
    }
};

vkattn_result plan(const GradientDescription &d, vkattn_layer_plan &out, vkattn_diagnostic &why) {
    return vkattnPlanLayerGradient(&d.gradient, &out, &why);
}
vkattn_result plan(const Description &d, vkattn_layer_plan &out, vkattn_diagnostic &why) {
    return vkattnPlanLayer(&d.layer, &out, &why);
}
vkattn_result plan(const LatentDescription &d, vkattn_layer_plan &out, vkattn_diagnostic &why) {
    return vkattnPlanLatentLayer(&d.layer, &out, &why);
}

// Bytes that the steps use of each role of the layer, which keeps at most `keptBytes`.
std::map<vkattn_role, uint64_t> needs(const vkattn_layer_plan &plan, uint64_t keptBytes) {
    std::map<vkattn_role, uint64_t> all;
    for (uint32_t n = 0; n < plan.stepCount; ++n) {
        const vkattn_layer_step &step = plan.steps[n];
        vkattn_operand_use uses[VKATTN_ROLE_LIMIT];
        const uint32_t count = vkattnOperandUses(&step.operation, uses, VKATTN_ROLE_LIMIT);
        require(count == step.operandCount && count <= VKATTN_LAYER_OPERANDS);
        for (uint32_t u = 0; u < count; ++u) {
            uint32_t o = 0;
            while (o < count && step.operands[o].role != uses[u].role) ++o;
            require(o < count);
            uint64_t &bytes = all[step.operands[o].from];
            bytes = std::max(bytes, uses[u].endBytes);
        }
    }
    require(all[VKATTN_WORKSPACE] <= plan.betweenBytes);
    all[VKATTN_WORKSPACE] = plan.betweenBytes;
    require(all[VKATTN_KEPT] <= keptBytes);
    all[VKATTN_KEPT] = keptBytes;
    return all;
}

void compute(const vkattn_layer_plan &plan, const std::map<vkattn_role, uint64_t> &bytesOf) {
    std::map<vkattn_role, std::unique_ptr<unsigned char[]>> memory;
    for (const auto &[role, bytes] : bytesOf) memory[role] = std::make_unique<unsigned char[]>(bytes);
    for (uint32_t n = 0; n < plan.stepCount; ++n) {
        const vkattn_layer_step &step = plan.steps[n];
        std::vector<vkattn_operand_memory> operands;
        for (uint32_t o = 0; o < step.operandCount; ++o) {
            const vkattn_role from = step.operands[o].from;
            operands.push_back({step.operands[o].role, memory[from].get(), bytesOf.at(from)});
        }
        const auto count = static_cast<uint32_t>(operands.size());
        // No tokens: operands of 0 bytes are missing, and roles may lie unaligned.
        if (vkattnCpuCheckOperation(&step.operation, operands.data(), count, nullptr) != VKATTN_OK) return;
        uint64_t own = 0;
        require(vkattnCpuOperationWorkspace(&step.operation, nullptr, &own, nullptr) == VKATTN_OK);
        const auto workspace = std::make_unique<unsigned char[]>(own);
        require(vkattnCpuRunOperation(nullptr, &step.operation, operands.data(), count, workspace.get(), own, nullptr) == VKATTN_OK);
    }
}

// Returns the multiply-adds.
double workOf(const vkattn_layer_plan &plan) {
    const auto product = [](const vkattn_layout &l) { return 1.0 * l.extent[0] * l.extent[1] * l.extent[2] * l.extent[3]; };
    double work = 0;
    for (const vkattn_projection &each : plan.projections) work += product(each.x) * each.w.extent[2];
    return work + (plan.attentionGradient.forward ? 5 : 2) * product(plan.attention.q) * plan.attention.k.extent[2];
}

uint64_t keptBytesOf(const GradientDescription &d, const vkattn_layer_plan &) {
    return d.keptBytes;
}
template <class Given> uint64_t keptBytesOf(const Given &, const vkattn_layer_plan &plan) {
    return plan.keptBytes;
}

template <class Given> void check(const Given &d, uint32_t leastSteps = 3) {
    vkattn_layer_plan made{};
    made.structSize = sizeof made;
    vkattn_diagnostic why{};
    const vkattn_result result = plan(d, made, why);
    require(result == VKATTN_OK || (result == VKATTN_ERROR_INVALID_ARGUMENT && why.message[0] != '\0' && terminated(why.message)));
    if (result != VKATTN_OK) {
        require(made.stepCount == 0);
        return;
    }
    require(made.stepCount >= leastSteps && made.stepCount <= VKATTN_LAYER_STEPS);
    uint64_t total = 0;
    const auto bytesOf = needs(made, keptBytesOf(d, made));
    for (const auto &[role, bytesOfRole] : bytesOf) total += std::min<uint64_t>(bytesOfRole, 1ull << 40);
    if (total <= 1u << 18 && workOf(made) <= 1e6) compute(made, bytesOf);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Bytes bytes(data, size);
    if (bytes.flag()) return check(LatentDescription(bytes)), 0;
    Description layer(bytes);
    check(layer);
    check(GradientDescription(layer, bytes), 1);
    return 0;
}
