// The text, JSON and CSV of `vkattn inspect`.
#include "inspect_fixture.hpp"

#include <algorithm>
#include <cmath>
#include <sstream>

namespace {

class InspectReport : public InspectTest {
  protected:
    // Identity, uniform, causal uniform, band, one-hot and two blocks, as heads of 16 tokens.
    void givenPatterns() const {
        constexpr size_t n = 16;
        Array weights{{6, n, n}, {}};
        for (size_t h = 0; h < 6; h++)
            for (size_t i = 0; i < n; i++)
                for (size_t j = 0; j < n; j++) {
                    const double share = 1.0 / static_cast<double>(1 + (i > 0) + (i + 1 < n));
                    const bool band = i <= j + 1 && j <= i + 1, block = (i < n / 2) == (j < n / 2);
                    const double all[] = {i == j ? 1.0 : 0, 1.0 / n,          j <= i ? 1.0 / static_cast<double>(i + 1) : 0,
                                          band ? share : 0, j == 3 ? 1.0 : 0, block ? 2.0 / n : 0};
                    weights.values.push_back(all[h]);
                }
        writeNpy(file("w.npy"), weights);
    }
};

TEST_F(InspectReport, patternsByHand) {
    givenPatterns();
    const nlohmann::json json = jsonOf({"inspect", "--weights", "w.npy"});
    EXPECT_EQ(json["schema"], 1);
    EXPECT_EQ(json["shape"], (std::vector<int>{1, 6, 16, 16}));
    EXPECT_EQ(json["device"], nullptr);
    std::vector<std::string> classes;
    for (const auto &head : json["heads"]) classes.push_back(head["class"]);
    EXPECT_EQ(classes, (std::vector<std::string>{"diagonal", "global", "global", "diagonal", "local", "global"}));
    // One key of weight is all that its neighbours are known to see: the class is another where zeros are seen.
    const nlohmann::json seen = jsonOf({"inspect", "--weights", "w.npy", "--zeros", "visible"});
    EXPECT_EQ(seen["heads"][4]["class"], "sparse");
    EXPECT_EQ(seen["heads"][5]["class"], "sparse");
    EXPECT_NEAR(seen["heads"][5]["normalizedEntropy"].get<double>(), std::log(8) / std::log(16), 1e-6);
    EXPECT_EQ(seen["visibleFromWeights"], false);
    const Arguments causal = {"inspect", "--weights", "w.npy", "--zeros", "visible", "--causal", "bottom-right"};
    EXPECT_EQ(jsonOf(causal)["heads"][2]["class"], "global");
    EXPECT_NEAR(jsonOf(causal)["entries"][0]["measures"]["visible"]["mean"].get<double>(), 8.5, 1e-9);
    const auto figure = [&](int head, const char *name) { return json["heads"][head][name].get<double>(); };
    EXPECT_NEAR(figure(0, "mutualInformation"), std::log(16), 1e-6);
    EXPECT_NEAR(figure(1, "entropy"), std::log(16), 1e-6);
    EXPECT_NEAR(figure(1, "distance"), 255 / 48.0, 1e-6);
    EXPECT_NEAR(figure(2, "normalizedEntropy"), 1, 1e-6);
    EXPECT_EQ(figure(3, "reach"), 1);
    EXPECT_NEAR(figure(5, "mutualInformation"), std::log(2), 1e-6);
    const auto &entries = json["entries"];
    EXPECT_EQ(entries[4]["received"][3], 1);
    EXPECT_EQ(entries[1]["spectrum"]["rank"], 1);
    EXPECT_EQ(entries[1]["spectrum"]["condition"], "Infinity");
    EXPECT_EQ(entries[2]["spectrum"]["triangular"], true);
    EXPECT_NEAR(entries[2]["spectrum"]["gap"].get<double>(), 0.5, 1e-6);
    EXPECT_NEAR(entries[1]["flow"][0]["keptMass"].get<double>(), 17 / 32.0, 1e-6); // causal
    EXPECT_EQ(entries[1]["flow"][1]["mask"], "band 2");
    EXPECT_EQ(entries[1]["geometry"], nullptr);
    EXPECT_NEAR(json["similarity"][0]["jensenShannon"][0][4].get<double>(), std::log(2) * 15 / 16, 1e-6);
    EXPECT_EQ(json["similarity"][0]["jensenShannon"][2][2], 0);
    EXPECT_EQ(json["similarity"][0]["rowStride"], 1);
}

TEST_F(InspectReport, textFitsATerminal) {
    givenPatterns();
    writeBytes(file("t.txt"), "The\ncat\n\xE2\x82\xAC\nsits on a very long word that never seems to end\n");
    const Outcome outcome = tool({"inspect", "--weights", "w.npy", "--tokens", "t.txt"});
    EXPECT_EQ(outcome.status, 0);
    std::istringstream lines(outcome.out);
    std::string line;
    while (std::getline(lines, line)) EXPECT_LE(line.size(), 101u) << line;
    EXPECT_NE(outcome.out.find("\n   4  local       0.000        1    1.000"), std::string::npos) << outcome.out;
    EXPECT_NE(outcome.out.find("\n   4  3 \"sits on a very long wor"), std::string::npos) << outcome.out;
    EXPECT_NE(outcome.out.find("0 \"The\""), std::string::npos);
}

TEST_F(InspectReport, thresholdsAndSeedClasses) {
    givenPatterns();
    EXPECT_EQ(jsonOf({"inspect", "--weights", "w.npy", "--thresholds", "1,0.2,0.8"})["heads"][3]["class"], "local");
    const nlohmann::json json = jsonOf({"inspect", "--weights", "w.npy", "--seed-classes", "--thresholds", "1,1,0.8"});
    EXPECT_EQ(json["heads"][2]["class"], "global");
    EXPECT_EQ(json["heads"][2]["seed"]["class"], "sparse"); // ln n for all rows, whatever they see
    EXPECT_NE(tool({"inspect", "--weights", "w.npy", "--seed-classes"}).out.find("class without masks"), std::string::npos);
}

TEST_F(InspectReport, csvHasARowForEachHead) {
    givenVectors({2, 3, 5, 8}, {2, 3, 7, 8});
    ASSERT_EQ(tool(inspection({"--csv", "c.csv"})).status, 0);
    std::istringstream lines(readBytes(file("c.csv")));
    std::string line;
    size_t columns = 0, rows = 0;
    while (std::getline(lines, line)) {
        const auto count = static_cast<size_t>(std::count(line.begin(), line.end(), ','));
        if (rows++ == 0) columns = count;
        EXPECT_EQ(count, columns) << line;
    }
    EXPECT_EQ(rows, 7u);
    EXPECT_EQ(columns, 25u);
    EXPECT_EQ(readBytes(file("c.csv")).find("batch,head,class,"), 0u);
}

TEST_F(InspectReport, geometryAndDevice) {
    givenVectors({5, 8}, {7, 8});
    q.values[0] = q.values[1] = 3;
    for (size_t d = 0; d < 8; d++) q.values[8 + d] = 0;
    writeNpy(file("q.npy"), q);
    const nlohmann::json json = jsonOf(inspection({"--causal", "bottom-right"}));
    const auto &geometry = json["entries"][0]["geometry"];
    EXPECT_EQ(geometry["zeroQueries"], 1);
    EXPECT_EQ(geometry["angle"]["rows"], 3 + 5 + 6 + 7); // visible pairs but for the second query's
    EXPECT_EQ(json["device"], "cpu");
    EXPECT_EQ(json["similarity"].size(), 0u); // one head
}

TEST_F(InspectReport, largeHeadsHaveLeadingSingularValues) {
    givenVectors({40, 8}, {40, 8});
    const auto exact = jsonOf(inspection())["entries"][0]["spectrum"],
               leading = jsonOf(inspection({"--spectrum", "30"}))["entries"][0]["spectrum"];
    EXPECT_EQ(exact["exact"], true);
    EXPECT_EQ(exact["singularValues"].size(), 40u);
    EXPECT_EQ(leading["exact"], false);
    ASSERT_EQ(leading["singularValues"].size(), 16u);
    EXPECT_NEAR(leading["singularValues"][0].get<double>(), exact["singularValues"][0].get<double>(), 1e-6);
    EXPECT_EQ(leading.count("eigenvalues"), 0u);
    const auto causal = jsonOf(inspection({"--spectrum", "30", "--causal", "top-left"}))["entries"][0]["spectrum"];
    EXPECT_EQ(causal["eigenvalues"].size(), 40u); // the diagonal
}

// Rows that are not finite are counted; they spoil no mean.
TEST_F(InspectReport, notFinite) {
    writeNpy(file("w.npy"), Array{{3, 2}, {0.5, 0.5, NAN, 1, INFINITY, 0}});
    const nlohmann::json json = jsonOf({"inspect", "--weights", "w.npy", "--stats", "s.npy", "--received", "r.npy"});
    EXPECT_EQ(json["heads"][0]["notFiniteRows"], 2);
    EXPECT_NEAR(json["heads"][0]["entropy"].get<double>(), std::log(2), 1e-6);
    EXPECT_EQ(readNpy(file("r.npy")).values, (std::vector<double>{0.5, 0.5}));
    const ReadArray stats = readNpy(file("s.npy"));
    EXPECT_EQ(stats.values[8 + 2], -1);
    EXPECT_EQ(stats.values[8], 0);
    EXPECT_NE(tool({"inspect", "--weights", "w.npy"}).out.find("\n2 rows have NaN or infinite weights, and are left out"),
              std::string::npos);
    givenVectors({2, 4}, {3, 4});
    k.values[5] = NAN;
    writeNpy(file("k.npy"), k);
    EXPECT_EQ(jsonOf(inspection())["heads"][0]["notFiniteRows"], 2);
    EXPECT_EQ(readNpy(file("r.npy")).values, (std::vector<double>{0, 0, 0}));
    const nlohmann::json causal = jsonOf(inspection({"--causal", "top-left", "--density", "0.5"}));
    EXPECT_EQ(causal["heads"][0]["notFiniteRows"], 1);
    EXPECT_EQ(causal["heads"][0]["density"], 1);
    EXPECT_EQ(readNpy(file("r.npy")).values, (std::vector<double>{1, 0, 0}));
    EXPECT_EQ(readNpy(file("s.npy")).values[8 + 2], -1);
    EXPECT_EQ(readNpy(file("s.npy")).values[8 + 7], 0);
    EXPECT_EQ(readNpy(file("tk.npy")).values, (std::vector<double>{0, -1, -1, -1, -1, -1}));
    EXPECT_EQ(readNpy(file("tw.npy")).values, (std::vector<double>{1, 0, 0, 0, 0, 0}));
    // Documents hide the second query from all keys; and in another order.
    writeNpy(file("dq.npy"), Array{{2}, {1, 0}}, {.descr = "<i4"});
    writeNpy(file("dk.npy"), Array{{3}, {1, 0, 1}}, {.descr = "<i4"});
    EXPECT_EQ(jsonOf(inspection({"--doc-ids-q", "dq.npy", "--doc-ids-k", "dk.npy"}))["heads"][0]["notFiniteRows"], 1);
    const std::vector<double> received = readNpy(file("r.npy")).values;
    EXPECT_EQ(received[1], 0);
    EXPECT_NEAR(received[0] + received[2], 1, 1e-6);
}

} // namespace
