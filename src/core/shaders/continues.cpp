#include "core/shaders/continues.hpp"

#include "core/shaders/instructions.hpp"

#include <algorithm>

namespace vkattn {
namespace {

enum Opcode : uint32_t { opPhi = 245, opLoopMerge = 246, opLabel = 248, opBranch = 249, opBranchConditional = 250, opSwitch = 251 };
// A branch to the new block, the block's label and its branch, in place of one branch.
constexpr uint32_t addedWords = 4;

// Of a block.
struct Block {
    uint32_t header;     // of the loop whose continue target the block is; 0: of none
    uint32_t target;     // the block that takes its place as that
    uint32_t references; // branches to the block
    uint32_t closes;     // the block ends with a branch to the loop's header
};

class Splitter {
  public:
    Splitter(Block *blocks, uint32_t bound, uint32_t *out) : blocks_(blocks), bound_(bound), begin_(out), out_(out) {
        std::fill_n(blocks, bound, Block{});
    }

    size_t run(const uint32_t *words, size_t wordCount) {
        forInstructions(words, wordCount, [&](const uint32_t *in, uint32_t opcode, uint32_t length) { look(in, opcode, length); });
        copy(words, spirvHeaderWords);
        begin_[spirvBoundAt] = bound_;
        forInstructions(words, wordCount, [&](const uint32_t *in, uint32_t opcode, uint32_t length) { write(in, opcode, length); });
        return static_cast<size_t>(out_ - begin_);
    }

  private:
    void look(const uint32_t *in, uint32_t opcode, uint32_t length) {
        switch (opcode) {
        case opLabel:
            block_ = in[1];
            break;
        case opLoopMerge: // a header comes before its continue target
            if (in[2] != block_) blocks_[in[2]].header = block_, blocks_[in[2]].target = bound_++;
            break;
        case opBranch:
            ++blocks_[in[1]].references;
            blocks_[block_].closes = blocks_[block_].header == in[1];
            break;
        case opBranchConditional:
            ++blocks_[in[2]].references;
            ++blocks_[in[3]].references;
            break;
        case opSwitch:
            ++blocks_[in[2]].references;
            for (uint32_t n = 4; n < length; n += 2) ++blocks_[in[n]].references;
            break;
        default:
            break;
        }
    }

    [[nodiscard]] bool splits(const Block &block) const { return block.header != 0 && block.references == 1 && block.closes != 0; }

    void write(const uint32_t *in, uint32_t opcode, uint32_t length) {
        uint32_t *const written = out_;
        copy(in, length);
        switch (opcode) {
        case opLabel:
            block_ = in[1];
            break;
        case opLoopMerge:
            if (const Block &target = blocks_[in[2]]; splits(target)) written[2] = target.target;
            break;
        case opPhi: // of a header: the value comes by the new block
            for (uint32_t n = 4; n < length; n += 2)
                if (const Block &from = blocks_[in[n]]; splits(from) && from.header == block_) written[n] = from.target;
            break;
        case opBranch:
            if (const Block &from = blocks_[block_]; splits(from)) {
                written[1] = from.target;
                const uint32_t block[] = {2u << 16 | opLabel, from.target, 2u << 16 | opBranch, from.header};
                copy(block, addedWords);
            }
            break;
        default:
            break;
        }
    }

    void copy(const uint32_t *words, size_t count) { out_ = std::copy_n(words, count, out_); }

    Block *blocks_;
    uint32_t bound_, block_ = 0;
    uint32_t *begin_, *out_;
};

} // namespace

size_t mostWordsOfSplit(const uint32_t *words, size_t wordCount) {
    size_t loops = 0;
    forInstructions(words, wordCount, [&](const uint32_t *, uint32_t opcode, uint32_t) { loops += opcode == opLoopMerge; });
    return wordCount + addedWords * loops;
}

size_t splitScratchBytes(const uint32_t *words) {
    return words[spirvBoundAt] * sizeof(Block);
}

size_t splitContinues(const uint32_t *words, size_t wordCount, void *scratch, uint32_t *out) {
    return Splitter(static_cast<Block *>(scratch), words[spirvBoundAt], out).run(words, wordCount);
}

} // namespace vkattn
