// Devices made of bytes, and what holds for every plan, for targets that plan what they describe.
#pragma once

#include "fuzz.hpp"
#include "vkattn/vkattn.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

namespace vkattn::test {

// What lies behind structSize counts as zero, whatever the bytes are: the checks below see the same.
template <class Struct> void clearBeyond(Struct &s) {
    const size_t size = std::max(s.structSize / 4 * 4, 4u);
    if (size < sizeof s) std::memset(reinterpret_cast<char *>(&s) + size, 0, sizeof s - size);
}

// `number` draws the numbers that are not likely.
inline vkattn_caps capsFrom(Bytes &bytes, uint32_t (*number)(Bytes &)) {
    vkattn_caps c{};
    c.structSize = sizeof c;
    c.deviceType = bytes.below(5);
    c.maxStorageBufferRange = 1u << 27;
    c.minStorageBufferOffsetAlignment = 256;
    c.maxStorageBuffersPerStage = bytes.flag() ? 4 : 64;
    c.maxPushConstantsBytes = 128;
    c.maxWorkgroupInvocations = 128u << bytes.below(4);
    c.maxWorkgroupSize[0] = c.maxWorkgroupSize[1] = c.maxWorkgroupInvocations;
    c.maxWorkgroupSize[2] = 64;
    for (uint32_t &count : c.maxWorkgroupCount) count = 65535;
    c.maxSharedMemoryBytes = 16384u << bytes.below(3);
    c.pushDescriptors = bytes.flag();
    c.subgroupSize = bytes.flag() ? 0 : 1u << bytes.below(8);
    c.subgroupShuffle = bytes.flag();
    c.subgroupClustered = bytes.flag();
    c.fullSubgroups = bytes.flag();
    c.floatControlsNan = bytes.flag();
    c.exactHalves = bytes.flag();
    // Then any role is drawn, whether or not it exists.
    uint32_t *const words = &c.structSize;
    for (uint32_t changes = bytes.below(4); changes > 0; --changes) words[bytes.below(sizeof c / 4)] = number(bytes);
    clearBeyond(c);
    return c;
}

// Every dispatch of a plan is within the limits and within the operands. list(scratch, list) measures
// (scratch NULL) or lists the dispatches; bytesOf(role) is the bytes that a role has.
template <class List, class BytesOf>
void checkDispatches(const vkattn_caps &caps, const vkattn_explanation &plan, const List &listInto, const BytesOf &bytesOf) {
    vkattn_dispatch_list list{};
    require(listInto(nullptr, list) == VKATTN_OK);
    require(list.dispatchCount == plan.dispatchCount && list.workspaceBytes == plan.workspaceBytes);
    if (list.scratchBytes > 1u << 20) return; // as slow as it is long
    std::vector<std::byte> scratch(list.scratchBytes);
    require(listInto(&scratch, list) == VKATTN_OK || scratch.empty());
    for (uint32_t n = 0; n < list.dispatchCount && !scratch.empty(); ++n) {
        const vkattn_dispatch &d = list.dispatches[n];
        for (int axis = 0; axis < 3; ++axis) require(d.groups[axis] >= 1 && d.groups[axis] <= caps.maxWorkgroupCount[axis]);
        require(d.pushConstantBytes <= caps.maxPushConstantsBytes);
        require(d.operandCount <= caps.maxStorageBuffersPerStage);
        for (uint32_t k = 0; k < d.operandCount; ++k) {
            const vkattn_operand &o = d.operands[k];
            const uint64_t end = o.role == VKATTN_WORKSPACE ? plan.workspaceBytes : bytesOf(o.role);
            require(o.offsetBytes % std::max(caps.minStorageBufferOffsetAlignment, 4u) == 0 && o.sizeBytes <= caps.maxStorageBufferRange);
            require(o.sizeBytes == 0 || o.offsetBytes + o.sizeBytes <= (end + 3) / 4 * 4);
        }
    }
}

// Plans an operation for any device: whoever refuses says why, and what is planned is explained and within limits.
inline void planOperation(const vkattn_operation &o, vkattn_result valid, Bytes &bytes, uint32_t (*number)(Bytes &)) {
    const vkattn_caps caps = capsFrom(bytes, number);
    const vkattn_plan_options options = vkattn::planOptions(bytes.flag() ? 0 : number(bytes));
    vkattn_explanation explanation{};
    vkattn_diagnostic why{};
    const vkattn_result r = vkattn::explain(caps, o, explanation, options, &why);
    if (r != VKATTN_OK) {
        require((r == VKATTN_ERROR_UNSUPPORTED || r == VKATTN_ERROR_INVALID_ARGUMENT) && why.message[0] != '\0' && terminated(why.message));
        return;
    }
    require(valid == VKATTN_OK && explanation.kernelName && explanation.form && terminated(explanation.choice));
    require(explanation.workgroupInvocations <= caps.maxWorkgroupInvocations);
    require(explanation.flops >= 0 && explanation.flops <= explanation.flopsFull);
    const auto list = [&](std::vector<std::byte> *scratch, vkattn_dispatch_list &listed) {
        listed.structSize = sizeof listed;
        std::byte none[8]; // empty scratch is too small; it does not ask for the size
        return vkattnListOperation(&caps, &options, &o,
                                   !scratch           ? nullptr
                                   : scratch->empty() ? none
                                                      : scratch->data(),
                                   scratch ? scratch->size() : 0, &listed, &why);
    };
    checkDispatches(caps, explanation, list, [&](vkattn_role role) { return vkattnOperationBytes(&o, role); });
}

} // namespace vkattn::test
