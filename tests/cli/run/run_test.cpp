// `vkattn run` on the CPU against the reference: ranks, dtypes, orders, masks, biases, positions,
// lengths. options_test.cpp has the rest.
#include "run_fixture.hpp"

#include <nlohmann/json.hpp>

#include <cmath>

namespace {

using Json = nlohmann::json;

TEST_F(RunTest, ranksTwoToFour) {
    given({5, 8}, {7, 8}, {7, 6});
    check();
    given({3, 5, 8}, {3, 7, 8}, {3, 7, 6});
    check();
    given({2, 3, 5, 8}, {2, 3, 7, 8}, {2, 3, 7, 6});
    check();
}

TEST_F(RunTest, ranksMayDifferWhereTheExtentsAgree) {
    given({5, 8}, {1, 7, 8}, {1, 1, 7, 6});
    check();
    given({1, 4, 5, 8}, {7, 8}, {1, 7, 6});
    check();
}

TEST_F(RunTest, everyOperandHasItsOwnDtype) {
    const NpyOptions half{.descr = "<f2"}, single{.descr = "<f4"}, wide{.descr = "<f8"};
    given({2, 5, 8}, {2, 7, 8}, {2, 7, 6}, half, half, half);
    check({}, "<f2");
    given({2, 5, 8}, {2, 7, 8}, {2, 7, 6}, half, single, single);
    check({}, "<f2");
    given({2, 5, 8}, {2, 7, 8}, {2, 7, 6}, single, half, wide);
    EXPECT_NE(check().err.find("note: v.npy: float64 converted to float32\n"), std::string::npos);
    given({2, 5, 8}, {2, 7, 8}, {2, 7, 6}, wide, single, half);
    const Outcome outcome = check({"--json"});
    EXPECT_NE(outcome.err.find("note: q.npy: float64 converted to float32\n"), std::string::npos);
    EXPECT_EQ(Json::parse(outcome.out)["dtypes"]["q"], "float64");
}

TEST_F(RunTest, fortranOrder) {
    const NpyOptions c{}, fortran{.fortran = true}, fortranHalf{.descr = "<f2", .fortran = true};
    given({2, 4, 5, 8}, {2, 2, 7, 8}, {2, 2, 7, 6}, fortran, fortran, fortran);
    check();
    given({2, 4, 5, 8}, {2, 2, 7, 8}, {2, 2, 7, 6}, c, fortranHalf, c);
    check();
    given({5, 8}, {7, 8}, {7, 6}, fortranHalf, c, {.descr = "<f8", .fortran = true});
    check({}, "<f2");
    reference.bias = randomArray(random, {4, 1, 7});
    reference.mask = Array{{5, 1}, {1, 0, 1, 1, 0}};
    given({4, 5, 8}, {4, 7, 8}, {4, 7, 6}, fortran, c, fortran);
    writeNpy(file("b.npy"), *reference.bias, fortran);
    writeNpy(file("m.npy"), *reference.mask, {.descr = "|b1", .fortran = true});
    check({"--bias", "b.npy", "--mask", "m.npy"});
}

TEST_F(RunTest, npyVersionsAndUnalignedData) {
    given({5, 8}, {7, 8}, {7, 6}, {.version = 1, .pad = false}, {.version = 2, .pad = false}, {.descr = "<f2", .version = 3, .pad = false});
    check();
}

TEST_F(RunTest, groupedHeads) {
    given({2, 6, 5, 8}, {2, 2, 7, 8}, {2, 2, 7, 6});
    check();
    given({6, 5, 8}, {7, 8}, {7, 6});
    check();
}

TEST_F(RunTest, causal) {
    reference.causal = true;
    for (const size_t keys : {3u, 5u, 9u}) {
        given({5, 8}, {keys, 8}, {keys, 6});
        reference.topLeft = true;
        check({"--causal", "top-left"});
        check({"--causal=top-left", "--align", "top-left"});
        reference.topLeft = false;
        check({"--causal", "bottom-right"});
        check({"--causal", "bottom-right", "--align=bottom-right"});
    }
}

TEST_F(RunTest, window) {
    given({9, 8}, {12, 8}, {12, 6});
    reference.window = true;
    reference.left = 2, reference.right = 1;
    check({"--window", "2,1"});
    check({"--window", "2,1", "--align", "bottom-right"});
    reference.topLeft = true;
    check({"--window", "2,1", "--align", "top-left"});
    reference.left = -1, reference.right = 0;
    check({"--window", "-1,0", "--align", "top-left"});
    check({"--window=-1,0", "--align", "top-left"});
    reference.topLeft = false;
    reference.left = 3, reference.right = -1;
    reference.causal = true;
    check({"--window=3,-1", "--causal", "bottom-right"});
    reference.causal = false;
    reference.left = -1;
    check({"--window=-1,-1"});
    reference.left = 0, reference.right = 0;
    check({"--window", "0,0"});
    reference.left = reference.right = 2147483647;
    check({"--window", "2147483647,2147483647"});
}

TEST_F(RunTest, scaleAndSoftcap) {
    given({5, 8}, {7, 8}, {7, 6});
    reference.scale = 0.0;
    check({"--scale", "0"});
    reference.scale = -0.5;
    check({"--scale", "-0.5"});
    reference.scale = 2.0;
    reference.softcap = 1.5;
    check({"--scale=2e0", "--softcap", "1.5"});
    reference.softcap = 0;
    check({"--scale=2", "--softcap", "0"});
}

TEST_F(RunTest, maskBroadcasts) {
    given({2, 2, 5, 8}, {2, 2, 7, 8}, {2, 2, 7, 6});
    for (const std::vector<size_t> &shape :
         std::vector<std::vector<size_t>>{{5, 7}, {1, 7}, {5, 1}, {2, 5, 7}, {2, 2, 5, 7}, {2, 1, 1, 7}, {1, 2, 5, 1}})
        for (const std::string descr : {"|b1", "|u1"}) {
            reference.mask = Array{shape, std::vector<double>(Array::count(shape))};
            for (double &value : reference.mask->values)
                value = random() % 3 == 0 ? 0 : descr == "|u1" ? 1.0 + static_cast<double>(random() % 255) : 1;
            writeNpy(file("m.npy"), *reference.mask, {.descr = descr});
            check({"--mask", "m.npy"});
        }
    reference.mask = Array{{1, 1}, {0}}; // nothing is visible
    writeNpy(file("m.npy"), *reference.mask, {.descr = "|b1"});
    check({"--mask", "m.npy"});
    for (const double value : readNpy(file("o.npy")).values) ASSERT_EQ(value, 0);
}

TEST_F(RunTest, biasHidesAndBroadcasts) {
    given({2, 2, 5, 8}, {2, 2, 7, 8}, {2, 2, 7, 6});
    for (const std::vector<size_t> &shape : std::vector<std::vector<size_t>>{{5, 7}, {1, 7}, {2, 5, 1}, {2, 1, 5, 7}})
        for (const std::string descr : {"<f2", "<f4", "<f8"}) {
            reference.bias = randomArray(random, shape);
            for (double &value : reference.bias->values) value = random() % 4 == 0 ? -INFINITY : value;
            writeNpy(file("b.npy"), *reference.bias, {.descr = descr});
            const Outcome outcome = check({"--bias", "b.npy"});
            EXPECT_EQ(outcome.err.find("b.npy: float64 converted to float32") != std::string::npos, descr == "<f8");
        }
}

TEST_F(RunTest, float64BeyondFloat32) {
    given({2, 3}, {4, 3}, {4, 2});
    // A finite bias must not become -inf, which would hide: these rows are the softmax of the rest,
    // here all equal.
    writeNpy(file("b.npy"), Array{{1, 1}, {-1e300}}, {.descr = "<f8"});
    reference.scale = 0.0;
    Outcome outcome = tool(onCpu({"--bias", "b.npy", "--scale", "0", "--weights", "w.npy"}));
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_NE(outcome.err.find("1 values beyond its range became the largest finite ones"), std::string::npos) << outcome.err;
    for (const double weight : readNpy(file("w.npy")).values) EXPECT_EQ(weight, 0.25);
    writeNpy(file("v.npy"), Array{{4, 2}, {1, 2, 3, 4, 5, 6, 7, 1e300}}, {.descr = "<f8"});
    outcome = tool(onCpu());
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_NE(outcome.err.find("1 values beyond its range became infinite"), std::string::npos) << outcome.err;
}

// Pairs that are hidden have scores too, but for those past a length, and but for the last stage.
TEST_F(RunTest, scoresOfEachStage) {
    wantsScores = true;
    for (const std::string stage : {"raw", "scaled", "capped", "final"}) {
        reference = {};
        reference.scoresStage = stage, reference.causal = true, reference.softcap = 2;
        given({2, 4, 5, 8}, {2, 2, 9, 8}, {2, 2, 9, 6});
        reference.keyLengths = {9, 4};
        writeNpy(file("n.npy"), Array{{2}, {9, 4}}, {.descr = "<i4"});
        reference.bias = randomArray(random, {5, 9});
        reference.bias->values[3] = -INFINITY;
        writeNpy(file("b.npy"), *reference.bias);
        givenAlibi(4);
        const Arguments options = {"--causal", "bottom-right", "--softcap", "2",       "--kv-lengths",
                                   "n.npy",    "--bias",       "b.npy",     "--alibi", "alibi.npy"};
        check(options);
        Arguments json = command(options);
        json.insert(json.end(), "--json");
        EXPECT_EQ(Json::parse(tool(json).out)["options"]["scores"], stage);
        reference = {};
        reference.scoresStage = stage;
        given({2, 12, 8}, {2, 14, 8}, {2, 14, 6});
        givenOffsets({1, 4, 9}, {0, 6, 13});
        check({"--cu-seqlens-q", "cq.npy", "--cu-seqlens-k", "ck.npy"});
    }
}

TEST_F(RunTest, keyLengths) {
    given({3, 2, 5, 8}, {3, 2, 7, 8}, {3, 2, 7, 6});
    reference.causal = true;
    for (const std::string descr : {"<i4", "<i8"}) {
        reference.keyLengths = {7, 0, 4};
        writeNpy(file("n.npy"), Array{{3}, {7, 0, 4}}, {.descr = descr});
        EXPECT_EQ(check({"--kv-lengths", "n.npy", "--causal", "bottom-right"}).err, "");
        reference.keyLengths = {0, 7, 7};
        writeNpy(file("n.npy"), Array{{3}, {-3, 2147483647, 7}}, {.descr = descr});
        EXPECT_NE(check({"--kv-lengths", "n.npy", "--causal", "bottom-right"})
                      .err.find("n.npy: 2 of 3 key lengths lie outside [0, 7] and were clamped, first -3 of batch entry 0 to 0"),
                  std::string::npos);
    }
    writeNpy(file("n.npy"), Array{{3}, {1e18, -1e18, 1}}, {.descr = "<i8"});
    reference.keyLengths = {7, 0, 1};
    check({"--kv-lengths", "n.npy", "--causal", "bottom-right"});
}

TEST_F(RunTest, oneKeyLengthMayBeAScalar) {
    given({5, 8}, {7, 8}, {7, 6});
    reference.keyLengths = {3};
    for (const std::vector<size_t> &shape : std::vector<std::vector<size_t>>{{}, {1}, {1, 1}}) {
        writeNpy(file("n.npy"), Array{shape, {3}}, {.descr = "<i4"});
        check({"--kv-lengths", "n.npy"});
    }
}

TEST_F(RunTest, noTokens) {
    given({0, 8}, {7, 8}, {7, 6});
    check();
    EXPECT_EQ(readNpy(file("o.npy")).shape, (std::vector<size_t>{0, 6}));
    given({5, 8}, {0, 8}, {0, 6});
    check();
    for (const double value : readNpy(file("lse.npy")).values) EXPECT_EQ(value, -INFINITY);
    given({2, 0, 8}, {2, 0, 8}, {2, 0, 6}, {.fortran = true});
    const Json json = Json::parse(check({"--json"}).out);
    EXPECT_EQ(json["verify"]["rowsTotal"], 0);
    EXPECT_TRUE(json["verify"]["worst"].is_null());
}

TEST_F(RunTest, oneElementAndTheLargestDim) {
    given({1, 1}, {1, 1}, {1, 1});
    check();
    given({2, 2048}, {3, 2048}, {3, 2048});
    check();
}

TEST_F(RunTest, jsonHasTheContract) {
    given({2, 4, 5, 8}, {2, 2, 7, 8}, {2, 2, 7, 6});
    Outcome outcome = tool(onCpu({"--json", "--repeat", "3"}));
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(outcome.err, "");
    const Json json = Json::parse(outcome.out);
    EXPECT_EQ(json["requestedDevice"], "cpu");
    EXPECT_EQ(json["device"], "cpu");
    EXPECT_TRUE(json["driver"].is_string());
    EXPECT_EQ(json["kernel"], "cpu");
    EXPECT_TRUE(json.contains("fallbackReason") && json["fallbackReason"].is_null());
    EXPECT_GT(json["milliseconds"].get<double>(), 0);
    EXPECT_EQ(json["deviceTimestamps"], false);
    EXPECT_EQ(json["repeat"], 3);
    EXPECT_EQ(json["workspaceBytes"], json["cpuPlan"]["workspaceBytes"]);
    EXPECT_FALSE(json["cpuPlan"]["target"].get<std::string>().empty());
    for (const char *count : {"vectorLanes", "rowsPerTile", "keysPerTile", "rowsPerUnit", "splits", "threads", "workspaceBytes"})
        EXPECT_GT(json["cpuPlan"][count].get<uint64_t>(), 0u) << count;
    EXPECT_EQ(json["dispatchCount"], 0);
    EXPECT_EQ(json["shapes"]["k"], (std::vector<int>{2, 2, 7, 8}));
    EXPECT_EQ(json["shapes"]["out"], (std::vector<int>{2, 4, 5, 6}));
    EXPECT_EQ(json["dtypes"]["out"], "float32");
    EXPECT_EQ(json["outputs"], Json({{"out", "o.npy"}}));
    EXPECT_FALSE(json.contains("verify"));
}

TEST_F(RunTest, textSaysWhatHappened) {
    given({5, 8}, {7, 8}, {7, 6});
    const Outcome outcome = tool(onCpu({"--verify"}));
    EXPECT_EQ(outcome.status, 0);
    for (const std::string word : {"device    cpu", "kernel    cpu", "plan      ", " thread", "ms", "read      q.npy (5, 8) float32",
                                   "wrote     o.npy (5, 6) float32", "passed: every row, 5"})
        EXPECT_NE(outcome.out.find(word), std::string::npos) << outcome.out;
    EXPECT_EQ(outcome.err, "");
}

} // namespace
