// What the rules of visibility show to a row on the CPU (problem.h), as runs of keys: a tile of keys costs
// as much as it has runs, and a tile without a run costs nothing. oracle/pair.hpp has the rules pair by
// pair; the two share nothing.
#pragma once

#include "cpu/sequences.hpp"

#include <algorithm>
#include <bit>

namespace vkattn {

struct KeyRun {
    uint32_t begin, end; // no key where begin is the end of what was searched
};

// Blocks of pairs as bits, gathered once a call from arrays that are never trusted: a bit for each column of
// blocks of a row.
class BlockBits {
  public:
    BlockBits() = default;
    [[nodiscard]] static uint32_t rowWords(const Problem &p) { return bitWords(p.rules.blockColumns); }
    [[nodiscard]] static uint64_t rows(const Problem &p) { return p.rules.blockPlanes() * p.rules.blockRows; }
    [[nodiscard]] static uint64_t bytes(const Problem &p) { return 4 * rows(p) * rowWords(p); }
    // Writes bytes(p) bytes, which must last as long as what is returned.
    [[nodiscard]] static BlockBits gather(const Problem &p, const Operands &operands, uint32_t *words);

    [[nodiscard]] const uint32_t *row(uint32_t b, uint32_t h, uint32_t query) const {
        const vkattn_blocks &blocks = p_->rules.blocks;
        const uint64_t plane = uint64_t{blocks.batches > 1 ? b : 0} * blocks.heads + (blocks.heads > 1 ? h : 0);
        return words_ + (plane * p_->rules.blockRows + query / blocks.queries) * rowWords(*p_);
    }

  private:
    BlockBits(const Problem &p, const uint32_t *words) : p_(&p), words_(words) {}

    const Problem *p_ = nullptr;
    const uint32_t *words_ = nullptr;
};

// The first bit of [from, end) that is set in the words that word(n) returns; `end` where none is.
template <class Word> [[nodiscard]] uint32_t nextBit(const Word &word, uint32_t from, uint32_t end) {
    while (from < end) {
        if (const uint32_t rest = word(from / 32) >> from % 32) return std::min(from + static_cast<uint32_t>(std::countr_zero(rest)), end);
        from = (from / 32 + 1) * 32;
    }
    return end;
}

// What an axis of the grid shows to coordinate c of it.
[[nodiscard]] inline KeyRun axisRange(const vkattn_grid &grid, uint32_t axis, uint32_t c) {
    const int64_t extent = grid.extent[axis], size = grid.size[axis], shift = grid.shift[axis];
    int64_t begin = int64_t{c} - size / 2, end = begin + size;
    if (grid.rule == VKATTN_GRID_CLAMPED) {
        begin = std::clamp<int64_t>(begin, 0, extent - size);
        end = begin + size;
    } else if (grid.rule == VKATTN_GRID_WINDOWS) {
        end = (c + size - shift) / size * size + shift; // the first window ends at the shift
        begin = end - size;
    }
    return {static_cast<uint32_t>(std::max<int64_t>(begin, 0)), static_cast<uint32_t>(std::min(end, extent))};
}

// The keys that position `position` sees along the outermost axis of the grid.
[[nodiscard]] inline KeyRun outerRange(const Rules &rules, int64_t position) {
    const auto [axis, tokens] = rules.outerAxis();
    const int64_t c = position < 0 ? -1 : position / tokens;
    if (c < 0 || c >= rules.grid.extent[axis]) return {0, 0};
    const KeyRun range = axisRange(rules.grid, axis, static_cast<uint32_t>(c));
    return {range.begin * tokens, range.end * tokens};
}

// Keys that are known not to be global, by what looks through the tokens of one batch entry in order.
struct QuietKeys {
    uint32_t begin = 0, end = 0;
};

// The rules of one row. `b`: as bias and masks count batch entries.
class RowRules {
  public:
    RowRules(const Problem &p, const Operands &operands, const BlockBits &blocks, const Sequence &s, uint32_t b, uint32_t head,
             uint32_t query, int64_t position, QuietKeys *quiet = nullptr)
        : rules_(p.rules), quiet_(quiet), position_(position), local_(p.rules.local()), grid_(p.rules.grid.rule != VKATTN_GRID_NONE) {
        if (local_) placeWindow(p, operands, s, b, head);
        if (grid_) placeBox();
        if (p.rules.blocks.kind != VKATTN_BLOCKS_NONE) blockRow_ = blocks.row(b, head, query);
    }

    // The first run of keys at or after `from` that all rules show, up to `end`.
    [[nodiscard]] KeyRun next(uint32_t from, uint32_t end) const {
        KeyRun run{from, end};
        while (run.begin < end) {
            const uint32_t begin = run.begin;
            if (local_) narrow(run, nextLocal(begin, end));
            if (grid_ && run.begin == begin) narrow(run, nextOfBox(begin, end));
            if (blockRow_ && run.begin == begin) narrow(run, nextBlocks(begin, end));
            if (run.begin == begin) return run;
            run.end = end;
        }
        return {end, end};
    }

    // Rows for which this is the same, other than NULL, are shown the same keys.
    [[nodiscard]] const void *sharedKeys() const { return local_ || grid_ ? nullptr : blockRow_; }

