// Checks of the backward pass. The seed alone draws everything: a case of attention with its options,
// which gradients are asked for, their types and layouts, the routine, the slices of a second run. The
// forward pass runs on the device too, and what it stores is what the backward pass reads.
#include "conform/kinds/kinds.hpp"

#include "conform/cases/gradient_case.hpp"

#include <algorithm>
#include <cstring>

namespace vkattn::conform {
namespace {

GradientCase drawCase(Random &random) {
    GradientOptions options;
    options.most = 5;
    constexpr vkattn_gradient_kernel routines[] = {VKATTN_GRADIENT_AUTO, VKATTN_GRADIENT_AUTO, VKATTN_GRADIENT_STAGED,
                                                   VKATTN_GRADIENT_TILES, VKATTN_GRADIENT_COOPMAT};
    const vkattn_gradient_kernel routine = routines[between(random, 0, 4)];
    options.matrices = routine == VKATTN_GRADIENT_COOPMAT || (routine == VKATTN_GRADIENT_AUTO && between(random, 0, 2) == 0);
    options.weighingHooks = routine != VKATTN_GRADIENT_COOPMAT;
    GradientCase g = drawGradient(random, options);
    g.gradient.kernel = routine;
    return g;
}

} // namespace

bool isOverBindings(Limits limits, const GradientCase &g) {
    std::vector<vkattn_layout> gradients;
    // Of a head that is cut: an f32 sum and what it lost for each element of dK and dV of other types, and two rows
    // of pairs.
    uint64_t waiting = 0, keys = 0;
    for (const auto &[role, t] : g.tensors) {
        gradients.push_back(t.layout);
        if (role != VKATTN_D_K && role != VKATTN_D_V) continue;
        keys = t.layout.extent[2];
        if (t.layout.dtype != VKATTN_F32) waiting += uint64_t{8} * keys * t.layout.extent[3];
    }
    constexpr uint64_t others = 8192; // facts of rows, sums of lanes, alignment
    return (makeChunks(limits) && waiting != 0 && waiting + 8 * keys + others > bindingBytesOfChunks) ||
           isOverBindings(limits, *g.data, gradients);
}

Finding checkGradient(DeviceUnderTest &device, const Check &check) {
    Finder find(device, check);
    if (!find.open(check.limits)) return find.finding;
    Random random(check.seed);
    GradientCase before = drawCase(random);
    const bool noRoom = isOverBindings(check.limits, before);
    const auto ran = [&](const RunResult &result, const char *what, bool mayRefuse) {
        find.finding.deviceMilliseconds += result.milliseconds;
        const bool refused = result.status == VKATTN_ERROR_UNSUPPORTED;
        if (refused && (mayRefuse || (noRoom && isForRoom(check.limits, result.message)))) return find.unsupported(result.message);
        return find.require(result.status == VKATTN_OK, std::string(what) + ": " + result.message + "; " + before.text()) &&
               find.require(result.fallbackReason.empty(), std::string(what) + " fell back to the CPU: " + result.fallbackReason);
    };
    before.data->collectOperands();
    const RunResult forward = find.runtime->run(before.data->problem, before.data->operands);
    if (!ran(forward, "the forward pass", false)) return find.finding;
    // What both passes round, which the bounds have room for.
    float unit = forward.probabilityUnit, floor = forward.probabilityFloor;
    const auto compute = [&](GradientCase &g) {
        const RunResult result = find.runtime->run(g.operation(), g.operands());
        unit = std::max(unit, result.probabilityUnit);
        floor = std::max(floor, result.probabilityFloor);
        // A routine that the device cannot run; AUTO always finds one.
        return ran(result, "the backward pass", g.gradient.kernel != VKATTN_GRADIENT_AUTO);
    };
    GradientCase after = before, again = before;
    const uint32_t slices = again.data->problem.sliceCount = between(random, 0, 9);
    if (!compute(after)) return find.finding;
    vkattn_verify_report report{};
    const std::string wrong = after.wrong(before, unit, floor, &report);
    find.finding.errors = errorsOf(report);
    if (!find.require(wrong.empty(), wrong + "; " + before.text())) return find.finding;
    if (!compute(again)) return find.finding;
    bool same = after.arrays.size() == again.arrays.size() && after.nonfinite == again.nonfinite;
    for (const auto &[role, t] : after.tensors) same = same && sameBytes(t, again.tensors.at(role));
    for (const auto &[role, array] : after.arrays)
        same = same && std::memcmp(array.data(), again.arrays.at(role).data(), 4 * array.size()) == 0;
    (void)find.require(same,
                       "run again in " + std::to_string(std::max(slices, 1u)) + " slices gave other bits than in one; " + before.text());
    return find.finding;
}

} // namespace vkattn::conform
