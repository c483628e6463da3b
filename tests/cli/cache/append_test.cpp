// `vkattn append`: contiguous caches, rings and pages against loops of this file's own; hostile positions and tables.
#include "../harness.hpp"

#include <nlohmann/json.hpp>

#include <cmath>
#include <limits>

namespace {

class AppendTool : public CliTest {
  protected:
    AppendTool() : random_(testSeed()) {}

    // c.npy and n.npy; positions as they are given.
    void given(const std::vector<size_t> &cache, const std::vector<size_t> &tokens, const std::vector<double> &positions,
               const std::string &cacheType = "<f4", const std::string &positionType = "<i8") {
        cache_ = randomArray(random_, cache), new_ = randomArray(random_, tokens);
        writeNpy(file("c.npy"), cache_, {.descr = cacheType});
        writeNpy(file("n.npy"), new_);
        positions_ = positions;
        writeNpy(file("p.npy"), Array{{positions.size()}, positions}, {.descr = positionType});
    }
    void table(const std::vector<size_t> &shape, const std::vector<double> &pages, const std::string &type = "<i4") {
        pages_ = pages, columns_ = shape[1];
        writeNpy(file("t.npy"), Array{shape, pages}, {.descr = type});
    }
    [[nodiscard]] static Arguments command(const Arguments &more = {}) {
        Arguments all = {"append", "--cache", "c.npy", "--new", "n.npy", "--positions", "p.npy", "--out", "c2.npy"};
        all.insert(all.end(), more.begin(), more.end());
        return all;
    }
    // Runs, and compares every element with what the loops say; what nothing is written to stays bit for bit.
    void expectAppended(const Arguments &more, bool ring, bool paged = false, bool headsFirst = false, double tolerance = 0) const {
        const Outcome outcome = tool(command(more));
        ASSERT_EQ(outcome.status, 0) << outcome.err;
        const ReadArray got = readNpy(file("c2.npy"));
        ASSERT_EQ(got.shape, cache_.shape);
        const std::vector<size_t> &n = new_.shape, &c = cache_.shape;
        const size_t tokens = n[2], dims = n[3], pageTokens = paged ? c[headsFirst ? 2 : 1] : c[2];
        const auto capacity = static_cast<int64_t>(paged ? pageTokens * columns_ : c[2]);
        std::vector<double> expected = cache_.values;
        std::vector<bool> written(expected.size());
        size_t outside = 0, absent = 0;
        for (size_t b = 0; b < n[0]; b++)
            for (size_t t = 0; t < tokens; t++) {
                int64_t position = static_cast<int64_t>(positions_[b]) + static_cast<int64_t>(t);
                if (ring && capacity > 0) position %= capacity;
                if (positions_[b] < 0 || position >= capacity) {
                    outside++;
                    continue;
                }
                auto entry = static_cast<int64_t>(b);
                auto row = static_cast<size_t>(position);
                if (paged) {
                    entry = static_cast<int64_t>(pages_[b * columns_ + row / pageTokens]);
                    row %= pageTokens;
                    if (entry < 0 || entry >= static_cast<int64_t>(c[0])) {
                        absent++;
                        continue;
                    }
                }
                for (size_t h = 0; h < n[1]; h++)
                    for (size_t d = 0; d < dims; d++) {
                        const size_t heads = n[1], e = static_cast<size_t>(entry);
                        const size_t at = paged && !headsFirst ? ((e * pageTokens + row) * heads + h) * dims + d
                                                               : ((e * heads + h) * pageTokens + row) * dims + d;
                        expected[at] = new_.values[((b * heads + h) * tokens + t) * dims + d];
                        written[at] = true;
                    }
            }
        const std::string said = "of " + std::to_string(n[0] * tokens) + " new tokens " + std::to_string(outside) + " lie outside the " +
                                 std::to_string(capacity) + " of a cache" +
                                 (absent > 0 ? ", and " + std::to_string(absent) + " lie in absent pages" : "") + ": they are not written";
        const bool tells = outside + absent > 0;
        EXPECT_EQ(outcome.err.find(tells ? said : "new tokens") != std::string::npos, tells) << outcome.err << said;
        for (size_t at = 0; at < expected.size(); at++)
            if (written[at])
                EXPECT_NEAR(got.values[at], expected[at], tolerance) << at;
            else
                EXPECT_EQ(got.values[at], expected[at]) << at;
    }

    Array cache_, new_;
    std::vector<double> positions_, pages_;
    size_t columns_ = 0;

