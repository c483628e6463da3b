// Pixels attend to the pixels around them. A picture is cut into square tiles of queries, and each
// tile looks at a square window of keys around it. Tiles are the batch entries of one attention
// problem, feature scales are its heads, feature vectors are queries and keys, light is the values,
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

#include "picture/image.hpp"

#include <vkattn/runtime.hpp>
#include <vkattn/vkattn.hpp>

#include <functional>
#include <string>
#include <vector>

namespace denoise {

// One head: the features that it compares, and the values that it averages. Queries are pixels;
// keys are pixels or blocks of them.
struct AttentionHead {
    // 2: keys are blocks of 2x2 pixels, and the window reaches twice as far for the same work
    int step = 1;
    // 1 / (2 sigma^2): the distance in pixels is a group of its own, the same for all queries
    float pixelPrecision = 0;
    Image queryFeatures; // all groups, one after another
    Image precision;     // one channel a group
    // As queryFeatures, `step` times fewer per axis; empty: the queries' own.
    Image keyFeatures;
    Image values;  // at the resolution of the keys, and so is
    Image visible; // 1 channel: keys at 0 are hidden; empty: none
};

struct TileShape {
    int query = 8;   // pixels along the side of a tile
    int window = 24; // keys along the side of a window
};

struct AttentionReport {
    double gigaflops = 0;    // work done: 2 (headDim + valueDim) for each query, key and head
    double milliseconds = 0; // on the device, or on the CPU that stood in for it
    uint64_t runs = 0;
    uint64_t rowsChecked = 0; // by the oracle, in double precision
    bool passed = true;
    double worstError = 0, worstBound = 0; // where their ratio is largest
    std::string device, driver, kernel, fallbackReason;
};

class TileAttention {
  public:
    TileAttention(vkattn::Runtime &runtime, unsigned threads, uint64_t seed) : runtime_(runtime), threads_(threads), seed_(seed) {}

    // Runs attention over the picture. All heads have as many feature and value channels;
    // groupSizes says how the features are grouped. `wanted` has one channel: tiles in which it is
    // 0 everywhere are left out and come back as 0. `out` receives an image per head. Returns false
    // on failure; error() says why.
    [[nodiscard]] bool run(const std::vector<AttentionHead> &heads, const std::vector<int> &groupSizes, const Image &wanted,
                           TileShape shape, std::vector<Image> &out);

    // The number that `progress` counts towards.
    void expectRuns(int count) { expectedRuns_ = count; }
    std::function<void(double share)> progress; // optional

    [[nodiscard]] const AttentionReport &report() const { return report_; }
    [[nodiscard]] const std::string &error() const { return error_; }

  private:
    [[nodiscard]] bool compute(const vkattn_problem &problem, const std::vector<vkattn_operand_memory> &operands);
    [[nodiscard]] bool verify(const vkattn_problem &problem, const std::vector<vkattn_operand_memory> &operands);

    vkattn::Runtime &runtime_;
    unsigned threads_;
    uint64_t seed_;
    int expectedRuns_ = 1, finishedRuns_ = 0;
    AttentionReport report_;
    std::string error_;
};

} // namespace denoise
