// --q-global, --k-global and --v-global: Longformer's second projections (Beltagy et al. 2020), which serve the rows of global tokens.
// These rows see all keys, so that they are an attention of their own: few queries, gathered, with a mask for what else hides keys from
// them.
#pragma once

#include "tool/arrays/job.hpp"
#include "tool/device.hpp"
#include "tool/execution.hpp"

#include <optional>
#include <vector>

namespace vkattn::tool {

class GlobalRows {
  public:
    // Opens the files, if the arguments name them, and checks them against those of the job. Throws Failure.
    GlobalRows(const RunArguments &arguments, const Job &job);
    [[nodiscard]] bool wanted() const { return !inputs_.empty(); }

    // Computes the rows of global tokens, puts them into the arrays' out and lse, and adds the time to `result`.
    // With --verify the rows are verified before. Throws Failure.
    [[nodiscard]] std::optional<Verification> compute(const OpenedRuntime &opened, const HostArrays &arrays, RunResult &result);

  private:
    void findRows(const HostArrays &arrays);
    void addPairs(const HostArrays &arrays, vkattn_problem &problem, HostArrays &own) const;

    const RunArguments &arguments_;
    const Job &job_;
    std::vector<Input> inputs_;               // q, k, v
    std::vector<std::vector<uint32_t>> rows_; // of each batch entry: its queries that are global tokens
    uint32_t most_ = 0;                       // of an entry
};

} // namespace vkattn::tool
