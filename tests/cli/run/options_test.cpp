// `vkattn run` on the CPU against the reference: bit masks, ALiBi, sinks, ragged batches,
// documents, bf16; and how options are reported.
#include "run_fixture.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace {

using Json = nlohmann::json;

bool contains(const std::string &text, const std::string &word) {
    return text.find(word) != std::string::npos;
}

TEST_F(RunTest, bitMaskBroadcasts) {
    for (const size_t keys : {7u, 32u, 70u}) {
        given({2, 2, 5, 8}, {2, 2, keys, 8}, {2, 2, keys, 6});
        for (const std::vector<size_t> &rows : std::vector<std::vector<size_t>>{{5}, {1}, {2, 5}, {2, 2, 5}, {2, 1, 1}, {1, 2, 5}})
            for (const bool fortran : {false, true}) {
                givenBits(rows, keys, {.descr = "<u4", .fortran = fortran});
                check({"--bitmask", "bits.npy"});
            }
    }
    // keys 64 to 69 are hidden, past them all is set
    reference.bits = Array{{1, 3}, {0, 0, 0xffffffc0}};
    writeNpy(file("bits.npy"), *reference.bits, {.descr = "<u4"});
    check({"--bitmask", "bits.npy"});
    for (const double value : readNpy(file("o.npy")).values) ASSERT_EQ(value, 0);
}

TEST_F(RunTest, bitMaskIsTheMask) {
    given({3, 9, 8}, {3, 40, 8}, {3, 40, 6});
    givenBits({3, 9}, 40);
    check({"--bitmask", "bits.npy"});
    const std::string bits = readBytes(file("o.npy"));
    reference.mask = Array{{3, 9, 40}, {}};
    for (size_t row = 0; row < 27; row++)
        for (size_t j = 0; j < 40; j++)
            reference.mask->values.push_back(static_cast<uint32_t>(reference.bits->values[row * 2 + j / 32]) >> j % 32 & 1);
    reference.bits.reset();
    writeNpy(file("m.npy"), *reference.mask, {.descr = "|b1"});
    check({"--mask", "m.npy"});
    EXPECT_EQ(readBytes(file("o.npy")), bits);
}

TEST_F(RunTest, alibi) {
    for (const std::string descr : {"<f2", "<f4", "<f8"})
        for (const size_t keys : {4u, 9u}) {
            given({4, 6, 8}, {2, keys, 8}, {2, keys, 5});
            givenAlibi(4, descr);
            const Outcome outcome = check({"--alibi", "alibi.npy"});
            EXPECT_EQ(contains(outcome.err, "alibi.npy: float64 converted to float32"), descr == "<f8") << outcome.err;
            reference.topLeft = true;
            check({"--alibi", "alibi.npy", "--align", "top-left"});
            reference.causal = true;
            check({"--alibi", "alibi.npy", "--causal", "top-left"});
            reference.topLeft = false;
            check({"--alibi", "alibi.npy", "--causal", "bottom-right"});
            reference.causal = false;
        }
    // The position of a query follows the key length of its batch entry.
    given({2, 4, 6, 8}, {2, 4, 9, 8}, {2, 4, 9, 5});
    reference.keyLengths = {9, 3};
    writeNpy(file("n.npy"), Array{{2}, {9, 3}}, {.descr = "<i4"});
    check({"--alibi", "alibi.npy", "--kv-lengths", "n.npy"});
}

