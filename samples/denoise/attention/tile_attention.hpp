// Pixels attend to the pixels around them. Tiles are the batch entries of one attention problem
// (see window_filter.hpp), feature scales are its heads, feature vectors are queries and keys, light is the values,
// and a mask hides what lies outside the picture.
//
// The weights are those of non-local means (Buades, Coll and Morel 2005), over features as in
// Rousselle, Manzi and Zwicker (2013):
//
//     w_ij = softmax_j( - sum over groups g of  precision_ig |f_ig - f_jg|^2 )
//
// which is attention (Vaswani et al. 2017), since |f_i|^2 is the same for every key of a query and
// cancels in the softmax:
//
//     q_i = ( 2 precision_ig f_ig , - precision_ig )      k_j = ( f_jg , |f_jg|^2 )      scale 1
#pragma once

#include "attention/window_filter.hpp"

#include <vkattn/runtime.hpp>
#include <vkattn/vkattn.hpp>

#include <functional>

namespace denoise {

struct AttentionReport {
    double gigaflops = 0;    // work done: 2 (headDim + valueDim) for each query, key and head
    double milliseconds = 0; // on the device, or on the CPU that stood in for it
    uint64_t runs = 0;
    uint64_t rowsChecked = 0; // by the oracle, in double precision
    bool passed = true;
    double worstError = 0, worstBound = 0; // where their ratio is largest
    std::string device, driver, kernel, fallbackReason;
};

class TileAttention : public WindowFilter {
  public:
    TileAttention(vkattn::Runtime &runtime, unsigned threads, uint64_t seed) : runtime_(runtime), threads_(threads), seed_(seed) {}

    [[nodiscard]] bool run(const std::vector<FilterHead> &heads, const std::vector<int> &groupSizes, const Image &wanted, TileShape shape,
                           std::vector<Image> &out) override;

    // The number that `progress` counts towards.
    void expectRuns(int count) { expectedRuns_ = count; }
    std::function<void(double share)> progress; // optional
    bool verifies = true;                       // rows of each run, by the oracle

    [[nodiscard]] const AttentionReport &report() const { return report_; }

  private:
    [[nodiscard]] bool compute(const vkattn_problem &problem, const std::vector<vkattn_operand_memory> &operands);
    [[nodiscard]] bool verify(const vkattn_problem &problem, const std::vector<vkattn_operand_memory> &operands);

    vkattn::Runtime &runtime_;
    unsigned threads_;
    uint64_t seed_;
    int expectedRuns_ = 1, finishedRuns_ = 0;
    AttentionReport report_;
};

} // namespace denoise
