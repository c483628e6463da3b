// Arrays that are fine alone and disagree, or are too large.
#include "cli/harness.hpp"

namespace {

class BadShapeTest : public CliTest {
  protected:
    void write(const std::string &name, const std::vector<size_t> &shape, const std::string &descr = "<f4") const {
        writeNpy(file(name), Array{shape, std::vector<double>(Array::count(shape))}, {.descr = descr});
    }
    void shapes(const std::vector<size_t> &q, const std::vector<size_t> &k, const std::vector<size_t> &v) const {
        write("q.npy", q), write("k.npy", k), write("v.npy", v);
    }
};

TEST_F(BadShapeTest, disagreementNamesBothFilesAndShapes) {
    shapes({5, 8}, {7, 9}, {7, 8});
    expectRefused(tool(onCpu()), {"shapes disagree: q.npy (5, 8) float32 and k.npy (7, 9) float32", "same dim", "8 and 9"});
    shapes({5, 8}, {7, 8}, {6, 8});
    expectRefused(tool(onCpu()), {"k.npy (7, 8)", "v.npy (6, 8)", "same number of tokens", "7 and 6"});
    shapes({4, 5, 8}, {4, 7, 8}, {2, 7, 8});
    expectRefused(tool(onCpu()), {"k.npy (4, 7, 8)", "v.npy (2, 7, 8)", "same number of heads"});
    shapes({2, 4, 5, 8}, {3, 4, 7, 8}, {3, 4, 7, 8});
    expectRefused(tool(onCpu()), {"q.npy (2, 4, 5, 8)", "k.npy (3, 4, 7, 8)", "same batch"});
    shapes({2, 4, 5, 8}, {2, 4, 7, 8}, {4, 7, 8});
    expectRefused(tool(onCpu({"--json"})), {"k.npy (2, 4, 7, 8)", "v.npy (4, 7, 8)", "same batch"});
}

TEST_F(BadShapeTest, headsThatDoNotDivide) {
    shapes({6, 5, 8}, {4, 7, 8}, {4, 7, 8});
    expectRefused(tool(onCpu()), {"q.npy (6, 5, 8)", "k.npy (4, 7, 8)", "4 does not divide 6"});
    shapes({2, 5, 8}, {4, 7, 8}, {4, 7, 8});
    expectRefused(tool(onCpu()), {"4 does not divide 2"});
}

TEST_F(BadShapeTest, zeroHeadsDimAndBatch) {
    shapes({0, 5, 8}, {0, 7, 8}, {0, 7, 8});
    expectRefused(tool(onCpu()), {"q.npy (0, 5, 8)", "zero heads"});
    shapes({2, 5, 8}, {0, 7, 8}, {0, 7, 8});
    expectRefused(tool(onCpu()), {"k.npy (0, 7, 8)", "zero heads"});
    shapes({5, 0}, {7, 0}, {7, 8});
    expectRefused(tool(onCpu()), {"q.npy (5, 0)", "dim"});
    shapes({5, 8}, {7, 8}, {7, 0});
    expectRefused(tool(onCpu()), {"v.npy (7, 0)", "dim"});
    shapes({0, 2, 5, 8}, {0, 2, 7, 8}, {0, 2, 7, 8});
    expectRefused(tool(onCpu()), {"zero batch entries"});
}

TEST_F(BadShapeTest, dimTooLarge) {
    shapes({2, 2049}, {2, 2049}, {2, 4});
    expectRefused(tool(onCpu()), {"q.npy (2, 2049)", "at most 2048"});
    shapes({2, 4}, {2, 4}, {2, 2049});
    expectRefused(tool(onCpu()), {"v.npy (2, 2049)", "at most 2048"});
}

TEST_F(BadShapeTest, maskAndBiasThatDoNotBroadcast) {
    shapes({2, 3, 5, 8}, {2, 3, 7, 8}, {2, 3, 7, 8});
    for (const std::vector<size_t> &shape :
         std::vector<std::vector<size_t>>{{7, 5}, {5, 8}, {2, 5, 7}, {3, 3, 5, 7}, {2, 1, 4, 2}, {0, 7}}) {
        write("m.npy", shape, "|b1");
        expectRefused(tool(onCpu({"--mask", "m.npy"})), {"m.npy (", "does not broadcast to [batch, head, query, key] = (2, 3, 5, 7)"});
        write("b.npy", shape);
        expectRefused(tool(onCpu({"--bias", "b.npy"})), {"b.npy (", "does not broadcast"});
    }
}

TEST_F(BadShapeTest, keyLengthsPerBatchEntry) {
    shapes({2, 3, 5, 8}, {2, 3, 7, 8}, {2, 3, 7, 8});
    for (const std::vector<size_t> &shape : std::vector<std::vector<size_t>>{{}, {1}, {3}, {0}, {2, 1}, {1, 2}}) {
        write("n.npy", shape, "<i4");
        expectRefused(tool(onCpu({"--kv-lengths", "n.npy"})), {"n.npy (", "one key length for each batch entry, shape (2,)"});
    }
}

TEST_F(BadShapeTest, bitMasksThatDoNotBroadcast) {
    shapes({2, 3, 5, 8}, {2, 3, 40, 8}, {2, 3, 40, 8});
    for (const std::vector<size_t> &shape :
         std::vector<std::vector<size_t>>{{5, 40}, {5, 1}, {5, 3}, {4, 2}, {2, 5, 2}, {3, 3, 5, 2}, {0, 2}}) {
        write("b.npy", shape, "<u4");
        expectRefused(tool(onCpu({"--bitmask", "b.npy"})), {"b.npy (", "does not broadcast to [batch, head, query, word] = (2, 3, 5, 2)",
                                                            "ceil(keys / 32), one bit for each of 40 keys"});
    }
}

TEST_F(BadShapeTest, slopesAndSinksPerHead) {
    shapes({2, 6, 5, 8}, {2, 3, 7, 8}, {2, 3, 7, 8});
    for (const std::vector<size_t> &shape : std::vector<std::vector<size_t>>{{}, {1}, {3}, {0}, {1, 6}, {6, 1}, {2, 6}}) {
        write("n.npy", shape);
        expectRefused(tool(onCpu({"--alibi", "n.npy"})), {"n.npy (", "one slope for each query head, shape (6,)"});
        expectRefused(tool(onCpu({"--sinks", "n.npy"})), {"n.npy (", "one sink for each query head, shape (6,)"});
    }
}

TEST_F(BadShapeTest, documentIdsPerToken) {
    shapes({2, 3, 5, 8}, {2, 3, 7, 8}, {2, 3, 7, 8});
    write("dq.npy", {2, 5}, "<i4");
    for (const std::vector<size_t> &shape : std::vector<std::vector<size_t>>{{}, {1}, {5}, {0}, {3, 7}, {7, 2}, {2, 1, 7}, {1, 1, 7}}) {
        write("dk.npy", shape, "<i4");
        expectRefused(tool(onCpu({"--doc-ids-q", "dq.npy", "--doc-ids-k", "dk.npy"})),
                      {"dk.npy (", "one document id for each token, shape (7,) or (2, 7)"});
    }
    for (const double id : {-1.0, 4294967296.0, -4294967296.0}) {
        writeNpy(file("dk.npy"), Array{{2, 7}, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, id, 0, 0, 0}}, {.descr = "<i8"});
        expectRefused(tool(onCpu({"--doc-ids-q", "dq.npy", "--doc-ids-k", "dk.npy"})),
                      {"dk.npy: entry [1, 3] is " + std::to_string(static_cast<int64_t>(id)), "from 0 to 4294967295", "np.where"});
        writeNpy(file("dk.npy"), Array{{7}, {0, 0, 0, 0, 0, id, 0}}, {.descr = "<i8"});
        expectRefused(tool(onCpu({"--doc-ids-q", "dq.npy", "--doc-ids-k", "dk.npy"})), {"dk.npy: entry [5] is "});
    }
}

