// The numbers of `vkattn grad`: the golden case of the specification, and every option against central
// differences.
#include "gradient_fixture.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace {

using Json = nlohmann::json;

// f(n) = ((37 n + 11) mod 29 - 14) / 10, in C order.
Array golden(const std::vector<size_t> &shape, size_t first) {
    Array array{shape, std::vector<double>(Array::count(shape))};
    for (size_t n = 0; n < array.values.size(); n++) array.values[n] = (static_cast<double>((37 * (first + n) + 11) % 29) - 14) / 10;
    return array;
}

class GoldenGradient : public GradientTest {
  protected:
    GoldenGradient() {
        writeNpy(file("q.npy"), golden({2, 2, 2}, 0));
        writeNpy(file("k.npy"), golden({1, 3, 2}, 100));
        writeNpy(file("v.npy"), golden({1, 3, 2}, 200));
        writeNpy(file("dout.npy"), golden({2, 2, 2}, 300));
    }
    void expectValues(const std::string &name, const std::vector<double> &expected) const {
        const ReadArray got = readNpy(file(name == "o" ? "o.npy" : fileOf(name)));
        ASSERT_EQ(got.values.size(), expected.size()) << name;
        for (size_t i = 0; i < expected.size(); i++) EXPECT_NEAR(got.values[i], expected[i], 3e-6) << name << ", element " << i;
    }
    void expectFirstCase() {
        writeNpy(file("alibi.npy"), Array{{2}, {0, 0}});
        wanted = {"dq", "dk", "dv", "dslopes"};
        const Outcome outcome =
            tool(gradientCommand({"--causal", "bottom-right", "--scale", "0.5", "--alibi", "alibi.npy", "--out", "o.npy", "--verify=all"}));
        ASSERT_EQ(outcome.status, 0) << outcome.err << outcome.out;
        expectValues("o", {-.6378650, .1621350, .0235042, .8235042, -.6511795, .1488205, .1314385, .9314385});
        expectValues("dq", {-.2323240, .2859373, .0921262, -.2760610, -.1146080, .1410561, .0458573, .0497875});
        expectValues("dk", {.2204245, -.2607747, -.3409668, .2873355, .1205423, -.0265608});
        expectValues("dv", {-.0469525, .8123713, -.8200013, -.0820913, .6669538, -.6302799});
        expectValues("dslopes", {.2156889, .1057704});
        EXPECT_EQ(readNpy(file("gdk.npy")).shape, (std::vector<size_t>{1, 3, 2}));
    }
    void expectSecondCase() {
        writeNpy(file("alibi.npy"), Array{{2}, {.25, -.5}});
        writeNpy(file("sinks.npy"), Array{{2}, {.3, -1}});
        wanted = {"dq", "dk", "dv", "dslopes", "dsinks"};
        const Outcome outcome =
            tool(gradientCommand({"--causal", "bottom-right", "--scale", "0.5", "--softcap", "1.5", "--alibi", "alibi.npy", "--sinks",
                                  "sinks.npy", "--dropout", "0.5", "--seed", "42", "--offset", "7", "--out", "o.npy", "--verify=all"}));
        ASSERT_EQ(outcome.status, 0) << outcome.err << outcome.out;
        expectValues("o", {0, 0, .2934372, 1.1433636, 0, 0, .4252872, 1.1057468});
        expectValues("dq", {0, 0, .0166840, -.2637779, 0, 0, .3849021, .1064949});
        expectValues("dk", {.0543842, -.1626033, -.2980907, .0423120, .4375103, -.0146793});
        expectValues("dv", {.4755335, 1.1095782, 0, 0, .9274283, -.6428963});
        expectValues("dslopes", {-.7502378, -.7259655});
        expectValues("dsinks", {-.5820020, .0669563});
    }
};

TEST_F(GoldenGradient, ofTheSpecification) {
    expectFirstCase();
    expectSecondCase(); // with dropout
}

TEST_F(GradientTest, ranksTwoToFour) {
    givenAll({5, 4}, {7, 4}, {7, 3});
    checkGradients();
    givenAll({2, 5, 4}, {2, 7, 4}, {2, 7, 3});
    checkGradients();
    givenAll({2, 2, 3, 4}, {2, 2, 4, 4}, {2, 2, 4, 5});
    checkGradients();
}

TEST_F(GradientTest, eachGradientAlone) {
    givenAll({2, 5, 4}, {1, 7, 4}, {1, 7, 3});
    const std::string all = (checkGradients(), bytesOfGradients());
    std::string one;
    for (const std::string name : {"dq", "dk", "dv"}) {
        wanted = {name};
        checkGradients();
        one += bytesOfGradients();
    }
    EXPECT_EQ(one, all); // what else is asked for changes no bit
}

