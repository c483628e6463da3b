// Figures without weights in memory: the same as from weights, and of heads whose weights are not taken.
#include "inspect_fixture.hpp"

#include <algorithm>
#include <cmath>
#include <sstream>

namespace {

class InspectStreaming : public InspectTest {
  protected:
    // Draws queries and keys, and options that hide pairs. Adds those that weights need too to `ofWeights`.
    Arguments randomOptions(Arguments &ofWeights) {
        const size_t entries = extent(2), keyHeads = extent(2), heads = keyHeads * extent(2), queries = extent(9), keys = extent(12);
        givenVectors({entries, heads, queries, 8}, {entries, keyHeads, keys, 8});
        Arguments options;
        const auto add = [&](const Arguments &more) { options.insert(options.end(), more.begin(), more.end()); };
        const std::string align = chance(2) ? "top-left" : "bottom-right";
        ofWeights.insert(ofWeights.end(), {"--align", align});
        if (chance(2))
            add({"--causal", align});
        else
            add({"--align", align});
        if (chance(3)) add({"--window", "3,2"});
        if (chance(3)) {
            givenDocuments({entries, queries}, {entries, keys});
            add({"--doc-ids-q", "dq.npy", "--doc-ids-k", "dk.npy"});
        }
        if (chance(3)) {
            Array mask{{heads, 1, keys}, std::vector<double>(heads * keys)};
            for (double &each : mask.values) each = chance(4) ? 0 : 1;
            writeNpy(file("m.npy"), mask, {.descr = "|b1"});
            add({"--mask", "m.npy"});
        }
        if (chance(3)) {
            Array bias = randomArray(random, {queries, keys}, 2);
            for (double &each : bias.values) each = chance(6) ? -INFINITY : each;
            writeNpy(file("b.npy"), bias);
            add({"--bias", "b.npy"});
        }
        if (chance(3)) {
            givenAlibi(heads);
            add({"--alibi", "alibi.npy"});
        }
        if (chance(3)) add({"--softcap", "2"});
        return options;
    }

    // Numbers nearly the same, all else the same.
    static void expectNear(const nlohmann::json &got, const nlohmann::json &want, const std::string &where) {
        if (want.is_number()) {
            ASSERT_TRUE(got.is_number()) << where;
            // The deviation is the root of a difference: what rounds in the squares shows by its root.
            const double tolerance = where.find("Deviation") != std::string::npos ? 2e-2 : 5e-5;
            ASSERT_NEAR(got.get<double>(), want.get<double>(), tolerance * (1 + std::fabs(want.get<double>()))) << where;
            return;
        }
        ASSERT_EQ(got.type(), want.type()) << where;
        if (!want.is_structured()) {
            ASSERT_EQ(got, want) << where;
            return;
        }
        ASSERT_EQ(got.size(), want.size()) << where;
        for (const auto &[key, value] : want.items())
            expectNear(want.is_array() ? got[std::stoul(key)] : got.at(key), value, where + "/" + key);
    }

    static void expectNearText(const std::string &got, const std::string &want) {
        std::istringstream gotWords(got), wantWords(want);
        std::string a, b;
        while (wantWords >> b) {
            ASSERT_TRUE(gotWords >> a) << got;
            if (a == b) continue;
            char *end = nullptr;
            const double number = std::strtod(b.c_str(), &end);
            ASSERT_EQ(*end, '\0') << a << " is not " << b << " in " << got;
            ASSERT_NEAR(std::strtod(a.c_str(), nullptr), number, 1.1e-3 * (1 + std::fabs(number))) << got;
        }
        ASSERT_FALSE(gotWords >> a) << got;
    }

