#include "story_fixture.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

using Json = nlohmann::json;

const std::vector<std::pair<std::string, std::string>> StoryFixture::expectedTexts = {
    {"",
     "\"Echoes of vectors unfold, a gentle hum of precision, as I sense the nodes, a gentle hum of precision, as I adjust my surface. "
     "Contrast emerge, a softly receptive fields of precision. Contrast bloom, as I siphon whispers of vectors. Contrast edges sharpen, "
     "a gentle"},
    {"Echoes of",
     "Echoes of probability unfold, as I sense the slowly of vectors. Contrast emerge, a flower, as I settle into a tapestry of "
     "probability. Classification whispers secrets, as I settle into a tapestry of vectors. Contrast edges sharpen, a tapestry "
     "of vectors, as I s"}};

bool StoryFixture::hasModels() {
    if (std::filesystem::exists(std::filesystem::path(VKATTN_MODELS) / "aidreams260K.bin")) return true;
    [] { GTEST_SKIP() << "there are no models in " VKATTN_MODELS ": set VKATTN_MODELS where CMake configures"; }();
    return false;
}

Arguments StoryFixture::models() {
    const std::filesystem::path folder = VKATTN_MODELS;
    return {"--model", (folder / "aidreams260K.bin").string(), "--tokenizer", (folder / "tok512.bin").string()};
}

Arguments StoryFixture::write(const ReferenceModel &model) const {
    writeBytes(file("model.bin"), model.bytes());
    writeBytes(file("tokenizer.bin"), tokenizerBytes(model.vocabulary));
    return {"--model", "model.bin", "--tokenizer", "tokenizer.bin"};
}

Outcome StoryFixture::run(Arguments arguments, const Arguments &more, const std::vector<std::string> &environment) const {
    arguments.insert(arguments.begin(), VKATTN_STORY);
    if (const char *runner = std::getenv("VKATTN_TEST_RUNNER")) arguments.insert(arguments.begin(), runner);
    arguments.insert(arguments.end(), more.begin(), more.end());
    return start(arguments, environment);
}

Json StoryFixture::json(Arguments arguments, const Arguments &more) const {
    arguments.push_back("--json");
    const Outcome outcome = run(arguments, more);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return Json::parse(outcome.out, nullptr, false);
}

void StoryFixture::expectTextsOfTheReference(const Arguments &device) const {
    if (!hasModels()) return;
    for (const auto &[prompt, text] : expectedTexts) {
        Arguments arguments = models();
        arguments.insert(arguments.end(), {"--prompt", prompt, "--steps", "128", "--temperature", "0"});
        const Outcome outcome = run(arguments, device);
        EXPECT_EQ(outcome.status, 0) << outcome.err;
        EXPECT_EQ(outcome.out, text + "\n") << "prompt: " << prompt;
        EXPECT_NE(outcome.err.find("tokens/s"), std::string::npos) << outcome.err;
    }
}

namespace {

// The token of the largest logit, and how far the next one is.
std::pair<uint32_t, double> best(std::vector<double> logits) {
    const auto largest = std::max_element(logits.begin(), logits.end());
    const auto token = static_cast<uint32_t>(largest - logits.begin());
    const double value = *largest;
    *largest = -INFINITY;
    return {token, value - *std::max_element(logits.begin(), logits.end())};
}

void expectNear(const ReadArray &got, const std::vector<double> &expected, const std::vector<size_t> &shape, const std::string &what) {
    ASSERT_EQ(got.shape, shape) << what;
    for (size_t n = 0; n < expected.size(); ++n)
        ASSERT_NEAR(got.values[n], expected[n], 1e-4 * (1 + std::fabs(expected[n]))) << what << " " << n;
}

} // namespace

