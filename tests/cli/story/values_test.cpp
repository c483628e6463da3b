// What `story` tells: the texts of the public reference program, and what a reference of the tests'
// own computes from drawn weights; on the CPU here, and on each driver.
#include "story_fixture.hpp"

#include "text/sampler.hpp"
#include "text/tokenizer.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace {

using Json = nlohmann::json;
using story = StoryFixture;
class StoryOnDriver : public StoryFixture {};

const Arguments theCpu = {"--device", "cpu"}, theDevice = {"--no-fallback"};

TEST_F(story, greedyTextIsThatOfTheReferenceProgram) {
    expectTextsOfTheReference(theCpu);
}
TEST_F(story, computesWhatTheFormulasSay) {
    expectWhatTheReferenceSays(theCpu);
}

TEST_F(StoryOnDriver, greedyTextIsThatOfTheReferenceProgram) {
    if (hasTestedDevice()) expectTextsOfTheReference(theDevice);
}
TEST_F(StoryOnDriver, computesWhatTheFormulasSay) {
    if (hasTestedDevice()) expectWhatTheReferenceSays(theDevice);
}
TEST_F(StoryOnDriver, everyStepIsVerified) {
    if (!hasTestedDevice()) return;
    ReferenceModel model;
    std::mt19937_64 random(testSeed());
    model.draw(random);
    Arguments files = write(model);
    if (std::filesystem::exists(models()[1])) files = models();
    const Json report = json(files, {"--prompt", "a", "--steps", "6", "--verify", "--no-fallback"});
    ASSERT_TRUE(report.is_object());
    EXPECT_EQ(report["verify"]["passed"], true);
    const size_t layers = report["model"]["layers"], passes = 6 - static_cast<size_t>(report["promptTokens"]) + 1;
    EXPECT_EQ(report["verify"]["steps"], passes * (5 + 14 * layers)) << report["endedByModel"];
}

TEST_F(story, smallCachesAreVerifiedAndNearFloat32) {
    expectSmallCaches(theCpu);
}
TEST_F(StoryOnDriver, smallCachesAreVerifiedAndNearFloat32) {
    if (hasTestedDevice()) expectSmallCaches(theDevice);
}

// The greedy text of an 8-bit cache is that of float32 up to a choice that float32 itself makes by a hair: what q8_0 does
// to attention, 0.7 %, moves logits by less than 0.05.
TEST_F(story, anEightBitCacheChangesTheGreedyTextAtNearTiesAlone) {
    if (!hasModels()) return;
    for (const auto &[prompt, text] : expectedTexts) {
        const Arguments options = {"--prompt", prompt, "--steps", "128", "--device", "cpu"};
        Arguments eightBit = options;
        eightBit.insert(eightBit.end(), {"--kv-type", "q8_0"});
        const Json whole = json(models(), options), cached = json(models(), eightBit);
        ASSERT_TRUE(whole.is_object() && cached.is_object());
        const std::vector<uint32_t> expected = whole["tokens"], got = cached["tokens"];
        const auto differs = std::mismatch(expected.begin(), expected.end(), got.begin(), got.end()).first;
        const auto same = static_cast<size_t>(differs - expected.begin()), given = whole["promptTokens"].get<size_t>();
        EXPECT_GT(same, 64u) << prompt;
        if (same < expected.size()) {
            EXPECT_LT(whole["logitLeads"][same - given], 0.05) << prompt << ": token " << same;
        }
    }
}

// A driver that fails as a layer over it says.
std::vector<std::string> faulty(const std::string &fault) {
    return {"VK_LAYER_PATH=" VKATTN_LAYER_FOLDER, "VK_INSTANCE_LAYERS=VK_LAYER_VKATTN_faulty", "VKATTN_TEST_LAYER=" + fault};
}

