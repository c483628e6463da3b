// How the kernel of gradients on matrix units lays out its workgroups (shaders/gradient/matrices.glsl).
// The rest of a plan is as in tiles_plan.cpp.
#include "core/gradient/gradient_plan.hpp"
#include "core/kernels/coopmat.hpp"
#include "core/plan/tuning/table.hpp"
#include "core/shaders/shaders.hpp"
#include "lib/interop.h"
#include "util/diagnostic.hpp"

#include <algorithm>
#include <numeric>
#include <span>

namespace vkattn {
namespace {

using namespace interop;

constexpr vkattn_result refused = VKATTN_ERROR_UNSUPPORTED;

// Its shaders, its self-test and its verdict speak for the matrix units of the device.
const Kernel &forwardKernel() {
    return *findKernel(VKATTN_KERNEL_FLASH_COOPMAT);
}

Module moduleOf(bool keys, vkattn_dtype inputs) {
    const bool bfloat16 = inputs == VKATTN_BF16;
    return keys       ? bfloat16 ? Module::gradientKeysCoopmatBf16 : Module::gradientKeysCoopmatF16
           : bfloat16 ? Module::gradientRowsCoopmatBf16
                      : Module::gradientRowsCoopmatF16;
}

struct Layout {
    MatrixTile tile;
    bool ownedShared = false;
};
// Subgroups of a workgroup, matrices of items of each, and the items that pass by at a time; the first
// that fits the device is taken. Not timed on a GPU yet: as the forward pass has them
// (core/plan/tuning.cpp), with fewer items in shared memory, where there are two numbers for each pair.
// Owned operands and sums of more than 64 dims do not fit registers together: on RDNA 3, whose lanes
// hold operands twice, and at head dim 128, they are 256 registers of the 256 there are.
constexpr Layout cpuLayouts[] = {{{64, 1, 1, 16}}, {{128, 2, 1, 16}, true}, {{256, 2, 1, 16}}, {{256, 2, 1, 32}}};
constexpr Layout gpuLayouts[] = {{{64, 4, 1, 64}},  {{128, 2, 1, 32}, true}, {{128, 4, 1, 32}}, {{256, 4, 1, 32}},
                                 {{256, 2, 1, 32}}, {{256, 4, 1, 16}},       {{256, 2, 1, 16}}, {{256, 1, 1, 16}}};
constexpr uint32_t mostDims = std::end(gpuLayouts)[-1].tile.maxDim;

// What the shaders have in shared memory.
uint32_t sharedBytes(const MatrixShape &s, bool keys) {
    const uint32_t items = s.tileKeys * (s.paddedDim / 8 + 1 + s.paddedValueDim / 8 + 1 + (keys ? 1 : 0));
    const uint32_t owned = s.subgroups * s.m * s.rowBlocks;
    const uint32_t operands = s.ownedShared ? owned * (s.paddedDim / 8 + 1 + s.paddedValueDim / 8 + 1) : 2;
    return (items + operands + owned * (s.tileKeys / 2 + 1)) * 16 + 8;
}
// What the shaders demand of tileKeys.
bool fitsShape(const MatrixShape &s) {
    const uint32_t rows = s.m * s.rowBlocks, parts = std::max(s.subgroupLanes / rows, 1u);
    return s.tileKeys % s.n == 0 && s.tileKeys % s.k == 0 && s.tileKeys % (8 * parts) == 0 && s.tileKeys >= 2 * s.n &&
           (rows % s.subgroupLanes == 0 || s.subgroupLanes % rows == 0);
}

vkattn_result layOut(const Caps &caps, const Problem &p, const vkattn_matrix_shape &units, bool wholeWords, bool keys, GradientPass &pass,
                     vkattn_diagnostic *why) {
    const bool onCpu = caps.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU;
    const uint32_t dim = std::max(p.headDim, p.valueDim), lanes = matrixLanes(caps), multiple = std::lcm(units.n, units.k);
    uint32_t least = 0;
    for (const auto &[tile, ownedShared] : onCpu ? std::span<const Layout>(cpuLayouts) : std::span<const Layout>(gpuLayouts)) {
        if (tile.maxDim < dim) continue;
        MatrixShape &m = pass.matrix;
        m = {units.m,
             units.n,
             units.k,
             lanes,
             tile.subgroups,
             tile.rowBlocks,
             tile.tileKeys,
             roundUp(p.headDim, multiple),
             roundUp(p.valueDim, multiple),
             wholeWords,
             onCpu && tile.subgroups > 1, // one subgroup goes the way of GPUs: tests have it there
             ownedShared};
        const uint32_t invocations = lanes * m.subgroups, shared = sharedBytes(m, keys);
        if (invocations > caps.maxWorkgroupInvocations || invocations > caps.maxWorkgroupSize[0] ||
            (caps.maxWorkgroupSubgroups && m.subgroups > caps.maxWorkgroupSubgroups) || !fitsShape(m))
            continue;
        least = least ? std::min(least, shared) : shared;
        if (shared > caps.maxSharedMemoryBytes) continue;
        pass.tile = {tile.maxDim, lanes, m.subgroups, m.m * m.rowBlocks, m.tileKeys, sourceMatrices, m.tileKeys, 0};
        return VKATTN_OK;
    }
    if (dim > mostDims)
        return fail(why, refused, "the coopmat kernel of gradients takes head and value dims up to %u, and this problem has %u", mostDims,
                    dim);
    if (!least)
        return fail(why, refused, "no tile of the coopmat kernel of gradients suits matrices of %ux%ux%u and workgroups of %u invocations",
                    units.m, units.n, units.k, caps.maxWorkgroupInvocations);
    return fail(why, refused, "the coopmat kernel of gradients needs %u bytes of shared memory for dims of %u; the device has %u", least,
                dim, caps.maxSharedMemoryBytes);
}

} // namespace

bool matrixGradient::suits(const Gradient &gradient, const PlanLimits &limits) {
    return !passedOver(forwardKernel(), limits.caps) && coopmat::suits(gradient.forward, limits.tuning);
}

vkattn_result matrixGradient::chooseTiles(const PlanLimits &limits, GradientPlan &plan, vkattn_diagnostic *why) {
    const Caps &caps = limits.caps;
    const Problem &p = plan.problem();
    if (const auto r = coopmat::checkWeighing(p, plan.kernelName, why)) return r;
    const vkattn_dtype inputs = p.tensor(VKATTN_Q).dtype;
    bool wholeWords = true;
    const Tensor *const factors[] = {&p.tensor(VKATTN_Q), &p.tensor(VKATTN_K), &p.tensor(VKATTN_V), &plan.gradient.tensor(VKATTN_D_OUT)};
    for (const Tensor *factor : factors) {
        if (factor->dtype != inputs || inputs == VKATTN_F32)
            return fail(why, refused,
                        "the coopmat kernel of gradients takes q, k, v and dOut all f16 or all bf16; take VKATTN_GRADIENT_AUTO or "
                        "VKATTN_GRADIENT_STAGED");
        wholeWords = wholeWords && fillsWords(*factor);
    }
    if (const auto r = checkAvailable(forwardKernel(), caps, why)) return r;
    if (coopmat::supported(forwardKernel(), limits, nullptr) != VKATTN_OK) return coopmat::supported(forwardKernel(), limits, why);
    const vkattn_matrix_shape *const units = matrixShapeFor(caps, inputs);
    const char *const type = inputs == VKATTN_BF16 ? "bf16" : "f16";
    if (!shaderFor(moduleOf(false, inputs)).built())
        return fail(why, refused, "this build of vkattn has no coopmat kernel of gradients for %s: its shader compiler lacked bfloat16",
                    type);
    if (!units) return fail(why, refused, "the device lists no matrix shape of %s inputs and f32 sums", type);
    for (const bool keys : {false, true}) {
        GradientPass &pass = keys ? plan.tiles.keys : plan.tiles.rows;
        if (const auto r = layOut(caps, p, *units, wholeWords, keys, pass, why)) return r;
        // Two loops over what passes by: over tiles, and over the lane's items of a tile where pairs are
        // looked at.
        const uint64_t tiles = divideUp(keys ? p.queryTokens : p.keyTokens, pass.matrix.tileKeys);
        const uint64_t heads = keys ? p.groupSize() : 1, items = keys ? p.queryTokens : p.keyTokens;
        const uint64_t loops = heads * (2 * tiles + 4) + skipRounds(p, pass.tile.owned()).of(items, pass.matrix.tileKeys, heads);
        if (loops > maxKeysPerLane)
            return fail(why, refused, "a lane of the coopmat kernel of gradients would loop %llu times, at most %u",
                        static_cast<unsigned long long>(loops), maxKeysPerLane);
    }
    return VKATTN_OK;
}

PipelineKey matrixGradient::pipelineKey(const GradientPlan &plan, bool keys, ConceptConstants concepts) {
    const GradientPass &pass = keys ? plan.tiles.keys : plan.tiles.rows;
    const MatrixShape &m = pass.matrix;
    concepts.kvFormat = kvFormat(plan.problem(), dimsApart);
    concepts.form |=
        (m.wholeWords ? formMatrixWords : 0) | (m.lockstep ? formMatrixLockstep : 0) | (m.ownedShared ? formMatrixOwnedShared : 0);
    return vkattn::pipelineKey(moduleOf(keys, plan.problem().tensor(VKATTN_Q).dtype), pass.tile.invocations(), concepts,
                               {m.subgroupLanes, m.subgroups, m.rowBlocks, m.m, m.n, m.k, m.tileKeys, m.paddedDim, m.paddedValueDim});
}

void matrixGradient::explain(const GradientPlan &plan, vkattn_explanation &out) {
    const PassTile &tile = plan.tiles.rows.tile;
    out.form = plan.tiles.rows.matrix.ownedShared ? "rows, then keys, on matrix units, operands in shared memory"
                                                  : "rows, then keys, on matrix units";
    explainTile(plan.forward, tile, out);
}

WeightRounding matrixGradient::rounding(const GradientPlan &plan) {
    // Half an ulp. P is scaled by 2^11, the largest dz to 2^13 and more: the smallest f16 is 2^-24 of that.
    if (plan.problem().tensor(VKATTN_Q).dtype == VKATTN_BF16) return {0x1p-8f, 0};
    return {0x1p-11f, 0x1p-36f};
}

} // namespace vkattn
