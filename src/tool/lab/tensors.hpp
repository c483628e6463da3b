// Tensors and lists of a Runtime whose failures end the command.
#pragma once

#include "tool/lab/computation.hpp"

#include <vkattn/list.hpp>

namespace vkattn::tool::lab {

class Tensors {
  public:
    explicit Tensors(Runtime &runtime) : runtime_(runtime) {}

    [[nodiscard]] DeviceTensor of(const vkattn_layout &layout) const;
    [[nodiscard]] DeviceTensor of(const vkattn_layout &layout, const Numbers &numbers) const;
    [[nodiscard]] DeviceTensor keptOf(const LayerOf &layer) const;
    void upload(const DeviceTensor &tensor, const Numbers &numbers) const;
    [[nodiscard]] Numbers download(const DeviceTensor &tensor) const;
    template <class Operation> void add(OperationList &list, const Operation &operation) const {
        std::string why;
        check(list.add(operation, &why), why);
    }
    void run(OperationList &list) const;
    // The largest error of all steps beside the oracle's double, as a share of what is allowed.
    [[nodiscard]] double verify(OperationList &list) const;

  private:
    void check(vkattn_result result, const std::string &why) const;

    Runtime &runtime_;
};

// The same memory with rows for columns.
[[nodiscard]] DeviceTensor transposed(const DeviceTensor &matrix);

} // namespace vkattn::tool::lab