TEST_F(BadShapeTest, raggedBatches) {
    const Arguments ragged = {"--cu-seqlens-q", "cq.npy", "--cu-seqlens-k", "ck.npy"};
    const auto refused = [&](const std::vector<double> &cuQ, const std::vector<double> &cuK, const std::vector<std::string> &words) {
        writeNpy(file("cq.npy"), Array{{cuQ.size()}, cuQ}, {.descr = "<i8"});
        writeNpy(file("ck.npy"), Array{{cuK.size()}, cuK}, {.descr = "<i8"});
        expectRefused(tool(onCpu(ragged)), words);
    };
    shapes({3, 12, 8}, {3, 20, 8}, {3, 20, 8});
    refused({0, -1, 12}, {0, 10, 20}, {"cq.npy: entry 1 is -1, expected the offset of a token, 0 or more", "np.cumsum"});
    refused({0, 6, 12}, {0, 10, 4294967296}, {"ck.npy: entry 2 is 4294967296, which does not fit in 32 bits"});
    refused({0, 7, 6}, {0, 10, 20}, {"cq.npy: entry 2 is 6, below entry 1, which is 7, expected offsets that never decrease"});
    refused({0, 6, 12}, {0, 10, 21}, {"ck.npy: entry 2 is 21, past the end of the 20 key tokens"});
    refused({0, 6, 13}, {0, 10, 20}, {"cq.npy: entry 2 is 13, past the end of the 12 query tokens"});
    refused({0, 6, 12}, {0, 20}, {"cq.npy (3,) int64 and ck.npy (2,) int64", "the same number of sequences, not 2 and 1"});
    refused({0}, {0}, {"cq.npy (1,) int64", "shape (sequences + 1,)"});
    refused({}, {}, {"cq.npy (0,) int64", "shape (sequences + 1,)"});
    write("cq.npy", {1, 3}, "<i4");
    expectRefused(tool(onCpu(ragged)), {"cq.npy (1, 3) int32", "shape (sequences + 1,)"});

    writeNpy(file("cq.npy"), Array{{3}, {0, 6, 12}}, {.descr = "<i4"});
    writeNpy(file("ck.npy"), Array{{3}, {0, 9, 20}}, {.descr = "<i4"});
    Arguments biased = ragged;
    biased.insert(biased.end(), {"--bias", "b.npy"});
    for (const std::vector<size_t> &shape : std::vector<std::vector<size_t>>{{12, 20}, {3, 3, 6, 11}, {6, 9}}) {
        write("b.npy", shape);
        expectRefused(tool(onCpu(biased)), {"does not broadcast to [sequence, head, query, key] = (2, 3, 6, 11)",
                                            "the longest sequences have 6 queries and 11 keys"});
    }
    Arguments documents = ragged;
    documents.insert(documents.end(), {"--doc-ids-q", "dq.npy", "--doc-ids-k", "dq.npy"});
    write("dq.npy", {2, 6}, "<i4");
    expectRefused(tool(onCpu(documents)), {"dq.npy (2, 6) int32: expected one document id for each token, shape (12,) or (1, 12)"});
    shapes({2, 3, 12, 8}, {2, 3, 20, 8}, {2, 3, 20, 8});
    expectRefused(tool(onCpu(ragged)),
                  {"q.npy (2, 3, 12, 8) float32: has 2 batch entries, expected 1 with --cu-seqlens-q", "--kv-lengths"});
}