TEST_F(RunTest, dropout) {
    given({2, 4, 9, 8}, {2, 2, 23, 8}, {2, 2, 23, 6});
    reference.dropout = 0.3, reference.seed = 12345678901234567, reference.offset = 3;
    const Arguments drawn = {"--dropout", "0.3", "--seed", "12345678901234567", "--offset", "3"};
    const Outcome outcome = check(drawn);
    EXPECT_TRUE(contains(outcome.out, "options   dropout 0.3, seed 12345678901234567, offset 3\n")) << outcome.out;
    Arguments after = drawn;
    after.insert(after.end(), {"--weights-after-dropout", "--causal", "bottom-right", "--json"});
    reference.weightsDropped = reference.causal = true;
    const Json options = Json::parse(check(after).out)["options"];
    EXPECT_EQ(
        options,
        Json({{"causal", "bottom-right"}, {"dropout", 0.3}, {"seed", 12345678901234567}, {"offset", 3}, {"weightsAfterDropout", true}}));
    reference.weightsDropped = reference.causal = false;
    reference.dropout = 0;
    EXPECT_FALSE(contains(check({"--dropout", "0", "--seed", "42", "--offset", "1"}).out, "options"));
    reference.dropout = 1;
    check({"--dropout", "1"});
    for (const double value : readNpy(file("o.npy")).values) ASSERT_EQ(value, 0);
}

TEST_F(RunTest, sinks) {
    for (const std::string descr : {"<f2", "<f4", "<f8"}) {
        given({2, 6, 5, 8}, {2, 3, 7, 8}, {2, 3, 7, 5});
        givenSinks(6, descr);
        check({"--sinks", "sinks.npy"});
        reference.softcap = 1.5; // scores are capped, sinks are not
        check({"--sinks", "sinks.npy", "--softcap", "1.5"});
        reference.softcap = 0;
    }
    // A row that sees nothing has the sink's lse, and still no value.
    reference.mask = Array{{1, 1}, {0}};
    writeNpy(file("m.npy"), *reference.mask, {.descr = "|b1"});
    check({"--sinks", "sinks.npy", "--mask", "m.npy"});
    for (const double value : readNpy(file("o.npy")).values) ASSERT_EQ(value, 0);
}

// Of the same run: lse = maximum + ln(sum).
TEST_F(RunTest, rowStatistics) {
    given({2, 6, 5, 8}, {2, 3, 7, 8}, {2, 3, 7, 5});
    givenSinks(6);
    check({"--sinks", "sinks.npy"});
    const ReadArray lse = readNpy(file("lse.npy"));
    const Arguments run = {"run",     "--q",      "q.npy", "--k",      "k.npy",  "--v",     "v.npy",     "--out",
                           "o.npy",   "--device", "cpu",   "--verify", "--json", "--sinks", "sinks.npy", "--row-statistics",
                           "rows.npy"};
    const Outcome outcome = tool(run);
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    const Json json = Json::parse(outcome.out);
    EXPECT_EQ(json["shapes"]["rowStatistics"], (Json{2, 6, 5, 2}));
    EXPECT_EQ(json["outputs"]["rowStatistics"], "rows.npy");
    EXPECT_FALSE(json["outputs"].contains("lse"));
    const ReadArray rows = readNpy(file("rows.npy"));
    EXPECT_EQ(rows.descr, "<f4");
    ASSERT_EQ(rows.shape, (std::vector<size_t>{2, 6, 5, 2}));
    for (size_t n = 0; n < lse.values.size(); ++n) {
        EXPECT_GE(rows.values[2 * n + 1], 1);
        EXPECT_NEAR(rows.values[2 * n] + std::log(rows.values[2 * n + 1]), lse.values[n], 1e-5) << n;
    }
    std::filesystem::remove(file("o.npy")); // what is refused writes none
    Arguments both = run;
    both.insert(both.end(), {"--lse", "other.npy"});
    expectRefused(tool(both), {"--lse and --row-statistics are both given"});
    Arguments same = run;
    same.back() = "o.npy";
    expectRefused(tool(same), {"cannot write --row-statistics o.npy: it is the same file as --out o.npy"});
    expectRefused(tool({"explain", "--shape-q", "4,8", "--shape-k", "4,8", "--with", "lse,row-statistics"}),
                  {"names lse and row-statistics"});
    const Outcome explained =
        tool({"explain", "--shape-q", "4,8", "--shape-k", "4,8", "--with", "row-statistics", "--device", "cpu", "--json"});
    EXPECT_EQ(Json::parse(explained.out)["shapes"]["rowStatistics"], (Json{1, 1, 4, 2})) << explained.err;
}

