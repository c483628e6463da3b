// Continue targets of their own, in functions made word by word and in our own shaders.
#include "core/plan/plan.hpp"
#include "core/shaders/continues.hpp"
#include "core/shaders/shader_bank.hpp"

#include <gtest/gtest.h>

#include <map>
#include <vector>

using namespace vkattn;

namespace {

using Words = std::vector<uint32_t>;
constexpr uint32_t opIAdd = 128, opPhi = 245, opLoopMerge = 246, opSelectionMerge = 247, opLabel = 248, opBranch = 249,
                   opBranchConditional = 250, opReturn = 253;
constexpr uint32_t before = 10, header = 11, body = 12, after = 13, inner = 14, number = 1, zero = 2, counter = 3, next = 4, condition = 5,
                   bound = 50;

struct Function {
    Words words = {0x07230203, 0x00010000, 0, bound, 0};
    Function &add(uint32_t opcode, const Words &operands) {
        words.push_back(static_cast<uint32_t>(operands.size() + 1) << 16 | opcode);
        words.insert(words.end(), operands.begin(), operands.end());
        return *this;
    }
};

Words split(const Words &words) {
    Words out(mostWordsOfSplit(words.data(), words.size())), scratch(splitScratchBytes(words.data()) / 4);
    out.resize(splitContinues(words.data(), words.size(), scratch.data(), out.data()));
    return out;
}

// What a loop's header says, and the blocks by label: instructions with their opcode first.
struct BlocksOfFunction {
    std::map<uint32_t, std::vector<Words>> of;
    std::vector<uint32_t> order;
    explicit BlocksOfFunction(const Words &words) {
        uint32_t block = 0;
        for (size_t at = 5; at < words.size(); at += words[at] >> 16) {
            Words in(words.begin() + static_cast<ptrdiff_t>(at), words.begin() + static_cast<ptrdiff_t>(at + (words[at] >> 16)));
            in[0] &= 0xffffu;
            if (in[0] == opLabel) {
                block = in[1];
                order.push_back(block);
                EXPECT_TRUE(of.emplace(block, std::vector<Words>()).second) << "two blocks " << block;
                EXPECT_LT(block, words[3]);
            } else if (block != 0) {
                of[block].push_back(in);
            }
        }
    }
};

// for (counter = 0; condition; counter = next) in two blocks, as glslc -O leaves it.
Function loop(uint32_t continueTarget) {
    Function f;
    f.add(opLabel, {before}).add(opBranch, {header});
    f.add(opLabel, {header}).add(opPhi, {number, counter, zero, before, next, body}).add(opLoopMerge, {after, continueTarget, 1});
    f.add(opBranchConditional, {condition, body, after});
    f.add(opLabel, {body}).add(opIAdd, {number, next, counter, counter}).add(opBranch, {header});
    f.add(opLabel, {after}).add(opReturn, {});
    return f;
}

} // namespace

TEST(Continues, aBodyGetsATargetOfItsOwn) {
    const Words words = split(loop(body).words);
    const BlocksOfFunction blocks(words);
    EXPECT_EQ(words[3], bound + 1);
    EXPECT_EQ(blocks.order, (std::vector<uint32_t>{before, header, body, bound, after}));
    EXPECT_EQ(blocks.of.at(header)[0], (Words{opPhi, number, counter, zero, before, next, bound}));
    EXPECT_EQ(blocks.of.at(header)[1], (Words{opLoopMerge, after, bound, 1}));
    EXPECT_EQ(blocks.of.at(body), (std::vector<Words>{{opIAdd, number, next, counter, counter}, {opBranch, bound}}));
    EXPECT_EQ(blocks.of.at(bound), (std::vector<Words>{Words{opBranch, header}}));
}

