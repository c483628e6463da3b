// What recording, listing and compiling need to know of a plan, whatever the operation: the
// dispatches, in order, and the memory that they touch. A schedule is small and holds no list:
// dispatch(n) makes the n-th dispatch, so recording allocates nothing.
#pragma once

#include "core/plan/caps.hpp"
#include "core/plan/module.hpp"
#include "problem/tensor.hpp"
#include "vkattn/problem.h"

#include <algorithm>
#include <cstdint>
#include <initializer_list>

namespace vkattn {

constexpr uint32_t maxOperandsPerDispatch = 16;

// Everything that makes one pipeline differ from another: the module and its specialization
// constants, ids 0, 1, 2, ... in the order of the shader's constant_id declarations. Token counts,
// strides and offsets are never part of it.
struct PipelineKey {
    static constexpr uint32_t maxConstants = 32;
    Module module{};
    uint32_t constantCount = 0;
    uint32_t constants[maxConstants] = {}; // 0 past the count
    // Whose module it is, in place of the library's own. Programs with one hash are the same: where a key is kept, the
    // pointer may be of a program that is gone.
    uint64_t programHash = 0; // 0: the library's own
    const vkattn_program *program = nullptr;

    constexpr PipelineKey() = default;
    constexpr PipelineKey(Module of, std::initializer_list<uint32_t> values) : module(of) {
        for (const uint32_t value : values) constants[constantCount++] = value;
    }
    // Inline: the default calls memcmp for every look-up.
    [[nodiscard]] constexpr bool operator==(const PipelineKey &other) const {
        if (module != other.module || constantCount != other.constantCount || programHash != other.programHash) return false;
        for (uint32_t n = 0; n < constantCount; ++n)
            if (constants[n] != other.constants[n]) return false;
        return true;
    }
    [[nodiscard]] constexpr uint32_t hash() const { // FNV-1a over words
        uint32_t h = (2166136261u ^ static_cast<uint32_t>(module) ^ static_cast<uint32_t>(programHash)) * 16777619u;
        for (uint32_t n = 0; n < constantCount; ++n) h = (h ^ constants[n]) * 16777619u;
        return h ^ h >> 15;
    }
};

// The distinct pipelines of one plan. A plan of any kernel has fewer than the capacity
// (tests/unit/plan/plan_test.cpp).
class PipelineSet {
  public:
    static constexpr uint32_t capacity = 32;
    constexpr void add(const PipelineKey &key) {
        if (!contains(key) && size_ < capacity) keys_[size_++] = key;
    }
    [[nodiscard]] constexpr bool contains(const PipelineKey &key) const {
        for (const PipelineKey &each : *this)
            if (each == key) return true;
        return false;
    }
    [[nodiscard]] constexpr uint32_t size() const { return size_; }
    [[nodiscard]] constexpr const PipelineKey *begin() const { return keys_; }
    [[nodiscard]] constexpr const PipelineKey *end() const { return keys_ + size_; }

  private:
    PipelineKey keys_[capacity];
    uint32_t size_ = 0;
};

constexpr uint32_t noPushWord = ~0u;

struct Operand {
    vkattn_role role;
    uint64_t beginBytes, endBytes; // what is accessed, from the start of the role's binding
    uint64_t firstByte;            // where the element lies that indices count from
    // push-constant word that gets the first element's index in the descriptor; noPushWord: none
    uint32_t basePushWord;
    uint32_t elementSize; // bytes
    bool writes;
};

// Made anew at each record: what the counts do not cover stays as it is in memory, clearing 1 KB
// took a third of it.
struct Dispatch {
    PipelineKey key;
    uint32_t operandCount = 0;
    Operand operands[maxOperandsPerDispatch]; // by binding number; all slots of the stage
    uint32_t pushWords[32];
    uint32_t pushBytes = 0;
    uint32_t groups[3] = {};
    // Needs the results of an earlier dispatch of this plan, or overwrites what one read.
    bool barrierBefore = false;
};

struct DispatchRange {
    uint32_t first, last; // [first, last)
};

// An operand as the host binds it.
struct BoundOperand {
    vkattn_role role;
    const char *name;     // the name in messages
    const Tensor *tensor; // NULL: an array, tightly packed
    ByteRange bytes;      // what is accessed, from the start of the role's memory
    bool output;
};
constexpr uint32_t maxBoundOperands = 32;

struct Schedule;

// What the plans of one kind of operation have in common: one row for attention, and one for the
// other operations.
struct ScheduleType {
    const char *what; // in messages: "problem", "operation"
    // Writes the operands in use, at most maxBoundOperands, and returns their number.
    uint32_t (*operands)(const Schedule &, BoundOperand *out);
    // Returns whether an output may be the very memory of an input, with the same layout. NULL:
    // never.
    bool (*inPlace)(const Schedule &, vkattn_role output, vkattn_role input);
    Dispatch (*dispatch)(const Schedule &, uint32_t index);
    PipelineSet (*pipelines)(const Schedule &); // every pipeline that the dispatches use
    // Of the descriptor sets of all dispatches.
    uint64_t (*storageDescriptorCount)(const Schedule &);
    // NULL: there is one slice.
    DispatchRange (*slice)(const Schedule &, uint32_t index);
    uint32_t (*sliceOf)(const Schedule &, uint32_t dispatch);
};

struct Schedule {
    const ScheduleType *type;
    const char *kernelName; // in messages and requirements
    const char *zone;       // around all that one call records
    uint32_t slices;        // at least 1
    uint32_t dispatchCount;
    uint64_t workspaceBytes;
    uint32_t workspaceAlignment;

    [[nodiscard]] DispatchRange dispatchesOfSlice(uint32_t index) const {
        return type->slice && slices > 1 ? type->slice(*this, index) : DispatchRange{0, dispatchCount};
    }
};

[[nodiscard]] inline uint32_t workspaceAlignmentOf(const Caps &caps) {
    return std::max(caps.minStorageBufferOffsetAlignment, 4u);
}

// Sets what every plan of an operation sets first. `kernelName` and `zone`: static storage.
inline void beginSchedule(Schedule &out, const ScheduleType &type, const char *kernelName, const char *zone, uint32_t slices,
                          const Caps &caps) {
    out.type = &type;
    out.kernelName = kernelName;
    out.zone = zone;
    out.slices = slices;
    out.workspaceAlignment = workspaceAlignmentOf(caps);
}

} // namespace vkattn
