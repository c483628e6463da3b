// The command line of `vkattn linear`. No file is touched here.
#pragma once

#include "tool/options/compute_arguments.hpp"

#include <vkattn/linear.h>

namespace vkattn::tool {

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

    [[nodiscard]] bool hasGradients() const { return !files[VKATTN_D_OUT].empty(); }
    // Returns whether the forward pass is computed.
    [[nodiscard]] bool hasResults() const { return !files[VKATTN_OUT].empty() || !files[VKATTN_STATE_OUT].empty(); }
};

class LinearParser {
  public:
    void addOptions(CLI::App &app);
    // Throws Failure where a value is missing, or where options exclude each other.
    [[nodiscard]] LinearArguments interpret(const CLI::App &app) const;

  private:
    LinearArguments typed_; // filled as the command line is parsed
};

} // namespace vkattn::tool