TEST_F(RunTest, oneSlopeAndOneSinkMayBeScalars) {
    given({5, 8}, {7, 8}, {7, 6});
    reference.alibi = {0.5}, reference.sinks = {1.25};
    for (const std::vector<size_t> &shape : std::vector<std::vector<size_t>>{{}, {1}, {1, 1}}) {
        writeNpy(file("a.npy"), Array{shape, {0.5}});
        writeNpy(file("s.npy"), Array{shape, {1.25}});
        check({"--alibi", "a.npy", "--sinks", "s.npy"});
    }
}

TEST_F(RunTest, raggedBatches) {
    const Arguments ragged = {"--cu-seqlens-q", "cq.npy", "--cu-seqlens-k", "ck.npy"};
    Arguments causal = ragged;
    causal.insert(causal.end(), {"--causal", "bottom-right"});
    for (const std::string descr : {"<i4", "<i8"}) {
        given({1, 4, 12, 8}, {1, 2, 20, 8}, {1, 2, 20, 6});
        givenOffsets({0, 3, 3, 12}, {0, 9, 15, 20}, descr); // the second sequence has keys alone
        EXPECT_EQ(check(ragged).err, "");
        reference.causal = true;
        check(causal);
        givenOffsets({0, 7, 9, 12}, {0, 2, 2, 20}, descr); // the second sequence has queries alone
        check(causal);
        reference.causal = false;
        given({4, 12, 8}, {4, 20, 8}, {4, 20, 6}, {.descr = "<f2"}, {.fortran = true});
        check(ragged, "<f2");
        given({12, 8}, {20, 8}, {20, 6});
        check(ragged);
        EXPECT_EQ(readNpy(file("w.npy")).shape, (std::vector<size_t>{3, 1, 7, 18}));
    }
    // One file for both.
    given({2, 12, 8}, {2, 12, 8}, {2, 12, 6});
    givenOffsets({0, 5, 12}, {0, 5, 12});
    check({"--cu-seqlens-q", "cq.npy", "--cu-seqlens-k", "cq.npy"});
}

TEST_F(RunTest, raggedRowsOfNoSequenceAreZero) {
    given({2, 12, 8}, {2, 20, 8}, {2, 20, 6});
    givenOffsets({2, 6, 11}, {1, 9, 17});
    const Outcome outcome = check({"--cu-seqlens-q", "cq.npy", "--cu-seqlens-k", "ck.npy"});
    EXPECT_TRUE(contains(outcome.err, "note: cq.npy: 3 of the 12 query tokens belong to no sequence: their rows of the result are 0\n"))
        << outcome.err;
    EXPECT_TRUE(contains(outcome.err, "note: ck.npy: 4 of the 20 key tokens belong to no sequence: no query sees them\n")) << outcome.err;
    givenOffsets({4, 4, 4}, {0, 20, 20});
    check({"--cu-seqlens-q", "cq.npy", "--cu-seqlens-k", "ck.npy"});
    givenOffsets({0, 12}, {20, 20});
    check({"--cu-seqlens-q", "cq.npy", "--cu-seqlens-k", "ck.npy"});
    given({2, 0, 8}, {2, 0, 8}, {2, 0, 6});
    givenOffsets({0, 0, 0}, {0, 0, 0});
    check({"--cu-seqlens-q", "cq.npy", "--cu-seqlens-k", "ck.npy"});
}

