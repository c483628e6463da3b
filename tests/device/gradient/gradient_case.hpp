// A backward pass with its data: a case of attention, what the forward pass would have stored, and
// gradients of the outputs. Gaps of outputs are canaries, and what no pair may read is NaN.
#pragma once

#include "support/case.hpp"

namespace vkattn::test {

// What a gradient has beside the forward pass.
struct GradientOptions {
    bool dLse = false, dWeights = false, weightsDropped = false, nonfinite = false;
    bool dQ = true, dK = true, dV = true, dBias = false, arrays = false, dScale = false;
    bool drawLayouts = false; // and types; otherwise packed, of the types of the forward pass
    bool dOutAsQ = false;     // dOut is of the type of q
    double dropout = 0;
    float lossScale = 0;
    vkattn_gradient_kernel kernel = VKATTN_GRADIENT_AUTO;
};
// All of them, of what the case has.
[[nodiscard]] GradientOptions drawGradientOptions(Random &random);
// Returns the case with what a backward pass needs, and without what it refuses.
[[nodiscard]] Case asForward(Case c, vkattn_gradient_kernel kernel = VKATTN_GRADIENT_AUTO);

struct GradientCase {
    GradientCase(const Case &forward, const GradientOptions &options, Random &random);
    GradientCase(const GradientCase &) = delete;
    GradientCase &operator=(const GradientCase &) = delete;

    GradientOptions options;
    std::unique_ptr<CaseData> forward;
    vkattn_attention_gradient description{};
    struct Given {
        vkattn_role role;
        HostTensor tensor;
    };
    std::vector<Given> tensors; // arrays too, as tensors of one row
    [[nodiscard]] vkattn_operation operation() const;
    [[nodiscard]] std::vector<vkattn_operand_memory> operands();
    [[nodiscard]] HostTensor *find(vkattn_role role);
    [[nodiscard]] bool writes(vkattn_role role) const;
    // Computes out and the statistics anew, after a change of the inputs.
    void computeForward();
    // 1 for each key that a query sees, by the oracle's rule.
    [[nodiscard]] std::vector<unsigned char> visibleKeys(uint32_t sequence, uint32_t head, uint32_t query) const;
    // Empty: no byte changed but those of elements that are written.
    [[nodiscard]] std::string damage(const std::vector<Given> &before) const;
    [[nodiscard]] std::string text() const;

  private:
    void poisonHidden();
};

// Runs the gradient, which must not fall back, and compares it with the oracle. Returns what is wrong.
[[nodiscard]] std::string runAndVerify(Runtime &runtime, GradientCase &c);

} // namespace vkattn::test