TEST_F(BadShapeTest, tooLargeForMemoryIsSaidBeforeAnythingIsAllocated) {
    shapes({1 << 20, 1}, {1 << 20, 1}, {1 << 20, 1}); // 4 TiB of weights
    expectRefused(tool(onCpu({"--weights", "w.npy"})), {"not enough memory", "w.npy", "4 TiB"});
    // A file with a hole: 4 TiB that take no disk.
    write("q.npy", {2, 1024});
    writeBytes(file("k.npy"), npyBytes("{'descr': '<f4', 'fortran_order': False, 'shape': (1073741824, 1024), }", ""));
    std::error_code error;
    std::filesystem::resize_file(file("k.npy"), std::filesystem::file_size(file("k.npy")) + (uint64_t{4} << 40), error);
    if (error) GTEST_SKIP() << "this file system has no files of 4 TiB: " << error.message();
    std::filesystem::remove(file("v.npy"));
    std::filesystem::create_symlink("k.npy", file("v.npy"));
    expectRefused(tool(onCpu()), {"not enough memory", "4 TiB"});
}

TEST_F(BadShapeTest, limitsOfTheLibraryNameTheFiles) {
    write("q.npy", {2, 8});
    writeBytes(file("k.npy"), npyBytes("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967295, 8), }", ""));
    std::error_code error;
    std::filesystem::resize_file(file("k.npy"), std::filesystem::file_size(file("k.npy")) + uint64_t{4294967295} * 32, error);
    if (error) GTEST_SKIP() << "this file system has no files of 128 GiB: " << error.message();
    std::filesystem::create_symlink("k.npy", file("v.npy"));
    expectRefused(tool(onCpu()), {"4294967295 tokens", "--k k.npy (4294967295, 8) float32"});
}

} // namespace
