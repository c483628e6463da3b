// Folding of specialization constants, on modules made word by word and on our own shaders.
#include "core/plan/plan.hpp"
#include "core/shaders/shader_bank.hpp"
#include "core/shaders/specialize.hpp"
#include "lib/interop.h"

#include <gtest/gtest.h>

#include <cstring>

#include <algorithm>
#include <map>
#include <vector>

using namespace vkattn;

namespace {

using Words = std::vector<uint32_t>;

struct Instructions {
    Words words = {0x07230203, 0x00010000, 0, 100, 0}; // ids below 100
    void add(uint32_t opcode, const Words &operands) {
        words.push_back(static_cast<uint32_t>(operands.size() + 1) << 16 | opcode);
        words.insert(words.end(), operands.begin(), operands.end());
    }
};

Words fold(const Words &words, const Words &values, uint32_t folded) {
    Words out(words.size()), scratch(foldScratchBytes(words.data()) / 4);
    const Specialization specialization = {values.data(), static_cast<uint32_t>(values.size()), folded};
    out.resize(foldConstants(words.data(), words.size(), specialization, scratch.data(), out.data()));
    Words inPlace = words;
    inPlace.resize(foldConstants(inPlace.data(), words.size(), specialization, scratch.data(), inPlace.data()));
    EXPECT_EQ(inPlace, out);
    return out;
}

// Instructions by opcode; fails where lengths do not add up to the module.
std::multimap<uint32_t, Words> instructionsOf(const Words &words) {
    std::multimap<uint32_t, Words> all;
    size_t at = 5;
    while (at < words.size()) {
        const uint32_t length = words[at] >> 16;
        if (length == 0 || at + length > words.size()) break;
        all.emplace(words[at] & 0xffffu,
                    Words(words.begin() + static_cast<ptrdiff_t>(at) + 1, words.begin() + static_cast<ptrdiff_t>(at + length)));
        at += length;
    }
    EXPECT_EQ(at, words.size());
    return all;
}

constexpr uint32_t opTypeBool = 20, opTypeInt = 21, opConstantTrue = 41, opConstantFalse = 42, opConstant = 43, opSpecConstantTrue = 48,
                   opSpecConstant = 50, opSpecConstantOp = 52, opDecorate = 71, specId = 1;
constexpr uint32_t boolType = 1, intType = 2, a = 10, b = 11, yes = 12, open = 13, openBool = 14, result = 20;

// a = 13 and b = 4 and yes = true are folded; open and openBool are left to the driver.
Instructions constantsModule() {
    Instructions m;
    m.add(opDecorate, {a, specId, 0}), m.add(opDecorate, {b, specId, 1}), m.add(opDecorate, {yes, specId, 2});
    m.add(opDecorate, {open, specId, 3}), m.add(opDecorate, {openBool, specId, 4});
    m.add(opTypeBool, {boolType}), m.add(opTypeInt, {intType, 32, 0});
    m.add(opSpecConstant, {intType, a, 1}), m.add(opSpecConstant, {intType, b, 1}), m.add(49, {boolType, yes});
    m.add(opSpecConstant, {intType, open, 1}), m.add(opSpecConstantTrue, {boolType, openBool});
    return m;
}
const Words values = {13, 4, 1, 99, 0};
constexpr uint32_t folded = 7;

std::multimap<uint32_t, Words> foldOperation(uint32_t type, const Words &operation) {
    Instructions m = constantsModule();
    Words operands = {type, result};
    operands.insert(operands.end(), operation.begin(), operation.end());
    m.add(opSpecConstantOp, operands);
    return instructionsOf(fold(m.words, values, folded));
}

} // namespace

TEST(Specialize, foldedConstantsLoseTheirIdsAndTheOthersKeepThem) {
    const auto all = instructionsOf(fold(constantsModule().words, values, folded));
    EXPECT_EQ(all.count(opDecorate), 2u);
    EXPECT_EQ(all.count(opSpecConstant), 1u);
    EXPECT_EQ(all.count(opSpecConstantTrue), 1u);
    ASSERT_EQ(all.count(opConstant), 2u);
    EXPECT_EQ(all.find(opConstant)->second, (Words{intType, a, 13}));
    EXPECT_EQ(std::next(all.find(opConstant))->second, (Words{intType, b, 4}));
    ASSERT_EQ(all.count(opConstantTrue), 1u);
    EXPECT_EQ(all.find(opConstantTrue)->second, (Words{boolType, yes}));
}

