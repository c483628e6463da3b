// `vkattn run --page-table`: keys and values in pools of pages, in both layouts, against the reference with the same
// keys one after the other.
#include "cli/run/run_fixture.hpp"

#include <limits>

namespace {

class PagesRun : public RunTest {
  protected:
    size_t batch = 2, heads = 4, kvHeads = 2, pageTokens = 5, tablePages = 4, poolPages = 11, dims = 12;
    std::vector<double> pages;

    // q.npy, and pools of what the reference has; what no entry has is NaN.
    void givenPools(bool headsFirst, const NpyOptions &npy = {}) {
        const size_t keys = tablePages * pageTokens;
        given({batch, heads, 7, dims}, {batch, kvHeads, keys, dims}, {batch, kvHeads, keys, dims}, npy, npy, npy);
        std::vector<size_t> order(poolPages);
        for (size_t n = 0; n < poolPages; n++) order[n] = n;
        std::shuffle(order.begin(), order.end(), random);
        pages.clear();
        for (size_t n = 0; n < batch * tablePages; n++) pages.push_back(static_cast<double>(order[n]));
        writePool("k.npy", k, headsFirst, npy), writePool("v.npy", v, headsFirst, npy);
        writeTable();
    }
    void writeTable(const std::string &descr = "<i4") { writeNpy(file("t.npy"), Array{{batch, tablePages}, pages}, {.descr = descr}); }

    void refused(const Arguments &options, const std::string &text) const {
        const Outcome outcome = tool(command(options));
        EXPECT_EQ(outcome.status, 2) << text;
        EXPECT_NE(outcome.err.find(text), std::string::npos) << outcome.err;
    }

  private:
    void writePool(const std::string &name, const Array &from, bool headsFirst, const NpyOptions &npy) {
        const size_t first = headsFirst ? kvHeads : pageTokens, second = headsFirst ? pageTokens : kvHeads;
        Array pool{{poolPages, first, second, dims},
                   std::vector<double>(poolPages * first * second * dims, std::numeric_limits<double>::quiet_NaN())};
        for (size_t b = 0; b < batch; b++)
            for (size_t h = 0; h < kvHeads; h++)
                for (size_t j = 0; j < tablePages * pageTokens; j++)
                    for (size_t d = 0; d < dims; d++) {
                        const auto page = static_cast<size_t>(pages[b * tablePages + j / pageTokens]);
                        const size_t token = j % pageTokens, row = headsFirst ? h * pageTokens + token : token * kvHeads + h;
                        pool.values[(page * first * second + row) * dims + d] =
                            from.values[((b * kvHeads + h) * tablePages * pageTokens + j) * dims + d];
                    }
        writeNpy(file(name), pool, npy);
    }
};

TEST_F(PagesRun, readPoolsOfBothLayouts) {
    for (const bool headsFirst : {false, true}) {
        givenPools(headsFirst);
        check({"--page-table", "t.npy", "--page-layout", headsFirst ? "hnd" : "nhd"});
    }
    givenPools(false, {.descr = "<f2"});
    writeTable("<i8");
    check({"--page-table", "t.npy"}, "<f2");
    if (!hasTestedDevice()) return;
    where = {"--device", "0", "--no-fallback"};
    givenPools(false);
    check({"--page-table", "t.npy"});
}

// A mask of the reference says what key lengths and absent pages hide.
TEST_F(PagesRun, hideWhatIsNotThere) {
    givenPools(true);
    const size_t keys = tablePages * pageTokens;
    const std::vector<double> lengths = {13, 18};
    pages[1] = -1, pages[tablePages + 2] = static_cast<double>(poolPages);
    writeTable();
    writeNpy(file("l.npy"), Array{{batch}, lengths}, {.descr = "<i4"});
    Array mask{{batch, 1, 1, keys}, {}};
    for (size_t b = 0; b < batch; b++)
        for (size_t j = 0; j < keys; j++) {
            const double page = pages[b * tablePages + j / pageTokens];
            mask.values.push_back(page >= 0 && page < static_cast<double>(poolPages) && static_cast<double>(j) < lengths[b] ? 1 : 0);
        }
    reference.mask = mask;
    wantsWeights = false;
    const Arguments options = {"--page-table", "t.npy", "--page-layout", "hnd", "--kv-lengths", "l.npy"};
    EXPECT_NE(check(options).err.find("t.npy: 1 of 8 pages lie past the 11 of the pool and count as absent, first 11"), std::string::npos);
    if (!hasTestedDevice()) return;
    where = {"--device", "0", "--no-fallback"};
    check(options);
}

// FlashInfer's three arrays, of entries that do not have as many pages as others.
TEST_F(PagesRun, readPagesInCsr) {
    givenPools(false);
    const size_t keys = tablePages * pageTokens;
    const std::vector<double> lengths = {12, 20};
    writeNpy(file("indptr.npy"), Array{{3}, {0, 3, 7}}, {.descr = "<i4"});
    writeNpy(file("indices.npy"), Array{{7}, {pages[0], pages[1], pages[2], pages[4], pages[5], pages[6], pages[7]}}, {.descr = "<i8"});
    writeNpy(file("last.npy"), Array{{2}, {2, 5}}, {.descr = "<i4"});
    Array mask{{batch, 1, 1, keys}, {}};
    for (size_t b = 0; b < batch; b++)
        for (size_t j = 0; j < keys; j++) mask.values.push_back(static_cast<double>(j) < lengths[b] ? 1 : 0);
    reference.mask = mask;
    wantsWeights = false;
    const Arguments options = {"--page-indptr", "indptr.npy", "--page-indices", "indices.npy", "--last-page-lengths", "last.npy"};
    check(options);
    if (hasTestedDevice()) {
        where = {"--device", "0", "--no-fallback"};
        check(options);
    }
    refused({"--page-indptr", "indptr.npy"}, "pages in CSR take three files");
    Arguments both = options;
    both.insert(both.end(), {"--kv-lengths", "last.npy"});
    refused(both, "both say how many keys a batch entry has");
    writeNpy(file("indptr.npy"), Array{{2}, {0, 3}}, {.descr = "<i4"});
    refused(options, "shape (3,)");
}

TEST_F(PagesRun, saysWhatIsWrong) {
    givenPools(false);
    refused({"--page-layout", "hnd"}, "add --page-table");
    refused({"--page-table", "t.npy", "--page-layout", "hdn"}, "--page-layout takes nhd or hnd");
    writeNpy(file("t.npy"), Array{{3, 2}, std::vector<double>(6)}, {.descr = "<i4"});
    refused({"--page-table", "t.npy"}, "shape (2, pages)");
    writeNpy(file("t.npy"), Array{{2, 2}, std::vector<double>(4)}, {.descr = "<f4"});
    refused({"--page-table", "t.npy"}, "int32 or int64");
    writeTable();
    writeNpy(file("k.npy"), randomArray(random, {poolPages, pageTokens, dims}));
    refused({"--page-table", "t.npy"}, "a pool of pages has 4 dimensions, [page, token, head, dim]");
    writeNpy(file("k.npy"), Array{{0, pageTokens, kvHeads, dims}, {}});
    refused({"--page-table", "t.npy"}, "a pool of no pages, expected at least 1, [page, token, head, dim]");
}

} // namespace
