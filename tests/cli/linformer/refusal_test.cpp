// What `vkattn run` and `vkattn explain` refuse beside --project-k, each with a message that names what is wrong.
#include "cli/run/run_fixture.hpp"

namespace {

class LinformerRefusal : public RunTest {
  protected:
    LinformerRefusal() {
        given({2, 4, 6, 8}, {2, 2, 11, 8}, {2, 2, 11, 8});
        wantsWeights = false;
        matrix("e.npy", {4, 11});
    }
    void matrix(const std::string &name, const std::vector<size_t> &shape, const NpyOptions &options = {}) {
        writeNpy(file(name), randomArray(random, shape), options);
    }
    void refused(const Arguments &more, const std::vector<std::string> &words) {
        const Outcome outcome = tool(command(more));
        EXPECT_EQ(outcome.status, 2) << outcome.err;
        for (const std::string &each : words) EXPECT_NE(outcome.err.find(each), std::string::npos) << each << " in " << outcome.err;
        EXPECT_FALSE(std::filesystem::exists(file("o.npy")));
    }
};

// Said before any file is looked at: those of the options do not exist.
TEST_F(LinformerRefusal, whatTellsTokensApart) {
    const std::vector<Arguments> apart = {
        {"--causal", "bottom-right"}, {"--window", "3,3"},           {"--mask", "m.npy"},          {"--bitmask", "m.npy"},
        {"--bias", "m.npy"},          {"--alibi", "m.npy"},          {"--cu-seqlens-q", "m.npy"},  {"--doc-ids-q", "m.npy"},
        {"--global-tokens", "m.npy"}, {"--prefix-lengths", "m.npy"}, {"--neighbourhood", "3x3:3"}, {"--windows", "4x4:2"},
        {"--bigbird", "4,1,0"},       {"--block-mask", "m.npy"},     {"--visible-blocks", "4,4"},  {"--q-global", "m.npy"}};
    for (const Arguments &each : apart) {
        Arguments options = {"--project-k", "nothing.npy"};
        options.insert(options.end(), each.begin(), each.end());
        refused(options,
                {"--project-k and " + each[0] + " are both given", "each projected key holds all tokens", "Leave one of the two out"});
    }
    for (const std::string word : {"mask", "bitmask", "bias", "alibi", "documents"}) {
        const Outcome outcome =
            tool({"explain", "--shape-q", "1,1,4,8", "--shape-k", "1,1,4,8", "--project-k", "e.npy", "--with", word, "--device", "cpu"});
        EXPECT_EQ(outcome.status, 2);
        EXPECT_NE(outcome.err.find("--project-k and --with " + word + " are both given"), std::string::npos) << outcome.err;
    }
    for (const Arguments &each : {Arguments{"--ragged", "2"}, Arguments{"--draw-mask", "m.png"}, Arguments{"--memory", "1GiB"}}) {
        Arguments options = {"explain", "--shape-q", "1,1,4,8", "--shape-k", "1,1,4,8", "--project-k", "e.npy"};
        options.insert(options.end(), each.begin(), each.end());
        const Outcome outcome = tool(options);
        EXPECT_EQ(outcome.status, 2);
        EXPECT_NE(outcome.err.find(each[0]), std::string::npos) << outcome.err;
    }
}

TEST_F(LinformerRefusal, optionsThatContradictEachOther) {
    refused({"--project-v", "e.npy"}, {"--project-v is given without --project-k", "add --project-k"});
    const Outcome outcome = tool(
        {"run", "--q", "q.npy", "--k", "k.npy", "--values-in-keys", "4", "--out", "o.npy", "--project-k", "e.npy", "--project-v", "e.npy"});
    EXPECT_EQ(outcome.status, 2);
    EXPECT_NE(outcome.err.find("--project-v and --values-in-keys are both given"), std::string::npos) << outcome.err;
}

TEST_F(LinformerRefusal, matricesThatDoNotFit) {
    matrix("short.npy", {4, 10});
    refused({"--project-k", "short.npy"},
            {"--project-k short.npy (4, 10) float32", "10 columns", "each of the 11 tokens of k.npy", "at most as many tokens"});
    matrix("heads.npy", {3, 4, 11});
    refused({"--project-k", "heads.npy"}, {"matrices for 3 heads", "one for each of the 2 heads of k.npy"});
    matrix("queries.npy", {4, 4, 11}); // one for each query head
    refused({"--project-k", "e.npy", "--project-v", "queries.npy"}, {"--project-v queries.npy", "matrices for 4 heads"});
    matrix("rows.npy", {5, 11});
    refused({"--project-k", "e.npy", "--project-v", "rows.npy"}, {"--project-v rows.npy", "5 rows", "e.npy (4, 11) float32 has 4"});
    matrix("none.npy", {0, 11});
    refused({"--project-k", "none.npy"}, {"it has no rows"});
    matrix("batch.npy", {2, 2, 4, 11});
    refused({"--project-k", "batch.npy"}, {"4 dimensions, expected 2 to 3: [row, token] or [head, row, token]"});
    matrix("words.npy", {4, 11}, {.descr = "<i4"});
    refused({"--project-k", "words.npy"}, {"int32", "--project-k takes float32 or float16"});
    refused({"--project-k", "missing.npy"}, {"missing.npy: no such file"});
    refused({"--project-k", ""}, {"--project-k"});
    writeNpy(file("l.npy"), Array{{3}, {1, 2, 3}}, {.descr = "<i4"});
    refused({"--project-k", "e.npy", "--kv-lengths", "l.npy"},
            {"l.npy (3,) int32: expected one key length for each batch entry, shape (2,)"});
    given({2, 4, 6, 8}, {2, 2, 0, 8}, {2, 2, 0, 8});
    refused({"--project-k", "e.npy"}, {"k.npy (2, 2, 0, 8) float32 has no tokens"});
}

TEST_F(LinformerRefusal, anOutputInTheMatrixsPlace) {
    const std::string before = readBytes(file("e.npy"));
    const Outcome outcome = tool({"run", "--q", "q.npy", "--k", "k.npy", "--v", "v.npy", "--out", "e.npy", "--project-k", "e.npy"});
    EXPECT_EQ(outcome.status, 2);
    EXPECT_EQ(readBytes(file("e.npy")), before);
}

} // namespace
