// Checkpoints, tokenizers and options that `story` refuses: exit status 2, nothing on stdout, and a
// message that says what is wrong.
#include "story_fixture.hpp"

#include "model/checkpoint.hpp"
#include "program/failure.hpp"
#include "text/tokenizer.hpp"

#include <cmath>
#include <cstring>
#include <functional>

namespace {

using story = StoryFixture;
constexpr int places = 100;

// A model of a few kilobytes, and its files' bytes.
struct Small {
    ReferenceModel model;
    std::string checkpoint, tokenizer;
    Small() {
        model.vocabulary = 280;
        std::mt19937_64 random(testSeed());
        model.draw(random);
        checkpoint = model.bytes(), tokenizer = tokenizerBytes(model.vocabulary);
    }
};

void expectFailure(const std::function<void()> &act, const std::string &words, const std::string &what) {
    try {
        act();
        ADD_FAILURE() << what << " was read, expected \"" << words << "\"";
    } catch (const vkattn::program::Failure &failure) {
        EXPECT_NE(std::string(failure.what()).find(words), std::string::npos) << what << ": " << failure.what();
    }
}

void setWord(std::string &bytes, size_t word, int32_t value) {
    std::memcpy(bytes.data() + 4 * word, &value, 4);
}

TEST_F(story, checkpointsCutAtAHundredPlacesAreRefused) {
    const Small small;
    const std::string path = file("cut.bin").string();
    const auto read = [&] { (void)::story::readCheckpoint(path); };
    for (int n = 0; n < places; ++n) {
        // The first bytes of all, then everywhere, and the last byte.
        const size_t size = n < 30
                                ? static_cast<size_t>(n)
                                : small.checkpoint.size() - 1 - (small.checkpoint.size() - 31) * static_cast<size_t>(places - 1 - n) / 70;
        writeBytes(path, small.checkpoint.substr(0, size));
        expectFailure(read, "it has " + std::to_string(size) + " bytes", "a checkpoint of " + std::to_string(size) + " bytes");
    }
    writeBytes(path, small.checkpoint + "x");
    expectFailure(read, "or something follows it", "a checkpoint and a byte");
    writeBytes(path, small.checkpoint);
    EXPECT_NO_THROW(read());
}

TEST_F(story, tokenizersCutAtAHundredPlacesAreRefused) {
    const Small small;
    const std::string path = file("cut.bin").string();
    const auto read = [&] { (void)::story::Tokenizer(path, small.model.vocabulary); };
    for (int n = 0; n < places; ++n) {
        const size_t size = n < 30 ? static_cast<size_t>(n)
                                   : small.tokenizer.size() - 1 - (small.tokenizer.size() - 31) * static_cast<size_t>(places - 1 - n) / 70;
        writeBytes(path, small.tokenizer.substr(0, size));
        expectFailure(read, "it ends within", "a tokenizer of " + std::to_string(size) + " bytes");
    }
    writeBytes(path, small.tokenizer + "x");
    expectFailure(read, "it goes on for 1 bytes", "a tokenizer and a byte");
}

TEST_F(story, wrongHeadersAreRefused) {
    const Small small;
    const std::string path = file("wrong.bin").string();
    const auto refused = [&](size_t word, int32_t value, const std::string &words) {
        std::string bytes = small.checkpoint;
        setWord(bytes, word, value);
        writeBytes(path, bytes);
        expectFailure([&] { (void)::story::readCheckpoint(path); }, words, "word " + std::to_string(word) + " = " + std::to_string(value));
    };
    const char *const names[] = {"dim", "hidden_dim", "n_layers", "n_heads", "n_kv_heads", "vocab_size", "seq_len"};
    for (size_t word = 0; word < 7; ++word) {
        refused(word, 0, std::string(names[word]) + " is 0, expected 1 to");
        if (word != 5) refused(word, -1, std::string(names[word]) + " is -1");
        refused(word, INT32_MAX, std::string(names[word]) + " is 2147483647");
        refused(word, INT32_MIN, std::string(names[word]) + " is -2147483648");
    }
    refused(0, 0x616b3432, "version 1 or later");
    refused(0, 25, "times an even number");
    refused(3, 8, "times an even number"); // heads of 3 dims
    refused(4, 3, "does not divide n_heads 4");
    refused(5, 2, "expected at least 3");
    refused(5, -280, "its header says"); // a classifier that is not there
    refused(6, 21, "its header says");
    std::string bytes = small.checkpoint;
    const float nan = NAN;
    std::memcpy(bytes.data() + 28 + 4 * 5, &nan, 4);
    writeBytes(path, bytes);
    expectFailure([&] { (void)::story::readCheckpoint(path); }, "number 5 of token embedding is not finite", "NaN");
}

TEST_F(story, wrongTokenizersAreRefused) {
    const Small small;
    const std::string path = file("wrong.bin").string();
    const auto refused = [&](const std::string &bytes, const std::string &words, uint32_t vocabulary = 280) {
        writeBytes(path, bytes);
        expectFailure([&] { (void)::story::Tokenizer(path, vocabulary); }, words, words);
    };
    refused(small.tokenizer, "it ends within token 280", 281);
    refused(small.tokenizer, "behind token 278, expected the tokenizer of a model of 279 tokens", 279);
    std::string bytes = small.tokenizer;
    setWord(bytes, 0, 0);
    refused(bytes, "its longest token has 0 bytes");
    bytes = small.tokenizer;
    setWord(bytes, 0, 4); // <unk> has 5
    refused(bytes, "token 0 has 5 bytes, and the longest 4");
    bytes = small.tokenizer;
    setWord(bytes, 2, -1);
    refused(bytes, "token 0 has -1 bytes");
    bytes = small.tokenizer;
    setWord(bytes, 1, 0x7fc00000); // NaN
    refused(bytes, "the score of token 0 is not finite");
    refused("This is text, and no tokenizer.", "its longest token has");
}

TEST_F(story, wrongOptionsAreRefused) {
    const Small small;
    const Arguments files = write(small.model);
    writeBytes(file("file"), "");
    const auto refused = [&](const Arguments &arguments, const std::string &words) {
        const Outcome outcome = run(arguments, {"--device", "cpu"});
        EXPECT_EQ(outcome.status, 2) << words;
        EXPECT_EQ(outcome.out, "") << words;
        EXPECT_NE(outcome.err.find(words), std::string::npos) << "expected \"" << words << "\": " << outcome.err;
    };
    const auto with = [&](const Arguments &more) {
        Arguments all = files;
        all.insert(all.end(), more.begin(), more.end());
        return all;
    };
    refused({}, "--model");
    refused({"--model", "missing.bin", "--tokenizer", "tokenizer.bin"}, "--model missing.bin: there is no such file");
    refused({"--model", ".", "--tokenizer", "tokenizer.bin"}, "--model .: it is no file");
    refused({"--model", "file", "--tokenizer", "tokenizer.bin"}, "--model file: it has 0 bytes");
    refused({"--model", "model.bin", "--tokenizer", "missing.bin"}, "--tokenizer missing.bin: there is no such file");
    refused({"--model", "tokenizer.bin", "--tokenizer", "model.bin"}, "--model tokenizer.bin: ");
    refused(with({"--steps", "21"}), "--steps is 21, and the model has 20 positions");
    refused(with({"--steps", "0"}), "--steps takes a whole number");
    refused(with({"--steps", "many"}), "--steps takes a whole number");
    refused(with({"--prompt", "bbbb", "--steps", "5"}), "--prompt is 6 tokens");
    refused(with({"--prompt", std::string(4000, 'b')}), "--prompt has 4000 bytes");
    refused(with({"--temperature", "-1"}), "--temperature takes a number from 0");
    refused(with({"--temperature", "nan"}), "--temperature takes a number from 0");
    refused(with({"--kv-type", "f16"}), "--kv-type takes fp8e4m3");
    refused(with({"--hadamard"}), "give --kv-type too");
    refused(with({"--top-p", "1.5"}), "--top-p takes a number from 0 to 1");
    refused(with({"--seed", "0"}), "--seed takes a whole number from 1");
    refused(with({"--layers", "0"}), "give --inspect too");
    refused(with({"--inspect", "kept", "--layers", "2"}), "names layer 2, and the model has 2");
    refused(with({"--inspect", "kept", "--layers", "1,1"}), "each layer once");
    refused(with({"--inspect", "kept", "--layers", "x"}), "--layers takes layers");
    refused(with({"--inspect", "file/kept"}), "cannot be made a folder");
    refused(with({"--verify=0"}), "--verify takes");
    refused(with({"--colour"}), "--colour");
    const Outcome unknown = run(files, {"--device", "no such device"});
    EXPECT_TRUE(unknown.status == 2 || unknown.err.find("fallback") != std::string::npos) << unknown.err;
    EXPECT_FALSE(exists("kept/layer0_q.npy"));
}

} // namespace
