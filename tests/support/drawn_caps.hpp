// Devices that are not there, for plans: a strong one, and drawn ones.
#pragma once

#include "support/seed.hpp"
#include "vkattn/vkattn.h"

#include <initializer_list>

namespace vkattn::test {

template <class T> T oneOf(Random &random, std::initializer_list<T> values) {
    return values.begin()[random() % values.size()];
}

inline vkattn_caps strongCaps() {
    vkattn_caps caps{};
    caps.structSize = sizeof caps;
    caps.deviceType = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
    caps.maxStorageBufferRange = 1u << 30;
    caps.minStorageBufferOffsetAlignment = 64;
    caps.maxStorageBuffersPerStage = 16;
    caps.maxPushConstantsBytes = 128;
    caps.maxWorkgroupInvocations = 1024;
    for (uint32_t &size : caps.maxWorkgroupSize) size = 1024;
    for (uint32_t &count : caps.maxWorkgroupCount) count = 65535;
    caps.maxSharedMemoryBytes = 32768;
    caps.pushDescriptors = caps.subgroupShuffle = caps.subgroupClustered = caps.fullSubgroups = caps.floatControlsNan = 1;
    caps.subgroupSize = 32;
    return caps;
}

inline vkattn_caps randomCaps(Random &random) {
    vkattn_caps caps = strongCaps();
    caps.deviceType = oneOf<uint32_t>(random, {VK_PHYSICAL_DEVICE_TYPE_CPU, VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU});
    caps.maxStorageBufferRange = random() % 3 ? 1u << 27 : 16384 + 256 * between(random, 0, 200);
    caps.minStorageBufferOffsetAlignment = oneOf(random, {0u, 1u, 4u, 16u, 64u, 256u});
    caps.maxStorageBuffersPerStage = oneOf(random, {4u, 8u, 11u, 16u});
    caps.maxWorkgroupInvocations = oneOf(random, {128u, 256u, 1024u});
    caps.maxSharedMemoryBytes = oneOf(random, {16384u, 49152u});
    for (uint32_t &count : caps.maxWorkgroupCount) count = random() % 4 ? 65535 : 70;
    caps.subgroupSize = oneOf(random, {0u, 4u, 8u, 32u, 64u, 128u});
    caps.subgroupShuffle = caps.subgroupSize && random() % 4;
    caps.subgroupClustered = caps.subgroupShuffle && random() % 2;
    caps.fullSubgroups = caps.subgroupSize && random() % 2;
    if (caps.subgroupSize && random() % 4) {
        caps.minSubgroupSize = oneOf(random, {4u, 4u, 32u});
        caps.maxSubgroupSize = oneOf(random, {32u, 128u});
        caps.maxWorkgroupSubgroups = oneOf(random, {1u, 64u, 64u});
    }
    caps.floatControlsNan = random() % 2;
    caps.pushDescriptors = random() % 2;
    caps.exactHalves = random() % 2;
    return caps;
}

} // namespace vkattn::test