TEST_F(StoryOnDriver, aDeviceThatIsLostLeavesTheRestToTheCpu) {
    if (!hasTestedDevice()) return;
    if (std::getenv("VKATTN_TEST_RUNNER")) GTEST_SKIP() << "the driver's loader has layers of its own";
    ReferenceModel model;
    std::mt19937_64 random(testSeed());
    model.draw(random);
    const Arguments files = write(model);
    const Outcome whole = run(files, {"--prompt", "ab", "--steps", "12", "--device", "cpu"});
    const std::vector<std::string> lost = faulty("at=QueueSubmit do=lost nth=6");
    const Outcome fallen = run(files, {"--prompt", "ab", "--steps", "12"}, lost);
    EXPECT_EQ(fallen.status, 0) << fallen.err;
    EXPECT_EQ(fallen.out, whole.out);
    EXPECT_NE(fallen.err.find("fallback  computed on the CPU: "), std::string::npos) << fallen.err;
    EXPECT_NE(fallen.err.find("VK_ERROR_DEVICE_LOST"), std::string::npos) << fallen.err;
    const Outcome ended = run(files, {"--prompt", "ab", "--steps", "12", "--no-fallback"}, lost);
    EXPECT_EQ(ended.status, 3) << ended.err;
    EXPECT_TRUE(whole.out.starts_with(ended.out) && ended.out.size() < whole.out.size()) << ended.out;
    EXPECT_NE(ended.err.find("leave out --no-fallback"), std::string::npos) << ended.err;
}
TEST_F(StoryOnDriver, wrongResultsAreExitOne) {
    if (!hasTestedDevice()) return;
    if (std::getenv("VKATTN_TEST_RUNNER")) GTEST_SKIP() << "the driver's loader has layers of its own";
    ReferenceModel model;
    std::mt19937_64 random(testSeed());
    model.draw(random);
    const Outcome wrong =
        run(write(model), {"--prompt", "ab", "--steps", "5", "--verify", "--no-fallback"}, faulty("at=QueueSubmit do=drop nth=50"));
    EXPECT_EQ(wrong.status, 1) << wrong.err;
    EXPECT_NE(wrong.err.find("verify    FAILED"), std::string::npos) << wrong.err;
    EXPECT_NE(wrong.err.find("story: verification failed: worst in step "), std::string::npos) << wrong.err;
}

// Stdout is the text and its end of line, whatever else is asked for.
TEST_F(story, stdoutIsTheText) {
    ReferenceModel model;
    std::mt19937_64 random(testSeed());
    model.draw(random);
    const Arguments files = write(model);
    const Outcome plain = run(files, {"--prompt", "abc a", "--steps", "9", "--device", "cpu"});
    EXPECT_EQ(plain.status, 0) << plain.err;
    EXPECT_TRUE(plain.out.starts_with("abc a")) << plain.out;
    EXPECT_TRUE(plain.out.ends_with("\n"));
    for (const char *figure : {"device    cpu", "prefill   ", "decode    "})
        EXPECT_NE(plain.err.find(figure), std::string::npos) << plain.err;
    const Outcome verified = run(files, {"--prompt", "abc a", "--steps", "9", "--device", "cpu", "--verify"});
    EXPECT_EQ(verified.status, 0) << verified.err;
    EXPECT_EQ(verified.out, plain.out);
    EXPECT_NE(verified.err.find("verify    passed"), std::string::npos) << verified.err;
    const Json report = json(files, {"--prompt", "abc a", "--steps", "9", "--device", "cpu"});
    EXPECT_EQ(report["device"], "cpu");
    EXPECT_EQ(report["steps"], 9);
    EXPECT_EQ(report["promptTokens"], 5); // begin, " a", b, c, " a": "abc" has a lower score than " a"
}

// The model says where the text ends: all scores but one are 0, and the one is that of the end. With the other sign, the text goes on.
TEST_F(story, endsWhereTheModelSaysSo) {
    for (const bool ends : {true, false}) {
        ReferenceModel model;
        model.tied = false;
        std::mt19937_64 random(testSeed());
        model.draw(random);
        std::fill(model.classifier.begin(), model.classifier.end(), 0.0f);
        float *end = &model.classifier[size_t{::story::beginToken} * model.dims];
        for (uint32_t d = 0; d < model.dims; ++d) end[d] = static_cast<float>(d + 1);
        const bool above = model.compute({::story::beginToken}).logits[::story::beginToken] > 0;
        for (uint32_t d = 0; d < model.dims; ++d) end[d] *= above == ends ? 1.0f : -1.0f;
        const Json report = json(write(model), {"--steps", "1", "--device", "cpu"});
        ASSERT_TRUE(report.is_object());
        EXPECT_EQ(report["endedByModel"], ends);
        EXPECT_EQ(report["tokens"].size(), ends ? 1u : 2u);
    }
}