TEST_F(GradientTest, groupedHeads) {
    givenAll({6, 4, 4}, {2, 5, 4}, {2, 5, 4});
    checkGradients();
    givenAll({2, 3, 4, 4}, {2, 1, 5, 4}, {2, 1, 5, 2});
    checkGradients();
}

TEST_F(GradientTest, scaleAndSoftcap) {
    givenAll({2, 4, 4}, {2, 5, 4}, {2, 5, 3});
    wanted = {"dq", "dk", "dv", "dscale"};
    checkGradients(); // of the default scale
    reference.scale = -0.75;
    checkGradients({"--scale", "-0.75"});
    reference.softcap = 1.5;
    wanted.push_back("dsoftcap");
    checkGradients({"--scale", "-0.75", "--softcap", "1.5"});
}

TEST_F(GradientTest, positions) {
    for (const std::vector<size_t> &tokens : std::vector<std::vector<size_t>>{{6, 6}, {4, 7}, {7, 4}}) {
        givenAll({2, tokens[0], 4}, {2, tokens[1], 4}, {2, tokens[1], 3});
        reference.causal = true;
        checkGradients({"--causal", "bottom-right"});
        reference.topLeft = true;
        checkGradients({"--causal", "top-left"});
        reference.causal = false;
        reference.window = true, reference.left = 2, reference.right = 0;
        checkGradients({"--window", "2,0", "--align", "top-left"});
        reference = {};
    }
}

TEST_F(GradientTest, biasesThatBroadcast) {
    givenAll({2, 2, 4, 4}, {2, 2, 5, 4}, {2, 2, 5, 3});
    wanted = {"dq", "dk", "dv", "dbias"};
    for (const std::vector<size_t> &shape :
         std::vector<std::vector<size_t>>{{4, 5}, {1, 5}, {2, 4, 1}, {2, 1, 4, 5}, {2, 2, 4, 5}, {1, 1, 1, 1}})
        for (const bool fortran : {false, true}) {
            givenBias(shape, {.fortran = fortran});
            checkGradients({"--bias", "bias.npy"});
        }
}

TEST_F(GradientTest, masksAndLengths) {
    givenAll({2, 2, 4, 4}, {2, 2, 40, 4}, {2, 2, 40, 3});
    givenBits({2, 1, 4}, 40);
    reference.keyLengths = {37, 5};
    writeNpy(file("n.npy"), Array{{2}, {37, 5}}, {.descr = "<i4"});
    checkGradients({"--bitmask", "bits.npy", "--kv-lengths", "n.npy"});
    const ReadArray dk = readNpy(file("gdk.npy"));
    // Keys past the length have a gradient of exactly 0.
    for (size_t head = 0; head < 2; head++)
        for (size_t n = 5 * 4; n < 40 * 4; n++) ASSERT_EQ(dk.values[(2 + head) * 160 + n], 0);
    reference = {};
    reference.mask = Array{{4, 40}, std::vector<double>(160)};
    for (double &value : reference.mask->values) value = chance(2) ? 0 : 1;
    std::fill_n(reference.mask->values.begin() + 40, 40, 0.0); // query 1 sees nothing
    writeNpy(file("m.npy"), *reference.mask, {.descr = "|b1"});
    checkGradients({"--mask", "m.npy"});
    const ReadArray dq = readNpy(file("gdq.npy"));
    for (size_t d = 0; d < 4; d++) EXPECT_EQ(dq.values[4 + d], 0);
}

TEST_F(GradientTest, sinksAndSlopes) {
    wanted = {"dq", "dk", "dv", "dsinks", "dslopes"};
    for (const std::string descr : {"<f4", "<f2"}) {
        givenAll({2, 4, 4, 4}, {2, 2, 6, 4}, {2, 2, 6, 3}, {.descr = descr});
        givenSinks(4, descr);
        givenAlibi(4, descr);
        checkGradients({"--sinks", "sinks.npy", "--alibi", "alibi.npy"}, descr);
    }
}

TEST_F(GradientTest, gradientsOfLseAndWeights) {
    givenAll({2, 3, 5, 4}, {2, 1, 6, 4}, {2, 1, 6, 3});
    givenDLse({2, 3, 5});
    checkGradients();
    givenDWeights({2, 3, 5, 6});
    checkGradients();
    dLse.reset();
    checkGradients();
    givenAll({5, 4}, {6, 4}, {6, 3});
    givenDLse({5});
    givenDWeights({5, 6});
    checkGradients();
}

