// Checks of layers whole. The seed alone draws everything: sizes, types, strides, options and data.
#include "conform/kinds/kinds.hpp"
#include "conform/layers/layer_gradient_case.hpp"

namespace vkattn::conform {
namespace {

// compute(runtime) is computeAndJudge of what was drawn.
template <class Compute> Finding checkDrawn(DeviceUnderTest &device, const Check &check, const Compute &compute) {
    Finder find(device, check);
    if (!find.open(check.limits)) return find.finding;
    const LayerOutcome outcome = compute(*find.runtime);
    Errors &errors = find.finding.errors.emplace();
    for (const StepCheck &step : outcome.steps) errors.merge(errorsOf(step.report));
    find.finding.deviceMilliseconds = outcome.result.milliseconds;
    (void)find.require(outcome.wrong.empty(), outcome.wrong);
    return find.finding;
}

} // namespace

Finding checkLayer(DeviceUnderTest &device, const Check &check) {
    Random random(check.seed);
    const auto drawn = drawMultiHead(random);
    return checkDrawn(device, check, [&](Runtime &runtime) { return computeAndJudge(runtime, *drawn); });
}
Finding checkLatentLayer(DeviceUnderTest &device, const Check &check) {
    Random random(check.seed);
    const auto drawn = drawLatent(random);
    return checkDrawn(device, check, [&](Runtime &runtime) { return computeAndJudge(runtime, *drawn); });
}
Finding checkLayerGradient(DeviceUnderTest &device, const Check &check) {
    Random random(check.seed);
    const auto drawn = drawLayerGradient(random);
    return checkDrawn(device, check, [&](Runtime &runtime) { return computeAndJudge(runtime, *drawn, random); });
}

} // namespace vkattn::conform