// A `continue` leads to the target too; a target that is the header; a condition at the end.
TEST(Continues, othersStay) {
    Function continues;
    continues.add(opLabel, {before}).add(opBranch, {header}).add(opLabel, {header}).add(opLoopMerge, {after, body, 0});
    continues.add(opBranchConditional, {condition, inner, after}).add(opLabel, {inner}).add(opSelectionMerge, {20, 0});
    continues.add(opBranchConditional, {condition, body, 20}).add(opLabel, {20}).add(opBranch, {body});
    continues.add(opLabel, {body}).add(opBranch, {header}).add(opLabel, {after}).add(opReturn, {});
    Function ofHeader;
    ofHeader.add(opLabel, {before}).add(opBranch, {header}).add(opLabel, {header}).add(opLoopMerge, {after, header, 0});
    ofHeader.add(opBranchConditional, {condition, header, after}).add(opLabel, {after}).add(opReturn, {});
    Function atEnd;
    atEnd.add(opLabel, {before}).add(opBranch, {header}).add(opLabel, {header}).add(opLoopMerge, {after, body, 0}).add(opBranch, {body});
    atEnd.add(opLabel, {body}).add(opBranchConditional, {condition, header, after}).add(opLabel, {after}).add(opReturn, {});
    for (const Function &f : {continues, ofHeader, atEnd}) {
        Words words = split(f.words);
        words[3] = bound; // ids may be reserved
        EXPECT_EQ(words, f.words);
    }
}

// Loops of one block each, one in the other's body.
TEST(Continues, loopsInLoops) {
    Function f;
    f.add(opLabel, {before}).add(opBranch, {header});
    f.add(opLabel, {header}).add(opPhi, {number, counter, zero, before, next, body}).add(opLoopMerge, {after, body, 1});
    f.add(opBranchConditional, {condition, inner, after});
    f.add(opLabel, {inner})
        .add(opPhi, {number, 6, zero, header, 7, 21})
        .add(opLoopMerge, {body, 21, 1})
        .add(opBranchConditional, {condition, 21, body});
    f.add(opLabel, {21}).add(opIAdd, {number, 7, 6, 6}).add(opBranch, {inner});
    f.add(opLabel, {body}).add(opIAdd, {number, next, counter, counter}).add(opBranch, {header});
    f.add(opLabel, {after}).add(opReturn, {});
    const BlocksOfFunction blocks(split(f.words));
    const uint32_t outer = bound, within = bound + 1; // in the order of the headers
    EXPECT_EQ(blocks.order, (std::vector<uint32_t>{before, header, inner, 21, within, body, outer, after}));
    EXPECT_EQ(blocks.of.at(header)[0], (Words{opPhi, number, counter, zero, before, next, outer}));
    EXPECT_EQ(blocks.of.at(inner)[0], (Words{opPhi, number, 6, zero, header, 7, within}));
    EXPECT_EQ(blocks.of.at(within), (std::vector<Words>{Words{opBranch, inner}}));
}

// Nothing but an empty block in the place of a branch, and what names that.
TEST(Continues, ourShadersKeepEverythingElse) {
    size_t loops = 0, own = 0;
    for (const ModuleInfo &info : moduleTable) {
        const ShaderModule &shader = shaderBank[&info - moduleTable];
        if (!shader.built()) continue;
        for (const Spirv &spirv : {shader.plain, shader.nanPreserving}) {
            const Words words(spirv.words, spirv.words + spirv.bytes / 4);
            const BlocksOfFunction given(words), made(split(words));
            for (const auto &[label, instructions] : given.of) {
                const auto &after = made.of.at(label);
                ASSERT_EQ(after.size(), instructions.size()) << info.name;
                for (size_t n = 0; n < after.size(); ++n) {
                    ASSERT_EQ(after[n].size(), instructions[n].size()) << info.name;
                    ASSERT_EQ(after[n][0], instructions[n][0]) << info.name;
                    if (after[n][0] != opPhi && after[n][0] != opLoopMerge && after[n][0] != opBranch) {
                        ASSERT_EQ(after[n], instructions[n]) << info.name;
                    }
                    if (after[n][0] != opLoopMerge) continue;
                    ++loops;
                    const std::vector<Words> &target = made.of.at(after[n][2]);
                    if (after[n] == instructions[n]) continue;
                    ++own;
                    ASSERT_EQ(target, (std::vector<Words>{Words{opBranch, label}})) << info.name;
                }
            }
        }
    }
    EXPECT_GT(own, loops / 2);
}
