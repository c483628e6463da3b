#include "host_shader.hpp"

namespace vkattn::test {
namespace {

constexpr uint32_t spirv[] = {
#include "scale_add.inc"
};

} // namespace

ScaleAdd::ScaleAdd(const DeviceTensor &x, const DeviceTensor &y, float factor)
    : push_{1, factor}, tensors_{{{x, ShaderAccess::read}, {y, ShaderAccess::readWrite}}} {
    for (const uint32_t extent : x.layout().extent) push_.count *= extent;
    step.name = "scale_add";
    step.spirv = spirv;
    step.tensors = tensors_;
    step.pushConstants = &push_;
    step.pushBytes = sizeof push_;
    step.groups[0] = (push_.count + 63) / 64;
    step.cpu = [](span<const ShaderMemory> memory, const void *push) {
        const auto &given = *static_cast<const Push *>(push);
        const auto *from = static_cast<const float *>(memory[0].data);
        auto *to = static_cast<float *>(memory[1].data);
        for (uint32_t i = 0; i < given.count; ++i) to[i] += given.factor * from[i];
    };
    step.absoluteTolerance = 1e-6, step.relativeTolerance = 1e-6; // a multiply-add may be fused
}

} // namespace vkattn::test