TEST_F(RunTest, raggedMasksAndBiasesCountSequences) {
    given({2, 12, 8}, {2, 80, 8}, {2, 80, 6});
    givenOffsets({0, 7, 12}, {0, 40, 80});
    for (const std::vector<size_t> &shape : std::vector<std::vector<size_t>>{{2, 2, 7, 40}, {2, 1, 1, 40}, {7, 40}, {2, 1, 7, 1}}) {
        reference.bias = randomArray(random, shape);
        writeNpy(file("b.npy"), *reference.bias);
        givenBits({2, 1, 7}, 40);
        check({"--cu-seqlens-q", "cq.npy", "--cu-seqlens-k", "ck.npy", "--bias", "b.npy", "--bitmask", "bits.npy"});
    }
}

TEST_F(RunTest, documents) {
    for (const std::string descr : {"<i4", "<i8", "<u4"})
        for (const bool fortran : {false, true}) {
            const NpyOptions npy{.descr = descr, .fortran = fortran};
            given({2, 3, 6, 8}, {2, 3, 9, 8}, {2, 3, 9, 5});
            givenDocuments({2, 6}, {2, 9}, npy);
            check({"--doc-ids-q", "dq.npy", "--doc-ids-k", "dk.npy"});
            givenDocuments({6}, {1, 9}, npy); // one row for both batch entries
            check({"--doc-ids-q", "dq.npy", "--doc-ids-k", "dk.npy"});
            givenDocuments({2, 6}, {9}, npy);
            reference.causal = true;
            check({"--doc-ids-q", "dq.npy", "--doc-ids-k", "dk.npy", "--causal", "bottom-right"});
            reference.causal = false;
        }
    // The tokens of a ragged batch, wherever its sequences lie.
    given({3, 12, 8}, {3, 20, 8}, {3, 20, 6});
    givenOffsets({1, 6, 12}, {0, 9, 20});
    givenDocuments({12}, {20});
    check({"--doc-ids-q", "dq.npy", "--doc-ids-k", "dk.npy", "--cu-seqlens-q", "cq.npy", "--cu-seqlens-k", "ck.npy"});
}

TEST_F(RunTest, roundTo) {
    for (const bool half : {true, false})
        for (const std::string descr : {"<f2", "<f4", "<f8"}) {
            const NpyOptions npy{.descr = descr, .fortran = true};
            given({2, 5, 8}, {2, 7, 8}, {2, 7, 6}, npy, {}, npy);
            for (Array *array : {&q, &k, &v}) *array = half ? rounded(*array, {.descr = "<f2"}) : roundedToBfloat16(*array);
            // The result is as the queries' file, however they are rounded.
            const std::string own = descr == "<f2" ? "<f2" : "<f4";
            const Outcome outcome = check({"--round-to", half ? "f16" : "bf16", "--json"}, own);
            EXPECT_EQ(outcome.err, "");
            EXPECT_EQ(Json::parse(outcome.out)["options"]["roundTo"], half ? "f16" : "bf16");
        }
}