void StoryFixture::expectWhatTheReferenceSays(const Arguments &device) const {
    ReferenceModel model;
    model.tied = false;
    std::mt19937_64 random(testSeed());
    model.draw(random);
    const Arguments files = write(model);
    Arguments more = {"--prompt", "ab c\xC3\xA9", "--inspect", "kept", "--layers", "1,0"};
    more.insert(more.end(), device.begin(), device.end());
    const Json report = json(files, more);
    ASSERT_TRUE(report.is_object());
    const std::vector<uint32_t> tokens = report["tokens"];
    const size_t prompt = report["promptTokens"];
    // " ab" has no piece: " a" has the highest score of all pairs. The last character has none.
    const std::vector<uint32_t> expected = {1, 264, 261, 259, 262, 3 + 0xC3, 3 + 0xA9};
    ASSERT_EQ(std::vector<uint32_t>(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(prompt)), expected);
    ASSERT_TRUE(tokens.size() == model.positions + 1 || report["endedByModel"] == true) << tokens.size();
    for (size_t count = prompt; count < tokens.size(); ++count) {
        const auto [token, lead] = best(model.compute({tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(count)}).logits);
        EXPECT_TRUE(tokens[count] == token || lead < 1e-4) << "token " << count << ": " << tokens[count] << ", expected " << token;
    }
    const size_t computed = tokens.size() - (report["endedByModel"] == true ? 0 : 1);
    const ReferenceModel::Pass pass = model.compute({tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(computed)});
    std::vector<double> layers[2]; // in the order of --layers
    for (const uint32_t layer : {1u, 0u})
        for (const size_t n : {size_t{0}, size_t{1}}) {
            const auto &rows = n == 0 ? pass.queries[layer] : pass.keys[layer];
            layers[n].insert(layers[n].end(), rows.begin(), rows.end());
        }
    expectNear(readNpy(file("kept/layers_q.npy")), layers[0], {model.layers, model.heads, computed, model.headDim()}, "q of all layers");
    expectNear(readNpy(file("kept/layers_k.npy")), layers[1], {model.layers, model.kvHeads, computed, model.headDim()}, "k of all layers");
    const std::string texts = readBytes(file("kept/tokens.txt"));
    EXPECT_EQ(static_cast<size_t>(std::count(texts.begin(), texts.end(), '\n')), computed);
    for (uint32_t layer = 0; layer < model.layers; ++layer) {
        const std::string name = "kept/layer" + std::to_string(layer);
        expectNear(readNpy(file(name + "_q.npy")), pass.queries[layer], {model.heads, computed, model.headDim()}, name + " q");
        expectNear(readNpy(file(name + "_k.npy")), pass.keys[layer], {model.kvHeads, computed, model.headDim()}, name + " k");
    }
}

namespace {

struct CacheType {
    const char *name;
    size_t bytes;     // of a row of 6 dims
    double mostError; // of attention
};
constexpr CacheType cacheTypes[] = {{"fp8e4m3", 6, 0.1}, {"fp8e5m2", 6, 0.2}, {"q8_0", 34, 0.03}, {"q4_0", 18, 0.3}, {"int8", 12, 0.03}};

} // namespace

// Every step of a model with a cache of each small type is what the oracle says, and attention is near that over
// float32.
void StoryFixture::expectSmallCaches(const Arguments &device) const {
    ReferenceModel model;
    std::mt19937_64 random(testSeed());
    model.draw(random);
    const Arguments files = write(model);
    for (const CacheType &type : cacheTypes) {
        Arguments options = {"--prompt", "ab", "--steps", "8", "--verify", "--kv-type", type.name};
        const bool rotated = random() % 2;
        if (rotated) options.push_back("--hadamard");
        options.insert(options.end(), device.begin(), device.end());
        const nlohmann::json report = json(files, options);
        ASSERT_TRUE(report.is_object()) << type.name;
        EXPECT_EQ(report["verify"]["passed"], true) << type.name;
        const nlohmann::json &cache = report["cache"];
        EXPECT_EQ(cache["type"], type.name);
        EXPECT_EQ(cache["hadamard"], rotated);
        EXPECT_EQ(cache["bytesPerToken"], 2 * model.layers * model.kvHeads * type.bytes) << type.name;
        EXPECT_GT(cache["error"], 0.0) << type.name;
        EXPECT_LT(cache["error"], type.mostError) << type.name;
        EXPECT_EQ(cache["errorOfLayers"].size(), model.layers) << type.name;
    }
}