    // The keys of [from, end) between the first and the last that the rules show; with a window, up to the end.
    [[nodiscard]] KeyRun range(uint32_t from, uint32_t end) const {
        KeyRun run = next(from, end);
        const uint32_t begin = run.begin;
        if (local_ && begin < end) return {begin, end};
        uint32_t last = begin;
        for (; run.begin < end; run = next(run.end, end)) last = run.end;
        return {begin, last};
    }

  private:
    static void narrow(KeyRun &run, const KeyRun &by) {
        run.begin = by.begin;
        run.end = std::min(run.end, by.end);
    }

    void placeWindow(const Problem &p, const Operands &operands, const Sequence &s, uint32_t b, uint32_t head) {
        dilation_ = rules_.dilation;
        if (p.has(VKATTN_DILATIONS)) dilation_ = std::clamp(operands.word(VKATTN_DILATIONS, head), 1u, rules_.dilation);
        const auto side = [&](int32_t steps) { return steps == openWindow ? int64_t{openWindow} : int64_t{steps} * dilation_; };
        windowBegin_ = position_ - side(rules_.windowLeft);
        windowEnd_ = position_ + side(rules_.windowRight) + 1;
        if (!rules_.global) return;
        operands_ = &operands;
        globalsAt_ = uint64_t{b} * bitWords(p.keyTokens);
        isGlobal_ = position_ >= 0 && position_ < s.keys && (globalWord(static_cast<uint32_t>(position_) / 32) >> position_ % 32 & 1) != 0;
    }
    [[nodiscard]] uint32_t globalWord(uint32_t n) const { return operands_->word(VKATTN_GLOBAL_TOKENS, globalsAt_ + n); }
    [[nodiscard]] uint32_t nextGlobal(uint32_t from, uint32_t end) const {
        const uint32_t asked = from;
        if (quiet_ && from >= quiet_->begin && from < quiet_->end) from = quiet_->end;
        const uint32_t found = nextBit([this](uint32_t n) { return globalWord(n); }, from, end);
        if (quiet_ && asked < found && (asked < quiet_->begin || found > quiet_->end)) *quiet_ = {asked, found};
        return found;
    }
    [[nodiscard]] KeyRun nextLocal(uint32_t from, uint32_t end) const {
        if (isGlobal_) return {from, end};
        // Of the window.
        int64_t begin = std::max<int64_t>(from, windowBegin_);
        if (dilation_ > 1) {
            const int64_t past = (begin - position_) % dilation_;
            if (past != 0) begin += past < 0 ? -past : dilation_ - past;
        }
        KeyRun run{end, end};
        if (begin < std::min<int64_t>(windowEnd_, end)) {
            run.begin = static_cast<uint32_t>(begin);
            run.end = dilation_ > 1 ? run.begin + 1 : static_cast<uint32_t>(std::min<int64_t>(windowEnd_, end));
        }
        if (!rules_.global || run.begin == from) return run;
        const uint32_t global = nextGlobal(from, run.begin);
        return global < run.begin ? KeyRun{global, global + 1} : run;
    }

    void placeBox() {
        const vkattn_grid &grid = rules_.grid;
        columns_ = grid.extent[2], plane_ = grid.extent[1] * grid.extent[2];
        if (position_ < 0 || position_ >= int64_t{plane_} * grid.extent[0]) return; // the box is empty
        const auto at = static_cast<uint32_t>(position_);
        box_[0] = axisRange(grid, 0, at / plane_);
        box_[1] = axisRange(grid, 1, at % plane_ / columns_);
        box_[2] = axisRange(grid, 2, at % columns_);
    }
    [[nodiscard]] KeyRun nextOfBox(uint32_t from, uint32_t end) const {
        // The place in the grid of the first key at or after `from` that lies in the box.
        uint32_t z = from / plane_, y = from % plane_ / columns_, x = from % columns_;
        if (x >= box_[2].end) x = 0, ++y;
        if (y >= box_[1].end) x = y = 0, ++z;
        if (z < box_[0].begin) x = y = 0, z = box_[0].begin;
        if (z >= box_[0].end) return {end, end};
        if (y < box_[1].begin) x = 0, y = box_[1].begin;
        x = std::max(x, box_[2].begin);
        const uint64_t row = uint64_t{z} * plane_ + uint64_t{y} * columns_;
        return {static_cast<uint32_t>(std::min<uint64_t>(row + x, end)), static_cast<uint32_t>(std::min<uint64_t>(row + box_[2].end, end))};
    }

    [[nodiscard]] KeyRun nextBlocks(uint32_t from, uint32_t end) const {
        const uint32_t size = rules_.blocks.keys, first = from / size, past = (end - 1) / size + 1;
        const uint32_t column = nextBit([this](uint32_t n) { return blockRow_[n]; }, first, past);
        if (column >= past) return {end, end};
        uint32_t last = column + 1;
        while (last < past && (blockRow_[last / 32] >> last % 32 & 1) != 0) ++last;
        return {std::max(from, column * size), static_cast<uint32_t>(std::min<uint64_t>(uint64_t{last} * size, end))};
    }

    const Rules &rules_;
    QuietKeys *quiet_; // may be NULL
    int64_t position_;
    bool local_, grid_;
    const Operands *operands_ = nullptr;
    uint64_t globalsAt_ = 0;
    uint32_t dilation_ = 1;
    bool isGlobal_ = false;
    int64_t windowBegin_ = 0, windowEnd_ = 0;
    KeyRun box_[3] = {};
    uint32_t columns_ = 1, plane_ = 1;
    const uint32_t *blockRow_ = nullptr;
};

} // namespace vkattn
