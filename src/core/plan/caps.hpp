// What planning needs to know of a device. Public as vkattn_caps; device/read_caps.hpp reads it,
// here are the Vulkan 1.0 floor and checks.
#pragma once

#include "vkattn/vkattn.h"

namespace vkattn {

using Caps = vkattn_caps;

// The minimum limits that Vulkan 1.0 guarantees; every kernel of the staged path fits them.
[[nodiscard]] constexpr Caps minimumCaps() {
    Caps caps{};
    caps.structSize = sizeof caps;
    caps.deviceType = VK_PHYSICAL_DEVICE_TYPE_OTHER;
    caps.maxStorageBufferRange = 1u << 27;
    caps.minStorageBufferOffsetAlignment = 256;
    caps.maxStorageBuffersPerStage = 4;
    caps.maxPushConstantsBytes = 128;
    caps.maxWorkgroupInvocations = 128;
    caps.maxWorkgroupSize[0] = caps.maxWorkgroupSize[1] = 128;
    caps.maxWorkgroupSize[2] = 64;
    for (uint32_t &count : caps.maxWorkgroupCount) count = 65535;
    caps.maxSharedMemoryBytes = 16384;
    return caps;
}

// The most bytes that a binding can hold: bindings begin at multiples of the device's alignment and end at
// whole words.
[[nodiscard]] constexpr uint64_t mostBindable(const Caps &caps) {
    const uint64_t lost = uint64_t{caps.minStorageBufferOffsetAlignment} + 8;
    return caps.maxStorageBufferRange > lost ? caps.maxStorageBufferRange - lost : 0;
}
[[nodiscard]] constexpr bool bindable(const Caps &caps, uint64_t bytes) {
    return bytes <= mostBindable(caps);
}

// Whether a device with such caps multiplies matrices of this shape.
[[nodiscard]] bool hasShape(const Caps &caps, const vkattn_matrix_shape &shape);

// Of matrix units, for inputs of a type: 16x16x16 first, which is what the units of most devices are;
// then the largest shape. NULL: none that shaders can use.
[[nodiscard]] const vkattn_matrix_shape *matrixShapeFor(const Caps &caps, vkattn_dtype inputs);
// Lanes of a subgroup on matrix units: 32 where pipelines may choose, since that is what every
// vendor's units are made for. 0: not to be relied on.
[[nodiscard]] uint32_t matrixLanes(const Caps &caps);

// Caps that a caller has filled in, completed with zeros where they are those of earlier headers,
// and checked; `name` is what the message calls them.
[[nodiscard]] vkattn_result takeCaps(const vkattn_caps &given, const char *name, Caps &out, vkattn_diagnostic *why);
// Whether planning can work with them.
[[nodiscard]] vkattn_result checkCaps(const Caps &caps, const char *name, vkattn_diagnostic *why);

// The weaker of both in every field.
[[nodiscard]] Caps weakerCaps(const Caps &a, const Caps &b);

} // namespace vkattn
