// A compute shader as a host of lists has one (shaders/scale_add.comp).
#pragma once

#include "vkattn/list.hpp"

#include <array>

namespace vkattn::test {

// y = factor * x + y, of two dense tensors of as many numbers. The step points into this object.
class ScaleAdd {
  public:
    ScaleAdd(const DeviceTensor &x, const DeviceTensor &y, float factor);
    ScaleAdd(const ScaleAdd &) = delete;
    ScaleAdd &operator=(const ScaleAdd &) = delete;
    ShaderStep step;

  private:
    struct Push {
        uint32_t count;
        float factor;
    } push_;
    std::array<ShaderTensor, 2> tensors_;
};

} // namespace vkattn::test
