// Checks of layers whole. The seed alone draws everything: sizes, types, strides, options and data.
#include "conform/checks/kinds.hpp"
#include "conform/layers/layer_case.hpp"

namespace vkattn::conform {
namespace {

// Each step with the oracle on the inputs that it had, the whole with its formulas, and the list with
// its steps.
Finding checkDrawn(DeviceUnderTest &device, const Check &check, LayerCase &layer) {
    Finder find(device, check);
    if (!find.open(check.limits)) return find.finding;
    OperationList list = find.runtime->list();
    DeviceTensor y;
    std::string why;
    const auto ran = [&](const char *what, vkattn_result status) {
        return find.require(status == VKATTN_OK, std::string(what) + ": " + why + "; " + layer.text());
    };
    if (!ran("add", layer.addTo(*find.runtime, list, y, &why))) return find.finding;
    std::vector<StepCheck> steps;
    if (!ran("verify", list.verify(steps, nullptr, &why))) return find.finding;
    Errors &errors = find.finding.errors.emplace();
    for (const StepCheck &step : steps) {
        errors.merge(errorsOf(step.report));
        if (!find.require(step.report.passed != 0, "step " + std::to_string(&step - steps.data()) + " (" + step.operation + ") is off by " +
                                                       std::to_string(step.report.worstError) + ", bound " +
                                                       std::to_string(step.report.worstBound) + "; " + layer.text()))
            return find.finding;
    }
    std::vector<float> stepped, replayed;
    if (!ran("download", valuesOf(y, stepped, &why))) return find.finding;
    const std::string wrong = judge(layer, stepped);
    if (!find.require(wrong.empty(), wrong + "; " + layer.text())) return find.finding;
    const RunResult result = list.run(); // a cache takes the same tokens at the same place
    why = result.message;
    if (!ran("run", result.status)) return find.finding;
    find.finding.deviceMilliseconds = result.milliseconds;
    if (!ran("download", valuesOf(y, replayed, &why))) return find.finding;
    (void)find.require(replayed == stepped, "the list left other bits than its steps one by one; " + layer.text());
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