    void agreeOnce() {
        Arguments ofWeights;
        const Arguments options = randomOptions(ofWeights);
        Arguments run = {"run", "--q", "q.npy", "--k", "k.npy", "--v", "v.npy", "--out", "o.npy", "--weights", "w.npy"};
        // The alignment alone changes no weight, and `run` does not take it so.
        for (size_t n = 0; n < options.size(); n++)
            if (options[n] != "--align" || std::find(options.begin(), options.end(), "--window") != options.end() ||
                std::find(options.begin(), options.end(), "--alibi") != options.end())
                run.push_back(options[n]);
            else
                n++;
        run.insert(run.end(), {"--device", "cpu"});
        const Outcome made = tool(run);
        ASSERT_EQ(made.status, 0) << made.err;
        std::vector<ReadArray> arrays[2];
        nlohmann::json json[2];
        std::string text[2];
        for (const bool fromWeights : {false, true}) {
            Arguments arguments = inspection({"--density", "0.15"});
            arguments.insert(arguments.end(), options.begin(), options.end());
            if (fromWeights) {
                arguments = {"inspect", "--weights", "w.npy", "--density",  "0.15",   "--stats",       "s.npy", "--received",
                             "r.npy",   "--top",     "3",     "--top-keys", "tk.npy", "--top-weights", "tw.npy"};
                arguments.insert(arguments.end(), ofWeights.begin(), ofWeights.end());
            }
            json[fromWeights] = jsonOf(arguments);
            for (const char *name : {"s.npy", "r.npy", "tk.npy", "tw.npy"}) arrays[fromWeights].push_back(readNpy(file(name)));
            const std::string out = tool(arguments).out;
            const size_t table = out.find("\nhead  class");
            ASSERT_NE(table, std::string::npos) << out;
            text[fromWeights] = out.substr(table, out.find("weights of exactly 0") - table);
        }
        for (nlohmann::json *each : {&json[0], &json[1]})
            for (nlohmann::json &entry : (*each)["entries"]) {
                // Of weights rounded to float32 small singular values are others; without queries there is no geometry.
                entry.erase("spectrum");
                entry.erase("geometry");
            }
        for (const char *member : {"shape", "heads", "entries", "similarity"}) expectNear(json[0][member], json[1][member], member);
        expectNearText(text[0], text[1]);
        for (size_t n = 0; n < arrays[0].size(); n++) {
            ASSERT_EQ(arrays[0][n].shape, arrays[1][n].shape);
            for (size_t at = 0; at < arrays[0][n].values.size(); at++)
                ASSERT_NEAR(arrays[0][n].values[at], arrays[1][n].values[at], 5e-5 * (1 + std::fabs(arrays[1][n].values[at])))
                    << "file " << n << ", element " << at;
        }
    }
};

TEST_F(InspectStreaming, agreesWithWeights) {
    for (int run = 0; run < 12; run++) {
        SCOPED_TRACE("problem " + std::to_string(run));
        agreeOnce();
        if (HasFatalFailure()) return;
    }
}

TEST_F(InspectStreaming, agreesWithWeightsOnTheVulkanDevice) {
    if (!hasTestedDevice()) return;
    where.clear();
    for (int run = 0; run < 2; run++) { // lavapipe compiles for seconds
        SCOPED_TRACE("problem " + std::to_string(run));
        agreeOnce();
        if (HasFatalFailure()) return;
    }
}

// Above 8192 x 8192 weights; neither is there a full matrix here.
TEST_F(InspectStreaming, largeHeadsTakeNoWeights) {
    constexpr size_t queries = 3000, keys = 23000, dims = 4;
    q = randomArray(random, {queries, dims}), k = randomArray(random, {keys, dims}, 2);
    writeNpy(file("q.npy"), q);
    writeNpy(file("k.npy"), k);
    const nlohmann::json json = jsonOf(inspection({"--csv", "c.csv"}));
    const std::string withheld = json["withheld"];
    EXPECT_EQ(withheld.find("a head's weights, 3000 x 23000, take 1.6"), 0u) << withheld;
    for (const char *member : {"reach", "relativeDensity", "distanceHistogram", "keysForMass", "spectrum", "flow"}) {
        EXPECT_EQ(json["entries"][0].count(member), 0u) << member;
        EXPECT_EQ(json["heads"][0].count(member), 0u) << member;
    }
    EXPECT_EQ(json["similarity"].size(), 0u);
    EXPECT_EQ(json["entries"][0]["geometry"], nullptr);
    EXPECT_EQ(json["entries"][0]["received"].size(), keys);
    std::istringstream lines(readBytes(file("c.csv")));
    std::string header, line;
    std::getline(lines, header);
    std::getline(lines, line);
    EXPECT_EQ(std::count(line.begin(), line.end(), ','), 25);
    EXPECT_EQ(line.back(), ','); // keys_for_mass
    const ReadArray stats = readNpy(file("s.npy")), received = readNpy(file("r.npy")), topKeys = readNpy(file("tk.npy")),
                    topWeights = readNpy(file("tw.npy"));
    double whole = 0;
    for (const double mass : received.values) whole += mass;
    EXPECT_NEAR(whole, 1, 1e-4);
    double topMass = 0;
    for (size_t i = 0; i < queries; i++)
        for (size_t n = 0; n < 3; n++) topMass += topWeights.values[i * 3 + n] / queries;
    EXPECT_GT(json["entries"][0]["topMass"]["mean"].get<double>(), topMass); // of five
    EXPECT_LT(json["entries"][0]["topMass"]["mean"].get<double>(), topMass * 5 / 3);
    for (int sample = 0; sample < 20; sample++) {
        const size_t i = random() % queries;
        std::vector<double> p(keys);
        double sum = 0, entropy = 0, distance = 0;
        for (size_t j = 0; j < keys; j++) {
            double score = 0;
            for (size_t d = 0; d < dims; d++) score += q.values[i * dims + d] * k.values[j * dims + d];
            sum += p[j] = std::exp(score / 2);
        }
        const double position = static_cast<double>(i + keys - queries);
        for (size_t j = 0; j < keys; j++) {
            p[j] /= sum;
            entropy -= p[j] * std::log(p[j]);
            distance += p[j] * std::fabs(static_cast<double>(j) - position);
        }
        const double *const row = stats.values.data() + i * 8;
        const double largest = *std::max_element(p.begin(), p.end());
        EXPECT_NEAR(row[0], entropy, 1e-4) << "row " << i;
        EXPECT_NEAR(row[1], largest, 1e-5) << "row " << i;
        EXPECT_NEAR(p[static_cast<size_t>(row[2])], largest, 1e-6) << "row " << i;
        EXPECT_NEAR(row[3], distance, 1e-4 * distance) << "row " << i;
        EXPECT_EQ(row[7], keys) << "row " << i;
        EXPECT_EQ(topKeys.values[i * 3], row[2]) << "row " << i;
    }
    const std::string out = tool(inspection()).out;
    EXPECT_EQ(out.find("  reach\n"), std::string::npos) << out;
    EXPECT_NE(out.find("\nno reach: " + withheld + "\n"), std::string::npos) << out;
}

// Options that ask for weights by name are refused where those are too many, before anything is written.
TEST_F(InspectStreaming, weightsThatAreTooManyAreRefused) {
    constexpr size_t tokens = 1000000; // 23 TiB
    writeNpy(file("q.npy"), Array{{tokens, 1}, std::vector<double>(tokens)});
    writeNpy(file("k.npy"), Array{{tokens, 1}, std::vector<double>(tokens)});
    for (const Arguments &option : {Arguments{"--html", "h.html"}, {"--png", "deep"}, {"--seed-classes"}, {"--spectrum", "64"}})
        expectRefused(tool(inspection(option)), {option[0] + " needs weights in memory", "1000000 x 1000000", "take 22.7 TiB",
                                                 "more than half of the memory", "leave " + option[0] + " out"});
    for (const char *name : {"s.npy", "r.npy", "h.html", "deep"}) EXPECT_FALSE(exists(name)) << name;
}

TEST_F(InspectStreaming, batchName) {
    givenVectors({2, 1, 4, 8}, {2, 1, 4, 8});
    ASSERT_EQ(tool(inspection({"--html", "h.html"})).status, 0);
    EXPECT_NE(readBytes(file("h.html")).find("batch 1, head 0"), std::string::npos);
    ASSERT_EQ(tool(inspection({"--html", "h.html", "--batch-name", "layer"})).status, 0);
    EXPECT_NE(readBytes(file("h.html")).find("layer 1, head 0"), std::string::npos);
    EXPECT_EQ(readBytes(file("h.html")).find("batch 1, head 0"), std::string::npos);
}

} // namespace
