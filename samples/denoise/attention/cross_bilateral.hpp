// The cross-bilateral filter (Eisemann and Durand 2004; Petschnigg et al. 2004: joint bilateral):
// weights are a Gaussian of the distance times Gaussians of what guide images differ by. Loops on
// the processor, written from that formula and not by way of attention: the figure that attention
// is compared with, over the same windows.
#pragma once

#include "attention/window_filter.hpp"

namespace denoise {

class CrossBilateral : public WindowFilter {
  public:
    explicit CrossBilateral(unsigned threads) : threads_(threads) {}

    [[nodiscard]] bool run(const std::vector<FilterHead> &heads, const std::vector<int> &groupSizes, const Image &wanted, TileShape shape,
                           std::vector<Image> &out) override;

  private:
    unsigned threads_;
};

} // namespace denoise
