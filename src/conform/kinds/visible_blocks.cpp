// Checks of lists of visible blocks. The seed alone draws everything: a case of attention with its options,
// the size of blocks, whose lists they are. Attention that reads the lists must be what it is without them.
#include "conform/kinds/kinds.hpp"
#include "conform/statistics/statistics_case.hpp"
#include "conform/visible_blocks/visible_blocks_case.hpp"

namespace vkattn::conform {
namespace {

constexpr int problemsOfCheck = 6;
constexpr uint32_t storageBuffers = 11; // what the lists need a stage, docs/support.md

bool mayRefuse(Limits limits, const vkattn_caps &device, const std::string &words) {
    return isForRoom(limits, words) || isForBuffers(limits, device, storageBuffers, words);
}

} // namespace

Finding checkVisibleBlocks(DeviceUnderTest &device, const Check &check) {
    Finder find(device, check);
    if (!find.open(check.limits)) return find.finding;
    Random random(check.seed);
    Case c = randomCase(random, 5);
    std::string refusal;
    int computed = 0;
    for (int n = 0; n < problemsOfCheck; ++n) {
        if (n > 0) c = samePipelines(random, c);
        const VisibleBlocksCase before = drawVisibleBlocks(random, c);
        VisibleBlocksCase after = before;
        const RunResult result = find.runtime->run(after.operation(), after.operands());
        find.finding.deviceMilliseconds += result.milliseconds;
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
        if (n > 0) continue; // each kernel of attention is another pipeline
        // The oracle has the attention without lists.
        const RunResult listed = find.runtime->run(after.listed(), after.listedOperands());
        find.finding.deviceMilliseconds += listed.milliseconds;
        if (listed.status == VKATTN_ERROR_UNSUPPORTED) continue; // what attention refuses is for other checks
        if (!find.require(listed.status == VKATTN_OK, "run with the lists: " + listed.message + "; " + before.text())) return find.finding;
        vkattn_verify_report report{};
        const std::string other = verifyAttention(*after.data, listed, report);
        if (!find.require(other.empty(), "with the lists: " + other + "; " + before.text())) return find.finding;
    }
    if (computed == 0) (void)find.unsupported(refusal);
    return find.finding;
}

} // namespace vkattn::conform
