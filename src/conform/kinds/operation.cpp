// Checks of the operations beside attention. The seed alone draws everything: extents, types,
// strides, options and data.
#include "conform/kinds/kinds.hpp"

#include "conform/cases/operation_case.hpp"

#include <cstring>

namespace vkattn::conform {
namespace {

Finding checkOperation(DeviceUnderTest &device, const Check &check, vkattn_operation_kind kind) {
    Finder find(device, check);
    if (!find.open(check.limits)) return find.finding;
    Random random(check.seed);
    OperationCase before = drawOperation(random, kind), after = before;
    const auto compute = [&](OperationCase &c) {
        const RunResult result = find.runtime->run(c.operation(), c.operands());
        find.finding.deviceMilliseconds += result.milliseconds;
        if (result.status == VKATTN_ERROR_UNSUPPORTED && isForRoom(check.limits, result.message)) return find.unsupported(result.message);
        // A routine that the device cannot run; AUTO always finds one.
        if (result.status == VKATTN_ERROR_UNSUPPORTED && kind == VKATTN_PROJECTION && c.projection.kernel != VKATTN_PROJECTION_AUTO)
            return find.unsupported(result.message);
        return find.require(result.status == VKATTN_OK, "run: " + result.message) &&
               find.require(result.fallbackReason.empty(), "fell back to the CPU: " + result.fallbackReason);
    };
    if (!compute(after)) return find.finding;
    const OperationOutcome outcome = judge(after, before);
    find.finding.errors = errorsOf(outcome.report);
    if (!find.require(outcome.wrong.empty(), outcome.wrong + "; " + before.text())) return find.finding;
    OperationCase again = before;
    if (!compute(again)) return find.finding;
    for (const vkattn_role role : after.outputs())
        (void)find.require(std::memcmp(after.output(role).data(), again.output(role).data(), after.output(role).bytes()) == 0,
                           "run again gave other bits than the first; " + before.text());
    return find.finding;
}

} // namespace

Finding checkProjection(DeviceUnderTest &device, const Check &check) {
    return checkOperation(device, check, VKATTN_PROJECTION);
}
Finding checkNorm(DeviceUnderTest &device, const Check &check) {
    return checkOperation(device, check, VKATTN_NORM);
}
Finding checkRotary(DeviceUnderTest &device, const Check &check) {
    return checkOperation(device, check, VKATTN_ROTARY);
}
Finding checkAppend(DeviceUnderTest &device, const Check &check) {
    return checkOperation(device, check, VKATTN_APPEND);
}
Finding checkAdvance(DeviceUnderTest &device, const Check &check) {
    return checkOperation(device, check, VKATTN_ADVANCE);
}
Finding checkNormGradient(DeviceUnderTest &device, const Check &check) {
    return checkOperation(device, check, VKATTN_NORM_GRADIENT);
}
Finding checkMean(DeviceUnderTest &device, const Check &check) {
    return checkOperation(device, check, VKATTN_MEAN);
}
Finding checkMerge(DeviceUnderTest &device, const Check &check) {
    return checkOperation(device, check, VKATTN_MERGE);
}
Finding checkHadamard(DeviceUnderTest &device, const Check &check) {
    return checkOperation(device, check, VKATTN_HADAMARD);
}
Finding checkKeep(DeviceUnderTest &device, const Check &check) {
    return checkOperation(device, check, VKATTN_KEEP);
}
Finding checkDrop(DeviceUnderTest &device, const Check &check) {
    return checkOperation(device, check, VKATTN_DROP);
}

} // namespace vkattn::conform
