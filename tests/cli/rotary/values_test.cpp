// The numbers of `vkattn rotary`: ranks, dtypes, pairs, dims, positions and tables.
#include "rotary_fixture.hpp"

#include <vkattn/operations.h>

#include <cmath>

namespace {

// Tables of the library for positions from 0 on.
std::pair<Array, Array> libraryTables(uint32_t positions, uint32_t dims, double base) {
    std::vector<float> cos(size_t{positions} * dims / 2), sin(cos.size());
    vkattn_diagnostic why{};
    EXPECT_EQ(vkattnRotaryTable(positions, dims, base, cos.data(), sin.data(), &why), VKATTN_OK) << why.message;
    const std::vector<size_t> shape = {positions, dims / 2};
    return {Array{shape, {cos.begin(), cos.end()}}, Array{shape, {sin.begin(), sin.end()}}};
}

TEST_F(RotaryTest, ranksTwoToFourInBothPairs) {
    for (const std::vector<size_t> &shape :
         std::vector<std::vector<size_t>>{{5, 8}, {3, 5, 8}, {2, 3, 5, 8}, {1, 1, 1, 2}, {2, 1, 33, 64}, {3, 130}}) {
        given(shape);
        for (const bool interleaved : {false, true}) {
            rotation.interleaved = interleaved;
            check({"--pairs", interleaved ? "interleaved" : "half"});
        }
        rotation.interleaved = false;
        check(); // half is the default
    }
}

TEST_F(RotaryTest, positionZeroIsTheIdentity) {
    given({2, 1, 16});
    for (const std::string pairs : {"half", "interleaved"}) {
        check({"--pairs", pairs});
        EXPECT_EQ(readNpy(file("o.npy")).values, x.values);
    }
    given({3, 4}, {.descr = "<f2"});
    givenPositions({3}, {0, 0, 0});
    check({"--positions", "p.npy"}, "<f2");
    EXPECT_EQ(readNpy(file("o.npy")).values, x.values);
}

TEST_F(RotaryTest, theFirstDims) {
    for (const size_t width : {7u, 8u, 24u})
        for (const size_t dims : {2u, 4u, 6u})
            for (const bool interleaved : {false, true}) {
                given({2, 3, width});
                rotation.dims = dims, rotation.interleaved = interleaved, rotation.start = 3;
                check({"--dims", std::to_string(dims), "--pairs", interleaved ? "interleaved" : "half", "--start", "3"});
            }
}

TEST_F(RotaryTest, dtypes) {
    rotation.start = 17;
    given({2, 5, 8}, {.descr = "<f2"});
    check({"--start", "17"}, "<f2");
    given({2, 5, 8}, {.descr = "<f8"});
    EXPECT_NE(check({"--start", "17"}).err.find("note: x.npy: float64 converted to float32\n"), std::string::npos);
    writeNpy(file("x.npy"), Array{{1, 2}, {1e300, 0}}, {.descr = "<f8"});
    const Outcome outcome = tool(command());
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_NE(outcome.err.find("1 values beyond its range became infinite"), std::string::npos) << outcome.err;
    EXPECT_EQ(readNpy(file("o.npy")).values[0], INFINITY);
}

TEST_F(RotaryTest, fortranOrder) {
    rotation.start = 2;
    given({2, 3, 5, 8}, {.fortran = true});
    check({"--start", "2"});
    given({5, 6}, {.descr = "<f2", .fortran = true});
    check({"--start", "2"}, "<f2");
}

TEST_F(RotaryTest, startsOfAnySize) {
    given({2, 3, 5, 8});
    for (const double start : {0.0, 1.0, 1000.0, 100000.0, 1e6, 1073741824.0, 4294967291.0}) {
        rotation.start = start;
        check({"--start", std::to_string(static_cast<uint64_t>(start))});
    }
}

// A table of every position up to the last one would have 2^47 elements here.
TEST_F(RotaryTest, onlyPositionsThatOccurTakeMemory) {
    given({2, 65536});
    rotation.start = 4294967294.0;
    check({"--start", "4294967294"});
    givenPositions({2}, {4294967295.0, 1}, {.descr = "<u4"});
    check({"--positions", "p.npy"});
}

TEST_F(RotaryTest, manyTokens) {
    given({50000, 4}); // more rows than are made at once
    rotation.start = 7;
    check({"--start", "7"});
    std::vector<double> positions(50000);
    for (double &position : positions) position = static_cast<double>(random() % 100000); // with gaps and repetitions
    givenPositions({50000}, positions);
    check({"--positions", "p.npy"});
}

TEST_F(RotaryTest, positionsOfEachBatchEntry) {
    const std::vector<double> positions = {5, 0, 1000000, 3, 3, 9, 2, 0, 7, 2147483647};
    for (const std::string descr : {"<i4", "<i8", "<u4"})
        for (const bool fortran : {false, true}) {
            given({2, 3, 5, 8});
            givenPositions({2, 5}, positions, {.descr = descr, .fortran = fortran});
            check({"--positions", "p.npy"});
        }
    given({2, 1, 2, 6}, {.fortran = true});
    givenPositions({2, 2}, {4294967295.0, 4294967294.0, 0, 4294967295.0}, {.descr = "<u4"});
    rotation.interleaved = true;
    check({"--positions", "p.npy", "--pairs=interleaved"});
}

TEST_F(RotaryTest, positionsOfOneBatchEntry) {
    for (const std::vector<size_t> &shape : std::vector<std::vector<size_t>>{{3, 6}, {2, 3, 6}, {1, 2, 3, 6}})
        for (const std::vector<size_t> &positions : std::vector<std::vector<size_t>>{{3}, {1, 3}}) {
            given(shape);
            givenPositions(positions, {8, 6, 7}, {.descr = "<i8"});
            check({"--positions", "p.npy"});
        }
}

TEST_F(RotaryTest, base) {
    given({3, 9, 8});
    rotation.start = 40;
    for (const std::string text : {"10000", "500000", "1e6", "2.5", "1", "0.5"}) {
        rotation.base = std::stod(text);
        check({"--base", text, "--start", "40"});
    }
}

TEST_F(RotaryTest, tablesAreTaken) {
    for (const bool fortran : {false, true}) {
        given({2, 3, 5, 8});
        // Not of any angle: nothing else has these numbers.
        givenTables(randomArray(random, {9, 4}), randomArray(random, {9, 4}), {.fortran = fortran});
        rotation.start = 0;
        check({"--cos", "c.npy", "--sin", "s.npy"});
        rotation.start = 4; // the last token has the last row
        check({"--cos", "c.npy", "--sin", "s.npy", "--start", "4", "--pairs", "half"});
        givenPositions({2, 5}, {8, 0, 1, 1, 2, 3, 8, 8, 0, 5});
        check({"--cos", "c.npy", "--sin", "s.npy", "--positions", "p.npy"});
        rotation.positions.clear();
        rotation.start = 1, rotation.dims = 4, rotation.interleaved = true;
        givenTables(randomArray(random, {6, 2}), randomArray(random, {6, 2}), {.fortran = fortran});
        check({"--cos", "c.npy", "--sin", "s.npy", "--start", "1", "--dims", "4", "--pairs", "interleaved"});
        rotation = {};
    }
}

TEST_F(RotaryTest, builtTablesAreThoseOfTheLibrary) {
    given({2, 3, 5, 64});
    auto [cos, sin] = libraryTables(3000, 64, 500000);
    givenTables(std::move(cos), std::move(sin));
    const Arguments tables = {"--cos", "c.npy", "--sin", "s.npy"}, built = {"--base", "500000"};
    writeNpy(file("p.npy"), Array{{2, 5}, {2999, 17, 0, 17, 1500, 1, 2, 3, 2000, 2001}}, {.descr = "<i4"});
    for (const Arguments &positions : {Arguments{"--start", "2995"}, Arguments{"--positions", "p.npy"}}) {
        Arguments one = tables, other = built;
        one.insert(one.end(), positions.begin(), positions.end());
        other.insert(other.end(), positions.begin(), positions.end());
        EXPECT_EQ(bytesOf(one), bytesOf(other));
    }
}

TEST_F(RotaryTest, noTokens) {
    for (const std::vector<size_t> &shape : std::vector<std::vector<size_t>>{{0, 8}, {2, 3, 0, 8}}) {
        given(shape);
        check();
        check({"--start", "4294967295"});
        givenTables(randomArray(random, {1, 4}), randomArray(random, {1, 4}));
        check({"--start", "4294967295", "--cos", "c.npy", "--sin", "s.npy"});
        writeNpy(file("p.npy"), Array{{shape.size() == 2 ? 1u : 2u, 0}, {}}, {.descr = "<i4"});
        check({"--positions", "p.npy"});
    }
}

// The same on the first Vulkan device, which must not fall back. tests/device/CMakeLists.txt runs
// these tests on every driver.
class RotaryOnDriver : public RotaryTest {
  protected:
    RotaryOnDriver() { where = {"--device", "0", "--no-fallback"}; }
};

TEST_F(RotaryOnDriver, pairsDimsAndPositions) {
    if (!hasTestedDevice()) return;
    for (const std::string descr : {"<f4", "<f2"})
        for (const bool interleaved : {false, true}) {
            const std::string pairs = interleaved ? "interleaved" : "half";
            rotation = {.interleaved = interleaved, .start = 1000000};
            given({2, 3, 37, 64}, {.descr = descr});
            check({"--pairs", pairs, "--start", "1000000"}, descr);
            rotation = {.interleaved = interleaved, .dims = 6};
            given({2, 3, 5, 9}, {.descr = descr, .fortran = true});
            givenPositions({2, 5}, {5, 0, 4294967295.0, 3, 3, 9, 2, 0, 7, 100000}, {.descr = "<u4"});
            check({"--pairs", pairs, "--dims", "6", "--positions", "p.npy"}, descr);
            rotation = {.interleaved = interleaved, .start = 2};
            given({4, 8}, {.descr = descr});
            givenTables(randomArray(random, {6, 4}), randomArray(random, {6, 4}));
            EXPECT_EQ(check({"--pairs", pairs, "--cos", "c.npy", "--sin", "s.npy", "--start", "2"}, descr).err, "");
        }
    given({0, 8});
    rotation = {};
    check();
}

} // namespace
