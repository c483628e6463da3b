// What `vkattn inspect` refuses, each with a message that names what is wrong.
#include "inspect_fixture.hpp"

#include <cmath>
#include <fstream>

namespace {

class InspectRefusal : public InspectTest {
  protected:
    InspectRefusal() {
        givenVectors({2, 5, 8}, {2, 7, 8});
        writeNpy(file("w.npy"), Array{{2, 3}, {0.5, 0.25, 0.25, 1, 0, 0}});
    }
    void refused(const Arguments &more, const std::vector<std::string> &words) const {
        expectRefused(tool(inspection(more)), words);
        expectNoOutput();
    }
    void refusedWeights(const std::string &weights, const Arguments &more, const std::vector<std::string> &words) const {
        Arguments arguments = {"inspect", "--weights", weights, "--stats", "s.npy", "--json", "j.json"};
        arguments.insert(arguments.end(), more.begin(), more.end());
        expectRefused(tool(arguments), words);
        expectNoOutput();
    }
    void expectNoOutput() const {
        for (const char *name : {"s.npy", "r.npy", "tk.npy", "tw.npy", "j.json", "c.csv"}) EXPECT_FALSE(exists(name)) << name;
    }
};

TEST_F(InspectRefusal, helpNamesEveryOption) {
    const Outcome outcome = tool({"inspect", "--help"});
    EXPECT_EQ(outcome.status, 0);
    for (const std::string option :
         {"--q",        "--k",      "--weights",  "--zeros",       "--tokens",  "--stats",      "--received",   "--json",
          "--csv",      "--top",    "--top-keys", "--top-weights", "--density", "--batch-name", "--thresholds", "--seed-classes",
          "--spectrum", "--causal", "--mask",     "--device"})
        EXPECT_NE(outcome.out.find("  " + option + " "), std::string::npos) << option;
    for (const std::string option : {"--v ", "--out ", "--verify"}) EXPECT_EQ(outcome.out.find("  " + option), std::string::npos) << option;
    EXPECT_NE(tool({"--help"}).out.find("\n  inspect "), std::string::npos);
}

TEST_F(InspectRefusal, missingAndContradictingOptions) {
    expectRefused(tool({"inspect"}), {"inspect needs attention to look at", "--weights"});
    expectRefused(tool({"inspect", "--q", "q.npy"}), {"--k is missing"});
    expectRefused(tool({"inspect", "--k", "k.npy"}), {"--q is missing"});
    refused({"--weights", "w.npy"}, {"--weights stands in place of queries and keys", "--q"});
    refusedWeights("w.npy", {"--softcap", "2"}, {"--softcap says how they are computed", "leave --softcap out"});
    refusedWeights("w.npy", {"--causal", "top-left"}, {"--zeros visible"});
    refusedWeights("w.npy", {"--zeros", "no"}, {"--zeros takes hidden or visible, not 'no'"});
    refused({"--zeros", "visible"}, {"leave --zeros out"});
    refusedWeights("w.npy", {"--device", "cpu"}, {"--device"});
    refused({"--v", "k.npy"}, {"--v", "vkattn inspect --help"});
    refused({"--stats"}, {"--stats"});
    refused({"--thresholds", "0.3,0.2"}, {"--thresholds takes three numbers", "'0.3,0.2'"});
    refused({"--thresholds", "0.3,0.2,nan"}, {"--thresholds takes three numbers"});
    refused({"--spectrum", "1025"}, {"--spectrum"});
    refused({"--spectrum", "0"}, {"--spectrum"});
    for (const std::string count : {"0", "17", "-1", "x"})
        refusedWeights("w.npy", {"--top-keys", "tk.npy", "--top", count}, {"--top takes", "16", "'" + count + "'"});
    expectRefused(tool({"inspect", "--weights", "w.npy", "--top", "3"}), {"--top says how many keys", "--top-keys", "leave --top out"});
    for (const std::string threshold : {"0", "1", "-0.1", "nan", "0.1x", "x"})
        refused({"--density", threshold}, {"--density takes a weight above 0 and below 1", "'" + threshold + "'"});
}

TEST_F(InspectRefusal, weights) {
    refusedWeights("none.npy", {}, {"none.npy", "no such file"});
    writeBytes(file("t.npy"), "text");
    refusedWeights("t.npy", {}, {"t.npy"});
    writeNpy(file("x.npy"), Array{{4}, {1, 0, 0, 0}});
    refusedWeights("x.npy", {}, {"shape (4,) has 1 dimension", "[query, key]"});
    writeNpy(file("x.npy"), Array{{1, 1, 1, 2, 2}, {1, 0, 0, 1}});
    refusedWeights("x.npy", {}, {"has 5 dimensions, expected 2 to 4"});
    writeNpy(file("x.npy"), Array{{0, 4}, {}});
    refusedWeights("x.npy", {}, {"shape (0, 4) has a dimension of 0, expected at least one"});
    writeNpy(file("x.npy"), Array{{2, 2}, {1, 0, 0, 1}}, {.descr = "<i4"});
    refusedWeights("x.npy", {}, {"it holds int32", "array.astype(np.float32)"});
    writeNpy(file("x.npy"), Array{{1, 2, 2, 2}, {1, 0, 0, 1, 1, 0, -0.5, 1}});
    refusedWeights("x.npy", {}, {"batch entry 0, head 1, query 1, key 0 is -0.5", "not scores"});
    const std::string whole = readBytes(file("w.npy"));
    writeBytes(file("x.npy"), whole.substr(0, whole.size() - 4));
    refusedWeights("x.npy", {}, {"x.npy"});
}

TEST_F(InspectRefusal, vectors) {
    writeNpy(file("k.npy"), Array{{2, 7, 6}, std::vector<double>(84)});
    refused({}, {"shapes disagree", "dim (last dimension)"});
    givenVectors({2, 0, 8}, {2, 7, 8});
    refused({}, {"q.npy (2, 0, 8)", "there are no queries, expected at least one"});
    givenVectors({2, 5, 8}, {2, 7, 8});
    writeNpy(file("m.npy"), Array{{5, 6}, std::vector<double>(30)}, {.descr = "|b1"});
    refused({"--mask", "m.npy"}, {"m.npy (5, 6) bool has 6 keys of 7"});
    refused({"--sinks", "k.npy"}, {"k.npy"});
}

TEST_F(InspectRefusal, tokens) {
    writeBytes(file("t.txt"), "a\nb\nc\n");
    EXPECT_EQ(tool({"inspect", "--weights", "w.npy", "--tokens", "t.txt"}).status, 0); // as many as keys
    writeBytes(file("t.txt"), "a\n\nc\nd");
    refusedWeights("w.npy", {"--tokens", "t.txt"}, {"t.txt: line 4 is one token too many, expected at most 3"});
    writeBytes(file("t.txt"), "a\nb\xFFq\n");
    refusedWeights("w.npy", {"--tokens", "t.txt"}, {"t.txt: line 2 is no UTF-8", "utf-8"});
    writeBytes(file("t.txt"), "\xC0\x80\n"); // longer than it need be
    refusedWeights("w.npy", {"--tokens", "t.txt"}, {"line 1 is no UTF-8"});
    refusedWeights("w.npy", {"--tokens", "none.txt"}, {"none.txt: there is no such file"});
    refusedWeights("w.npy", {"--tokens", "."}, {".: it is a folder"});
    writeBytes(file("t.txt"), "");
    EXPECT_EQ(tool({"inspect", "--weights", "w.npy", "--tokens", "t.txt"}).status, 0);
    writeBytes(file("t.txt"), "\xEF\xBB\xBFone\r\ntwo\r\n"); // as Windows writes it
    EXPECT_NE(tool({"inspect", "--weights", "w.npy", "--tokens", "t.txt"}).out.find("0 \"one\" 0.75"), std::string::npos);
}

TEST_F(InspectRefusal, pictures) {
    refused({"--png", "q.npy"}, {"--png", "q.npy"}); // a file
    refused({"--png", "q.npy/deep"}, {"--png q.npy/deep", "cannot be made a folder"});
    refused({"--csv", "deep/heads.png", "--png", "deep"}, {"heads.png"});
    refused({"--html", "q.npy"}, {"--html", "q.npy"});
    refused({"--html", "none/h.html"}, {"--html", "none"});
    refused({"--html", "s.npy"}, {"--html", "s.npy"});
    refused({"--png"}, {"--png"});
    refused({"--html", "h.html", "--csv", "h.html"}, {"h.html"});
    EXPECT_FALSE(exists("h.html"));
    EXPECT_FALSE(exists("deep")); // nothing was in it
    refused({"--csv", "q.npy", "--png", "deep/down"}, {"q.npy"});
    EXPECT_FALSE(exists("deep"));
    std::filesystem::create_directory(file("deep"));
    refused({"--csv", "q.npy", "--png", "deep/down/"}, {"q.npy"});
    EXPECT_TRUE(exists("deep"));
    EXPECT_FALSE(exists("deep/down"));
}

TEST_F(InspectRefusal, outputs) {
    refused({"--csv", "none/c.csv"}, {"--csv", "none"});
    refused({"--json", "q.npy"}, {"--json", "q.npy"});
    refused({"--csv", "s.npy"}, {"--csv", "s.npy"});
    refused({"--json", "."}, {"--json"});
    writeBytes(file("t.txt"), "a");
    refused({"--tokens", "t.txt", "--json", "t.txt"}, {"--json", "t.txt"});
    EXPECT_EQ(readBytes(file("t.txt")), "a");
}

} // namespace
