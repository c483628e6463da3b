// The sample `serve`: what each request gets is what it gets alone, bit by bit, and what a reference of the tests' own
// says; no page is lost; on the CPU here, and on each driver.
#include "../story/story_fixture.hpp"

#include <algorithm>
#include <cstdlib>
#include <fstream>

namespace {

using Json = nlohmann::json;

class ServeFixture : public StoryFixture {
  protected:
    ReferenceModel model;
    Arguments files;

    void SetUp() override {
        StoryFixture::SetUp();
        model.positions = 48;
        std::mt19937_64 random(testSeed());
        model.draw(random);
        files = write(model);
        writeBytes(file("prompts.txt"), "a\nab b c\nc a abc b a b c ab a\nb b b b b b b b b b b b\n");
    }
    [[nodiscard]] Outcome serve(const Arguments &more, const std::vector<std::string> &environment = {}) const {
        Arguments arguments = {VKATTN_SERVE};
        if (const char *runner = std::getenv("VKATTN_TEST_RUNNER")) arguments.insert(arguments.begin(), runner);
        arguments.insert(arguments.end(), files.begin(), files.end());
        arguments.insert(arguments.end(), more.begin(), more.end());
        return start(arguments, environment);
    }
    // Few pages and slots: requests wait, and are evicted.
    [[nodiscard]] Arguments crowded(const Arguments &device) const {
        Arguments arguments = {"--system",      "a c",       "--prompts", "prompts.txt", "--requests", "30",
                               "--tokens",      "16",        "--slots",   "4",           "--chunk",    "5",
                               "--page-tokens", "3",         "--pages",   "20",          "--gap",      "1",
                               "--cancel",      "0.2",       "--check",   "1000",        "--seed",     std::to_string(testSeed() % 1000),
                               "--out",         "out.jsonl", "--json"};
        arguments.insert(arguments.end(), device.begin(), device.end());
        return arguments;
    }
    void expectServed(const Arguments &device) const {
        const Outcome outcome = serve(crowded(device));
        ASSERT_EQ(outcome.status, 0) << outcome.err << outcome.out;
        const Json report = Json::parse(outcome.out, nullptr, false);
        ASSERT_TRUE(report.is_object());
        EXPECT_EQ(report["finished"].get<int>() + report["cancelled"].get<int>(), 30);
        EXPECT_EQ(report["checked"], report["finished"]);
        EXPECT_EQ(report["different"], 0);
        EXPECT_EQ(report["pagesHeldAtTheEnd"], 0);
        EXPECT_EQ(report["mostSlots"], 4);
        EXPECT_LE(report["mostPages"].get<int>(), 20);
        EXPECT_GT(report["evictions"].get<int>(), 0) << "the pool is too small for four requests of 16 tokens";
        expectTokensOfTheReference();
    }

