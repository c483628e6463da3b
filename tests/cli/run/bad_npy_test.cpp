// Files that are no arrays, or not the arrays that an option takes.
#include "cli/harness.hpp"

#include <sys/stat.h>

namespace {

class BadNpyTest : public CliTest {
  protected:
    BadNpyTest() { writeSmallProblem(); }
    void refusedAsKey(const std::vector<std::string> &words, const Arguments &more = {}) const {
        std::vector<std::string> all = {"k.npy"};
        all.insert(all.end(), words.begin(), words.end());
        expectRefused(tool(onCpu(more)), all);
        expectRefused(tool(onCpu({"--json"})), all);
    }
    void key(const std::string &bytes) const { writeBytes(file("k.npy"), bytes); }
    [[nodiscard]] static std::string dict(const std::string &descr, const std::string &shape) {
        return "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }";
    }
};

TEST_F(BadNpyTest, missingFile) {
    std::filesystem::remove(file("k.npy"));
    refusedAsKey({"no such file"});
}

TEST_F(BadNpyTest, directory) {
    std::filesystem::remove(file("k.npy"));
    std::filesystem::create_directory(file("k.npy"));
    refusedAsKey({"it is a directory"});
}

TEST_F(BadNpyTest, pipe) {
    std::filesystem::remove(file("k.npy"));
    ASSERT_EQ(mkfifo(file("k.npy").c_str(), 0600), 0);
    refusedAsKey({"not a regular file"});
}

TEST_F(BadNpyTest, unreadableFile) {
    std::filesystem::permissions(file("k.npy"), std::filesystem::perms::none);
    if (const std::optional<Outcome> outcome = unprivilegedTool(onCpu()))
        expectRefused(*outcome, {"k.npy: cannot be opened: Permission denied"});
}

TEST_F(BadNpyTest, emptyFile) {
    key("");
    refusedAsKey({"the file is empty"});
}

TEST_F(BadNpyTest, truncated) {
    const std::string whole = readBytes(file("k.npy"));
    for (const size_t bytes : {3u, 9u, 11u, 60u, 128u, 130u}) {
        key(whole.substr(0, bytes));
        refusedAsKey({"truncated"});
    }
    key(whole.substr(0, whole.size() - 1));
    refusedAsKey({"truncated: shape (7, 4) of float32 takes 112 bytes of data, the file has 111"});
}

TEST_F(BadNpyTest, longerThanItsShape) {
    key(readBytes(file("k.npy")) + "x");
    refusedAsKey({"longer than its header says", "112", "113"});
}

TEST_F(BadNpyTest, wrongMagic) {
    key("PK\x03\x04" + std::string(200, 'x'));
    refusedAsKey({"not a .npy file", ".npz"});
    key("0.5,0.25\n" + std::string(200, 'x'));
    refusedAsKey({"not a .npy file"});
}

TEST_F(BadNpyTest, wrongVersion) {
    std::string bytes = readBytes(file("k.npy"));
    bytes[6] = 9;
    key(bytes);
    refusedAsKey({".npy version 9.0", "1.0, 2.0 or 3.0"});
}

TEST_F(BadNpyTest, hugeHeader) {
    std::string bytes = npyBytes(dict("<f4", "(7, 4)"), std::string(112, '\0'), 2);
    bytes[11] = '\x7f';
    key(bytes);
    refusedAsKey({"its header claims", "at most 65535"});
    key(npyBytes(std::string(65536, ' '), "", 3));
    refusedAsKey({"its header claims"});
}

TEST_F(BadNpyTest, bigEndianObjectAndStructured) {
    key(npyBytes(dict(">f4", "(7, 4)"), std::string(112, '\0')));
    refusedAsKey({"big-endian", "newbyteorder"});
    key(npyBytes(dict("|O", "(7, 4)"), std::string(112, '\0')));
    refusedAsKey({"Python objects", "astype"});
    key(npyBytes("{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (7, 4)}", std::string(112, '\0')));
    refusedAsKey({"structured"});
}

TEST_F(BadNpyTest, malformedDict) {
    for (const std::string header : {"{'descr': '<f4', 'fortran_order': False, 'shape': (7 4)}", "not a dict", "{'shape': (7, 4)"}) {
        key(npyBytes(header, std::string(112, '\0')));
        refusedAsKey({"malformed header", "numpy.save"});
    }
    key(npyBytes(std::string("{'descr': '<f4', 'fortran_order': False, ") + '\0' + "'shape': (7, 4)}", std::string(112, '\0')));
    refusedAsKey({"NUL byte"});
}

TEST_F(BadNpyTest, hugeAndNegativeShapes) {
    for (const std::string shape : {"(4294967296, 4294967296)", "(1152921504606846976, 4, 4)", "(0, 4611686018427387904, 4)"}) {
        key(npyBytes(dict("<f4", shape), ""));
        refusedAsKey({"overflows 64 bits"});
    }
    key(npyBytes(dict("<f4", "(1099511627776, 4)"), std::string(112, '\0')));
    refusedAsKey({"truncated"});
    key(npyBytes(dict("<f4", "(184467440737095516160, 4)"), ""));
    refusedAsKey({"63 bits"});
    key(npyBytes(dict("<f4", "(-7, 4)"), std::string(112, '\0')));
    refusedAsKey({"negative dimension"});
    key(npyBytes(dict("<f4", "(0, 4294967296)"), ""));
    refusedAsKey({"a dimension of 4294967296"});
}

TEST_F(BadNpyTest, wrongRank) {
    const struct {
        const char *shape;
        size_t elements;
        const char *word;
    } cases[] = {{"()", 1, "0 dimensions"}, {"(28,)", 28, "1 dimension,"}, {"(1, 1, 1, 7, 4)", 28, "5 dimensions"}};
    for (const auto &[shape, elements, word] : cases) {
        key(npyBytes(dict("<f4", shape), std::string(elements * 4, '\0')));
        refusedAsKey({word, "expected 2 to 4: [token, dim]"});
        writeBytes(file("m.npy"), npyBytes(dict("|b1", shape), std::string(elements, '\0')));
        writeSmallProblem();
        expectRefused(tool(onCpu({"--mask", "m.npy"})), {"m.npy", word, "[query, key]"});
        writeBytes(file("m.npy"), npyBytes(dict("<u4", shape), std::string(elements * 4, '\0')));
        expectRefused(tool(onCpu({"--bitmask", "m.npy"})), {"m.npy", word, "[query, word]"});
    }
}

TEST_F(BadNpyTest, wrongDtype) {
    for (const std::string option : {"--q", "--k", "--v"})
        for (const std::string descr : {"<i4", "|u1", "|b1", "<c8", "<i2"}) {
            writeSmallProblem();
            const std::string name = option.substr(2) + ".npy";
            writeNpy(file(name), Array{{7, 4}, std::vector<double>(28)}, {.descr = descr});
            expectRefused(tool(onCpu()), {name + ": it holds ", option + " takes float32 or float16"});
        }
    writeSmallProblem();
    const auto refused = [&](const std::string &option, const std::string &descr, const std::vector<std::string> &words) {
        writeNpy(file("x.npy"), Array{{5, 7}, std::vector<double>(35)}, {.descr = descr});
        expectRefused(tool(onCpu({option, "x.npy"})), words);
    };
    for (const std::string descr : {"<f4", "<i4", "<i8", "|i1"})
        refused("--mask", descr, {"x.npy: it holds", "--mask takes bool or uint8"});
    for (const std::string descr : {"|b1", "|u1"}) refused("--bias", descr, {"x.npy: it holds", "--bias takes float32", "--mask"});
    refused("--bias", "<i8", {"x.npy: it holds int64", "astype"});
    for (const std::string descr : {"<f4", "|u1", "<i2"})
        refused("--kv-lengths", descr, {"x.npy: it holds", "--kv-lengths takes int32 or int64"});
    for (const std::string descr : {"|b1", "<i4", "|u1", "<f4"})
        refused("--bitmask", descr, {"x.npy: it holds", "--bitmask takes uint32", "np.packbits", "--mask"});
    for (const std::string descr : {"<i4", "|b1", "<c8"})
        for (const std::string option : {"--alibi", "--sinks"})
            refused(option, descr, {"x.npy: it holds", option + " takes float32", "astype"});
    const auto refusedPair = [&](const std::string &option, const std::string &descr, const std::string &word) {
        writeNpy(file("x.npy"), Array{{7}, std::vector<double>(7)}, {.descr = descr});
        expectRefused(tool(onCpu({option + "-q", "x.npy", option + "-k", "x.npy"})),
                      {"x.npy: it holds", option + "-q takes " + word, "astype"});
    };
    for (const std::string descr : {"<f4", "|u1", "<i2", "<u4"}) refusedPair("--cu-seqlens", descr, "int32 or int64");
    for (const std::string descr : {"<f4", "|u1", "<i2"}) refusedPair("--doc-ids", descr, "int32, int64 or uint32");
}

} // namespace