TEST(Specialize, operationsOnKnownConstantsAreComputed) {
    const struct {
        uint32_t opcode, expected;
    } numbers[] = {{128, 17}, {130, 9}, {132, 52}, {134, 3}, {137, 1}, {194, 0}, {196, 208}, {197, 13}, {198, 9}, {199, 4}};
    for (const auto &[opcode, expected] : numbers) {
        const auto all = foldOperation(intType, {opcode, a, b});
        EXPECT_EQ(all.count(opSpecConstantOp), 0u) << opcode;
        bool found = false;
        for (auto [at, end] = all.equal_range(opConstant); at != end; ++at) found = found || at->second == Words{intType, result, expected};
        EXPECT_TRUE(found) << opcode;
    }
    const struct {
        uint32_t opcode;
        bool expected;
    } tests[] = {{170, false}, {171, true}, {172, true}, {174, true}, {176, false}, {178, false}};
    for (const auto &[opcode, expected] : tests) {
        const auto all = foldOperation(boolType, {opcode, a, b});
        const auto [at, end] = all.equal_range(expected ? opConstantTrue : opConstantFalse);
        EXPECT_EQ(std::count_if(at, end, [](const auto &i) { return i.second == Words{boolType, result}; }), 1) << opcode;
    }
}

TEST(Specialize, oneKnownOperandMayDecide) {
    Instructions m = constantsModule();
    m.add(opSpecConstantOp, {boolType, 30, 168, yes});           // no = !yes
    m.add(opSpecConstantOp, {boolType, 31, 167, openBool, 30});  // openBool && no
    m.add(opSpecConstantOp, {boolType, 32, 166, yes, openBool}); // yes || openBool
    m.add(opSpecConstantOp, {intType, 33, 169, yes, a, open});   // yes ? a : open
    m.add(opSpecConstantOp, {intType, 34, 169, 30, a, open});    // no ? a : open
    m.add(opSpecConstantOp, {intType, 35, 128, a, open});
    const auto all = instructionsOf(fold(m.words, values, folded));
    EXPECT_EQ(all.count(opConstantFalse), 2u);
    EXPECT_EQ(all.count(opConstantTrue), 2u);
    EXPECT_EQ(all.count(opConstant), 3u);
    EXPECT_EQ(all.count(opSpecConstantOp), 2u);
}

TEST(Specialize, whatIsNotUnderstoodStays) {
    EXPECT_EQ(foldOperation(intType, {135, a, b}).count(opSpecConstantOp), 1u); // OpSDiv
    Instructions m = constantsModule();
    m.add(opConstant, {intType, 40, 0});
    m.add(opSpecConstantOp, {intType, 41, 134, a, 40}); // division by 0
    EXPECT_EQ(instructionsOf(fold(m.words, values, folded)).count(opSpecConstantOp), 1u);
}

TEST(Specialize, ourShadersKeepEverythingElse) {
    for (const ModuleInfo &info : moduleTable) {
        const ShaderModule &shader = shaderBank[&info - moduleTable];
        if (!shader.built()) continue;
        for (const Spirv &spirv : {shader.plain, shader.nanPreserving}) {
            const Words words(spirv.words, spirv.words + spirv.bytes / 4);
            const Words ones(PipelineKey::maxConstants, 1);
            const auto before = instructionsOf(words), after = instructionsOf(fold(words, ones, interop::conceptConstants));
            // The others choose in their branches alone.
            if (std::strncmp(info.name, "flash", 5) == 0) {
                EXPECT_LT(after.count(opSpecConstantOp), before.count(opSpecConstantOp)) << info.name;
            }
            for (auto [at, end] = after.equal_range(opDecorate); at != end; ++at)
                if (at->second[1] == specId) {
                    EXPECT_EQ(interop::conceptConstants >> at->second[2] & 1u, 0u) << info.name;
                }
            for (uint32_t opcode = 54; opcode < 400; ++opcode)
                if (opcode != opDecorate) {
                    EXPECT_EQ(before.count(opcode), after.count(opcode)) << info.name << " " << opcode;
                }
        }
    }
}