// With one key the result is its value.
TEST_F(RunTest, roundToIsToNearestEvenAndOnce) {
    const auto result = [&](const std::string &to, const std::vector<double> &values, const std::string &descr = "<f8") {
        given({1, 2}, {1, 2}, {1, values.size()});
        writeNpy(file("v.npy"), Array{{1, values.size()}, values}, {.descr = descr});
        const Outcome outcome = tool(onCpu({"--round-to", to}));
        EXPECT_EQ(outcome.status, 0) << outcome.err;
        EXPECT_EQ(contains(outcome.err, "v.npy"), contains(outcome.err, "v.npy: float64 rounded to")) << outcome.err;
        return readNpy(file("o.npy")).values;
    };
    EXPECT_EQ(result("f16", {1 + 0x1p-11, 1 + 3 * 0x1p-11, 1 + 0x1p-11 + 0x1p-40, 65519, -65520, 0x1p-25, 3 * 0x1p-25}),
              (std::vector<double>{1, 1 + 2 * 0x1p-10, 1 + 0x1p-10, 65504, -INFINITY, 0, 0x1p-23}));
    EXPECT_EQ(result("bf16", {1 + 0x1p-8, -1 - 3 * 0x1p-8, 1 + 0x1p-8 + 0x1p-40, 0x1.fefffp127, 1e300, 1e-30, 0.1}),
              roundedToBfloat16({{7}, {1, -1 - 0x1p-6, 1 + 0x1p-7, 0x1.fep127, INFINITY, 1e-30, 0.1}}).values);
    // Just beside the middle of two neighbours, where float32 has the middle alone: rounding to
    // that first would end elsewhere.
    constexpr double bit = 0x1p-45;
    EXPECT_EQ(result("f16", {-1 - 0x1p-11 - bit, 1 + 3 * 0x1p-11 - bit, 65520 - 0x1p-20, 65520 + 0x1p-20, 0x1p-25 + 0x1p-70,
                             3 * 0x1p-25 - 0x1p-70, 0x1p-25 - 0x1p-70}),
              (std::vector<double>{-1 - 0x1p-10, 1 + 0x1p-10, 65504, INFINITY, 0x1p-24, 0x1p-24, 0}));
    EXPECT_EQ(result("bf16", {-1 - 0x1p-8 - bit, 1 + 3 * 0x1p-8 - bit, 0x1.ffp127 - 0x1p80, -0x1.ffp127, 0x1p-134 + 0x1p-180,
                              3 * 0x1p-134 - 0x1p-180}),
              (std::vector<double>{-1 - 0x1p-7, 1 + 0x1p-7, 0x1.fep127, -INFINITY, 0x1p-133, 0x1p-133}));
    EXPECT_EQ(result("bf16", {65504, 0x1p-24}, "<f2"), (std::vector<double>{65536, 0x1p-24}));
    given({1, 2}, {1, 2}, {1, 3});
    writeNpy(file("v.npy"), Array{{1, 3}, {1e5, -1e5, 3}});
    EXPECT_TRUE(contains(tool(onCpu({"--round-to", "f16"})).err,
                         "note: v.npy: float32 rounded to float16; 2 values beyond its range became infinite\n"));
}

TEST_F(RunTest, outDtype) {
    given({2, 5, 8}, {2, 7, 8}, {2, 7, 6}, {.descr = "<f2"});
    check({}, "<f2");
    check({"--out-dtype", "f32"}, "<f4");
    given({2, 5, 8}, {2, 7, 8}, {2, 7, 6});
    check({"--out-dtype", "f16"}, "<f2");
    outUnit = 0x1p-8;
    check({"--out-dtype", "bf16"}, "<f4"); // .npy has no bfloat16
    const Array out = readNpy(file("o.npy"));
    EXPECT_EQ(out.values, roundedToBfloat16(out).values);
}

TEST_F(RunTest, deterministicAndKernelsChangeNothingOnTheCpu) {
    given({2, 5, 8}, {2, 7, 8}, {2, 7, 6});
    check();
    const std::string expected = readBytes(file("o.npy"));
    for (const std::string kernel : {"auto", "staged", "flash", "decode"}) {
        const Outcome outcome = check({"--deterministic", "--kernel", kernel});
        EXPECT_EQ(contains(outcome.err, "note: --kernel " + kernel), kernel != "auto");
        EXPECT_EQ(readBytes(file("o.npy")), expected);
    }
}

TEST_F(RunTest, valuesInKeys) {
    for (const char *descr : {"<f4", "<f2"}) {
        given({4, 5, 10}, {2, 7, 10}, {2, 7, 6}, {}, {.descr = descr});
        // The reference has them as an array, and the tool is not told of one.
        for (size_t row = 0; row < 2 * 7; row++)
            std::copy_n(k.values.begin() + static_cast<long>(10 * row), 6, v.values.begin() + static_cast<long>(6 * row));
        std::filesystem::remove(file("v.npy"));
        Arguments arguments = command({"--values-in-keys", "6", "--json", "--causal", "bottom-right"});
        const auto at = std::find(arguments.begin(), arguments.end(), "--v");
        arguments.erase(at, at + 2);
        reference.causal = true;
        const Outcome outcome = tool(arguments);
        ASSERT_EQ(outcome.status, 0) << outcome.err;
        EXPECT_EQ(Json::parse(outcome.out)["options"]["valuesInKeys"], 6);
        compare("<f4");
    }
}

