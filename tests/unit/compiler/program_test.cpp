// Programs of hooks as texts: what is one, and what the reasons say where one is not.
#include "vkattn/program.hpp"

#include "vkattn/cpu.h"
#include "vkattn/operations.hpp"
#include "vkattn/vkattn.hpp"

#include <cstring>
#include <gtest/gtest.h>

using namespace vkattn;

namespace {

const std::string signature = "float vkattnScore(float score, uint batch, uint head, uint query, uint key)",
                  visible = "bool vkattnVisible(uint batch, uint head, uint query, uint key)";

uint32_t hooksIn(const std::string &text) {
    std::string error;
    const std::unique_ptr<Program> program = Program::make(text, "own.glsl", error);
    EXPECT_TRUE(program) << error << "\n" << text;
    return program ? program->get()->hooks : 0;
}

std::string errorOf(const std::string &text) {
    std::string error;
    EXPECT_FALSE(Program::make(text, "own.glsl", error)) << text;
    return error;
}

TEST(Program, hasTheHooksThatItsTextDefines) {
    EXPECT_EQ(hooksIn(signature + " { return score; }"), VKATTN_HOOK_SCORE);
    EXPECT_EQ(hooksIn(visible + " { return key > 3u; }"), VKATTN_HOOK_VISIBLE);
    EXPECT_EQ(hooksIn("// " + visible + " {}\n/* float vkattnScoreSlope( */\n" + signature + "\n{\n return 2.0 * score;\n}"),
              VKATTN_HOOK_SCORE);
    EXPECT_EQ(hooksIn("const float half_ = 0.5;\nfloat twice(float x) { return x / half_; }\n"
                      "float  vkattnScoreSlope ( in float s, const uint b, uint h, uint, uint j ) { return twice(1.0); }\n" +
                      signature + " { return twice(score); }\n" + visible + " { return vkattnWord(0u) != vkattnBuffer(1u, key); }"),
              VKATTN_HOOK_SCORE | VKATTN_HOOK_VISIBLE | VKATTN_HOOK_SCORE_SLOPE);
    const std::string probability = "float vkattnProbability(float p, uint batch, uint head, uint query, uint key)";
    EXPECT_EQ(hooksIn(probability + " { return 0.5 * p; }"), VKATTN_HOOK_PROBABILITY);
    EXPECT_EQ(hooksIn(visible + " { return true; }" + probability + " { return p; }"), VKATTN_HOOK_VISIBLE | VKATTN_HOOK_PROBABILITY);
    EXPECT_EQ(hooksIn("float vkattnRow(float score) { return 1.0 / (1.0 + exp(-score)); }"), VKATTN_HOOK_ROW);
    // A prototype, and a call of one hook by another.
    EXPECT_EQ(hooksIn(visible + ";\n" + signature + " { return vkattnVisible(batch, head, query, key) ? score : 0.0; }\n" + visible +
                      " { return true; }"),
              VKATTN_HOOK_SCORE | VKATTN_HOOK_VISIBLE);
    // Everything that a program may call.
    EXPECT_EQ(hooksIn(signature + " { return score + vkattnNumber(vkattnWord(1u)) + vkattnBufferNumber(0u, vkattnBufferLength(3u)) + "
                                  "float(vkattnPosition(query)) + float(vkattnQueryTokens() + vkattnKeyTokens()); }"),
              VKATTN_HOOK_SCORE);
}

struct Broken {
    const char *name;
    std::string text;
    uint32_t line;
    const char *reason;
};

TEST(Program, saysWhatIsWrongAndWhere) {
    const Broken all[] = {
        {"no hook", "float twice(float x) { return x + x; }", 1, "no hook"},
        {"empty", "", 1, "no hook"},
        {"undeclared", "\n" + signature + " {\n    return score * slope;\n}", 3, "'slope' : undeclared identifier"},
        {"syntax", signature + " {\n    return score\n}", 3, "syntax error"},
        {"type", signature + " {\n\n    return vec2(score);\n}", 3, "return"},
        {"returns", "\nint vkattnScore(float score, uint batch, uint head, uint query, uint key) { return 1; }", 2,
         "expected float vkattnScore("},
        {"parameters", "float vkattnScore(float score, uint head) { return score; }", 1,
         "vkattnScore(float, uint), expected float vkattnScore("},
        {"out", "bool vkattnVisible(uint batch, uint head, uint query, inout uint key) { return true; }", 1, "inout"},
        {"unknown hook", "\n\nfloat vkattnScores(float score, uint batch, uint head, uint query, uint key) { return score; }", 3,
         "there is no hook 'vkattnScores'"},
        {"twice", visible + " { return true; }\n" + visible + " { return false; }", 2, "a second time"},
        {"version", "#version 450\n" + signature + " { return score; }", 1, "#version 450"},
        {"define", signature + " { return score; }\n  #define seen true\n", 2, "preprocessor"},
        {"include", "#include \"lib/math.glsl\"\n" + signature + " { return score; }", 1, "preprocessor"},
        {"memory", "\nlayout(set = 0, binding = 0) buffer Own { uint own[]; };\n" + signature + " { return score; }", 2,
         "memory of its own"},
        {"shared", "shared float sums[64];\n" + signature + " { return score; }", 1, "memory of its own"},
        {"main", signature + " { return score; }\nvoid main() { }", 2, "main belongs to the kernels"},
        {"barrier", signature + " {\n    barrier();\n    return score;\n}", 2, "would hang"},
        {"open brace", signature + " { return score;", 1, "'{'"},
        {"closing brace", signature + " { return score; }\n}", 2, "'}'"},
        {"comment", signature + " { return score; }\n/* and so on", 2, "comment"},
        {"zero in a comment", signature + " { return score; }\n// " + std::string(1, '\0') + "\n", 2, "zero byte"},
        {"backslash", signature + " { return score; \\\n}", 1, "backslash"},
        {"slope alone",
         "float vkattnScoreSlope(float score, uint b, uint h, uint i, uint j) { return 1.0; }\n" + visible + " { return true; }", 1,
         "vkattnScoreSlope without vkattnScore"},
        // What the kernels have is not a program's.
        {"inner buffer", signature + " {\n    return lengths[7] == 0u ? score : 0.0;\n}", 2, "'lengths' : undeclared identifier"},
        {"inner output", visible + " {\n    outWords[0] = 1u;\n    return true;\n}", 2, "'outWords' : undeclared identifier"},
        {"inner function", visible + " { return ruleWord(3u) == 0u; }", 1, "'ruleWord'"},
        {"inner macro", visible + "\n{ return VKATTN_FLOAT_CONTROLS; }", 2, "undeclared identifier"},
        {"recursion",
         "float again(float x);\n" + signature + " { return again(score); }\nfloat again(float x) { return x > 1.0 ? again(x - 1.0) : x; }",
         3, "again"},
    };
    for (const Broken &each : all) {
        const std::string error = errorOf(each.text);
        if (std::strcmp(each.name, "recursion") != 0) { // the compiler names no line of a cycle of calls
            EXPECT_EQ(error.rfind("own.glsl:" + std::to_string(each.line) + ":", 0), 0u) << each.name << ": " << error;
        }
        EXPECT_NE(error.find(each.reason), std::string::npos) << each.name << ": " << error;
    }
}

TEST(Program, isTheSameForTheSameText) {
    std::string error;
    const std::string text = signature + " { return score + 1.0; }";
    const std::unique_ptr<Program> one = Program::make(text, "a.glsl", error), same = Program::make(text, "b.glsl", error),
                                   other = Program::make(text + " ", "a.glsl", error);
    ASSERT_TRUE(one && same && other);
    EXPECT_EQ(one->get()->hash, same->get()->hash);
    EXPECT_NE(one->get()->hash, other->get()->hash);
    EXPECT_STREQ(one->get()->name, "a.glsl");
    EXPECT_EQ(one->compiledModules(), 0u);
}

vkattn_problem problemWith(const vkattn_program *program) {
    const vkattn_layout layout = packed(VKATTN_F32, 1, 2, 48, 16);
    vkattn_problem p = problem(layout, layout, layout, layout);
    p.program = program;
    return p;
}

TEST(Program, isCompiledForWhatAPlanDispatches) {
    std::string error;
    const std::unique_ptr<Program> program = Program::make(signature + " { return 0.5 * score; }", "half.glsl", error);
    ASSERT_TRUE(program) << error;
    vkattn_caps caps{};
    caps.structSize = sizeof caps;
    vkattn_diagnostic why{};
    ASSERT_EQ(vkattnMinimumCaps(&caps, &why), VKATTN_OK) << why.message;
    vkattn_problem p = problemWith(program->get());
    p.kernel = VKATTN_KERNEL_STAGED;
    ASSERT_EQ(program->prepare(caps, p, &why), VKATTN_OK) << why.message;
    EXPECT_EQ(program->compiledModules(), 1u);
    ASSERT_EQ(program->prepare(caps, p, &why), VKATTN_OK) << why.message;
    EXPECT_EQ(program->compiledModules(), 1u) << "a module is compiled once";
    // The list of dispatches has its SPIR-V, in one dispatch.
    vkattn_dispatch_list list{};
    list.structSize = sizeof list;
    ASSERT_EQ(vkattnListDispatches(&caps, nullptr, &p, nullptr, 0, &list, &why), VKATTN_OK) << why.message;
    std::vector<uint64_t> scratch(list.scratchBytes / 8 + 1);
    ASSERT_EQ(vkattnListDispatches(&caps, nullptr, &p, scratch.data(), 8 * scratch.size(), &list, &why), VKATTN_OK) << why.message;
    uint32_t own = 0;
    for (uint32_t n = 0; n < list.dispatchCount; ++n) {
        ASSERT_TRUE(list.dispatches[n].spirv) << list.dispatches[n].name;
        for (uint32_t m = 0; m < program->get()->moduleCount; ++m)
            own += list.dispatches[n].spirv == program->get()->modules[m].words[caps.floatControlsNan ? 1 : 0];
    }
    EXPECT_EQ(own, 1u);
    // Another program's problem, and none.
    p.program = nullptr;
    EXPECT_EQ(program->prepare(caps, p, &why), VKATTN_ERROR_INVALID_ARGUMENT);
    EXPECT_NE(std::string(why.message).find("half.glsl"), std::string::npos);
}

// Of a backward pass that only the staged kernel computes: one module has the scores and their slopes, another the pairs that are hidden.
TEST(Program, isCompiledForABackwardPass) {
    const std::string hooks =
        signature + " { return 0.5 * score; }\nfloat vkattnScoreSlope(float score, uint b, uint h, uint i, uint j) { return 0.5; }\n";
    vkattn_caps caps{};
    caps.structSize = sizeof caps;
    vkattn_diagnostic why{};
    ASSERT_EQ(vkattnMinimumCaps(&caps, &why), VKATTN_OK) << why.message;
    for (const bool hides : {false, true}) {
        std::string error;
        const std::unique_ptr<Program> program =
            Program::make(hides ? hooks + visible + " { return key != 3u; }" : hooks, "half.glsl", error);
        ASSERT_TRUE(program) << error;
        vkattn_problem p = problemWith(program->get());
        p.flags = VKATTN_ROW_STATISTICS;
        p.lse = packed(VKATTN_F32, 1, 2, 48, 2);
        vkattn_attention_gradient gradient = attentionGradient(p, p.out);
        gradient.dQ = p.q;
        gradient.dWeights = packed(VKATTN_F32, 1, 2, 48, 48);
        ASSERT_EQ(program->prepare(caps, operation(gradient), &why), VKATTN_OK) << why.message;
        EXPECT_EQ(program->compiledModules(), hides ? 2u : 1u);
    }
}

TEST(Program, saysWhichOfItsNamesAKernelHas) {
    std::string error;
    const std::unique_ptr<Program> program =
        Program::make("const uint tileRows = 3u;\n" + signature + " { return score; }", "own.glsl", error);
    ASSERT_TRUE(program) << error;
    vkattn_caps caps{};
    caps.structSize = sizeof caps;
    vkattn_diagnostic why{};
    ASSERT_EQ(vkattnMinimumCaps(&caps, &why), VKATTN_OK);
    caps.maxStorageBuffersPerStage = 16;
    vkattn_problem p = problemWith(program->get());
    p.kernel = VKATTN_KERNEL_FLASH;
    ASSERT_EQ(program->prepare(caps, p, &why), VKATTN_ERROR_INVALID_ARGUMENT);
    EXPECT_NE(std::string(why.message).find("'tileRows' : redefinition"), std::string::npos) << why.message;
}

TEST(Program, ofRowsHasNoSums) {
    std::string error;
    const std::unique_ptr<Program> made = Program::make("float vkattnRow(float score) { return max(score, 0.0); }", "relu.glsl", error);
    ASSERT_TRUE(made) << error;
    vkattn_diagnostic why{};
    const vkattn_problem plain = problemWith(made->get());
    EXPECT_EQ(vkattnValidateProblem(&plain, &why), VKATTN_OK) << why.message;
    const auto refused = [&](const char *operand, auto change) {
        vkattn_problem p = plain;
        change(p);
        EXPECT_EQ(vkattnValidateProblem(&p, &why), VKATTN_ERROR_INVALID_ARGUMENT);
        EXPECT_NE(std::string(why.message).find(std::string(operand) + " is given beside the program relu.glsl"), std::string::npos)
            << why.message;
    };
    refused("lse", [](vkattn_problem &p) { p.lse = packed(VKATTN_F32, 1, 2, 48, 1); });
    refused("weights", [](vkattn_problem &p) { p.weights = packed(VKATTN_F32, 1, 2, 48, 48); });
    refused("sinks", [](vkattn_problem &p) { p.presentRoles |= VKATTN_PRESENT(VKATTN_SINKS); });
    const vkattn_attention_statistics statistics = attentionStatistics(plain);
    const vkattn_operation ofStatistics = operation(statistics);
    EXPECT_EQ(vkattnValidateOperation(&ofStatistics, &why), VKATTN_ERROR_INVALID_ARGUMENT);
    EXPECT_NE(std::string(why.message).find("relu.glsl of statistics.attention has vkattnRow"), std::string::npos) << why.message;
}

TEST(Program, isCheckedAsAPartOfAProblem) {
    std::string error;
    const std::unique_ptr<Program> made = Program::make(signature + " { return score; }", "own.glsl", error);
    ASSERT_TRUE(made);
    const auto refusalOf = [](const vkattn_problem &p) {
        vkattn_diagnostic why{};
        EXPECT_EQ(vkattnValidateProblem(&p, &why), VKATTN_ERROR_INVALID_ARGUMENT);
        return std::string(why.message);
    };
    vkattn_problem without = problemWith(nullptr);
    without.programWords[3] = 1;
    EXPECT_NE(refusalOf(without).find("without a program"), std::string::npos);
    const auto spoiled = [&](auto spoil) {
        vkattn_program program = *made->get();
        spoil(program);
        return refusalOf(problemWith(&program));
    };
    EXPECT_NE(spoiled([](vkattn_program &p) { p.structSize -= 8; }).find("another version"), std::string::npos);
    EXPECT_NE(spoiled([](vkattn_program &p) { p.hooks = 0; }).find("expected vkattn_hook_bits"), std::string::npos);
    EXPECT_NE(spoiled([](vkattn_program &p) { p.hooks = 33; }).find("expected vkattn_hook_bits"), std::string::npos);
    EXPECT_NE(spoiled([](vkattn_program &p) { p.hooks = VKATTN_HOOK_VISIBLE | VKATTN_HOOK_SCORE_SLOPE; }).find("without vkattnScore"),
              std::string::npos);
    EXPECT_NE(spoiled([](vkattn_program &p) { p.hash = 0; }).find("hash of 0"), std::string::npos);
    EXPECT_NE(spoiled([](vkattn_program &p) { p.modules = nullptr; }).find("no modules"), std::string::npos);
    vkattn_problem large = problemWith(made->get());
    large.programBufferWords[2] = 0xffffffffu;
    EXPECT_NE(refusalOf(large).find("words, expected at most"), std::string::npos);
    // Of other kernels than the library's.
    vkattn_program other = *made->get();
    other.shaderHash ^= 1;
    vkattn_problem p = problemWith(&other);
    vkattn_caps caps{};
    caps.structSize = sizeof caps;
    vkattn_diagnostic why{};
    ASSERT_EQ(vkattnMinimumCaps(&caps, &why), VKATTN_OK);
    vkattn_explanation plan{};
    plan.structSize = sizeof plan;
    EXPECT_EQ(vkattnExplain(&caps, nullptr, &p, &plan, &why), VKATTN_ERROR_INVALID_ARGUMENT);
    EXPECT_NE(std::string(why.message).find("other kernels"), std::string::npos) << why.message;
    // A compiler that could make no module for matrix units or more than the staged kernel: AUTO takes what there is.
    vkattn_program few = *made->get();
    vkattn_program_module pairs{};
    for (uint32_t n = 0; n < few.moduleCount; ++n)
        if (std::strcmp(few.modules[n].name, "pairs") == 0) pairs = few.modules[n];
    few.modules = &pairs, few.moduleCount = 1;
    p.program = &few;
    ASSERT_EQ(vkattnExplain(&caps, nullptr, &p, &plan, &why), VKATTN_OK) << why.message;
    EXPECT_STREQ(plan.kernelName, "staged");
    // The processor has no GLSL.
    EXPECT_EQ(vkattnCpuRun(&p, nullptr, 0, 1, &why), VKATTN_ERROR_INVALID_ARGUMENT);
    std::vector<float> numbers(1 * 2 * 48 * 16);
    const vkattn_operand_memory operands[] = {{VKATTN_Q, numbers.data(), 4 * numbers.size()},
                                              {VKATTN_K, numbers.data(), 4 * numbers.size()},
                                              {VKATTN_V, numbers.data(), 4 * numbers.size()},
                                              {VKATTN_OUT, numbers.data(), 4 * numbers.size()}};
    EXPECT_EQ(vkattnCpuRun(&p, operands, 4, 1, &why), VKATTN_ERROR_UNSUPPORTED);
    EXPECT_NE(std::string(why.message).find("no form for the processor"), std::string::npos) << why.message;
}

} // namespace
