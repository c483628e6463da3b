#include "runtime/list/step.hpp"

#include "runtime/layouts.hpp"
#include "runtime/slice_count.hpp"

#include <algorithm>

namespace vkattn {
namespace {

// Copies what a caller of this version or of an older one described.
template <class Description> Description copyOf(const Description &given) {
    Description copy{};
    std::memcpy(&copy, &given, std::min<size_t>(given.structSize, sizeof copy));
    return copy;
}

bool isArray(vkattn_role role) {
    return role >= VKATTN_KEY_LENGTHS && role < VKATTN_WORKSPACE;
}

bool isDenseArray(const vkattn_layout &layout) {
    return layout.extent[0] == 1 && layout.extent[1] == 1 && layout.extent[2] == 1 && (layout.extent[3] <= 1 || layout.strideElems[3] == 1);
}

} // namespace

bool conflicts(const MemoryUse &use, std::span<const MemoryUse> others) {
    return std::any_of(others.begin(), others.end(), [&](const MemoryUse &other) {
        return use.memory == other.memory && (use.writes || other.writes) && use.begin < other.end && other.begin < use.end;
    });
}

vkattn_result ListStep::describe(const vkattn_operation &operation, std::vector<StepMemory> operands, std::string *why) {
    vkattn_diagnostic diagnostic{};
    if (const auto r = vkattnValidateOperation(&operation, &diagnostic)) return failed(r, diagnostic.message, why);
    if (const uint32_t slices = slicesOf(operation); slices > 1)
        return failed(invalid,
                      "sliceCount is " + std::to_string(slices) + ": a list is one submission; leave sliceCount 0, or use Runtime::run",
                      why);
    switch (operation.kind) {
    case VKATTN_ATTENTION:
        description_.attention = copyOf(*operation.of.attention);
        bound.operation = vkattn::operation(description_.attention);
        break;
    case VKATTN_PROJECTION:
        bound.operation = vkattn::operation(description_.projection = copyOf(*operation.of.projection));
        break;
    case VKATTN_NORM:
        bound.operation = vkattn::operation(description_.norm = copyOf(*operation.of.norm));
        break;
    case VKATTN_ROTARY:
        bound.operation = vkattn::operation(description_.rotary = copyOf(*operation.of.rotary));
        break;
    case VKATTN_APPEND:
        bound.operation = vkattn::operation(description_.append = copyOf(*operation.of.append));
        break;
    case VKATTN_ADVANCE:
        bound.operation = vkattn::operation(description_.advance = copyOf(*operation.of.advance));
        break;
    case VKATTN_MEAN:
        bound.operation = vkattn::operation(description_.mean = copyOf(*operation.of.mean));
        break;
    case VKATTN_MERGE:
        bound.operation = vkattn::operation(description_.merge = copyOf(*operation.of.merge));
        break;
    case VKATTN_HADAMARD:
        bound.operation = vkattn::operation(description_.hadamard = copyOf(*operation.of.hadamard));
        break;
    case VKATTN_KEEP:
        bound.operation = vkattn::operation(description_.keep = copyOf(*operation.of.keep));
        break;
    case VKATTN_DROP:
        bound.operation = vkattn::operation(description_.drop = copyOf(*operation.of.drop));
        break;
    case VKATTN_ATTENTION_GRADIENT:
        description_.attentionGradient.forward = copyOf(*operation.of.attentionGradient->forward);
        description_.attentionGradient.gradient = copyOf(*operation.of.attentionGradient);
        description_.attentionGradient.gradient.forward = &description_.attentionGradient.forward;
        bound.operation = vkattn::operation(description_.attentionGradient.gradient);
        break;
    case VKATTN_ATTENTION_STATISTICS:
        description_.attentionStatistics.attention = copyOf(*operation.of.attentionStatistics->attention);
        description_.attentionStatistics.statistics = copyOf(*operation.of.attentionStatistics);
        description_.attentionStatistics.statistics.attention = &description_.attentionStatistics.attention;
        bound.operation = vkattn::operation(description_.attentionStatistics.statistics);
        break;
    case VKATTN_VISIBLE_BLOCKS:
        description_.visibleBlocks.attention = copyOf(*operation.of.visibleBlocks->attention);
        description_.visibleBlocks.blocks = copyOf(*operation.of.visibleBlocks);
        description_.visibleBlocks.blocks.attention = &description_.visibleBlocks.attention;
        bound.operation = vkattn::operation(description_.visibleBlocks.blocks);
        break;
    case VKATTN_NORM_GRADIENT:
        bound.operation = vkattn::operation(description_.normGradient = copyOf(*operation.of.normGradient));
        break;
    case VKATTN_LINEAR_ATTENTION:
        bound.operation = vkattn::operation(description_.linearAttention = copyOf(*operation.of.linearAttention));
        break;
    case VKATTN_LINEAR_ATTENTION_GRADIENT:
        description_.linearGradient.forward = copyOf(*operation.of.linearGradient->forward);
        description_.linearGradient.gradient = copyOf(*operation.of.linearGradient);
        description_.linearGradient.gradient.forward = &description_.linearGradient.forward;
        bound.operation = vkattn::operation(description_.linearGradient.gradient);
        break;
    default:
        return failed(invalid, "this version of the list knows no operation of kind " + std::to_string(operation.kind), why);
    }
    for (const StepMemory &operand : operands) {
        const std::string role = "role " + std::to_string(operand.role);
        if (!operand.memory) return failed(invalid, role + " has no tensor: it is empty, or its allocation failed", why);
        if (isArray(operand.role) && !isDenseArray(operand.layout))
            return failed(invalid, role + " is an array: give a tensor [1, 1, 1, count] whose elements are neighbours", why);
        const uint64_t offset = isArray(operand.role) ? 4 * operand.layout.offsetElems : 0;
        bound.bindings.push_back({operand.role, operand.memory->buffer(), offset, operand.memory->bytes() - offset});
        memory.push_back({operand.role, operand.memory->address() + offset, operand.memory->bytes() - offset});
    }
    operands_ = std::move(operands);
    if (const auto r = vkattnCpuCheckOperation(&bound.operation, memory.data(), static_cast<uint32_t>(memory.size()), &diagnostic))
        return failed(r, diagnostic.message, why);
    return VKATTN_OK;
}

const char *ListStep::name() const {
    return shader_ ? shader_->host.name.c_str() : vkattnOperationName(bound.operation.kind);
}

std::vector<MemoryUse> ListStep::uses(uint64_t alignment) const {
    if (shader_) {
        std::vector<MemoryUse> tensors = shader_->tensors;
        for (MemoryUse &each : tensors) each.end = (each.end + 3) & ~3ull;
        return tensors;
    }
    vkattn_operand_use list[VKATTN_ROLE_LIMIT];
    const uint32_t count = vkattnOperandUses(&bound.operation, list, VKATTN_ROLE_LIMIT);
    std::vector<MemoryUse> all;
    for (uint32_t n = 0; n < count; ++n)
        for (size_t o = 0; o < operands_.size(); ++o)
            if (operands_[o].role == list[n].role && list[n].beginBytes < list[n].endBytes) {
                const uint64_t offset = bound.bindings[o].offset;
                all.push_back({operands_[o].memory.get(), (offset + list[n].beginBytes) / alignment * alignment,
                               (offset + list[n].endBytes + 3) & ~3ull, list[n].writes != 0});
            }
    return all;
}

vkattn_result ListStep::read(StepImages &images, std::string *why) const {
    for (const StepMemory &operand : operands_) {
        auto &image = images[operand.memory.get()];
        if (!image.empty()) continue;
        image.resize(operand.memory->bytes() / 8 + 1);
        if (const auto r = operand.memory->read(0, image.data(), operand.memory->bytes(), why)) return r;
    }
    return VKATTN_OK;
}

std::vector<vkattn_operand_memory> ListStep::seen(StepImages &before, StepImages &after) const {
    vkattn_operand_use list[VKATTN_ROLE_LIMIT];
    const uint32_t count = vkattnOperandUses(&bound.operation, list, VKATTN_ROLE_LIMIT);
    std::vector<vkattn_operand_memory> all;
    for (size_t o = 0; o < operands_.size(); ++o) {
        const bool writes =
            std::any_of(list, list + count, [&](const vkattn_operand_use &use) { return use.role == operands_[o].role && use.writes; });
        std::vector<uint64_t> &image = (writes ? after : before)[operands_[o].memory.get()];
        all.push_back({operands_[o].role, reinterpret_cast<unsigned char *>(image.data()) + bound.bindings[o].offset, memory[o].bytes});
    }
    return all;
}

} // namespace vkattn
