// Checks of layers whole. The seed alone draws everything: sizes, types, strides, options and data.
#include "conform/checks/kinds.hpp"
#include "conform/layers/layer_case.hpp"

namespace vkattn::conform {
namespace {

Finding checkDrawn(DeviceUnderTest &device, const Check &check, LayerCase &layer) {
    Finder find(device, check);
    if (!find.open(check.limits)) return find.finding;
    const LayerOutcome outcome = computeAndJudge(*find.runtime, layer);
    Errors &errors = find.finding.errors.emplace();
    for (const StepCheck &step : outcome.steps) errors.merge(errorsOf(step.report));
    find.finding.deviceMilliseconds = outcome.result.milliseconds;
    (void)find.require(outcome.wrong.empty(), outcome.wrong);
    return find.finding;
}

} // namespace

Finding checkLayer(DeviceUnderTest &device, const Check &check) {
    Random random(check.seed);
    return checkDrawn(device, check, *drawMultiHead(random));
}
Finding checkLatentLayer(DeviceUnderTest &device, const Check &check) {
    Random random(check.seed);
    return checkDrawn(device, check, *drawLatent(random));
}

} // namespace vkattn::conform
