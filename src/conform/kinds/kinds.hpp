// What the kinds of checks share.
#pragma once

#include "conform/checks/check.hpp"

namespace vkattn::conform {

struct GradientCase;
struct StatisticsCase;

// Returns whether a refusal in these words is for want of room, where limits make chunks: of linear attention, of lists of
// blocks and of operations, which have rows that are over tight limits by themselves.
[[nodiscard]] bool isForRoom(Limits limits, const std::string &words);
// Returns whether a device, or minimum limits, may have too few storage buffers a stage for what needs so many.
[[nodiscard]] bool isForBuffers(Limits limits, const vkattn_caps &device, uint32_t needed, const std::string &words);
// Returns whether limits that make chunks leave no room for a part that no plan cuts: a row, a head of a
// ragged batch or of a pool of pages, or an array of blocks. `others`: tensors beside those of the attention.
[[nodiscard]] bool isOverBindings(Limits limits, const CaseData &in, std::span<const vkattn_layout> others = {});
[[nodiscard]] bool isOverBindings(Limits limits, const StatisticsCase &s);
[[nodiscard]] bool isOverBindings(Limits limits, const GradientCase &g);
// Why the kernel of a check may refuse a problem (docs/support.md), in words of its reasons; empty
// where it must compute it.
[[nodiscard]] std::vector<std::string> allowedRefusals(const Check &check, const CaseData &in, const vkattn_caps &caps);

// What a report of a comparison says of errors, relativeToV apart.
[[nodiscard]] Errors errorsOf(const vkattn_verify_report &report);

// Collects what a check finds. Each of the calls is false where the check is over: it failed, or
// the problem is not supported.
class Finder {
  public:
    Finder(DeviceUnderTest &device, const Check &check);
    [[nodiscard]] bool open(Limits limits); // `runtime` is then that of the check's tiles
    [[nodiscard]] bool compute(const vkattn_problem &problem, std::span<const vkattn_operand_memory> operands, CaseData &in,
                               const std::string &what); // runs; nothing is compared
    // The same of the case's own problem.
    [[nodiscard]] bool compute(CaseData &in, const std::string &what);
    // Runs, and compares with the oracle.
    [[nodiscard]] bool verify(CaseData &in, const std::string &what);
    [[nodiscard]] bool require(bool holds, const std::string &wrong);
    bool unsupported(const std::string &reason);
    Runtime *runtime = nullptr;
    Finding finding;

  private:
    bool accept(const RunResult &result, const CaseData &in, const std::string &what);
    DeviceUnderTest &device_;
    const Check &check_;
};

[[nodiscard]] inline std::unique_ptr<CaseData> caseDataOf(const Check &check) {
    Random random(check.seed);
    return makeCaseData(check.c, random);
}

// Whether two tensors have the same bytes. Tensors that take no part do.
[[nodiscard]] bool sameBytes(const HostTensor &a, const HostTensor &b);
[[nodiscard]] bool sameBytes(const Outputs &a, const CaseData &b);
// Of one row's elements, -0 and 0 apart.
[[nodiscard]] bool sameRow(const HostTensor &a, const HostTensor &b, uint32_t batch, uint32_t head, uint32_t row);

[[nodiscard]] Finding checkMatrix(DeviceUnderTest &device, const Check &check);
[[nodiscard]] Finding checkRepeat(DeviceUnderTest &device, const Check &check);
[[nodiscard]] Finding checkNeedles(DeviceUnderTest &device, const Check &check);
[[nodiscard]] Finding checkAccuracy(DeviceUnderTest &device, const Check &check);
[[nodiscard]] Finding checkHidden(DeviceUnderTest &device, const Check &check);
[[nodiscard]] Finding checkNonFinite(DeviceUnderTest &device, const Check &check);
[[nodiscard]] Finding checkSplit(DeviceUnderTest &device, const Check &check);
[[nodiscard]] Finding checkProjection(DeviceUnderTest &device, const Check &check);
[[nodiscard]] Finding checkNorm(DeviceUnderTest &device, const Check &check);
[[nodiscard]] Finding checkRotary(DeviceUnderTest &device, const Check &check);
[[nodiscard]] Finding checkAppend(DeviceUnderTest &device, const Check &check);
[[nodiscard]] Finding checkAdvance(DeviceUnderTest &device, const Check &check);
[[nodiscard]] Finding checkDrop(DeviceUnderTest &device, const Check &check);
[[nodiscard]] Finding checkNormGradient(DeviceUnderTest &device, const Check &check);
[[nodiscard]] Finding checkMerge(DeviceUnderTest &device, const Check &check);
[[nodiscard]] Finding checkHadamard(DeviceUnderTest &device, const Check &check);
[[nodiscard]] Finding checkMean(DeviceUnderTest &device, const Check &check);
[[nodiscard]] Finding checkKeep(DeviceUnderTest &device, const Check &check);
[[nodiscard]] Finding checkGradient(DeviceUnderTest &device, const Check &check);
[[nodiscard]] Finding checkStatistics(DeviceUnderTest &device, const Check &check);
[[nodiscard]] Finding checkVisibleBlocks(DeviceUnderTest &device, const Check &check);
[[nodiscard]] Finding checkLinear(DeviceUnderTest &device, const Check &check);
[[nodiscard]] Finding checkLayer(DeviceUnderTest &device, const Check &check);
[[nodiscard]] Finding checkLatentLayer(DeviceUnderTest &device, const Check &check);
[[nodiscard]] Finding checkLayerGradient(DeviceUnderTest &device, const Check &check);

} // namespace vkattn::conform
