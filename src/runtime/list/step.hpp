// A step of a list: an operation, with a copy of its description, and the memory that it works on.
#pragma once

#include "runtime/list/recorded_list.hpp"
#include "runtime/list/tensor_memory.hpp"

#include <map>

namespace vkattn {

// What a role was given: the memory, and the layout of the tensor that it was taken from.
struct StepMemory {
    vkattn_role role;
    std::shared_ptr<TensorMemory> memory;
    vkattn_layout layout;
};

// Bytes of a memory that a step reads or writes.
struct MemoryUse {
    const TensorMemory *memory;
    uint64_t begin, end;
    bool writes;
};
// Returns whether a step with the use must wait for one of the others: they share a byte that one of
// the two writes.
[[nodiscard]] bool conflicts(const MemoryUse &use, std::span<const MemoryUse> others);

// The contents of the memories of a step.
using StepImages = std::map<const TensorMemory *, std::vector<uint64_t>>;

struct ListStep {
    ListStep() = default;
    ListStep(const ListStep &) = delete; // the operation points at the description
    ListStep &operator=(const ListStep &) = delete;

    // Copies the description, and checks it and the operands.
    [[nodiscard]] vkattn_result describe(const vkattn_operation &operation, std::vector<StepMemory> operands, std::string *why);
    // Words count whole, because 16-bit results are stored into them; and from the last multiple of
    // `alignment` on, where a descriptor can begin: validation layers see descriptors.
    [[nodiscard]] std::vector<MemoryUse> uses(uint64_t alignment) const;

    // Reads all memories of the step.
    [[nodiscard]] vkattn_result read(StepImages &images, std::string *why) const;
    // Returns the operands as a run saw them: inputs as they were before, outputs as they are after.
    [[nodiscard]] std::vector<vkattn_operand_memory> seen(StepImages &before, StepImages &after) const;

    BoundOperation bound{};
    std::vector<vkattn_operand_memory> memory; // for the CPU

  private:
    union {
        vkattn_problem attention;
        vkattn_projection projection;
        vkattn_norm norm;
        vkattn_rotary rotary;
        vkattn_append append;
        vkattn_advance advance;
    } description_;
    std::vector<StepMemory> operands_;
};

} // namespace vkattn
