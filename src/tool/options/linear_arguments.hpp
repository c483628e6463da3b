// The command line of `vkattn linear`. No file is touched here.
#pragma once

#include "tool/options/compute_arguments.hpp"

#include <vkattn/linear.h>
#include <vkattn/traits.hpp>

#include <vector>

namespace vkattn::tool {

// What `explain linear` takes in place of files.
struct LinearAssumptions {
    // Of q, k and v, 2 to 4 dimensions; all empty where files are given.
    std::vector<uint32_t> shapes[3];
    vkattn_dtype dtype = VKATTN_F32; // of these
    uint32_t randomFeatures = 0;     // 0: no omega
    // What takes part beside what the rule asks for.
    bool keyDecay = false; // the decay has a number for each key dim
    bool stateIn = false, stateOut = false;
    bool gradients = false; // of every input
    [[nodiscard]] bool isMade() const { return !shapes[0].empty(); }
};

struct LinearArguments : ComputeArguments {
    vkattn_linear_rule rule = VKATTN_LINEAR_FEATURES;
    vkattn_feature_map features = VKATTN_FEATURES_ELU1;
    vkattn_linear_form form = VKATTN_LINEAR_FORM_AUTO;
    vkattn_head_mapping mapping = VKATTN_HEADS_DIVIDED;
    bool causal = false;
    std::optional<float> scale;
    std::optional<vkattn_dtype> roundTo;  // of q, k and v; otherwise as their files
    std::optional<vkattn_dtype> outDtype; // otherwise as q's file; of gradients as the file whose gradient it is
    std::optional<float> lossScale;       // of gradients
    bool explains = false;                // nothing is computed or written
    LinearAssumptions assumed;

    [[nodiscard]] bool hasGradients() const { return !files[VKATTN_D_OUT].empty() || assumed.gradients; }
    // Returns whether the forward pass is computed.
    [[nodiscard]] bool hasResults() const { return !files[VKATTN_OUT].empty() || !files[VKATTN_STATE_OUT].empty(); }
};

class LinearParser {
  public:
    // explains: `explain linear`
    explicit LinearParser(bool explains) { typed_.explains = explains; }
    void addOptions(CLI::App &app);
    // Throws Failure where a value is missing, or where options exclude each other.
    [[nodiscard]] LinearArguments interpret(const CLI::App &app) const;

  private:
    void addShapes(CLI::App &app);
    void checkShapes(const CLI::App &app) const;

    LinearArguments typed_; // filled as the command line is parsed
};

} // namespace vkattn::tool