TEST_F(GradientTest, raggedBatchesAndDocuments) {
    givenAll({2, 12, 4}, {2, 14, 4}, {2, 14, 3});
    givenOffsets({1, 4, 9}, {0, 6, 13}); // tokens of no sequence have zeros
    const Arguments ragged = {"--cu-seqlens-q", "cq.npy", "--cu-seqlens-k", "ck.npy"};
    EXPECT_NE(checkGradients(ragged).err.find("belong to no sequence"), std::string::npos);
    wanted.emplace_back("dbias");
    givenBias({2, 1, 5, 7});
    Arguments biased = ragged;
    biased.insert(biased.end(), {"--bias", "bias.npy"});
    checkGradients(biased);
    wanted.pop_back();
    reference = {};
    givenDocuments({12}, {14});
    checkGradients({"--doc-ids-q", "dq.npy", "--doc-ids-k", "dk.npy"});
}

TEST_F(GradientTest, dtypes) {
    givenAll({2, 5, 4}, {2, 6, 4}, {2, 6, 3}, {.descr = "<f2", .fortran = true});
    checkGradients({}, "<f2");
    checkGradients({"--out-dtype", "f32"});
    outUnit = 0x1p-8;
    checkGradients({"--out-dtype", "bf16"});
    outUnit = 0;
    givenAll({2, 5, 4}, {2, 6, 4}, {2, 6, 3}, {.descr = "<f8"});
    EXPECT_NE(checkGradients().err.find("note: dout.npy: float64 converted to float32\n"), std::string::npos);
    givenAll({2, 5, 4}, {2, 6, 4}, {2, 6, 3});
    for (Array *array : {&q, &k, &v, &dOut}) *array = roundedToBfloat16(*array);
    checkGradients({"--round-to", "bf16"});
}

TEST_F(GradientTest, lossScaleDividesAndTellsOfOverflow) {
    givenAll({2, 5, 4}, {2, 6, 4}, {2, 6, 3});
    checkGradients();
    const std::string plain = bytesOfGradients();
    Array scaled = dOut;
    for (double &value : scaled.values) value *= 1024; // a power of two: no bit is lost
    writeNpy(file("dout.npy"), scaled);
    const Outcome outcome = tool(gradientCommand({"--loss-scale", "1024"}));
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_NE(outcome.out.find("\nfinite    every gradient\n"), std::string::npos) << outcome.out;
    EXPECT_EQ(bytesOfGradients(), plain);
    for (double &value : scaled.values) value *= 1e34;
    writeNpy(file("dout.npy"), scaled);
    const Outcome infinite = tool(gradientCommand({"--loss-scale", "1e-3", "--json"}));
    EXPECT_EQ(infinite.status, 0) << infinite.err;
    EXPECT_EQ(Json::parse(infinite.out)["finite"], false);
    EXPECT_EQ(Json::parse(infinite.out)["options"]["lossScale"].get<float>(), 1e-3f);
}

// What the weights after dropout are multiplied by is read off the forward pass: 0 or 1 / (1 - p).
TEST_F(GradientTest, dropout) {
    givenAll({2, 3, 5, 4}, {2, 1, 6, 4}, {2, 1, 6, 3});
    const Arguments drops = {"--dropout", "0.25", "--seed", "9", "--offset", "3"};
    const auto weightsWith = [&](const Arguments &more) {
        Arguments arguments = onCpu({"--weights", "w.npy"});
        arguments.insert(arguments.end(), drops.begin(), drops.end());
        arguments.insert(arguments.end(), more.begin(), more.end());
        const Outcome outcome = tool(arguments);
        EXPECT_EQ(outcome.status, 0) << outcome.err;
        return readNpy(file("w.npy")).values;
    };
    const std::vector<double> before = weightsWith({}), after = weightsWith({"--weights-after-dropout"});
    givenDWeights({2, 3, 5, 6});
    const auto gradients = [&](const Arguments &more) {
        Arguments arguments = drops;
        arguments.insert(arguments.end(), more.begin(), more.end());
        arguments.emplace_back("--verify=all");
        const Outcome outcome = tool(gradientCommand(arguments));
        EXPECT_EQ(outcome.status, 0) << outcome.err;
        std::vector<double> all;
        for (const std::string &name : wanted)
            for (const double value : readNpy(file(fileOf(name))).values) all.push_back(value);
        return all;
    };
    const std::vector<double> ofDropped = gradients({"--weights-after-dropout"}), ofAll = gradients({});
    EXPECT_NE(ofDropped, ofAll);
    size_t dropped = 0;
    for (size_t n = 0; n < after.size(); n++) {
        dWeights->values[n] *= after[n] / before[n];
        dropped += after[n] == 0 ? 1 : 0;
    }
    EXPECT_GT(dropped, 20u);
    EXPECT_LT(dropped, 70u);
    writeNpy(file("dweights.npy"), *dWeights);
    const std::vector<double> expected = gradients({});
    for (size_t n = 0; n < expected.size(); n++) ASSERT_NEAR(ofDropped[n], expected[n], 1e-5) << "element " << n;
    std::filesystem::remove(file("o.npy")); // of the forward pass alone
    refused({"--weights-after-dropout"}, {"--weights-after-dropout", "add --dropout"});
    dWeights.reset();
    refused({"--dropout", "0.5", "--weights-after-dropout"}, {"--weights-after-dropout", "--dweights"});
}

