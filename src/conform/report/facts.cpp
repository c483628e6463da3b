#include "conform/report/facts.hpp"

#include "conform/cases/case_text.hpp"

namespace vkattn::conform {

DeviceFacts factsOf(const DeviceInfo &device) {
    const vkattn_caps &caps = device.caps;
    DeviceFacts facts;
    facts.name = device.name;
    facts.driver = device.driver;
    facts.type = deviceTypeName(device.type);
    facts.vendorId = device.vendorId;
    facts.deviceId = device.deviceId;
    facts.apiVersion = device.apiVersion;
    facts.driverVersion = device.driverVersion;
    facts.subgroupSize = device.subgroupSize;
    facts.deviceLocalBytes = device.deviceLocalBytes;
    facts.maxAllocationBytes = device.maxAllocationBytes;
    facts.maxStorageBufferRange = caps.maxStorageBufferRange;
    facts.maxSharedMemoryBytes = caps.maxSharedMemoryBytes;
    facts.maxWorkgroupInvocations = caps.maxWorkgroupInvocations;
    facts.nanGuaranteed = caps.floatControlsNan != 0;
    for (uint32_t n = 0; n < caps.matrixShapeCount; n++) {
        const vkattn_matrix_shape &shape = caps.matrixShapes[n];
        facts.matrixShapes.push_back(std::to_string(shape.m) + "x" + std::to_string(shape.n) + "x" + std::to_string(shape.k) + " " +
                                     dtypeNameOf(shape.inputs));
    }
    for (const KernelSupport &kernel : device.kernels) facts.kernels.push_back({kernel.kernel, kernel.reason, kernel.available});
    return facts;
}

} // namespace vkattn::conform
