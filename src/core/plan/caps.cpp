#include "core/plan/caps.hpp"

#include "core/plan/kernel.hpp"
#include "util/diagnostic.hpp"
#include "util/struct_size.hpp"

#include <algorithm>
#include <bit>
#include <iterator>
#include <numeric>

#include <span>
namespace vkattn {
namespace {

vkattn_result checkMatrixCaps(const Caps &caps, const char *name, vkattn_diagnostic *why) {
    if (caps.matrixShapeCount > VKATTN_MAX_MATRIX_SHAPES)
        return fail(why, invalid, "%s: matrixShapeCount is %u, expected at most VKATTN_MAX_MATRIX_SHAPES = %u", name, caps.matrixShapeCount,
                    VKATTN_MAX_MATRIX_SHAPES);
    for (uint32_t n = 0; n < caps.matrixShapeCount; ++n) {
        const vkattn_matrix_shape &s = caps.matrixShapes[n];
        if (!s.m || !s.n || !s.k) return fail(why, invalid, "%s: matrixShapes[%u] is %ux%ux%u, expected no 0", name, n, s.m, s.n, s.k);
        if (s.inputs != VKATTN_F16 && s.inputs != VKATTN_BF16)
            return fail(why, invalid, "%s: matrixShapes[%u].inputs is %d, expected VKATTN_F16 or VKATTN_BF16", name, n,
                        static_cast<int>(s.inputs));
    }
    const uint32_t *g = caps.matrix2Granularity;
    if (const bool none = !g[0] && !g[1] && !g[2]; none ? caps.matrix2MaxDimension != 0 : !g[0] || !g[1] || !g[2])
        return fail(why, invalid, "%s: matrix2Granularity is %ux%ux%u with matrix2MaxDimension %u, expected none or all of them 0", name,
                    g[0], g[1], g[2], caps.matrix2MaxDimension);
    uint32_t judged = 0;
    for (const Kernel &kernel : allKernels())
        if (&kernel != &baseline()) judged |= 1u << kernel.id;
    if ((caps.wrongKernels | caps.slowKernels) & ~judged)
        return fail(why, invalid, "%s: wrongKernels is 0x%x and slowKernels 0x%x, expected bits of kernels other than AUTO and STAGED",
                    name, caps.wrongKernels, caps.slowKernels);
    return VKATTN_OK;
}

} // namespace

bool hasShape(const Caps &caps, const vkattn_matrix_shape &shape) {
    return std::any_of(caps.matrixShapes, caps.matrixShapes + caps.matrixShapeCount, [&](const vkattn_matrix_shape &each) {
        return each.m == shape.m && each.n == shape.n && each.k == shape.k && each.inputs == shape.inputs;
    });
}

const vkattn_matrix_shape *matrixShapeFor(const Caps &caps, vkattn_dtype inputs) {
    const vkattn_matrix_shape *best = nullptr;
    const auto rank = [](const vkattn_matrix_shape &s) { return s.m == 16 && s.n == 16 && s.k == 16 ? ~0u : s.m * s.n * s.k; };
    for (const vkattn_matrix_shape &each : std::span(caps.matrixShapes, caps.matrixShapeCount)) {
        const bool fits = each.m % 8 == 0 && each.n % 8 == 0 && each.k % 8 == 0 && std::has_single_bit(each.m);
        if (each.inputs == inputs && fits && (!best || rank(each) > rank(*best))) best = &each;
    }
    return best;
}

uint32_t matrixLanes(const Caps &caps) {
    if (!caps.fullSubgroups) return 0;
    if (caps.minSubgroupSize && caps.maxSubgroupSize) return std::clamp(32u, caps.minSubgroupSize, caps.maxSubgroupSize);
    return caps.subgroupSize;
}

vkattn_result takeCaps(const vkattn_caps &given, const char *name, Caps &out, vkattn_diagnostic *why) {
    if (const auto r = checkStructSize(given, name, "vkattn_caps", why)) return r;
    Caps room;
    out = completed(given, room);
    out.structSize = sizeof out;
    return checkCaps(out, name, why);
}

vkattn_result checkCaps(const Caps &caps, const char *name, vkattn_diagnostic *why) {
    if (const uint32_t alignment = caps.minStorageBufferOffsetAlignment; alignment && !std::has_single_bit(alignment))
        return fail(why, invalid, "%s: minStorageBufferOffsetAlignment is %u, expected a power of two, as Vulkan requires", name,
                    alignment);
    if (caps.subgroupSize && !std::has_single_bit(caps.subgroupSize))
        return fail(why, invalid, "%s: subgroupSize is %u, expected a power of two, as Vulkan requires, or 0 for unknown", name,
                    caps.subgroupSize);
    if (caps.subgroupSize == 0 && (caps.subgroupShuffle || caps.subgroupClustered || caps.fullSubgroups))
        return fail(why, invalid, "%s: subgroup operations are set, and subgroupSize is 0; set the device's size, or leave them 0", name);
    const uint32_t smallest = caps.minSubgroupSize, largest = caps.maxSubgroupSize;
    if ((smallest || largest) && (!std::has_single_bit(smallest) || !std::has_single_bit(largest) || smallest > largest))
        return fail(
            why, invalid,
            "%s: minSubgroupSize is %u and maxSubgroupSize %u, expected powers of two, the first at most the second, or 0 and 0 for none",
            name, smallest, largest);
    if (smallest && caps.maxWorkgroupSubgroups == 0)
        return fail(why, invalid, "%s: maxWorkgroupSubgroups is 0, and subgroup sizes may be required; expected at least 1", name);
    return checkMatrixCaps(caps, name, why);
}

namespace {

void weakerMatrixUnits(const Caps &a, const Caps &b, Caps &weak) {
    weak.matrixShapeCount = 0;
    std::fill(std::begin(weak.matrixShapes), std::end(weak.matrixShapes), vkattn_matrix_shape{});
    // Without whole subgroups there are none, as readCaps has it: a limit is often made by clearing
    // one field of a device's caps.
    for (uint32_t n = 0; weak.fullSubgroups && n < a.matrixShapeCount; ++n)
        if (hasShape(b, a.matrixShapes[n])) weak.matrixShapes[weak.matrixShapeCount++] = a.matrixShapes[n];
    weak.matrix2 = weak.fullSubgroups ? a.matrix2 & b.matrix2 : 0;
    const bool flexible = (weak.matrix2 & VKATTN_MATRIX2_FLEXIBLE) && a.matrix2MaxDimension && b.matrix2MaxDimension;
    for (int d = 0; d < 3; ++d) weak.matrix2Granularity[d] = flexible ? std::lcm(a.matrix2Granularity[d], b.matrix2Granularity[d]) : 0;
    weak.matrix2MaxDimension = flexible ? std::min(a.matrix2MaxDimension, b.matrix2MaxDimension) : 0;
}

} // namespace

Caps weakerCaps(const Caps &a, const Caps &b) {
    Caps weak = a;
    weak.deviceType = b.deviceType;
    weak.maxStorageBufferRange = std::min(a.maxStorageBufferRange, b.maxStorageBufferRange);
    weak.minStorageBufferOffsetAlignment = std::max(a.minStorageBufferOffsetAlignment, b.minStorageBufferOffsetAlignment);
    weak.maxStorageBuffersPerStage = std::min(a.maxStorageBuffersPerStage, b.maxStorageBuffersPerStage);
    weak.maxPushConstantsBytes = std::min(a.maxPushConstantsBytes, b.maxPushConstantsBytes);
    weak.maxWorkgroupInvocations = std::min(a.maxWorkgroupInvocations, b.maxWorkgroupInvocations);
    for (int d = 0; d < 3; ++d) {
        weak.maxWorkgroupSize[d] = std::min(a.maxWorkgroupSize[d], b.maxWorkgroupSize[d]);
        weak.maxWorkgroupCount[d] = std::min(a.maxWorkgroupCount[d], b.maxWorkgroupCount[d]);
    }
    weak.maxSharedMemoryBytes = std::min(a.maxSharedMemoryBytes, b.maxSharedMemoryBytes);
    weak.pushDescriptors = std::min(a.pushDescriptors, b.pushDescriptors);
    weak.subgroupSize = std::min(a.subgroupSize, b.subgroupSize);
    weak.subgroupShuffle = std::min(a.subgroupShuffle, b.subgroupShuffle);
    weak.subgroupClustered = std::min(a.subgroupClustered, b.subgroupClustered);
    weak.fullSubgroups = std::min(a.fullSubgroups, b.fullSubgroups);
    weak.floatControlsNan = std::min(a.floatControlsNan, b.floatControlsNan);
    weak.minSubgroupSize = std::max(a.minSubgroupSize, b.minSubgroupSize);
    weak.maxSubgroupSize = std::min(a.maxSubgroupSize, b.maxSubgroupSize);
    weak.maxWorkgroupSubgroups = std::min(a.maxWorkgroupSubgroups, b.maxWorkgroupSubgroups);
    if (!a.minSubgroupSize || !b.minSubgroupSize || weak.minSubgroupSize > weak.maxSubgroupSize)
        weak.minSubgroupSize = weak.maxSubgroupSize = weak.maxWorkgroupSubgroups = 0;
    weakerMatrixUnits(a, b, weak);
    weak.wrongKernels = a.wrongKernels | b.wrongKernels;
    weak.slowKernels = a.slowKernels | b.slowKernels;
    weak.exactHalves = std::min(a.exactHalves, b.exactHalves);
    return weak;
}

} // namespace vkattn
