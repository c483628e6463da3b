#include "problem/layers/layer_parts.hpp"

#include "problem/operand_table.hpp"
#include "problem/tensor.hpp"
#include "util/struct_size.hpp"

#include <algorithm>

namespace vkattn {
namespace {

// Tokens of a part: fewer would read K and V too often for what they save.
constexpr uint32_t leastTokens = 64;

constexpr uint32_t partsOf(uint32_t all, uint32_t some) {
    return (all + some - 1) / some;
}

// Elements [first, first + count) of a dimension.
void cutTo(vkattn_layout &layout, int dimension, uint32_t first, uint32_t count) {
    if (absent(layout)) return;
    layout.offsetElems += static_cast<uint64_t>(first * layout.strideElems[dimension]);
    layout.extent[dimension] = count;
}

} // namespace

LayerParts::LayerParts(const vkattn_layer &layer, uint64_t bytes)
    : whole_(&layer), options_{}, batch_(layer.x.extent[0]), tokens_(layer.x.extent[2]),
      keys_(absent(layer.context) ? tokens_ : layer.context.extent[2]), entriesOfPart_(std::max(batch_, 1u)), tokensOfPart_(tokens_) {
    vkattn_problem room;
    if (layer.options) options_ = completed(*layer.options, room);
    options_.structSize = sizeof options_;
    if (options_.dropout > 0) return; // what a pair draws depends on its place in the whole
    if (layer.flags & VKATTN_LAYER_KEEPS_STEPS) return;
    // The entries of a ragged batch are sequences within one.
    // Blocks of their own for each entry would need others for each part.
    while (entriesOfPart_ > 1 && options_.blocks.batches <= 1 && bytesOfFirst() > bytes) entriesOfPart_ -= entriesOfPart_ / 2;
    if (!canCutTokens()) return;
    while (tokensOfPart_ > leastTokens && bytesOfFirst() > bytes) {
        tokensOfPart_ -= tokensOfPart_ / 2;
        tokensOfPart_ = (tokensOfPart_ + leastTokens - 1) / leastTokens * leastTokens;
    }
}

// A cut needs keys that are the first ones, and what tells the device of positions to lie in the
// description or in arrays by token.
bool LayerParts::canCutTokens() const {
    const auto has = [&](vkattn_role role) { return (options_.presentRoles & VKATTN_PRESENT(role)) != 0; };
    if (has(VKATTN_CU_SEQ_Q) || has(VKATTN_CU_SEQ_K) || whole_->presentRoles & VKATTN_PRESENT(VKATTN_STARTS)) return false;
    // These rules count all tokens, and a prefix shows keys behind the cut's.
    if (has(VKATTN_GLOBAL_TOKENS) || has(VKATTN_PREFIX_LENGTHS) || options_.grid.rule || options_.blocks.kind ||
        options_.queryOffset.kind || options_.keyOffset.kind)
        return false;
    const bool causal = options_.flags & VKATTN_CAUSAL;
    if (!causal) return !(options_.flags & VKATTN_WINDOW) && !(options_.presentRoles & arraysOfDistances);
    // Weights and scores of the keys behind the cut's would not be written.
    return keys_ >= tokens_ && !has(VKATTN_KEY_LENGTHS) && absent(options_.weights) && absent(options_.scores);
}

uint64_t LayerParts::bytesOfFirst() {
    vkattn_layer_plan first{};
    first.structSize = sizeof first;
    return plan(0, first, nullptr) == VKATTN_OK ? first.betweenBytes : 0;
}

uint32_t LayerParts::count() const {
    return tokensOfPart_ < tokens_ ? batch_ * partsOf(tokens_, tokensOfPart_) : partsOf(std::max(batch_, 1u), entriesOfPart_);
}

vkattn_result LayerParts::plan(uint32_t part, vkattn_layer_plan &plan, vkattn_diagnostic *why) {
    if (count() == 1) return planTokens(*whole_, {}, plan, why);
    if (tokensOfPart_ >= tokens_) {
        const uint32_t first = part * entriesOfPart_;
        take(first, std::min(entriesOfPart_, std::max(batch_, 1u) - first), {});
        return planTokens(part_, {.firstEntry = first}, plan, why);
    }
    const uint32_t partsOfEntry = partsOf(tokens_, tokensOfPart_), first = part % partsOfEntry * tokensOfPart_;
    TokenCut cut = {first, std::min(tokensOfPart_, tokens_ - first), keys_, part / partsOfEntry};
    // Of causal queries the last one sees the last key of the cut, wherever the whole is aligned.
    if (options_.flags & VKATTN_CAUSAL) cut.keys = first + cut.tokens + (options_.flags & VKATTN_ALIGN_TOP_LEFT ? 0 : keys_ - tokens_);
    take(cut.firstEntry, 1, cut);
    return planTokens(part_, cut, plan, why);
}

// Sets the layer and the options of a part.
void LayerParts::take(uint32_t firstEntry, uint32_t entries, const TokenCut &cut) {
    firstEntry_ = firstEntry, firstToken_ = cut.firstToken;
    part_ = *whole_;
    part_.options = nullptr;
    for (vkattn_layout *const each : {&part_.x, &part_.context, &part_.y}) cutTo(*each, 0, firstEntry, entries);
    if (!whole_->options) return;
    partOptions_ = options_;
    part_.options = &partOptions_;
    for (const OperandRule &rule : operandTable) {
        if (!rule.layout || rule.span == Span::keys || rule.role == VKATTN_Q || rule.role == VKATTN_OUT) continue;
        vkattn_layout &layout = partOptions_.*rule.layout;
        // An extent of 1 is that of one entry, or broadcasts.
        if (layout.extent[0] > 1) cutTo(layout, 0, firstEntry, entries);
        if (!cut.tokens) continue;
        if (layout.extent[2] > 1) cutTo(layout, 2, cut.firstToken, cut.tokens);
        if (overPairs(rule.span) && layout.extent[3] > 1)
            cutTo(layout, 3, 0, rule.span == Span::pairBits ? partsOf(cut.keys, 32) : cut.keys);
    }
    if (cut.tokens) partOptions_.flags &= ~uint32_t{VKATTN_ALIGN_TOP_LEFT};
}

uint64_t LayerParts::skippedBytes(vkattn_role role) const {
    constexpr uint64_t word = 4;
    switch (role) {
    case VKATTN_KEY_LENGTHS:
    case VKATTN_PREFIX_LENGTHS:
    case VKATTN_QUERY_OFFSETS:
    case VKATTN_KEY_OFFSETS:
    case VKATTN_STARTS:
        return word * firstEntry_;
    case VKATTN_GLOBAL_TOKENS:
        return word * firstEntry_ * partsOf(keys_, 32);
    case VKATTN_POSITIONS:
    case VKATTN_DOC_IDS_Q:
        return word * (uint64_t{firstEntry_} * tokens_ + firstToken_);
    case VKATTN_DOC_IDS_K:
        return word * firstEntry_ * keys_;
    default:
        return 0;
    }
}

} // namespace vkattn