    // Each token is as probable as the most probable one of the formulas, to rounding.
    void expectTokensOfTheReference() const {
        std::ifstream lines(file("out.jsonl"));
        int looked = 0;
        for (std::string line; std::getline(lines, line) && looked < 6;) {
            const Json request = Json::parse(line, nullptr, false);
            ASSERT_TRUE(request.is_object()) << line;
            if (request["tokens"].size() < 4) continue;
            ++looked;
            std::vector<uint32_t> tokens = systemTokens();
            for (const uint32_t token : request["promptTokens"]) tokens.push_back(token);
            for (const uint32_t token : request["tokens"]) {
                const std::vector<double> logits = model.compute(tokens).logits;
                ASSERT_GT(logits[token], *std::max_element(logits.begin(), logits.end()) - 1e-3) << line;
                tokens.push_back(token);
            }
        }
        EXPECT_GT(looked, 0);
    }
    // Those of "a c": `story` says them.
    [[nodiscard]] std::vector<uint32_t> systemTokens() const {
        const Json report = json(files, {"--prompt", "a c", "--steps", "10", "--device", "cpu"});
        std::vector<uint32_t> tokens = report["tokens"];
        tokens.resize(report["promptTokens"].get<size_t>());
        return tokens;
    }
};
class ServeOnDriver : public ServeFixture {};

TEST_F(ServeFixture, eachGetsWhatItGetsAlone) {
    expectServed({"--device", "cpu"});
}
TEST_F(ServeOnDriver, eachGetsWhatItGetsAlone) {
    if (hasTestedDevice()) expectServed({"--no-fallback"});
}

// A driver that fails from the N-th submission on: whoever was on the device goes on on the CPU, and nothing is lost.
TEST_F(ServeOnDriver, aDeviceThatIsLostLeavesTheRestToTheCpu) {
    if (!hasTestedDevice()) return;
    if (std::getenv("VKATTN_TEST_RUNNER")) GTEST_SKIP() << "the driver's loader has layers of its own";
    for (const char *nth : {"1", "9", "60"}) {
        SCOPED_TRACE(nth);
        const std::vector<std::string> lost = {"VK_LAYER_PATH=" VKATTN_LAYER_FOLDER, "VK_INSTANCE_LAYERS=VK_LAYER_VKATTN_faulty",
                                               std::string("VKATTN_TEST_LAYER=at=QueueSubmit do=lost nth=") + nth};
        const Outcome fallen = serve(crowded({}), lost);
        ASSERT_EQ(fallen.status, 0) << fallen.err << fallen.out;
        const Json report = Json::parse(fallen.out, nullptr, false);
        ASSERT_TRUE(report.is_object());
        EXPECT_EQ(report["device"], "cpu");
        EXPECT_NE(report["fallbackReason"].get<std::string>().find("VK_ERROR_DEVICE_LOST"), std::string::npos) << report["fallbackReason"];
        EXPECT_EQ(report["finished"].get<int>() + report["cancelled"].get<int>(), 30);
        EXPECT_GT(report["checked"], 0);
        EXPECT_EQ(report["different"], 0);
        EXPECT_EQ(report["pagesHeldAtTheEnd"], 0);
        expectTokensOfTheReference();
        const Outcome ended = serve(crowded({"--no-fallback"}), lost);
        EXPECT_EQ(ended.status, 3) << ended.err;
        EXPECT_NE(ended.err.find("leave out --no-fallback"), std::string::npos) << ended.err;
    }
}

// The figures of many requests, most of them cancelled: memory stays, and every page comes back.
TEST_F(ServeFixture, manyRequestsLeaveNothingBehind) {
    const Outcome outcome = serve({"--device", "cpu", "--prompts", "prompts.txt", "--system", "b", "--requests", "1000", "--tokens", "12",
                                   "--slots", "16", "--page-tokens", "4", "--cancel", "0.5", "--gap", "1", "--json"});
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    const Json report = Json::parse(outcome.out, nullptr, false);
    ASSERT_TRUE(report.is_object());
    EXPECT_EQ(report["finished"].get<int>() + report["cancelled"].get<int>(), 1000);
    EXPECT_GT(report["cancelled"].get<int>(), 100);
    EXPECT_EQ(report["pagesHeldAtTheEnd"], 0);
    if (report["mebibytesAtTheEnd"].get<double>() > 0) {
        EXPECT_LT(report["mebibytesAtTheEnd"].get<double>(), report["mebibytesBehindTheFirst"].get<double>() + 4);
    }
}

TEST_F(ServeFixture, sameSeedSameAnswers) {
    const Arguments options = crowded({"--device", "cpu"});
    std::string texts[2];
    for (std::string &text : texts) {
        ASSERT_EQ(serve(options).status, 0);
        std::ifstream lines(file("out.jsonl"));
        text.assign(std::istreambuf_iterator<char>(lines), {});
        ASSERT_FALSE(text.empty());
    }
    EXPECT_EQ(texts[0], texts[1]);
}

TEST_F(ServeFixture, saysWhatIsWrong) {
    const auto refused = [&](const Arguments &options, const char *words) {
        const Outcome outcome = serve(options);
        EXPECT_EQ(outcome.status, 2) << words;
        EXPECT_TRUE(outcome.out.empty());
        EXPECT_NE(outcome.err.find(words), std::string::npos) << words << ": " << outcome.err;
    };
    refused({"--slots", "0"}, "--slots takes a whole number from 1 to 1024, not '0'");
    refused({"--cancel", "2"}, "--cancel takes a share from 0 to 1");
    refused({"--prompts", "nothing.txt", "--system", "a"}, "it cannot be read");
    refused({"--system", "a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a"},
            "shorten it");
    refused({"--prompts", "prompts.txt", "--page-tokens", "2", "--pages", "3", "--system", "a"}, "give at least as many");
    refused({"--what"}, "see serve --help");
}

} // namespace
