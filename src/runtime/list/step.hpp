// A step of a list: an operation or a shader of the host's, with a copy of its description, and the
// memory that it works on.
#pragma once

#include "runtime/list/recorded_list.hpp"
#include "runtime/list/tensor_memory.hpp"

#include <map>
#include <optional>

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

// What a list keeps of a ShaderStep.
struct ShaderWork {
    HostShader host;
    std::vector<MemoryUse> tensors;   // the bytes of their elements
    std::vector<ShaderMemory> memory; // for the CPU
    std::function<void(span<const ShaderMemory>, const void *)> cpu;
    double absoluteTolerance = 0, relativeTolerance = 0;
};

// The contents of the memories of a step.
using StepImages = std::map<const TensorMemory *, std::vector<uint64_t>>;

struct ListStep {
    ListStep() = default;
    ListStep(const ListStep &) = delete; // the operation points at the description
    ListStep &operator=(const ListStep &) = delete;

    // Copies the description, and checks it and the operands.
    [[nodiscard]] vkattn_result describe(const vkattn_operation &operation, std::vector<StepMemory> operands, std::string *why);
    // The same of a shader, by tensor (shader_step.cpp).
    [[nodiscard]] vkattn_result describe(const ShaderStep &given, std::vector<StepMemory> tensors, std::string *why);
    [[nodiscard]] const char *name() const;
    [[nodiscard]] bool isShader() const { return shader_.has_value(); }
    // Whether the step can be computed on the CPU.
    [[nodiscard]] bool hasCpu() const { return !shader_ || shader_->cpu; }
    // Words count whole, because 16-bit results are stored into them; and from the last multiple of
    // `alignment` on, where a descriptor can begin: validation layers see descriptors.
    [[nodiscard]] std::vector<MemoryUse> uses(uint64_t alignment) const;

    // Reads all memories of the step.
    [[nodiscard]] vkattn_result read(StepImages &images, std::string *why) const;
    // Returns the operands as a run saw them: inputs as they were before, outputs as they are after.
    [[nodiscard]] std::vector<vkattn_operand_memory> seen(StepImages &before, StepImages &after) const;

    // Of a shader: computes on the memory of the step; compares what the device has written with what
    // the CPU function makes of `before`, which is written to.
    void computeShader() const;
    [[nodiscard]] vkattn_result verifyShader(StepImages &before, StepImages &after, vkattn_verify_report &report, std::string *why) const;

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
        vkattn_mean mean;
        vkattn_merge merge;
        vkattn_hadamard hadamard;
        vkattn_keep keep;
        struct {
            vkattn_attention_gradient gradient; // points at `forward`
            vkattn_problem forward;
        } attentionGradient;
        struct {
            vkattn_attention_statistics statistics; // points at `attention`
            vkattn_problem attention;
        } attentionStatistics;
        struct {
            vkattn_visible_blocks blocks; // points at `attention`
            vkattn_problem attention;
        } visibleBlocks;
        vkattn_norm_gradient normGradient;
        vkattn_drop drop;
        vkattn_linear_attention linearAttention;
        struct {
            vkattn_linear_attention forward;
            vkattn_linear_gradient gradient; // points at `forward`
        } linearGradient;
    } description_;
    std::vector<StepMemory> operands_; // of a shader: its tensors, without roles
    std::optional<ShaderWork> shader_;
};

} // namespace vkattn
