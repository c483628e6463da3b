// What the kinds of checks share.
#pragma once

#include "conform/checks/check.hpp"

namespace vkattn::conform {

// Why the kernel of a check may refuse a problem (docs/support.md), in words of its reasons; empty where it must compute it.
[[nodiscard]] std::vector<std::string> allowedRefusals(const Check &check, const Instance &in, const vkattn_caps &caps);

// Collects what a check finds. Each of the calls is false where the check is over: it failed, or the problem is not supported.
class Finder {
  public:
    Finder(Bench &bench, const Check &check);
    [[nodiscard]] bool open(Room room); // `runtime` is then that of the check's tiles
    [[nodiscard]] bool compute(const vkattn_problem &problem, std::span<const vkattn_operand_memory> operands, Instance &in,
                               const std::string &what);               // runs; nothing is compared
    [[nodiscard]] bool compute(Instance &in, const std::string &what); // the same of the instance's own problem
    [[nodiscard]] bool verify(Instance &in, const std::string &what);  // runs, and compares with the oracle
    [[nodiscard]] bool require(bool holds, const std::string &wrong);
    bool unsupported(const std::string &reason);
    Runtime *runtime = nullptr;
    Outcome outcome;

  private:
    bool accept(const RunResult &result, const Instance &in, const std::string &what);
    Bench &bench_;
    const Check &check_;
};

[[nodiscard]] inline std::unique_ptr<Instance> instanceOf(const Check &check) {
    Random random(check.seed);
    return makeInstance(check.c, random);
}

// Whether two tensors have the same bytes. Tensors that take no part do.
[[nodiscard]] bool sameBytes(const HostTensor &a, const HostTensor &b);
[[nodiscard]] bool sameBytes(const Outputs &a, const Instance &b);
// Of one row's elements, -0 and 0 apart.
[[nodiscard]] bool sameRow(const HostTensor &a, const HostTensor &b, uint32_t batch, uint32_t head, uint32_t row);

[[nodiscard]] Outcome checkMatrix(Bench &bench, const Check &check);
[[nodiscard]] Outcome checkRepeat(Bench &bench, const Check &check);
[[nodiscard]] Outcome checkNeedles(Bench &bench, const Check &check);
[[nodiscard]] Outcome checkAccuracy(Bench &bench, const Check &check);
[[nodiscard]] Outcome checkHidden(Bench &bench, const Check &check);
[[nodiscard]] Outcome checkNonFinite(Bench &bench, const Check &check);
[[nodiscard]] Outcome checkSplit(Bench &bench, const Check &check);

} // namespace vkattn::conform
