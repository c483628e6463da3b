// Checks of linear attention. The seed alone draws everything: a rule or a feature map, heads, lengths, states, any
// layout (conform/linear/linear_case.hpp); and the gradients of another such case.
#include "conform/kinds/kinds.hpp"
#include "conform/linear/linear_gradient_case.hpp"

namespace vkattn::conform {
namespace {

// Nearly each case has pipelines of its own.
constexpr int problemsOfCheck = 3;
constexpr uint32_t storageBuffers = 11; // what linear attention needs a stage, docs/support.md

bool mayRefuse(Limits limits, const vkattn_caps &device, const std::string &words) {
    return isForRoom(limits, words) || isForBuffers(limits, device, storageBuffers, words);
}

// Returns whether gradients were computed, or may be refused; the finding says what is wrong.
bool checkGradient(Finder &find, const Check &check, Random &random) {
    LinearGradientCase before = drawLinearGradient(random), after = before, again = before;
    const RunResult result = find.runtime->run(after.operation(), after.operands());
    find.finding.deviceMilliseconds += result.milliseconds;
    if (result.status == VKATTN_ERROR_UNSUPPORTED && mayRefuse(check.limits, find.runtime->device()->caps, result.message)) return true;
    if (!find.require(result.status == VKATTN_OK, "run: " + result.message + "; " + before.text()) ||
        !find.require(result.fallbackReason.empty(), "fell back to the CPU: " + result.fallbackReason))
        return false;
    const std::string wrong = after.wrong(before);
    if (!find.require(wrong.empty(), wrong + "; " + before.text())) return false;
    const RunResult second = find.runtime->run(again.operation(), again.operands());
    return find.require(second.status == VKATTN_OK, "run again: " + second.message + "; " + before.text()) &&
           find.require(after.sameOutputs(again), "a second run changes bits; " + before.text());
}

} // namespace

Finding checkLinear(DeviceUnderTest &device, const Check &check) {
    Finder find(device, check);
    if (!find.open(check.limits)) return find.finding;
    Random random(check.seed);
    std::string refusal;
    int computed = 0;
    for (int n = 0; n < problemsOfCheck; ++n) {
        LinearCase before = drawLinear(random);
        LinearCase after = before;
        const auto run = [&](LinearCase &c) {
            const RunResult result = find.runtime->run(c.operation(), c.operands());
            find.finding.deviceMilliseconds += result.milliseconds;
            return result;
        };
        const RunResult result = run(after);
        if (result.status == VKATTN_ERROR_UNSUPPORTED && mayRefuse(check.limits, find.runtime->device()->caps, result.message)) {
            refusal = result.message;
            continue;
        }
        if (!find.require(result.status == VKATTN_OK, "run: " + result.message + "; " + before.text()) ||
            !find.require(result.fallbackReason.empty(), "fell back to the CPU: " + result.fallbackReason))
            return find.finding;
        const std::string wrong = after.wrong(before);
        if (!find.require(wrong.empty(), wrong + "; " + before.text())) return find.finding;
        ++computed;
        LinearCase sliced = before;
        sliced.linear.sliceCount = between(random, 2, 9);
        const RunResult inSlices = run(sliced);
        if (!find.require(inSlices.status == VKATTN_OK, "run in slices: " + inSlices.message + "; " + before.text()) ||
            !find.require(after.sameOutputs(sliced), "slices change bits; " + before.text()))
            return find.finding;
    }
    if (!checkGradient(find, check, random)) return find.finding;
    if (computed == 0) (void)find.unsupported(refusal);
    return find.finding;
}

} // namespace vkattn::conform