// Where no device is, the CPU computes and says why; with --no-fallback it does not.
TEST_F(story, fallsBackToTheCpuAndSaysWhy) {
    ReferenceModel model;
    std::mt19937_64 random(testSeed());
    model.draw(random);
    const Arguments files = write(model);
    const std::vector<std::string> none = {"VK_DRIVER_FILES=/nowhere.json", "VK_ICD_FILENAMES=/nowhere.json"};
    const Outcome fallen = run(files, {"--steps", "3"}, none);
    EXPECT_EQ(fallen.status, 0) << fallen.err;
    EXPECT_NE(fallen.err.find("fallback  computed on the CPU: "), std::string::npos) << fallen.err;
    const Outcome refused = run(files, {"--steps", "3", "--no-fallback"}, none);
    EXPECT_EQ(refused.status, 3);
    EXPECT_EQ(refused.out, "");
    EXPECT_NE(refused.err.find("leave out --no-fallback"), std::string::npos) << refused.err;
}

TEST_F(story, seedsAreReproducible) {
    ReferenceModel model;
    std::mt19937_64 random(testSeed());
    model.draw(random);
    const Arguments files = write(model);
    const auto told = [&](const std::string &seed, const std::string &topP) {
        return json(files, {"--temperature", "1.5", "--seed", seed, "--top-p", topP, "--device", "cpu"})["tokens"];
    };
    EXPECT_EQ(told("7", "0.9"), told("7", "0.9"));
    EXPECT_NE(told("7", "0.9"), told("8", "0.9"));
    // The nucleus of no room is the most probable token.
    EXPECT_EQ(told("7", "1e-6"), json(files, {"--device", "cpu"})["tokens"]);
}

// Draws of xorshift64* with seed 7 begin 0.820, 0.928, 0.089, 0.108, computed apart.
TEST(storySampler, drawsAreThoseOfTheAlgorithm) {
    // Probabilities 1/8, 1/2, 1/4, 1/8.
    const std::vector<float> given = {0, std::log(4.0f), std::log(2.0f), 0};
    const auto drawn = [&](float topP) {
        ::story::Sampler sampler({1, topP, 7});
        std::vector<uint32_t> tokens;
        for (int n = 0; n < 4; ++n) {
            std::vector<float> logits = given;
            tokens.push_back(sampler.choose(logits));
        }
        return tokens;
    };
    EXPECT_EQ(drawn(1), (std::vector<uint32_t>{2, 3, 0, 0})) << "ends: 0.125, 0.625, 0.875, 1";
    // The nucleus is tokens 1 and 2 with 0.75 in all: ends 0.5 and 0.75.
    EXPECT_EQ(drawn(0.7f), (std::vector<uint32_t>{2, 2, 1, 1}));
    EXPECT_EQ(drawn(0), drawn(1)) << "0 is all tokens, as in llama2.c";
    ::story::Sampler greedy({0, 0.9f, 7});
    std::vector<float> logits = given;
    EXPECT_EQ(greedy.choose(logits), 1u);
    // At twice the temperature the probabilities are those of half the logits.
    std::vector<float> half = given;
    for (float &each : half) each *= 2;
    ::story::Sampler warm({2, 1, 7});
    EXPECT_EQ(warm.choose(half), 2u);
}

TEST_F(story, tokensAreTextAndBack) {
    writeBytes(file("tokenizer.bin"), tokenizerBytes(280));
    const ::story::Tokenizer tokenizer(file("tokenizer.bin").string(), 280);
    using Tokens = std::vector<uint32_t>;
    EXPECT_EQ(tokenizer.encode(""), (Tokens{1}));
    EXPECT_EQ(tokenizer.encode("b"), (Tokens{1, 259, 261}));
    EXPECT_EQ(tokenizer.encode("ab"), (Tokens{1, 264, 261})) << "\" a\" has a higher score than \"ab\"";
    EXPECT_EQ(tokenizer.encode("cabc"), (Tokens{1, 259, 262, 265})) << "\"ab\" first, then \"abc\"";
    EXPECT_EQ(tokenizer.encode("\xF0\x9F\x8C\xB1"), (Tokens{1, 259, 3 + 0xF0, 3 + 0x9F, 3 + 0x8C, 3 + 0xB1}));
    EXPECT_EQ(tokenizer.encode("\x80"), (Tokens{1, 259, 3 + 0x80})) << "no UTF-8: the byte";
    EXPECT_EQ(tokenizer.decode(1, 264), "a");
    EXPECT_EQ(tokenizer.decode(264, 264), " a");
    EXPECT_EQ(tokenizer.decode(5, 3 + '\n'), "\n");
    EXPECT_EQ(tokenizer.decode(5, 3 + 0xC3), "\xC3");
    EXPECT_EQ(tokenizer.decode(5, 3 + 0x1B), "") << "terminals obey it";
}

} // namespace
