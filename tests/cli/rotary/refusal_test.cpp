// What `vkattn rotary` refuses: usage, arrays, positions and tables, each with a message that names
// what is wrong.
#include "rotary_fixture.hpp"

#include <vector>

namespace {

class RotaryRefusal : public RotaryTest {
  protected:
    RotaryRefusal() { given({2, 3, 5, 8}); }
    void refused(const Arguments &more, const std::vector<std::string> &words) const { expectRefused(tool(command(more)), words); }
    void write(const std::string &name, const std::vector<size_t> &shape, const std::string &descr = "<f4") const {
        writeNpy(file(name), Array{shape, std::vector<double>(Array::count(shape))}, {.descr = descr});
    }
};

TEST_F(RotaryRefusal, helpNamesEveryOption) {
    const Outcome outcome = tool({"rotary", "--help"});
    EXPECT_EQ(outcome.status, 0);
    for (const std::string option : {"--x", "--out", "--pairs", "--dims", "--base", "--cos", "--sin", "--positions", "--start", "--device",
                                     "--verify", "--no-fallback", "--repeat", "--json"})
        EXPECT_NE(outcome.out.find("  " + option + " "), std::string::npos) << option;
    EXPECT_NE(outcome.out.find("Exit status: 0 success"), std::string::npos);
    EXPECT_NE(tool({"--help"}).out.find("\n  rotary "), std::string::npos);
}

TEST_F(RotaryRefusal, unknownAndMissingOptions) {
    refused({"--flash"}, {"--flash", "vkattn rotary --help"});
    refused({"--q", "x.npy"}, {"--q"});
    refused({"extra"}, {"extra"});
    expectRefused(tool({"rotary", "--x", "x.npy"}), {"--out is required"});
    expectRefused(tool({"rotary", "--out", "o.npy"}), {"--x is required"});
    refused({"--cos", "--sin"}, {"--cos needs a value", "'--sin'"});
    refused({"--positions", ""}, {"--positions needs a value"});
    refused({"--device", ""}, {"--device"});
}

TEST_F(RotaryRefusal, values) {
    for (const std::string value : {"quarter", "Half", "1"})
        refused({"--pairs", value}, {"--pairs takes half or interleaved, not '" + value + "'"});
    for (const std::string value : {"0", "3", "-2", "4.0", "x", "99999999999"})
        refused({"--dims", value}, {"--dims takes an even number of 2 or more, not '" + value + "'"});
    for (const std::string value : {"0", "-1", "nan", "inf", "1e999", "1x", "ten"})
        refused({"--base", value}, {"--base takes a finite number above 0", "'" + value + "'"});
    for (const std::string value : {"-1", "1.5", "x", "4294967296"})
        refused({"--start", value}, {"--start takes a whole number from 0 to 4294967295, not '" + value + "'"});
    refused({"--verify=some"}, {"--verify takes", "'some'"});
    refused({"--repeat", "0"}, {"--repeat takes a whole number"});
}

// Said before any file is looked at: none of these exists.
TEST_F(RotaryRefusal, optionsThatContradictEachOther) {
    refused({"--cos", "c.npy"}, {"--cos is given without --sin", "expected both or none"});
    refused({"--sin", "s.npy"}, {"--sin is given without --cos", "expected both or none"});
    refused({"--cos", "c.npy", "--sin", "s.npy", "--base", "10000"}, {"--base and --cos are both given", "leave --base out"});
    refused({"--positions", "p.npy", "--start", "0"}, {"--positions and --start are both given", "leave --start out"});
}

TEST_F(RotaryRefusal, headDimsThatArePairless) {
    write("x.npy", {5, 7});
    refused({}, {"x.npy (5, 7) float32", "is 7, expected an even number", "add --dims N", "at most 6"});
    refused({"--dims", "8"}, {"x.npy (5, 7) float32", "--dims is 8, expected an even number from 2 to 6"});
    write("x.npy", {5, 8});
    refused({"--dims", "10"}, {"--dims is 10, expected an even number from 2 to 8"});
    for (const Arguments &more : {Arguments{}, Arguments{"--dims", "2"}}) {
        write("x.npy", {5, 1});
        refused(more, {"x.npy (5, 1) float32", "is 1, expected at least 2"});
    }
}

TEST_F(RotaryRefusal, arrays) {
    refused({"--positions", "missing.npy"}, {"missing.npy: no such file"});
    write("x.npy", {8});
    refused({}, {"x.npy: shape (8,) has 1 dimension, expected 2 to 4: [token, dim]"});
    write("x.npy", {1, 1, 1, 1, 8});
    refused({}, {"x.npy: shape (1, 1, 1, 1, 8) has 5 dimensions"});
    write("x.npy", {5, 8}, "<i4");
    refused({}, {"x.npy: it holds int32, but --x takes float32 or float16"});
    write("x.npy", {1, 65538});
    refused({}, {"x.npy (1, 65538) float32", "at most 65536"});
    for (const std::vector<size_t> &shape : std::vector<std::vector<size_t>>{{0, 2, 5, 8}, {2, 0, 5, 8}, {5, 0}}) {
        write("x.npy", shape);
        refused({}, {"x.npy", "zero", "only the number of tokens may be 0"});
    }
    writeBytes(file("x.npy"), "no array");
    refused({}, {"x.npy: not a .npy file"});
}

TEST_F(RotaryRefusal, positions) {
    const Arguments options = {"--positions", "p.npy"};
    for (const std::string descr : {"<f4", "|u1", "<i2"}) {
        write("p.npy", {2, 5}, descr);
        refused(options, {"p.npy: it holds", "--positions takes int32, int64 or uint32", "astype"});
    }
    for (const std::vector<size_t> &shape : std::vector<std::vector<size_t>>{{}, {5}, {10}, {1, 5}, {5, 2}, {2, 4}, {2, 5, 1}, {0}}) {
        write("p.npy", shape, "<i4");
        refused(options, {"p.npy (", "one position for each token of x.npy (2, 3, 5, 8) float32, shape (2, 5)"});
    }
    for (const bool fortran : {false, true})
        for (const double position : {-1.0, -2147483648.0, 4294967296.0}) {
            writeNpy(file("p.npy"), Array{{2, 5}, {0, 1, 2, 3, 4, 0, 1, 2, position, 4}}, {.descr = "<i8", .fortran = fortran});
            refused(options, {"p.npy: entry [1, 3] is " + std::to_string(static_cast<int64_t>(position)),
                              "expected a position from 0 to 4294967295"});
        }
    write("x.npy", {5, 8});
    write("p.npy", {4}, "<i4");
    refused(options, {"p.npy (4,) int32", "shape (1, 5) or (5,)"});
    writeNpy(file("p.npy"), Array{{5}, {0, 0, -7, 0, -8}}, {.descr = "<i4"});
    refused(options, {"p.npy: entry [2] is -7, expected a position"});
}

TEST_F(RotaryRefusal, startsPastTheLastPosition) {
    refused({"--start", "4294967292"},
            {"--start 4294967292 puts the last token of x.npy (2, 3, 5, 8) float32 at position 4294967296", "expected at most 4294967295"});
}

TEST_F(RotaryRefusal, tables) {
    const Arguments options = {"--cos", "c.npy", "--sin", "s.npy"};
    write("s.npy", {9, 4});
    for (const std::string descr : {"<f2", "<f8", "<i4"}) {
        write("c.npy", {9, 4}, descr);
        refused(options, {"c.npy: it holds", "--cos takes float32", "astype(np.float32)"});
    }
    for (const std::vector<size_t> &shape : std::vector<std::vector<size_t>>{{4}, {1, 9, 4}}) {
        write("c.npy", shape);
        refused(options, {"c.npy: shape (", "expected 2: [position, dims / 2]"});
    }
    for (const std::vector<size_t> &shape : std::vector<std::vector<size_t>>{{8, 4}, {9, 3}}) {
        write("c.npy", shape);
        refused(options, {"shapes disagree: c.npy (", "s.npy (9, 4) float32", "the same shape"});
    }
    write("c.npy", {9, 4});
    for (const std::string dims : {"2", "6"}) {
        Arguments partial = options;
        partial.insert(partial.end(), {"--dims", dims});
        refused(partial, {"shapes disagree: c.npy (9, 4) float32 and x.npy", "rotating " + dims + " dims takes"});
    }
    write("c.npy", {9, 8}), write("s.npy", {9, 8}); // of all dims, not of half of them
    refused(options, {"shapes disagree: c.npy (9, 8)", "takes 4 columns, not 8"});
    write("c.npy", {0, 4}), write("s.npy", {0, 4});
    refused(options, {"c.npy (0, 4) float32: has no positions"});
}

TEST_F(RotaryRefusal, positionsPastTheTables) {
    write("c.npy", {9, 4}), write("s.npy", {9, 4});
    writeNpy(file("p.npy"), Array{{2, 5}, {8, 0, 1, 2, 3, 0, 9, 1, 10, 0}}, {.descr = "<i4"});
    refused({"--cos", "c.npy", "--sin", "s.npy", "--positions", "p.npy"},
            {"p.npy: entry [1, 1] is 9, expected a position from 0 to 8, the last row of c.npy (9, 4) float32"});
    refused({"--cos", "c.npy", "--sin", "s.npy", "--start", "5"}, {"--start 5 puts the last token", "at position 9, expected at most 8"});
    write("c.npy", {4, 4}), write("s.npy", {4, 4});
    refused({"--cos", "c.npy", "--sin", "s.npy"}, {"--start 0 puts the last token", "at position 4, expected at most 3"});
}

TEST_F(RotaryRefusal, aBaseWhoseAnglesAreInfinite) {
    write("x.npy", {2, 1024});
    refused({"--base", "1e-308", "--start", "4294967290"}, {"--base 1e-308 makes the angle of pair ", "infinite", "10000 is usual"});
}

TEST_F(RotaryRefusal, outputs) {
    writeBytes(file("old.npy"), "old");
    Arguments over = {"rotary", "--x", "x.npy", "--device", "cpu", "--out", "old.npy"};
    over.insert(over.end(), {"--positions", "missing.npy"});
    EXPECT_EQ(tool(over).status, 2);
    EXPECT_EQ(readBytes(file("old.npy")), "old");
    over.resize(over.size() - 2);
    EXPECT_EQ(tool(over).status, 0);
    EXPECT_EQ(readNpy(file("old.npy")).shape, x.shape);

    const std::string before = readBytes(file("x.npy"));
    writeNpy(file("p.npy"), Array{{2, 5}, std::vector<double>(10)}, {.descr = "<i4"});
    for (const std::string target : {"x.npy", "./x.npy", "p.npy"})
        expectRefused(tool({"rotary", "--x", "x.npy", "--positions", "p.npy", "--device", "cpu", "--out", target}),
                      {"cannot write --out " + target + ": it is the input " + (target == "p.npy" ? "p.npy" : "x.npy")});
    EXPECT_EQ(readBytes(file("x.npy")), before);
    expectRefused(tool({"rotary", "--x", "x.npy", "--device", "cpu", "--out", "no/o.npy"}), {"cannot write --out no/o.npy"});
}

} // namespace
