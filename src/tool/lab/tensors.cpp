#include "tool/lab/tensors.hpp"

#include "program/failure.hpp"

#include <algorithm>
#include <utility>

namespace vkattn::tool::lab {

using program::ExitStatus;
using program::Failure;

void Tensors::check(vkattn_result result, const std::string &why) const {
    if (result == VKATTN_OK) return;
    const bool ours = result == VKATTN_ERROR_INVALID_ARGUMENT || result == VKATTN_ERROR_OUT_OF_HOST_MEMORY;
    if (ours || !runtime_.device()) throw Failure(why);
    throw Failure(runtime_.device()->name + ": " + why + ": --device cpu computes without it", ExitStatus::deviceUnusable);
}

DeviceTensor Tensors::of(const vkattn_layout &layout) const {
    std::string why;
    DeviceTensor tensor = runtime_.allocate(layout, &why);
    if (!tensor) check(runtime_.device() ? VKATTN_ERROR_OUT_OF_DEVICE_MEMORY : VKATTN_ERROR_OUT_OF_HOST_MEMORY, why);
    return tensor;
}

DeviceTensor Tensors::of(const vkattn_layout &layout, const Numbers &numbers) const {
    DeviceTensor tensor = of(layout);
    upload(tensor, numbers);
    return tensor;
}

DeviceTensor Tensors::keptOf(const LayerOf &layer) const {
    std::string why;
    DeviceTensor tensor = runtime_.allocateKept(layer, &why);
    if (!tensor) check(runtime_.device() ? VKATTN_ERROR_OUT_OF_DEVICE_MEMORY : VKATTN_ERROR_OUT_OF_HOST_MEMORY, why);
    return tensor;
}

void Tensors::upload(const DeviceTensor &tensor, const Numbers &numbers) const {
    std::string why;
    check(tensor.upload(numbers.data(), numbers.size() * sizeof(float), &why), why);
}

Numbers Tensors::download(const DeviceTensor &tensor) const {
    const uint32_t *const extent = tensor.layout().extent;
    Numbers numbers(size_t{extent[0]} * extent[1] * extent[2] * extent[3]);
    std::string why;
    check(tensor.download(numbers.data(), numbers.size() * sizeof(float), &why), why);
    return numbers;
}

void Tensors::run(OperationList &list) const {
    const RunResult result = list.run();
    check(result.status, result.message);
}

double Tensors::verify(OperationList &list) const {
    std::string why;
    std::vector<StepCheck> checks;
    check(list.verify(checks, nullptr, &why), why);
    double worst = 0;
    for (const StepCheck &each : checks)
        if (each.report.worstBound > 0) worst = std::max(worst, each.report.worstError / each.report.worstBound);
    return worst;
}

DeviceTensor transposed(const DeviceTensor &matrix) {
    vkattn_layout layout = matrix.layout();
    std::swap(layout.extent[2], layout.extent[3]);
    std::swap(layout.strideElems[2], layout.strideElems[3]);
    return matrix.view(layout);
}

} // namespace vkattn::tool::lab
