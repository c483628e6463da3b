// What `vkattn linear` refuses: usage and arrays, each with a message that names what is wrong.
#include "linear_fixture.hpp"

namespace {

class LinearRefusal : public LinearTest {
  protected:
    LinearRefusal() { givenAll(2, 5, 4, 3); }
    void refused(const Arguments &more, const std::vector<std::string> &words) const { expectRefused(tool(command(more)), words); }
};

TEST_F(LinearRefusal, helpNamesEveryOption) {
    const Outcome outcome = tool({"linear", "--help"});
    EXPECT_EQ(outcome.status, 0);
    for (const std::string option :
         {"--q",      "--k",           "--v",        "--out",       "--rule",      "--features",   "--omega",        "--causal",
          "--decay",  "--beta",        "--state-in", "--state-out", "--scale",     "--form",       "--head-mapping", "--device",
          "--verify", "--no-fallback", "--repeat",   "--json",      "--dout",      "--dstate-out", "--dq",           "--dk",
          "--dv",     "--ddecay",      "--dbeta",    "--dstate-in", "--loss-scale"})
        EXPECT_NE(outcome.out.find("  " + option + " "), std::string::npos) << option;
    EXPECT_NE(outcome.out.find("Exit status: 0 success"), std::string::npos);
    EXPECT_NE(tool({"--help"}).out.find("\n  linear "), std::string::npos);
}

TEST_F(LinearRefusal, values) {
    rule = "sideways";
    refused({}, {"--rule takes", "'sideways'"});
    rule = "linear";
    refused({"--form", "tiled"}, {"--form takes auto, recurrent or chunked", "'tiled'"});
    refused({"--head-mapping", "x"}, {"--head-mapping takes divided or modulo"});
    refused({"--scale", "nan"}, {"--scale takes"});
    refused({"--mask", "m.npy"}, {"--mask", "vkattn linear --help"});
    refused({"--state-in", ""}, {"--state-in needs a value"});
}

// Said before any file is looked at: none of these exists.
TEST_F(LinearRefusal, optionsThatContradictEachOther) {
    refused({"--features", "favor"}, {"--features chooses the map of --rule softmax-features, and --rule is linear"});
    refused({"--omega", "w.npy"}, {"--omega belongs to --rule softmax-features"});
    refused({"--decay", "g.npy"}, {"--decay belongs to --rule gated and gated-delta"});
    refused({"--beta", "b.npy"}, {"--beta belongs to --rule delta and gated-delta"});
    rule = "gated";
    refused({}, {"--rule gated needs --decay"});
    rule = "delta";
    refused({}, {"--rule delta needs --beta"});
    rule = "softmax-features", features = "favor";
    refused({}, {"--features favor needs --omega"});
    features = "elu1";
    refused({"--omega", "w.npy"}, {"elu1 has no random features"});
}

TEST_F(LinearRefusal, gradients) {
    const auto refusedGradients = [&](const Arguments &more, const std::vector<std::string> &words) {
        Arguments arguments = command(more);
        arguments.erase(arguments.begin() + 1, arguments.begin() + 3); // --out
        expectRefused(tool(arguments), words);
    };
    refusedGradients({}, {"--out is required"});
    refusedGradients({"--dq", "dq.npy"}, {"--dq asks for a gradient, and --dout is missing"});
    refused({"--dstate-out", "ds.npy"}, {"--dstate-out belongs to gradients, and --dout is missing"});
    refused({"--loss-scale", "2"}, {"--loss-scale belongs to gradients"});
    refusedGradients({"--dout", "do.npy"},
                     {"no gradient is asked for, expected at least one of --dq, --dk, --dv, --ddecay, --dbeta, --dstate-in"});
    refusedGradients({"--dout", "do.npy", "--ddecay", "dg.npy"},
                     {"--ddecay asks for the gradient with respect to --decay, and there is none"});
    refusedGradients({"--dout", "do.npy", "--dstate-in", "ds.npy"}, {"--dstate-in asks for the gradient with respect to --state-in"});
    refusedGradients({"--dout", "do.npy", "--dq", "dq.npy", "--loss-scale", "0"}, {"--loss-scale takes a finite number above 0"});
    given("dout", {2, 5, 4});
    refusedGradients({"--dq", "dq.npy"}, {"dOut is [1, 2, 5, 4], expected [1, 2, 5, 3]", "--dout dout.npy (2, 5, 4) float32"});
    given("dout", {2, 5, 3});
    given("dstate-out", {2, 4, 4});
    refusedGradients({"--dq", "dq.npy"}, {"dStateOut is [1, 2, 4, 4], expected [1, 2, 4, 3]"});
    given("dstate-out", {2, 4, 3}, 1, {.descr = "<f8"});
    refusedGradients({"--dq", "dq.npy"}, {"it holds float64, but --dstate-out takes float32"});
}

TEST_F(LinearRefusal, arrays) {
    given("k", {2, 5, 6});
    refused({}, {"q is [1, 2, 5, 4], expected [1, 2, 5, 6]", "--k k.npy (2, 5, 6) float32"});
    given("k", {3, 5, 4});
    refused({}, {"v has 2 heads, and k has 3"});
    given("k", {2, 5, 4});
    given("state-in", {2, 4, 4});
    refused({}, {"stateIn is [1, 2, 4, 4], expected [1, 2, 4, 3]"});
    given("state-in", {2, 4, 3}, 1, {.descr = "<f8"});
    refused({}, {"state-in.npy: it holds float64, but --state-in takes float32"});
    LinearTest::arrays.erase("state-in");
    rule = "gated";
    given("decay", {2, 5, 3});
    refused({}, {"decay is [1, 2, 5, 3], expected [1, 2, 5, 4] or 1"});
    given("decay", {2, 4});
    refused({}, {"decay is [1, 2, 4, 1], expected [1, 2, 5, 1]"});
    given("q", {2, 5, 0});
    refused({}, {"q.npy", "zero elements in a row"});
}

} // namespace