TEST_F(GradientTest, noTokens) {
    givenAll({2, 0, 4}, {2, 6, 4}, {2, 6, 3});
    checkGradients();
    givenAll({2, 5, 4}, {2, 0, 4}, {2, 0, 3});
    checkGradients();
}

TEST_F(GradientTest, hiddenNaNReachesNothing) {
    givenAll({5, 4}, {7, 4}, {7, 3});
    reference.mask = Array{{5, 7}, std::vector<double>(35, 1)};
    for (size_t i = 0; i < 5; i++) reference.mask->values[i * 7 + 3] = 0; // no query sees key 3
    writeNpy(file("m.npy"), *reference.mask, {.descr = "|b1"});
    checkGradients({"--mask", "m.npy"});
    const std::string clean = bytesOfGradients();
    for (size_t d = 0; d < 4; d++) k.values[12 + d] = NAN;
    for (size_t d = 0; d < 3; d++) v.values[9 + d] = INFINITY;
    writeNpy(file("k.npy"), k), writeNpy(file("v.npy"), v);
    EXPECT_EQ(tool(gradientCommand({"--mask", "m.npy"})).status, 0);
    EXPECT_EQ(bytesOfGradients(), clean);
}

TEST_F(GradientTest, reportSaysWhatHappened) {
    givenAll({2, 5, 4}, {2, 6, 4}, {2, 6, 3});
    const Outcome text = tool(gradientCommand({"--causal", "bottom-right", "--verify"}));
    EXPECT_EQ(text.status, 0) << text.err;
    for (const std::string line :
         {"device    cpu", "forward   cpu, ", "options   causal bottom-right", "read      dout.npy (2, 5, 3) float32",
          "wrote     gdk.npy (2, 6, 4) float32", "verify    passed: every row", "          worst in step "})
        EXPECT_NE(text.out.find(line), std::string::npos) << line << " is not in: " << text.out;
    const Json json = Json::parse(tool(gradientCommand({"--json", "--verify", "--repeat", "3"})).out);
    EXPECT_EQ(json["outputs"], (Json{{"dq", "gdq.npy"}, {"dk", "gdk.npy"}, {"dv", "gdv.npy"}}));
    EXPECT_EQ(json["shapes"]["dv"], (Json{2, 6, 3}));
    EXPECT_EQ(json["forward"]["device"], "cpu");
    EXPECT_EQ(json["verify"]["passed"], true);
    EXPECT_TRUE(json["verify"]["step"] == "forward" || json["verify"]["step"] == "backward");
    EXPECT_FALSE(json.contains("finite"));
}

// The same cases on the first Vulkan device. tests/device/CMakeLists.txt runs them on every driver.
class GradientOnDriver : public GoldenGradient {};
TEST_F(GradientOnDriver, goldenCaseAndOptions) {
    if (!hasTestedDevice()) return;
    where = {"--device", "0", "--no-fallback"};
    expectFirstCase();
    expectSecondCase();
    wanted = {"dq", "dk", "dv", "dbias", "dsinks", "dslopes", "dscale", "dsoftcap"};
    givenAll({2, 4, 5, 8}, {2, 2, 9, 8}, {2, 2, 9, 6});
    givenBias({4, 1, 9});
    givenSinks(4);
    givenAlibi(4);
    givenDLse({2, 4, 5});
    reference.softcap = 2, reference.causal = true;
    const Arguments options = {"--bias",    "bias.npy", "--sinks",  "sinks.npy",    "--alibi",        "alibi.npy",
                               "--softcap", "2",        "--causal", "bottom-right", "--deterministic"};
    checkGradients(options);
    const std::string whole = bytesOfGradients();
    Arguments sliced = options;
    sliced.insert(sliced.end(), {"--slices", "3"});
    const Outcome outcome = checkGradients(sliced);
    EXPECT_NE(outcome.out.find("the longest of 3 slices"), std::string::npos) << outcome.out;
    EXPECT_EQ(bytesOfGradients(), whole);
    wanted = {"dq", "dk", "dv"};
    reference = {};
    givenAll({2, 12, 8}, {2, 14, 8}, {2, 14, 6}, {.descr = "<f2"});
    givenOffsets({1, 4, 9}, {0, 6, 13});
    checkGradients({"--cu-seqlens-q", "cq.npy", "--cu-seqlens-k", "ck.npy"}, "<f2");
}

} // namespace
