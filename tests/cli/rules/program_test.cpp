// `vkattn run --program`: what is refused; and on a device, the result of the option that says the same, against the reference.
#include "cli/run/run_fixture.hpp"

#include <algorithm>
#include <fstream>

namespace {

const std::string score = "float vkattnScore(float score, uint batch, uint head, uint query, uint key)";

class ProgramRun : public RunTest {
  protected:
    void writeText(const std::string &name, const std::string &text) const { std::ofstream(file(name)) << text; }
    void writeWords(const std::string &name, Array array, const std::string &descr) const { writeNpy(file(name), array, {.descr = descr}); }
    // The processor verifies no GLSL.
    [[nodiscard]] Arguments plain() const {
        Arguments all = command({});
        all.erase(std::find(all.begin(), all.end(), "--verify"));
        return all;
    }
    void refused(const Arguments &more, const std::vector<std::string> &words, int status = 2) {
        Arguments all = plain();
        all.insert(all.end(), more.begin(), more.end());
        const Outcome outcome = tool(all);
        EXPECT_EQ(outcome.status, status) << outcome.err;
        for (const std::string &word : words) EXPECT_NE(outcome.err.find(word), std::string::npos) << word << " in " << outcome.err;
        EXPECT_FALSE(std::filesystem::exists(file("o.npy")));
    }
};

TEST_F(ProgramRun, isRefusedWithTheReason) {
    given({1, 2, 6, 4}, {1, 2, 6, 4}, {1, 2, 6, 4});
    writeText("good.glsl", score + " { return score; }\n");
    refused({"--program-words", "1"}, {"--program-words is given without --program"});
    refused({"--program-buffer", "0=b.npy"}, {"--program-buffer is given without --program"});
    refused({"--program", "none.glsl"}, {"none.glsl: cannot be opened"});
    refused({"--program", "good.glsl"}, {"--program good.glsl: GLSL runs on Vulkan devices alone", "vkattn info"}, 3);
    refused({"--program", "good.glsl", "--verify"}, {"--verify compares with the CPU", "Leave --verify out"});
    refused({"--program", "good.glsl", "--program-words", "1,two"}, {"--program-words", "16 numbers"});
    refused({"--program", "good.glsl", "--program-words", "1,"}, {"--program-words"});
    refused({"--program", "good.glsl", "--program-words", "4294967296"}, {"--program-words"});
    refused({"--program", "good.glsl", "--program-words", "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17"}, {"--program-words"});
    for (const std::string wrong : {"b.npy", "4=b.npy", "-1=b.npy", "0=", "=b.npy"})
        refused({"--program", "good.glsl", "--program-buffer", wrong}, {"--program-buffer", "NUMBER=FILE"});
    refused({"--program", "good.glsl", "--program-buffer", "1=b.npy", "--program-buffer", "1=b.npy"}, {"buffer 1 is given twice"});
    refused({"--program", "good.glsl", "--program-buffer", "0=none.npy"}, {"none.npy"});
    for (const std::string descr : {"<f8", "<f2", "|b1", "|u1"}) {
        writeWords("b.npy", Array{{3}, {1, 2, 3}}, descr);
        refused({"--program", "good.glsl", "--program-buffer", "0=b.npy"},
                {"b.npy: it holds ", "--program-buffer takes numbers of 32 bits"});
    }
    writeWords("b.npy", Array{{0}, {}}, "<f4");
    refused({"--program", "good.glsl", "--program-buffer", "0=b.npy"}, {"b.npy (0,) float32: 0 elements"});
    // With the file and the line.
    writeText("bad.glsl", "\n" + score + " {\n    return score * slope;\n}\n");
    refused({"--program", "bad.glsl"}, {"bad.glsl:3: error: 'slope' : undeclared identifier"});
    writeText("bad.glsl", "#version 450\n" + score + " { return score; }\n");
    refused({"--program", "bad.glsl"}, {"bad.glsl:1: '#version 450'"});
    writeText("bad.glsl", "float own(float x) { return x; }\n");
    refused({"--program", "bad.glsl"}, {"bad.glsl:1: no hook"});
    writeText("bad.glsl", std::string(20, '\0') + score);
    refused({"--program", "bad.glsl"}, {"bad.glsl:1: a zero byte"});
}

// tests/device/CMakeLists.txt runs this test on every driver.
class ProgramOnDriver : public ProgramRun {};
TEST_F(ProgramOnDriver, isTheOptionThatSaysTheSame) {
    if (!hasTestedDevice()) return;
    std::ofstream(file("small.txt")) << "vkattn-tuning 1\n"
                                        "flash maxDim=512 rowLanes=8 rowsPerLane=1 keysPerLane=1\n";
    where = {"--device", "0", "--no-fallback", "--tuning", file("small.txt").string()};
    wantsWeights = false;
    writeText(
        "alibi.glsl",
        score + " {\n    return score - vkattnBufferNumber(2u, head) * abs(float(int(key) - vkattnPosition(query)));\n}\n"
                "bool vkattnVisible(uint batch, uint head, uint query, uint key) {\n"
                "    return int(key) <= vkattnPosition(query) && float(key % 5u) != vkattnNumber(1u) && key % 7u != vkattnWord(0u);\n}\n");
    given({2, 4, 9, 8}, {2, 2, 21, 8}, {2, 2, 21, 12});
    reference.causal = true;
    reference.alibi = {0.5, 0.25, 0.125, 0.0625};
    writeWords("slopes.npy", Array{{2, 2}, reference.alibi}, "<f4");
    Array mask{{1, 1, 9, 21}, {}};
    for (size_t i = 0; i < 9; ++i)
        for (size_t j = 0; j < 21; ++j) mask.values.push_back(j % 5 != 2 && j % 7 != 3 ? 1 : 0);
    reference.mask = mask;
    Arguments all = plain();
    all.insert(all.end(), {"--program", "alibi.glsl", "--program-buffer", "2=slopes.npy", "--program-words", "3,2.0"});
    const Outcome outcome = tool(all);
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    compare("<f4");
}

} // namespace
