// The statistics of `vkattn inspect` with every option that concerns pairs.
#include "inspect_fixture.hpp"

#include <algorithm>
#include <cmath>

namespace {

TEST_F(InspectTest, ranksAndDtypes) {
    givenVectors({5, 8}, {7, 8});
    checkInspection();
    givenVectors({3, 5, 8}, {3, 7, 8}, {.descr = "<f2"});
    checkInspection();
    givenVectors({2, 4, 5, 8}, {2, 2, 7, 8}, {.fortran = true});
    checkInspection(); // grouped heads
    givenVectors({2, 9, 8}, {1, 4, 8}, {.descr = "<f8"});
    checkInspection(); // the first queries stand before the keys
    givenVectors({1, 4}, {1, 4});
    checkInspection();
    givenVectors({3, 4}, {0, 4});
    checkInspection(); // no keys
}

TEST_F(InspectTest, positions) {
    for (const bool topLeft : {false, true}) {
        const std::string word = topLeft ? "top-left" : "bottom-right";
        for (const auto &[queries, keys] : {std::pair<size_t, size_t>{6, 9}, {9, 6}}) {
            reference = {};
            reference.topLeft = topLeft;
            givenVectors({2, queries, 8}, {2, keys, 8});
            checkInspection({"--align", word}); // without any option that hides
            reference.causal = true;
            checkInspection({"--causal", word});
            reference.causal = false, reference.window = true, reference.left = 2, reference.right = 1;
            checkInspection({"--window", "2,1", "--align", word});
            reference.window = false;
            givenAlibi(2);
            checkInspection({"--alibi", "alibi.npy", "--align", word});
        }
    }
}

TEST_F(InspectTest, masksAndBiases) {
    givenVectors({2, 3, 5, 8}, {2, 1, 40, 8});
    reference.mask = Array{{2, 1, 5, 40}, std::vector<double>(400)};
    for (double &each : reference.mask->values) each = chance(3);
    for (size_t j = 0; j < 40; j++) reference.mask->values[80 + j] = 0; // a row that sees nothing
    writeNpy(file("m.npy"), *reference.mask, {.descr = "|b1"});
    EXPECT_NE(checkInspection({"--mask", "m.npy"}).out.find("\n3 rows see nothing, and are left out of every mean\n"), std::string::npos);
    reference.mask.reset();
    givenBits({3, 5}, 40);
    reference.bias = randomArray(random, {3, 1, 40}, 2);
    for (double &each : reference.bias->values) each = chance(5) ? -INFINITY : each;
    writeNpy(file("b.npy"), *reference.bias);
    checkInspection({"--bitmask", "bits.npy", "--bias", "b.npy"});
}

TEST_F(InspectTest, scoresAndTypes) {
    givenVectors({2, 5, 8}, {2, 7, 8});
    reference.softcap = 1.5, reference.scale = 0.7;
    checkInspection({"--softcap", "1.5", "--scale", "0.7"});
    reference = {};
    reference.scale = 0;
    checkInspection({"--scale", "0"}); // all keys tie: the lowest is the largest
    const std::vector<double> ties = readNpy(file("tk.npy")).values;
    for (size_t n = 0; n < ties.size(); n++) EXPECT_EQ(ties[n], static_cast<double>(n % 3)) << "element " << n;
    reference = {};
    checkInspection({"--dropout", "0.5", "--deterministic", "--slices", "2"}); // weights are those before
    q = roundedToBfloat16(q), k = roundedToBfloat16(k);
    checkInspection({"--round-to", "bf16"});
}

// A sink takes weight from all keys alike: p is what is left, divided by its sum.
TEST_F(InspectTest, sinks) {
    givenVectors({3, 5, 8}, {3, 7, 8});
    reference.sinks = {-INFINITY, 2, 300}; // the last leaves no weight that float32 has
    writeNpy(file("sinks.npy"), Array{{3}, reference.sinks});
    checkInspection({"--sinks", "sinks.npy"});
    const nlohmann::json json = jsonOf(inspection({"--sinks", "sinks.npy"}));
    EXPECT_NEAR(json["entries"][0]["measures"]["rowSum"]["min"].get<double>(), 1, 1e-5);
    EXPECT_LT(json["entries"][1]["measures"]["rowSum"]["max"].get<double>(), 0.99);
    EXPECT_LT(json["entries"][2]["measures"]["rowSum"]["max"].get<double>(), 1e-30);
    EXPECT_EQ(json["entries"][2]["emptyRows"], 0);
}

TEST_F(InspectTest, lengthsAndDocuments) {
    givenVectors({4, 2, 5, 8}, {4, 2, 9, 8});
    reference.keyLengths = {9, 0, 4, 1};
    writeNpy(file("l.npy"), Array{{4}, {9, 0, 4, 1}}, {.descr = "<i4"});
    checkInspection({"--kv-lengths", "l.npy"});
    reference.causal = true;
    checkInspection({"--kv-lengths", "l.npy", "--causal", "bottom-right"});
    givenDocuments({4, 5}, {4, 9});
    checkInspection({"--kv-lengths", "l.npy", "--causal", "bottom-right", "--doc-ids-q", "dq.npy", "--doc-ids-k", "dk.npy"});
}

TEST_F(InspectTest, raggedBatches) {
    givenVectors({4, 20, 8}, {2, 31, 8});
    givenOffsets({2, 7, 7, 18}, {0, 9, 20, 31});
    const Arguments ragged = {"--cu-seqlens-q", "cq.npy", "--cu-seqlens-k", "ck.npy"};
    EXPECT_EQ(checkInspection(ragged).out.find("q.npy and k.npy: 3 sequences, 4 heads, at most 11 queries, 11 keys\n"), 0u);
    givenDocuments({20}, {31});
    Arguments more = ragged;
    more.insert(more.end(), {"--doc-ids-q", "dq.npy", "--doc-ids-k", "dk.npy"});
    checkInspection(more);
    reference.documentsQ.reset(), reference.documentsK.reset();
    reference.mask = Array{{3, 1, 11, 11}, std::vector<double>(363)};
    for (double &each : reference.mask->values) each = chance(2);
    writeNpy(file("m.npy"), *reference.mask, {.descr = "|u1"});
    reference.causal = reference.topLeft = true;
    more = ragged;
    more.insert(more.end(), {"--mask", "m.npy", "--causal", "top-left"});
    checkInspection(more);
}

// Some sequences have no queries or no keys, and some tokens no sequence.
TEST_F(InspectTest, randomRaggedBatches) {
    for (int run = 0; run < 6; run++) {
        reference = {};
        givenVectors({2, 12, 4}, {1, 10, 4});
        givenOffsets(randomOffsets(5, 12), randomOffsets(5, 10), run % 2 == 0 ? "<i4" : "<i8");
        if (std::all_of(reference.cuQ.begin(), reference.cuQ.end(), [&](long offset) { return offset == reference.cuQ[0]; })) continue;
        reference.causal = chance(2);
        Arguments arguments = {"--cu-seqlens-q", "cq.npy", "--cu-seqlens-k", "ck.npy", "--tokens", "t.txt"};
        if (reference.causal) arguments.insert(arguments.end(), {"--causal", "bottom-right"});
        writeBytes(file("t.txt"), "");
        checkInspection(arguments);
    }
}

TEST_F(InspectTest, weightsOfEveryShape) {
    Array weights = randomArray(random, {2, 3, 4, 6});
    for (double &each : weights.values) each = chance(4) ? 0 : std::exp(each);
    for (size_t j = 0; j < 6; j++) weights.values[j] = 0;
    EXPECT_NE(checkWeights(weights).out.find("\nweights of exactly 0 count as hidden\n"), std::string::npos);
    checkWeights(weights, {}, {.descr = "<f8", .fortran = true});
    checkWeights(Array{{6, 4, 6}, weights.values}, {}, {.descr = "<f2"});
    checkWeights(Array{{24, 6}, weights.values});
    reference.topLeft = true;
    checkWeights(weights, {"--align", "top-left"});
}

// A hidden pair and one that underflows are told apart where the scores are known.
TEST_F(InspectTest, weightsThatUnderflowAreVisible) {
    q = Array{{1, 1}, {1}}, k = Array{{3, 1}, {0, -500, 1}}, v = k;
    writeNpy(file("q.npy"), q);
    writeNpy(file("k.npy"), k);
    checkInspection();
    EXPECT_EQ(readNpy(file("s.npy")).values[7], 3);
}

TEST_F(InspectTest, onTheVulkanDevice) {
    if (!hasTestedDevice()) return;
    where.clear();
    givenVectors({2, 4, 9, 8}, {2, 2, 11, 8});
    givenSinks(4);
    reference.causal = true;
    const Outcome outcome = checkInspection({"--sinks", "sinks.npy", "--causal", "bottom-right"});
    EXPECT_NE(outcome.out.find("computed by statistics on "), std::string::npos) << outcome.out;
    EXPECT_EQ(outcome.out.find(" on cpu\n"), std::string::npos) << outcome.out;
    givenVectors({4, 20, 8}, {2, 31, 8});
    reference.causal = false, reference.sinks.clear();
    givenOffsets({2, 7, 7, 18}, {0, 9, 20, 31});
    checkInspection({"--cu-seqlens-q", "cq.npy", "--cu-seqlens-k", "ck.npy"});
}

} // namespace