TEST_F(RunTest, repeatedRunsComputeTheSame) {
    given({2, 12, 8}, {2, 20, 8}, {2, 20, 6});
    givenOffsets({2, 6, 11}, {1, 9, 17});
    givenSinks(2);
    const Outcome outcome =
        check({"--cu-seqlens-q", "cq.npy", "--cu-seqlens-k", "ck.npy", "--sinks", "sinks.npy", "--repeat", "3", "--json"});
    EXPECT_EQ(Json::parse(outcome.out)["repeat"], 3);
}

TEST_F(RunTest, reportsListTheOptionsInUse) {
    given({2, 12, 8}, {2, 20, 8}, {2, 20, 6});
    Outcome outcome = check({"--json"});
    EXPECT_EQ(Json::parse(outcome.out)["options"], Json::object());
    EXPECT_FALSE(contains(check().out, "options"));

    givenOffsets({0, 7, 12}, {0, 9, 20});
    givenDocuments({12}, {20});
    givenBits({1}, 11);
    givenAlibi(2);
    givenSinks(2);
    reference.bias = randomArray(random, {1, 1});
    writeNpy(file("b.npy"), *reference.bias);
    reference.window = true, reference.left = 3, reference.right = -1;
    reference.scale = 0.5, reference.softcap = 2.5;
    const Arguments all = {"--cu-seqlens-q", "cq.npy",   "--cu-seqlens-k", "ck.npy",    "--doc-ids-q", "dq.npy",    "--doc-ids-k", "dk.npy",
                           "--bitmask",      "bits.npy", "--alibi",        "alibi.npy", "--sinks",     "sinks.npy", "--bias",      "b.npy",
                           "--window",       "3,-1",     "--scale",        "0.5",       "--softcap",   "2.5",       "--kernel",    "staged",
                           "--out-dtype",    "f32",      "--deterministic"};
    Arguments json = all;
    json.push_back("--json");
    const Json report = Json::parse(check(json).out);
    EXPECT_EQ(report["options"], Json({{"kernel", "staged"},
                                       {"outDtype", "f32"},
                                       {"window", {3, -1}},
                                       {"align", "bottom-right"},
                                       {"scale", 0.5},
                                       {"softcap", 2.5},
                                       {"bitmask", true},
                                       {"bias", true},
                                       {"alibi", true},
                                       {"sinks", true},
                                       {"sequences", 2},
                                       {"maxSeqQ", 7},
                                       {"maxSeqK", 11},
                                       {"documents", true},
                                       {"deterministic", true}}));
    EXPECT_EQ(report["shapes"]["cuSeqlensQ"], (std::vector<int>{3}));
    EXPECT_EQ(report["shapes"]["bitmask"], (std::vector<int>{1, 1}));
    EXPECT_EQ(report["dtypes"]["docIdsK"], "int32");
    EXPECT_EQ(report["shapes"]["weights"], (std::vector<int>{2, 2, 7, 11}));
    EXPECT_EQ(report["verify"]["passed"], true);
    outcome = check(all);
    EXPECT_TRUE(contains(outcome.out, "options   kernel staged, outDtype f32, window 3,-1, align bottom-right, scale 0.5, softcap 2.5, "
                                      "bitmask, bias, alibi, sinks, sequences 2, maxSeqQ 7, maxSeqK 11, documents, deterministic\n"))
        << outcome.out;
    EXPECT_TRUE(contains(outcome.out, "read      cq.npy (3,) int32\n")) << outcome.out;
}

} // namespace
