#include "core/kernels/coopmat.hpp"

#include "core/kernels/flash.hpp"
#include "core/plan/operands.hpp"
#include "core/shaders/shaders.hpp"
#include "lib/interop.h"
#include "util/diagnostic.hpp"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <numeric>
#include <span>

namespace vkattn {
namespace {

using namespace interop;

constexpr vkattn_result unsupported = VKATTN_ERROR_UNSUPPORTED;

// Whether the kernel's matrices have flexible dims (VK_NV_cooperative_matrix2) and hold the softmax
// too.
bool isFlexible(const Kernel &kernel) {
    return kernel.id == VKATTN_KERNEL_FLASH_COOPMAT2;
}
Module moduleOf(const Kernel &kernel, vkattn_dtype inputs) {
    const bool bfloat16 = inputs == VKATTN_BF16;
    return isFlexible(kernel) ? bfloat16 ? Module::flashCoopmat2Bf16 : Module::flashCoopmat2F16
           : bfloat16         ? Module::flashCoopmatBf16
                              : Module::flashCoopmatF16;
}
const char *typeName(vkattn_dtype type) {
    return isSmallType(type) ? nameOfSmallType(type) : type == VKATTN_BF16 ? "bf16" : type == VKATTN_F16 ? "f16" : "f32";
}

// What flash/matrices2.comp cannot do without.
constexpr struct {
    uint32_t bit;
    const char *name;
} matrix2Needs[] = {{VKATTN_MATRIX2_FLEXIBLE, "cooperativeMatrixFlexibleDimensions"},
                    {VKATTN_MATRIX2_REDUCTIONS, "cooperativeMatrixReductions"},
                    {VKATTN_MATRIX2_CONVERSIONS, "cooperativeMatrixConversions"},
                    {VKATTN_MATRIX2_PER_ELEMENT, "cooperativeMatrixPerElementOperations"}};
vkattn_result checkMatrix2(const Caps &caps, const char *name, vkattn_diagnostic *why) {
    for (const auto &[bit, feature] : matrix2Needs)
        if (!(caps.matrix2 & bit))
            return fail(why, unsupported, "the %s kernel needs %s of VK_NV_cooperative_matrix2, which the device lacks or is not enabled",
                        name, feature);
    if (!caps.matrix2MaxDimension)
        return fail(why, unsupported, "the device lists no flexible dimensions of matrices of f16 inputs and f32 sums at subgroup scope");
    return VKATTN_OK;
}

// Dims of the kernel's matrices: a listed shape; for flash_coopmat2, what its flexible dims are
// multiples of. Caps have that for f16 only: for bf16 a multiple of a listed shape too. m = 0:
// none.
vkattn_matrix_shape unitsFor(const Kernel &kernel, const Caps &caps, vkattn_dtype inputs) {
    const vkattn_matrix_shape *listed = matrixShapeFor(caps, inputs);
    if (!isFlexible(kernel) || !listed) return listed ? *listed : vkattn_matrix_shape{};
    const bool bfloat16 = inputs == VKATTN_BF16;
    const auto &g = caps.matrix2Granularity; // shared memory has pieces of 8 elements
    const vkattn_matrix_shape units = {std::lcm(std::lcm(g[0], 8u), bfloat16 ? listed->m : 1),
                                       std::lcm(std::lcm(g[1], 8u), bfloat16 ? listed->n : 1),
                                       std::lcm(std::lcm(g[2], 8u), bfloat16 ? listed->k : 1), inputs};
    return std::has_single_bit(units.m) && std::max({units.m, units.n, units.k}) <= caps.matrix2MaxDimension ? units
                                                                                                             : vkattn_matrix_shape{};
}

// What the shaders have in shared memory (flash/tiles.glsl).
uint32_t sharedBytes(const Kernel &kernel, const MatrixShape &s, bool drops) {
    const uint32_t scorePitch = s.tileKeys / 4 + 1 + (isFlexible(kernel) ? rowFactPieces + (drops ? 1 : 0) : 0);
    const uint32_t pieces = s.tileKeys * (s.paddedDim / 8 + 1 + s.paddedValueDim / 8 + 1) + s.subgroups * s.m * s.rowBlocks * scorePitch;
    return pieces * 16 + 8;
}
// What the shaders demand of tileKeys.
bool fitsShape(const Kernel &kernel, const MatrixShape &s, const Caps &caps) {
    const uint32_t rows = s.m * s.rowBlocks, parts = std::max(s.subgroupLanes / rows, 1u);
    const bool flexible = isFlexible(kernel);
    // tileKeys are a dim of a matrix; a piece of 128 bits has what a row sees of them.
    if (flexible && s.tileKeys > std::min(caps.matrix2MaxDimension, 128u)) return false;
    return s.tileKeys % s.n == 0 && s.tileKeys % s.k == 0 && s.tileKeys % (8 * parts) == 0 &&
           s.n / 4 <= s.tileKeys / 8 + (flexible ? 0 : 1) && (rows % s.subgroupLanes == 0 || s.subgroupLanes % rows == 0);
}

} // namespace

vkattn_result coopmat::supported(const Kernel &kernel, const PlanLimits &limits, vkattn_diagnostic *why) {
    const Caps &caps = limits.caps;
    const char *name = kernel.name;
    const bool f16 = shaderFor(moduleOf(kernel, VKATTN_F16)).built(), bf16 = shaderFor(moduleOf(kernel, VKATTN_BF16)).built();
    if (!f16 && !bf16)
        return fail(why, unsupported, "this build of vkattn has no %s kernel: its shader compiler lacked %s; build with a newer glslc",
                    name, isFlexible(kernel) ? "GL_NV_cooperative_matrix2" : "GL_KHR_cooperative_matrix");
    if (!caps.matrixShapeCount)
        return fail(
            why, unsupported,
            "the device has no matrix units that the %s kernel can use, or one of cooperativeMatrix, shaderFloat16, vulkanMemoryModel "
            "and computeFullSubgroups is not enabled",
            name);
    if (caps.maxStorageBuffersPerStage < fullSlots)
        return fail(why, unsupported, "the %s kernel needs %u storage buffers a stage; the device has %u", name, fullSlots,
                    caps.maxStorageBuffersPerStage);
    if (!matrixLanes(caps)) return fail(why, unsupported, "the %s kernel needs computeFullSubgroups, which is not enabled", name);
    if (isFlexible(kernel))
        if (const auto r = checkMatrix2(caps, name, why)) return r;
    const bool halves = f16 && unitsFor(kernel, caps, VKATTN_F16).m, bfloats = bf16 && unitsFor(kernel, caps, VKATTN_BF16).m;
    if (!halves && !bfloats)
        return fail(why, unsupported, "the device lists no matrix shape that the %s kernel takes: dims that are multiples of 8", name);
    if (!halves || !bfloats)
        return fail(why, VKATTN_OK, "%s inputs only: %s", halves ? "f16" : "bf16",
                    halves && !bf16 ? "this build's shader compiler lacked bfloat16"
                                    : "the device lists no matrix shape for the other type");
    return VKATTN_OK;
}

vkattn_result coopmat::checkWeighing(const Problem &p, const char *kernel, vkattn_diagnostic *why) {
    if (!p.program.weighs() && !p.program.sumless()) return VKATTN_OK;
    return fail(why, unsupported, "the %s kernel rounds weights to 16 bits, and %s of the program %s may make them any number; take AUTO",
                kernel, p.program.weighs() ? "vkattnProbability" : "vkattnRow", nameOf(*p.program.program));
}

vkattn_result coopmat::chooseMatrices(const Kernel &kernel, const Problem &p, const PlanLimits &limits, FlashShape &shape,
                                      vkattn_diagnostic *why) {
    const Caps &caps = limits.caps;
    const char *name = kernel.name;
    if (supported(kernel, limits, nullptr) != VKATTN_OK) return supported(kernel, limits, why);
    if (const auto r = checkWeighing(p, name, why)) return r;
    const vkattn_dtype inputs = p.tensor(VKATTN_Q).dtype;
    for (const vkattn_role role : {VKATTN_Q, VKATTN_K, VKATTN_V})
        if (const vkattn_dtype type = p.tensor(role).dtype; type == VKATTN_F32 || (type != inputs && !isFp8(type)))
            return fail(why, unsupported, "the %s kernel takes q, k and v all f16 or all bf16, and k and v fp8 beside either; %s is %s%s",
                        name, roleName(role), typeName(type), type == VKATTN_F32 || isSmallType(type) ? "" : " and q is not");
    if (!shaderFor(moduleOf(kernel, inputs)).built())
        return fail(why, unsupported, "this build of vkattn has no %s kernel for %s: its shader compiler lacked bfloat16", name,
                    typeName(inputs));
    const vkattn_matrix_shape units = unitsFor(kernel, caps, inputs);
    if (!units.m) return fail(why, unsupported, "the device lists no matrix shape of %s inputs and f32 sums", typeName(inputs));

    const uint32_t dim = std::max(p.headDim, p.valueDim), lanes = matrixLanes(caps);
    uint32_t largest = 0, least = 0;
    for (const MatrixTile &tile : limits.tuning.matrix) {
        largest = std::max(largest, tile.maxDim);
        if (dim < tile.minDim || tile.maxDim < dim) continue;
        MatrixShape &m = shape.matrix;
        m = {units.m, units.n, units.k, lanes, tile.subgroups, tile.rowBlocks, tile.tileKeys, 0, 0, false,
             // One subgroup goes the way of GPUs: tests have it there.
             caps.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU && tile.subgroups > 1};
        m.paddedDim = roundUp(p.headDim, m.k);
        m.paddedValueDim = roundUp(p.valueDim, m.n);
        m.wholeWords = fillsWords(p.tensor(VKATTN_Q));
        for (uint32_t n = 0; n < p.segments.count; ++n)
            m.wholeWords =
                m.wholeWords && fillsWords(p.tensor(roleOfSegment(VKATTN_K, n))) && fillsWords(p.tensor(roleOfSegment(VKATTN_V, n)));
        const uint32_t invocations = lanes * m.subgroups;
        const bool fits = invocations <= caps.maxWorkgroupInvocations && invocations <= caps.maxWorkgroupSize[0] &&
                          (!caps.maxWorkgroupSubgroups || m.subgroups <= caps.maxWorkgroupSubgroups) && fitsShape(kernel, m, caps);
        const uint32_t shared = sharedBytes(kernel, m, p.drops());
        if (fits) least = least ? std::min(least, shared) : shared;
        if (!fits || shared > caps.maxSharedMemoryBytes) continue;
        shape.tile = {tile.maxDim, lanes, 1, m.subgroups, m.m * m.rowBlocks, m.tileKeys, sourceMatrices, m.tileKeys, 1, 0, 0};
        return VKATTN_OK;
    }
    if (dim > largest)
        return fail(why, unsupported, "the %s kernel takes head and value dims up to %u, and this problem has %u", name, largest, dim);
    if (!least)
        return fail(why, unsupported,
                    "no tile of the %s kernel for head dim %u suits matrices of %ux%ux%u and workgroups of %u invocations", name, dim,
                    units.m, units.n, units.k, caps.maxWorkgroupInvocations);
    return fail(why, unsupported, "the %s kernel's workgroup for head dim %u needs %u bytes of shared memory; the device has %u", name, dim,
                least, caps.maxSharedMemoryBytes);
}

WeightRounding coopmat::rounding(const Plan &plan) {
    // Half an ulp. Weights are scaled by 2^11 (flash/matrices.comp): the smallest f16 is 2^-24 of
    // that, and bf16 reaches as far as f32.
    if (plan.problem.tensor(VKATTN_Q).dtype == VKATTN_BF16) return {0x1p-8f, 0};
    return {0x1p-11f, 0x1p-36f};
}

PipelineKey coopmat::pipelineKey(const Plan &plan) {
    const Problem &p = plan.problem;
    const MatrixShape &m = plan.flash.matrix;
    return vkattn::pipelineKey(moduleOf(*plan.kernel, p.tensor(VKATTN_Q).dtype), plan.flash.tile.invocations(),
                               {.kvFormat = kvFormat(p, dimsApart),
                                .pairTerms = plan.flash.pairTerms,
                                .elementTypes = elementType(p, VKATTN_Q) | elementType(p, VKATTN_OUT) << typesOut,
                                .form = (m.wholeWords ? formWholeWords : 0) | (m.lockstep ? formLockstep : 0) | plan.orderForm},
                               {m.subgroupLanes, m.subgroups, m.rowBlocks, m.m, m.n, m.k, m.tileKeys, m.paddedDim, m.paddedValueDim});
}

bool coopmat::suits(const Problem &p, const FlashTuning &tuning) {
    return tuning.matrixRows && uint64_t{p.queryTokens} * p.groupSize() >= tuning.matrixRows;
}

void coopmat::explain(const Plan &plan, vkattn_explanation &out) {
    flash::explain(plan, out);
    out.form = isFlexible(*plan.kernel) ? "matrix units, softmax in matrices" : "matrix units, softmax through shared memory";
}

void coopmat::whyChosen(const Problem &p, const FlashTuning &tuning, char *text, size_t size) {
    const unsigned long long rows = uint64_t{p.queryTokens} * p.groupSize();
    std::snprintf(text, size,
                  "q, k and v are of a type that the device's matrix units take, and %llu query rows share each key head, at least %u: "
                  "both products run there",
                  rows, tuning.matrixRows);
}

const char *coopmat::whyNotChosen(const Plan &, const FlashTuning &tuning) {
    return tuning.matrixRows ? "it can run, but too few query rows share a key to fill a matrix"
                             : "it can run, but the matrix units of a device of type CPU are loops of its driver";
}

const char *coopmat::whyNeverChosen(const Plan &, const FlashTuning &) {
    return "it can run, but AUTO never takes it: on the GPU that it was timed on, flash_coopmat was as fast or faster";
}

} // namespace vkattn
