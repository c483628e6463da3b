// The number of slices that the description of an operation asks for.
#pragma once

#include "runtime/layouts.hpp"
#include "vkattn/linear.h"

#include <algorithm>

namespace vkattn {

// Returns the field of an operation that has slices; NULL where there is none.
[[nodiscard]] inline const uint32_t *sliceCountOf(const vkattn_operation &operation) {
    if (const vkattn_problem *const attention = problemOf(operation)) return &attention->sliceCount;
    return operation.kind == VKATTN_LINEAR_ATTENTION ? &operation.of.linearAttention->sliceCount : nullptr;
}
[[nodiscard]] inline uint32_t slicesOf(const vkattn_operation &operation) {
    const uint32_t *const count = sliceCountOf(operation);
    return count ? std::max(*count, 1u) : 1;
}

// An operation with another number of slices, and the copies of descriptions that it points to.
class SlicedOperation {
  public:
    // The operation has slices. What is returned is valid until the next call.
    [[nodiscard]] vkattn_operation of(const vkattn_operation &operation, uint32_t slices) {
        if (operation.kind == VKATTN_LINEAR_ATTENTION) {
            linear_ = *operation.of.linearAttention;
            linear_.sliceCount = slices;
            return vkattn::operation(linear_);
        }
        attention_ = *problemOf(operation);
        attention_.sliceCount = slices;
        if (operation.kind == VKATTN_ATTENTION) return vkattn::operation(attention_);
        if (operation.kind == VKATTN_ATTENTION_GRADIENT) {
            gradient_ = *operation.of.attentionGradient;
            gradient_.forward = &attention_;
            return vkattn::operation(gradient_);
        }
        statistics_ = *operation.of.attentionStatistics;
        statistics_.attention = &attention_;
        return vkattn::operation(statistics_);
    }

  private:
    vkattn_problem attention_{};
    vkattn_attention_gradient gradient_{};
    vkattn_attention_statistics statistics_{};
    vkattn_linear_attention linear_{};
};

} // namespace vkattn