  private:
    std::mt19937_64 random_;
};

const Arguments cpu = {"--device", "cpu"};

TEST_F(AppendTool, helpNamesEveryOption) {
    const Outcome outcome = tool({"append", "--help"});
    EXPECT_EQ(outcome.status, 0);
    for (const std::string option : {"--cache", "--new", "--positions", "--out", "--ring", "--page-table", "--page-layout", "--device",
                                     "--verify", "--no-fallback", "--repeat", "--json"})
        EXPECT_NE(outcome.out.find("  " + option + " "), std::string::npos) << option;
    EXPECT_NE(tool({"--help"}).out.find("\n  append "), std::string::npos);
}

TEST_F(AppendTool, writesAtThePositions) {
    given({3, 2, 9, 5}, {3, 2, 4, 5}, {0, 3, 7});
    expectAppended({"--device", "cpu", "--verify=all"}, false);
}

// Of 64-bit positions some would be good ones if their upper half were lost.
TEST_F(AppendTool, positionsOutOfRangeWriteNothing) {
    given({6, 1, 9, 5}, {6, 1, 4, 5}, {-1, 9, 4294967296.0, 1099511627778.0, -4294967295.0, 8});
    expectAppended(cpu, false);
    expectAppended({"--device", "cpu", "--ring"}, true);
    given({3, 1, 9, 5}, {3, 1, 4, 5}, {-2147483648.0, 2147483647, -3}, "<f4", "<i4");
    expectAppended(cpu, false);
    expectAppended({"--device", "cpu", "--ring"}, true);
}

TEST_F(AppendTool, goesRoundARing) {
    for (const size_t tokens : {4, 9, 10, 25}) {
        given({2, 2, 9, 3}, {2, 2, tokens, 3}, {7, 100});
        expectAppended({"--device", "cpu", "--ring", "--verify=all"}, true);
    }
}

// A cache of no tokens has a place for none.
TEST_F(AppendTool, cachesMayBeEmpty) {
    given({2, 2, 0, 3}, {2, 2, 4, 3}, {0, 7});
    expectAppended(cpu, false);
    expectAppended({"--device", "cpu", "--ring"}, true);
}

TEST_F(AppendTool, writesIntoPages) {
    for (const bool headsFirst : {false, true})
        for (const bool ring : {false, true}) {
            given(headsFirst ? std::vector<size_t>{7, 2, 4, 5} : std::vector<size_t>{7, 4, 2, 5}, {2, 2, 9, 5}, {2, 6});
            table({2, 3}, {6, 0, 3, 5, -1, 7});
            Arguments more = {"--page-table", "t.npy"};
            if (headsFirst) more.insert(more.end(), {"--page-layout", "hnd"});
            if (ring) more.push_back("--ring");
            more.insert(more.end(), {"--device", "cpu", "--verify=all"});
            expectAppended(more, ring, true, headsFirst);
        }
    given({4, 3, 1, 2}, {1, 1, 5, 2}, {1});
    table({1, 3}, {-2147483648.0, 4294967297.0, 2}, "<i8");
    expectAppended({"--device", "cpu", "--page-table", "t.npy"}, false, true);
}

class AppendOnDriver : public AppendTool {};

TEST_F(AppendOnDriver, writesWhereTheCpuDoes) {
    if (!hasTestedDevice()) return;
    for (const bool ring : {false, true}) {
        const Arguments more = ring ? Arguments{"--no-fallback", "--ring"} : Arguments{"--no-fallback"};
        given({4, 2, 9, 5}, {4, 2, 4, 5}, {0, 7, -1, 4294967297.0});
        expectAppended(more, ring);
        given({2, 2, 9, 3}, {2, 2, 25, 3}, {7, 100});
        expectAppended(more, ring);
        Arguments pages = more;
        pages.insert(pages.end(), {"--page-table", "t.npy"});
        given({7, 4, 2, 5}, {2, 2, 9, 5}, {2, 6});
        table({2, 3}, {6, 0, 3, 5, -1, 7});
        expectAppended(pages, ring, true);
        pages.insert(pages.end(), {"--page-layout", "hnd"});
        given({7, 2, 4, 5}, {2, 2, 9, 5}, {2, 6});
        expectAppended(pages, ring, true, true);
    }
}

TEST_F(AppendTool, convertsToTheTypeOfTheCache) {
    given({2, 2, 9, 3}, {2, 2, 4, 3}, {1, 8}, "<f2");
    expectAppended(cpu, false, false, false, 2e-3);
    EXPECT_EQ(readNpy(file("c2.npy")).descr, "<f2");
}

TEST_F(AppendTool, takesFilesInFortranOrder) {
    given({2, 2, 9, 3}, {2, 2, 4, 3}, {1, 8});
    writeNpy(file("c.npy"), cache_, {.fortran = true});
    writeNpy(file("n.npy"), new_, {.fortran = true});
    expectAppended(cpu, false);
    given({5, 2, 1, 3}, {2, 1, 4, 3}, {0, 1});
    table({2, 3}, {4, 0, 1, 2, 3, -1});
    writeNpy(file("c.npy"), cache_, {.fortran = true});
    writeNpy(file("t.npy"), Array{{2, 3}, pages_}, {.descr = "<i4", .fortran = true});
    expectAppended({"--device", "cpu", "--page-table", "t.npy"}, false, true);
}

// Numbers that are none are copied as others are, and stay where nothing is written.
TEST_F(AppendTool, numbersThatAreNoneTouchNothingElse) {
    given({1, 1, 6, 2}, {1, 1, 2, 2}, {2});
    cache_.values[0] = cache_.values[11] = std::numeric_limits<double>::quiet_NaN();
    new_.values[1] = std::numeric_limits<double>::quiet_NaN(), new_.values[2] = -std::numeric_limits<double>::infinity();
    writeNpy(file("c.npy"), cache_), writeNpy(file("n.npy"), new_);
    const Outcome outcome = tool(command({"--device", "cpu", "--verify=all"}));
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    const ReadArray got = readNpy(file("c2.npy"));
    for (size_t at = 0; at < 12; at++) {
        const double expected = at >= 4 && at < 8 ? new_.values[at - 4] : cache_.values[at];
        EXPECT_TRUE(std::isnan(expected) ? std::isnan(got.values[at]) : got.values[at] == expected) << at;
    }
}

TEST_F(AppendTool, reportsInJson) {
    given({5, 4, 2, 3}, {1, 2, 4, 3}, {1});
    table({1, 2}, {4, 0});
    const Outcome outcome = tool(command({"--device", "cpu", "--json", "--ring", "--page-table", "t.npy"}));
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    const auto json = nlohmann::json::parse(outcome.out);
    EXPECT_EQ(json["options"], (nlohmann::json{{"ring", true}, {"pageLayout", "nhd"}}));
    EXPECT_EQ(json["shapes"]["pageTable"], (std::vector<size_t>{1, 2}));
    EXPECT_EQ(json["shapes"]["cache"], (std::vector<size_t>{5, 4, 2, 3}));
    EXPECT_EQ(json["outputs"]["out"], "c2.npy");
}

TEST_F(AppendTool, refuses) {
    given({2, 2, 9, 3}, {2, 2, 4, 3}, {1, 8});
    const auto refused = [&](const Arguments &more, const std::vector<std::string> &words) { expectRefused(tool(command(more)), words); };
    expectRefused(tool({"append", "--cache", "c.npy", "--new", "n.npy", "--out", "c2.npy"}), {"--positions is required"});
    refused({"--page-layout", "hnd"}, {"--page-layout", "there is no --page-table"});
    refused({"--page-layout", "dnh", "--page-table", "t.npy"}, {"--page-layout takes nhd or hnd, not 'dnh'"});
    refused({"--page-table", "missing.npy"}, {"missing.npy: no such file"});
    table({1, 3}, {0, 1, 2});
    refused({"--page-table", "t.npy"}, {"shapes disagree"}); // a cache that is no pool of these heads
    writeNpy(file("c.npy"), Array{{4, 9, 2, 3}, std::vector<double>(216)});
    refused({"--page-table", "t.npy"}, {"t.npy (1, 3) int32: expected a row of pages for each batch entry", "(2, pages)"});
    writeNpy(file("t.npy"), Array{{2, 3}, std::vector<double>(6)});
    refused({"--page-table", "t.npy"}, {"t.npy: it holds float32, but --page-table takes int32 or int64"});
    given({2, 2, 9, 3}, {2, 2, 4, 3}, {1, 8, 3});
    refused({}, {"p.npy (3,) int64: expected one position for each batch entry of n.npy", "(2,)"});
    given({2, 2, 9, 4}, {2, 2, 4, 3}, {1, 8});
    refused({}, {"shapes disagree", "dims"});
    given({1, 2, 9, 3}, {2, 2, 4, 3}, {1, 8});
    refused({}, {"shapes disagree", "batch"});
}

} // namespace
