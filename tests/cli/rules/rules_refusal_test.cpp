// What `vkattn run` says of rules of visibility that cannot be.
#include "cli/run/run_fixture.hpp"

namespace {

class RulesRefusal : public CliTest {
  protected:
    RulesRefusal() {
        write("q.npy", {2, 4, 16, 8}, "<f4");
        write("k.npy", {2, 2, 16, 8}, "<f4");
        write("v.npy", {2, 2, 16, 8}, "<f4");
    }
    void write(const std::string &name, const std::vector<size_t> &shape, const std::string &descr) const {
        writeNpy(file(name), Array{shape, std::vector<double>(Array::count(shape))}, {.descr = descr});
    }
    void refused(const Arguments &more, const std::vector<std::string> &words) const { expectRefused(tool(onCpu(more)), words); }
};

// Said before any file is looked at: those of the rules do not exist.
TEST_F(RulesRefusal, optionsThatNeedOthers) {
    refused({"--dilation", "2"}, {"--dilation is given without --window", "add --window"});
    refused({"--global-tokens", "g.npy"}, {"--global-tokens is given without --window", "add --window"});
    refused({"--prefix-lengths", "p.npy"}, {"--prefix-lengths is given without --causal", "add --causal"});
    refused({"--border", "cut"}, {"--border is given without --neighbourhood", "add --neighbourhood"});
    refused({"--window", "2,2", "--align", "top-left", "--query-offset", "3"}, {"--align and --query-offset are both given"});
    refused({"--window", "2,2", "--align", "top-left", "--key-offset", "o.npy"}, {"--align and --key-offset are both given"});
    for (const char *number : {"268435457", "-268435457", "1-1", "1.5", "99999999999999999999"})
        refused({"--query-offset", number}, {"--query-offset", "a whole number of tokens from -268435456 to 268435456", number});
    refused({"--windows", "4x4:2", "--border", "cut"}, {"--border is given without --neighbourhood"});
    refused({"--block-mask", "m.npy"}, {"--block-mask is given without --block-size", "add --block-size"});
    refused({"--block-size", "4,4"}, {"--block-size is given without --block-mask", "add --block-mask"});
    refused({"--bigbird", "4,1,0", "--block-size", "4,4"}, {"--block-size is given without --block-mask"});
}

TEST_F(RulesRefusal, secondProjections) {
    write("g.npy", {2, 16}, "|b1");
    const auto with = [](Arguments more) {
        Arguments all = {"--window", "1,1",        "--global-tokens", "g.npy",      "--q-global",
                         "q.npy",    "--k-global", "k.npy",           "--v-global", "v.npy"};
        all.insert(all.end(), more.begin(), more.end());
        return all;
    };
    refused({"--q-global", "q.npy"}, {"--k-global is not given beside the other second projections", "expected all three"});
    refused({"--q-global", "q.npy", "--k-global", "k.npy", "--v-global", "v.npy"}, {"--q-global is given without --global-tokens"});
    refused(with({"--weights", "w.npy"}), {"--q-global and --weights are both given"});
    refused(with({"--dropout", "0.5"}), {"--q-global and --dropout are both given"});
    refused({"--window", "1,1", "--global-tokens", "g.npy", "--q-global", "k.npy", "--k-global", "k.npy", "--v-global", "v.npy"},
            {"shapes disagree: k.npy (2, 2, 16, 8)", "of --q-global"});
    refused({"--window", "1,1", "--global-tokens", "g.npy", "--q-global", "none.npy", "--k-global", "k.npy", "--v-global", "v.npy"},
            {"none.npy"});
}

TEST_F(RulesRefusal, optionsThatContradictEachOther) {
    refused({"--bigbird", "4,1,0", "--block-mask", "m.npy", "--block-size", "4,4"},
            {"--bigbird and --block-mask are both given", "expected one of them"});
    refused({"--neighbourhood", "4x4:3", "--windows", "4x4:2"}, {"--neighbourhood and --windows are both given", "expected one of them"});
}

TEST_F(RulesRefusal, dilationAndBorder) {
    for (const std::string value : {"0", "-1", "1.5", "x", "2x", "1048577", "4294967297"})
        refused({"--window", "1,1", "--dilation=" + value}, {"--dilation takes a whole number from 1 to 1048576, not '" + value + "'"});
    refused({"--neighbourhood", "4x4:3", "--border", "wrap"}, {"--border takes clamp or cut, not 'wrap'"});
}

TEST_F(RulesRefusal, textsOfGrids) {
    for (const std::string value : {"4x",     "4x4",   "4x4:",  "0x4:3",   "4x0:3",     "4x4:0",   "4x4:3x", "4x4:x3",        "4x4:3x3x3",
                                    "16:3",   "x:3",   ":3",    "4x4x1x1", "4x4x1x1:3", "4x4:a",   "ax4:3",  "4X4:3",         "-4x4:3",
                                    "4x4:-3", "4,4:3", "4x4;3", "4 x4:3",  "4x4:1.5",   "4x4:3::", "4x4:3:", "4294967296x4:3"}) {
        refused({"--neighbourhood=" + value}, {"--neighbourhood takes ROWSxCOLUMNS:SIZE", "like 64x64:7, not '" + value + "'"});
        refused({"--windows=" + value}, {"--windows takes ROWSxCOLUMNS:SIZE or ROWSxCOLUMNS:SIZE:SHIFT", "not '" + value + "'"});
    }
    refused({"--neighbourhood=4x4:3:1"}, {"--neighbourhood takes", "not '4x4:3:1'"});
    for (const std::string value : {"4x4:2:-1", "4x4:2:x", "4x4:2:1:1", "4x4:2:1x1", "4x4:2:1.5"})
        refused({"--windows=" + value}, {"--windows takes", "SIZE:SHIFT", "not '" + value + "'"});
}

TEST_F(RulesRefusal, sizesOfGrids) {
    for (const std::string value : {"4x4:2", "4x4:3x2", "4x4:2x3", "1x4x4:1x3x2"})
        refused({"--neighbourhood", value}, {"--neighbourhood " + value + ": a size of 2, expected an odd number"});
    refused({"--neighbourhood", "4x4:4", "--border", "cut"}, {"a size of 4, expected an odd number"});
    refused({"--neighbourhood", "4x4:5"}, {"--neighbourhood: a size of 5 in 4 rows, expected at most as many", "--border cut"});
    refused({"--neighbourhood", "2x8:1x9"}, {"--neighbourhood: a size of 9 in 8 columns, expected at most as many"});
    refused({"--neighbourhood", "2x2x4:3x1x1", "--border", "clamp"}, {"--neighbourhood: a size of 3 in 2 planes"});
    for (const std::string value : {"4x4:2:2", "4x4:2:7", "4x4:3x2:2"})
        refused({"--windows", value}, {"--windows " + value + ": a shift of ", "expected less than the size of a window, 2"});
    refused({"--windows", "4x4:1:1"}, {"a shift of 1, expected less than the size of a window, 1"});
}

TEST_F(RulesRefusal, gridsOfOtherTokens) {
    for (const std::string extents : {"4x5", "3x5", "1x1", "2x2x3", "65536x65536", "4294967295x4294967295x4294967295"}) {
        const std::vector<std::string> expected = {": a grid of " + extents +
                                                   " tokens, expected as many as the 16 keys of k.npy (2, 2, 16, 8)"};
        refused({"--neighbourhood", extents + ":1"}, expected);
        refused({"--windows", extents + ":2"}, expected);
    }
    refused({"--neighbourhood", "4x5:3"}, {"--neighbourhood: a grid"});
    refused({"--windows", "4x5:2"}, {"--windows: a grid"});
    write("q.npy", {4, 16, 8}, "<f4"), write("k.npy", {2, 16, 8}, "<f4"), write("v.npy", {2, 16, 8}, "<f4");
    writeNpy(file("c.npy"), Array{{3}, {0, 6, 16}}, {.descr = "<i4"});
    refused({"--cu-seqlens-q", "c.npy", "--cu-seqlens-k", "c.npy", "--windows", "4x4:2"},
            {"--windows: a grid of 4x4 tokens, expected as many as the 10 keys of the longest sequence"});
}

TEST_F(RulesRefusal, bigBird) {
    for (const std::string value : {"64", "64,3", "64,3,0,0", "64,65,0", "0,3,0", "-4,3,0", "64,-1,0", "64,3,-1",
                                    "64,3,18446744073709551616", "4294967296,3,0", "a,b,c", "64,,0", ",3,0", "64,3,", "64x3x0", "64, 3,0"})
        refused({"--bigbird=" + value}, {"--bigbird takes BLOCK,RANDOM,SEED", "random blocks of a row (0 to 64)", "not '" + value + "'"});
    write("k.npy", {2, 2, 20, 8}, "<f4"), write("v.npy", {2, 2, 20, 8}, "<f4");
    refused({"--bigbird", "4,1,0"}, {"--bigbird: 16 queries and 20 keys of q.npy (2, 4, 16, 8) float32 and k.npy (2, 2, 20, 8) float32",
                                     "expected as many queries as keys"});
}

TEST_F(RulesRefusal, blockMasks) {
    const auto refusedMask = [&](const std::string &size, const std::vector<std::string> &words) {
        refused({"--block-mask", "m.npy", "--block-size=" + size}, words);
    };
    write("m.npy", {4, 4}, "|b1");
    for (const std::string value : {"4", "4,", ",4", "0,4", "4,0", "4,4,4", "a,4", "4x4", "-4,4", "4, 4", "4294967296,4"})
        refusedMask(value, {"--block-size takes QUERIES,KEYS of a block, each at least 1", "not '" + value + "'"});
    for (const std::vector<size_t> &shape :
         std::vector<std::vector<size_t>>{{}, {3}, {4, 4}, {6, 3}, {3, 5}, {2, 3, 6}, {2, 4, 3, 6}, {0, 3, 6}, {1, 1, 3, 6}, {4, 6, 3}}) {
        write("m.npy", shape, "|b1");
        refusedMask("7,3", {"m.npy (", "expected a flag for each block of 7 queries and 3 keys, shape (3, 6)",
                            "or one for each head too, shape (4, 3, 6)"});
    }
    for (const std::string descr : {"<f4", "<i4", "|i1", "<u4"}) {
        write("m.npy", {4, 4}, descr);
        refusedMask("4,4", {"m.npy: it holds ", "--block-mask takes bool or uint8", "array != 0"});
    }
    writeNpy(file("m.npy"), Array{{4, 4}, std::vector<double>(16)}, {.descr = "|b1", .fortran = true});
    refusedMask("4,4", {"m.npy: it is in Fortran order, but --block-mask takes C order", "np.ascontiguousarray"});
    refused({"--block-mask", "none.npy", "--block-size", "4,4"}, {"none.npy"});
}

TEST_F(RulesRefusal, globalTokens) {
    const Arguments global = {"--window", "1,1", "--global-tokens", "g.npy"};
    for (const std::vector<size_t> &shape :
         std::vector<std::vector<size_t>>{{}, {1}, {15}, {17}, {0}, {3, 16}, {16, 2}, {2, 1, 16}, {1, 1, 16}}) {
        write("g.npy", shape, "|b1");
        refused(global, {"g.npy (", "expected one flag for each token, shape (16,) or (2, 16)"});
    }
    for (const std::string descr : {"<f4", "<i4", "<i8", "|i1"}) {
        write("g.npy", {2, 16}, descr);
        refused(global, {"g.npy: it holds ", "--global-tokens takes bool or uint8", "array != 0"});
    }
}

TEST_F(RulesRefusal, offsets) {
    for (const std::string option : {"--query-offset", "--key-offset"}) {
        const Arguments offsets = {"--causal", "bottom-right", option, "offsets.npy"};
        for (const std::vector<size_t> &shape : std::vector<std::vector<size_t>>{{}, {1}, {3}, {0}, {2, 1}, {1, 2}}) {
            write("offsets.npy", shape, "<i4");
            refused(offsets, {"offsets.npy (", "expected one offset for each batch entry, shape (2,)"});
        }
        for (const std::string descr : {"<f4", "<u4", "|b1", "<i2"}) {
            write("offsets.npy", {2}, descr);
            refused(offsets, {"offsets.npy: it holds ", option + " takes int32 or int64", "np.int32"});
        }
    }
}

TEST_F(RulesRefusal, prefixLengths) {
    const Arguments prefix = {"--causal", "bottom-right", "--prefix-lengths", "p.npy"};
    for (const std::vector<size_t> &shape : std::vector<std::vector<size_t>>{{}, {1}, {3}, {0}, {2, 1}, {1, 2}}) {
        write("p.npy", shape, "<i4");
        refused(prefix, {"p.npy (", "expected one prefix length for each batch entry, shape (2,)"});
    }
    for (const std::string descr : {"<f4", "<u4", "|b1", "<i2"}) {
        write("p.npy", {2}, descr);
        refused(prefix, {"p.npy: it holds ", "--prefix-lengths takes int32 or int64", "np.int32"});
    }
}

} // namespace
