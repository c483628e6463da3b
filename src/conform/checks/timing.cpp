#include "conform/checks/selection.hpp"

namespace vkattn::conform {
namespace {

struct Shape {
    const char *name;
    uint32_t heads, kvHeads, queryTokens, keyTokens, dim;
    vkattn_dtype type;
};

Timing timeOne(DeviceUnderTest &device, vkattn_kernel kernel, const Shape &shape, uint32_t repeats) {
    Timing timing{vkattnKernelName(kernel), shape.name, 0, 0, false, {}};
    std::string why;
    Runtime *runtime = device.runtime(testLayouts()[0], Limits::full, why);
    if (!runtime) return timing.unsupported = why, timing;
    Case c;
    c.kernel = kernel, c.batch = 1, c.heads = shape.heads, c.kvHeads = shape.kvHeads, c.queryTokens = shape.queryTokens,
    c.keyTokens = shape.keyTokens;
    c.headDim = c.valueDim = shape.dim, c.q = c.k = c.v = c.out = shape.type, c.poison = false;
    Random random(1);
    const auto in = makeCaseData(c, random);
    RunOptions options;
    options.repeat = repeats;
    options.warmUp = true;
    const RunResult result = runtime->run(in->problem, in->operands, options);
    if (result.status != VKATTN_OK) return timing.unsupported = result.message, timing;
    timing.milliseconds = result.milliseconds;
    timing.repeats = repeats;
    timing.deviceTimestamps = result.deviceTimestamps;
    return timing;
}

} // namespace

std::vector<Timing> timeKernels(DeviceUnderTest &device, Extent extent) {
    static constexpr Shape shapes[] = {
        {"prefill: 8 heads, 256 x 256 tokens, dim 64, f32", 8, 8, 256, 256, 64, VKATTN_F32},
        {"prefill: 8 heads, 256 x 256 tokens, dim 64, f16", 8, 8, 256, 256, 64, VKATTN_F16},
        {"decode: 32 heads on 8, 1 x 2048 tokens, dim 64, f16", 32, 8, 1, 2048, 64, VKATTN_F16},
    };
    std::vector<Timing> timings;
    const DeviceInfo *info = device.device();
    for (const Shape &shape : shapes)
        for (const vkattn_kernel kernel : KernelList()) {
            if (!info || !info->support(kernel)->available) continue;
            // Kernels on matrix units that a device of type CPU emulates take it seconds to
            // compile.
            if (info->type == DeviceType::cpu && (vkattnKernelTraits(kernel) & VKATTN_KERNEL_TRAIT_MATRIX_UNITS)) continue;
            timings.push_back(timeOne(device, kernel, shape, extent == Extent::quick ? 3 : 9));
        }
    return timings;
}

} // namespace vkattn::conform
